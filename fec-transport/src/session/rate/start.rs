//! The start: the rate doubles until something shows a limit.

use std::time::Duration;

use super::news::Limit;
use super::{Feedback, RateController, SHORTEST_ROUND, TELLING};
use crate::time::Time;

/// Packets of a step of the doubling: a burst of losses among them must not look like a limit.
const START_PACKETS: u64 = 64;
/// A limit without a queue drops packets: less than this share of what arrived before arrives at twice the rate. Loss tells it
/// and not the rate of arrivals, which a process that did not run lowers, too.
const LEAST_ARRIVING: f64 = 0.7;
/// What is expected of a link before anything is known, at least: so many lost packets of so many. A start that ends soon has
/// seen no loss yet, and the first one after it is no rise.
const EXPECTED: (f64, f64) = (2.0, 100.0);
/// A queue that does not stand for so long is a process that did not run: what waited meanwhile arrives all at once.
const STANDS: Duration = Duration::from_millis(10);
/// A path that carries so many times the rate at which a queue ended the start, without a queue, goes on doubling.
const MUCH_MORE: f64 = 1.5;
/// A path whose links carry no more than so many times its rate shares them with no other of its session.
const ALONE: f64 = 1.05;

/// What the doubling has shown so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Start {
    /// Packets and losses at all rates that could be doubled.
    packets: f64,
    lost: f64,
    /// Whether too few have once arrived at this rate.
    is_doubted: bool,
}

impl Start {
    /// What arrives of these packets, as a share of what arrived before.
    fn share_arriving(&self, packets: f64, lost: f64) -> f64 {
        let arrived = |packets: f64, lost: f64| (1.0 - lost / packets).clamp(0.01, 1.0);
        if self.packets > 0.0 { arrived(packets, lost) / arrived(self.packets, self.lost) } else { 1.0 }
    }
}

impl RateController {
    /// Doubles the rate as soon as packets sent at it have arrived, until a queue stands or twice too few arrive: once it may
    /// have been a pause of a process.
    pub(super) fn double(&mut self, now: Time, feedback: &Feedback, start: Start) {
        if self.is_crowded() && self.round.stood_for() >= STANDS {
            let delivered = self.round.number_rate_of_queue();
            let is_alone = !self.shares_links();
            self.set_rate(now, delivered.clamp(self.rate / 4.0, self.rate));
            self.is_busy = self.round.is_busy();
            self.end_start(now, start);
            self.limit = Some(Limit::found(now, feedback.round_trip));
            self.ended_at = is_alone.then_some((now, self.rate));
            return;
        }
        if !self.round.is_over(SHORTEST_ROUND, START_PACKETS) {
            return;
        }
        let round = self.round.clone();
        self.round.restart(feedback);
        if !round.is_busy() {
            return;
        }
        let (packets, lost) = round.packets_and_lost();
        let arriving = start.share_arriving(packets, lost);
        if arriving >= LEAST_ARRIVING {
            let (packets, lost) = (start.packets + packets, start.lost + lost);
            self.start = Some(Start { packets, lost, is_doubted: false });
            self.set_rate(now, self.rate * 2.0);
            self.be_blind(now);
        } else if start.is_doubted {
            self.set_rate(now, self.rate * arriving.max(0.25));
            self.end_start(now, start);
        } else {
            self.start = Some(Start { is_doubted: true, ..start });
        }
    }

    /// Whether the path carries much more than what it had when a queue ended its start, not long ago, and no queue stands:
    /// then that was a pause of a process. Paths that share links with others of their session make queues for each other.
    pub(super) fn was_ended_by_a_pause(&self, now: Time) -> bool {
        let grown = |(since, rate)| now.since(since) < TELLING && self.rate > MUCH_MORE * rate;
        !self.shares_links() && self.ended_at.is_some_and(grown)
    }

    fn shares_links(&self) -> bool {
        self.shared_rate > ALONE * self.rate
    }

    /// Doubles on: what ended the start was no queue of the path.
    pub(super) fn resume_start(&mut self) {
        self.ended_at = None;
        self.start = Some(Start::default());
    }

