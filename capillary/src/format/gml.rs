//! GML (Himsolt 1997), as the Topology Zoo writes it: keys with numbers, strings or lists in brackets.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::format::draft::{DraftLink, DraftNode, attributes};
use crate::format::{Draft, Fault};
use crate::topology::{Orientation, Topology};

#[derive(Debug, Clone, PartialEq)]
enum Token {
    /// A key or a number.
    Word(String),
    Text(String),
    Open,
    Close,
}

/// A list that is being read: its key, where it began, its plain entries.
#[derive(Debug, Default)]
struct List {
    key: String,
    place: usize,
    entries: BTreeMap<String, String>,
}

pub(super) fn read(text: &str) -> Result<Draft, Fault> {
    let mut reader =
        Reader { tokens: Tokens { text, rest: text }, draft: Draft::default(), open: Vec::new() };
    let mut found_graph = false;
    while let Some((place, token)) = reader.tokens.next()? {
        match token {
            Token::Close => reader.close(place)?,
            Token::Word(key) => {
                found_graph |= key == "graph";
                reader.entry(place, key)?;
            }
            Token::Open => return Err(Fault::expected(place, "\"[\"", "a key before it")),
            Token::Text(text) => return Err(Fault::expected(place, format!("{text:?}"), "a key")),
        }
    }
    let end = text.len();
    if let Some(list) = reader.open.last() {
        let (key, opened) = (list.key.clone(), list.place.into());
        return Err(Fault::Unclosed { place: end.into(), key, opened });
    }
    if !found_graph {
        return Err(Fault::expected(end, "end of file", "a list \"graph [ … ]\""));
    }
    Ok(reader.draft)
}

struct Reader<'t> {
    tokens: Tokens<'t>,
    draft: Draft,
    /// The lists around the place that is being read, outermost first.
    open: Vec<List>,
}

impl Reader<'_> {
    /// Reads the value of a key.
    fn entry(&mut self, place: usize, key: String) -> Result<(), Fault> {
        match self.tokens.next()? {
            Some((place, Token::Open)) => self.open.push(List { key, place, ..List::default() }),
            Some((_, Token::Word(value) | Token::Text(value))) => {
                if let Some(list) = self.open.last_mut() {
                    list.entries.insert(key, value);
                }
            }
            Some((place, Token::Close)) => return Err(Fault::expected(place, key, "a value")),
            None => return Err(Fault::expected(place, key, "a value")),
        }
        Ok(())
    }

    fn close(&mut self, place: usize) -> Result<(), Fault> {
        let list =
            self.open.pop().ok_or_else(|| Fault::expected(place, "\"]\"", "no more than were opened"))?;
        match (list.key.as_str(), self.open.len()) {
            ("graph", 0) => self.close_graph(list),
            ("node", 1) => self.close_node(list)?,
            ("edge", 1) => self.close_edge(list)?,
            ("graphics", 2) => self.close_graphics(list),
            _ => {}
        }
        Ok(())
    }

    fn close_graph(&mut self, mut list: List) {
        self.draft.directed = list.entries.get("directed").is_some_and(|value| value == "1");
        let name = list.entries.remove("Network").or_else(|| list.entries.remove("label"));
        self.draft.name = name.or_else(|| list.entries.remove("name")).unwrap_or_default();
    }

    fn close_node(&mut self, mut list: List) -> Result<(), Fault> {
        let element = format!("node {}", self.draft.nodes.len());
        let id = list.entries.remove("id").ok_or_else(|| Fault::expected(list.place, element, "an id"))?;
        let number = |key: &str| list.entries.get(key).and_then(|text| text.parse().ok());
        let (x, y) = (number("Longitude").or(number("x")), number("Latitude").or(number("y")));
        let label = list.entries.get("label").cloned();
        self.draft.nodes.push(DraftNode { place: list.place.into(), id, label, x, y });
        Ok(())
    }

    fn close_edge(&mut self, mut list: List) -> Result<(), Fault> {
        let element = format!("link {}", self.draft.links.len());
        let mut take = |key: &str, what| {
            list.entries.remove(key).ok_or_else(|| Fault::expected(list.place, element.clone(), what))
        };
        let (from, to) = (take("source", "a source")?, take("target", "a target")?);
        let (place, id) = (list.place.into(), list.entries.remove("id"));
        let attributes = list.entries.into_iter().collect();
        self.draft.links.push(DraftLink { place, from, to, id, attributes, ..DraftLink::default() });
        Ok(())
    }

    /// A node's place on a drawing goes to the node's own entries.
    fn close_graphics(&mut self, list: List) {
        if let Some(node) = self.open.last_mut() {
            let places = list.entries.into_iter().filter(|(key, _)| key == "x" || key == "y");
            places.for_each(|(key, value)| drop(node.entries.insert(key, value)));
        }
    }
}

