//! What a reader found wrong, and where in the file. Lines are counted only for an error that is told: to count them
//! for every element would read the file from its start again and again.

use crate::format::{Problem, ReadError};
use crate::topology::TopologyError;

/// A place in a file, cheap to keep with every element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The offset of a byte, counted from 0.
    Byte(usize),
    /// A line, counted from 1, as the parser of a standard language tells it.
    Line(usize),
}

/// Why a file is no topology.
#[derive(Debug)]
pub(super) enum Fault {
    At {
        place: Place,
        element: String,
        problem: Problem,
    },
    /// A second node with the id of the node at `first`.
    DuplicateNode {
        place: Place,
        element: String,
        first: Place,
    },
    /// A list of GML that was opened and not closed.
    Unclosed {
        place: Place,
        key: String,
        opened: Place,
    },
    Topology(TopologyError),
}

impl Place {
    /// The line, counted from 1.
    fn line(self, text: &str) -> usize {
        match self {
            Self::Byte(offset) => {
                text.as_bytes()[..offset.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1
            }
            Self::Line(line) => line,
        }
    }
}

impl Default for Place {
    fn default() -> Self {
        Self::Byte(0)
    }
}

impl From<usize> for Place {
    fn from(offset: usize) -> Self {
        Self::Byte(offset)
    }
}

impl From<TopologyError> for Fault {
    fn from(error: TopologyError) -> Self {
        Self::Topology(error)
    }
}

impl Fault {
    pub(super) fn at(place: impl Into<Place>, element: impl Into<String>, problem: Problem) -> Self {
        Self::At { place: place.into(), element: shortened(element.into()), problem }
    }

    pub(super) fn expected(place: impl Into<Place>, element: impl Into<String>, what: &'static str) -> Self {
        Self::at(place, element, Problem::Expected(what))
    }

    /// A text that is no JSON. The message of serde_json ends with the line, which stands in front here.
    pub(super) fn of_json(error: &serde_json::Error) -> Self {
        let words = error.to_string();
        let what = words.rsplit_once(" at line ").map_or(words.as_str(), |(what, _)| what);
        let problem = Problem::Syntax(format!("{what} in column {}", error.column()));
        Self::at(Place::Line(error.line()), "JSON", problem)
    }

    /// The error to tell, with lines for places.
    pub(super) fn in_text(self, text: &str) -> ReadError {
        match self {
            Self::At { place, element, problem } => {
                ReadError::At { line: place.line(text), element, problem }
            }
            Self::DuplicateNode { place, element, first } => {
                let problem = Problem::DuplicateNode { first: first.line(text) };
                ReadError::At { line: place.line(text), element: shortened(element), problem }
            }
            Self::Unclosed { place, key, opened } => {
                let element = shortened(format!("{key} of line {}", opened.line(text)));
                ReadError::At {
                    line: place.line(text),
                    element,
                    problem: Problem::Expected("its closing \"]\""),
                }
            }
            Self::Topology(error) => ReadError::Topology(error),
        }
    }
}

/// The byte at which a piece of a text begins in it.
pub(super) fn offset_in(text: &str, piece: &str) -> usize {
    (piece.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

/// An error is one line to read, however long the words of a broken file are.
fn shortened(mut element: String) -> String {
    const LONGEST: usize = 60;
    if let Some((end, _)) = element.char_indices().nth(LONGEST) {
        element.truncate(end);
        element.push('…');
    }
    element
}
