//! Graphviz DOT: statements of nodes and chains of edges, with attributes in brackets. Subgraphs are read for what is
//! in them; a subgraph as the end of an edge stands for all of its nodes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::format::attributes::Attributes;
use crate::format::draft::{DraftLink, DraftNode, attributes};
use crate::format::{Draft, Fault};
use crate::topology::{Orientation, Topology};

/// Subgraphs within subgraphs: as deep as anyone draws, and no deeper than the stack bears.
const DEEPEST: usize = 64;

/// A piece of the file; only strings with backslashes are no slice of it.
#[derive(Debug, Clone, PartialEq)]
struct Token<'t> {
    offset: usize,
    text: Cow<'t, str>,
    /// A quoted string is never a mark or a key word.
    quoted: bool,
}

/// One end of an edge: the places of its nodes in the draft. All but subgraphs are one node.
#[derive(Debug, Clone)]
enum End {
    Node(usize),
    Subgraph(Vec<usize>),
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
        parser.draft.name = parser.id()?.into_owned();
    }
    parser.require("{", "\"{\"")?;
    parser.statements(0)?;
    if parser.next < parser.tokens.len() {
        return Err(parser.expected("the end of the file after the graph"));
    }
    Ok(parser.draft)
}

/// The tokens, comments left out.
fn tokens(text: &str) -> Result<Vec<Token<'_>>, Fault> {
    let mut tokens = Vec::new();
    let mut offset = 0;
    while let Some(first) = text[offset..].chars().next() {
        let rest = &text[offset..];
        let comment = if rest.starts_with("/*") { Some("*/") } else { None };
        let is_line_comment =
            rest.starts_with("//") || (first == '#' && text[..offset].trim_end_matches(' ').ends_with('\n'));
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
fn token(text: &str, offset: usize) -> Result<(usize, Token<'_>), Fault> {
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

fn quoted<'t>(text: &'t str, offset: usize) -> Result<(usize, Token<'t>), Fault> {
    let rest = &text[offset + 1..];
    let closing = |at: usize, content: Cow<'t, str>| (at + 2, Token { offset, text: content, quoted: true });
    let unclosed = || Fault::expected(offset, "a string", "its closing quotation mark");
    let first = rest.find(['"', '\\']).ok_or_else(unclosed)?;
    if rest[first..].starts_with('"') {
        return Ok(closing(first, rest[..first].into()));
    }
    let mut content = String::from(&rest[..first]);
    let mut escaped = false;
    for (at, character) in rest[first..].char_indices() {
        match (escaped, character) {
            (false, '"') => return Ok(closing(first + at, content.into())),
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
    Err(unclosed())
}

impl End {
    fn nodes(&self) -> &[usize] {
        match self {
            Self::Node(node) => std::slice::from_ref(node),
            Self::Subgraph(nodes) => nodes,
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token<'t>>,
    next: usize,
    draft: Draft,
    /// The place of each node in the draft.
    known: BTreeMap<Cow<'t, str>, usize>,
}

impl<'t> Parser<'t> {
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

    fn id(&mut self) -> Result<Cow<'t, str>, Fault> {
        let is_mark = |token: &Token<'_>| {
            !token.quoted
                && matches!(&*token.text, "{" | "}" | "[" | "]" | "=" | ";" | "," | ":" | "--" | "->")
        };
        match self.tokens.get_mut(self.next).filter(|token| !is_mark(token)) {
            Some(token) => {
                self.next += 1;
                Ok(std::mem::take(&mut token.text))
            }
            None => Err(self.expected("a name")),
        }
    }

    /// Statements up to the closing brace. Returns the nodes that stand in them, of the graph itself none: nobody asks.
    fn statements(&mut self, depth: usize) -> Result<Vec<usize>, Fault> {
        let mut nodes = Vec::new();
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
            let ends = self.statement(depth)?;
            if depth > 0 {
                nodes.extend(ends.iter().flat_map(End::nodes));
            }
        }
        Ok(nodes)
    }

    /// A statement; returns the ends of its edges, or the one node or subgraph that it is about.
    fn statement(&mut self, depth: usize) -> Result<Vec<End>, Fault> {
        let follows = |parser: &Self, mark: &str| {
            parser.tokens.get(parser.next + 1).is_some_and(|token| !token.quoted && token.text == mark)
        };
        if follows(self, "[") && ["graph", "node", "edge"].iter().any(|word| self.is_mark(word)) {
            self.next += 1;
            self.attributes()?;
            return Ok(Vec::new());
        }
        if follows(self, "=") {
            self.next += 2;
            self.id()?;
            return Ok(Vec::new());
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
        match ends.as_slice() {
            [End::Node(node)] => self.describe(*node, &attributes),
            ends => self.join(place, ends, attributes),
        }
        Ok(ends)
    }

    /// One end of an edge: a node, or all nodes of a subgraph.
    fn end(&mut self, depth: usize) -> Result<End, Fault> {
        if self.take("subgraph") && !self.is_mark("{") {
            self.id()?;
        }
        if self.take("{") {
            let mut nodes = self.statements(depth + 1)?;
            nodes.sort_unstable_by(|&a, &b| self.draft.nodes[a].id.cmp(&self.draft.nodes[b].id));
            nodes.dedup();
            return Ok(End::Subgraph(nodes));
        }
        let offset = self.offset();
        let id = self.id()?;
        while self.take(":") {
            self.id()?;
        }
        if let Some(&node) = self.known.get(&id) {
            return Ok(End::Node(node));
        }
        let node = self.draft.nodes.len();
        self.draft.nodes.push(DraftNode {
            place: offset.into(),
            id: id.clone().into_owned(),
            ..DraftNode::default()
        });
        self.known.insert(id, node);
        Ok(End::Node(node))
    }

    fn attributes(&mut self) -> Result<Attributes, Fault> {
        let mut attributes = Attributes::default();
        while self.take("[") {
            while !self.take("]") {
                if self.take(";") || self.take(",") {
                    continue;
                }
                let name = self.id()?;
                self.require("=", "\"=\" and a value")?;
                attributes.insert(name.into_owned(), self.id()?.into_owned());
            }
        }
        Ok(attributes)
    }

    fn describe(&mut self, node: usize, attributes: &Attributes) {
        let node = &mut self.draft.nodes[node];
        if let Some(label) = attributes.get("label") {
            node.label = Some(label.clone());
        }
        if let Some((x, y)) = attributes.get("pos").and_then(|pos| pos.trim_end_matches('!').split_once(','))
        {
            (node.x, node.y) = (x.trim().parse().ok(), y.trim().parse().ok());
        }
    }

    /// Joins every node of an end with every one of the next.
    fn join(&mut self, place: usize, ends: &[End], mut attributes: Attributes) {
        let pairs = ends.windows(2).flat_map(|pair| {
            let (tails, heads) = (pair[0].nodes(), pair[1].nodes());
            tails.iter().flat_map(move |&from| heads.iter().map(move |&to| (from, to)))
        });
        let mut pairs = pairs.peekable();
        while let Some((from, to)) = pairs.next() {
            let is_last = pairs.peek().is_none();
            let attributes = if is_last { std::mem::take(&mut attributes) } else { attributes.clone() };
            let [from, to] = [from, to].map(|node| self.draft.nodes[node].id.clone());
            let id = attributes.get("id").cloned();
            let link = DraftLink { place: place.into(), from, to, id, attributes, ..DraftLink::default() };
            self.draft.links.push(link);
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
