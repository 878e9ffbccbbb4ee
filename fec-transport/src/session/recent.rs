//! The smallest value of the recent past.

use std::time::Duration;

use crate::time::Time;

/// The smallest of the last one to two of these: two to five drains, so a queue was empty in one of them.
const WINDOW: Duration = Duration::from_secs(10);

/// The smallest value, over two windows of which the older is dropped in turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecentSmallest<T> {
    /// The window's begin and its smallest value.
    current: Option<(Time, T)>,
    before: Option<T>,
}

impl<T> Default for RecentSmallest<T> {
    fn default() -> Self {
        RecentSmallest { current: None, before: None }
    }
}

impl<T: Ord + Copy> RecentSmallest<T> {
    pub(super) fn observe(&mut self, now: Time, value: T) {
        match &mut self.current {
            Some((since, smallest)) if now.since(*since) <= WINDOW => *smallest = value.min(*smallest),
            over => {
                let is_recent = |since: Time| now.since(since) <= 2 * WINDOW;
                self.before = over.filter(|(since, _)| is_recent(*since)).map(|(_, smallest)| smallest);
                *over = Some((now, value));
            }
        }
    }

    /// `None` until something was observed.
    pub(super) fn get(&self) -> Option<T> {
        let (_, current) = self.current?;
        Some(self.before.map_or(current, |before| before.min(current)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_window_is_dropped_in_turn_and_after_a_pause_both() {
        let mut recent = RecentSmallest::default();
        assert_eq!(recent.get(), None);
        let smallest = [(0, 30), (1, 20), (12, 90), (15, 80), (23, 70), (60, 100)].map(|(at, value)| {
            recent.observe(Time::ZERO + Duration::from_secs(at), value);
            recent.get()
        });
        assert_eq!(smallest, [30, 20, 20, 20, 70, 100].map(Some));
    }
}
