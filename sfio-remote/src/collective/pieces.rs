//! Pieces of the logical file that a rank has, as run tables: stages 1 and 5.

use std::sync::Arc;

use bytes::Bytes;

use crate::distribution::Extent;
use crate::wire::{Run, RunTable, RunTableBuilder, Runs};

/// Extents of the logical file, ascending and apart from one another, as run tables of any number.
#[derive(Debug, Clone, Default)]
pub(super) struct Pieces {
    tables: Arc<[RunTable]>,
    bytes: u64,
}

/// Builds [`Pieces`] from ascending extents; what touches becomes one.
#[derive(Debug, Default)]
pub(super) struct PiecesBuilder {
    tables: Vec<RunTable>,
    table: RunTableBuilder,
    pending: Option<Extent>,
}

/// A place in [`Pieces`], which moves over them piece by piece and cuts them where it is told to.
#[derive(Debug, Clone)]
pub(super) struct Walk {
    tables: Arc<[RunTable]>,
    next_table: usize,
    runs: Option<Runs>,
    /// The run that the current piece belongs to, and the number of the extent behind it there.
    run: Option<(Run, u64)>,
    /// The next piece, or what is left of it.
    current: Option<Extent>,
}

impl Pieces {
    /// The number of bytes in all pieces.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where the first piece begins, and the last one ends; none if there are no pieces.
    pub(super) fn range(&self) -> Option<(u64, u64)> {
        let start = self.walk().peek()?.offset();
        Some((start, self.tables.last()?.end()))
    }

    /// The place before the first piece.
    pub(super) fn walk(&self) -> Walk {
        let tables = Arc::clone(&self.tables);
        let mut walk = Walk { tables, next_table: 0, runs: None, run: None, current: None };
        walk.step();
        walk
    }

    /// The length of each table, and all tables one behind the other: how the pieces travel.
    pub(super) fn emit(&self) -> (Vec<u32>, Bytes) {
        let lengths = self.tables.iter().map(|table| table.as_bytes().len() as u32).collect();
        let all: Vec<&[u8]> = self.tables.iter().map(|table| &table.as_bytes()[..]).collect();
        (lengths, all.concat().into())
    }

    /// The pieces that travelled so.
    pub(super) fn parse(lengths: &[u32], mut bytes: Bytes) -> Result<Pieces, String> {
        let (mut tables, mut end, mut payload) = (Vec::new(), None, 0);
        for (index, length) in lengths.iter().enumerate() {
            if *length as usize > bytes.len() {
                return Err(format!("its run table {index} ends after {} of {length} bytes", bytes.len()));
            }
            let table =
                RunTable::parse(bytes.split_to(*length as usize)).map_err(|error| error.to_string())?;
            let start = table.runs().next().map(Run::start);
            if end.is_some() && start <= end {
                return Err(format!("its run table {index} does not lie behind the one before"));
            }
            end = Some(table.end());
            payload += table.payload();
            tables.push(table);
        }
        Ok(Pieces { tables: tables.into(), bytes: payload })
    }
}

impl PiecesBuilder {
    /// Adds an extent that lies behind all before it.
    pub(super) fn push(&mut self, extent: Extent) {
        match self.pending {
            Some(before) if before.end() == extent.offset() => {
                self.pending = Some(Extent::between(before.offset(), extent.end()));
            }
            before => {
                before.into_iter().for_each(|before| self.encode(before));
                self.pending = Some(extent);
            }
        }
    }

    pub(super) fn finish(mut self) -> Pieces {
        self.pending.take().into_iter().for_each(|last| self.encode(last));
        self.tables.extend(self.table.finish());
        let bytes = self.tables.iter().map(RunTable::payload).sum();
        Pieces { tables: self.tables.into(), bytes }
    }

    fn encode(&mut self, extent: Extent) {
        if !self.table.has_room() {
            self.tables.extend(std::mem::take(&mut self.table).finish());
        }
        self.table.push(extent);
    }
}

impl Walk {
    /// What is left of the next piece; none at the end.
    pub(super) fn peek(&self) -> Option<Extent> {
        self.current
    }

