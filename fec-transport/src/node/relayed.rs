//! Datagrams of others that wait for the socket, in runs.

use std::collections::{BTreeMap, VecDeque};

use crate::overlay::{MemberId, Peer};
use crate::run::{Ecn, Transmit};
use crate::shares::Shares;

/// The most bytes of a run: what one call of the socket takes. Also what each originator may send in its turn.
const MAX_RUN: usize = 65_000;
/// Neighbours whose latest runs may still grow.
const GROWING: usize = 16;
/// Buffers that are kept for later runs.
const MAX_SPARES: usize = 64;
/// What a waiting datagram counts beyond its own bytes: if it is alone in its run, that is to be kept, too.
const OVERHEAD: usize = 128;

/// Datagrams that wait for the socket, gathered as they come: those of one originator and size to one neighbour follow
/// one another and leave together, in their order.
///
/// Originators share the room, however many circuits each has, and take turns at the socket with equally many bytes
/// (deficit round robin: M. Shreedhar and G. Varghese, *Efficient fair queuing using deficit round-robin*, IEEE/ACM
/// Transactions on Networking 4, 1996). So one who floods a relay fills, and waits in, a line of his own.
#[derive(Debug)]
pub(super) struct Relayed {
    lines: BTreeMap<MemberId, Line>,
    /// Whose turn it is, and who follows: all who have a line.
    turns: VecDeque<MemberId>,
    /// Bytes that wait, of each originator.
    room: Shares<MemberId>,
    spares: Vec<Vec<u8>>,
}

/// What waits of one originator.
#[derive(Debug, Default)]
struct Line {
    runs: VecDeque<WaitingRun>,
    /// Bytes that it has sent in this turn, and what it sent too much in the last one.
    sent: usize,
}

#[derive(Debug)]
struct WaitingRun {
    to: Peer,
    segment_size: usize,
    ecn: Ecn,
    bytes: Vec<u8>,
}

