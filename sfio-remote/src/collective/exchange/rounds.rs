//! Rounds: what an aggregator collects, or hands out, at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::super::pieces::{Pieces, Walk};
use crate::distribution::Extent;

/// The most extents of a round, so that a round of few bytes at many places does not take many times its size to
/// describe.
const MAX_EXTENTS: usize = 1 << 18;

/// Cuts a domain into rounds.
#[derive(Debug)]
pub(super) struct Planner {
    /// Where each rank is in what it has of the domain.
    walks: Vec<Walk>,
    /// The most bytes of a round, over all ranks.
    limit: u64,
}

/// What is exchanged at once: the bytes of all ranks from the round before up to an offset.
#[derive(Debug)]
pub(super) struct Round {
    until: u64,
    /// Where each rank was at the beginning of the round.
    starts: Vec<Walk>,
    /// The bytes of each rank.
    shares: Vec<u64>,
    /// What all ranks have together: the union, ascending and apart.
    union: Vec<Extent>,
}

impl Planner {
    /// For a domain of which each rank has these pieces.
    pub(super) fn new(pieces: impl Iterator<Item = Pieces>, limit: u64) -> Planner {
        Planner { walks: pieces.map(|pieces| pieces.walk()).collect(), limit: limit.max(1) }
    }

    /// The next round; none at the end. Where ranks overlap, each of them counts.
    ///
    /// Costs O(log P) for each piece of the round.
    pub(super) fn next(&mut self) -> Option<Round> {
        if self.is_finished() {
            return None;
        }
        let starts = self.walks.clone();
        let (until, union) = Sweep::new(starts.clone()).up_to(self.limit);
        let shares = self.walks.iter_mut().map(|walk| walk.skip(until)).collect();
        Some(Round { until, starts, shares, union })
    }

    pub(super) fn is_finished(&self) -> bool {
        self.walks.iter().all(|walk| walk.peek().is_none())
    }
}

impl Round {
    /// The offset that ends it.
    pub(super) fn until(&self) -> u64 {
        self.until
    }

    /// The bytes of each rank.
    pub(super) fn shares(&self) -> &[u64] {
        &self.shares
    }

    /// The union as offsets and lengths.
    pub(super) fn regions(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
        self.union.iter().map(|extent| (extent.offset(), extent.length()))
    }

    /// The bytes of the union.
    pub(super) fn union_bytes(&self) -> usize {
        self.union.iter().map(|extent| extent.length() as usize).sum()
    }

    /// The pieces of one rank, each with its place in a memory that has the union one behind the other.
    pub(super) fn places(&self, rank: usize, mut piece: impl FnMut(usize, Extent)) {
        let (mut walk, mut before, mut index) = (self.starts[rank].clone(), 0, 0);
        while let Some(next) = walk.cut(self.until) {
            while self.union[index].end() <= next.offset() {
                before += self.union[index].length() as usize;
                index += 1;
            }
            piece(before + (next.offset() - self.union[index].offset()) as usize, next);
        }
    }
}

/// What happens at an offset. Ends come first: pieces that touch do not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Border {
    End,
    Start,
}

/// Moves over the pieces of all ranks at once, from border to border.
struct Sweep {
    walks: Vec<Walk>,
    borders: BinaryHeap<Reverse<(u64, Border, usize)>>,
    union: Vec<Extent>,
    /// Where the extent of the union began that is not closed.
    open: u64,
}

impl Sweep {
    fn new(walks: Vec<Walk>) -> Sweep {
        let mut sweep = Sweep { borders: BinaryHeap::new(), union: Vec::new(), open: 0, walks };
        (0..sweep.walks.len()).for_each(|rank| sweep.await_start(rank));
        sweep
    }

    /// The offset before which the ranks have `limit` bytes, or all that they have if that is less, and the union of
    /// what they have before it. At least one byte is before it.
    fn up_to(mut self, limit: u64) -> (u64, Vec<Extent>) {
        let (mut at, mut total, mut active) = (0, 0, 0_u64);
        while let Some(Reverse((border, kind, rank))) = self.borders.pop() {
            // While a piece is open, each byte counts once for each rank that has it.
            if let Some(room) = (limit - total).checked_div(active) {
                if room < border - at {
                    let until = if total == 0 { at + room.max(1) } else { at + room };
                    self.close(until);
                    return (until, self.union);
                }
                total += active * (border - at);
            }
            at = border;
            match kind {
                Border::Start => {
                    self.open = if active == 0 { at } else { self.open };
                    active += 1;
                    self.await_end(rank);
                }
                Border::End => {
                    active -= 1;
                    self.await_start(rank);
                    if active == 0 {
                        self.close(at);
                        if self.union.len() >= MAX_EXTENTS {
                            break;
                        }
                    }
                }
            }
        }
        (at, self.union)
    }

