//! The pacer of a path: a token bucket filled at the path's rate.

use std::time::Duration;

use crate::time::Time;
use crate::wire::IP_UDP_HEADERS;

/// How long a path may send ahead of its rate: timers tick at 1 ms.
const BURST: Duration = Duration::from_millis(3);
/// Once the tokens are used up, a run of packets waits for those of so long at the path's rate (design §6). It may be
/// longer if more of them have come meanwhile, because the driver had other sessions to serve: the more it has to do,
/// the more packets it sends in one go.
const RUN: Duration = Duration::from_millis(1);
/// A run has at most so many packets.
const MAX_RUN: usize = 44;
/// One call of the socket takes no more bytes.
const MAX_RUN_BYTES: usize = 65_000;

/// Holds packets back until the rate allows for them.
#[derive(Debug, Clone)]
pub(crate) struct Pacer {
    /// In bytes; below zero, a packet was sent ahead of the rate.
    tokens: f64,
    /// Bytes of packets that went without tokens, and are paid for by half of what comes.
    owed: f64,
    counted_at: Time,
    /// Whether the tokens were used up: then those of a whole run are waited for, or each packet would go alone.
    is_exhausted: bool,
}

impl Pacer {
    /// A pacer without tokens.
    pub(crate) fn new(now: Time) -> Pacer {
        Pacer { tokens: 0.0, owed: 0.0, counted_at: now, is_exhausted: false }
    }

    /// Charges a datagram of `bytes`, IP header included; `rate` in bit/s.
    pub(crate) fn charge(&mut self, now: Time, rate: f64, bytes: f64) {
        self.refill(now, rate);
        self.tokens -= bytes;
        self.is_exhausted |= self.tokens < 0.0;
    }

    /// Charges a datagram of `bytes` that goes whatever the pacer says, as reports and probes do: half of what the rate
    /// allows pays for such, so that they hold back what is paced, but never stop it. Reports on a fast path may be
    /// more than the rate at which the way back began, and credit goes the same way.
    pub(crate) fn charge_unpaced(&mut self, now: Time, rate: f64, bytes: f64) {
        self.refill(now, rate);
        self.owed = (self.owed + bytes).min((rate / 8.0 * BURST.as_secs_f64()).max(bytes));
    }

    /// Whether a run of packets of `packet` bytes may go now.
    pub(crate) fn may_send(&mut self, now: Time, rate: f64, packet: usize) -> bool {
        self.refill(now, rate);
        // This is a little less than `ready_at` waits for, because times are whole nanoseconds.
        self.is_exhausted &= self.tokens < 0.99 * run_tokens(rate, packet);
        !self.is_exhausted
    }

    /// The tokens that there are now, in bytes.
    pub(crate) fn tokens(&mut self, now: Time, rate: f64) -> f64 {
        self.refill(now, rate);
        self.tokens
    }

    /// When there will be tokens for the next run of packets of `packet` bytes.
    pub(crate) fn ready_at(&self, rate: f64, packet: usize) -> Time {
        let missing = if self.is_exhausted { (run_tokens(rate, packet) - self.tokens).max(0.0) } else { 0.0 };
        let to_earn = missing + missing.min(self.owed);
        self.counted_at + Duration::from_secs_f64(to_earn / (rate / 8.0))
    }

    fn refill(&mut self, now: Time, rate: f64) {
        let bytes_per_second = rate / 8.0;
        let earned = now.since(self.counted_at).as_secs_f64() * bytes_per_second;
        let paid = self.owed.min(earned / 2.0);
        self.owed -= paid;
        self.tokens = (self.tokens + earned - paid).min(bytes_per_second * BURST.as_secs_f64());
        self.counted_at = now;
    }
}

/// The tokens of a run, in bytes; `rate` in bit/s.
fn run_tokens(rate: f64, packet: usize) -> f64 {
    (rate / 8.0 * RUN.as_secs_f64()).min((MAX_RUN * packet) as f64)
}

/// The most packets of one run of packets of `packet` bytes, from one to 44, where a path of `rate` bit/s has `tokens`:
/// those that they pay for, or those of [`RUN`], of which the last may go ahead of the tokens.
pub(crate) fn run_packets(tokens: f64, rate: f64, packet: usize) -> usize {
    let paid = (tokens.max(0.0) / (packet + IP_UDP_HEADERS) as f64) as usize;
    let usual = (run_tokens(rate, packet) / packet as f64) as usize;
    usual.min(paid + 1).max(paid).min(MAX_RUN_BYTES / packet).clamp(1, MAX_RUN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_a_millisecond_long_and_longer_if_it_is_late() {
        // 100 Mbit/s are 12,500 bytes in a millisecond; a packet of 972 bytes takes 1,000 tokens.
        let run = |tokens| run_packets(tokens, 1e8, 972);
        assert_eq!([0.0, 500.0, 5_000.0, 12_500.0].map(run), [1, 1, 6, 12]);
        assert_eq!([20_000.0, 37_500.0, 1e6].map(run), [20, 37, MAX_RUN]);
        assert_eq!(run_packets(-5.0, 1e5, 972), 1, "a slow path sends packet by packet");
        assert_eq!(run_packets(1e6, 1e9, 9_000), MAX_RUN_BYTES / 9_000);
    }

    /// Sends packets of 1,000 bytes for a second whenever the pacer lets it; gives how many.
    fn sent_in_a_second(rate: f64) -> u32 {
        let (mut pacer, mut sent) = (Pacer::new(Time::ZERO), 0);
        let mut now = Time::ZERO;
        while now < Time::ZERO + Duration::from_secs(1) {
            while pacer.may_send(now, rate, 1_000) {
                pacer.charge(now, rate, 1_000.0);
                sent += 1;
            }
            now = pacer.ready_at(rate, 1_000).max(now + Duration::from_micros(1));
        }
        sent
    }

    #[test]
    fn reports_beyond_the_rate_leave_half_of_it_to_what_is_paced() {
        // They once put the pacer into debt for seconds: credit came late, and a path of 14 Gbit/s carried 4.
        let (rate, mut pacer, mut sent) = (4e6, Pacer::new(Time::ZERO), 0);
        for step in 0..10_000u32 {
            let now = Time::ZERO + step * Duration::from_micros(100);
            if step % 6 == 0 {
                pacer.charge_unpaced(now, rate, 1_268.0);
            }
            if pacer.may_send(now, rate, 500) {
                pacer.charge(now, rate, 500.0);
                sent += 500;
            }
        }
        assert!((240_000..=270_000).contains(&sent), "{sent} of the 500,000 bytes that the rate allows");
    }

    #[test]
    fn over_a_second_the_rate_is_kept_whatever_it_is() {
        for packets_per_second in [40u32, 1_000, 100_000] {
            let sent = sent_in_a_second(f64::from(packets_per_second) * 8_000.0);
            let bound = packets_per_second / 100 + 2;
            assert!(sent.abs_diff(packets_per_second) <= bound, "{sent} of {packets_per_second}");
        }
    }
}
