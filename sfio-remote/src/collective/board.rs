//! What the other ranks have said in the call that this rank is in.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::error::CollectiveError;
use super::exchange::{Data, Fault};
use super::group::Rank;
use super::message::{Announcement, Body, Ending};
use super::payload::{Codecs, Packed};
use super::pieces::Pieces;
use crate::wire::MAX_RUN_TABLE_BYTES;

/// What the ranks of a group have said in one call; this one, too.
#[derive(Debug)]
pub(super) struct Board {
    announcements: Vec<Option<Announcement>>,
    shares: Vec<Option<Vec<u64>>>,
    tables: Vec<Option<Tables>>,
    endings: Vec<Option<(Ending, Bytes)>>,
    grown: Vec<Option<Option<String>>>,
    grants: VecDeque<(Rank, u64)>,
    data: VecDeque<(Rank, Data)>,
    /// Ranks that will say nothing more, and why.
    gone: BTreeMap<Rank, CollectiveError>,
}

/// What a rank has in the domain of this one, as it came.
#[derive(Debug, Clone)]
enum Tables {
    /// In a message, with the length of each table.
    Packed(Vec<u32>, Packed),
    /// From this rank itself.
    Pieces(Pieces),
}

impl Board {
    pub(super) fn new(size: usize) -> Board {
        Board {
            announcements: vec![None; size],
            shares: vec![None; size],
            tables: vec![None; size],
            endings: vec![None; size],
            grown: vec![None; size],
            grants: VecDeque::new(),
            data: VecDeque::new(),
            gone: BTreeMap::new(),
        }
    }

    /// A rank has said something.
    pub(super) fn note(&mut self, from: Rank, body: Body, payload: Bytes) {
        let at = from.index();
        match body {
            Body::Announce(announcement) => self.announcements[at] = Some(announcement),
            Body::Shares(shares) => self.shares[at] = Some(shares),
            Body::Runs { lengths, format } => {
                self.tables[at] = Some(Tables::Packed(lengths, Packed { format, bytes: payload }));
            }
            Body::Grant { until } => self.grants.push_back((from, until)),
            Body::Data { until, missing, format } => {
                let packed = Packed { format, bytes: payload };
                self.data.push_back((from, Data { until, missing, packed }));
            }
            Body::Ended(ending) => self.endings[at] = Some((ending, payload)),
            Body::Grown { failed } => self.grown[at] = Some(failed),
            Body::GivenUp { because_of, fault: None } => {
                self.leave(from, CollectiveError::RankLost { rank: Rank(because_of) });
            }
            Body::GivenUp { because_of, fault: Some(fault) } => {
                self.leave(from, CollectiveError::Broken { rank: Rank(because_of), fault });
            }
        }
    }

    /// What a rank has in the domain of this one, without a message.
    pub(super) fn note_pieces(&mut self, from: Rank, pieces: Pieces) {
        self.tables[from.index()] = Some(Tables::Pieces(pieces));
    }

    /// Nothing more comes from a rank.
    pub(super) fn leave(&mut self, rank: Rank, because: CollectiveError) {
        self.gone.entry(rank).or_insert(because);
    }

    /// Why the call cannot end: a rank that is gone has not ended its part. With `to_grow` its part is longer.
    pub(super) fn missing(&self, to_grow: bool) -> Option<&CollectiveError> {
        let has_ended = |rank: &Rank| {
            let at = rank.index();
            if to_grow { self.grown[at].is_some() } else { self.endings[at].is_some() }
        };
        self.gone.iter().find(|(rank, _)| !has_ended(rank)).map(|(_, error)| error)
    }

    /// The announcements, once all have come.
    pub(super) fn announcements(&self) -> Option<Vec<&Announcement>> {
        self.announcements.iter().map(Option::as_ref).collect()
    }

    /// The shares of all ranks, once all have come.
    pub(super) fn shares(&self) -> Option<Vec<Vec<u64>>> {
        self.shares.iter().cloned().collect()
    }

    /// What each rank has in the domain of this one, once all have told it.
    ///
    /// # Errors
    /// Which rank has told what cannot be, and what that is.
    pub(super) fn take_pieces(&mut self, codecs: &mut Codecs<'_>) -> Result<Option<Vec<Pieces>>, Fault> {
        if !self.tables.iter().all(Option::is_some) {
            return Ok(None);
        }
        let tables = Rank::all(self.tables.len()).zip(std::mem::take(&mut self.tables).into_iter().flatten());
        let pieces = tables.map(|(rank, tables)| tables.pieces(codecs).map_err(|fault| (rank, fault)));
        pieces.collect::<Result<_, _>>().map(Some)
    }

    /// How each rank has ended, and what it has to tell, once all have.
    pub(super) fn endings(&self) -> Option<Vec<&(Ending, Bytes)>> {
        self.endings.iter().map(Option::as_ref).collect()
    }

    /// Whether extending has failed, by rank, once all have done it.
    pub(super) fn grown(&self) -> Option<Vec<Option<&str>>> {
        self.grown.iter().map(|grown| grown.as_ref().map(|failed| failed.as_deref())).collect()
    }

    pub(super) fn next_grant(&mut self) -> Option<(Rank, u64)> {
        self.grants.pop_front()
    }

    pub(super) fn next_data(&mut self) -> Option<(Rank, Data)> {
        self.data.pop_front()
    }
}

impl Tables {
    fn pieces(self, codecs: &mut Codecs<'_>) -> Result<Pieces, String> {
        match self {
            Tables::Pieces(pieces) => Ok(pieces),
            Tables::Packed(lengths, packed) => {
                // Nothing is unpacked, and no memory taken for it, that cannot be tables.
                let too_long = lengths.iter().find(|length| **length as usize > MAX_RUN_TABLE_BYTES);
                if let Some(length) = too_long {
                    return Err(format!("it sent a run table of {length} bytes"));
                }
                let plain_bytes = lengths.iter().map(|length| u64::from(*length)).sum();
                Pieces::parse(&lengths, codecs.unpack(packed, plain_bytes)?)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::payload::Packer;
    use crate::compression::Coder;

    #[test]
    fn a_run_table_that_claims_more_than_one_can_have_is_refused_before_it_is_unpacked() {
        let (mut packer, mut coder) = (Packer::default(), Coder::default());
        let mut codecs = Codecs { packer: &mut packer, processor: &mut coder };
        let mut board = Board::new(1);
        let body = Body::Runs { lengths: vec![u32::MAX; 4], format: 1 };
        board.note(Rank(0), body, Bytes::from_static(b"a few bytes"));
        let (rank, fault) = board.take_pieces(&mut codecs).expect_err("it is too long");
        assert_eq!((rank, &*fault), (Rank(0), "it sent a run table of 4294967295 bytes"));
    }
}
