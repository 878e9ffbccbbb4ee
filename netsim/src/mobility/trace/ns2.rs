//! ns-2's movement files, as its `setdest` and BonnMotion's `NSFile` write them.
//!
//! ```text
//! $node_(0) set X_ 131.5
//! $node_(0) set Y_ 247.25
//! $ns_ at 0.0 "$node_(0) setdest 353.5 171.75 0.8"
//! # $ns_ at 290.7 "$node_(0) setdest 353.5 171.75 0.0"
//! ```
//!
//! At its time a node leaves where it is for the destination, at the speed in m/s, and stays there when it has arrived;
//! a later `setdest` may turn it round on the way. Comments do not count: BonnMotion writes pauses as comments, and a
//! node that has arrived pauses anyway. `$god_` lines (hops between nodes) and `set` lines are passed over.
//!
//! ns-2 fails on coordinates of 0, so BonnMotion moves everything by a margin of 10 m right and up.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::error::{TraceError, TraceProblem};
use super::{GREATEST_COORDINATE_M, GREATEST_TIME_S, Trace, coordinate, gzip, number, shortened, time};
use crate::mobility::Position;
use crate::mobility::waypoint::{Waypoint, distance};

/// How far BonnMotion's ns-2 files are shifted against its own, in both coordinates, in metres.
pub const BONNMOTION_MARGIN_M: f64 = 10.0;

/// Reads an ns-2 movement file, compressed or not; `margin_m` is taken off all coordinates
/// ([`BONNMOTION_MARGIN_M`] for those that BonnMotion wrote, otherwise 0).
///
/// # Errors
/// [`TraceError`] with the line. Three-dimensional files are refused.
pub fn read_ns2(bytes: &[u8], margin_m: f64) -> Result<Trace, TraceError> {
    let text = gzip::text(bytes)?;
    let mut nodes: BTreeMap<u32, Draft> = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        let statement = Statement::read(line).map_err(|problem| problem.at(line_number))?;
        let Some((number, statement)) = statement else { continue };
        let node = nodes.entry(number).or_insert_with(|| Draft::new(line_number));
        node.take(number, statement).map_err(|problem| problem.at(line_number))?;
    }
    if let Some((&last, _)) = nodes.last_key_value() {
        let missing = nodes.keys().zip(0..).find(|(number, place)| **number != *place);
        if let Some((_, missing)) = missing {
            return Err(TraceError::MissingNode { missing, nodes: nodes.len(), last });
        }
    }
    let waypoints = nodes.into_iter().map(|(number, node)| node.waypoints(number, margin_m));
    Trace::new(waypoints.collect::<Result<_, _>>()?)
}

/// What a line says of a node.
#[derive(Debug, Clone, Copy)]
enum Statement {
    Start { axis: usize, value: f64 },
    Depart(Departure),
}

/// A `setdest`.
#[derive(Debug, Clone, Copy)]
struct Departure {
    time_s: f64,
    to: Position,
    speed_mps: f64,
}

const COORDINATES: [&str; 2] = ["X_", "Y_"];

impl Statement {
    /// The statement of a line and the node that it is about; `None` for what is passed over.
    fn read(line: &str) -> Result<Option<(u32, Self)>, TraceProblem> {
        let line = line.trim();
        let unknown = || TraceProblem::Statement { found: shortened(line) };
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words[..] {
            [] | ["$god_" | "set", ..] => Ok(None),
            [first, ..] if first.starts_with('#') => Ok(None),
            [node, "set", axis, value] if node.starts_with("$node_(") => {
                let number = node_number(node)?;
                Ok(Self::start(axis, value)?.map(|statement| (number, statement)))
            }
            ["$ns_", "at", _, ref command @ ..] if command.first().is_some_and(|word| *word == "\"$god_") => {
                Ok(None)
            }
            ["$ns_", "at", at, node, "setdest", ref rest @ ..] => {
                let number = node_number(node.strip_prefix('"').ok_or_else(unknown)?)?;
                let rest: Vec<&str> = rest.iter().map(|word| word.trim_end_matches('"')).collect();
                match rest[..] {
                    [x, y, speed] => {
                        let to = Position { x: coordinate(x)?, y: coordinate(y)? };
                        let speed_mps = self::number(speed, "a speed in m/s", (0.0, GREATEST_COORDINATE_M))?;
                        Ok(Some((number, Self::Depart(Departure { time_s: time(at)?, to, speed_mps }))))
                    }
                    [_, _, _, _] => Err(TraceProblem::ThreeDimensional),
                    _ => Err(unknown()),
                }
            }
            _ => Err(unknown()),
        }
    }

