//! Random waypoint from its stationary distribution.

use rand_chacha::ChaCha8Rng;

use super::area::Area;
use super::draw;
use super::units::{Pauses, Speeds};
use super::waypoint::{Waypoint, distance};
use crate::mobility::Position;

/// Random waypoint: a node goes straight to a uniformly drawn place at a uniformly drawn speed, pauses there, and
/// goes on to the next.
///
/// Started from uniform places the model needs a long time to forget them: nodes gather in the middle, and slow trips
/// take up more and more of the time. So the first leg is drawn as one that is met at a random time of an endless run
/// (W. Navidi, T. Camp, "Stationary distributions for the random waypoint mobility model", IEEE TMC 3(1), 2004): a
/// pause with the share of time that pauses take, otherwise a trip with a probability in proportion to its duration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RandomWaypoint {
    speeds: Speeds,
    pauses: Pauses,
}

impl RandomWaypoint {
    /// Trips at these speeds with these pauses.
    pub const fn new(speeds: Speeds, pauses: Pauses) -> Self {
        Self { speeds, pauses }
    }

    /// The share of time that a node moves: E\[L\]·E\[1/V\] / (E\[pause\] + E\[L\]·E\[1/V\]), L the length of a trip
    /// and V its speed.
    pub fn moving_share(self, area: Area) -> f64 {
        let trip_s = area.mean_distance() * self.speeds.mean_slowness();
        trip_s / (trip_s + self.pauses.mean_s())
    }

    /// The mean speed at any time, pauses included, in m/s.
    pub fn mean_speed_mps(self, area: Area) -> f64 {
        self.moving_share(area) / self.speeds.mean_slowness()
    }

    pub(super) fn course(
        self,
        area: Area,
        mut rng: ChaCha8Rng,
    ) -> impl Iterator<Item = Waypoint> + Send + use<> {
        let is_moving = draw::unit(&mut rng) < self.moving_share(area);
        let (start, mut next) =
            if is_moving { self.first_trip(area, &mut rng) } else { self.first_pause(area, &mut rng) };
        let mut pauses_next = is_moving;
        let turns = std::iter::repeat_with(move || {
            let reached = next;
            next =
                if pauses_next { self.pause(reached, &mut rng) } else { self.trip(area, reached, &mut rng) };
            pauses_next = !pauses_next;
            reached
        });
        std::iter::once(start).chain(turns)
    }

    /// A trip in the middle of which time begins: its ends drawn in proportion to their distance, its speed in
    /// proportion to 1/v, the place on it uniformly.
    fn first_trip(self, area: Area, rng: &mut ChaCha8Rng) -> (Waypoint, Waypoint) {
        let (from, to, length) = loop {
            let (from, to) = (place(area, rng), place(area, rng));
            let length = distance(from, to);
            if draw::unit(rng) * area.diagonal() < length {
                break (from, to, length);
            }
        };
        let (least, greatest) = (self.speeds.least_mps(), self.speeds.greatest_mps());
        let speed = least * libm::pow(greatest / least, draw::unit(rng));
        let done = draw::unit(rng);
        let length_s = length / speed;
        let [from, to] = [(from, -done), (to, 1.0 - done)]
            .map(|(position, share)| Waypoint { time_s: share * length_s, position });
        (from.toward(to, 0.0), to)
    }

    /// A pause in the middle of which time begins: drawn in proportion to its length, what is left of it uniformly.
    fn first_pause(self, area: Area, rng: &mut ChaCha8Rng) -> (Waypoint, Waypoint) {
        let at = place(area, rng);
        let [least, greatest] = [self.pauses.least_s(), self.pauses.greatest_s()].map(|pause| pause * pause);
        let pause_s = draw::between(least, greatest, rng).sqrt();
        let start = Waypoint { time_s: 0.0, position: at };
        (start, Waypoint { time_s: pause_s * draw::unit(rng), ..start })
    }

    fn pause(self, at: Waypoint, rng: &mut ChaCha8Rng) -> Waypoint {
        let pause_s = draw::between(self.pauses.least_s(), self.pauses.greatest_s(), rng);
        Waypoint { time_s: at.time_s + pause_s, ..at }
    }

    fn trip(self, area: Area, from: Waypoint, rng: &mut ChaCha8Rng) -> Waypoint {
        let to = place(area, rng);
        let speed = draw::between(self.speeds.least_mps(), self.speeds.greatest_mps(), rng);
        Waypoint { time_s: from.time_s + distance(from.position, to) / speed, position: to }
    }
}

fn place(area: Area, rng: &mut ChaCha8Rng) -> Position {
    let [x, y] = area.sides().map(|side| draw::between(0.0, side, rng));
    Position { x, y }
}
