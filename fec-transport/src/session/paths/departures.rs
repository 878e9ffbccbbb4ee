//! When the packets of a path left, until their fate is known.

use std::collections::VecDeque;
use std::time::Duration;

use crate::session::rate::MOST_UNDER_WAY;
use crate::time::Time;

/// Packets of one path whose departure is remembered: 200 ms at 15 Gbit/s, 6 MB. Older ones are given up; a path with
/// more on the way would never hear of a packet that it remembers.
const MAX_REMEMBERED: usize = 1 << 18;

/// When packets left, from the first that is not known to have arrived or to be lost.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    first: u64,
    departures: VecDeque<Departure>,
    /// The bytes of all of them.
    bytes: u64,
    /// How many they may be beyond what the path carries in its smallest round trip; none until the peer has told.
    room: Option<u64>,
    /// Packets that had to be forgotten before anything was known of them; the next acknowledgement covers them too.
    forgotten: (u64, u64),
    /// How often the session has had nothing to send by now.
    idle_spells: u32,
    /// How often it had had nothing to send when the packet left that was acknowledged last.
    known_idle_spells: u32,
}

#[derive(Debug, Clone, Copy)]
struct Departure {
    time: Time,
    bytes: u32,
    idle_spells: u32,
}

/// What an acknowledgement covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    /// When the acknowledged packet left.
    pub(crate) departed: Time,
    /// How many packets left since the last acknowledged one, this one included.
    pub(crate) packets: u64,
    /// The bytes of these packets, IP headers included.
    pub(crate) bytes: u64,
    /// The bytes of the acknowledged one.
    pub(crate) size: u32,
    /// Whether there was once nothing to send since the one that was acknowledged before.
    pub(crate) is_after_idleness: bool,
}

impl Departures {
    /// The number of the next packet.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.departures.len() as u64
    }

    /// The next packet leaves at that time; gives its number.
    pub(crate) fn push(&mut self, time: Time) -> u64 {
        let number = self.next();
        if self.departures.len() == MAX_REMEMBERED
            && let Some(departure) = self.departures.pop_front()
        {
            self.forgotten.0 += 1;
            self.forgotten.1 += u64::from(departure.bytes);
            self.bytes -= u64::from(departure.bytes);
            self.first += 1;
        }
        self.departures.push_back(Departure { time, bytes: 0, idle_spells: self.idle_spells });
        number
    }

    /// The session has had nothing to send so many times, before the next packet.
    pub(crate) fn note_idle_spells(&mut self, idle_spells: u32) {
        self.idle_spells = idle_spells;
    }

    /// Notes how many bytes the last packet had, IP header included.
    pub(crate) fn weigh_last(&mut self, bytes: usize) {
        if let Some(last) = self.departures.back_mut() {
            last.bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.bytes += u64::from(last.bytes);
        }
    }

    /// Bytes that are not known to have arrived or to be lost, IP headers included; older ones are not counted.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The peer's sockets hold so many bytes of the path.
    pub(crate) fn set_room(&mut self, bytes: u64) {
        self.room = Some(bytes);
    }

    /// Bytes that the peer's sockets hold of the path.
    pub(crate) fn room(&self) -> u64 {
        self.room.unwrap_or(MOST_UNDER_WAY)
    }

    /// The first packet number that is not known to have arrived or to be lost.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Forgets everything up to `highest`, which was pushed; none if that happened before.
    pub(crate) fn acknowledge(&mut self, highest: u64) -> Option<Acknowledged> {
        let last = *self.departures.get(highest.checked_sub(self.first)? as usize)?;
        let (packets, forgotten) = std::mem::take(&mut self.forgotten);
        let known = self.departures.drain(..=(highest - self.first) as usize);
        let (packets, bytes) = known.fold((packets, 0), |(packets, bytes), departure| {
            (packets + 1, bytes + u64::from(departure.bytes))
        });
        self.bytes -= bytes;
        self.first = highest + 1;
        let known_idle_spells = std::mem::replace(&mut self.known_idle_spells, last.idle_spells);
        Some(Acknowledged {
            departed: last.time,
            packets,
            bytes: bytes + forgotten,
            size: last.bytes,
            is_after_idleness: known_idle_spells != last.idle_spells,
        })
    }

    /// How many unacknowledged packets left longer ago than `age`, but not before `since`.
    pub(crate) fn older_than(&self, now: Time, age: Duration, since: Time) -> usize {
        let is_older = |departure: &&Departure| now.since(departure.time) >= age;
        let older = self.departures.iter().take_while(is_older);
        older.filter(|departure| departure.time >= since).count()
    }

    /// When the last packet left, if it is not known to have arrived or to be lost.
    pub(crate) fn latest(&self) -> Option<Time> {
        self.departures.back().map(|departure| departure.time)
    }

    /// When the first packet left that is not known to have arrived or to be lost, of those from `since` on.
    pub(crate) fn unheard_since(&self, since: Time) -> Option<Time> {
        self.departures.iter().map(|departure| departure.time).find(|time| *time >= since)
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
        let departed = Time::ZERO;
        for number in 0..sent {
            assert_eq!(departures.push(departed), number);
            departures.weigh_last(100);
        }
        let is_after_idleness = false;
        let all = Acknowledged { departed, packets: sent, bytes: 100 * sent, size: 100, is_after_idleness };
        assert_eq!(departures.acknowledge(sent - 1), Some(all));
        assert_eq!(departures.acknowledge(sent - 1), None, "it was acknowledged before");
        departures.push(departed);
        let last = Acknowledged { departed, packets: 1, bytes: 0, size: 0, is_after_idleness };
        assert_eq!(departures.acknowledge(sent), Some(last));
    }

    #[test]
    fn what_left_after_there_was_nothing_to_send_is_told_once() {
        let mut departures = Departures::default();
        let mut is_after_idleness = |idle_spells| {
            departures.note_idle_spells(idle_spells);
            let number = departures.push(Time::ZERO);
            departures.acknowledge(number).map(|acknowledged| acknowledged.is_after_idleness)
        };
        assert_eq!([0, 1, 1, 3, 3].map(&mut is_after_idleness), [false, true, false, true, false].map(Some));
    }
}
