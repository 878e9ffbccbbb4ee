//! The runs of a request, in a few bytes each.
//!
//! A run is `head`, `gap`, and, if its shape differs from that of the run before, `length` and (for more than one
//! extent) `spacing`; all are [varints](super::varint).
//!
//! ```text
//! head     (count − 1) · 2 + (1 if length and spacing follow, 0 if they are those of the run before)
//! gap      start − end of the run before (of 0 for the first)
//! length   ≥ 1
//! spacing  stride − length, ≥ 1; only if count > 1
//! ```
//!
//! So extents of equal length at random places cost three bytes each when they are some hundred bytes apart, and a
//! regular pattern costs three or four bytes for each place where its rhythm breaks.

use bytes::Bytes;

use super::{Run, WireError, varint};
use crate::distribution::Extent;

/// The longest run table, in bytes. A caller's list that needs more becomes several transfers.
pub const MAX_RUN_TABLE_BYTES: usize = 64 << 10;

/// The most bytes that one run takes.
pub const MAX_RUN_BYTES: usize = 4 * varint::MAX_BYTES;

/// A checked run table: extents of a subfile, in ascending order and disjoint.
///
/// It stays encoded, so that it takes no more memory at the I/O node than it took on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunTable {
    bytes: Bytes,
    payload: u64,
    end: u64,
}

impl RunTable {
    /// Checks a run table off the wire.
    ///
    /// # Errors
    /// If it is empty, too long, or any run is not behind the one before.
    pub fn parse(bytes: Bytes) -> Result<RunTable, WireError> {
        super::field::at_most("the run table", bytes.len() as u64, MAX_RUN_TABLE_BYTES as u64)?;
        let mut decoder = Decoder::default();
        let (mut payload, mut index) = (0_u64, 0);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let run = decoder.take(&mut rest).map_err(|fault| WireError::RunTable { index, fault })?;
            // Disjoint extents below MAX_LENGTH cannot add up to more.
            payload += run.bytes();
            index += 1;
        }
        match index {
            0 => Err(WireError::RunTable { index, fault: "there is none" }),
            _ => Ok(RunTable { payload, end: decoder.end, bytes }),
        }
    }

    /// Its encoding.
    pub fn as_bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The number of bytes in all extents.
    pub fn payload(&self) -> u64 {
        self.payload
    }

    /// The offset behind the last extent.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The number of bytes in all extents that lie before `size`: what a subfile of that size has of them.
    pub fn payload_before(&self, size: u64) -> u64 {
        if size >= self.end { self.payload } else { self.runs().map(|run| run.bytes_before(size)).sum() }
    }

    /// The runs in ascending order.
    pub fn runs(&self) -> Runs {
        Runs { bytes: self.bytes.clone(), decoder: Decoder::default() }
    }
}

/// Iterator over the runs of a [`RunTable`]; owns what it needs of it.
#[derive(Debug, Clone)]
pub struct Runs {
    bytes: Bytes,
    decoder: Decoder,
}

impl Iterator for Runs {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let mut rest = &self.bytes[self.decoder.position..];
        if rest.is_empty() {
            return None;
        }
        self.decoder.take(&mut rest).ok()
    }
}

/// What decoding knows of the runs before.
#[derive(Debug, Clone, Default)]
struct Decoder {
    position: usize,
    end: u64,
    length: u64,
    /// The spacing of the runs before; 0 until a run with more than one extent has told it.
    spacing: u64,
}

impl Decoder {
    fn take(&mut self, rest: &mut &[u8]) -> Result<Run, &'static str> {
        let before = rest.len();
        let mut number =
            || varint::take(rest).ok_or("it ends inside a number, or a number is not in its one spelling");
        let head = number()?;
        let gap = number()?;
        let count = (head >> 1) + 1;
        if head & 1 == 1 {
            self.length = number()?;
            self.spacing = if count > 1 { number()? } else { 0 };
        }
        let start = self.end.checked_add(gap).ok_or("it begins beyond any 64-bit offset")?;
        let stride = self.length.checked_add(self.spacing).ok_or("its stride exceeds 64 bits")?;
        let run = Run::new(start, self.length, stride, count)
            .ok_or("its extents are empty, touch, or end beyond the largest file")?;
        self.end = run.end();
        self.position += before - rest.len();
        Ok(run)
    }
}

/// Builds a [`RunTable`] from extents in ascending order.
#[derive(Debug, Default)]
pub struct RunTableBuilder {
    bytes: Vec<u8>,
    pending: Option<Run>,
    payload: u64,
    end: u64,
    length: u64,
    spacing: u64,
}

impl RunTableBuilder {
    /// Whether one more extent surely fits.
    pub fn has_room(&self) -> bool {
        self.bytes.len() + 2 * MAX_RUN_BYTES <= MAX_RUN_TABLE_BYTES
    }

    /// Adds an extent that lies behind all before it, and does not touch the last.
    pub fn push(&mut self, extent: Extent) {
        debug_assert!(extent.length() > 0 && self.has_room(), "an extent that fits");
        self.payload += extent.length();
        self.pending = match self.pending {
            None => Some(Run::single(extent)),
            Some(run) => run.extended(extent).or_else(|| {
                self.encode(run);
                Some(Run::single(extent))
            }),
        };
    }

