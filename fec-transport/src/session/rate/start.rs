//! The start: the rate doubles until something shows a limit.

use super::{Feedback, RateController, SHORTEST_ROUND};
use crate::time::Time;

/// Packets of a step of the doubling: a burst of losses among them must not look like a limit.
const START_PACKETS: u64 = 64;
/// By how much the delivery must grow when the rate has doubled.
const LEAST_GROWTH: f64 = 1.4;

/// What the doubling has shown so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Start {
    /// What arrived at half of the rate, bit/s.
    delivered: Option<f64>,
    /// Packets and losses at all rates that could be doubled.
    packets: f64,
    lost: f64,
}

impl RateController {
    /// Doubles the rate as soon as packets sent at it have arrived, until a queue grows or the delivery does not.
    pub(super) fn double(&mut self, now: Time, feedback: &Feedback, queue: f64, start: Start) {
        if queue > self.long_queue() {
            let delivered = self.round.number_rate_of_queue();
            self.set_rate(now, delivered.clamp(self.rate / 4.0, self.rate));
            return self.end_start(now, start);
        }
        if !self.round.is_over(SHORTEST_ROUND, START_PACKETS) {
            return;
        }
        let round = self.round.clone();
        self.round.restart(feedback);
        if !round.is_busy() {
            return;
        }
        let delivered = round.arrived_rate();
        let growth = start.delivered.map_or(2.0, |before| delivered / before);
        if growth < LEAST_GROWTH {
            self.set_rate(now, self.rate / 2.0 * growth.max(0.5));
            return self.end_start(now, start);
        }
        let (packets, lost) = round.packets_and_lost();
        self.start = Some(Start {
            delivered: Some(delivered),
            packets: start.packets + packets,
            lost: start.lost + lost,
        });
        self.set_rate(now, self.rate * 2.0);
        self.be_blind(now);
    }

    fn end_start(&mut self, now: Time, start: Start) {
        self.start = None;
        self.watch.learn((start.lost / start.packets.max(1.0)).clamp(0.0, 0.9), start.packets);
        self.be_blind(now);
    }
}
