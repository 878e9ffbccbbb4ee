//! Rocketfuel's maps of providers (`.cch`): a router a line,
//! `uid @location [+] [bb] (neighbours) [&external] -> <uid> … {-external} … =name rn`. Links between routers of the
//! map stand at both ends and count once; lines of external addresses, which begin with `-`, and links to them are left
//! out.

use std::collections::BTreeMap;

use crate::format::draft::{DraftLink, DraftNode};
use crate::format::lines::{Line, lines};
use crate::format::{Draft, Fault, Problem};
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
    let mut known: BTreeMap<&str, u32> = BTreeMap::new();
    let mut mentions: Vec<Mention<'_>> = Vec::new();
    for line in lines(text, COMMENTS).filter(|line| !line.text.starts_with('-')) {
        let lister = draft.nodes.len() as u32;
        let (uid, label) = router(line, lister, &mut mentions)?;
        known.entry(uid).or_insert(lister);
        let (place, id) = (line.place.into(), uid.into());
        draft.nodes.push(DraftNode { place, id, label: Some(label), ..DraftNode::default() });
    }
    if draft.nodes.is_empty() {
        return Err(Fault::expected(text.trim_end().len(), "end of file", ROUTER));
    }
    draft.links = links(&draft.nodes, &known, &mentions)?;
    Ok(draft)
}

/// That the line of a router lists another one.
struct Mention<'t> {
    place: usize,
    lister: u32,
    other: &'t str,
}

/// The links between two routers are as many as the end says that lists the other one more often. They come in the
/// order in which they stand in the file, those of one line by their names.
fn links(
    nodes: &[DraftNode],
    known: &BTreeMap<&str, u32>,
    mentions: &[Mention<'_>],
) -> Result<Vec<DraftLink>, Fault> {
    let id = |node: u32| nodes[node as usize].id.as_str();
    // The end whose name comes first, the other end, whether it is the other one that lists, and where.
    let mut listed: Vec<(u32, u32, bool, usize)> = Vec::with_capacity(mentions.len());
    for &Mention { place, lister, other } in mentions {
        let Some(&known) = known.get(other) else {
            let problem = Problem::UnknownNode { id: other.into() };
            return Err(Fault::at(place, format!("router {}", id(lister)), problem));
        };
        let is_first = id(lister) <= other;
        let (first, second) = if is_first { (lister, known) } else { (known, lister) };
        listed.push((first, second, !is_first, place));
    }
    listed.sort_unstable();
    let mut links: Vec<(usize, u32, u32)> = Vec::with_capacity(listed.len());
    for pair in listed.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let (there, back) = pair.split_at(pair.partition_point(|mention| !mention.2));
        let more = if there.len() >= back.len() { there } else { back };
        links.extend(more.iter().map(|&(from, to, _, place)| (place, from, to)));
    }
    links.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| (id(a.1), id(a.2)).cmp(&(id(b.1), id(b.2)))));
    let link = |(place, from, to): (usize, u32, u32)| {
        let (from, to) = (id(from).to_string(), id(to).to_string());
        DraftLink { place: place.into(), from, to, ..DraftLink::default() }
    };
    Ok(links.into_iter().map(link).collect())
}

/// The id and the label of a router. The neighbours that its line lists are added to `mentions`.
fn router<'t>(
    line: Line<'t>,
    index: u32,
    mentions: &mut Vec<Mention<'t>>,
) -> Result<(&'t str, String), Fault> {
    let wrong = || line.expected(format!("router {index}"), ROUTER);
    let (head, tail) = line.text.split_once("->").ok_or_else(wrong)?;
    let mut words = head.split_whitespace();
    let uid = words.next().filter(|uid| uid.bytes().all(|byte| byte.is_ascii_digit())).ok_or_else(wrong)?;
    let location = words.next().and_then(|word| word.strip_prefix('@')).ok_or_else(wrong)?;
    let count = words.find_map(|word| word.strip_prefix('(')?.strip_suffix(')')?.parse::<usize>().ok());
    let (before, mut name, mut rank) = (mentions.len(), None, None);
    for word in tail.split_whitespace() {
        if let Some(other) = word.strip_prefix('<').and_then(|word| word.strip_suffix('>')) {
            mentions.push(Mention { place: line.place, lister: index, other });
        } else if let Some(own) = word.strip_prefix('=') {
            name = Some(own.trim_end_matches('!'));
        } else if let Some(hops) = word.strip_prefix('r') {
            rank = hops.parse::<u32>().ok();
        }
    }
    // The number of neighbours, the name and the rank behind it show that the line is whole.
    let (Some(name), Some(_)) = (name, rank) else { return Err(wrong()) };
    if count.ok_or_else(wrong)? != mentions.len() - before {
        return Err(line.expected(format!("router {uid}"), "as many neighbours as the parentheses say"));
    }
    Ok((uid, format!("{name} ({})", location.replace('+', " "))))
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
