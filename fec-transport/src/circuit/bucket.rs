//! Token buckets: so much a second in the long run, and one second's worth at once.

use std::collections::BTreeMap;

use crate::time::Time;

/// The most buckets that one table keeps; those that are full again are forgotten first.
const MAX_BUCKETS: usize = 4_096;

/// One bucket for each originator or neighbour that is policed. One without a bucket has not been seen yet, or its
/// bucket was full.
#[derive(Debug)]
pub(super) struct Buckets<K> {
    /// Tokens per second; none for no limit.
    rate: Option<f64>,
    buckets: BTreeMap<K, Bucket>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    counted: Time,
}

impl<K: Ord + Copy> Buckets<K> {
    pub(super) fn new(rate: Option<f64>) -> Buckets<K> {
        Buckets { rate, buckets: BTreeMap::new() }
    }

    /// Whether `who` may do what costs `cost` tokens now; takes them if so. Something that costs more than a second's
    /// worth of tokens passes when the bucket is full, and leaves it in debt.
    pub(super) fn take(&mut self, now: Time, who: K, cost: f64) -> bool {
        let Some(rate) = self.rate else { return true };
        if self.buckets.len() >= MAX_BUCKETS && !self.buckets.contains_key(&who) {
            self.buckets.retain(|_, bucket| bucket.at(now, rate).tokens < rate);
        }
        let bucket = self.buckets.entry(who).or_insert(Bucket { tokens: rate, counted: now });
        *bucket = bucket.at(now, rate);
        let may = bucket.tokens >= cost.min(rate);
        if may {
            bucket.tokens -= cost;
        }
        may
    }
}

impl Bucket {
    fn at(self, now: Time, rate: f64) -> Bucket {
        let earned = now.since(self.counted).as_secs_f64() * rate;
        Bucket { tokens: (self.tokens + earned).min(rate), counted: now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_burst_of_one_second_passes_and_then_the_rate() {
        let mut buckets = Buckets::new(Some(10.0));
        let mut now = Time::ZERO;
        assert_eq!((0..50).filter(|_| buckets.take(now, 'a', 1.0)).count(), 10);
        assert!(buckets.take(now, 'b', 1.0), "another one's bucket is full");
        let mut passed = 0;
        for _ in 0..1_000 {
            now += Duration::from_millis(10);
            passed += usize::from(buckets.take(now, 'a', 1.0));
        }
        assert!((99..=100).contains(&passed), "{passed} in ten seconds");
        assert!(Buckets::new(None).take(now, 'a', 1e9));
    }

    #[test]
    fn what_is_larger_than_the_bucket_passes_when_it_is_full() {
        let mut buckets = Buckets::new(Some(10.0));
        let later = |seconds| Time::from_epoch(Duration::from_secs(seconds));
        assert!(buckets.take(later(0), 'a', 30.0) && !buckets.take(later(2), 'a', 1.0));
        assert!(buckets.take(later(3), 'a', 10.0));
    }
}
