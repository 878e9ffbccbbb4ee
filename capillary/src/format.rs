//! Topology files: reading and writing, whatever the format. Feature `formats`.
//!
//! | format | known by | positions | capacity attribute |
//! |---|---|---|---|
//! | GML | `graph [` | `Longitude`, `Latitude`; `graphics [ x y ]` | any key of an edge |
//! | GraphML | `<graphml` | data named `Longitude`, `Latitude` or `x`, `y` | any data of an edge |
//! | SNDlib XML | `<network` | `coordinates` | `pre_installed_capacity`, `module_capacity` (the first module's) |
//! | SNDlib native | `?SNDlib native` | in the node's parentheses | the same |
//! | node-link JSON (networkx) | `{` | `pos: [x, y]` | any number of a link |
//! | DOT | `graph {`, `digraph {` | `pos="x,y"` | any attribute of an edge |
//! | CSV, with commas, semicolons, tabs or bars | a first line that names both ends, as `from`, `to` | – | any column |
//! | Repetita | `NODES n` | `x`, `y` | `bw` |
//! | CAIDA's AS relationships | `1\|2\|-1` | – | – |
//! | Rocketfuel (`.cch`) | `1 @City … ->` | – | – |
//! | list of links | two nodes a line, then numbers | – | `weight`, `column_4`, …, or names as networkx writes them |

mod attributes;
mod caida;
mod csv;
mod dot;
mod draft;
mod edge_list;
mod fault;
mod gml;
mod graphml;
mod lines;
mod node_link;
mod repetita;
mod rocketfuel;
mod sndlib_native;
mod sndlib_xml;
mod traffic;
mod xml;

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::topology::{Orientation, Topology, TopologyError};
pub use traffic::{amount, read_traffic};

use draft::Draft;
use fault::Fault;

/// The formats that topologies are read from and written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Graph Modelling Language, as the Topology Zoo has it.
    Gml,
    /// GraphML.
    GraphMl,
    /// SNDlib's XML.
    SndlibXml,
    /// SNDlib's native format.
    SndlibNative,
    /// networkx's node-link JSON.
    NodeLink,
    /// Graphviz DOT.
    Dot,
    /// A table with one link per line.
    Csv,
    /// Repetita's graphs.
    Repetita,
    /// CAIDA's relationships of autonomous systems.
    Caida,
    /// Rocketfuel's maps of providers.
    Rocketfuel,
    /// Two nodes a line, and perhaps numbers.
    EdgeList,
}

impl Format {
    /// All formats, in the order in which error messages list them.
    pub const ALL: [Self; 11] = [
        Self::Gml,
        Self::GraphMl,
        Self::SndlibXml,
        Self::SndlibNative,
        Self::NodeLink,
        Self::Dot,
        Self::Csv,
        Self::Repetita,
        Self::Caida,
        Self::Rocketfuel,
        Self::EdgeList,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gml => "gml",
            Self::GraphMl => "graphml",
            Self::SndlibXml => "sndlib-xml",
            Self::SndlibNative => "sndlib-native",
            Self::NodeLink => "json",
            Self::Dot => "dot",
            Self::Csv => "csv",
            Self::Repetita => "repetita",
            Self::Caida => "caida",
            Self::Rocketfuel => "rocketfuel",
            Self::EdgeList => "edges",
        }
    }

    /// Tells the format by the first words that are no comment.
    pub fn detect(text: &str) -> Option<Self> {
        let text = text.trim_start_matches('\u{feff}').trim_start();
        if text.contains('\0') {
            return None;
        }
        if text.starts_with("?SNDlib") {
            return Some(Self::SndlibNative);
        }
        if text.starts_with('<') {
            let is_there = |element: &str| text.contains(element);
            return if is_there("<graphml") {
                Some(Self::GraphMl)
            } else {
                is_there("<network").then_some(Self::SndlibXml)
            };
        }
        if text.starts_with('{') {
            return Some(Self::NodeLink);
        }
        Self::detect_by_words(text)
    }

    fn detect_by_words(text: &str) -> Option<Self> {
        let is_comment = |line: &&str| line.is_empty() || line.starts_with('#') || line.starts_with("//");
        let line = text.lines().map(str::trim).find(|line| !is_comment(line))?.to_ascii_lowercase();
        if csv::is_header(&line) {
            return Some(Self::Csv);
        }
        if repetita::is_one(text) {
            return Some(Self::Repetita);
        }
        if caida::is_one(text) {
            return Some(Self::Caida);
        }
        if rocketfuel::is_one(text) {
            return Some(Self::Rocketfuel);
        }
        let is_dot = ["graph", "digraph", "strict", "/*"].iter().any(|word| line.starts_with(word));
        let (brace, bracket) = (text.find('{'), text.find('['));
        match (brace, bracket) {
            (Some(brace), Some(bracket)) if is_dot && brace < bracket => Some(Self::Dot),
            (Some(_), None) if is_dot => Some(Self::Dot),
            // GML may begin with Creator, Version or another key.
            (_, Some(_)) if text.contains("graph") => Some(Self::Gml),
            _ if line == "graph" || line.starts_with("creator ") => Some(Self::Gml),
            _ => edge_list::is_one(text).then_some(Self::EdgeList),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let found = Self::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| UnknownFormat { name: name.into() })
    }
}

