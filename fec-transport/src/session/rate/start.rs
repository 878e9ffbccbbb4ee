//! The start: the rate doubles until something shows a limit.

use super::overload;
use super::round::Round;
use super::watch::{self, LossWatch, Losses};
use super::{NEARLY, SAMPLE, SHORTEST_ROUND};

/// What the doubling has shown so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Start {
    /// What was lost at all rates that could be doubled.
    losses: Losses,
    /// Whether too few have once arrived at this rate.
    is_doubted: bool,
}

/// What is to be done after a step of the doubling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Step {
    Double,
    /// The rate stays: too few packets have arrived once, which may have been a pause of a process.
    Repeat,
    /// A limit drops packets: the start ends with this share of its rate.
    End(f64),
}

impl Start {
    /// Takes what has come of the latest step. A limit without a queue drops packets, so that less arrives of twice the
    /// rate than of what was sent before. Loss tells it and not the rate of arrivals, which a process that did not run
    /// lowers, too.
    pub(super) fn judge(&mut self, round: &Round) -> Step {
        let losses = round.losses();
        let is_first = self.losses.packets == 0.0;
        let arriving = if is_first { 1.0 } else { (1.0 - losses.share()) / (1.0 - self.losses.share()) };
        // A newcomer to a link that is full loses as much in its first step as in the next ones.
        if arriving >= NEARLY && !overload::is_too_much(&losses) {
            self.losses += losses;
            self.is_doubted = false;
            Step::Double
        } else if self.is_doubted {
            Step::End(arriving)
        } else {
            self.is_doubted = true;
            Step::Repeat
        }
    }

    /// Whether the long queue of a round has stood for long enough to end the start. Else a process may not have run.
    pub(super) fn is_ended_by(round: &Round) -> bool {
        round.stood_for() >= SHORTEST_ROUND / 2
    }

