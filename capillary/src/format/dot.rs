//! Graphviz DOT: statements of nodes and chains of edges, with attributes in brackets. Subgraphs are read for what is
//! in them; a subgraph as the end of an edge stands for all of its nodes.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::draft::{DraftLink, DraftNode, attributes};
use crate::format::{Draft, Fault};
use crate::topology::{Orientation, Topology};

/// Subgraphs within subgraphs: as deep as anyone draws, and no deeper than the stack bears.
const DEEPEST: usize = 64;

type Attributes = BTreeMap<String, String>;

#[derive(Debug, Clone, PartialEq)]
struct Token {
    offset: usize,
    text: String,
    /// A quoted string is never a mark or a key word.
    quoted: bool,
}

pub(super) fn read(text: &str) -> Result<Draft, Fault> {
    let tokens = tokens(text)?;
    let mut parser = Parser { text, tokens, next: 0, draft: Draft::default(), known: BTreeMap::new() };
    parser.take("strict");
    parser.draft.directed = parser.take("digraph");
    if !parser.draft.directed && !parser.take("graph") {
        return Err(parser.expected("graph or digraph"));
    }
    if !parser.is_mark("{") {
        parser.draft.name = parser.id()?;
    }
    parser.require("{", "\"{\"")?;
    parser.statements(0)?;
    if parser.next < parser.tokens.len() {
        return Err(parser.expected("the end of the file after the graph"));
    }
    Ok(parser.draft)
}

/// The tokens, comments left out.
fn tokens(text: &str) -> Result<Vec<Token>, Fault> {
    let mut tokens = Vec::new();
    let mut offset = 0;
    while let Some(first) = text[offset..].chars().next() {
        let rest = &text[offset..];
        let comment = if rest.starts_with("/*") { Some("*/") } else { None };
        let is_line_comment = rest.starts_with("//")
            || (rest.starts_with('#') && text[..offset].trim_end_matches(' ').ends_with('\n'));
        let length = if let Some(end) = comment {
            rest.find(end).map_or(rest.len(), |at| at + 2)
        } else if is_line_comment {
            rest.find('\n').unwrap_or(rest.len())
        } else if first.is_whitespace() {
            first.len_utf8()
        } else {
            let (length, token) = token(text, offset)?;
            tokens.push(token);
            length
        };
        offset += length;
    }
    Ok(tokens)
}

/// The token at an offset, and its length in the file.
fn token(text: &str, offset: usize) -> Result<(usize, Token), Fault> {
    let rest = &text[offset..];
    let plain = |length: usize| Ok((length, Token { offset, text: rest[..length].into(), quoted: false }));
    if rest.starts_with('"') {
        return quoted(text, offset);
    }
    if rest.starts_with("--") || rest.starts_with("->") {
        return plain(2);
    }
    let first = rest.chars().next().unwrap_or(' ');
    if "{}[]=;,:".contains(first) {
        return plain(1);
    }
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.') || c as u32 >= 0x80;
    // A number may begin with a minus.
    let length = rest
        .char_indices()
        .find(|&(at, c)| !(is_part(c) || (at == 0 && c == '-')))
        .map_or(rest.len(), |(at, _)| at);
    if length == 0 {
        return Err(Fault::expected(offset, format!("{first:?}"), "a name, a string or a mark of DOT"));
    }
    plain(length)
}

fn quoted(text: &str, offset: usize) -> Result<(usize, Token), Fault> {
    let mut content = String::new();
    let mut escaped = false;
    for (at, character) in text[offset..].char_indices().skip(1) {
        match (escaped, character) {
            (false, '"') => return Ok((at + 1, Token { offset, text: content, quoted: true })),
            (false, '\\') => escaped = true,
            (was_escaped, character) => {
                // Only quotation marks and backslashes lose their backslash; "\n" is up to whoever draws it.
                if was_escaped && !matches!(character, '"' | '\\') {
                    content.push('\\');
                }
                content.push(character);
                escaped = false;
            }
        }
    }
    Err(Fault::expected(offset, "a string", "its closing quotation mark"))
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    next: usize,
    draft: Draft,
    /// The place of each node in the draft.
    known: BTreeMap<String, usize>,
}