    /// Moves over the next piece, or the part of it before `until`, and gives that; none if nothing is before `until`.
    #[inline]
    pub(super) fn cut(&mut self, until: u64) -> Option<Extent> {
        let piece = self.current.filter(|piece| piece.offset() < until)?;
        if piece.end() <= until {
            self.step();
            return Some(piece);
        }
        self.current = Some(Extent::between(until, piece.end()));
        Some(Extent::between(piece.offset(), until))
    }

    /// Moves over everything before `until`, and gives how many bytes that is.
    pub(super) fn skip(&mut self, until: u64) -> u64 {
        std::iter::from_fn(|| self.cut(until)).map(Extent::length).sum()
    }

    /// Makes the piece behind the current one the current one.
    fn step(&mut self) {
        loop {
            if let Some((run, index)) = &mut self.run
                && *index < run.count()
            {
                let start = run.start() + *index * run.stride();
                *index += 1;
                self.current = Some(Extent::between(start, start + run.length()));
                return;
            }
            if let Some(run) = self.runs.as_mut().and_then(Iterator::next) {
                self.run = Some((run, 0));
                continue;
            }
            let Some(table) = self.tables.get(self.next_table) else {
                self.current = None;
                return;
            };
            self.next_table += 1;
            (self.runs, self.run) = (Some(table.runs()), None);
        }
    }
}

#[cfg(test)]
pub(super) fn pieces(extents: &[(u64, u64)]) -> Pieces {
    let mut builder = PiecesBuilder::default();
    extents.iter().for_each(|(start, end)| builder.push(Extent::between(*start, *end)));
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extents(mut walk: Walk, until: u64) -> Vec<(u64, u64)> {
        std::iter::from_fn(|| walk.cut(until)).map(|extent| (extent.offset(), extent.end())).collect()
    }

    proptest! {
        #[test]
        fn a_walk_gives_every_byte_once_wherever_it_is_cut(steps in prop::collection::vec((0_u64..9, 1_u64..9), 0..60), cuts in prop::collection::vec(0_u64..600, 0..9)) {
            let mut at = 0;
            let list: Vec<(u64, u64)> = steps.iter().map(|(gap, length)| {
                let start = at + gap;
                at = start + length;
                (start, at)
            }).collect();
            let all = pieces(&list);
            let (lengths, bytes) = all.emit();
            let travelled = Pieces::parse(&lengths, bytes).expect("as it was written");
            prop_assert_eq!(extents(travelled.walk(), u64::MAX), extents(all.walk(), u64::MAX));
            prop_assert_eq!(all.bytes(), list.iter().map(|(start, end)| end - start).sum::<u64>());
            prop_assert_eq!(all.range(), list.first().map(|first| (first.0, at)));
            let (mut walk, mut found) = (all.walk(), Vec::new());
            let mut cuts = cuts;
            cuts.sort_unstable();
            for until in cuts.into_iter().chain([u64::MAX]) {
                while let Some(piece) = walk.cut(until) {
                    prop_assert!(piece.end() <= until);
                    found.extend(piece.offset()..piece.end());
                }
            }
            prop_assert_eq!(found, list.iter().flat_map(|(start, end)| *start..*end).collect::<Vec<_>>());
        }
    }

    #[test]
    fn tables_that_are_too_short_or_out_of_order_are_refused() {
        let (lengths, bytes) = pieces(&[(5, 9), (20, 30)]).emit();
        let longer = [lengths[0] + 1];
        assert!(
            Pieces::parse(&longer, bytes.clone()).expect_err("too short").contains("run table 0 ends after")
        );
        let twice = [bytes.clone(), bytes].concat();
        let error = Pieces::parse(&[lengths[0], lengths[0]], twice.into()).expect_err("the same again");
        assert!(error.contains("run table 1 does not lie behind"), "{error}");
    }

    #[test]
    fn more_runs_than_a_table_holds_become_several() {
        let list: Vec<(u64, u64)> =
            (0..100_000_u64).map(|i| (i * 1_000, i * 1_000 + 1 + i * i % 97)).collect();
        let many = pieces(&list);
        assert!(many.emit().0.len() > 1);
        assert_eq!(extents(many.walk(), u64::MAX), list);
    }
}
