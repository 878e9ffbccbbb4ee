//! Datagrams of others that wait for the socket, in runs: a line for each member that set their circuits up.
//!
//! Members share the memory ([`Shares`]) and the socket. Whose line has been served the fewest bytes goes
//! next; a line that was empty begins at what others have been served, so that nobody saves up turns (after S. J.
//! Golestani, *A self-clocked fair queueing scheme for broadband applications*, INFOCOM 1994). So a member that floods
//! a relay fills its own line, and others wait for one run of its.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::overlay::{Adjacency, MemberId};
use crate::shares::Shares;
use crate::transmit::{Ecn, Transmit};

/// The most bytes of a run: what one call of the socket takes.
const MAX_RUN: usize = 65_000;
/// The most bytes of a run while several members wait: others wait for all of it, and to their paths' rates that looks
/// like a queue. With runs of 65 kB at 50 Mbit/s, which are 10 ms, a member that deserved half got a third.
const MAX_TURN: usize = 16_000;
/// The least bytes that are sent from where they came: fewer go into a run with others, a call for each of them costs
/// more than the copy.
const LEAST_PASSED: usize = MAX_RUN / 2;
/// Neighbours whose latest runs may still grow, for each member.
const GROWING: usize = 16;
/// Buffers that are kept for later runs.
const MAX_SPARES: usize = 64;
/// What a run counts beside its bytes: its entry, and what the allocator takes for its buffer.
const RUN_COST: usize = 128;

/// Datagrams that wait for the socket, gathered as they come: those of one member's circuits that are of one size and
/// go to one neighbour follow one another and leave together, in their order.
#[derive(Debug)]
pub(super) struct Relayed {
    /// Those that are not empty.
    lines: BTreeMap<MemberId, Line>,
    /// What each of the lines has been served; the least goes next.
    turns: BTreeSet<(u64, MemberId)>,
    /// The most that any line has been served.
    clock: u64,
    /// Bytes, with what runs cost beside them.
    memory: Shares<MemberId>,
    spares: Vec<Vec<u8>>,
}

/// What waits for the circuits of one member.
#[derive(Debug)]
struct Line {
    runs: VecDeque<WaitingRun>,
    served: u64,
}

#[derive(Debug)]
struct WaitingRun {
    to: Adjacency,
    segment_size: usize,
    ecn: Ecn,
    bytes: Vec<u8>,
}

