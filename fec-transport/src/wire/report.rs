//! What a receiver tells the sender: per path what arrived, per open block its rank.
//!
//! ```text
//! kind (8) | sequence number (32) | time of sending (64, µs of the receiver's clock)
//! | told (1), number of paths (7) | if told: intake (16, KiB)
//! | per path: id (32), highest number (48), its arrival (64, µs), proof (32),
//!             number of words (8), per word 64 packets, the last word that of the highest number
//! | floor (32) | cut (1), span (15) | ⌈span / 8⌉ bytes, bit i: block floor + i is complete
//! | for each incomplete block of the span in turn: its rank, one byte below 128, else two: 128 + high byte, low byte
//! ```
//! The bits of a word say which of 64 packets arrived, the lowest number in the lowest bit; the proof is the exclusive
//! or of all their receipts (docs/decisions/receipts.md). The intake is what the sender's packets may fill of the
//! receiver's sockets while nobody reads there; a receiver that does not know it tells none. All blocks below `floor`
//! are complete. Of blocks from `floor + span` on nothing has arrived, unless the report was `cut` short: then nothing
//! is said of them.

use super::packet::Kind;
use super::{Malformed, Reader, Writer};
use crate::limits::MAX_REPORTED_PATHS;

/// The most blocks that one report describes.
pub(crate) const MAX_REPORTED_BLOCKS: usize = 480;
/// Bytes of a report, at most: with all headers, those of IPv6 included, it is no longer than 1,280, which every path
/// carries.
const MAX_REPORT: usize = 1_184;
/// Bytes of a report without paths and blocks, and of a path without words.
const FIXED: usize = 22;
const PER_PATH: usize = 23;
const WORD_BYTES: usize = 8;
const KIB: u64 = 1 << 10;
const TOLD: u8 = 0x80;
/// Bytes for the ranks of one report, if its paths leave so much with one word each.
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
    /// What its packets may fill of the receiver's sockets, in bytes, if that is known: told in whole KiB, 64 MiB at
    /// most.
    pub(crate) intake: Option<u64>,
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
    /// Takes as many blocks as a report on so many paths has room for.
    pub(crate) fn fit(paths: usize, ranks: impl Iterator<Item = Option<u16>>) -> BlockReport {
        let mut blocks = BlockReport::default();
        let others = FIXED + MAX_REPORTED_BLOCKS / 8 + paths * (PER_PATH + WORD_BYTES);
        let mut room = MAX_RANK_BYTES.min(MAX_REPORT - others);
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

    /// How many words a report with these blocks has room for, on so many paths together: one each at least.
    pub(crate) fn room_for_words(&self, paths: usize) -> usize {
        let ranks: usize = self.ranks.iter().flatten().map(|rank| rank_length(*rank)).sum();
        (MAX_REPORT - FIXED - self.ranks.len().div_ceil(8) - ranks - paths * PER_PATH) / WORD_BYTES
    }
}

fn rank_length(rank: u16) -> usize {
    if rank < LONG_RANK { 1 } else { 2 }
}

/// What arrived on one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathReport {
    pub(crate) path: u32,
    /// The highest packet number received.
    pub(crate) highest: u64,
    /// When that packet arrived, in µs of the receiver's clock.
    pub(crate) arrival_us: u64,
    pub(crate) arrived: Arrived,
}

/// Which of the latest packets of a path arrived.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Arrived {
    /// 64 packets each, the lowest number in the lowest bit; the last word is that of the highest number.
    pub(crate) words: Vec<u64>,
    /// The exclusive or of the receipts of all packets whose bits are set.
    pub(crate) proof: u32,
}

impl PathReport {
    /// The words with their places: word w begins with number 64 w.
    pub(crate) fn words(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let first = self.highest / 64 + 1 - self.arrived.words.len() as u64;
        (first..).zip(self.arrived.words.iter().copied())
    }
}

