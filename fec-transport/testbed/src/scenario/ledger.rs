//! What became of a scenario's flows: both ends write here, because in virtual time they share one clock.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::content;
use fec_transport::Time;
use fec_transport::overlay::MemberId;
use fec_transport::{Class, Gap};

/// The width of the bins in which deliveries are counted.
pub(super) const BIN: Duration = Duration::from_millis(10);

/// Shorter pauses in a delivery are not remembered.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// A flow of a scenario, checked.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    pub(super) name: String,
    pub(super) from: MemberId,
    pub(super) to: MemberId,
    pub(super) class: Class,
    pub(super) start: Time,
    pub(super) stop: Option<Time>,
    pub(super) traffic: Traffic,
    pub(super) in_order: bool,
}

/// What a flow sends.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Traffic {
    /// As fast as possible; so many bytes or without end.
    Bulk { bytes: Option<u64> },
    /// Messages of equal size, one every `every`; one that arrives within `within` is in time.
    Messages { every: Duration, bytes: u64, within: Option<Duration> },
}

/// Deliveries of all flows.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) flows: Vec<Flow>,
    pub(super) records: Vec<Record>,
    /// Which flow a stream carries, by sender, receiver and number; both ends number a stream alike.
    streams: BTreeMap<(MemberId, MemberId, u32), usize>,
    /// The measured time.
    pub(super) window: (Time, Time),
}

/// What was delivered of one flow.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Bytes delivered in all, in the measured window, and those that were not what was sent.
    pub(super) bytes: u64,
    pub(super) bytes_in_window: u64,
    pub(super) wrong_bytes: u64,
    /// Bytes per [`BIN`].
    pub(super) bins: Vec<u64>,
    /// The longest pause in the window, and when it ended.
    pub(super) stall: (Duration, Time),
    /// All pauses of at least [`SHORTEST_PAUSE`], in order.
    pauses: Vec<Gap>,
    /// When something arrived first, and last.
    pub(super) first: Option<Time>,
    last: Option<Time>,
    /// When everything of a flow with an end had arrived.
    pub(super) completed: Option<Time>,
    /// How often the flow lost its session, and began anew.
    pub(super) restarts: u32,
    pub(super) messages: Vec<Message>,
    /// The number of the first message on the present stream.
    pub(super) first_message: usize,
}

/// A message on its way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    /// When it was to be written.
    pub(super) written: Time,
    pub(super) missing: u64,
    pub(super) arrived: Option<Time>,
}

impl Ledger {
    pub(super) fn new(flows: Vec<Flow>, window: (Time, Time)) -> Ledger {
        let records = flows.iter().map(|_| Record::default()).collect();
        Ledger { flows, records, streams: BTreeMap::new(), window }
    }

    /// A flow goes on, or begins, on this stream of its two members.
    pub(super) fn stream_opened(&mut self, flow: usize, number: u32) {
        let Flow { from, to, .. } = self.flows[flow];
        self.streams.insert((from, to, number), flow);
    }

    pub(super) fn find(&self, from: MemberId, to: MemberId, number: u32) -> Option<usize> {
        self.streams.get(&(from, to, number)).copied()
    }

    /// The run is over: what should still have come and did not is a pause.
    pub(super) fn close(&mut self, now: Time) {
        let window = self.window;
        for (flow, record) in self.flows.iter().zip(&mut self.records) {
            if flow.stop.is_none() && record.completed.is_none() {
                record.pause_until(now, window);
            }
        }
    }

    /// A message was written, or would have been if there had been room.
    pub(super) fn message_due(&mut self, flow: usize, written: Time, bytes: u64) {
        self.records[flow].messages.push(Message { written, missing: bytes, arrived: None });
    }

    /// `bytes` of a flow have been read at `offset` of its stream.
    pub(super) fn delivered(&mut self, now: Time, flow: usize, offset: u64, bytes: &[u8]) {
        let Flow { traffic, .. } = &self.flows[flow];
        let record = &mut self.records[flow];
        record.wrong_bytes += content::wrong_bytes(offset, bytes);
        record.note(now, bytes.len() as u64, self.window);
        match traffic {
            Traffic::Bulk { bytes: Some(all) } if record.bytes >= *all => {
                record.completed.get_or_insert(now);
            }
            Traffic::Bulk { .. } => {}
            Traffic::Messages { bytes: size, .. } => {
                record.messages_delivered(now, offset, bytes.len() as u64, *size);
            }
        }
    }
}

impl Record {
    fn note(&mut self, now: Time, bytes: u64, (from, to): (Time, Time)) {
        let bin = (now.since_epoch().as_nanos() / BIN.as_nanos()) as usize;
        self.bins.resize(self.bins.len().max(bin + 1), 0);
        self.bins[bin] += bytes;
        self.bytes += bytes;
        if now >= from && now < to {
            self.bytes_in_window += bytes;
        }
        self.pause_until(now, (from, to));
        self.first.get_or_insert(now);
        self.last = Some(now);
    }

    /// There was nothing to deliver since the last delivery, or the start of the window, until now.
    pub(super) fn pause_until(&mut self, now: Time, (from, to): (Time, Time)) {
        let since = self.last.map_or(from, |last| last.max(from));
        let length = now.min(to).since(since);
        if length >= SHORTEST_PAUSE {
            self.pauses.push(Gap { ended: now, length });
        }
        if length > self.stall.0 {
            self.stall = (length, now);
        }
    }

    /// The longest pause that began before `to` and ended after `from`.
    pub(super) fn longest_pause(&self, from: Time, to: Time) -> Duration {
        let around = self.pauses.iter().filter(|gap| gap.ended > from && gap.ended - gap.length < to);
        around.map(|gap| gap.length).max().unwrap_or_default()
    }

    fn messages_delivered(&mut self, now: Time, offset: u64, length: u64, size: u64) {
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let next = (at / size + 1) * size;
            let part = end.min(next) - at;
            if let Some(message) = self.messages.get_mut(self.first_message + (at / size) as usize) {
                message.missing = message.missing.saturating_sub(part);
                if message.missing == 0 {
                    message.arrived.get_or_insert(now);
                }
            }
            at += part;
        }
    }

    /// Bytes delivered in [from, to), to the width of a bin.
    pub(super) fn bytes_between(&self, from: Time, to: Time) -> u64 {
        let bin = |at: Time| (at.since_epoch().as_nanos() / BIN.as_nanos()) as usize;
        let range = bin(from).min(self.bins.len())..bin(to).min(self.bins.len());
        self.bins[range].iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_stall_is_the_longest_pause_within_the_window() {
        let window = (at(100), at(200));
        let mut record = Record::default();
        for ms in [10, 90, 130, 150, 260] {
            record.note(at(ms), 5, window);
        }
        assert_eq!(record.stall, (Duration::from_millis(50), at(260)));
        assert_eq!((record.bytes, record.bytes_in_window), (25, 10));
        assert_eq!(record.bytes_between(at(90), at(150)), 10);
    }

    #[test]
    fn a_message_has_arrived_with_its_last_byte() {
        let mut record = Record::default();
        for _ in 0..3 {
            record.messages.push(Message { written: at(0), missing: 10, arrived: None });
        }
        record.messages_delivered(at(5), 5, 20, 10);
        record.messages_delivered(at(9), 0, 5, 10);
        let arrived: Vec<Option<Time>> = record.messages.iter().map(|message| message.arrived).collect();
        assert_eq!(arrived, [Some(at(9)), Some(at(5)), None]);
    }
}
