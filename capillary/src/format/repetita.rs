//! Repetita's graphs and demands: `NODES n`, a header, `label x y` a line; `EDGES m`, a header, `label src dest weight
//! bw delay`; `DEMANDS k`, a header, `label src dest bw`. Nodes are called by their positions from 0. Of the units
//! its documentation (<https://repetita.info.ucl.ac.be/DataFormat.html>) says: bandwidths may have any, and are in
//! kbit/s in its own files; delays are in microseconds. Every direction of a link is an edge of its own.

use std::time::Duration;

use crate::format::attributes::Attributes;
use crate::format::draft::{DraftLink, DraftNode};
use crate::format::fault::Place;
use crate::format::lines::{Line, lines};
use crate::format::traffic::{Bounds, Entry};
use crate::format::{Draft, Fault};
use crate::topology::{Orientation, Topology};

/// The sections of a graph and of demands, with what a line of each has.
const NODES: Section = Section { name: "NODES", columns: 3, what: "a label, x and y" };
const EDGES: Section =
    Section { name: "EDGES", columns: 6, what: "a label, source, target, weight, bandwidth and delay" };
const DEMANDS: Section =
    Section { name: "DEMANDS", columns: 4, what: "a label, source, target and bandwidth" };

struct Section {
    name: &'static str,
    columns: usize,
    what: &'static str,
}

/// Whether a text begins as a graph or as demands do: with the name and the length of a section.
pub(super) fn is_one(text: &str) -> bool {
    let words = lines(text, &[]).next().map(Line::words).unwrap_or_default();
    matches!(words.as_slice(), ["NODES" | "DEMANDS", count] if count.parse::<usize>().is_ok())
}

pub(super) fn read(text: &str) -> Result<Draft, Fault> {
    let mut lines = lines(text, &[]);
    let end = text.trim_end().len();
    let mut draft = Draft { directed: true, ..Draft::default() };
    NODES.rows(&mut lines, end, |line, words| {
        let (x, y) = (words[1].parse().ok(), words[2].parse().ok());
        let (id, label) = (draft.nodes.len().to_string(), Some(words[0].to_string()));
        draft.nodes.push(DraftNode { place: line.place.into(), id, label, x, y });
    })?;
    EDGES.rows(&mut lines, end, |line, words| {
        let [id, from, to] = [0, 1, 2].map(|column| words[column].to_string());
        let mut attributes = Attributes::with_capacity(3);
        attributes.insert("bw", words[4]);
        attributes.insert("delay", [words[5], "us"].concat());
        attributes.insert("weight", words[3]);
        let delay = words[5].parse().ok();
        draft.links.push(DraftLink {
            place: line.place.into(),
            from,
            to,
            id: Some(id),
            delay: delay.and_then(|delay: f64| Duration::try_from_secs_f64(delay / 1e6).ok()),
            attributes,
            ..DraftLink::default()
        });
    })?;
    match lines.next() {
        Some(line) if line.words().first() != Some(&DEMANDS.name) => {
            Err(line.expected("EDGES", "the end of the file, or DEMANDS, after as many edges as it says"))
        }
        _ => Ok(draft),
    }
}

/// The demands of a file, alone or behind its graph.
pub(super) fn demands(text: &str) -> Result<Vec<Entry>, Fault> {
    let end = text.trim_end().len();
    let mut lines = lines(text, &[]).skip_while(|line| line.words().first() != Some(&DEMANDS.name));
    let mut demands = Vec::new();
    DEMANDS.rows(&mut lines, end, |line, words| {
        let [from, to, amount] = [1, 2, 3].map(|column| words[column].to_string());
        let (place, bounds) = (Place::Byte(line.place), Bounds::default());
        demands.push(Entry { place, from, to, amount, bounds });
    })?;
    Ok(demands)
}

impl Section {
    /// Gives `row` each row of the section, as many as it says, behind its header; a row has as many words as the
    /// section has columns.
    fn rows<'t>(
        &self,
        lines: &mut impl Iterator<Item = Line<'t>>,
        end: usize,
        mut row: impl FnMut(Line<'t>, &[&'t str]),
    ) -> Result<(), Fault> {
        let missing =
            || Fault::expected(end, "end of file", "the rest of a section with as many lines as it says");
        let title = lines.next().ok_or_else(missing)?;
        let count = match title.words().as_slice() {
            [name, count] if *name == self.name => count.parse::<usize>().ok(),
            _ => None,
        };
        let what = "NODES, EDGES or DEMANDS in this order, each with the number of its lines";
        let count = count.ok_or_else(|| title.expected(self.name, what))?;
        let header = lines.next().ok_or_else(missing)?;
        if header.words().first() != Some(&"label") {
            return Err(header.expected(self.name, "a header that begins with \"label\""));
        }
        let mut words = Vec::with_capacity(self.columns);
        for index in 0..count {
            let line = lines.next().ok_or_else(missing)?;
            words.clear();
            words.extend(line.text.split_whitespace());
            if words.len() != self.columns {
                return Err(line.expected(format!("{} {index}", self.name), self.what));
            }
            row(line, &words);
        }
        Ok(())
    }
}

pub(super) fn write(topology: &Topology) -> String {
    let mut out = format!("NODES {}\nlabel x y\n", topology.node_count());
    let word = |text: &str| text.chars().map(|c| if c.is_whitespace() { '_' } else { c }).collect::<String>();
    for (id, node) in topology.nodes() {
        let (x, y) = node.position.map_or((0.0, 0.0), |at| (at.x, at.y));
        let name = word(node.name());
        let name = if name.is_empty() { id.0.to_string() } else { name };
        out += &format!("{name} {x} {y}\n");
    }
    let both = topology.orientation() == Orientation::Undirected;
    let count = topology.link_count() * if both { 2 } else { 1 };
    out += &format!("\nEDGES {count}\nlabel src dest weight bw delay\n");
    let mut number = 0;
    for (_, from, to, link) in topology.links() {
        let delay = link.delay.map_or(0.0, |delay| delay.as_secs_f64() * 1e6);
        for (from, to) in [(from, to), (to, from)].into_iter().take(if both { 2 } else { 1 }) {
            let (weight, bw) = (link.length(), link.capacity);
            out += &format!("edge_{number} {} {} {weight} {bw} {delay}\n", from.0, to.0);
            number += 1;
        }
    }
    out
}
