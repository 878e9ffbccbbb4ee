//! SNDlib's native format: sections of words in parentheses.

use crate::format::attributes::Attributes;
use crate::format::draft::{DraftLink, DraftNode};
use crate::format::fault::offset_in;
use crate::format::traffic::{Bounds, Entry};
use crate::format::{Draft, Fault};
use crate::topology::Topology;

/// Parentheses within a section: an entry's own, and within it those of ADMISSIBLE_PATHS.
const DEEPEST: usize = 4;

/// A word or a parenthesis with its place.
type Token<'t> = (usize, &'t str);

pub(super) fn read(text: &str) -> Result<Draft, Fault> {
    let mut tokens = tokens(text);
    let end = text.trim_end().len();
    let mut draft = Draft::default();
    let mut sections = Vec::new();
    while let Some((place, name)) = tokens.next() {
        match tokens.next() {
            Some((_, "(")) => {}
            _ => return Err(Fault::expected(place, name, "a section name and \"(\"")),
        }
        let section = section(&mut tokens, end, name)?;
        match name {
            "NODES" => draft.nodes = nodes(&section)?,
            "LINKS" => draft.links = links(&section)?,
            // META, DEMANDS and what else there is.
            _ => {}
        }
        sections.push(name);
    }
    for (name, what) in [("NODES", "a section NODES ( … )"), ("LINKS", "a section LINKS ( … )")] {
        if !sections.contains(&name) {
            return Err(Fault::expected(end, "end of file", what));
        }
    }
    Ok(draft)
}

/// The demands of a file: `id ( source target ) routing_unit demand_value max_path_length`.
pub(super) fn demands(text: &str) -> Result<Vec<Entry>, Fault> {
    let mut tokens = tokens(text);
    let end = text.trim_end().len();
    while let Some((place, name)) = tokens.next() {
        match tokens.next() {
            Some((_, "(")) => {}
            _ => return Err(Fault::expected(place, name, "a section name and \"(\"")),
        }
        let section = section(&mut tokens, end, name)?;
        if name != "DEMANDS" {
            continue;
        }
        let mut entries: Vec<Entry> = Vec::new();
        let mut rest = section.as_slice();
        while let [(place, _), after @ ..] = rest {
            let [(_, "("), (_, from), (_, to), (_, ")"), (_, _), (_, amount), (_, hops), after @ ..] = after
            else {
                let what = "\"( source target )\", a routing unit, a demand and a path length";
                return Err(Fault::expected(*place, format!("demand {}", entries.len()), what));
            };
            let (from, to) = ((*from).to_string(), (*to).to_string());
            let bounds = Bounds { hops: Some((*hops).to_string()), ..Bounds::default() };
            entries.push(Entry { place: (*place).into(), from, to, amount: (*amount).to_string(), bounds });
            rest = after;
        }
        return Ok(entries);
    }
    Err(Fault::expected(end, "end of file", "a section DEMANDS ( … )"))
}

/// The words and parentheses, without comments and the first line, which names the format.
fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    text.lines().filter(|line| !line.starts_with('?')).flat_map(|line| {
        let line = line.split('#').next().unwrap_or("");
        line.split_inclusive(['(', ')']).flat_map(words).map(|word| (offset_in(text, word), word))
    })
}

/// The words of a piece that may end with a parenthesis.
fn words(piece: &str) -> impl Iterator<Item = &str> {
    let words = piece.strip_suffix(['(', ')']).unwrap_or(piece);
    let parenthesis = &piece[words.len()..];
    words.split_whitespace().chain((!parenthesis.is_empty()).then_some(parenthesis))
}

/// The tokens up to the parenthesis that ends the section.
fn section<'t>(
    tokens: &mut impl Iterator<Item = Token<'t>>,
    end: usize,
    name: &str,
) -> Result<Vec<Token<'t>>, Fault> {
    let mut depth = 1;
    let mut section = Vec::new();
    for (place, word) in tokens {
        match word {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Ok(section);
        }
        if depth > DEEPEST {
            return Err(Fault::expected(place, name, "a closing \")\" before another \"(\""));
        }
        section.push((place, word));
    }
    Err(Fault::expected(end, format!("section {name}"), "its closing \")\""))
}

/// Node: `id [ ( x y ) ]`.
fn nodes(section: &[Token<'_>]) -> Result<Vec<DraftNode>, Fault> {
    let mut nodes: Vec<DraftNode> = Vec::new();
    let mut rest = section;
    while let [(place, id), after @ ..] = rest {
        let mut node = DraftNode { place: (*place).into(), id: (*id).into(), ..DraftNode::default() };
        if matches!(*id, "(" | ")") {
            return Err(Fault::expected(*place, format!("node {}", nodes.len()), "an id"));
        }
        rest = match after {
            [(_, "("), (_, x), (_, y), (_, ")"), after @ ..] => {
                (node.x, node.y) = (x.parse().ok(), y.parse().ok());
                after
            }
            [(place, "("), ..] => return Err(Fault::expected(*place, format!("node {id}"), "\"( x y )\"")),
            after => after,
        };
        nodes.push(node);
    }
    Ok(nodes)
}

/// Link: `id ( source target ) capacity cost cost cost ( { module_capacity module_cost } )`.
fn links(section: &[Token<'_>]) -> Result<Vec<DraftLink>, Fault> {
    let mut links: Vec<DraftLink> = Vec::new();
    let mut rest = section;
    while let [(place, id), after @ ..] = rest {
        let name = format!("link {} ({id})", links.len());
        let [(_, "("), (_, from), (_, to), (_, ")"), after @ ..] = after else {
            return Err(Fault::expected(*place, name, "\"( source target )\""));
        };
        let numbers = after.iter().take_while(|(_, word)| *word != "(").count();
        let modules = after[numbers..].iter().take_while(|(_, word)| *word != ")").count();
        if numbers != 4 || after.len() <= numbers + modules {
            return Err(Fault::expected(*place, name, "four numbers and the modules in parentheses"));
        }
        let mut attributes = Attributes::from_iter([("pre_installed_capacity", after[0].1)]);
        if modules > 1 {
            attributes.insert("module_capacity", after[numbers + 1].1);
        }
        let (from, to, id) = ((*from).to_string(), (*to).to_string(), Some((*id).to_string()));
        links.push(DraftLink { place: (*place).into(), from, to, id, attributes, ..DraftLink::default() });
        rest = &after[numbers + modules + 1..];
    }
    Ok(links)
}

pub(super) fn write(topology: &Topology) -> String {
    let mut out = String::from("?SNDlib native format; type: network; version: 1.0\n\nNODES (\n");
    for (_, node) in topology.nodes() {
        let place = node.position.map_or(String::new(), |at| format!(" ( {} {} )", at.x, at.y));
        out += &format!("  {}{place}\n", word(&node.id));
    }
    out += ")\n\nLINKS (\n";
    for (id, from, to, link) in topology.links() {
        let name = |node| word(&topology.node_weight(node).id);
        let id = word(&link.id.clone().unwrap_or_else(|| format!("L{}", id.0)));
        out += &format!("  {id} ( {} {} ) {} 0 0 0 ( )\n", name(from), name(to), link.capacity);
    }
    out + ")\n\nDEMANDS (\n)\n"
}

/// A word may hold no blank, parenthesis or comment mark.
fn word(text: &str) -> String {
    text.chars().map(|c| if c.is_whitespace() || "()#?".contains(c) { '_' } else { c }).collect()
}
