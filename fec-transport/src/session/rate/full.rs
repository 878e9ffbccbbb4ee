//! Which packets tell of queues. Each link on the way has to take in a packet whole before it sends it on: over ten
//! links of 10 Mbit/s one of 1,400 bytes comes 11 ms later than a probe. That is no queue.

use std::cmp::Reverse;

use super::super::recent::RecentSmallest;
use super::{Feedback, NEARLY};
use crate::time::Time;

/// The size of the largest packets of late, and what smaller ones have told since the last of them.
#[derive(Debug, Clone, Default)]
pub(super) struct FullPackets {
    largest: RecentSmallest<Reverse<u32>>,
    withheld: Option<Feedback>,
}

impl FullPackets {
    /// Whether a packet of this size is larger than those that are known as full.
    pub(super) fn are_outgrown_by(&self, size: u32) -> bool {
        self.largest.get().is_some_and(|Reverse(largest)| is_smaller(largest, size))
    }

    /// What this report tells, and those before it that were about smaller packets; `None` if this one is.
    pub(super) fn take(&mut self, now: Time, feedback: &Feedback) -> Option<Feedback> {
        self.largest.observe(now, Reverse(feedback.size));
        let feedback = match self.withheld.take() {
            Some(withheld) => feedback.after(&withheld),
            None => *feedback,
        };
        if self.largest.get().is_some_and(|Reverse(largest)| is_smaller(feedback.size, largest)) {
            self.withheld = Some(feedback);
            return None;
        }
        Some(feedback)
    }
}

/// Whether a packet is too small to be compared with one of the `other` size. One that is a little smaller is as good:
/// a session that has a narrow path sends such packets.
fn is_smaller(size: u32, other: u32) -> bool {
    f64::from(size) < NEARLY * f64::from(other)
}

impl Feedback {
    /// What this report and the one before it tell together.
    fn after(&self, before: &Feedback) -> Feedback {
        Feedback {
            packets: before.packets + self.packets,
            lost: before.lost + self.lost,
            bytes: before.bytes + self.bytes,
            is_after_idleness: before.is_after_idleness || self.is_after_idleness,
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::RateController;
    use super::super::tests::feedback;
    use super::*;

    const PROBE: u32 = 90;
    /// How much sooner a probe arrives over ten links of 10 Mbit/s than a full packet.
    const FASTER_US: u64 = 11_000;

    fn probe(number: u64) -> Feedback {
        let report = feedback(number);
        Feedback { size: PROBE, arrived_us: report.arrived_us - FASTER_US, ..report }
    }

    fn observe(controller: &mut RateController, report: &Feedback) {
        controller.on_feedback(report.departed + report.round_trip, report);
    }

    /// Over Geant2012 paths of ten links stood at 0.4 Mbit/s although these were idle: probes had shown them a floor 11
    /// ms below what data can reach.
    #[test]
    fn what_a_long_way_takes_for_a_large_packet_is_no_queue() {
        let mut controller = RateController::new(Time::ZERO);
        controller.begin_beside(Time::ZERO, 5e6);
        for number in 1..300 {
            observe(&mut controller, &if number % 10 == 0 { probe(number) } else { feedback(number) });
            assert_eq!(controller.queue(), Duration::ZERO);
        }
        assert!(controller.mean_rate() > 10e6, "{:.2} Mbit/s", controller.mean_rate() / 1e6);
    }

    #[test]
    fn delays_of_small_packets_are_forgotten_when_large_ones_come() {
        let mut controller = RateController::new(Time::ZERO);
        (1..50).for_each(|number| observe(&mut controller, &probe(number)));
        observe(&mut controller, &feedback(50));
        assert_eq!(controller.queue(), Duration::ZERO);
    }

    #[test]
    fn what_small_packets_tell_comes_with_the_next_full_one() {
        let mut full = FullPackets::default();
        let lossy = Feedback { lost: 2.0, ..probe(2) };
        assert!(full.take(Time::ZERO, &feedback(1)).is_some());
        assert!(full.take(Time::ZERO, &lossy).is_none() && full.take(Time::ZERO, &probe(3)).is_none());
        let told = full.take(Time::ZERO, &feedback(4)).expect("this one is full");
        assert_eq!((told.packets, told.lost, told.departed), (30, 2.0, feedback(4).departed));
    }
}
