//! When the packets of a path left, until their fate is known.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Time;

/// Packets of one path whose departure is remembered: 200 ms at 900 Mbit/s. Older ones are given up.
const MAX_REMEMBERED: usize = 16_384;

/// When packets left, from the first that is not known to have arrived or to be lost.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    first: u64,
    /// `None` marks a number that was skipped.
    times: VecDeque<Option<Time>>,
    /// Packets that had to be forgotten before anything was known of them; the next acknowledgement covers them too.
    forgotten: u64,
}

impl Departures {
    /// The next packet left at that time, or its number was skipped.
    pub(crate) fn push(&mut self, time: Option<Time>) {
        if self.times.len() == MAX_REMEMBERED {
            self.forgotten += u64::from(self.times.pop_front().flatten().is_some());
            self.first += 1;
        }
        self.times.push_back(time);
    }

    /// The first packet number that is not known to have arrived or to be lost.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Forgets everything up to `highest`, which is at least [`first`](Self::first) and was pushed; gives when that packet
    /// left (`None` if never) and how many packets left since the last acknowledged one.
    pub(crate) fn acknowledge(&mut self, highest: u64) -> (Option<Time>, u64) {
        let count = (highest - self.first + 1) as usize;
        let mut departed = std::mem::take(&mut self.forgotten);
        let mut last = None;
        for time in self.times.drain(..count) {
            departed += u64::from(time.is_some());
            last = time;
        }
        self.first = highest + 1;
        (last, departed)
    }

    /// How many unacknowledged packets left longer ago than `age`.
    pub(crate) fn older_than(&self, now: Time, age: Duration) -> usize {
        self.times.iter().flatten().take_while(|time| now.since(**time) >= age).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_were_forgotten_unheard_of_still_count_as_sent() {
        // They once did not, so that a direction that is seldom reported on showed no loss at all.
        let mut departures = Departures::default();
        let sent = MAX_REMEMBERED as u64 + 1_000;
        (0..sent).for_each(|_| departures.push(Some(Time::ZERO)));
        assert_eq!(departures.acknowledge(sent - 1), (Some(Time::ZERO), sent));
        departures.push(None);
        departures.push(Some(Time::ZERO));
        assert_eq!(departures.acknowledge(sent + 1), (Some(Time::ZERO), 1));
    }
}
