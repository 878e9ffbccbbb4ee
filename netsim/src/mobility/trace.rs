//! Recorded motion: BonnMotion's and ns-2's files, in and out.

mod bonnmotion;
mod error;
mod gzip;
mod ns2;

use std::time::Duration;

pub use self::bonnmotion::{read_bonnmotion, write_bonnmotion};
pub use self::error::{TraceError, TraceProblem};
pub use self::gzip::{MAX_TRACE_BYTES, gzip};
pub use self::ns2::{BONNMOTION_MARGIN_M, read_ns2, write_ns2};

use super::frame::Frames;
use super::scenario::Scenario;
use super::waypoint::{Course, Cursor, Waypoint};
use crate::mobility::Position;

/// The largest coordinate, in metres, either way from 0.
const GREATEST_COORDINATE_M: f64 = 1e9;
/// The latest time, in seconds: thirty thousand years.
const GREATEST_TIME_S: f64 = 1e12;

/// The motion of all nodes, recorded: for each node its waypoints in the order of time.
///
/// Before its first waypoint a node waits there, after its last it stays there.
///
/// ```
/// use std::time::Duration;
/// use netsim::mobility::{Length, trace};
///
/// let text = "0.0 0.0 0.0 10.0 30.0 40.0\n0.0 30.0 0.0\n";
/// let trace = trace::read_bonnmotion(text.as_bytes())?;
/// assert_eq!((trace.nodes().len(), trace.duration_s()), (2, 10.0));
///
/// let frame = trace.frames(Duration::from_secs(5)).nth(1).unwrap();
/// assert_eq!((frame.positions[0].x, frame.positions[0].y), (15.0, 20.0));
/// assert_eq!(frame.links(Length::from_metres(25.0)?), [(0, 1)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    nodes: Vec<Vec<Waypoint>>,
    duration_s: f64,
}

impl Trace {
    /// The trace of these waypoints, node by node; the reader has checked them.
    fn new(nodes: Vec<Vec<Waypoint>>) -> Result<Self, TraceError> {
        if nodes.is_empty() {
            return Err(TraceError::Empty);
        }
        let ends = nodes.iter().filter_map(|waypoints| waypoints.last()).map(|last| last.time_s);
        let duration_s = ends.fold(0.0, f64::max);
        Ok(Self { nodes, duration_s })
    }

    /// The waypoints of each node, at least one.
    pub fn nodes(&self) -> &[Vec<Waypoint>] {
        &self.nodes
    }

    /// The time of the last waypoint, in seconds.
    pub fn duration_s(&self) -> f64 {
        self.duration_s
    }

    /// The frames at times 0, `interval`, 2·`interval` and so on until the end, which counts if it falls on one. An
    /// interval of zero gives the first frame only.
    pub fn frames(&self, interval: Duration) -> Frames<'_> {
        let cursors =
            self.nodes.iter().filter_map(|waypoints| Cursor::new(Box::new(waypoints.iter().copied())));
        // A duration that was computed from speeds may fall short of a whole number by a rounding.
        let intervals = self.duration_s * (1.0 + 1e-12) / interval.as_secs_f64();
        let end = if intervals.is_finite() { (intervals as u64).saturating_add(1) } else { 1 };
        Frames::new(cursors.collect(), interval, Some(end))
    }

    /// The smallest rectangle that holds all waypoints: its lower left and upper right corners.
    pub fn bounds(&self) -> (Position, Position) {
        let positions = || self.nodes.iter().flatten().map(|waypoint| waypoint.position);
        let first = positions().next().unwrap_or(Position { x: 0.0, y: 0.0 });
        positions().fold((first, first), |(low, high), at| {
            (
                Position { x: low.x.min(at.x), y: low.y.min(at.y) },
                Position { x: high.x.max(at.x), y: high.y.max(at.y) },
            )
        })
    }
}

impl Scenario {
    /// The motion of all nodes from 0 to `duration`, as a trace: the frames of [`Scenario::frames`] and of the trace
    /// are the same up to rounding.
    pub fn trace(&self, seed: u64, duration: Duration) -> Trace {
        let end_s = duration.as_secs_f64();
        let nodes = (0..self.nodes()).map(|node| until(self.course(seed, node), end_s)).collect();
        Trace { nodes, duration_s: end_s }
    }
}

/// The waypoints of a course before `end_s`, and where the node is then.
fn until(course: Course<'_>, end_s: f64) -> Vec<Waypoint> {
    let mut waypoints: Vec<Waypoint> = Vec::new();
    for waypoint in course {
        let last = waypoints.last().copied();
        if let Some(last) = last.filter(|_| waypoint.time_s >= end_s) {
            if last.time_s < end_s {
                waypoints.push(last.toward(waypoint, end_s));
            }
            break;
        }
        // A pause of no length is no waypoint.
        if last.is_none_or(|last| waypoint.time_s > last.time_s) {
            waypoints.push(waypoint);
        }
    }
    waypoints
}

/// A number of a trace, if it is one and in bounds.
fn number(word: &str, what: &'static str, bounds: (f64, f64)) -> Result<f64, TraceProblem> {
    let value = word.parse::<f64>().ok().filter(|value| (bounds.0..=bounds.1).contains(value));
    value.ok_or_else(|| TraceProblem::Number { what, found: shortened(word), bounds })
}

fn coordinate(word: &str) -> Result<f64, TraceProblem> {
    number(word, "a coordinate in metres", (-GREATEST_COORDINATE_M, GREATEST_COORDINATE_M))
}

fn time(word: &str) -> Result<f64, TraceProblem> {
    number(word, "a time in seconds", (0.0, GREATEST_TIME_S))
}

/// As much of a word as an error message should show.
fn shortened(word: &str) -> String {
    const SHOWN: usize = 40;
    match word.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &word[..end]),
        None => word.into(),
    }
}
