//! Disk operations that wait for a thread: members take turns, each one's go in the order of their places, and writes
//! that touch are one.
//!
//! An I/O node carries out a few operations at a time. What comes meanwhile, from all of its clients, waits here: the
//! time that the disk is busy is the window in which requests are merged, so that nobody waits for others on purpose.
//! The next operation is one of the member that has the fewest under way, and among equals of the one whose operations
//! have cost the disk least: so one that asks for a thousand things at once does not keep another one waiting for more
//! than its turn. The order within what a member wants is that of an elevator that only goes up (C-SCAN): operations on
//! a subfile by ascending offset, subfile by subfile, then from the beginning. Writes that touch go together whoever
//! they are of, at the expense of the member whose turn it is.

use std::collections::{BTreeMap, VecDeque};

use super::{DiskAction, DiskOperation, DiskResult, Ticket};
use crate::distribution::Extent;
use crate::fair::FairTurns;
use crate::name::SubfilePath;

/// The most bytes of writes that become one.
const MAX_MERGED_BYTES: u64 = 4 << 20;

/// The most extents of writes that become one.
const MAX_MERGED_EXTENTS: usize = 16_384;

/// What an operation costs beside its bytes, as bytes: what a disk of 100 MB/s moves in the time of a system call and a
/// part of a seek.
const OPERATION_COST: u64 = 64 << 10;

/// What an operation costs that waits for the disk itself, as bytes: one of some ten milliseconds.
const SYNC_COST: u64 = 1 << 20;

/// The most operations of one owner at once that wait for the disk itself: a second one can be written down together
/// with the first.
const MAX_SLOW: usize = 2;

/// Operations that wait, of owners that take turns.
#[derive(Debug)]
pub struct Elevator<K> {
    lines: BTreeMap<K, Line>,
    turns: FairTurns<K>,
    /// Where the last read or write was.
    position: Option<Place>,
}

/// The operations of one owner.
#[derive(Debug, Default)]
struct Line {
    /// Reads and writes, by place.
    placed: BTreeMap<Place, DiskOperation>,
    /// Operations that wait for the disk itself, in the order of their arrival.
    slow: VecDeque<DiskOperation>,
    /// All others, likewise. They go first, because they are short.
    others: VecDeque<DiskOperation>,
}

/// What the disk is doing for an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnderWay {
    /// Errands.
    pub errands: usize,
    /// Those of them that wait for the disk itself, such as syncs.
    pub slow: usize,
}

/// The subfile, the offset of the first extent, and the ticket, which tells equal ones apart.
type Place = (SubfilePath, u64, u64);

/// What one thread carries out at once: an operation, or several writes as one.
#[derive(Debug)]
pub struct Errand(Vec<DiskOperation>);

impl<K> Default for Elevator<K> {
    fn default() -> Elevator<K> {
        Elevator { lines: BTreeMap::new(), turns: FairTurns::default(), position: None }
    }
}

impl<K: Ord + Copy> Elevator<K> {
    /// One more operation of `owner` waits.
    pub fn push(&mut self, owner: K, operation: DiskOperation) {
        let line = self.lines.entry(owner).or_default();
        match place(&operation) {
            Some(place) => drop(line.placed.insert(place, operation)),
            None if operation.waits_for_disk() => line.slow.push_back(operation),
            None => line.others.push_back(operation),
        }
    }