/// A name of no format.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{name:?} is no format; expected {}", names())]
pub struct UnknownFormat {
    /// The name that was given.
    pub name: String,
}

fn names() -> String {
    Format::ALL.map(Format::name).join(", ")
}

/// How to read a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReadOptions {
    /// The format; `None`: told by the content.
    pub format: Option<Format>,
    /// The attribute that holds the capacity of a link; `None`: every link has capacity 1.
    pub capacity: Option<String>,
    /// The capacity of links whose attribute is missing, or zero or less; `None`: such a link is an error.
    pub default_capacity: Option<f64>,
    /// The attribute that holds the metric of a link in an interior gateway protocol; `None`: 1 each.
    pub metric: Option<String>,
    /// The attribute that holds the delay of a link, in milliseconds or with a unit; `None`: `delay_ms`, where a link
    /// has it.
    pub delay: Option<String>,
    /// How to read the links; `None`: as the file says.
    pub orientation: Option<Orientation>,
}

/// What came out of a file.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The network. Every link of the file has its position as its id, self-loops too.
    pub topology: Topology,
    /// The format that it was in.
    pub format: Format,
    /// What was odd, one line each.
    pub warnings: Vec<String>,
}

/// Why a file is no topology.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ReadError {
    /// Nothing but blanks.
    #[error("the file is empty; expected a topology ({})", names())]
    Empty,
    /// A file of demands without any.
    #[error("there is no demand to route; expected one above 0 between two different nodes at least")]
    NoDemands,
    /// A content that no format begins with.
    #[error("line 1: the file looks like none of {}", names())]
    UnknownFormat,
    /// Something at a place of the file.
    #[error("line {line}, {element}: {problem}")]
    At {
        /// The line, counted from 1.
        line: usize,
        /// The node, link or word.
        element: String,
        /// What is wrong with it.
        problem: Problem,
    },
    /// A file with too many nodes or links.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