impl Relayed {
    /// Room for so many bytes, of which an originator alone gets half.
    pub(super) fn new(bytes: usize) -> Relayed {
        let room = Shares::new(bytes as u64, 0);
        Relayed { lines: BTreeMap::new(), turns: VecDeque::new(), room, spares: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Adds a datagram of a circuit of `originator`; false if there is no room.
    pub(super) fn push(&mut self, originator: MemberId, to: Peer, ecn: Ecn, datagram: &[u8]) -> bool {
        let counted = (datagram.len() + OVERHEAD) as u64;
        if counted > self.room.available(originator) {
            return false;
        }
        self.room.take(originator, counted);
        let line = self.lines.entry(originator).or_insert_with(|| {
            self.turns.push_back(originator);
            Line::default()
        });
        let latest = line.runs.iter_mut().rev().take(GROWING).find(|run| run.to == to);
        if let Some(run) = latest.filter(|run| run.takes(ecn, datagram)) {
            run.bytes.extend_from_slice(datagram);
            return true;
        }
        let mut bytes = self.spares.pop().unwrap_or_default();
        bytes.extend_from_slice(datagram);
        line.runs.push_back(WaitingRun { to, segment_size: datagram.len(), ecn, bytes });
        true
    }

    /// Gives the oldest run of the originator whose turn it is, in exchange for `buffer`, which is empty.
    pub(super) fn pop(&mut self, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let originator = *self.turns.front()?;
        let line = self.lines.get_mut(&originator)?;
        let WaitingRun { to, segment_size, ecn, bytes } = line.runs.pop_front()?;
        line.sent += bytes.len();
        if line.runs.is_empty() {
            self.lines.remove(&originator);
            self.turns.pop_front();
        } else if line.sent >= MAX_RUN {
            line.sent -= MAX_RUN;
            self.turns.rotate_left(1);
        }
        let datagrams = bytes.len().div_ceil(segment_size.max(1));
        self.room.give_back(originator, (bytes.len() + datagrams * OVERHEAD) as u64);
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
    use crate::overlay::InstanceId;
    use proptest::prelude::*;

    const MARK: Ecn = Ecn::from_bits(2);
    const ONE: MemberId = MemberId(1);
    const TWO: MemberId = MemberId(2);
    /// What a ping is made of; nothing else is.
    const PING: u8 = 77;

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
        let mut relayed = Relayed::new(1 << 20);
        for _ in 0..20 {
            assert!(
                relayed.push(ONE, peer(1), MARK, &[1; 1_400])
                    && relayed.push(ONE, peer(2), MARK, &[2; 1_300])
            );
        }
        let runs = drain(&mut relayed);
        assert_eq!(
            runs.iter().map(|(to, size, bytes)| (to.member.0, *size, bytes.len())).collect::<Vec<_>>(),
            [(1, 1_400, 28_000), (2, 1_300, 26_000)]
        );
        assert!(relayed.is_empty());
    }

    /// Datagrams were counted once, 8,192 of up to 65,507 bytes each.
    #[test]
    fn what_waits_is_bounded_in_bytes_whatever_its_datagrams_look_like() {
        for size in [24, 1_400, 65_507] {
            let mut relayed = Relayed::new(16 << 20);
            let mut numbers = 0_u16..;
            // No two follow one another in a run.
            while relayed.push(ONE, peer(numbers.next().unwrap_or(0)), MARK, &vec![0; size]) {}
            let line = &relayed.lines[&ONE];
            let kept = line.runs.iter().map(|run| size_of::<WaitingRun>() + run.bytes.capacity());
            let kept: usize = kept.sum();
            assert!(kept <= 16 << 20, "{size}: {kept}");
            assert!(relayed.push(TWO, peer(1), MARK, &vec![0; size]), "another one has room");
        }
    }

    /// What leaves a relay whose link takes 100 Mbit/s in a second: `offered` bytes of each originator come per
    /// millisecond. Gives what was sent of each, and the longest that a ping of [`TWO`] waited, in milliseconds.
    fn busy_second(offered: &[(MemberId, usize)]) -> (BTreeMap<MemberId, usize>, usize) {
        const PER_MS: usize = 12_500;
        let (mut relayed, mut sent, mut buffer) = (Relayed::new(16 << 20), BTreeMap::new(), Vec::new());
        let (mut budget, mut pinged, mut waited) = (0_isize, None, 0);
        for now in 0..1_000 {
            for (originator, bytes) in offered {
                // All go to one neighbour; the size tells whose they are.
                let datagram = vec![originator.0 as u8; 1_250];
                (0..bytes / 1_250).for_each(|_| _ = relayed.push(*originator, peer(9), MARK, &datagram));
            }
            if pinged.is_none() && relayed.push(TWO, peer(9), MARK, &[PING; 100]) {
                pinged = Some(now);
            }
            budget += PER_MS as isize;
            while budget > 0 && relayed.pop(&mut buffer).is_some() {
                budget -= buffer.len() as isize;
                if buffer.contains(&PING) {
                    waited = waited.max(now - pinged.take().expect("there is one at a time"));
                }
                *sent.entry(MemberId(buffer[0].into())).or_default() += buffer.len();
                buffer.clear();
            }
            budget = budget.min(0);
        }
        (sent, waited.max(pinged.map_or(0, |at| 1_000 - at)))
    }

    #[test]
    fn who_floods_a_relay_leaves_others_their_part_and_their_pings() {
        let fair = 6_250_000;
        for offered in [5_000, 125_000] {
            let (shared, waited) = busy_second(&[(ONE, 125_000), (TWO, offered)]);
            assert!(shared[&TWO] * 10 >= fair.min(offered * 1_000) * 8, "{shared:?}");
            // Nobody's turn is left unused.
            assert!(shared.values().sum::<usize>() >= 12_400_000, "{shared:?}");
            // Over links of 20 ms a ping takes 80 ms there and back. The flood's turn is of 5 ms.
            assert!(offered * 1_000 > fair || waited <= 11, "{waited} ms");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_each_neighbour_gets_the_datagrams_of_a_member_in_their_order(
            pushes in proptest::collection::vec((0u16..3, 0u16..3, 1usize..3_000), 0..200),
        ) {
            let (mut relayed, mut pushed) = (Relayed::new(300_000), Vec::new());
            for (index, (originator, to, size)) in pushes.into_iter().enumerate() {
                let datagram = [vec![originator as u8], vec![index as u8; size]].concat();
                if relayed.push(MemberId(originator), peer(to), MARK, &datagram) {
                    pushed.push((originator, peer(to), datagram));
                }
            }
            let runs = drain(&mut relayed);
            prop_assert!(runs.iter().all(|(_, _, bytes)| bytes.len() <= MAX_RUN));
            let cut = |(to, size, bytes): &(Peer, usize, Vec<u8>)| {
                let datagrams = bytes.chunks(*size);
                datagrams.map(|datagram| (u16::from(datagram[0]), *to, datagram.to_vec())).collect::<Vec<_>>()
            };
            let mut popped: Vec<(u16, Peer, Vec<u8>)> = runs.iter().flat_map(cut).collect();
            popped.sort_by_key(|(originator, to, _)| (*originator, *to));
            pushed.sort_by_key(|(originator, to, _)| (*originator, *to));
            prop_assert_eq!(popped, pushed);
            prop_assert!(relayed.is_empty());
            prop_assert_eq!(relayed.room.used(), 0);
        }
    }
}