struct Tokens<'t> {
    text: &'t str,
    rest: &'t str,
}

impl Tokens<'_> {
    /// The next token with its place.
    fn next(&mut self) -> Result<Option<(usize, Token)>, Fault> {
        self.skip_blanks();
        let place = self.text.len() - self.rest.len();
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        let token = match first {
            '[' => Token::Open,
            ']' => Token::Close,
            '"' => return self.text(place).map(Some),
            _ => {
                let end = self
                    .rest
                    .find(|c: char| c.is_whitespace() || "[]\"".contains(c))
                    .unwrap_or(self.rest.len());
                let word = self.rest[..end].to_string();
                self.advance(end);
                return Ok(Some((place, Token::Word(word))));
            }
        };
        self.advance(1);
        Ok(Some((place, token)))
    }

    fn skip_blanks(&mut self) {
        loop {
            let blanks = self.rest.len() - self.rest.trim_start().len();
            self.advance(blanks);
            if !self.rest.starts_with('#') {
                return;
            }
            self.advance(self.rest.find('\n').unwrap_or(self.rest.len()));
        }
    }

    fn text(&mut self, place: usize) -> Result<(usize, Token), Fault> {
        let Some(length) = self.rest[1..].find('"') else {
            // Where the string begins: the lines after it are part of it.
            return Err(Fault::expected(place, "a string", "its closing quotation mark"));
        };
        let content = unescape(&self.rest[1..=length]);
        self.advance(length + 2);
        Ok((place, Token::Text(content)))
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }
}

/// GML writes what is not ASCII, quotation marks and ampersands as XML does.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest.find(';').unwrap_or(0);
        match entity(rest.get(1..end).unwrap_or("")) {
            Some(character) => {
                out.push(character);
                rest = &rest[end + 1..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn entity(name: &str) -> Option<char> {
    match name {
        "quot" => Some('"'),
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        _ => char::from_u32(name.strip_prefix('#')?.parse().ok()?),
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' => out.push_str("&quot;"),
            '&' => out.push_str("&amp;"),
            _ if character.is_ascii() => out.push(character),
            _ => drop(write!(out, "&#{};", u32::from(character))),
        }
    }
    out
}

pub(super) fn write(topology: &Topology) -> String {
    let directed = u8::from(topology.orientation() == Orientation::Directed);
    let mut out = format!("graph [\n  directed {directed}\n  multigraph 1\n");
    if !topology.name().is_empty() {
        out += &format!("  label \"{}\"\n", escape(topology.name()));
    }
    for (_, node) in topology.nodes() {
        out += &format!("  node [\n    id {}\n    label \"{}\"\n", word(&node.id), escape(node.name()));
        if let Some(position) = node.position {
            out += &format!("    Longitude {}\n    Latitude {}\n", position.x, position.y);
        }
        out += "  ]\n";
    }
    for (_, from, to, link) in topology.links() {
        let id = |node| word(&topology.node_weight(node).id);
        out += &format!("  edge [\n    source {}\n    target {}\n", id(from), id(to));
        if let Some(id) = &link.id {
            out += &format!("    id \"{}\"\n", escape(id));
        }
        for (name, value) in attributes(link) {
            out += &format!("    {name} {value}\n");
        }
        out += "  ]\n";
    }
    out + "]\n"
}

/// An id as a number if it is one, as GML wants it, otherwise as a string.
fn word(id: &str) -> String {
    let is_number = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { id.into() } else { format!("\"{}\"", escape(id)) }
}