    /// An operation of `owner` waits no more.
    pub fn remove(&mut self, owner: K, ticket: Ticket) {
        let Some(line) = self.lines.get_mut(&owner) else { return };
        line.others.retain(|operation| operation.ticket != ticket);
        line.slow.retain(|operation| operation.ticket != ticket);
        line.placed.retain(|(_, _, other), _| *other != ticket.0);
        self.forget_if_idle(owner);
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// What is to be carried out next, and whose turn that is; `under_way` tells what has not ended. What waits for the
    /// disk itself holds up all that the disk has to do, so an owner has two of that at once.
    pub fn pop(&mut self, under_way: impl Fn(K) -> UnderWay) -> Option<(K, Errand)> {
        let may_be_slow = |owner| under_way(owner).slow < MAX_SLOW;
        let ready = self.lines.iter().filter(|(owner, line)| line.is_ready(may_be_slow(**owner)));
        let owner =
            self.turns.next(ready.map(|(owner, _)| *owner), |owner| under_way(owner).errands as u64)?;
        let first = self.lines.get_mut(&owner)?.pop(may_be_slow(owner), &mut self.position)?;
        let mut errand = Errand(vec![first]);
        self.merge(owner, &mut errand);
        self.turns.charge(owner, errand.cost());
        self.forget_if_idle(owner);
        Some((owner, errand))
    }

    /// Adds the writes that begin where the errand's ends, of its owner if it has any, else of others.
    fn merge(&mut self, owner: K, errand: &mut Errand) {
        while let Some((path, end)) = errand.end_of_writes() {
            let touching = (path.clone(), end, 0)..=(path, end, u64::MAX);
            let fits = |(_, operation): &(&Place, &DiskOperation)| errand.has_room_for(operation);
            let find =
                |line: &Line| line.placed.range(touching.clone()).find(fits).map(|(place, _)| place.clone());
            let own = self.lines.get(&owner).and_then(&find).map(|place| (owner, place));
            let others = || self.lines.iter().find_map(|(other, line)| Some((*other, find(line)?)));
            let Some((whose, place)) = own.or_else(others) else { return };
            let Some(line) = self.lines.get_mut(&whose) else { return };
            errand.0.extend(line.placed.remove(&place));
            self.position = Some(place);
            if whose != owner {
                self.forget_if_idle(whose);
            }
        }
    }

    fn forget_if_idle(&mut self, owner: K) {
        if self.lines.get(&owner).is_some_and(|line| !line.is_ready(true)) {
            self.lines.remove(&owner);
        }
    }
}

impl Line {
    /// Whether there is something to do.
    fn is_ready(&self, may_be_slow: bool) -> bool {
        !self.placed.is_empty() || !self.others.is_empty() || may_be_slow && !self.slow.is_empty()
    }

    /// The next operation if the last was at `position`, which is changed.
    fn pop(&mut self, may_be_slow: bool, position: &mut Option<Place>) -> Option<DiskOperation> {
        if let Some(operation) = self.others.pop_front() {
            return Some(operation);
        }
        if may_be_slow && let Some(operation) = self.slow.pop_front() {
            return Some(operation);
        }
        let above = position.as_ref().and_then(|position| self.placed.range(position..).next());
        let next = above.or_else(|| self.placed.iter().next()).map(|(place, _)| place.clone())?;
        let first = self.placed.remove(&next)?;
        *position = Some(next);
        Some(first)
    }
}

impl Errand {
    /// How many operations it is.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it is none, which no errand of an elevator is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its operations.
    pub fn operations(&self) -> &[DiskOperation] {
        &self.0
    }

    /// Whether it waits for the disk itself.
    pub(crate) fn is_slow(&self) -> bool {
        self.0.iter().any(DiskOperation::waits_for_disk)
    }

    /// What it costs the disk, in bytes.
    fn cost(&self) -> u64 {
        let bytes = |operation: &DiskOperation| -> u64 {
            operation_extents(operation).iter().map(|extent| extent.length()).sum()
        };
        let fixed =
            |operation: &DiskOperation| if operation.waits_for_disk() { SYNC_COST } else { OPERATION_COST };
        self.0.iter().map(bytes).sum::<u64>() + self.0.iter().map(fixed).max().unwrap_or_default()
    }

    /// Carries it out; gives the result of each operation.
    ///
    /// If several writes fail as one, each is repeated by itself, so that a failure reaches those alone whom it
    /// concerns; writing the same bytes twice harms nobody.
    pub fn perform(self, mut perform: impl FnMut(&DiskOperation) -> DiskResult) -> Vec<DiskResult> {
        let Some(merged) = self.merged() else { return self.0.iter().map(perform).collect() };
        let result = perform(&merged);
        let Ok(reply) = result.outcome else {
            let mut results: Vec<DiskResult> = self.0.iter().map(perform).collect();
            results[0].incidents.extend(result.incidents);
            return results;
        };
        let mut incidents = Some(result.incidents);
        let each = |operation: &DiskOperation| DiskResult {
            ticket: operation.ticket,
            outcome: Ok(reply.clone()),
            incidents: incidents.take().unwrap_or_default(),
        };
        self.0.iter().map(each).collect()
    }

