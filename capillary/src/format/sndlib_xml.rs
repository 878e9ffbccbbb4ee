//! SNDlib's XML [Orlowski, Pióro, Tomaszewski, Wessäly 2010]: networks are undirected, unless the reader knows better.
//!
//! The file is read as it comes: a tree of the whole document would take ten times the file's memory, and more time
//! than all else.

use std::borrow::Cow;

use quick_xml::XmlVersion;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::reader::Reader;

use crate::format::attributes::Attributes;
use crate::format::draft::{DraftLink, DraftNode};
use crate::format::fault::offset_in;
use crate::format::graphml::escape;
use crate::format::{Draft, Fault, Problem};
use crate::topology::Topology;

pub(super) fn read(text: &str) -> Result<Draft, Fault> {
    let mut document = Reader::from_str(text);
    let mut network = Structure { text, ..Structure::default() };
    loop {
        let position = document.buffer_position() as usize;
        let refused = |error: quick_xml::Error, place: u64| syntax(place as usize, error.to_string());
        match document.read_event().map_err(|error| refused(error, document.error_position()))? {
            Event::Start(start) => network.open(&start)?,
            Event::Empty(start) => {
                network.open(&start)?;
                network.close()?;
            }
            Event::End(_) => network.close()?,
            Event::Text(content) => network.content(position, &content.xml10_content())?,
            Event::CData(content) => network.content(position, &content)?,
            Event::GeneralRef(reference) => network.content(position, &resolved(&reference, position)?)?,
            Event::DocType(_) => return Err(syntax(position, "a document type; expected none".into())),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
            Event::Eof => return network.finish(),
        }
    }
}

fn syntax(place: usize, what: String) -> Fault {
    Fault::at(place, "XML", Problem::Syntax(what))
}

/// What an entity or a character by number stands for.
fn resolved<'r>(reference: &'r BytesRef<'_>, place: usize) -> Result<Cow<'r, str>, Fault> {
    if let Some(character) = reference.resolve_char_ref().map_err(|error| syntax(place, error.to_string()))? {
        return Ok(character.to_string().into());
    }
    let known = resolve_xml_entity(reference);
    known.map(Cow::from).ok_or_else(|| syntax(place, format!("&{};, an unknown entity", &**reference)))
}

/// An element of a network's structure; all others are of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    Structure,
    Node,
    Link,
    Coordinates,
    X,
    Y,
    Source,
    Target,
    PreInstalledModule,
    AdditionalModules,
    AddModule,
    Capacity,
    Other,
}

impl Element {
    fn of(name: &str) -> Self {
        match name {
            "networkStructure" => Self::Structure,
            "node" => Self::Node,
            "link" => Self::Link,
            "coordinates" => Self::Coordinates,
            "x" => Self::X,
            "y" => Self::Y,
            "source" => Self::Source,
            "target" => Self::Target,
            "preInstalledModule" => Self::PreInstalledModule,
            "additionalModules" => Self::AdditionalModules,
            "addModule" => Self::AddModule,
            "capacity" => Self::Capacity,
            _ => Self::Other,
        }
    }
}

/// What has been read so far.
#[derive(Debug, Default)]
struct Structure<'t> {
    text: &'t str,
    draft: Draft,
    /// The elements around the place that is being read, outermost first.
    open: Vec<Element>,
    /// How many of them are a network's structure, and whether there was one at all.
    depth: usize,
    is_there: bool,
    /// Whether the outermost element has ended.
    is_over: bool,
    /// The link that is being read.
    link: DraftLink,
    has_ends: [bool; 2],
    /// The text of the element that was opened last.
    content: String,
}

