//! networkx's node-link JSON: `{"directed", "multigraph", "graph", "nodes": […], "links" or "edges": […]}`.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::format::attributes::Attributes;
use crate::format::draft::{DraftLink, DraftNode, attributes};
use crate::format::fault::offset_in;
use crate::format::{Draft, Fault};
use crate::topology::{Orientation, Topology};

/// The parts of the file, of which the elements are kept as text, so that an error can name their lines.
#[derive(serde::Deserialize)]
struct File<'t> {
    #[serde(default)]
    directed: bool,
    #[serde(default)]
    graph: Value,
    #[serde(borrow)]
    nodes: Vec<&'t RawValue>,
    #[serde(borrow, alias = "edges")]
    links: Vec<&'t RawValue>,
}

pub(super) fn read(text: &str) -> Result<Draft, Fault> {
    let file: File<'_> = serde_json::from_str(text).map_err(|error| Fault::of_json(&error))?;
    let name = file.graph.get("name").and_then(Value::as_str).unwrap_or_default();
    let mut draft = Draft { directed: file.directed, name: name.into(), ..Draft::default() };
    for (index, raw) in file.nodes.iter().enumerate() {
        draft.nodes.push(node(object(text, raw, "node", index)?, index)?);
    }
    for (index, raw) in file.links.iter().enumerate() {
        draft.links.push(link(object(text, raw, "link", index)?, index)?);
    }
    Ok(draft)
}

/// An element's fields with its place.
fn object(
    text: &str,
    raw: &RawValue,
    kind: &str,
    index: usize,
) -> Result<(usize, Map<String, Value>), Fault> {
    // The raw text is a slice of the file's.
    let place = offset_in(text, raw.get());
    let fields = serde_json::from_str(raw.get());
    fields
        .map(|fields| (place, fields))
        .map_err(|_| Fault::expected(place, format!("{kind} {index}"), "an object"))
}

/// A name: a string or a number.
fn name_of(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn node((place, fields): (usize, Map<String, Value>), index: usize) -> Result<DraftNode, Fault> {
    let missing = || Fault::expected(place, format!("node {index}"), "an id, a string or a number");
    let id = name_of(fields.get("id")).ok_or_else(missing)?;
    let label = name_of(fields.get("label")).or_else(|| name_of(fields.get("name")));
    let axis = |axis: usize| fields.get("pos").and_then(|pos| pos.get(axis)).and_then(Value::as_f64);
    Ok(DraftNode { place: place.into(), id, label, x: axis(0), y: axis(1) })
}

fn link((place, mut fields): (usize, Map<String, Value>), index: usize) -> Result<DraftLink, Fault> {
    let mut end = |name: &str, what| {
        let end = name_of(fields.remove(name).as_ref());
        end.ok_or_else(|| Fault::expected(place, format!("link {index}"), what))
    };
    let (from, to) = (end("source", "a source")?, end("target", "a target")?);
    let id = name_of(fields.remove("id").as_ref());
    let attributes: Attributes =
        fields.into_iter().filter_map(|(name, value)| Some((name, name_of(Some(&value))?))).collect();
    Ok(DraftLink { place: place.into(), from, to, id, attributes, ..DraftLink::default() })
}

pub(super) fn write(topology: &Topology) -> String {
    let nodes: Vec<Value> = topology
        .nodes()
        .map(|(_, node)| {
            let mut fields = json!({ "id": node.id });
            if let Some(label) = &node.label {
                fields["label"] = json!(label);
            }
            if let Some(position) = node.position {
                fields["pos"] = json!([position.x, position.y]);
            }
            fields
        })
        .collect();
    let id = |node| &topology.node_weight(node).id;
    let links: Vec<Value> = topology
        .links()
        .map(|(index, from, to, link)| {
            let mut fields = json!({ "source": id(from), "target": id(to), "key": index.0 });
            if let Some(id) = &link.id {
                fields["id"] = json!(id);
            }
            attributes(link).into_iter().for_each(|(name, value)| fields[name] = json!(value));
            fields
        })
        .collect();
    let directed = topology.orientation() == Orientation::Directed;
    let graph = json!({ "name": topology.name() });
    let file =
        json!({ "directed": directed, "multigraph": true, "graph": graph, "nodes": nodes, "links": links });
    format!("{file:#}\n")
}