impl Parser<'_> {
    /// Where the next token begins.
    fn offset(&self) -> usize {
        self.tokens.get(self.next).map_or(self.text.len(), |token| token.offset)
    }

    fn expected(&self, what: &'static str) -> Fault {
        let element =
            self.tokens.get(self.next).map_or("end of file".into(), |token| format!("{:?}", token.text));
        Fault::expected(self.offset(), element, what)
    }

    fn is_mark(&self, mark: &str) -> bool {
        self.tokens.get(self.next).is_some_and(|token| !token.quoted && token.text.eq_ignore_ascii_case(mark))
    }

    fn take(&mut self, mark: &str) -> bool {
        let there = self.is_mark(mark);
        self.next += usize::from(there);
        there
    }

    fn require(&mut self, mark: &str, what: &'static str) -> Result<(), Fault> {
        if self.take(mark) { Ok(()) } else { Err(self.expected(what)) }
    }

    fn id(&mut self) -> Result<String, Fault> {
        let is_mark = |token: &Token| {
            !token.quoted
                && ["{", "}", "[", "]", "=", ";", ",", ":", "--", "->"].contains(&token.text.as_str())
        };
        match self.tokens.get(self.next).filter(|token| !is_mark(token)) {
            Some(token) => {
                self.next += 1;
                Ok(token.text.clone())
            }
            None => Err(self.expected("a name")),
        }
    }

    /// Statements up to the closing brace; returns the nodes that stand in them.
    fn statements(&mut self, depth: usize) -> Result<BTreeSet<String>, Fault> {
        let mut nodes = BTreeSet::new();
        if depth > DEEPEST {
            return Err(self.expected("subgraphs that are less deep"));
        }
        while !self.take("}") {
            if self.next == self.tokens.len() {
                return Err(self.expected("\"}\""));
            }
            if self.take(";") || self.take(",") {
                continue;
            }
            nodes.extend(self.statement(depth)?);
        }
        Ok(nodes)
    }

    fn statement(&mut self, depth: usize) -> Result<BTreeSet<String>, Fault> {
        let follows = |parser: &Self, mark: &str| {
            parser.tokens.get(parser.next + 1).is_some_and(|token| !token.quoted && token.text == mark)
        };
        if ["graph", "node", "edge"].iter().any(|word| self.is_mark(word)) && follows(self, "[") {
            self.next += 1;
            self.attributes()?;
            return Ok(BTreeSet::new());
        }
        if follows(self, "=") {
            self.next += 2;
            self.id()?;
            return Ok(BTreeSet::new());
        }
        let place = self.offset();
        let mut ends = vec![self.end(depth)?];
        let operator = if self.draft.directed { "->" } else { "--" };
        while self.take(operator) {
            ends.push(self.end(depth)?);
        }
        if self.is_mark("--") || self.is_mark("->") {
            return Err(self.expected("\"->\" in a digraph, \"--\" in a graph"));
        }
        let attributes = self.attributes()?;
        if let [only] = ends.as_slice() {
            self.describe(only, &attributes);
        }
        self.join(place, &ends, &attributes);
        Ok(ends.concat().into_iter().collect())
    }

    /// One end of an edge: a node, or all nodes of a subgraph.
    fn end(&mut self, depth: usize) -> Result<Vec<String>, Fault> {
        if self.take("subgraph") && !self.is_mark("{") {
            self.id()?;
        }
        if self.take("{") {
            return Ok(self.statements(depth + 1)?.into_iter().collect());
        }
        let offset = self.offset();
        let id = self.id()?;
        while self.take(":") {
            self.id()?;
        }
        let place = self.draft.nodes.len();
        if *self.known.entry(id.clone()).or_insert(place) == place {
            self.draft.nodes.push(DraftNode { place: offset.into(), id: id.clone(), ..DraftNode::default() });
        }
        Ok(vec![id])
    }

    fn attributes(&mut self) -> Result<Attributes, Fault> {
        let mut attributes = Attributes::new();
        while self.take("[") {
            while !self.take("]") {
                if self.take(";") || self.take(",") {
                    continue;
                }
                let name = self.id()?;
                self.require("=", "\"=\" and a value")?;
                attributes.insert(name, self.id()?);
            }
        }
        Ok(attributes)
    }

    fn describe(&mut self, nodes: &[String], attributes: &Attributes) {
        let [id] = nodes else { return };
        let Some(node) = self.known.get(id).and_then(|&place| self.draft.nodes.get_mut(place)) else {
            return;
        };
        if let Some(label) = attributes.get("label") {
            node.label = Some(label.clone());
        }
        if let Some((x, y)) = attributes.get("pos").and_then(|pos| pos.trim_end_matches('!').split_once(','))
        {
            (node.x, node.y) = (x.trim().parse().ok(), y.trim().parse().ok());
        }
    }

    fn join(&mut self, place: usize, ends: &[Vec<String>], attributes: &Attributes) {
        for pair in ends.windows(2) {
            for from in &pair[0] {
                for to in &pair[1] {
                    let (from, to, id) = (from.clone(), to.clone(), attributes.get("id").cloned());
                    let attributes = attributes.clone();
                    self.draft.links.push(DraftLink {
                        place: place.into(),
                        from,
                        to,
                        id,
                        directed: None,
                        attributes,
                    });
                }
            }
        }
    }
}

pub(super) fn write(topology: &Topology) -> String {
    let directed = topology.orientation() == Orientation::Directed;
    let (kind, operator) = if directed { ("digraph", "->") } else { ("graph", "--") };
    let mut out = format!("{kind} {} {{\n", string(topology.name()));
    for (_, node) in topology.nodes() {
        let place = node.position.map_or(String::new(), |at| format!(", pos=\"{},{}!\"", at.x, at.y));
        out += &format!("  {} [label={}{place}];\n", string(&node.id), string(node.name()));
    }
    for (_, from, to, link) in topology.links() {
        let id = |node| string(&topology.node_weight(node).id);
        let own = link.id.as_deref().map(|id| format!("id={}", string(id)));
        let numbers = attributes(link)
            .into_iter()
            .map(|(name, value)| format!("{name}={}", string(&value.to_string())));
        let all: Vec<String> = own.into_iter().chain(numbers).collect();
        out += &format!("  {} {operator} {} [{}];\n", id(from), id(to), all.join(", "));
    }
    out + "}\n"
}

fn string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
