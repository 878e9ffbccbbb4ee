//! Why a file is no trace.

use thiserror::Error;

use crate::units::Short;

/// Why a file is no trace.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum TraceError {
    /// No node in it.
    #[error("the trace has no nodes")]
    Empty,
    /// Bytes that are no text.
    #[error("line {line}: the trace is not UTF-8 text")]
    NotText {
        /// The line, counted from 1.
        line: usize,
    },
    /// A damaged `.gz`.
    #[error("the trace cannot be decompressed: {cause}")]
    Gzip {
        /// What the decompressor said.
        cause: String,
    },
    /// Decompressed, it would not fit.
    #[error("the trace has more than {} bytes", super::MAX_TRACE_BYTES)]
    TooLarge,
    /// Something at a line.
    #[error("line {line}: {problem}")]
    At {
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there.
        problem: TraceProblem,
    },
    /// Nodes are numbered 0, 1, 2 and so on, with gaps.
    #[error("there is no node {missing}, though the trace has {nodes} nodes up to number {last}")]
    MissingNode {
        /// The first number without a node.
        missing: u32,
        /// How many nodes there are.
        nodes: usize,
        /// The last node's number.
        last: u32,
    },
    /// A node that moves from nowhere.
    #[error("node {node} (first named in line {line}) has no {coordinate}")]
    NoStart {
        /// The node.
        node: u32,
        /// Where it is first named, counted from 1.
        line: usize,
        /// `X_` or `Y_`.
        coordinate: &'static str,
    },
}

/// What is wrong with a line of a trace.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum TraceProblem {
    /// Something that should be a number, or a number within the bounds.
    #[error("{found:?} where {what} should stand, from {} to {}", Short(.bounds.0), Short(.bounds.1))]
    Number {
        /// What should stand there.
        what: &'static str,
        /// What stands there.
        found: String,
        /// The least and the greatest value.
        bounds: (f64, f64),
    },
    /// A waypoint that is cut off.
    #[error("{words} numbers; a node's line holds time, x and y of each waypoint, so a multiple of 3")]
    Incomplete {
        /// How many words there are.
        words: usize,
    },
    /// A time before the last.
    #[error(
        "time {} stands after {}; the waypoints of a node stand in the order of time",
        Short(*.time_s),
        Short(*.last_s)
    )]
    Backwards {
        /// The time, in seconds.
        time_s: f64,
        /// The one before, in seconds.
        last_s: f64,
    },
    /// Two places at a time.
    #[error("the node is at two places at time {}", Short(*.time_s))]
    Jump {
        /// The time, in seconds.
        time_s: f64,
    },
    /// A third coordinate.
    #[error("the trace has three dimensions; only two are read")]
    ThreeDimensional,
    /// A line that does not mean anything here.
    #[error(
        "{found:?} is none of `$node_(N) set X_ VALUE`, `$ns_ at TIME \"$node_(N) setdest X Y SPEED\"`, a comment, \
         `$god_ …` or `set …`"
    )]
    Statement {
        /// The line, or its beginning.
        found: String,
    },
    /// A node number that is none.
    #[error("{found:?} is no node number")]
    NodeNumber {
        /// What stands there.
        found: String,
    },
    /// A second beginning.
    #[error("node {node} has its {coordinate} already")]
    SecondStart {
        /// The node.
        node: u32,
        /// `X_` or `Y_`.
        coordinate: &'static str,
    },
}

impl TraceProblem {
    pub(super) fn at(self, line: usize) -> TraceError {
        TraceError::At { line, problem: self }
    }
}