impl Structure<'_> {
    fn open(&mut self, start: &BytesStart<'_>) -> Result<(), Fault> {
        let place = offset_in(self.text, start).saturating_sub(1);
        if self.is_over {
            return Err(syntax(place, "a second outermost element; expected one".into()));
        }
        let element = Element::of(start.local_name().as_ref());
        self.open.push(element);
        self.content.clear();
        if element == Element::Structure {
            self.depth += 1;
            self.is_there = true;
        }
        if self.depth == 0 {
            return Ok(());
        }
        match element {
            Element::Node => {
                let name = format!("node {}", self.draft.nodes.len());
                let missing = || Fault::expected(place, name, "an attribute id");
                let id = id_of(start, place)?.ok_or_else(missing)?;
                self.draft.nodes.push(DraftNode { place: place.into(), id, ..DraftNode::default() });
            }
            Element::Link => {
                self.link =
                    DraftLink { place: place.into(), id: id_of(start, place)?, ..DraftLink::default() };
                self.has_ends = [false; 2];
            }
            _ => {}
        }
        Ok(())
    }

    /// Text of the element that is open. White space is all that may stand around the outermost one.
    fn content(&mut self, place: usize, text: &str) -> Result<(), Fault> {
        match self.open.last() {
            Some(Element::X | Element::Y | Element::Source | Element::Target | Element::Capacity) => {
                self.content.push_str(text);
            }
            Some(_) => {}
            None if text.trim().is_empty() => {}
            None => return Err(syntax(place, "text outside of all elements; expected none".into())),
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Fault> {
        let content = self.content.trim();
        match (self.depth, self.open.as_slice()) {
            (0, _) => {}
            (_, [.., Element::Node, Element::Coordinates, Element::X]) => {
                if let Some(node) = self.draft.nodes.last_mut() {
                    node.x = content.parse().ok();
                }
            }
            (_, [.., Element::Node, Element::Coordinates, Element::Y]) => {
                if let Some(node) = self.draft.nodes.last_mut() {
                    node.y = content.parse().ok();
                }
            }
            (_, [.., Element::Link, Element::Source]) if !self.has_ends[0] => {
                (self.link.from, self.has_ends[0]) = (content.into(), true);
            }
            (_, [.., Element::Link, Element::Target]) if !self.has_ends[1] => {
                (self.link.to, self.has_ends[1]) = (content.into(), true);
            }
            (_, [.., Element::Link, Element::PreInstalledModule, Element::Capacity]) => {
                capacity(&mut self.link.attributes, "pre_installed_capacity", content);
            }
            (_, [.., Element::Link, Element::AdditionalModules, Element::AddModule, Element::Capacity]) => {
                capacity(&mut self.link.attributes, "module_capacity", content);
            }
            (_, [.., Element::Link]) => self.add_link()?,
            (_, [.., Element::Structure]) => self.depth -= 1,
            _ => {}
        }
        self.open.pop();
        self.content.clear();
        self.is_over = self.open.is_empty();
        Ok(())
    }

    fn add_link(&mut self) -> Result<(), Fault> {
        let ends = ["an element source", "an element target"];
        if let Some((_, missing)) = self.has_ends.iter().zip(ends).find(|(has_end, _)| !**has_end) {
            let name = format!("link {}", self.draft.links.len());
            return Err(Fault::At {
                place: self.link.place,
                element: name,
                problem: Problem::Expected(missing),
            });
        }
        self.draft.links.push(std::mem::take(&mut self.link));
        Ok(())
    }

    fn finish(self) -> Result<Draft, Fault> {
        let end = self.text.len();
        if !self.open.is_empty() {
            return Err(syntax(end, "the end of the file within an element; expected its end".into()));
        }
        if !self.is_there {
            return Err(Fault::expected(end, "network", "an element networkStructure"));
        }
        Ok(self.draft)
    }
}

/// The first of several modules counts.
fn capacity(attributes: &mut Attributes, name: &'static str, content: &str) {
    if attributes.get(name).is_none() {
        attributes.insert(name, content);
    }
}

fn id_of(start: &BytesStart<'_>, place: usize) -> Result<Option<String>, Fault> {
    let mut id = None;
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| syntax(place, error.to_string()))?;
        if attribute.key.local_name().as_ref() == "id" {
            let value = attribute.normalized_value(XmlVersion::Implicit1_0);
            id = Some(value.map_err(|error| syntax(place, error.to_string()))?.into_owned());
        }
    }
    Ok(id)
}

pub(super) fn write(topology: &Topology) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n");
    out +=
        "<network xmlns=\"http://sndlib.zib.de/network\" version=\"1.0\">\n <networkStructure>\n  <nodes>\n";
    for (_, node) in topology.nodes() {
        out += &format!("   <node id=\"{}\">\n", escape(&node.id));
        if let Some(position) = node.position {
            let (x, y) = (position.x, position.y);
            out += &format!("    <coordinates>\n     <x>{x}</x>\n     <y>{y}</y>\n    </coordinates>\n");
        }
        out += "   </node>\n";
    }
    out += "  </nodes>\n  <links>\n";
    for (id, from, to, link) in topology.links() {
        let name = |node| escape(&topology.node_weight(node).id);
        let id = link.id.clone().unwrap_or_else(|| format!("L{}", id.0));
        out += &format!("   <link id=\"{}\">\n    <source>{}</source>\n", escape(&id), name(from));
        out += &format!("    <target>{}</target>\n    <preInstalledModule>\n", name(to));
        out += &format!(
            "     <capacity>{}</capacity>\n     <cost>0</cost>\n    </preInstalledModule>\n",
            link.capacity
        );
        out += "   </link>\n";
    }
    out + "  </links>\n </networkStructure>\n</network>\n"
}
