//! Nodes that move in groups.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;

use super::area::Area;
use super::draw;
use super::error::ScenarioError;
use super::scenario::Individual;
use super::units::{Length, positive_time};
use super::waypoint::{Cursor, Waypoint};
use crate::mobility::Position;

/// Reference-point group mobility (X. Hong, M. Gerla, G. Pei, C.-C. Chiang, MSWiM 1999): each group follows a
/// reference point, which moves by a model of its own; its members keep within a radius of it, where they move about.
///
/// A member's offset from the reference point goes straight from one place to the next, each drawn uniformly in the
/// disc of the radius, and takes one `step` for each; members change over at different times. Reference points keep a
/// radius away from the border, so that nobody leaves the area.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Groups {
    size: usize,
    radius: Length,
    step: Duration,
    reference: Individual,
}

impl Groups {
    /// Groups of `size` nodes (the last one may have fewer) that stray up to `radius` from their reference point, on
    /// stretches of one `step` each.
    ///
    /// # Errors
    /// [`ScenarioError::EmptyGroups`], [`ScenarioError::NoTime`].
    pub fn new(
        size: usize,
        radius: Length,
        step: Duration,
        reference: impl Into<Individual>,
    ) -> Result<Self, ScenarioError> {
        if size == 0 {
            return Err(ScenarioError::EmptyGroups);
        }
        Ok(Self { size, radius, step: positive_time(step, "step")?, reference: reference.into() })
    }

    /// The group of a node.
    pub const fn group_of(self, node: usize) -> usize {
        node / self.size
    }

    pub(super) fn check(self, area: Area) -> Result<(), ScenarioError> {
        self.reference.check(self.inner(area)?)
    }

    /// Where reference points move.
    fn inner(self, area: Area) -> Result<Area, ScenarioError> {
        let (radius_m, width_m, height_m) = (self.radius.metres(), area.width_m(), area.height_m());
        let side = |side: f64| {
            Length::from_metres(side - 2.0 * radius_m).map_err(|_| ScenarioError::GroupTooWide {
                radius_m,
                width_m,
                height_m,
            })
        };
        Ok(Area::new(side(width_m)?, side(height_m)?))
    }

    /// The way of a member; `group_rng` is the same for all members of its group.
    pub(super) fn course(
        self,
        area: Area,
        group_rng: ChaCha8Rng,
        rng: ChaCha8Rng,
    ) -> Result<impl Iterator<Item = Waypoint> + Send + use<>, ScenarioError> {
        let radius_m = self.radius.metres();
        let reference = self.reference.course(self.inner(area)?, group_rng);
        let mut parts = [reference, Box::new(self.offsets(rng)) as _]
            .into_iter()
            .filter_map(Cursor::new)
            .collect::<Vec<_>>();
        let mut time_s = 0.0;
        Ok(std::iter::repeat_with(move || {
            let positions: Vec<Position> = parts.iter_mut().map(|part| part.position_at(time_s)).collect();
            let sum = |coordinate: fn(&Position) -> f64, side: f64| {
                (radius_m + positions.iter().map(coordinate).sum::<f64>()).clamp(0.0, side)
            };
            let at = [sum(|at| at.x, area.width_m()), sum(|at| at.y, area.height_m())];
            let waypoint = Waypoint::new(time_s, at);
            time_s = parts.iter().filter_map(Cursor::next_turn_s).fold(f64::INFINITY, f64::min);
            waypoint
        }))
    }

    /// Offsets from the reference point, in the middle of a stretch at time 0.
    fn offsets(self, mut rng: ChaCha8Rng) -> impl Iterator<Item = Waypoint> + Send + use<> {
        let (radius_m, step_s) = (self.radius.metres(), self.step.as_secs_f64());
        let done = draw::unit(&mut rng);
        let mut place = move || draw::in_disc(radius_m, &mut rng);
        let (from, to) = (place(), place());
        let start = [0, 1].map(|axis| from[axis] + (to[axis] - from[axis]) * done);
        let first = [Waypoint::new(0.0, start), Waypoint::new((1.0 - done) * step_s, to)];
        let rest = (1_u64..).map(move |step| Waypoint::new((step as f64 + 1.0 - done) * step_s, place()));
        first.into_iter().chain(rest)
    }
}