    /// The table; none if nothing was added.
    pub fn finish(mut self) -> Option<RunTable> {
        self.encode(self.pending?);
        Some(RunTable { bytes: self.bytes.into(), payload: self.payload, end: self.end })
    }

    fn encode(&mut self, run: Run) {
        let spacing = run.stride() - run.length();
        let same_shape = run.length() == self.length && (run.count() == 1 || spacing == self.spacing);
        varint::put(&mut self.bytes, (run.count() - 1) << 1 | u64::from(!same_shape));
        varint::put(&mut self.bytes, run.start() - self.end);
        if !same_shape {
            varint::put(&mut self.bytes, run.length());
            if run.count() > 1 {
                varint::put(&mut self.bytes, spacing);
            }
            (self.length, self.spacing) = (run.length(), spacing);
        }
        self.end = run.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::MAX_LENGTH;
    use proptest::prelude::*;

    fn table(extents: &[Extent]) -> RunTable {
        let mut builder = RunTableBuilder::default();
        extents.iter().for_each(|extent| builder.push(*extent));
        builder.finish().expect("not empty")
    }

    fn extents(table: &RunTable) -> Vec<Extent> {
        table.runs().flat_map(Run::extents).collect()
    }

    fn fault(bytes: &[u8]) -> String {
        RunTable::parse(Bytes::copy_from_slice(bytes)).expect_err("a wrong table").to_string()
    }

    #[test]
    fn an_evenly_spaced_pattern_is_a_few_bytes() {
        let pattern: Vec<Extent> = (0..10_000).map(|i| Extent::between(i * 1_000, i * 1_000 + 8)).collect();
        let table = table(&pattern);
        assert_eq!(table.as_bytes().len(), 3 + 1 + 1 + 2);
        assert_eq!(extents(&table), pattern);
    }

    #[test]
    fn equal_extents_at_random_places_cost_three_bytes_each() {
        let pattern: Vec<Extent> = (0..10_000_u64)
            .map(|i| i * 1_000 + i * i * 7_919 % 900)
            .map(|at| Extent::between(at, at + 8))
            .collect();
        let length = table(&pattern).as_bytes().len();
        assert!(length <= 3 * pattern.len() + 3, "{length} bytes");
    }

    #[test]
    fn wrong_tables_are_refused_with_the_run() {
        assert!(fault(&[]).contains("there is none"));
        assert!(fault(&[0, 0]).contains("run 0 of the run table: its extents are empty"));
        assert!(fault(&[1, 0, 5, 2, 0]).contains("run 1 of the run table: its extents are empty, touch"));
        assert!(fault(&[1, 0, 5, 1]).contains("run 1 of the run table: it ends inside a number"));
        assert!(fault(&[3, 0, 5]).contains("run 0 of the run table: it ends inside a number"));
        assert!(fault(&vec![0; MAX_RUN_TABLE_BYTES + 1]).contains("at most 65536"));
        let mut beyond = vec![1];
        varint::put(&mut beyond, MAX_LENGTH);
        beyond.push(1);
        assert!(fault(&beyond).contains("beyond the largest file"));
        let mut endless = Vec::new();
        varint::put(&mut endless, u64::MAX);
        endless.extend([0, 1, 1]);
        assert!(fault(&endless).contains("beyond the largest file"));
    }

    fn ascending() -> impl Strategy<Value = Vec<Extent>> {
        let step = (
            prop_oneof![1_u64..4, 1_u64..100_000, Just(MAX_LENGTH / 300)],
            prop_oneof![Just(8_u64), 1_u64..5_000],
        );
        prop::collection::vec(step, 1..200).prop_map(|steps| {
            let mut at = 0;
            let place = |(gap, length): (u64, u64)| {
                let start = at + gap;
                at = start + length;
                Extent::between(start, at)
            };
            steps.into_iter().map(place).collect()
        })
    }

    proptest! {
        #[test]
        fn parse_of_what_was_built_is_the_identity(pattern in ascending(), size in 0_u64..2_000_000) {
            let table = table(&pattern);
            prop_assert_eq!(&extents(&table), &pattern);
            prop_assert_eq!(table.payload(), pattern.iter().map(|e| e.length()).sum::<u64>());
            prop_assert_eq!(table.end(), pattern.last().expect("not empty").end());
            let before: u64 = pattern.iter().map(|e| e.end().min(size).saturating_sub(e.offset())).sum();
            prop_assert_eq!(table.payload_before(size), before);
            prop_assert_eq!(RunTable::parse(table.as_bytes().clone()), Ok(table));
        }

        #[test]
        fn garbage_is_refused_or_ascending(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(table) = RunTable::parse(bytes.into()) {
                let runs: Vec<Run> = table.runs().collect();
                prop_assert!(runs.windows(2).all(|pair| pair[0].end() <= pair[1].start()));
                prop_assert_eq!(runs.iter().map(|run| run.bytes()).sum::<u64>(), table.payload());
            }
        }
    }
}
