//! BonnMotion's native files, `.movements` and `.movements.gz`.
//!
//! One line per node, which holds time (s), x and y (m) of each of its waypoints, separated by blanks. Lines that begin
//! with `#` are comments. The `.params` file beside it may say `dim=3` of a file that has two dimensions all the same,
//! so it is the number of words and the order of times that tell.

use std::fmt::Write as _;

use super::error::{TraceError, TraceProblem};
use super::{Trace, coordinate, gzip, time};
use crate::mobility::Position;
use crate::mobility::waypoint::Waypoint;

/// Reads a trace in BonnMotion's format, compressed or not.
///
/// # Errors
/// [`TraceError`] with the line. Three-dimensional files are refused.
pub fn read_bonnmotion(bytes: &[u8]) -> Result<Trace, TraceError> {
    let text = gzip::text(bytes)?;
    let mut nodes = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        let waypoints = waypoints(line).map_err(|problem| diagnose(line, problem).at(index + 1))?;
        nodes.push(waypoints);
    }
    Trace::new(nodes)
}

fn waypoints(line: &str) -> Result<Vec<Waypoint>, TraceProblem> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    if !words.len().is_multiple_of(3) {
        return Err(TraceProblem::Incomplete { words: words.len() });
    }
    let mut waypoints: Vec<Waypoint> = Vec::with_capacity(words.len() / 3);
    for word in words.chunks_exact(3) {
        let position = Position { x: coordinate(word[1])?, y: coordinate(word[2])? };
        let waypoint = Waypoint { time_s: time(word[0])?, position };
        if check_order(waypoints.last(), waypoint)? {
            waypoints.push(waypoint);
        }
    }
    Ok(waypoints)
}

/// Whether a waypoint that follows another says anything new.
fn check_order(last: Option<&Waypoint>, next: Waypoint) -> Result<bool, TraceProblem> {
    let Some(last) = last else { return Ok(true) };
    let time_s = next.time_s;
    if time_s < last.time_s {
        return Err(TraceProblem::Backwards { time_s, last_s: last.time_s });
    }
    if time_s == last.time_s && next.position != last.position {
        return Err(TraceProblem::Jump { time_s });
    }
    Ok(time_s > last.time_s)
}

/// A line that makes no sense as waypoints of two dimensions may do so with three.
fn diagnose(line: &str, problem: TraceProblem) -> TraceProblem {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let times: Option<Vec<f64>> = words.chunks(4).map(|waypoint| waypoint[0].parse().ok()).collect();
    let fits = words.len().is_multiple_of(4)
        && words.iter().all(|word| word.parse::<f64>().is_ok())
        && times.is_some_and(|times| times.is_sorted());
    if fits { TraceProblem::ThreeDimensional } else { problem }
}

/// A trace in BonnMotion's format; reading it gives back exactly the same.
pub fn write_bonnmotion(trace: &Trace) -> String {
    let mut text = String::new();
    for waypoints in trace.nodes() {
        for (index, Waypoint { time_s, position }) in waypoints.iter().enumerate() {
            let separator = if index == 0 { "" } else { " " };
            let _ = write!(text, "{separator}{time_s:?} {:?} {:?}", position.x, position.y);
        }
        text.push('\n');
    }
    text
}