    fn end_start(&mut self, now: Time, start: Start) {
        self.start = None;
        let seen = start.lost / start.packets.max(1.0);
        let expected = (start.lost + EXPECTED.0) / (start.packets + EXPECTED.1);
        self.watch.learn(seen.max(expected).clamp(0.0, 0.9), start.packets + EXPECTED.1);
        self.be_blind(now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const REPORT: Duration = Duration::from_millis(2);

    /// A path of loopback that carries whatever it gets, and reports every 2 ms.
    struct Path {
        controller: RateController,
        departed: Time,
    }

    impl Path {
        fn new() -> Path {
            let departed = Time::ZERO + Duration::from_secs(1);
            Path { controller: RateController::new(departed), departed }
        }

        /// The next report, of a packet that came so late, and of such a share of lost ones.
        fn report(&mut self, late: Duration, loss: f64) {
            let rate = self.controller.rate(self.departed);
            self.departed += REPORT;
            let bytes = rate * REPORT.as_secs_f64() / 8.0;
            let packets = (bytes / 1_500.0).ceil();
            let feedback = Feedback {
                departed: self.departed,
                size: 1_500,
                arrived_us: (self.departed + late).as_micros(),
                packets: packets as u64,
                lost: packets * loss,
                bytes,
                dispersion: 1.0,
                round_trip: Duration::from_micros(200),
            };
            self.controller.on_feedback(self.departed + late, &feedback);
        }

        /// As many reports as come in so many milliseconds, of packets that come at once.
        fn run(&mut self, millis: u32, loss: f64) {
            (0..millis / 2).for_each(|_| self.report(Duration::ZERO, loss));
        }

        /// A pause that looks like a queue that stands, on links that are shared: no start goes on after it.
        fn pause_beside_others(&mut self) {
            self.controller.set_shared_rate(1e9);
            (0..7).for_each(|_| self.report(Duration::from_millis(15), 0.0));
        }

        fn mbit(&self) -> f64 {
            self.controller.mean_rate() / 1e6
        }
    }

    #[test]
    fn a_process_that_does_not_run_once_ends_no_start() {
        let mut path = Path::new();
        path.run(160, 0.0);
        let before = path.mbit();
        path.report(Duration::from_millis(15), 0.0);
        assert!(path.controller.is_starting() && path.mbit() >= before);
        path.run(100, 0.0);
        assert!(path.mbit() >= 4.0 * before, "{before} then {} Mbit/s", path.mbit());
    }

    #[test]
    fn a_start_that_pauses_have_ended_goes_on_when_more_is_carried_without_a_queue() {
        let mut path = Path::new();
        path.run(160, 0.0);
        for late in [15, 14, 13, 14, 15, 14, 15] {
            path.report(Duration::from_millis(late), 0.0);
        }
        assert!(!path.controller.is_starting(), "seven reports in a row look like a queue that stands");
        let ended_at = path.mbit();
        path.run(2_000, 0.0);
        assert!(path.mbit() > 50.0 * ended_at, "{ended_at} then {} Mbit/s", path.mbit());
    }

    #[test]
    fn where_paths_share_links_a_queue_ends_the_start_for_good() {
        let mut path = Path::new();
        path.run(160, 0.0);
        path.pause_beside_others();
        path.run(1_000, 0.0);
        assert!(!path.controller.is_starting(), "{} Mbit/s", path.mbit());
    }

    /// Such a loss once began a check on each slow path, and ended it with the verdict of a policer.
    #[test]
    fn a_loss_that_a_short_start_has_not_seen_is_no_rise() {
        let mut path = Path::new();
        path.run(20, 0.0);
        path.pause_beside_others();
        assert!(!path.controller.is_starting());
        for _ in 0..1_000 {
            path.report(Duration::ZERO, 0.02);
            assert!(path.controller.check_share().is_none(), "after {:?}", path.departed);
        }
    }

    #[test]
    fn a_start_ends_when_twice_too_few_arrive() {
        let mut path = Path::new();
        path.run(160, 0.02);
        let rate = path.mbit();
        let reports = (0..200).take_while(|_| {
            path.report(Duration::ZERO, 0.6);
            path.controller.is_starting()
        });
        let reports = reports.count();
        assert!(reports > 20 && !path.controller.is_starting(), "after {reports} reports");
        assert!(path.mbit() < 0.5 * rate, "{rate} then {} Mbit/s", path.mbit());
    }
}
