//! A table with a header: `from,to` (or `source,target`), then any attributes. `id` names the link. Undirected unless
//! the reader knows better.

use std::collections::BTreeMap;

use crate::format::draft::{DraftLink, attributes};
use crate::format::fault::Place;
use crate::format::{Draft, Fault, Problem};
use crate::topology::Topology;

const FROM: [&str; 2] = ["from", "source"];
const TO: [&str; 2] = ["to", "target"];

/// Whether a line, in small letters, names both ends of a link.
pub(super) fn is_header(line: &str) -> bool {
    let named = |names: [&str; 2]| line.split(',').any(|cell| names.contains(&cell.trim().trim_matches('"')));
    named(FROM) && named(TO)
}

pub(super) fn read(text: &str) -> Result<Draft, Fault> {
    let mut reader = ::csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .flexible(true)
        .trim(::csv::Trim::All)
        .from_reader(text.as_bytes());
    let header: Vec<String> = reader.headers().map_err(refused)?.iter().map(str::to_string).collect();
    let column =
        |names: [&str; 2]| header.iter().position(|cell| names.contains(&cell.to_ascii_lowercase().as_str()));
    let (Some(from), Some(to)) = (column(FROM), column(TO)) else {
        return Err(Fault::expected(Place::Line(1), "header", "columns \"from\" and \"to\""));
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
        let mut attributes: BTreeMap<String, String> = named.collect();
        let id = attributes.remove("id");
        draft.links.push(DraftLink { place: place.into(), from, to, id, directed: None, attributes });
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
