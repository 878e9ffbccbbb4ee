//! Nodes by what people type.

use thiserror::Error;

use crate::topology::{NodeId, Topology};

/// How many names are suggested for one that is not there.
const SUGGESTIONS: usize = 3;

/// Why a name is no node.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LookupError {
    /// No node has the name.
    #[error("there is no node {name:?}{}", suggested(nearest))]
    Unknown {
        /// The name that was given.
        name: String,
        /// The names that are most like it.
        nearest: Vec<String>,
    },
    /// Several nodes have the label.
    #[error("{} nodes have the label {label:?}: say which with {}", ids.len(), choices(ids))]
    Ambiguous {
        /// The label that was given.
        label: String,
        /// The ids of the nodes that have it.
        ids: Vec<String>,
    },
}

fn suggested(nearest: &[String]) -> String {
    let quoted: Vec<String> = nearest.iter().map(|name| format!("{name:?}")).collect();
    if quoted.is_empty() { String::new() } else { format!("; did you mean {}?", quoted.join(" or ")) }
}

fn choices(ids: &[String]) -> String {
    ids.iter().map(|id| format!("id:{id}")).collect::<Vec<_>>().join(", ")
}

/// The node that a name means: an id if one matches, otherwise a label; `id:X` and `label:X` force one or the other.
///
/// ```
/// use capillary::{Orientation, Topology, find_node};
///
/// let topology = Topology::from_links(Orientation::Directed, [("Seattle", "Denver", 1.0)])?;
/// assert_eq!(find_node(&topology, "id:Denver").ok(), topology.node("Denver"));
/// let error = find_node(&topology, "Seatle").unwrap_err();
/// assert_eq!(error.to_string(), "there is no node \"Seatle\"; did you mean \"Seattle\"?");
/// # Ok::<(), capillary::TopologyError>(())
/// ```
pub fn find_node(topology: &Topology, name: &str) -> Result<NodeId, LookupError> {
    if let Some(id) = name.strip_prefix("id:") {
        return topology.node(id).ok_or_else(|| unknown(topology, id));
    }
    match (name.strip_prefix("label:"), topology.node(name)) {
        (None, Some(node)) => Ok(node),
        (label, _) => find_label(topology, label.unwrap_or(name)),
    }
}

fn find_label(topology: &Topology, label: &str) -> Result<NodeId, LookupError> {
    let labelled: Vec<NodeId> =
        topology.nodes().filter(|(_, node)| node.name() == label).map(|(id, _)| id).collect();
    match labelled.as_slice() {
        [node] => Ok(*node),
        [] => Err(unknown(topology, label)),
        several => {
            let ids = several.iter().map(|&node| topology.node_weight(node).id.clone()).collect();
            Err(LookupError::Ambiguous { label: label.into(), ids })
        }
    }
}

fn unknown(topology: &Topology, name: &str) -> LookupError {
    let names = topology.nodes().flat_map(|(_, node)| [node.id.as_str(), node.name()]);
    let farthest = name.chars().count() / 2;
    let mut near: Vec<(usize, &str)> = names
        .map(|other| (edit_distance(name, other), other))
        .filter(|(distance, _)| *distance <= farthest)
        .collect();
    near.sort_unstable();
    near.dedup();
    let nearest = near.into_iter().take(SUGGESTIONS).map(|(_, name)| name.to_string()).collect();
    LookupError::Unknown { name: name.into(), nearest }
}

/// How many letters must be put in, taken out or changed, whatever their case (Levenshtein).
fn edit_distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for (above, letter) in b.to_lowercase().chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = above + 1;
        for (index, own) in a.iter().enumerate() {
            let changed = diagonal + usize::from(*own != letter);
            diagonal = row[index + 1];
            row[index + 1] = changed.min(row[index] + 1).min(diagonal + 1);
        }
    }
    row[a.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Node, Orientation};

    #[test]
    fn an_id_goes_before_a_label_and_an_ambiguous_label_lists_the_ids() {
        let mut topology = Topology::new(Orientation::Undirected);
        for (id, label) in [("0", "GEANT"), ("1", "GEANT"), ("2", "1")] {
            topology.add_node(Node { label: Some(label.into()), ..Node::new(id) }).unwrap();
        }
        assert_eq!(find_node(&topology, "1"), Ok(NodeId(1)));
        assert_eq!(find_node(&topology, "label:1"), Ok(NodeId(2)));
        let error = find_node(&topology, "GEANT").unwrap_err().to_string();
        assert_eq!(error, "2 nodes have the label \"GEANT\": say which with id:0, id:1");
    }

    #[test]
    fn letters_that_differ_are_counted() {
        assert_eq!(edit_distance("Seatle", "seattle"), 1);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }
}
