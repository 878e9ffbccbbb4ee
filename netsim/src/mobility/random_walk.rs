//! The random walk of the thesis.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;

use super::area::Area;
use super::bounce::{Bouncer, check_distance};
use super::draw;
use super::error::ScenarioError;
use super::units::{Speeds, positive_time};
use super::waypoint::Waypoint;

/// Random walk with reflection [thesis §4.4]: every `leg` a node chooses a direction and a speed, both uniformly; at
/// the border it is reflected.
///
/// Nodes begin uniformly spread and stay so. The thesis says only that nodes are "randomly distributed on a
/// rectangular area, and then, at every timeframe, they move according to a random walk algorithm": with a leg as long
/// as the interval between frames this is that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RandomWalk {
    speeds: Speeds,
    leg: Duration,
}

impl RandomWalk {
    /// A walk at these speeds that turns after each `leg`.
    ///
    /// # Errors
    /// [`ScenarioError::NoTime`] for a leg of zero.
    pub fn new(speeds: Speeds, leg: Duration) -> Result<Self, ScenarioError> {
        Ok(Self { speeds, leg: positive_time(leg, "leg")? })
    }

    pub(super) fn check(self, area: Area) -> Result<(), ScenarioError> {
        check_distance(area, self.speeds.greatest_mps() * self.leg.as_secs_f64())
    }

    pub(super) fn course(
        self,
        area: Area,
        mut rng: ChaCha8Rng,
    ) -> impl Iterator<Item = Waypoint> + Send + use<> {
        let start = area.sides().map(|side| draw::between(0.0, side, &mut rng));
        let mut node = Bouncer::new(area, start, [0.0; 2]);
        let leg_s = self.leg.as_secs_f64();
        let (mut legs, mut leg_ends) = (0_u64, 0.0);
        let turns = std::iter::repeat_with(move || {
            if node.time_s() >= leg_ends {
                legs += 1;
                leg_ends = legs as f64 * leg_s;
                let speed = draw::between(self.speeds.least_mps(), self.speeds.greatest_mps(), &mut rng);
                node.velocity = draw::direction(&mut rng).map(|part| part * speed);
            }
            node.advance(leg_ends)
        });
        std::iter::once(Waypoint::new(0.0, start)).chain(turns)
    }
}