impl Relayed {
    /// Room for so many bytes.
    pub(super) fn new(memory: usize) -> Relayed {
        Relayed {
            lines: BTreeMap::new(),
            turns: BTreeSet::new(),
            clock: 0,
            memory: Shares::new(memory as u64, 0),
            spares: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Adds datagrams that follow one another, of a circuit that `originator` set up. They are first offered to `pass`
    /// where they lie, if nothing waits and they are enough for a call of the socket; it says whether it has sent them.
    /// Gives for how many there is no room.
    pub(super) fn add(
        &mut self,
        originator: MemberId,
        transmit: Transmit,
        datagrams: &[u8],
        pass: &mut impl FnMut(Transmit, &[u8]) -> bool,
    ) -> u64 {
        if self.is_empty() && datagrams.len() >= LEAST_PASSED && pass(transmit, datagrams) {
            return 0;
        }
        let Transmit { to, segment_size, ecn } = transmit;
        let each = datagrams.chunks(segment_size.max(1));
        each.map(|datagram| u64::from(!self.push(originator, to, ecn, datagram))).sum()
    }

    /// Adds a datagram; false if there is no room for it.
    fn push(&mut self, originator: MemberId, to: Adjacency, ecn: Ecn, datagram: &[u8]) -> bool {
        if self.memory.available(originator) < (datagram.len() + RUN_COST) as u64 {
            return false;
        }
        let line = self.lines.entry(originator).or_insert_with(|| {
            self.turns.insert((self.clock, originator));
            Line { runs: VecDeque::new(), served: self.clock }
        });
        let latest = line.runs.iter_mut().rev().take(GROWING).find(|run| run.to == to);
        let longest = if self.turns.len() > 1 { MAX_TURN } else { MAX_RUN };
        if let Some(run) = latest.filter(|run| run.takes(ecn, datagram, longest)) {
            run.bytes.extend_from_slice(datagram);
            self.memory.take(originator, datagram.len() as u64);
            return true;
        }
        let mut bytes = self.spares.pop().unwrap_or_default();
        bytes.extend_from_slice(datagram);
        line.runs.push_back(WaitingRun { to, segment_size: datagram.len(), ecn, bytes });
        self.memory.take(originator, (datagram.len() + RUN_COST) as u64);
        true
    }

    /// Gives the oldest run of the line whose turn it is, in exchange for `buffer`, which is empty.
    pub(super) fn pop(&mut self, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let (served, originator) = self.turns.pop_first()?;
        let line = self.lines.get_mut(&originator)?;
        let WaitingRun { to, segment_size, ecn, bytes } = line.runs.pop_front()?;
        let cost = (bytes.len() + RUN_COST) as u64;
        self.memory.give_back(originator, cost);
        line.served = served + cost;
        self.clock = self.clock.max(line.served);
        match line.runs.is_empty() {
            true => drop(self.lines.remove(&originator)),
            false => drop(self.turns.insert((line.served, originator))),
        }
        let spare = std::mem::replace(buffer, bytes);
        if spare.capacity() > 0 && self.spares.len() < MAX_SPARES {
            self.spares.push(spare);
        }
        Some(Transmit { to, segment_size, ecn })
    }
}

impl WaitingRun {
    /// Whether `datagram` can follow: all of one size so far, it is no larger, its mark is the same, and the run
    /// remains no longer than `longest`.
    fn takes(&self, ecn: Ecn, datagram: &[u8], longest: usize) -> bool {
        ecn == self.ecn
            && datagram.len() <= self.segment_size
            && self.bytes.len().is_multiple_of(self.segment_size)
            && self.bytes.len() + datagram.len() <= longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::{InstanceId, LinkId, MemberId, Peer};
    use proptest::prelude::*;

    const MARK: Ecn = Ecn::from_bits(2);
    /// Members that set circuits up.
    const A: MemberId = MemberId(1);
    const B: MemberId = MemberId(2);

    fn peer(number: u16) -> Adjacency {
        let peer = Peer { member: MemberId(number), instance: InstanceId(0) };
        Adjacency { peer, link: LinkId(number.into()) }
    }

    fn drain(relayed: &mut Relayed) -> Vec<(Adjacency, usize, Vec<u8>)> {
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
                relayed.push(A, peer(1), MARK, &[1; 1_400]) && relayed.push(A, peer(2), MARK, &[2; 1_300])
            );
        }
        let runs = drain(&mut relayed);
        assert_eq!(
            runs.iter().map(|(to, size, bytes)| (to.peer.member.0, *size, bytes.len())).collect::<Vec<_>>(),
            [(1, 1_400, 28_000), (2, 1_300, 26_000)]
        );
        assert!(relayed.is_empty());
    }

    #[test]
    fn what_comes_overtakes_nothing_that_waits_and_is_passed_on_where_it_lies_if_nothing_does() {
        let (mut relayed, run) = (Relayed::new(1 << 20), [1; 40 * 1_400]);
        let transmit = Transmit { to: peer(1), segment_size: 1_400, ecn: MARK };
        assert_eq!(relayed.add(A, transmit, &run[..2_800], &mut |_, _| panic!("they are few")), 0);
        assert_eq!(relayed.add(A, transmit, &run, &mut |_, _| panic!("something waits")), 0);
        assert_eq!(drain(&mut relayed).iter().map(|(_, _, bytes)| bytes.len()).sum::<usize>(), 42 * 1_400);
        let mut passed = 0;
        let mut pass = |_: Transmit, bytes: &[u8]| {
            passed += bytes.len();
            true
        };
        assert_eq!(relayed.add(A, transmit, &run, &mut pass), 0);
        assert!(passed == run.len() && relayed.is_empty());
        let mut small = Relayed::new(28_000);
        assert_eq!(
            small.add(A, transmit, &run, &mut |_, _| false),
            31,
            "a member alone gets half of the room"
        );
    }

    /// The queue once counted datagrams, whatever their size: 8,192 of them were 512 MiB.
    #[test]
    fn what_waits_is_bounded_in_bytes_whatever_the_size_of_datagrams() {
        const LIMIT: usize = 1 << 20;
        for size in [24, 1_400, 65_000] {
            let mut relayed = Relayed::new(LIMIT);
            for number in 0..60_000 {
                relayed.push(MemberId(number % 7), peer(number), MARK, &vec![0; size]);
            }
            let held: usize =
                relayed.lines.values().flat_map(|line| &line.runs).map(|run| run.bytes.len()).sum();
            assert!(held > LIMIT / 10 && relayed.memory.used() <= LIMIT as u64, "{size}: {held}");
        }
    }

    /// What of its datagrams a member gets through that offers `offered` of what the socket takes, beside one that
    /// sends ten times that much, over three circuits; and how many bytes others had before each of its datagrams at
    /// most.
    fn beside_a_flood(offered: f64) -> (f64, usize) {
        let (mut relayed, mut buffer) = (Relayed::new(12 << 20), Vec::new());
        let (mut sent, mut through, mut longest_wait, mut ahead) = (0.0, 0.0, 0, 0);
        let (mut due, mut room) = (0.0, 0.0);
        // A tick in which the socket takes ten datagrams.
        for tick in 0..20_000_u32 {
            for _ in 0..100 {
                relayed.push(A, peer((tick % 3) as u16), MARK, &[1; 1_400]);
            }
            due += 10.0 * offered;
            while due >= 1.0 {
                due -= 1.0;
                sent += 1.0;
                if !relayed.lines.contains_key(&B) {
                    ahead = 0;
                }
                relayed.push(B, peer(0), MARK, &[2; 1_400]);
            }
            room += 14_000.0;
            while room > 0.0 && relayed.pop(&mut buffer).is_some() {
                room -= buffer.len() as f64;
                match buffer[0] {
                    1 => ahead += buffer.len(),
                    _ => {
                        through += (buffer.len() / 1_400) as f64;
                        longest_wait = longest_wait.max(std::mem::take(&mut ahead));
                    }
                }
                buffer.clear();
            }
        }
        (through / sent, longest_wait)
    }

    #[test]
    fn a_member_that_floods_a_relay_leaves_another_its_part_of_the_socket_and_hardly_delays_it() {
        for (offered, part) in [(0.1, 1.0), (0.4, 1.0), (1.0, 0.5)] {
            let (through, longest_wait) = beside_a_flood(offered);
            assert!(through >= 0.95 * part, "of {offered} it got {through} through");
            assert!(longest_wait <= MAX_RUN, "{longest_wait} bytes of the other went first");
        }
    }

    #[test]
    fn a_line_that_is_empty_after_each_run_is_served_no_more_than_others() {
        let (mut relayed, mut buffer) = (Relayed::new(12 << 20), Vec::new());
        let mut served = [0, 0];
        for _ in 0..1_000 {
            for _ in 0..20 {
                relayed.push(B, peer(1), MARK, &[2; 1_400]);
            }
            // It has the lower number, and is never there twice.
            if !relayed.lines.contains_key(&A) {
                relayed.push(A, peer(1), MARK, &[1; 28_000]);
            }
            relayed.pop(&mut buffer).expect("there is something");
            served[usize::from(buffer[0] - 1)] += buffer.len();
            buffer.clear();
        }
        assert!(served[0] <= served[1] + MAX_TURN, "{served:?}");
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_each_neighbour_gets_its_datagrams_in_their_order(
            pushes in proptest::collection::vec((0u16..3, 1usize..3_000), 0..200),
        ) {
            let (mut relayed, mut pushed) = (Relayed::new(100_000), Vec::new());
            for (index, (to, size)) in pushes.into_iter().enumerate() {
                let datagram = vec![index as u8; size];
                if relayed.push(MemberId(to % 2), peer(to), MARK, &datagram) {
                    pushed.push((peer(to), datagram));
                }
            }
            let runs = drain(&mut relayed);
            prop_assert!(runs.iter().all(|(_, _, bytes)| bytes.len() <= MAX_RUN));
            let cut = |(to, size, bytes): &(Adjacency, usize, Vec<u8>)| {
                bytes.chunks(*size).map(|datagram| (*to, datagram.to_vec())).collect::<Vec<_>>()
            };
            let mut popped: Vec<(Adjacency, Vec<u8>)> = runs.iter().flat_map(cut).collect();
            popped.sort_by_key(|(to, _)| *to);
            pushed.sort_by_key(|(to, _)| *to);
            prop_assert_eq!(popped, pushed);
            prop_assert_eq!((relayed.memory.used(), relayed.turns.len()), (0, 0));
        }
    }
}
