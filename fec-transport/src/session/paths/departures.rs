//! When the packets of a path left, until their fate is known.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Time;

/// Packets of one path whose departure is remembered: 200 ms at 15 Gbit/s, 6 MB. Older ones are given up; a path with
/// more on the way would never hear of a packet that it remembers.
const MAX_REMEMBERED: usize = 1 << 18;

/// When packets left, from the first that is not known to have arrived or to be lost.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    first: u64,
    /// `None` marks a number that was skipped.
    departures: VecDeque<Option<Departure>>,
    /// The bytes of all of them.
    bytes: u64,
    /// Packets that had to be forgotten before anything was known of them; the next acknowledgement covers them too.
    forgotten: (u64, u64),
}

#[derive(Debug, Clone, Copy)]
struct Departure {
    time: Time,
    bytes: u32,
}

/// What an acknowledgement covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    /// When the acknowledged packet left; `None` if its number was skipped.
    pub(crate) departure: Option<Time>,
    /// How many packets left since the last acknowledged one, this one included.
    pub(crate) packets: u64,
    /// The bytes of these packets, IP headers included.
    pub(crate) bytes: u64,
    /// The bytes of the acknowledged one.
    pub(crate) size: u32,
}

impl Departures {
    /// The next packet left at that time, or its number was skipped.
    pub(crate) fn push(&mut self, time: Option<Time>) {
        if self.departures.len() == MAX_REMEMBERED {
            if let Some(departure) = self.departures.pop_front().flatten() {
                self.forgotten.0 += 1;
                self.forgotten.1 += u64::from(departure.bytes);
                self.bytes -= u64::from(departure.bytes);
            }
            self.first += 1;
        }
        self.departures.push_back(time.map(|time| Departure { time, bytes: 0 }));
    }

    /// Notes how many bytes the last packet had, IP header included.
    pub(crate) fn weigh_last(&mut self, bytes: usize) {
        if let Some(Some(last)) = self.departures.back_mut() {
            last.bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.bytes += u64::from(last.bytes);
        }
    }

    /// Bytes that are not known to have arrived or to be lost, IP headers included; older ones are not counted.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The first packet number that is not known to have arrived or to be lost.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Forgets everything up to `highest`, which is at least [`first`](Self::first) and was pushed.
    pub(crate) fn acknowledge(&mut self, highest: u64) -> Acknowledged {
        let count = (highest - self.first + 1) as usize;
        let (mut packets, forgotten) = std::mem::take(&mut self.forgotten);
        let (mut bytes, mut last) = (0, None);
        for departure in self.departures.drain(..count) {
            packets += u64::from(departure.is_some());
            bytes += departure.map_or(0, |departure| u64::from(departure.bytes));
            last = departure;
        }
        self.bytes -= bytes;
        self.first = highest + 1;
        let (departure, size) = last.map_or((None, 0), |last| (Some(last.time), last.bytes));
        Acknowledged { departure, packets, bytes: bytes + forgotten, size }
    }

    /// How many unacknowledged packets left longer ago than `age`, but not before `since`.
    pub(crate) fn older_than(&self, now: Time, age: Duration, since: Time) -> usize {
        let is_older = |departure: &&Departure| now.since(departure.time) >= age;
        let older = self.departures.iter().flatten().take_while(is_older);
        older.filter(|departure| departure.time >= since).count()
    }

    /// When the last packet left, if it is not known to have arrived or to be lost.
    pub(crate) fn latest(&self) -> Option<Time> {
        self.departures.iter().rev().flatten().next().map(|departure| departure.time)
    }

    /// When the first packet left that is not known to have arrived or to be lost, of those from `since` on.
    pub(crate) fn unheard_since(&self, since: Time) -> Option<Time> {
        let times = self.departures.iter().flatten().map(|departure| departure.time);
        times.into_iter().find(|time| *time >= since)
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
        let departure = Some(Time::ZERO);
        for _ in 0..sent {
            departures.push(departure);
            departures.weigh_last(100);
        }
        let all = Acknowledged { departure, packets: sent, bytes: 100 * sent, size: 100 };
        assert_eq!(departures.acknowledge(sent - 1), all);
        departures.push(None);
        departures.push(departure);
        let last = Acknowledged { departure, packets: 1, bytes: 0, size: 0 };
        assert_eq!(departures.acknowledge(sent + 1), last);
    }
}