/// What is wrong with an element of a file.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Problem {
    /// Something else must stand here.
    #[error("expected {0}")]
    Expected(&'static str),
    /// A parser of a standard language refused.
    #[error("{0}")]
    Syntax(String),
    /// A second node with the id.
    #[error("the id stands at line {first} already; expected a new one")]
    DuplicateNode {
        /// The line of the first.
        first: usize,
    },
    /// A link end that is no node.
    #[error("{id:?} is no node of the file")]
    UnknownNode {
        /// The id that was given.
        id: String,
    },
    /// No capacity where one was asked for.
    #[error("it has no attribute {attribute:?}; expected a capacity there (it has: {present})")]
    MissingCapacity {
        /// The attribute asked for.
        attribute: String,
        /// The attributes that the link has.
        present: String,
    },
    /// A capacity that is none.
    #[error("its {attribute} is {text}; expected a number above 0")]
    BadCapacity {
        /// The attribute.
        attribute: String,
        /// What stands there.
        text: String,
    },
    /// An attribute that was asked for, and is no value of that kind or not there at all.
    #[error("its {attribute} is {text}; expected {expected}")]
    BadAttribute {
        /// The attribute.
        attribute: String,
        /// What stands there, or that it is missing.
        text: String,
        /// What would be right.
        expected: &'static str,
    },
    /// A link that is directed in an undirected network, or the other way round.
    #[error("it differs from the others in being directed; expected all links of one kind")]
    MixedOrientation,
}

/// Reads a topology from the bytes of a file: UTF-8, or else Latin-1.
///
/// ```
/// use capillary::format::{ReadOptions, read};
///
/// let loaded = read(b"from,to\na,b\nb,c\nb,b\n", &ReadOptions::default())?;
/// assert_eq!(loaded.topology.link_count(), 3);
/// assert_eq!(loaded.warnings, ["link 2 (b to b) is a self-loop and carries nothing"]);
///
/// let error = read(b"from,to\na\n", &ReadOptions::default()).unwrap_err();
/// assert_eq!(error.to_string(), "line 2, link 0: expected two nodes");
/// # Ok::<(), capillary::format::ReadError>(())
/// ```
pub fn read(bytes: &[u8], options: &ReadOptions) -> Result<Loaded, ReadError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => read_text(text, options),
        Err(_) => read_text(&bytes.iter().copied().map(char::from).collect::<String>(), options),
    }
}

fn read_text(text: &str, options: &ReadOptions) -> Result<Loaded, ReadError> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Err(ReadError::Empty);
    }
    let format = options.format.or_else(|| Format::detect(text)).ok_or(ReadError::UnknownFormat)?;
    let built = read_as(format, text).and_then(|draft| draft.build(options));
    let (topology, warnings) = built.map_err(|fault| fault.in_text(text))?;
    Ok(Loaded { topology, format, warnings })
}

fn read_as(format: Format, text: &str) -> Result<Draft, Fault> {
    match format {
        Format::Gml => gml::read(text),
        Format::GraphMl => graphml::read(text),
        Format::SndlibXml => sndlib_xml::read(text),
        Format::SndlibNative => sndlib_native::read(text),
        Format::NodeLink => node_link::read(text),
        Format::Dot => dot::read(text),
        Format::Csv => csv::read(text),
        Format::Repetita => repetita::read(text),
        Format::Caida => caida::read(text),
        Format::Rocketfuel => rocketfuel::read(text),
        Format::EdgeList => edge_list::read(text),
    }
}

/// Writes a topology; what the format has no place for is left out.
///
/// ```
/// use capillary::format::{Format, ReadOptions, read, write};
/// use capillary::{Orientation, Topology};
///
/// let topology = Topology::from_links(Orientation::Directed, [("a", "b", 2.0)])?;
/// let text = write(&topology, Format::Gml);
/// let options = ReadOptions { capacity: Some("capacity".into()), ..ReadOptions::default() };
/// assert_eq!(read(text.as_bytes(), &options)?.topology.link_weight(capillary::LinkId(0)).capacity, 2.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write(topology: &Topology, format: Format) -> String {
    match format {
        Format::Gml => gml::write(topology),
        Format::GraphMl => graphml::write(topology),
        Format::SndlibXml => sndlib_xml::write(topology),
        Format::SndlibNative => sndlib_native::write(topology),
        Format::NodeLink => node_link::write(topology),
        Format::Dot => dot::write(topology),
        Format::Csv => csv::write(topology),
        Format::Repetita => repetita::write(topology),
        Format::Caida => caida::write(topology),
        Format::Rocketfuel => rocketfuel::write(topology),
        Format::EdgeList => edge_list::write(topology),
    }
}
