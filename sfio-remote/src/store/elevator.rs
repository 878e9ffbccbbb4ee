//! Disk operations that wait for a thread, in the order of their places, and writes that touch as one.
//!
//! An I/O node carries out a few operations at a time. What comes meanwhile, from all of its clients, waits here: the
//! time that the disk is busy is the window in which requests are merged, so that nobody waits for others on purpose.
//! The order is that of an elevator that only goes up (C-SCAN): operations on a subfile by ascending offset, subfile by
//! subfile, then from the beginning.

use std::collections::{BTreeMap, VecDeque};

use super::{DiskAction, DiskOperation, DiskResult};
use crate::distribution::Extent;
use crate::name::SubfilePath;

/// The most bytes of writes that become one.
const MAX_MERGED_BYTES: u64 = 4 << 20;

/// The most extents of writes that become one.
const MAX_MERGED_EXTENTS: usize = 16_384;

/// Operations that wait.
#[derive(Debug, Default)]
pub struct Elevator {
    /// Reads and writes, by place.
    placed: BTreeMap<Place, DiskOperation>,
    /// All others, in the order of their arrival. They go first, because they are few and short, or many wait for them.
    others: VecDeque<DiskOperation>,
    /// Where the last read or write was.
    position: Option<Place>,
}

/// The subfile, the offset of the first extent, and the ticket, which tells equal ones apart.
type Place = (SubfilePath, u64, u64);

/// What one thread carries out at once: an operation, or several writes as one.
#[derive(Debug)]
pub struct Errand(Vec<DiskOperation>);

impl Elevator {
    /// One more operation waits.
    pub fn push(&mut self, operation: DiskOperation) {
        match place(&operation) {
            Some(place) => drop(self.placed.insert(place, operation)),
            None => self.others.push_back(operation),
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.placed.is_empty() && self.others.is_empty()
    }

    /// What is to be carried out next.
    pub fn pop(&mut self) -> Option<Errand> {
        if let Some(operation) = self.others.pop_front() {
            return Some(Errand(vec![operation]));
        }
        let above = self.position.as_ref().and_then(|position| self.placed.range(position..).next());
        let next = above.or_else(|| self.placed.iter().next()).map(|(place, _)| place.clone())?;
        let first = self.placed.remove(&next)?;
        self.position = Some(next);
        let mut errand = Errand(vec![first]);
        self.merge(&mut errand);
        Some(errand)
    }

    /// Adds the writes that begin where the errand's ends.
    fn merge(&mut self, errand: &mut Errand) {
        while let Some((path, end)) = errand.end_of_writes() {
            let mut touching = self.placed.range((path.clone(), end, 0)..=(path, end, u64::MAX));
            let fits = |(_, operation): &(&Place, &DiskOperation)| errand.has_room_for(operation);
            let Some(place) = touching.find(fits).map(|(place, _)| place.clone()) else { return };
            errand.0.extend(self.placed.remove(&place));
            self.position = Some(place);
        }
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
    use crate::store::{Fault, FaultyStore, MemoryStore, Store as _, Ticket};
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

    fn drain(elevator: &mut Elevator) -> Vec<Vec<u64>> {
        let tickets = |errand: Errand| errand.0.iter().map(|operation| operation.ticket.0).collect();
        std::iter::from_fn(|| elevator.pop()).map(tickets).collect()
    }

    #[test]
    fn operations_go_up_and_writes_that_touch_go_together() {
        let mut elevator = Elevator::default();
        for operation in [write(0, &[(50, 60)]), write(1, &[(0, 10), (20, 30)]), write(2, &[(30, 40)])] {
            elevator.push(operation);
        }
        let stat = DiskOperation { ticket: Ticket(3), path: path(), action: DiskAction::Size };
        elevator.push(stat);
        assert_eq!(drain(&mut elevator), [vec![3], vec![1, 2], vec![0]]);
        // From where it stands it goes on upwards, then begins anew.
        elevator.push(write(4, &[(0, 10)]));
        elevator.push(write(5, &[(90, 95)]));
        assert_eq!(drain(&mut elevator), [vec![5], vec![4]]);
    }

    #[test]
    fn a_failure_reaches_those_alone_whom_it_concerns() {
        let (mut elevator, mut store) = (Elevator::default(), store());
        (0..3).for_each(|i| elevator.push(write(i, &[(i * 10, i * 10 + 10)])));
        // The merged write is torn, then the second of the single ones.
        store.inject(Fault::TornWrite { bytes: 4 });
        let errand = elevator.pop().expect("three");
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
                elevator.push(operation);
            }
            while let Some(errand) = elevator.pop() {
                for result in errand.perform(|operation| operation.perform_on(&mut merged)) {
                    prop_assert!(result.outcome.is_ok());
                }
            }
            prop_assert_eq!(merged.inner().content("a"), single.inner().content("a"));
        }
    }
}
