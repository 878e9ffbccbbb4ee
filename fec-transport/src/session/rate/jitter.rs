//! How much later packets arrive than what this path sends explains: radio links send again or wait for their turn,
//! schedulers pause, others send in bursts.
//!
//! A queue of our own grows only because packets leave closer together than the link can send them on. So each report
//! tells of jitter if its packets arrive longer after those of the report before than they left, and longer than the
//! link needs for them. What others fill lifts the delay for long and does not let it fall, which tells their queue
//! from jitter: no more counts than the delay falls. A delay that is no further above its floor than jitter explains
//! shows no queue. Without this a link whose delay varies by 30 ms looked as if a queue stood on it whatever the rate
//! was, and had a tenth of what it carries.

use super::super::recent::RecentSmallest;
use super::Feedback;
use crate::time::Time;

/// Reports over which is averaged.
const MEMORY: f64 = 32.0;
/// The span over which delays are spread, as a multiple of what packets are late on average. It would be six if delays
/// were spread evenly, and is more because packets that wait for those before them differ by less.
const SPAN: f64 = 10.0;

/// What packets are late, averaged, and the most that it has been of late.
#[derive(Debug, Clone, Default)]
pub(super) struct Jitter {
    /// When the packet of the report before left, and arrived in µs of the peer's clock.
    last: Option<(Time, u64)>,
    reports: f64,
    /// Averages of a report: the bytes that arrived, in how many µs, by how many µs they were late, and by how many the
    /// delay fell.
    bytes: f64,
    took_us: f64,
    late_us: f64,
    fall_us: f64,
    /// The largest span of late, in µs; below zero, so that it is the smallest.
    recent: RecentSmallest<i64>,
}

impl Jitter {
    pub(super) fn observe(&mut self, now: Time, feedback: &Feedback) {
        let at = (feedback.departed, feedback.arrived_us);
        let Some((departed, arrived_us)) = self.last.replace(at) else { return };
        let left_us = feedback.departed.since(departed).as_micros() as f64;
        // Below zero if packets overtake one another.
        let took_us = feedback.arrived_us as f64 - arrived_us as f64;
        let arrived = 1.0 - feedback.lost / (feedback.packets as f64).max(1.0);
        let bytes = feedback.bytes * arrived.clamp(0.0, 1.0);
        self.reports = (self.reports + 1.0).min(MEMORY);
        self.bytes += (bytes - self.bytes) / self.reports;
        self.took_us += (took_us - self.took_us) / self.reports;
        let needed_us = bytes * self.took_us / self.bytes.max(1.0);
        let late_us = (took_us - left_us.max(needed_us)).max(0.0);
        self.late_us += (late_us - self.late_us) / self.reports;
        self.fall_us += ((left_us - took_us).max(0.0) - self.fall_us) / self.reports;
        // The average of a few reports may be far too large, and the most of late counts.
        if self.reports >= MEMORY {
            self.recent.observe(now, -((SPAN * self.late_us.min(self.fall_us)) as i64));
        }
    }

    /// How far above its floor the delay may be without a queue, in seconds: the most of late.
    pub(super) fn span(&self) -> f64 {
        self.recent.get().unwrap_or(0) as f64 * -1e-6
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// What is taken for jitter, in ms, after reports of a packet each that left and arrived then, in ms.
    fn span_of(packets: impl IntoIterator<Item = (u64, u64)>) -> f64 {
        let mut jitter = Jitter::default();
        for (left_ms, arrived_ms) in packets {
            let feedback = Feedback {
                departed: Time::ZERO + Duration::from_millis(left_ms),
                size: 1_496,
                arrived_us: arrived_ms * 1_000,
                packets: 1,
                lost: 0.0,
                bytes: 1_496.0,
                dispersion: 1.0,
                round_trip: Duration::from_millis(50),
                is_after_idleness: false,
            };
            jitter.observe(feedback.departed, &feedback);
        }
        jitter.span() * 1e3
    }

    #[test]
    fn a_queue_of_our_own_is_no_jitter_however_it_fills_and_empties() {
        // The link needs 10 ms for a packet, which leave in bursts of 1 to 12 that pauses follow.
        let (mut free_at, mut now) = (0, 0);
        let packets = (0..60u64).flat_map(|burst| {
            let count = 1 + burst * 7 % 12;
            now += 10 * count;
            (0..count).map(move |number| now + number).collect::<Vec<_>>()
        });
        let packets = packets.map(|left| {
            free_at = left.max(free_at) + 10;
            (left, free_at + 20)
        });
        assert_eq!(span_of(packets.collect::<Vec<_>>()), 0.0);
    }

    #[test]
    fn a_queue_that_others_fill_is_no_jitter() {
        assert_eq!(span_of((0..200).map(|number| (5 * number, 20 + 6 * number))), 0.0);
    }

    #[test]
    fn a_delay_that_varies_by_itself_is_jitter_once_enough_reports_have_come() {
        // Delays that are spread evenly over 0 to 30 ms.
        let spread =
            |count| (0..count).map(|number: u64| (5 * number, 5 * number + number * number * 7 % 31));
        assert_eq!(span_of(spread(30)), 0.0);
        let span = span_of(spread(400));
        assert!((30.0..100.0).contains(&span), "{span} ms");
    }
}
