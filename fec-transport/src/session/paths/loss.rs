//! The loss of a path, from the peer's counts: its mean, and how much it comes in bursts.
//!
//! Both are sums that are forgotten exponentially: the mean over [`MEMORY`], so that it follows a change within a
//! second and is zero to four digits five seconds after the last loss; the dispersion over some hundred windows of
//! [`WINDOW`] packets, because a variance needs many samples.

use std::time::Duration;

use crate::time::Time;

/// What is assumed of a path of which nothing is known (design §6).
pub(crate) const PRIOR_LOSS: f64 = 0.01;
/// While more packets than this count, they fade with [`MEMORY`], otherwise with [`LONG_MEMORY`].
const ENOUGH_PACKETS: f64 = 200.0;
/// After so long an observation counts 1/e: a change is followed to nine tenths within a second.
const MEMORY: Duration = Duration::from_millis(400);
/// After so long an observation counts 1/e where packets are too few for that.
const LONG_MEMORY: Duration = Duration::from_millis(1_500);
/// Packets over which losses are counted for their variance.
const WINDOW: u64 = 64;
/// What remains of a window's weight after the next one: some sixty windows count.
const WINDOW_DECAY: f64 = 63.0 / 64.0;
/// No path is taken for burstier than this: a burst as long as a window.
const MAX_DISPERSION: f64 = WINDOW as f64;

/// The share of packets that a path loses.
#[derive(Debug, Clone)]
pub(crate) struct LossEstimate {
    /// Packets in all whose fate is known, and how many of them arrived.
    known: u64,
    received: u64,
    /// Losses and packets of the recent past, forgotten exponentially; when that was done last.
    recent_lost: f64,
    recent_known: f64,
    counted_at: Option<Time>,
    bursts: Dispersion,
}

impl Default for LossEstimate {
    fn default() -> LossEstimate {
        LossEstimate {
            known: 0,
            received: 0,
            recent_lost: 0.0,
            recent_known: 0.0,
            counted_at: None,
            bursts: Dispersion::default(),
        }
    }
}

impl LossEstimate {
    /// `expected` more packets have had their fate, and `received` have arrived in all. What is lost while the path
    /// `is_crowded`, a full queue has dropped: that tells nothing of how the link's own losses are spread.
    pub(crate) fn observe(&mut self, now: Time, expected: u64, received: u64, is_crowded: bool) {
        let lost_before = self.lost();
        self.known += expected;
        self.received = self.received.max(received);
        // Packets that were overtaken arrive after they were counted as lost: then this is below zero.
        let lost = self.lost() as f64 - lost_before as f64;
        self.forget(now);
        self.recent_known += expected as f64;
        self.recent_lost = (self.recent_lost + lost).max(0.0);
        if !is_crowded {
            self.bursts.observe(expected, lost);
        }
    }

    /// Counts packets that left before a dead path returned, which say nothing of its loss.
    pub(crate) fn pass_over(&mut self, expected: u64, received: u64) {
        self.known += expected;
        self.received = self.received.max(received);
    }

    /// How many packets are known to be lost, in all.
    pub(crate) fn lost(&self) -> u64 {
        self.known.saturating_sub(self.received)
    }

    /// The measured mean loss of the recent past, in [0, 1]; the prior of 1 % before anything was measured.
    pub(crate) fn share(&self) -> f64 {
        match self.recent_known >= 1.0 {
            true => (self.recent_lost / self.recent_known).clamp(0.0, 1.0),
            false => PRIOR_LOSS,
        }
    }

    /// How much more the losses in [`WINDOW`] packets vary than independent ones would: their variance over that of the
    /// binomial distribution, at least 1. Losses in bursts of mean length b give about 2b − 1, for bursts far shorter
    /// than a window.
    pub(crate) fn dispersion(&self) -> f64 {
        self.bursts.ratio()
    }

    /// How probable a loss is right after another one, on a path that loses the share `loss`: the chain of two states
    /// with this dispersion, (1 + r)/(1 − r), has the correlation r. It is `loss` itself where losses are independent.
    pub(crate) fn after_a_loss(&self, loss: f64) -> f64 {
        let correlation = (self.dispersion() - 1.0) / (self.dispersion() + 1.0);
        loss + (1.0 - loss) * correlation
    }

    /// Lets the past fade up to `now`.
    fn forget(&mut self, now: Time) {
        let elapsed = self.counted_at.map_or(Duration::ZERO, |at| now.since(at));
        self.counted_at = Some(now);
        let memory = if self.recent_known > ENOUGH_PACKETS { MEMORY } else { LONG_MEMORY };
        let left = (-elapsed.as_secs_f64() / memory.as_secs_f64()).exp();
        self.recent_lost *= left;
        self.recent_known *= left;
    }
}

/// The variance of losses over windows of [`WINDOW`] packets or more, beside that of independent losses.
///
/// It is taken from the differences of successive windows (Allan 1966), because a mean that moves is no burst: half of
/// their mean square is the variance.
#[derive(Debug, Clone, Default)]
struct Dispersion {
    /// The window that is being filled.
    packets: u64,
    losses: f64,
    /// The share lost in the window before.
    previous: Option<f64>,
    /// Sums over past windows, fading: windows, their losses, and what those would vary by if they were independent and
    /// do vary by, both as variances of a window's share times its packets.
    windows: f64,
    all_losses: f64,
    shares: f64,
    squares: f64,
}