    fn start(axis: &str, value: &str) -> Result<Option<Self>, TraceProblem> {
        let value = coordinate(value)?;
        match COORDINATES.into_iter().position(|name| name == axis) {
            Some(axis) => Ok(Some(Self::Start { axis, value })),
            None if axis == "Z_" && value == 0.0 => Ok(None),
            None if axis == "Z_" => Err(TraceProblem::ThreeDimensional),
            None => Err(TraceProblem::Statement { found: format!("set {}", shortened(axis)) }),
        }
    }
}

/// The number in `$node_(N)`.
fn node_number(word: &str) -> Result<u32, TraceProblem> {
    let number = word.strip_prefix("$node_(").and_then(|word| word.strip_suffix(')'));
    let number = number.and_then(|number| number.parse().ok());
    number.ok_or_else(|| TraceProblem::NodeNumber { found: shortened(word) })
}

/// What the file has said of a node so far.
#[derive(Debug)]
struct Draft {
    first_line: usize,
    start: [Option<f64>; 2],
    departures: Vec<Departure>,
}

impl Draft {
    fn new(first_line: usize) -> Self {
        Self { first_line, start: [None; 2], departures: Vec::new() }
    }

    fn take(&mut self, node: u32, statement: Statement) -> Result<(), TraceProblem> {
        match statement {
            Statement::Depart(departure) => self.departures.push(departure),
            Statement::Start { axis, value } => {
                if self.start[axis].replace(value).is_some() {
                    return Err(TraceProblem::SecondStart { node, coordinate: COORDINATES[axis] });
                }
            }
        }
        Ok(())
    }

    fn waypoints(mut self, node: u32, margin_m: f64) -> Result<Vec<Waypoint>, TraceError> {
        let start = |axis: usize| {
            let (line, coordinate) = (self.first_line, COORDINATES[axis]);
            self.start[axis].ok_or(TraceError::NoStart { node, line, coordinate })
        };
        let position = Position { x: start(0)?, y: start(1)? };
        // ns-2 carries commands out by their times, whatever their order in the file.
        self.departures.sort_by(|a, b| a.time_s.total_cmp(&b.time_s));
        let mut way = Way { waypoints: vec![Waypoint { time_s: 0.0, position }], under_way: None };
        for departure in self.departures {
            way.depart(departure);
        }
        way.arrive();
        for waypoint in &mut way.waypoints {
            waypoint.position.x -= margin_m;
            waypoint.position.y -= margin_m;
        }
        Ok(way.waypoints)
    }
}

/// The way of a node: the waypoints that are behind it, and the one that it is going to.
struct Way {
    waypoints: Vec<Waypoint>,
    under_way: Option<Waypoint>,
}

impl Way {
    fn depart(&mut self, Departure { time_s, to, speed_mps }: Departure) {
        if self.under_way.is_some_and(|arrival| arrival.time_s <= time_s) {
            self.arrive();
        }
        let last = self.waypoints[self.waypoints.len() - 1];
        let here = match self.under_way.take() {
            Some(arrival) => last.toward(arrival, time_s),
            None => Waypoint { time_s, ..last },
        };
        self.push(here);
        let distance_m = distance(here.position, to);
        let arrival_s = time_s + distance_m / speed_mps;
        // A node that does not move stays until the next command, and so does one that would creep for ever.
        if distance_m > 0.0 && arrival_s <= GREATEST_TIME_S {
            self.under_way = Some(Waypoint { time_s: arrival_s, position: to });
        }
    }

    fn arrive(&mut self) {
        if let Some(arrival) = self.under_way.take() {
            self.push(arrival);
        }
    }

    fn push(&mut self, waypoint: Waypoint) {
        if self.waypoints.last().is_none_or(|last| waypoint.time_s > last.time_s) {
            self.waypoints.push(waypoint);
        }
    }
}

/// A trace as an ns-2 movement file, all coordinates moved by `margin_m` ([`BONNMOTION_MARGIN_M`], or more where the
/// trace has negative coordinates: ns-2 wants them above 0).
///
/// The format has no end and knows no pauses: a node that pauses last is done when it has arrived.
pub fn write_ns2(trace: &Trace, margin_m: f64) -> String {
    let mut text = String::new();
    for (node, waypoints) in trace.nodes().iter().enumerate() {
        let [x, y] = shifted(waypoints[0].position, margin_m);
        let _ = writeln!(text, "$node_({node}) set X_ {x:?}\n$node_({node}) set Y_ {y:?}");
        for pair in waypoints.windows(2).filter(|pair| pair[0].position != pair[1].position) {
            let [x, y] = shifted(pair[1].position, margin_m);
            let speed = distance(pair[0].position, pair[1].position) / (pair[1].time_s - pair[0].time_s);
            let at = pair[0].time_s;
            let _ = writeln!(text, "$ns_ at {at:?} \"$node_({node}) setdest {x:?} {y:?} {speed:?}\"");
        }
    }
    text
}

fn shifted(position: Position, margin_m: f64) -> [f64; 2] {
    [position.x + margin_m, position.y + margin_m]
}