    fn await_start(&mut self, rank: usize) {
        self.borders
            .extend(self.walks[rank].peek().map(|piece| Reverse((piece.offset(), Border::Start, rank))));
    }

    fn await_end(&mut self, rank: usize) {
        let piece = self.walks[rank].cut(u64::MAX);
        self.borders.extend(piece.map(|piece| Reverse((piece.end(), Border::End, rank))));
    }

    /// The union has an extent up to `end`, or a longer last one if that touches.
    fn close(&mut self, end: u64) {
        if end <= self.open {
            return;
        }
        match self.union.last_mut() {
            Some(last) if last.end() == self.open => *last = Extent::between(last.offset(), end),
            _ => self.union.push(Extent::between(self.open, end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::pieces::pieces;
    use super::*;
    use proptest::prelude::*;

    fn any_ranks() -> impl Strategy<Value = Vec<Vec<(u64, u64)>>> {
        let list = prop::collection::vec((0_u64..12, 1_u64..20), 0..20).prop_map(|steps| {
            let mut at = 0;
            let place = |(gap, length): (u64, u64)| {
                let start = at + gap;
                at = start + length;
                (start, at)
            };
            steps.into_iter().map(place).collect()
        });
        prop::collection::vec(list, 1..6)
    }

    proptest! {
        #[test]
        fn rounds_have_every_byte_once_and_are_as_full_as_they_may_be(ranks in any_ranks(), limit in 1_u64..200) {
            let has = |rank: &Vec<(u64, u64)>, offset: u64| rank.iter().any(|(start, end)| (*start..*end).contains(&offset));
            let owners = |offset: u64| ranks.iter().filter(|rank| has(rank, offset)).count() as u64;
            let mut planner = Planner::new(ranks.iter().map(|rank| pieces(rank)), limit);
            let mut from = 0;
            while let Some(round) = planner.next() {
                let bytes: u64 = round.shares().iter().sum();
                let expected: u64 = (from..round.until()).map(owners).sum();
                prop_assert_eq!(bytes, expected);
                prop_assert!(bytes > 0);
                prop_assert!(bytes <= limit || (from..round.until()).filter(|offset| owners(*offset) > 0).count() == 1);
                prop_assert!(planner.is_finished() || bytes + owners(round.until()) > limit, "a fuller one was possible");
                let union: Vec<u64> = round.regions().flat_map(|(offset, length)| offset..offset + length).collect();
                prop_assert_eq!(&union, &(from..round.until()).filter(|offset| owners(*offset) > 0).collect::<Vec<_>>());
                prop_assert!(round.union.windows(2).all(|pair| pair[0].end() < pair[1].offset()));
                for (rank, list) in ranks.iter().enumerate() {
                    let mut found = Vec::new();
                    round.places(rank, |place, piece| {
                        found.extend((0..piece.length()).map(|i| (union[place + i as usize], piece.offset() + i)));
                    });
                    prop_assert!(found.iter().all(|(in_union, own)| in_union == own && has(list, *own)));
                    prop_assert_eq!(found.len() as u64, round.shares()[rank]);
                }
                from = round.until();
            }
            prop_assert_eq!((from..400).map(owners).sum::<u64>(), 0, "nothing is left");
        }
    }

    #[test]
    fn a_round_ends_before_it_has_too_many_places() {
        let sparse: Vec<(u64, u64)> = (0..MAX_EXTENTS as u64 + 10).map(|i| (i * 10, i * 10 + 1)).collect();
        let mut planner = Planner::new([pieces(&sparse)].into_iter(), 1 << 40);
        assert_eq!(planner.next().expect("a first").regions().len(), MAX_EXTENTS);
        assert_eq!(planner.next().expect("a second").regions().len(), 10);
        assert!(planner.next().is_none());
    }
}
