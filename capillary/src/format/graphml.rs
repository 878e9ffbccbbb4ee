//! GraphML: nodes and edges with data, whose names stand in `key` elements.

use std::collections::BTreeMap;

use roxmltree::Node as Element;

use crate::format::attributes::Attributes;
use crate::format::draft::{DraftLink, DraftNode, attributes};
use crate::format::{Draft, Fault, xml};
use crate::topology::{Orientation, Topology};

pub(super) fn read(text: &str) -> Result<Draft, Fault> {
    let document = xml::tree(text)?;
    let names = key_names(&document);
    let graph = document.descendants().find(|element| element.has_tag_name("graph"));
    let graph = graph.ok_or_else(|| Fault::expected(text.len(), "graphml", "an element graph"))?;
    let mut draft =
        Draft { directed: graph.attribute("edgedefault") == Some("directed"), ..Draft::default() };
    let mut data = data_of(&graph, &names);
    draft.name = data.remove("Network").or_else(|| data.remove("label")).unwrap_or_default();
    for element in graph.descendants() {
        let place = element.range().start;
        if element.has_tag_name("node") {
            let name = format!("node {}", draft.nodes.len());
            draft.nodes.push(node(&element, place, name, &names)?);
        } else if element.has_tag_name("edge") {
            let name = format!("link {}", draft.links.len());
            draft.links.push(link(&element, place, name, &names)?);
        }
    }
    Ok(draft)
}

fn key_names<'t>(document: &'t roxmltree::Document<'_>) -> BTreeMap<&'t str, &'t str> {
    let keys = document.descendants().filter(|element| element.has_tag_name("key"));
    keys.filter_map(|key| Some((key.attribute("id")?, key.attribute("attr.name")?))).collect()
}

/// The data of an element by their names.
fn data_of(element: &Element<'_, '_>, names: &BTreeMap<&str, &str>) -> Attributes {
    let data = element.children().filter(|child| child.has_tag_name("data"));
    data.filter_map(|data| {
        let key = data.attribute("key")?;
        Some((names.get(key).copied().unwrap_or(key).to_string(), data.text()?.trim().to_string()))
    })
    .collect()
}

fn node(
    element: &Element<'_, '_>,
    place: usize,
    name: String,
    names: &BTreeMap<&str, &str>,
) -> Result<DraftNode, Fault> {
    let id = element.attribute("id").ok_or_else(|| Fault::expected(place, name, "an attribute id"))?;
    let mut data = data_of(element, names);
    let number = |key: &str| data.get(key).and_then(|text| text.parse().ok());
    let (x, y) = (number("Longitude").or(number("x")), number("Latitude").or(number("y")));
    Ok(DraftNode { place: place.into(), id: id.into(), label: data.remove("label"), x, y })
}

fn link(
    element: &Element<'_, '_>,
    place: usize,
    name: String,
    names: &BTreeMap<&str, &str>,
) -> Result<DraftLink, Fault> {
    let end = |attribute, what| match element.attribute(attribute) {
        Some(id) => Ok(id.to_string()),
        None => Err(Fault::expected(place, name.clone(), what)),
    };
    let directed = element.attribute("directed").map(|value| value == "true");
    let mut attributes = data_of(element, names);
    let id = element.attribute("id").map(str::to_string).or_else(|| attributes.remove("id"));
    let (from, to) = (end("source", "an attribute source")?, end("target", "an attribute target")?);
    Ok(DraftLink { place: place.into(), from, to, id, directed, attributes, ..DraftLink::default() })
}

/// Text as XML wants it.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // In attributes these would be read as blanks.
            '\t' => out.push_str("&#9;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            // Other control characters have no place in XML 1.0, not even escaped.
            c if c < ' ' || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

pub(super) fn write(topology: &Topology) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n");
    out += "<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n";
    for (name, of, kind) in [
        ("label", "node", "string"),
        ("x", "node", "double"),
        ("y", "node", "double"),
        ("Network", "graph", "string"),
        ("capacity", "edge", "double"),
        ("delay_ms", "edge", "double"),
        ("loss", "edge", "double"),
    ] {
        out += &format!("  <key id=\"{name}\" for=\"{of}\" attr.name=\"{name}\" attr.type=\"{kind}\"/>\n");
    }
    let default = if topology.orientation() == Orientation::Directed { "directed" } else { "undirected" };
    out += &format!("  <graph edgedefault=\"{default}\">\n");
    out += &datum("    ", "Network", &escape(topology.name()));
    for (_, node) in topology.nodes() {
        out += &format!("    <node id=\"{}\">\n", escape(&node.id));
        out += &datum("      ", "label", &escape(node.name()));
        if let Some(position) = node.position {
            out += &(datum("      ", "x", &position.x.to_string())
                + &datum("      ", "y", &position.y.to_string()));
        }
        out += "    </node>\n";
    }
    for (_, from, to, link) in topology.links() {
        let id = |node| escape(&topology.node_weight(node).id);
        let own = link.id.as_ref().map_or(String::new(), |id| format!(" id=\"{}\"", escape(id)));
        out += &format!("    <edge{own} source=\"{}\" target=\"{}\">\n", id(from), id(to));
        for (name, value) in attributes(link) {
            out += &datum("      ", name, &value.to_string());
        }
        out += "    </edge>\n";
    }
    out + "  </graph>\n</graphml>\n"
}

fn datum(indent: &str, key: &str, value: &str) -> String {
    if value.is_empty() { String::new() } else { format!("{indent}<data key=\"{key}\">{value}</data>\n") }
}
