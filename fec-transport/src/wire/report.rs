//! What a receiver tells the sender: per path what arrived, per open block its rank.
//!
//! ```text
//! kind (8) | sequence number (32) | time of sending (64, µs of the receiver's clock)
//! | number of paths (8) | per path: id (32), highest number (48), its arrival (64, µs), packets received (48)
//! | floor (32) | span (16) | ⌈span / 8⌉ bytes, bit i: block floor + i is complete
//! | for each incomplete block of the span in turn: its rank (8)
//! ```
//! All blocks below `floor` are complete; nothing is said of blocks from `floor + span` on.

use super::packet::Kind;
use super::{Malformed, Reader, Writer};

/// The most paths that one report describes.
pub(crate) const MAX_REPORTED_PATHS: usize = 16;
/// The most blocks that one report describes: with 16 paths, the report fits into 1,200 bytes.
pub(crate) const MAX_REPORTED_BLOCKS: usize = 480;

/// A report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    /// Reports may overtake one another; the highest number wins.
    pub(crate) sequence: u32,
    /// When it was sent, in µs of the receiver's clock.
    pub(crate) sent_us: u64,
    pub(crate) paths: Vec<PathReport>,
    /// All blocks below are complete.
    pub(crate) floor: u32,
    /// The blocks from `floor` on: `None` is complete, `Some(rank)` is open.
    pub(crate) blocks: Vec<Option<u8>>,
}

/// What arrived on one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathReport {
    pub(crate) path: u32,
    /// The highest packet number received.
    pub(crate) highest: u64,
    /// When that packet arrived, in µs of the receiver's clock.
    pub(crate) arrival_us: u64,
    /// How many packets were received in all.
    pub(crate) received: u64,
}

impl Report {
    pub(crate) fn emit(&self, out: &mut Vec<u8>) {
        debug_assert!(self.paths.len() <= MAX_REPORTED_PATHS && self.blocks.len() <= MAX_REPORTED_BLOCKS);
        out.put_u8(Kind::Report as u8);
        out.put_u32(self.sequence);
        out.put_u64(self.sent_us);
        out.put_u8(self.paths.len() as u8);
        for path in &self.paths {
            out.put_u32(path.path);
            out.put_u48(path.highest);
            out.put_u64(path.arrival_us);
            out.put_u48(path.received);
        }
        out.put_u32(self.floor);
        out.put_u16(self.blocks.len() as u16);
        for eight in self.blocks.chunks(8) {
            let bits = eight.iter().enumerate().map(|(bit, block)| u8::from(block.is_none()) << bit);
            out.put_u8(bits.sum());
        }
        for rank in self.blocks.iter().flatten() {
            out.put_u8(*rank);
        }
    }

    pub(crate) fn parse(body: &[u8]) -> Result<Report, Malformed> {
        let mut reader = Reader::new(body);
        reader.u8("kind")?;
        let sequence = reader.u32("report sequence number")?;
        let sent_us = reader.u64("report time")?;
        let paths = parse_paths(&mut reader)?;
        let floor = reader.u32("report floor")?;
        let blocks = parse_blocks(&mut reader)?;
        reader.finish("report")?;
        Ok(Report { sequence, sent_us, paths, floor, blocks })
    }
}

fn parse_paths(reader: &mut Reader<'_>) -> Result<Vec<PathReport>, Malformed> {
    let count = usize::from(reader.u8("number of paths")?);
    if count > MAX_REPORTED_PATHS {
        return Err(Malformed::new("number of paths"));
    }
    (0..count)
        .map(|_| {
            Ok(PathReport {
                path: reader.u32("path id")?,
                highest: reader.u48("highest number")?,
                arrival_us: reader.u64("arrival")?,
                received: reader.u48("packets received")?,
            })
        })
        .collect()
}

fn parse_blocks(reader: &mut Reader<'_>) -> Result<Vec<Option<u8>>, Malformed> {
    let span = usize::from(reader.u16("span")?);
    if span > MAX_REPORTED_BLOCKS {
        return Err(Malformed::new("span"));
    }
    let bits = reader.bytes(span.div_ceil(8), "completed blocks")?;
    (0..span)
        .map(|index| {
            let complete = bits[index / 8] >> (index % 8) & 1 == 1;
            if complete { Ok(None) } else { reader.u8("rank").map(Some) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path_report() -> impl Strategy<Value = PathReport> {
        (any::<u32>(), 0u64..1 << 48, any::<u64>(), 0u64..1 << 48).prop_map(
            |(path, highest, arrival_us, received)| PathReport { path, highest, arrival_us, received },
        )
    }

    proptest! {
        #[test]
        fn parse_of_emit_is_identity(
            sequence: u32, sent_us: u64, floor: u32,
            paths in proptest::collection::vec(path_report(), 0..=MAX_REPORTED_PATHS),
            blocks in proptest::collection::vec(any::<Option<u8>>(), 0..=MAX_REPORTED_BLOCKS),
        ) {
            let report = Report { sequence, sent_us, paths, floor, blocks };
            let mut out = Vec::new();
            report.emit(&mut out);
            prop_assert!(out.len() <= 1200);
            prop_assert_eq!(Report::parse(&out), Ok(report));
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Report::parse(&bytes);
        }
    }
}