impl Dispersion {
    fn observe(&mut self, packets: u64, losses: f64) {
        self.packets += packets;
        self.losses += losses;
        if self.packets >= WINDOW {
            let (packets, losses) = (self.packets as f64, self.losses.max(0.0));
            (self.packets, self.losses) = (0, 0.0);
            self.end_window(packets, losses);
        }
    }

    fn end_window(&mut self, packets: f64, losses: f64) {
        let share = losses / packets;
        let Some(previous) = self.previous.replace(share) else { return };
        for sum in [&mut self.windows, &mut self.all_losses, &mut self.shares, &mut self.squares] {
            *sum *= WINDOW_DECAY;
        }
        self.windows += 1.0;
        self.all_losses += losses;
        self.shares += share;
        self.squares += packets * (share - previous).powi(2) / 2.0;
    }

    fn ratio(&self) -> f64 {
        // One or two lost packets in all say nothing of their spread.
        if self.windows < 4.0 || self.all_losses < 3.0 {
            return 1.0;
        }
        let mean = self.shares / self.windows;
        let binomial = self.windows * mean * (1.0 - mean).max(0.01);
        (self.squares / binomial).clamp(1.0, MAX_DISPERSION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::random::Random;

    const REPORT: Duration = Duration::from_millis(5);

    /// A path of 4,000 packets a second whose losses come in bursts of mean length `run`.
    struct Path {
        estimate: LossEstimate,
        random: Random,
        now: Time,
        received: u64,
        loses: bool,
        is_crowded: bool,
    }

    impl Path {
        fn new() -> Path {
            Path {
                estimate: LossEstimate::default(),
                random: Random::from_seed([7; 32]),
                now: Time::ZERO,
                received: 0,
                loses: false,
                is_crowded: false,
            }
        }

        fn chance(&mut self, probability: f64) -> bool {
            f64::from(self.random.below(1 << 30)) < probability * f64::from(1u32 << 30)
        }

        fn run(&mut self, seconds: f64, loss: f64, run: f64) {
            for _ in 0..(seconds * 200.0) as u32 {
                self.now += REPORT;
                for _ in 0..20 {
                    self.loses = match self.loses {
                        true => !self.chance(1.0 / run),
                        false => self.chance(loss / (1.0 - loss) / run),
                    };
                    self.received += u64::from(!self.loses);
                }
                self.estimate.observe(self.now, 20, self.received, self.is_crowded);
            }
        }
    }

    #[test]
    fn the_mean_follows_a_change_within_a_second_and_forgets_it_within_five() {
        let mut path = Path::new();
        assert_eq!(path.estimate.share(), PRIOR_LOSS);
        path.run(2.0, 0.0, 1.0);
        assert_eq!(path.estimate.share(), 0.0);
        path.run(1.0, 0.05, 1.0 / 0.95);
        let share = path.estimate.share();
        assert!((0.035..0.065).contains(&share), "{share}");
        path.run(5.0, 0.0, 1.0);
        assert!(path.estimate.share() < 1e-4);
    }

    #[test]
    fn dispersion_is_one_for_independent_losses_and_grows_with_the_bursts() {
        let mut path = Path::new();
        path.run(20.0, 0.05, 1.0 / 0.95);
        let independent = path.estimate.dispersion();
        assert!((1.0..2.0).contains(&independent), "{independent}");
        path.run(20.0, 0.05, 8.0);
        let bursts = path.estimate.dispersion();
        assert!((6.0..25.0).contains(&bursts), "{bursts}");
    }

    /// What the overshoot of the start drops was once part of the mean for ten thousand packets: bursts looked like
    /// independent losses meanwhile, and each of them like a policer.
    #[test]
    fn what_a_full_queue_drops_does_not_hide_the_bursts_that_follow() {
        let mut path = Path::new();
        path.is_crowded = true;
        path.run(0.5, 0.6, 1.0 / 0.4);
        path.is_crowded = false;
        path.run(1.0, 0.02, 8.0);
        let bursts = path.estimate.dispersion();
        assert!(bursts > 12.0, "{bursts}");
    }

    #[test]
    fn in_bursts_of_eight_seven_of_eight_losses_follow_another_one() {
        let mut path = Path::new();
        path.run(20.0, 0.05, 1.0 / 0.95);
        let independent = path.estimate.after_a_loss(0.05);
        assert!((0.05..0.35).contains(&independent), "{independent}");
        path.run(20.0, 0.05, 8.0);
        let bursts = path.estimate.after_a_loss(0.05);
        assert!((0.8..0.93).contains(&bursts), "{bursts}");
    }

    #[test]
    fn packets_that_were_only_overtaken_are_not_lost_for_long() {
        let mut estimate = LossEstimate::default();
        estimate.observe(Time::ZERO + REPORT, 100, 90, false);
        estimate.observe(Time::ZERO + 2 * REPORT, 100, 200, false);
        assert_eq!((estimate.lost(), estimate.share()), (0, 0.0));
    }
}
