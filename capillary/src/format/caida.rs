//! CAIDA's AS relationships: `provider|customer|-1` and `peer|peer|0` a line, perhaps with a source behind (serial 2).
//! Links are undirected; their attribute `relationship` is the number.

use crate::format::draft::DraftLink;
use crate::format::lines::{Line, lines};
use crate::format::{Draft, Fault};
use crate::topology::Topology;

const COMMENTS: &[char] = &['#'];

/// Whether a text begins like relationships.
pub(super) fn is_one(text: &str) -> bool {
    lines(text, COMMENTS).next().is_some_and(|line| link(line, 0).is_ok())
}

pub(super) fn read(text: &str) -> Result<Draft, Fault> {
    let mut draft = Draft::default();
    for line in lines(text, COMMENTS) {
        draft.links.push(link(line, draft.links.len())?);
    }
    draft.with_links(text)
}

fn link(line: Line<'_>, index: usize) -> Result<DraftLink, Fault> {
    let columns: Vec<&str> = line.text.split('|').map(str::trim).collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match columns.as_slice() {
        [from, to, relationship @ ("-1" | "0" | "1" | "2"), ..] if is_number(from) && is_number(to) => {
            let attributes = [("relationship", *relationship)].into_iter().collect();
            let (from, to) = ((*from).to_string(), (*to).to_string());
            Ok(DraftLink { place: line.place.into(), from, to, attributes, ..DraftLink::default() })
        }
        _ => Err(line.expected(format!("link {index}"), "two AS numbers and a relationship, as 1|2|-1")),
    }
}

/// Nodes are numbers: their positions, unless their ids are numbers; what links are is not known, so they are peers.
pub(super) fn write(topology: &Topology) -> String {
    let is_number = |id: &String| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    let has_numbers = topology.nodes().all(|(_, node)| is_number(&node.id));
    let name = |node: crate::topology::NodeId| {
        if has_numbers { topology.node_weight(node).id.clone() } else { node.0.to_string() }
    };
    let mut out = String::from("# AS relationships\n");
    for (_, from, to, _) in topology.links() {
        out += &format!("{}|{}|0\n", name(from), name(to));
    }
    out
}
