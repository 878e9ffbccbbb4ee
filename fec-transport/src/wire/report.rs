//! What a receiver tells the sender: per path what arrived, per open block its rank.
//!
//! ```text
//! kind (8) | sequence number (32) | time of sending (64, µs of the receiver's clock)
//! | number of paths (8) | per path: id (32), highest number (48), its arrival (64, µs), packets received (48)
//! | floor (32) | cut (1), span (15) | ⌈span / 8⌉ bytes, bit i: block floor + i is complete
//! | for each incomplete block of the span in turn: its rank, one byte below 128, else two: 128 + high byte, low byte
//! ```
//! All blocks below `floor` are complete. Of blocks from `floor + span` on nothing has arrived, unless the report was
//! `cut` short: then nothing is said of them.

use super::packet::Kind;
use super::{Malformed, Reader, Writer};
use crate::limits::MAX_REPORTED_PATHS;

/// The most blocks that one report describes.
pub(crate) const MAX_REPORTED_BLOCKS: usize = 480;
/// Bytes for the ranks of one report: with all its paths and blocks it has 1,200 bytes.
const MAX_RANK_BYTES: usize = 352;
const CUT: u16 = 0x8000;
/// Times are below this, in µs: differences of two fit in 63 bits.
const MAX_TIME_US: u64 = 1 << 62;
/// Ranks from here on take two bytes.
const LONG_RANK: u16 = 0x80;

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
    pub(crate) blocks: BlockReport,
}

/// What arrived of the blocks from the floor on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct BlockReport {
    /// `None` is complete, `Some(rank)` is open.
    pub(crate) ranks: Vec<Option<u16>>,
    /// Whether there are more blocks than fit.
    pub(crate) cut: bool,
}

impl BlockReport {
    /// Takes as many blocks as a report has room for.
    pub(crate) fn fit(ranks: impl Iterator<Item = Option<u16>>) -> BlockReport {
        let mut blocks = BlockReport::default();
        let mut room = MAX_RANK_BYTES;
        for rank in ranks {
            let length = rank.map_or(0, rank_length);
            if length > room || blocks.ranks.len() == MAX_REPORTED_BLOCKS {
                blocks.cut = true;
                break;
            }
            room -= length;
            blocks.ranks.push(rank);
        }
        blocks
    }
}

fn rank_length(rank: u16) -> usize {
    if rank < LONG_RANK { 1 } else { 2 }
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
        let BlockReport { ranks, cut } = &self.blocks;
        debug_assert!(self.paths.len() <= MAX_REPORTED_PATHS && ranks.len() <= MAX_REPORTED_BLOCKS);
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
        out.put_u16(ranks.len() as u16 | if *cut { CUT } else { 0 });
        for eight in ranks.chunks(8) {
            let bits = eight.iter().enumerate().map(|(bit, block)| u8::from(block.is_none()) << bit);
            out.put_u8(bits.sum());
        }
        for rank in ranks.iter().flatten() {
            match rank_length(*rank) {
                1 => out.put_u8(*rank as u8),
                _ => out.put_u16(*rank | CUT),
            }
        }
    }

    pub(crate) fn parse(body: &[u8]) -> Result<Report, Malformed> {
        let mut reader = Reader::new(body);
        reader.u8("kind")?;
        let sequence = reader.u32("report sequence number")?;
        let sent_us = time_us(&mut reader, "report time")?;
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
                arrival_us: time_us(reader, "arrival")?,
                received: reader.u48("packets received")?,
            })
        })
        .collect()
}

fn time_us(reader: &mut Reader<'_>, what: &'static str) -> Result<u64, Malformed> {
    let time = reader.u64(what)?;
    if time < MAX_TIME_US { Ok(time) } else { Err(Malformed::new(what)) }
}

fn parse_blocks(reader: &mut Reader<'_>) -> Result<BlockReport, Malformed> {
    let span = reader.u16("span")?;
    let (cut, span) = (span & CUT != 0, usize::from(span & !CUT));
    if span > MAX_REPORTED_BLOCKS {
        return Err(Malformed::new("span"));
    }
    let bits = reader.bytes(span.div_ceil(8), "completed blocks")?;
    let rank = |index: usize| {
        let complete = bits[index / 8] >> (index % 8) & 1 == 1;
        if complete { Ok(None) } else { parse_rank(reader).map(Some) }
    };
    Ok(BlockReport { ranks: (0..span).map(rank).collect::<Result<_, _>>()?, cut })
}

fn parse_rank(reader: &mut Reader<'_>) -> Result<u16, Malformed> {
    let first = u16::from(reader.u8("rank")?);
    if first < LONG_RANK {
        return Ok(first);
    }
    Ok((first & !LONG_RANK) << 8 | u16::from(reader.u8("rank")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path_report() -> impl Strategy<Value = PathReport> {
        (any::<u32>(), 0u64..1 << 48, 0..MAX_TIME_US, 0u64..1 << 48).prop_map(
            |(path, highest, arrival_us, received)| PathReport { path, highest, arrival_us, received },
        )
    }

    proptest! {
        #[test]
        fn parse_of_emit_is_identity(
            sequence: u32, sent_us in 0..MAX_TIME_US, floor: u32,
            paths in proptest::collection::vec(path_report(), 0..=MAX_REPORTED_PATHS),
            ranks in proptest::collection::vec(proptest::option::of(0u16..=1024), 0..=MAX_REPORTED_BLOCKS),
        ) {
            let blocks = BlockReport::fit(ranks.into_iter());
            let report = Report { sequence, sent_us, paths, floor, blocks };
            let mut out = Vec::new();
            report.emit(&mut out);
            prop_assert!(out.len() <= 1200);
            prop_assert_eq!(Report::parse(&out), Ok(report));
        }

        #[test]
        fn times_whose_differences_do_not_fit_are_refused(sent_us in MAX_TIME_US.., arrival_us in MAX_TIME_US..) {
            let path = PathReport { path: 0, highest: 0, arrival_us: 0, received: 0 };
            let report = |sent_us, arrival_us| {
                let paths = vec![PathReport { arrival_us, ..path }];
                let mut out = Vec::new();
                Report { sequence: 1, sent_us, paths, floor: 0, blocks: BlockReport::fit([].into_iter()) }.emit(&mut out);
                Report::parse(&out)
            };
            prop_assert!(report(1, 1).is_ok());
            prop_assert!(report(sent_us, 1).is_err() && report(1, arrival_us).is_err());
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Report::parse(&bytes);
        }
    }
}