    /// The loss of the start is the link's own. A start that ends soon has seen none yet, and the first one after it is
    /// no rise: so as much is expected as if one sample more had been sent, and had lost what would be a rise.
    pub(super) fn teach(&self, watch: &mut LossWatch) {
        let mut expected = self.losses;
        expected += Losses { packets: SAMPLE as f64, lost: watch::RISE * SAMPLE as f64 };
        watch.learn(self.losses.share().max(expected.share()), expected.packets);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::session::rate::tests::feedback;
    use crate::session::rate::{Feedback, RateController};
    use crate::time::Time;

    const REPORT: Duration = Duration::from_millis(2);

    /// A path that carries whatever it gets, and reports every 2 ms.
    struct Path {
        controller: RateController,
        departed: Time,
        /// How much is sent of what is allowed.
        use_share: f64,
        round_trip: Duration,
    }

    impl Path {
        fn new() -> Path {
            let departed = Time::ZERO + Duration::from_secs(1);
            let round_trip = Duration::from_millis(15);
            Path { controller: RateController::new(departed), departed, use_share: 1.0, round_trip }
        }

        /// The next report, of a packet that came so late, and of such a share of lost ones.
        fn report(&mut self, late: Duration, loss: f64) {
            let rate = self.controller.rate(self.departed);
            self.departed += REPORT;
            let bytes = self.use_share * rate * REPORT.as_secs_f64() / 8.0;
            let packets = (bytes / 1_500.0).ceil();
            let of_packets = Feedback { packets: packets as u64, lost: packets * loss, bytes, ..feedback(0) };
            self.take(late, &of_packets);
        }

        /// Takes a report of the packets that have just left, the last of which came so late.
        fn take(&mut self, late: Duration, of_packets: &Feedback) {
            let feedback = Feedback {
                departed: self.departed,
                size: 1_500,
                arrived_us: (self.departed + late).as_micros(),
                round_trip: self.round_trip,
                ..*of_packets
            };
            self.controller.on_feedback(self.departed + late, &feedback);
        }

        /// As many reports as come in so many milliseconds, of packets that come at once.
        fn run(&mut self, millis: u32, loss: f64) {
            (0..millis / 2).for_each(|_| self.report(Duration::ZERO, loss));
        }

        /// A pause that looks like a queue that stands, on links that are shared: no start goes on after it.
        fn pause_beside_others(&mut self) {
            self.controller.set_company(1e9, false);
            (0..7).for_each(|_| self.report(Duration::from_millis(20), 0.0));
        }

        /// Bursts of so many packets, which arrive at this rate at most (Mbit/s), with pauses of a tenth of a second,
        /// in which there is nothing to send if the writer `is_idle`.
        fn burst(&mut self, bursts: u32, packets: u64, most_mbit: f64, is_idle: bool) {
            let span = |mbit: f64, packets: u64| Duration::from_secs_f64(packets as f64 * 0.012 / mbit);
            for _ in 0..bursts {
                self.departed += Duration::from_millis(100);
                let (mut sent, mut took) = (0, Duration::ZERO);
                while sent < packets {
                    let rate = self.controller.rate(self.departed);
                    let of_report = (rate * REPORT.as_secs_f64() / 12_000.0).ceil() as u64;
                    let of_report = of_report.min(packets - sent);
                    sent += of_report;
                    self.departed += span(rate / 1e6, of_report);
                    took += span(rate / 1e6, of_report);
                    let (bytes, is_after_idleness) =
                        (1_500.0 * of_report as f64, is_idle && sent == of_report);
                    let of_packets = Feedback { packets: of_report, bytes, is_after_idleness, ..feedback(0) };
                    self.take(span(most_mbit, sent).saturating_sub(took), &of_packets);
                }
            }
        }

        fn mbit(&self) -> f64 {
            self.controller.mean_rate() / 1e6
        }
    }

    /// The steps that a path makes in so many milliseconds, whose packets are so late.
    fn steps_in(millis: u32, round_trip_ms: u64, late_ms: u64) -> u32 {
        let mut path = Path::new();
        path.round_trip = Duration::from_millis(round_trip_ms);
        path.report(Duration::ZERO, 0.0);
        (0..millis / 2).for_each(|_| path.report(Duration::from_millis(late_ms), 0.0));
        (path.mbit() / 4.0).log2() as u32
    }

    /// Many nodes that begin at once on one link see a queue of a few milliseconds, and must not add to it.
    #[test]
    fn a_step_is_short_where_a_queue_would_show_and_none_does() {
        assert_eq!(steps_in(100, 1, 0), 5);
        assert_eq!(steps_in(100, 1, 3), 0);
        assert_eq!(steps_in(100, 100, 0), 0);
    }

    /// Reports come 10 ms apart, and the latest packet of each had arrived a little before. Where a step had to last
    /// 20 ms whole, some sessions of a crowd took three reports for each.
    #[test]
    fn two_reports_end_a_step() {
        let mut path = Path::new();
        path.round_trip = Duration::from_millis(1);
        for apart in [10_100, 9_900, 9_700, 10_000].into_iter().cycle().take(12).map(Duration::from_micros) {
            let bytes = path.controller.rate(path.departed) * apart.as_secs_f64() / 8.0;
            path.departed += apart;
            path.take(Duration::ZERO, &Feedback { packets: bytes as u64 / 1_500, bytes, ..feedback(0) });
        }
        assert_eq!(path.mbit(), 64.0);
    }

    /// Somebody who writes 64 KiB, waits for the reply, and writes again had 4 Mbit/s for good: no round of 64 packets
    /// was without a pause.
    #[test]
    fn pauses_of_somebody_who_sends_little_at_a_time_do_not_keep_the_rate_low() {
        let mut path = Path::new();
        path.burst(20, 47, f64::INFINITY, true);
        assert!(path.mbit() >= 32.0, "{} Mbit/s", path.mbit());
        path.burst(100, 47, f64::INFINITY, true);
        assert!(path.mbit() >= 64.0, "{} Mbit/s", path.mbit());
    }

    /// Bulk pauses, too, while it waits for credit or while other paths carry what is left of its blocks. Within such
    /// a burst a step may end, but not over the pause behind it.
    #[test]
    fn pauses_of_somebody_who_has_more_to_send_count() {
        for (packets, mbit) in [(5, 4.0), (47, 32.0)] {
            let mut path = Path::new();
            path.burst(200, packets, f64::INFINITY, false);
            assert_eq!(path.mbit(), mbit, "{packets} packets at a time");
        }
    }

    #[test]
    fn bursts_raise_no_rate_beyond_what_arrives_of_them() {
        for packets in [5, 47] {
            let mut path = Path::new();
            path.burst(1_000, packets, 20.0, true);
            assert!(path.controller.is_starting());
            assert!((16.0..=32.0).contains(&path.mbit()), "{packets} packets at a time: {}", path.mbit());
        }
    }

    #[test]
    fn packets_that_go_alone_tell_nothing_of_the_rate_and_leave_it() {
        let mut path = Path::new();
        path.burst(1_000, 1, f64::INFINITY, true);
        assert_eq!(path.mbit(), 4.0);
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
    fn a_start_that_pauses_have_ended_is_made_up_for_when_more_is_carried_without_a_queue() {
        let mut path = Path::new();
        path.run(60, 0.0);
        for late in [20, 19, 18, 19, 20, 19, 20] {
            path.report(Duration::from_millis(late), 0.0);
        }
        assert!(!path.controller.is_starting(), "seven reports in a row look like a queue that stands");
        let ended_at = path.mbit();
        path.run(2_000, 0.0);
        assert!(path.mbit() > 50.0 * ended_at, "{ended_at} then {} Mbit/s", path.mbit());
    }

    /// Of a sender that had little to send, the rate of what arrived was once taken for what the link carries.
    #[test]
    fn a_pause_that_ends_the_start_of_a_path_of_which_little_is_used_tells_no_limit() {
        let mut path = Path::new();
        path.run(160, 0.0);
        let before = path.mbit();
        path.use_share = 0.1;
        path.run(100, 0.0);
        (0..8).for_each(|_| path.report(Duration::from_millis(20), 0.0));
        assert!(
            !path.controller.is_starting() && path.mbit() > 0.4 * before,
            "{before} then {}",
            path.mbit()
        );
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
            assert_eq!(path.controller.check_share(), 1.0, "after {:?}", path.departed);
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
