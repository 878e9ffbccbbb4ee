//! SNDlib's XML [Orlowski, Pióro, Tomaszewski, Wessäly 2010]: networks are undirected, unless the reader knows better.

use std::collections::BTreeMap;

use roxmltree::Node as Element;

use crate::format::draft::{DraftLink, DraftNode};
use crate::format::graphml::{escape, parse};
use crate::format::{Draft, Fault};
use crate::topology::Topology;

pub(super) fn read(text: &str) -> Result<Draft, Fault> {
    let document = parse(text)?;
    let structure = document.descendants().find(|element| element.has_tag_name("networkStructure"));
    let structure =
        structure.ok_or_else(|| Fault::expected(text.len(), "network", "an element networkStructure"))?;
    let mut draft = Draft::default();
    for element in structure.descendants() {
        let place = element.range().start;
        if element.has_tag_name("node") {
            let name = format!("node {}", draft.nodes.len());
            let id =
                element.attribute("id").ok_or_else(|| Fault::expected(place, name, "an attribute id"))?;
            let number =
                |name: &str| text_of(&element, &["coordinates", name]).and_then(|text| text.parse().ok());
            draft.nodes.push(DraftNode {
                place: place.into(),
                id: id.into(),
                label: None,
                x: number("x"),
                y: number("y"),
            });
        } else if element.has_tag_name("link") {
            draft.links.push(link(&element, place, draft.links.len())?);
        }
    }
    Ok(draft)
}

fn link(element: &Element<'_, '_>, place: usize, index: usize) -> Result<DraftLink, Fault> {
    let end = |name, what| match text_of(element, &[name]) {
        Some(id) => Ok(id.to_string()),
        None => Err(Fault::expected(place, format!("link {index}"), what)),
    };
    let (from, to) = (end("source", "an element source")?, end("target", "an element target")?);
    let attributes: BTreeMap<String, String> = [
        ("pre_installed_capacity", ["preInstalledModule", "capacity"].as_slice()),
        ("module_capacity", &["additionalModules", "addModule", "capacity"]),
    ]
    .into_iter()
    .filter_map(|(name, path)| Some((name.to_string(), text_of(element, path)?.to_string())))
    .collect();
    let id = element.attribute("id").map(str::to_string);
    Ok(DraftLink { place: place.into(), from, to, id, directed: None, attributes })
}

/// The text of the first element at the end of a path.
fn text_of<'t>(element: &Element<'t, '_>, path: &[&str]) -> Option<&'t str> {
    let mut here = *element;
    for name in path {
        here = here.children().find(|child| child.has_tag_name(*name))?;
    }
    here.text().map(str::trim)
}

pub(super) fn write(topology: &Topology) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n");
    out +=
        "<network xmlns=\"http://sndlib.zib.de/network\" version=\"1.0\">\n <networkStructure>\n  <nodes>\n";
    for (_, node) in topology.nodes() {
        out += &format!("   <node id=\"{}\">\n", escape(&node.id));
        if let Some(position) = node.position {
            let (x, y) = (position.x, position.y);
            out += &format!("    <coordinates>\n     <x>{x}</x>\n     <y>{y}</y>\n    </coordinates>\n");
        }
        out += "   </node>\n";
    }
    out += "  </nodes>\n  <links>\n";
    for (id, from, to, link) in topology.links() {
        let name = |node| escape(&topology.node_weight(node).id);
        let id = link.id.clone().unwrap_or_else(|| format!("L{}", id.0));
        out += &format!("   <link id=\"{}\">\n    <source>{}</source>\n", escape(&id), name(from));
        out += &format!("    <target>{}</target>\n    <preInstalledModule>\n", name(to));
        out += &format!(
            "     <capacity>{}</capacity>\n     <cost>0</cost>\n    </preInstalledModule>\n",
            link.capacity
        );
        out += "   </link>\n";
    }
    out + "  </links>\n </networkStructure>\n</network>\n"
}
