//! A limit on the rate at which data travels, which may change at any time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// So much may go at once after a pause: what a second of nothing allows.
const BURST: Duration = Duration::from_millis(200);

/// Lets bytes pass at a rate. All that share it share the rate.
#[derive(Debug, Default)]
pub struct Throttle {
    /// Bytes per second; zero is no limit.
    rate: AtomicU64,
    /// When all that has passed is paid for.
    paid: Mutex<Option<Instant>>,
}

impl Throttle {
    /// Sets the limit in bytes per second, or takes it away. It holds for what asks from now on.
    pub fn set(&self, rate: Option<u64>) {
        self.rate.store(rate.map_or(0, |rate| rate.max(1)), Ordering::Relaxed);
    }

    /// Waits until so many bytes may go.
    pub async fn pass(&self, bytes: u64) {
        let rate = self.rate.load(Ordering::Relaxed);
        if rate == 0 {
            return;
        }
        let at = {
            let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let from = paid.map_or(now, |paid| paid.max(now.checked_sub(BURST).unwrap_or(now)));
            let until = from + Duration::from_secs_f64(bytes as f64 / rate as f64);
            *paid = Some(until);
            from
        };
        sleep_until(at).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn bytes_pass_at_the_rate_whoever_asks() {
        let throttle = Throttle::default();
        throttle.set(Some(1_000_000));
        let began = Instant::now();
        for _ in 0..10 {
            tokio::join!(throttle.pass(500_000), throttle.pass(500_000));
        }
        let elapsed = began.elapsed().as_secs_f64();
        assert!(
            (9.0..10.0).contains(&elapsed),
            "10 MB, of which the last 500 kB are still to be paid: {elapsed} s"
        );
        throttle.set(None);
        let began = Instant::now();
        throttle.pass(1 << 40).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
