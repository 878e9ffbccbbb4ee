//! Datagrams of others that wait for the socket, in runs.

use std::collections::VecDeque;

use crate::overlay::Peer;
use crate::run::{Ecn, Transmit};

/// The most bytes of a run: what one call of the socket takes.
const MAX_RUN: usize = 65_000;
/// Neighbours whose latest runs may still grow.
const GROWING: usize = 16;
/// Buffers that are kept for later runs.
const MAX_SPARES: usize = 64;

/// Datagrams that wait for the socket, gathered as they come: those of one size to one neighbour follow one another and
/// leave together, in their order.
#[derive(Debug)]
pub(super) struct Relayed {
    runs: VecDeque<WaitingRun>,
    spares: Vec<Vec<u8>>,
    datagrams: usize,
    most_datagrams: usize,
}

#[derive(Debug)]
struct WaitingRun {
    to: Peer,
    segment_size: usize,
    ecn: Ecn,
    bytes: Vec<u8>,
}

impl Relayed {
    /// Room for so many datagrams.
    pub(super) fn new(most_datagrams: usize) -> Relayed {
        Relayed { runs: VecDeque::new(), spares: Vec::new(), datagrams: 0, most_datagrams }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Adds a datagram; false if there is no room.
    pub(super) fn push(&mut self, to: Peer, ecn: Ecn, datagram: &[u8]) -> bool {
        if self.datagrams >= self.most_datagrams {
            return false;
        }
        self.datagrams += 1;
        let latest = self.runs.iter_mut().rev().take(GROWING).find(|run| run.to == to);
        if let Some(run) = latest.filter(|run| run.takes(ecn, datagram)) {
            run.bytes.extend_from_slice(datagram);
            return true;
        }
        let mut bytes = self.spares.pop().unwrap_or_default();
        bytes.extend_from_slice(datagram);
        self.runs.push_back(WaitingRun { to, segment_size: datagram.len(), ecn, bytes });
        true
    }

    /// Gives the oldest run in exchange for `buffer`, which is empty.
    pub(super) fn pop(&mut self, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let WaitingRun { to, segment_size, ecn, bytes } = self.runs.pop_front()?;
        self.datagrams -= bytes.len().div_ceil(segment_size.max(1));
        let spare = std::mem::replace(buffer, bytes);
        if spare.capacity() > 0 && self.spares.len() < MAX_SPARES {
            self.spares.push(spare);
        }
        Some(Transmit { to, segment_size, ecn })
    }
}

impl WaitingRun {
    /// Whether `datagram` can follow: all of one size so far, it is no larger, and its mark is the same.
    fn takes(&self, ecn: Ecn, datagram: &[u8]) -> bool {
        ecn == self.ecn
            && datagram.len() <= self.segment_size
            && self.bytes.len().is_multiple_of(self.segment_size)
            && self.bytes.len() + datagram.len() <= MAX_RUN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::{InstanceId, MemberId};
    use proptest::prelude::*;

    const MARK: Ecn = Ecn::from_bits(2);

    fn peer(number: u16) -> Peer {
        Peer { member: MemberId(number), instance: InstanceId(0) }
    }

    fn drain(relayed: &mut Relayed) -> Vec<(Peer, usize, Vec<u8>)> {
        let mut runs = Vec::new();
        let mut buffer = Vec::new();
        while let Some(Transmit { to, segment_size, ecn }) = relayed.pop(&mut buffer) {
            assert_eq!(ecn, MARK);
            runs.push((to, segment_size, std::mem::take(&mut buffer)));
        }
        runs
    }

    #[test]
    fn datagrams_of_two_circuits_leave_in_a_run_for_each_neighbour() {
        let mut relayed = Relayed::new(100);
        for _ in 0..20 {
            assert!(relayed.push(peer(1), MARK, &[1; 1_400]) && relayed.push(peer(2), MARK, &[2; 1_300]));
        }
        let runs = drain(&mut relayed);
        assert_eq!(
            runs.iter().map(|(to, size, bytes)| (to.member.0, *size, bytes.len())).collect::<Vec<_>>(),
            [(1, 1_400, 28_000), (2, 1_300, 26_000)]
        );
        assert!(relayed.is_empty());
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_each_neighbour_gets_its_datagrams_in_their_order(
            pushes in proptest::collection::vec((0u16..3, 1usize..3_000), 0..200),
        ) {
            let (mut relayed, mut pushed) = (Relayed::new(150), Vec::new());
            for (index, (to, size)) in pushes.into_iter().enumerate() {
                let datagram = vec![index as u8; size];
                let taken = relayed.push(peer(to), MARK, &datagram);
                prop_assert_eq!(taken, pushed.len() < 150);
                if taken {
                    pushed.push((peer(to), datagram));
                }
            }
            let runs = drain(&mut relayed);
            prop_assert!(runs.iter().all(|(_, _, bytes)| bytes.len() <= MAX_RUN));
            let cut = |(to, size, bytes): &(Peer, usize, Vec<u8>)| {
                bytes.chunks(*size).map(|datagram| (*to, datagram.to_vec())).collect::<Vec<_>>()
            };
            let mut popped: Vec<(Peer, Vec<u8>)> = runs.iter().flat_map(cut).collect();
            popped.sort_by_key(|(to, _)| *to);
            pushed.sort_by_key(|(to, _)| *to);
            prop_assert_eq!(popped, pushed);
            prop_assert_eq!(relayed.datagrams, 0);
        }
    }
}
