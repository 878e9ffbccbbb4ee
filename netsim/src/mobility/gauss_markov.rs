//! Gauss–Markov motion.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;

use super::area::Area;
use super::bounce::{Bouncer, check_distance};
use super::draw;
use super::error::ScenarioError;
use super::units::positive_time;
use super::waypoint::Waypoint;

/// No deviation from the mean is larger than so many standard deviations ([`draw::normal`]).
const GREATEST_DEVIATION: f64 = 8.6;

/// Gauss–Markov motion: a velocity with a memory (B. Liang, Z. Haas, INFOCOM 1999). Every `step`, each coordinate of
/// a node's velocity becomes
///
/// v ← α·v + (1 − α)·m + σ·√(1 − α²)·w,   w normal with mean 0 and variance 1
///
/// with the memory α, the deviation σ and the node's mean velocity m, whose direction is drawn once. At the border v
/// and m are reflected. Places begin uniform, velocities in their stationary distribution (mean m, deviation σ), and
/// stay so.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GaussMarkov {
    mean_speed_mps: f64,
    deviation_mps: f64,
    memory: f64,
    step: Duration,
}

impl GaussMarkov {
    /// Motion with this length of the mean velocity and this deviation of each coordinate, in m/s. A memory of 0 draws
    /// each velocity anew; towards 1 it changes ever more slowly.
    ///
    /// # Errors
    /// [`ScenarioError::Moment`], [`ScenarioError::Still`], [`ScenarioError::Memory`], [`ScenarioError::NoTime`].
    pub fn new(
        mean_speed_mps: f64,
        deviation_mps: f64,
        memory: f64,
        step: Duration,
    ) -> Result<Self, ScenarioError> {
        for (what, value) in [("mean speed", mean_speed_mps), ("deviation", deviation_mps)] {
            if !(0.0..=1e9).contains(&value) {
                return Err(ScenarioError::Moment { what, value });
            }
        }
        if mean_speed_mps == 0.0 && deviation_mps == 0.0 {
            return Err(ScenarioError::Still);
        }
        if !(0.0..1.0).contains(&memory) {
            return Err(ScenarioError::Memory { value: memory });
        }
        Ok(Self { mean_speed_mps, deviation_mps, memory, step: positive_time(step, "step")? })
    }

    pub(super) fn check(self, area: Area) -> Result<(), ScenarioError> {
        // With a memory, deviations add up: to σ·√(1 − α²)/(1 − α) at the very worst.
        let memory = self.memory;
        let worst = GREATEST_DEVIATION * ((1.0 + memory) / (1.0 - memory)).sqrt();
        check_distance(area, (self.mean_speed_mps + worst * self.deviation_mps) * self.step.as_secs_f64())
    }

    pub(super) fn course(
        self,
        area: Area,
        mut rng: ChaCha8Rng,
    ) -> impl Iterator<Item = Waypoint> + Send + use<> {
        let start = area.sides().map(|side| draw::between(0.0, side, &mut rng));
        let mean = draw::direction(&mut rng).map(|part| part * self.mean_speed_mps);
        let noise = draw::normal(&mut rng);
        let velocity = [0, 1].map(|axis| mean[axis] + self.deviation_mps * noise[axis]);
        let mut node = Bouncer::new(area, start, velocity);
        let step_s = self.step.as_secs_f64();
        let (mut steps, mut step_ends) = (1_u64, step_s);
        let turns = std::iter::repeat_with(move || {
            if node.time_s() >= step_ends {
                steps += 1;
                step_ends = steps as f64 * step_s;
                node.velocity = self.next_velocity(node.velocity, mean, &mut rng);
            }
            node.advance(step_ends)
        });
        std::iter::once(Waypoint::new(0.0, start)).chain(turns)
    }

    fn next_velocity(self, velocity: [f64; 2], mean: [f64; 2], rng: &mut ChaCha8Rng) -> [f64; 2] {
        let memory = self.memory;
        let deviation = self.deviation_mps * (1.0 - memory * memory).sqrt();
        let noise = draw::normal(rng);
        [0, 1].map(|axis| memory * velocity[axis] + (1.0 - memory) * mean[axis] + deviation * noise[axis])
    }
}
