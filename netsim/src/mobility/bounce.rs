//! Straight motion that is reflected at the border of the area.

use super::area::Area;
use super::error::ScenarioError;
use super::waypoint::Waypoint;

/// How often a node may cross the shorter side between two changes of its velocity. More is surely a mistake in the
/// parameters, and would take long to compute.
pub(super) const MAX_CROSSINGS: f64 = 1_000.0;

/// A node that moves at a velocity until it is told of another, and is reflected at the border.
///
/// The velocity is that of an unfolded motion, in a plane tiled with mirror images of the area; in the image where the
/// node happens to be, `mirror` says which coordinates run backwards. What is uniform and stationary in the unfolded
/// plane stays so in the area, so no model is disturbed by the border.
#[derive(Debug, Clone)]
pub(super) struct Bouncer {
    sides: [f64; 2],
    time_s: f64,
    at: [f64; 2],
    mirror: [f64; 2],
    pub(super) velocity: [f64; 2],
}

impl Bouncer {
    pub(super) fn new(area: Area, at: [f64; 2], velocity: [f64; 2]) -> Self {
        Self { sides: area.sides(), time_s: 0.0, at, mirror: [1.0; 2], velocity }
    }

    pub(super) fn time_s(&self) -> f64 {
        self.time_s
    }

    pub(super) fn waypoint(&self) -> Waypoint {
        Waypoint::new(self.time_s, self.at)
    }

    /// Moves until `until_s`, or until it meets the border if that is earlier.
    pub(super) fn advance(&mut self, until_s: f64) -> Waypoint {
        let hits = [0, 1].map(|axis| self.time_to_border(axis));
        let axis = usize::from(hits[1] < hits[0]);
        if self.time_s + hits[axis] >= until_s {
            self.go(until_s - self.time_s);
            self.time_s = until_s;
        } else {
            self.go(hits[axis]);
            self.time_s += hits[axis];
            self.at[axis] = if self.speed(axis) > 0.0 { self.sides[axis] } else { 0.0 };
            self.mirror[axis] = -self.mirror[axis];
        }
        self.waypoint()
    }

    fn speed(&self, axis: usize) -> f64 {
        self.velocity[axis] * self.mirror[axis]
    }

    /// When the node reaches the border along an axis. A node that stands on the border and would leave the area turns
    /// round first.
    fn time_to_border(&mut self, axis: usize) -> f64 {
        let distance = |this: &Self| {
            if this.speed(axis) > 0.0 { this.sides[axis] - this.at[axis] } else { this.at[axis] }
        };
        if distance(self) <= 0.0 {
            self.mirror[axis] = -self.mirror[axis];
        }
        // A coordinate that does not change never gets there: x/0 is infinite.
        distance(self) / self.speed(axis).abs()
    }

    fn go(&mut self, time_s: f64) {
        for axis in [0, 1] {
            self.at[axis] = (self.at[axis] + self.speed(axis) * time_s).clamp(0.0, self.sides[axis]);
        }
    }
}

/// Checks that a node which goes this far before it turns does not cross the area over and over.
pub(super) fn check_distance(area: Area, distance_m: f64) -> Result<(), ScenarioError> {
    if distance_m <= MAX_CROSSINGS * area.shorter_side() {
        Ok(())
    } else {
        Err(ScenarioError::TooFast { distance_m })
    }
}
