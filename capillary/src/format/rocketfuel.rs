//! Rocketfuel's maps of providers (`.cch`): a router a line,
//! `uid @location [+] [bb] (neighbours) [&external] -> <uid> … {-external} … =name rn`. Links between routers of the
//! map stand at both ends and count once; lines of external addresses, which begin with `-`, and links to them are left
//! out.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::draft::{DraftLink, DraftNode};
use crate::format::lines::{Line, lines};
use crate::format::{Draft, Fault};
use crate::topology::Topology;

const COMMENTS: &[char] = &['#'];

/// What a line of a router has.
const ROUTER: &str = "a router as 1 @City,+ST bb (2) -> <2> <3> =name r0";

/// Whether a text begins like a map.
pub(super) fn is_one(text: &str) -> bool {
    let first = lines(text, COMMENTS).find(|line| !line.text.starts_with('-'));
    first.is_some_and(|line| line.words().get(1).is_some_and(|word| word.starts_with('@')))
}

pub(super) fn read(text: &str) -> Result<Draft, Fault> {
    let mut draft = Draft::default();
    // How many times each end lists the other one: the links between two routers are as many as the more.
    let mut listed: BTreeMap<(String, String), [Vec<usize>; 2]> = BTreeMap::new();
    for line in lines(text, COMMENTS).filter(|line| !line.text.starts_with('-')) {
        let (node, neighbours) = router(line, draft.nodes.len())?;
        for other in neighbours {
            let is_first = node.id <= other;
            let ends = if is_first { (node.id.clone(), other) } else { (other, node.id.clone()) };
            listed.entry(ends).or_default()[usize::from(!is_first)].push(line.place);
        }
        draft.nodes.push(node);
    }
    if draft.nodes.is_empty() {
        return Err(Fault::expected(text.trim_end().len(), "end of file", ROUTER));
    }
    let known: BTreeSet<&str> = draft.nodes.iter().map(|node| node.id.as_str()).collect();
    for ((from, to), [there, back]) in &listed {
        let places = if there.len() >= back.len() { there } else { back };
        for &place in places {
            if let Some(unknown) = [from, to].into_iter().find(|id| !known.contains(id.as_str())) {
                let problem = crate::format::Problem::UnknownNode { id: unknown.clone() };
                return Err(Fault::at(place, format!("link {}", draft.links.len()), problem));
            }
            let (from, to) = (from.clone(), to.clone());
            draft.links.push(DraftLink { place: place.into(), from, to, ..DraftLink::default() });
        }
    }
    // In the order in which they stand in the file.
    let place = |link: &DraftLink| link.place;
    draft.links.sort_by_key(|link| place(link).offset());
    Ok(draft)
}

/// A router and its neighbours.
fn router(line: Line<'_>, index: usize) -> Result<(DraftNode, Vec<String>), Fault> {
    let wrong = || line.expected(format!("router {index}"), ROUTER);
    let (head, tail) = line.text.split_once("->").ok_or_else(wrong)?;
    let mut words = head.split_whitespace();
    let uid = words.next().filter(|uid| uid.bytes().all(|byte| byte.is_ascii_digit())).ok_or_else(wrong)?;
    let location = words.next().and_then(|word| word.strip_prefix('@')).ok_or_else(wrong)?;
    let count = words.find_map(|word| word.strip_prefix('(')?.strip_suffix(')')?.parse::<usize>().ok());
    let (mut neighbours, mut name, mut rank) = (Vec::new(), None, None);
    for word in tail.split_whitespace() {
        if let Some(other) = word.strip_prefix('<').and_then(|word| word.strip_suffix('>')) {
            neighbours.push(other.to_string());
        } else if let Some(own) = word.strip_prefix('=') {
            name = Some(own.trim_end_matches('!'));
        } else if let Some(hops) = word.strip_prefix('r') {
            rank = hops.parse::<u32>().ok();
        }
    }
    // The number of neighbours, the name and the rank behind it show that the line is whole.
    let (Some(name), Some(_)) = (name, rank) else { return Err(wrong()) };
    if count.ok_or_else(wrong)? != neighbours.len() {
        return Err(line.expected(format!("router {uid}"), "as many neighbours as the parentheses say"));
    }
    let label = Some(format!("{name} ({})", location.replace('+', " ")));
    Ok((DraftNode { place: line.place.into(), id: uid.into(), label, ..DraftNode::default() }, neighbours))
}

/// Nodes are numbers: their positions from 1. A link stands at both ends; a self-loop is left out.
pub(super) fn write(topology: &Topology) -> String {
    let mut neighbours: Vec<Vec<u32>> = vec![Vec::new(); topology.node_count()];
    for (_, from, to, _) in topology.links().filter(|(_, from, to, _)| from != to) {
        neighbours[from.index()].push(to.0 + 1);
        neighbours[to.index()].push(from.0 + 1);
    }
    let word = |text: &str| text.chars().map(|c| if c.is_whitespace() { '+' } else { c }).collect::<String>();
    let mut out = String::new();
    for (id, node) in topology.nodes() {
        let list: String = neighbours[id.index()].iter().map(|other| format!(" <{other}>")).collect();
        let (number, count, name) = (id.0 + 1, neighbours[id.index()].len(), word(node.name()));
        out += &format!("{number} @? ({count}) ->{list} ={name} r0\n");
    }
    out
}