impl Report {
    pub(crate) fn emit(&self, out: &mut Vec<u8>) {
        let BlockReport { ranks, cut } = &self.blocks;
        debug_assert!(self.paths.len() <= MAX_REPORTED_PATHS && ranks.len() <= MAX_REPORTED_BLOCKS);
        out.put_u8(Kind::Report as u8);
        out.put_u32(self.sequence);
        out.put_u64(self.sent_us);
        out.put_u8(self.paths.len() as u8 | if self.intake.is_some() { TOLD } else { 0 });
        if let Some(intake) = self.intake {
            out.put_u16(u16::try_from(intake / KIB).unwrap_or(u16::MAX));
        }
        for path in &self.paths {
            out.put_u32(path.path);
            out.put_u48(path.highest);
            out.put_u64(path.arrival_us);
            out.put_u32(path.arrived.proof);
            out.put_u8(path.arrived.words.len() as u8);
            path.arrived.words.iter().for_each(|word| out.put_u64(*word));
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
        let count = reader.u8("number of paths")?;
        let told = count & TOLD != 0;
        let intake = told.then(|| reader.u16("intake")).transpose()?.map(|kib| u64::from(kib) * KIB);
        let paths = parse_paths(&mut reader, usize::from(count & !TOLD))?;
        let floor = reader.u32("report floor")?;
        let blocks = parse_blocks(&mut reader)?;
        reader.finish("report")?;
        Ok(Report { sequence, sent_us, intake, paths, floor, blocks })
    }
}

fn parse_paths(reader: &mut Reader<'_>, count: usize) -> Result<Vec<PathReport>, Malformed> {
    if count > MAX_REPORTED_PATHS {
        return Err(Malformed::new("number of paths"));
    }
    (0..count)
        .map(|_| {
            let path = reader.u32("path id")?;
            let highest = reader.u48("highest number")?;
            let arrival_us = time_us(reader, "arrival")?;
            Ok(PathReport { path, highest, arrival_us, arrived: parse_arrived(reader, highest)? })
        })
        .collect()
}

/// Reads which packets arrived, of which `highest` is the last.
fn parse_arrived(reader: &mut Reader<'_>, highest: u64) -> Result<Arrived, Malformed> {
    let proof = reader.u32("proof of arrivals")?;
    let count = usize::from(reader.u8("words of arrivals")?);
    if count as u64 > highest / 64 + 1 {
        return Err(Malformed::new("words of arrivals"));
    }
    let words: Vec<u64> = (0..count).map(|_| reader.u64("arrivals")).collect::<Result<_, _>>()?;
    let ends_with_highest =
        words.last().is_some_and(|last| last.checked_ilog2() == Some((highest % 64) as u32));
    if ends_with_highest { Ok(Arrived { words, proof }) } else { Err(Malformed::new("arrivals")) }
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
        let words = proptest::collection::vec(any::<u64>(), 1..=1);
        (any::<u32>(), 0u64..1 << 48, 0..MAX_TIME_US, words, any::<u32>()).prop_map(
            |(path, highest, arrival_us, mut words, proof)| {
                let last = words.last_mut().expect("one at least");
                *last = *last & (u64::MAX >> (63 - highest % 64)) | 1 << (highest % 64);
                PathReport { path, highest, arrival_us, arrived: Arrived { words, proof } }
            },
        )
    }

    proptest! {
        #[test]
        fn parse_of_emit_is_identity(
            sequence: u32, sent_us in 0..MAX_TIME_US, kib: Option<u16>, floor: u32, more in 0usize..130,
            paths in proptest::collection::vec(path_report(), 0..=MAX_REPORTED_PATHS),
            ranks in proptest::collection::vec(proptest::option::of(0u16..=1024), 0..=MAX_REPORTED_BLOCKS),
        ) {
            let blocks = BlockReport::fit(paths.len(), ranks.into_iter());
            let mut paths = paths;
            let intake = kib.map(|kib| u64::from(kib) * KIB);
            let mut room = blocks.room_for_words(paths.len()) - paths.len();
            for path in &mut paths {
                let more = room.min(more).min((path.highest / 64) as usize);
                path.arrived.words.splice(0..0, std::iter::repeat_n(u64::MAX, more));
                room -= more;
            }
            let report = Report { sequence, sent_us, intake, paths, floor, blocks };
            let mut out = Vec::new();
            report.emit(&mut out);
            prop_assert!(out.len() <= 1200);
            prop_assert_eq!(Report::parse(&out), Ok(report));
        }

        #[test]
        fn times_whose_differences_do_not_fit_are_refused(sent_us in MAX_TIME_US.., arrival_us in MAX_TIME_US..) {
            let arrived = Arrived { words: vec![1], proof: 0 };
            let path = PathReport { path: 0, highest: 0, arrival_us: 0, arrived };
            let report = |sent_us, arrival_us| {
                let paths = vec![PathReport { arrival_us, ..path.clone() }];
                let mut out = Vec::new();
                let blocks = BlockReport::default();
                Report { sequence: 1, sent_us, intake: None, paths, floor: 0, blocks }.emit(&mut out);
                Report::parse(&out)
            };
            prop_assert!(report(1, 1).is_ok());
            prop_assert!(report(sent_us, 1).is_err() && report(1, arrival_us).is_err());
        }

        #[test]
        fn an_intake_is_told_in_whole_kib_and_no_more_than_fits(intake: u64) {
            let (sequence, sent_us, floor) = (1, 1, 0);
            let mut out = Vec::new();
            let blocks = BlockReport::default();
            Report { sequence, sent_us, intake: Some(intake), paths: Vec::new(), floor, blocks }.emit(&mut out);
            let told = Report::parse(&out).expect("well-formed").intake;
            prop_assert_eq!(told, Some(intake.min(u64::from(u16::MAX) * KIB) / KIB * KIB));
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Report::parse(&bytes);
        }
    }
}
