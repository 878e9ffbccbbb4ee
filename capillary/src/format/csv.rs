//! A table with a header, separated by commas, semicolons, tabs or bars: `from` and `to` (or what else ends of links
//! are called), and any attributes. `id` names the link. Undirected unless the reader knows better.

use std::collections::BTreeMap;

use crate::format::attributes::Attributes;
use crate::format::draft::{DraftLink, attributes};
use crate::format::fault::Place;
use crate::format::{Draft, Fault, Problem};
use crate::topology::Topology;

/// What the ends of links and of demands are called, without `_`, `-` and blanks, in pairs.
pub(super) const FROM: [&str; 14] = [
    "from",
    "source",
    "src",
    "origin",
    "node1",
    "nodea",
    "a",
    "u",
    "start",
    "fromnode",
    "sourcenode",
    "srcnode",
    "fromid",
    "sourceid",
];
pub(super) const TO: [&str; 16] = [
    "to",
    "target",
    "dst",
    "dest",
    "destination",
    "node2",
    "nodeb",
    "b",
    "v",
    "end",
    "tonode",
    "targetnode",
    "dstnode",
    "destnode",
    "toid",
    "targetid",
];

/// What separates the cells of tables.
const SEPARATORS: [u8; 4] = [b'\t', b';', b'|', b','];

/// Whether a cell of a header is one of these names.
pub(super) fn is_named(cell: &str, names: &[&str]) -> bool {
    let is_filler = |c: char| c == '_' || c == '-' || c == '"' || c.is_whitespace();
    let plain: String = cell.chars().filter(|c| !is_filler(*c)).flat_map(char::to_lowercase).collect();
    names.contains(&plain.as_str())
}

/// What separates the cells of a header: the first that stands in it, a comma without any.
pub(super) fn separator(header: &str) -> u8 {
    SEPARATORS.into_iter().find(|mark| header.as_bytes().contains(mark)).unwrap_or(b',')
}

/// The first line that is neither blank nor a comment.
pub(super) fn header(text: &str) -> &str {
    let is_comment = |line: &&str| line.trim().is_empty() || line.trim_start().starts_with('#');
    text.lines().find(|line| !is_comment(line)).unwrap_or("")
}

/// Whether a line names both ends of a link. A single letter may as well be the name of a node in a list without a
/// header.
pub(super) fn is_header(line: &str) -> bool {
    let mark = char::from(separator(line));
    let named = |names: &[&str]| line.split(mark).any(|cell| cell.trim().len() > 1 && is_named(cell, names));
    named(&FROM) && named(&TO)
}

pub(super) fn read(text: &str) -> Result<Draft, Fault> {
    let mut reader = ::csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .delimiter(separator(header(text)))
        .flexible(true)
        .trim(::csv::Trim::All)
        .from_reader(text.as_bytes());
    let header: Vec<String> = reader.headers().map_err(refused)?.iter().map(str::to_string).collect();
    let column = |names: &[&str]| header.iter().position(|cell| is_named(cell, names));
    let (Some(from), Some(to)) = (column(&FROM), column(&TO)) else {
        let what = "columns \"from\" and \"to\" (or source and target, src and dst, node1 and node2, a and b, u and v)";
        return Err(Fault::expected(Place::Line(1), "header", what));
    };
    let mut draft = Draft::default();
    for record in reader.records() {
        let record = record.map_err(refused)?;
        let start = record.position().map_or(0, |position| position.byte() as usize);
        let place = behind_blanks(text, start);
        let cell = |index: usize| record.get(index).filter(|cell| !cell.is_empty()).map(str::to_string);
        let (Some(from), Some(to)) = (cell(from), cell(to)) else {
            return Err(Fault::expected(place, format!("link {}", draft.links.len()), "two nodes"));
        };
        let named = header.iter().enumerate().filter_map(|(index, name)| Some((name.clone(), cell(index)?)));
        let mut attributes: Attributes = named.collect();
        let id = attributes.remove("id");
        draft.links.push(DraftLink { place: place.into(), from, to, id, attributes, ..DraftLink::default() });
    }
    draft.add_missing_nodes();
    Ok(draft)
}

/// Where a record begins: behind the blank lines at its offset.
fn behind_blanks(text: &str, offset: usize) -> usize {
    offset + text.as_bytes().iter().skip(offset).take_while(|byte| byte.is_ascii_whitespace()).count()
}

fn refused(error: ::csv::Error) -> Fault {
    let line = error.position().map_or(1, |position| position.line() as usize);
    Fault::at(Place::Line(line), "CSV", Problem::Syntax(error.to_string()))
}

pub(super) fn write(topology: &Topology) -> String {
    let mut out = String::from("from,to,id,capacity,delay_ms,loss,metric\n");
    for (_, from, to, link) in topology.links() {
        let name = |node| quoted(&topology.node_weight(node).id);
        let known: BTreeMap<&str, f64> = attributes(link).into_iter().collect();
        let number = |name: &str| known.get(name).map_or(String::new(), f64::to_string);
        let id = link.id.as_deref().map_or(String::new(), quoted);
        let values = ["capacity", "delay_ms", "loss", "metric"].map(number).join(",");
        out += &format!("{},{},{id},{values}\n", name(from), name(to));
    }
    out
}

fn quoted(text: &str) -> String {
    let plain = !text.contains(['"', ',', '\n', '\r', '#']) && text.trim() == text;
    if plain { text.into() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}
