//! Walking over the extents of a run table, as much at a time as one disk operation takes.

use crate::distribution::Extent;
use crate::request::Run;
use crate::wire::{RunTable, Runs};

/// The most extents of one disk operation: 256 KiB of description, and a bound on how long it keeps a thread.
pub(super) const MAX_EXTENTS: usize = 16_384;

/// A position in the payload of a transfer.
#[derive(Debug)]
pub(super) struct ExtentCursor {
    runs: Runs,
    /// The run that is being walked over, and how many of its extents are behind us.
    run: Option<(Run, u64)>,
    /// How much of the current extent is behind us.
    within: u64,
}

impl ExtentCursor {
    pub(super) fn new(table: &RunTable) -> ExtentCursor {
        let mut runs = table.runs();
        let run = runs.next().map(|run| (run, 0));
        ExtentCursor { runs, run, within: 0 }
    }

    /// The next extents, of at most `limit` bytes and at most [`MAX_EXTENTS`]; none at the end.
    pub(super) fn take(&mut self, limit: u64) -> Vec<Extent> {
        let (mut extents, mut room) = (Vec::new(), limit);
        while room > 0 && extents.len() < MAX_EXTENTS {
            let Some(rest) = self.current() else { break };
            let length = rest.length().min(room);
            extents.push(Extent::between(rest.offset(), rest.offset() + length));
            room -= length;
            self.within += length;
            if length == rest.length() {
                self.next_extent();
            }
        }
        extents
    }

    /// What is left of the current extent.
    fn current(&self) -> Option<Extent> {
        let (run, index) = self.run?;
        let start = run.start() + index * run.stride();
        Some(Extent::between(start + self.within, start + run.length()))
    }

    fn next_extent(&mut self) {
        self.within = 0;
        self.run = match self.run {
            Some((run, index)) if index + 1 < run.count() => Some((run, index + 1)),
            _ => self.runs.next().map(|run| (run, 0)),
        };
    }
}

/// The memory that the list of `extents` takes.
pub(super) fn described(extents: &[Extent]) -> u64 {
    std::mem::size_of_val(extents) as u64
}

/// The number of bytes in all of `extents`.
pub(super) fn total(extents: &[Extent]) -> u64 {
    extents.iter().map(|extent| extent.length()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::RunTableBuilder;

    fn table(count: u64) -> RunTable {
        let mut builder = RunTableBuilder::default();
        (0..count).for_each(|i| builder.push(Extent::between(i * 10 + i / 7, i * 10 + i / 7 + 4)));
        builder.finish().expect("not empty")
    }

    #[test]
    fn any_way_of_taking_gives_the_same_bytes() {
        let table = table(50);
        let bytes =
            |extents: Vec<Extent>| extents.into_iter().flat_map(|e| e.offset()..e.end()).collect::<Vec<_>>();
        let whole = bytes(ExtentCursor::new(&table).take(u64::MAX));
        assert_eq!(whole.len(), 200);
        for limit in 1..20 {
            let mut cursor = ExtentCursor::new(&table);
            let mut taken = Vec::new();
            loop {
                let extents = cursor.take(limit);
                assert!(total(&extents) <= limit);
                if extents.is_empty() {
                    break;
                }
                taken.extend(bytes(extents));
            }
            assert_eq!(taken, whole);
        }
    }

    #[test]
    fn one_operation_gets_a_bounded_number_of_extents() {
        let table = table(MAX_EXTENTS as u64 + 5);
        let mut cursor = ExtentCursor::new(&table);
        assert_eq!(cursor.take(u64::MAX).len(), MAX_EXTENTS);
        assert_eq!(cursor.take(u64::MAX).len(), 5);
    }
}
