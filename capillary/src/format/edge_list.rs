//! A link a line, without a header: two nodes, and perhaps numbers or networkx's `{'capacity': 5}`, separated by
//! blanks, tabs, commas or semicolons. The third column is called `weight`, further ones `column_4` and so on.
//! Undirected unless a comment says "Directed graph", as in SNAP's files. Rocketfuel's `weights.intra` are such lists,
//! too.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::format::amount;
use crate::format::attributes::Attributes;
use crate::format::draft::DraftLink;
use crate::format::lines::{Line, lines};
use crate::format::traffic::{Bounds, Entry};
use crate::format::{Draft, Fault};
use crate::topology::{Orientation, Topology};

const COMMENTS: &[char] = &['#', '%'];

/// So many columns are understood to be what a list of links has.
const MOST_COLUMNS: usize = 8;

/// The first mark that stands in a line separates all columns; without one blanks do.
const MARKS: [char; 3] = ['\t', ';', ','];

/// Whether a text begins like a list of links: its first two lines have two nodes each, and only numbers behind them.
pub(super) fn is_one(text: &str) -> bool {
    let head: Vec<Line<'_>> = lines(text, COMMENTS).take(2).collect();
    let Some(separator) = head.first().map(|line| separator(line.text)) else { return false };
    head.iter().all(|line| {
        let columns = columns(line.text, separator);
        let is_plain = !line.text.contains(['[', ']', '<', '>', '"', '=']);
        let values = columns.get(2..).unwrap_or_default();
        // A number that none may be here, as nan, is a fault of its line and not of the format.
        let is_value =
            |value: &&str| value.starts_with('{') || amount(value).is_some() || value.parse::<f64>().is_ok();
        let are_values = values.iter().all(is_value);
        is_plain && (2..=MOST_COLUMNS).contains(&columns.len()) && are_values
    })
}

pub(super) fn read(text: &str) -> Result<Draft, Fault> {
    let is_directed =
        |line: &str| line.starts_with(COMMENTS) && line.to_lowercase().contains("directed graph");
    let is_undirected = |line: &str| line.to_lowercase().contains("undirected");
    let directed = text.lines().map(str::trim).any(|line| is_directed(line) && !is_undirected(line));
    let mut draft = Draft { directed, ..Draft::default() };
    draft.links = links(text)?;
    draft.with_links(text)
}

/// The links of a text, all of as many columns as the first.
fn links(text: &str) -> Result<Vec<DraftLink>, Fault> {
    let mut links = Vec::new();
    let mut like = None;
    for line in lines(text, COMMENTS) {
        let (mark, count) = *like.get_or_insert_with(|| {
            let mark = separator(line.text);
            (mark, columns(line.text, mark).len())
        });
        if columns(line.text, mark).len() != count {
            return Err(
                line.expected(format!("link {}", links.len()), "as many columns as the first link has")
            );
        }
        links.push(link(line, mark, links.len())?);
    }
    Ok(links)
}

/// The same as demands: two nodes and an amount.
pub(super) fn demands(text: &str) -> Result<Vec<Entry>, Fault> {
    let entry = |(index, mut link): (usize, DraftLink)| {
        let what = "two nodes and a number";
        let missing = || Fault::expected(link.place, format!("demand {index}"), what);
        let amount = link.attributes.remove("weight").ok_or_else(missing)?;
        Ok(Entry { place: link.place, from: link.from, to: link.to, amount, bounds: Bounds::default() })
    };
    links(text)?.into_iter().enumerate().map(entry).collect()
}

fn separator(line: &str) -> Option<char> {
    let names = line.split('{').next().unwrap_or(line);
    MARKS.into_iter().find(|&mark| names.trim().contains(mark) && is_between_words(names, mark))
}

/// Rocketfuel's names of cities have commas within: a mark separates columns only if there are no blanks as well.
fn is_between_words(line: &str, mark: char) -> bool {
    mark == '\t' || line.split(mark).all(|part| part.split_whitespace().count() <= 1)
}

/// The columns of a line; what is in braces is one.
fn columns(line: &str, separator: Option<char>) -> Vec<&str> {
    let (names, braces) = match line.find('{') {
        Some(at) => (&line[..at], Some(line[at..].trim())),
        None => (line, None),
    };
    let parts: Vec<&str> = match separator {
        Some(mark) => names.split(mark).map(str::trim).collect(),
        None => names.split_whitespace().collect(),
    };
    parts.into_iter().filter(|part| !part.is_empty()).chain(braces).collect()
}

fn link(line: Line<'_>, mark: Option<char>, index: usize) -> Result<DraftLink, Fault> {
    let columns = columns(line.text, mark);
    let wrong = |what| line.expected(format!("link {index}"), what);
    let [from, to, values @ ..] = columns.as_slice() else {
        return Err(wrong("two nodes, and perhaps numbers"));
    };
    let mut attributes = Attributes::default();
    for (number, value) in (3..).zip(values) {
        if value.starts_with('{') {
            attributes.extend(braces(value).ok_or_else(|| wrong("attributes as {'capacity': 5}"))?);
        } else if amount(value).is_some() {
            let name = if number == 3 { Cow::from("weight") } else { format!("column_{number}").into() };
            attributes.insert(name, *value);
        } else {
            let element = format!("link {index} ({from} to {to}), {value:?}");
            return Err(line.expected(element, "a finite number, perhaps with a unit as 10G or 1Gbps"));
        }
    }
    let (from, to) = ((*from).to_string(), (*to).to_string());
    Ok(DraftLink { place: line.place.into(), from, to, attributes, ..DraftLink::default() })
}

/// Python's notation of a dictionary with names and numbers or texts.
fn braces(text: &str) -> Option<BTreeMap<String, String>> {
    let Value::Object(fields) = serde_json::from_str(&text.replace('\'', "\"")).ok()? else { return None };
    let value = |value: Value| match value {
        Value::String(text) => text,
        value => value.to_string(),
    };
    Some(fields.into_iter().map(|(name, field)| (name, value(field))).collect())
}

/// What stands in no name: marks between columns and of comments, and what [`is_one`] takes for another format.
const NOT_IN_NAMES: &str = "#%{},;[]<>\"=";

pub(super) fn write(topology: &Topology) -> String {
    let mut out = String::from("# from to capacity\n");
    if topology.orientation() == Orientation::Directed {
        out += "# Directed graph\n";
    }
    let word = |node| word(&topology.node_weight(node).id);
    for (_, from, to, link) in topology.links() {
        out += &format!("{} {} {}\n", word(from), word(to), link.capacity);
    }
    out
}

/// A name as one word.
fn word(name: &str) -> String {
    let plain = |c: char| if c.is_whitespace() || NOT_IN_NAMES.contains(c) { '_' } else { c };
    if name.is_empty() { "_".into() } else { name.chars().map(plain).collect() }
}