    fn merged(&self) -> Option<DiskOperation> {
        let [first, _, ..] = &self.0[..] else { return None };
        let (mut extents, mut data): (Vec<Extent>, Vec<_>) = (Vec::new(), Vec::new());
        for operation in &self.0 {
            let DiskAction::Write { extents: more, data: bytes } = &operation.action else { return None };
            let mut more = more.iter().copied();
            if let (Some(last), Some(next)) = (extents.pop(), more.next()) {
                extents.push(Extent::between(last.offset(), next.end()));
            } else {
                extents.extend_from_slice(&operation_extents(operation)[..1]);
            }
            extents.extend(more);
            data.extend_from_slice(bytes);
        }
        Some(DiskOperation { action: DiskAction::Write { extents, data }, ..first.clone() })
    }

    fn end_of_writes(&self) -> Option<(SubfilePath, u64)> {
        let last = self.0.last()?;
        match &last.action {
            DiskAction::Write { extents, .. } => Some((last.path.clone(), extents.last()?.end())),
            _ => None,
        }
    }

    fn has_room_for(&self, operation: &DiskOperation) -> bool {
        let all = || self.0.iter().chain([operation]).map(operation_extents);
        let bytes: u64 = all().flatten().map(|extent| extent.length()).sum();
        matches!(operation.action, DiskAction::Write { .. })
            && bytes <= MAX_MERGED_BYTES
            && all().map(<[Extent]>::len).sum::<usize>() <= MAX_MERGED_EXTENTS
    }
}

fn operation_extents(operation: &DiskOperation) -> &[Extent] {
    match &operation.action {
        DiskAction::Read { extents } | DiskAction::Write { extents, .. } => extents,
        _ => &[],
    }
}

fn place(operation: &DiskOperation) -> Option<Place> {
    let first = operation_extents(operation).first()?;
    Some((operation.path.clone(), first.offset(), operation.ticket.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Fault, FaultyStore, MemoryStore, Store as _};
    use bytes::Bytes;
    use proptest::prelude::*;

    fn path() -> SubfilePath {
        SubfilePath::new("a").expect("a right path")
    }

    fn write(ticket: u64, extents: &[(u64, u64)]) -> DiskOperation {
        let extents: Vec<Extent> = extents.iter().map(|(start, end)| Extent::between(*start, *end)).collect();
        let bytes: u64 = extents.iter().map(|extent| extent.length()).sum();
        let data = vec![Bytes::from(vec![b'a' + ticket as u8; bytes as usize])];
        DiskOperation { ticket: Ticket(ticket), path: path(), action: DiskAction::Write { extents, data } }
    }

    fn store() -> FaultyStore<MemoryStore> {
        let mut store = FaultyStore::new(MemoryStore::default());
        store
            .perform(
                &path(),
                &DiskAction::Create { truncate: true, exclusive: false, durable: false, owner: None },
            )
            .expect("possible");
        store
    }

    fn drain(elevator: &mut Elevator<char>) -> Vec<Vec<u64>> {
        std::iter::from_fn(|| elevator.pop(|_| UnderWay::default()))
            .map(|(_, errand)| tickets(&errand))
            .collect()
    }

    fn tickets(errand: &Errand) -> Vec<u64> {
        errand.0.iter().map(|operation| operation.ticket.0).collect()
    }

    #[test]
    fn operations_go_up_and_writes_that_touch_go_together() {
        let mut elevator = Elevator::default();
        for operation in [write(0, &[(50, 60)]), write(1, &[(0, 10), (20, 30)]), write(2, &[(30, 40)])] {
            elevator.push('a', operation);
        }
        elevator.push('a', stat(3));
        assert_eq!(drain(&mut elevator), [vec![3], vec![1, 2], vec![0]]);
        // From where it stands it goes on upwards, then begins anew.
        elevator.push('a', write(4, &[(0, 10)]));
        elevator.push('a', write(5, &[(90, 95)]));
        assert_eq!(drain(&mut elevator), [vec![5], vec![4]]);
    }

    fn stat(ticket: u64) -> DiskOperation {
        DiskOperation { ticket: Ticket(ticket), path: path(), action: DiskAction::Size }
    }

    /// Requests without payload once went before everybody's reads and writes.
    #[test]
    fn owners_take_turns_however_much_each_wants() {
        let mut elevator = Elevator::default();
        (0..100).for_each(|ticket| elevator.push('a', stat(ticket)));
        (100..103).for_each(|ticket| elevator.push('b', write(ticket, &[(ticket * 100, ticket * 100 + 10)])));
        let order: String = (0..7).filter_map(|_| Some(elevator.pop(|_| UnderWay::default())?.0)).collect();
        assert_eq!(order, "abababa");
        // Who has the fewest under way comes first, whatever was before.
        elevator.push('b', write(110, &[(0, 10)]));
        assert_eq!(
            elevator
                .pop(|owner| UnderWay { errands: usize::from(owner == 'a'), slow: 0 })
                .map(|(owner, _)| owner),
            Some('b')
        );
    }

    #[test]
    fn a_turn_costs_what_it_moves_and_syncs_cost_most() {
        let mut elevator = Elevator::default();
        let sync = |ticket| DiskOperation { action: DiskAction::Sync, ..stat(ticket) };
        (0..50).for_each(|ticket| elevator.push('a', sync(ticket)));
        (50..100).for_each(|ticket| elevator.push('b', stat(ticket)));
        let order: Vec<char> =
            (0..18).filter_map(|_| Some(elevator.pop(|_| UnderWay::default())?.0)).collect();
        assert_eq!(order.iter().filter(|owner| **owner == 'a').count(), 2, "{order:?}");
    }

    #[test]
    fn an_owner_has_few_syncs_under_way_and_goes_on_with_the_rest() {
        let mut elevator = Elevator::default();
        (0..3).for_each(|ticket| {
            elevator.push('a', DiskOperation { action: DiskAction::Sync, ..stat(ticket) });
        });
        let busy = |slow| move |_| UnderWay { errands: slow, slow };
        assert!(elevator.pop(busy(MAX_SLOW)).is_none() && !elevator.is_empty());
        elevator.push('a', write(5, &[(0, 10)]));
        let next = |slow, elevator: &mut Elevator<char>| tickets(&elevator.pop(busy(slow)).expect("ready").1);
        assert_eq!(next(MAX_SLOW, &mut elevator), [5]);
        assert_eq!(next(MAX_SLOW - 1, &mut elevator), [0]);
    }

    #[test]
    fn writes_of_several_owners_that_touch_go_together() {
        let mut elevator = Elevator::default();
        elevator.push('a', write(0, &[(0, 10)]));
        elevator.push('b', write(1, &[(10, 20)]));
        elevator.push('a', write(2, &[(20, 30)]));
        elevator.push('b', write(3, &[(90, 95)]));
        let (owner, errand) = elevator.pop(|_| UnderWay::default()).expect("four wait");
        assert_eq!((owner, tickets(&errand)), ('a', vec![0, 1, 2]));
        elevator.remove('b', Ticket(3));
        assert!(elevator.is_empty());
    }

    #[test]
    fn a_failure_reaches_those_alone_whom_it_concerns() {
        let (mut elevator, mut store) = (Elevator::default(), store());
        (0..3).for_each(|i| elevator.push('a', write(i, &[(i * 10, i * 10 + 10)])));
        // The merged write is torn, then the second of the single ones.
        store.inject(Fault::TornWrite { bytes: 4 });
        let (_, errand) = elevator.pop(|_| UnderWay::default()).expect("three");
        assert_eq!(errand.len(), 3);
        let mut number = 0;
        let results = errand.perform(|operation| {
            number += 1;
            if number == 3 {
                store.inject(Fault::TornWrite { bytes: 1 });
            }
            operation.perform_on(&mut store)
        });
        let succeeded: Vec<bool> = results.iter().map(|result| result.outcome.is_ok()).collect();
        assert_eq!(succeeded, [true, false, true]);
    }

    proptest! {
        #[test]
        fn what_is_merged_writes_what_each_would_write(pieces in prop::collection::vec((1_u64..9, any::<bool>()), 1..30), order in any::<u64>()) {
            let (mut elevator, mut merged, mut single) = (Elevator::default(), store(), store());
            let (mut at, mut operations) = (0, Vec::new());
            for (ticket, (length, gap)) in (0..20).zip(pieces) {
                at += u64::from(gap);
                operations.push(write(ticket, &[(at, at + length)]));
                at += length;
            }
            operations.sort_by_key(|operation| operation.ticket.0.wrapping_mul(order | 1) % 31);
            for operation in operations {
                operation.perform_on(&mut single);
                elevator.push('a', operation);
            }
            while let Some((_, errand)) = elevator.pop(|_| UnderWay::default()) {
                for result in errand.perform(|operation| operation.perform_on(&mut merged)) {
                    prop_assert!(result.outcome.is_ok());
                }
            }
            prop_assert_eq!(merged.inner().content("a"), single.inner().content("a"));
        }
    }
}
