//! What the network does with the writes of a run, as far as their arrivals tell.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::compression::Circumstances;

/// What a network is believed to carry before it has shown: what a session begins with.
const FIRST_BPS: f64 = 4e6;
/// What waits for longer than that makes us wait: a write by itself, and a round trip, are shorter.
const QUEUE: Duration = Duration::from_millis(300);
/// For so long after the network has last made us wait it is believed to carry what it did then; after that twice as
/// much with every second such time. Before it has made us wait at all there is nothing to believe.
const MEMORY: Duration = Duration::from_secs(1);
const DOUBLING: Duration = Duration::from_millis(500);
const FIRST_DOUBLING: Duration = Duration::from_millis(250);
/// How far back writes tell of the rate, and how many of them.
const LATEST: Duration = Duration::from_secs(3);
const MOST: usize = 16;

/// What the network does with the writes of a run. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Carrying(Arc<Mutex<Writes>>);

#[derive(Debug)]
struct Writes {
    /// When writes arrived, and how many bytes each had.
    arrivals: VecDeque<(Instant, u64)>,
    /// When the one before them arrived; if there was none, when the first of them was sent.
    from: Instant,
    /// When the network has last made us wait, or the run began.
    waited: Instant,
    /// Whether it has, and what it carried then was measured.
    is_known: bool,
}

impl Default for Carrying {
    fn default() -> Carrying {
        let (arrivals, now) = (VecDeque::new(), Instant::now());
        Carrying(Arc::new(Mutex::new(Writes { arrivals, from: now, waited: now, is_known: false })))
    }
}

impl Carrying {
    /// A write of so many bytes has arrived.
    pub(super) fn arrived(&self, bytes: u64) {
        let (mut writes, now) = (self.lock(), Instant::now());
        writes.arrivals.push_back((now, bytes));
        let is_old = |(at, _): &(Instant, u64)| now.duration_since(*at) > LATEST;
        while writes.arrivals.len() > MOST || (writes.arrivals.len() > 2 && is_old(&writes.arrivals[0])) {
            if let Some((at, _)) = writes.arrivals.pop_front() {
                writes.from = at;
            }
        }
    }

    /// There is another write to send, and so many bytes of those before it are under way.
    pub(super) fn sends_behind(&self, under_way: u64) {
        let mut writes = self.lock();
        if writes.arrivals.is_empty() && under_way == 0 {
            writes.from = Instant::now();
        }
        if under_way as f64 * 8.0 > writes.rate_bps() * QUEUE.as_secs_f64() {
            writes.waited = Instant::now();
            writes.is_known |= writes.arrivals.len() > 1;
        }
    }

    /// How it is where chunks are packed by so many processors with nothing else to do.
    pub(super) fn circumstances(&self, idle_processors: f64) -> Circumstances {
        let (writes, now) = (self.lock(), Instant::now());
        let idle = now.duration_since(writes.waited);
        let (memory, doubling) =
            if writes.is_known { (MEMORY, DOUBLING) } else { (Duration::ZERO, FIRST_DOUBLING) };
        let doublings = idle.saturating_sub(memory).as_secs_f64() / doubling.as_secs_f64();
        Circumstances {
            rate_bps: writes.rate_bps() * doublings.min(40.0).exp2(),
            network_waits: idle < MEMORY,
            idle_processors,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Writes> {
        // Each change is a few statements without a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writes {
    /// What the latest arrivals brought, over the time it took. Writes that share the network arrive together, so the
    /// time between two of them tells nothing.
    fn rate_bps(&self) -> f64 {
        let Some((last, _)) = self.arrivals.back() else { return FIRST_BPS };
        let bytes: u64 = self.arrivals.iter().map(|(_, bytes)| bytes).sum();
        match last.duration_since(self.from) {
            time if time.is_zero() => FIRST_BPS,
            time => bytes as f64 * 8.0 / time.as_secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// They were once believed to have been carried in the time between the two arrivals, which is none.
    #[tokio::test(start_paused = true)]
    async fn two_writes_that_arrive_together_were_carried_in_the_time_since_the_first_was_sent() {
        let carrying = Carrying::default();
        tokio::time::advance(1_000 * MS).await;
        carrying.sends_behind(0);
        carrying.sends_behind(500_000);
        tokio::time::advance(160 * MS).await;
        carrying.arrived(500_000);
        carrying.arrived(1_500_000);
        carrying.sends_behind(10_000_000);
        let rate = carrying.circumstances(1.0).rate_bps;
        assert!((rate / 100e6 - 1.0).abs() < 0.01, "{rate}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_rate_is_that_of_the_latest_writes() {
        let carrying = Carrying::default();
        carrying.sends_behind(0);
        for bytes in [100_000, 2_000_000].repeat(10) {
            tokio::time::advance(100 * MS).await;
            carrying.arrived(bytes);
        }
        for _ in 0..MOST {
            tokio::time::advance(100 * MS).await;
            carrying.arrived(500_000);
            carrying.sends_behind(10_000_000);
        }
        let rate = carrying.circumstances(1.0).rate_bps;
        assert!((rate / 40e6 - 1.0).abs() < 0.01, "{rate}");
    }
}
