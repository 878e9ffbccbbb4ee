//! Motion as a series of waypoints.

use crate::mobility::Position;

/// Where a node is at a time. Between two waypoints it goes straight at one speed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Waypoint {
    /// Since the start, in seconds.
    pub time_s: f64,
    /// Where it is, in metres.
    pub position: Position,
}

impl Waypoint {
    pub(super) fn new(time_s: f64, [x, y]: [f64; 2]) -> Self {
        Self { time_s, position: Position { x, y } }
    }

    /// Where the straight way to a later waypoint is at a time; it never leaves the two, whatever the rounding.
    pub(super) fn toward(self, to: Self, time_s: f64) -> Self {
        let share = ((time_s - self.time_s) / (to.time_s - self.time_s)).clamp(0.0, 1.0);
        let mix = |a: f64, b: f64| (a + (b - a) * share).clamp(a.min(b), a.max(b));
        let (from, to) = (self.position, to.position);
        Self { time_s, position: Position { x: mix(from.x, to.x), y: mix(from.y, to.y) } }
    }
}

/// A series of waypoints in the order of time: endless for a model, finite for a trace.
pub(super) type Course<'a> = Box<dyn Iterator<Item = Waypoint> + Send + 'a>;

/// A course being followed: where the node is, for times that only grow.
///
/// Before the first waypoint it waits there, after the last it stays there.
pub(super) struct Cursor<'a> {
    course: Course<'a>,
    from: Waypoint,
    to: Option<Waypoint>,
}

impl<'a> Cursor<'a> {
    /// `None` for a course without a waypoint.
    pub(super) fn new(mut course: Course<'a>) -> Option<Self> {
        let from = course.next()?;
        let to = course.next();
        Some(Self { course, from, to })
    }

    /// When the present stretch ends.
    pub(super) fn next_turn_s(&self) -> Option<f64> {
        self.to.map(|to| to.time_s)
    }

    /// Where the node is at `time_s`, not before what was last asked for. O(1) and the waypoints passed.
    pub(super) fn position_at(&mut self, time_s: f64) -> Position {
        while let Some(to) = self.to.filter(|to| to.time_s <= time_s) {
            self.from = to;
            self.to = self.course.next();
        }
        match self.to {
            Some(to) => self.from.toward(to, time_s).position,
            None => self.from.position,
        }
    }
}

/// How far two places are from each other. A square root rounds alike on every machine, the system's hypot does not.
pub(super) fn distance(from: Position, to: Position) -> f64 {
    let (x, y) = (to.x - from.x, to.y - from.y);
    (x * x + y * y).sqrt()
}
