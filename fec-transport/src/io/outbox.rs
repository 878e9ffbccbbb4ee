//! Datagrams between the node and the socket.
//!
//! The node puts out datagrams one by one, or a few at a time, for its neighbours in turns. The kernel takes many of
//! equal size to one address in one call, for little more than the price of one. So the datagrams of a turn are
//! gathered in runs, one for each address and size. Datagrams to one address stay in their order.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use quinn_udp::UdpSocketState;

use super::data::DataCounts;
use crate::transmit::Ecn;

/// The largest payload of one send call, over all segments: an IPv4 packet of 65,535 bytes less its headers.
pub(super) const MAX_SEND: usize = 65_507;

/// Bytes that are gathered before they are handed to the kernel, and less than two full runs: they are still in the
/// cache of the processor that has sealed them, and short runs to one neighbour leave together.
const MAX_GATHERED: usize = 64 << 10;

/// Runs that are longer than this are not copied to others: a call for each of them costs less.
const MAX_COPIED: usize = MAX_SEND / 2;

/// Buffers of sent runs that are kept for later ones: one for each of the neighbours that are sent to in one turn.
const MAX_SPARES: usize = 32;

/// The runs that wait for the socket, oldest first.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    runs: VecDeque<Run>,
    spares: Vec<Vec<u8>>,
}

/// Datagrams of equal size, of which the last may be shorter, to one address.
#[derive(Debug)]
struct Run {
    to: SocketAddr,
    segment_size: usize,
    ecn: Ecn,
    bytes: Vec<u8>,
    sent: usize,
}

/// What one send call can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call<'a> {
    /// Where it goes.
    pub(super) to: SocketAddr,
    /// The bytes of each datagram but the last.
    pub(super) segment_size: usize,
    /// The mark of all of them.
    pub(super) ecn: Ecn,
    /// The datagrams.
    pub(super) bytes: &'a [u8],
}

impl Outbox {
    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether more may be added before something is sent.
    pub(super) fn has_room(&self) -> bool {
        self.runs.iter().map(|run| run.bytes.len() - run.sent).sum::<usize>() < MAX_GATHERED
    }

    /// Adds datagrams of `segment_size` bytes each, of which the last may be shorter; leaves an empty buffer. A few are
    /// copied to others that wait, many are a run of their own.
    pub(super) fn push(&mut self, to: SocketAddr, segment_size: usize, ecn: Ecn, datagrams: &mut Vec<u8>) {
        let segment_size = segment_size.max(1);
        if datagrams.is_empty() {
            return;
        }
        let latest = self.runs.iter_mut().rfind(|run| run.to == to);
        if let Some(run) = latest.filter(|run| run.takes(segment_size, ecn, datagrams)) {
            run.bytes.append(datagrams);
            return;
        }
        let bytes = std::mem::replace(datagrams, self.spares.pop().unwrap_or_default());
        self.runs.push_back(Run { to, segment_size, ecn, bytes, sent: 0 });
    }

    /// What the next call sends: at most `limit` datagrams.
    pub(super) fn next(&self, limit: usize) -> Option<Call<'_>> {
        let run = self.runs.front()?;
        let datagrams = limit.min(MAX_SEND / run.segment_size).max(1);
        let rest = &run.bytes[run.sent..];
        let bytes = &rest[..rest.len().min(datagrams * run.segment_size)];
        Some(Call { to: run.to, segment_size: run.segment_size, ecn: run.ecn, bytes })
    }

    /// Steps over what [`next`](Self::next) gave, and says how many datagrams that was.
    pub(super) fn advance(&mut self, limit: usize) -> u64 {
        let Some(Call { segment_size, bytes, .. }) = self.next(limit) else { return 0 };
        let (length, datagrams) = (bytes.len(), bytes.len().div_ceil(segment_size));
        if let Some(run) = self.runs.front_mut() {
            run.sent += length;
            if run.sent == run.bytes.len() {
                self.retire();
            }
        }
        datagrams as u64
    }

    /// Sends what waits by `send`, as far as the kernel takes it now, and counts it. Says whether that was all.
    pub(super) fn flush(
        &mut self,
        state: &UdpSocketState,
        counts: &mut DataCounts,
        mut send: impl FnMut(Call<'_>) -> io::Result<()>,
    ) -> bool {
        loop {
            let limit = state.max_gso_segments();
            let Some(call) = self.next(limit) else { return true };
            match send(call) {
                Ok(()) => {
                    counts.sent += self.advance(limit);
                    counts.send_calls += 1;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                // The device does without GSO, as quinn-udp has just learned: try again one by one.
                Err(_) if state.max_gso_segments() < limit => {}
                Err(error) => {
                    tracing::debug!(to = %call.to, %error, "the kernel refused datagrams");
                    counts.refused += self.advance(limit);
                }
            }
        }
    }

    fn retire(&mut self) {
        if let Some(Run { mut bytes, .. }) = self.runs.pop_front()
            && self.spares.len() < MAX_SPARES
        {
            bytes.clear();
            self.spares.push(bytes);
        }
    }
}

impl Run {
    /// Whether `datagrams` can follow: all of one size so far, none of them larger, and the mark is the same.
    fn takes(&self, segment_size: usize, ecn: Ecn, datagrams: &[u8]) -> bool {
        let fits = segment_size == self.segment_size
            || (datagrams.len() <= segment_size && datagrams.len() <= self.segment_size);
        fits && ecn == self.ecn
            && datagrams.len() <= MAX_COPIED
            && self.bytes.len().is_multiple_of(self.segment_size)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::io::testing::loopback;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// The datagrams as the network sees them, by address, and how many calls it took.
    fn drain(outbox: &mut Outbox, limit: usize) -> (Vec<(SocketAddr, Vec<u8>)>, usize) {
        let (mut sent, mut calls) = (Vec::new(), 0);
        while let Some(call) = outbox.next(limit) {
            assert!(call.bytes.len() <= MAX_SEND && call.bytes.len().div_ceil(call.segment_size) <= limit);
            let datagrams = call.bytes.chunks(call.segment_size).map(|datagram| (call.to, datagram.to_vec()));
            let before = sent.len();
            sent.extend(datagrams);
            assert_eq!(outbox.advance(limit), (sent.len() - before) as u64);
            calls += 1;
        }
        (sent, calls)
    }

    #[test]
    fn datagrams_of_one_turn_go_out_in_one_call_for_each_address() {
        let mut outbox = Outbox::default();
        for _ in 0..20 {
            for port in [1, 2, 3] {
                outbox.push(address(port), 1400, Ecn::default(), &mut vec![0; 1400]);
            }
        }
        outbox.push(address(2), 90, Ecn::default(), &mut vec![0; 90]);
        let (sent, calls) = drain(&mut outbox, 64);
        assert_eq!((sent.len(), calls), (61, 3));
    }

    #[test]
    fn nothing_follows_a_shorter_datagram_in_its_run() {
        let mut outbox = Outbox::default();
        for size in [1400, 90, 1400] {
            outbox.push(address(1), size, Ecn::default(), &mut vec![0; size]);
        }
        let sizes = drain(&mut outbox, 64).0.into_iter().map(|(_, datagram)| datagram.len());
        assert_eq!(sizes.collect::<Vec<_>>(), [1400, 90, 1400]);
    }

    #[test]
    fn datagrams_of_different_marks_do_not_share_a_call() {
        let mut outbox = Outbox::default();
        for bits in [0, 0, 3, 3, 2] {
            outbox.push(address(1), 100, Ecn::from_bits(bits), &mut vec![bits; 100]);
        }
        let mut calls = Vec::new();
        while let Some(call) = outbox.next(64) {
            calls.push((call.ecn.bits(), call.bytes.len()));
            outbox.advance(64);
        }
        assert_eq!(calls, [(0, 200), (3, 200), (2, 100)]);
    }

    /// What waits has no more memory than is gathered and one run more, and goes on where it stopped.
    #[test]
    fn while_the_kernel_takes_nothing_there_is_no_room_beyond_what_is_gathered() {
        let state = UdpSocketState::new((&loopback()).into()).expect("a socket");
        let (mut outbox, mut counts, mut pushed) = (Outbox::default(), DataCounts::default(), Vec::new());
        let busy = || Err(ErrorKind::WouldBlock.into());
        for index in 0..10 {
            if !outbox.has_room() {
                break;
            }
            outbox.push(address(1), 900, Ecn::default(), &mut vec![index; 20 * 900]);
            pushed.extend(vec![index; 20 * 900]);
            assert!(!outbox.flush(&state, &mut counts, |_| busy()));
        }
        assert_eq!(
            (pushed.len(), counts),
            (72_000, DataCounts::default()),
            "of 65,536 bytes that are gathered"
        );
        let mut sent = Vec::new();
        let mut take_at_most = |calls: usize| {
            let mut taken = 0;
            outbox.flush(&state, &mut counts, |call| {
                taken += 1;
                if taken > calls {
                    return busy();
                }
                sent.extend_from_slice(call.bytes);
                Ok(())
            })
        };
        assert!(!take_at_most(1));
        assert!(take_at_most(4));
        assert_eq!((sent, counts.sent), (pushed, 80));
    }

    proptest! {
        #[test]
        fn every_datagram_is_sent_once_and_in_the_order_of_its_address(
            pushes in prop::collection::vec((1_u16..4, 1_usize..2000, 0_usize..6000), 0..60),
            limit in 1_usize..65,
        ) {
            let (mut outbox, mut pushed) = (Outbox::default(), Vec::new());
            for (index, (port, segment_size, length)) in pushes.into_iter().enumerate() {
                let bytes = vec![index as u8; length];
                outbox.push(address(port), segment_size, Ecn::default(), &mut bytes.clone());
                pushed.extend(bytes.chunks(segment_size).map(|datagram| (address(port), datagram.to_vec())));
            }
            let mut sent = drain(&mut outbox, limit).0;
            prop_assert!(outbox.is_empty());
            // A stable sort keeps the order within each address.
            sent.sort_by_key(|(to, _)| *to);
            pushed.sort_by_key(|(to, _)| *to);
            prop_assert_eq!(sent, pushed);
        }
    }
}
