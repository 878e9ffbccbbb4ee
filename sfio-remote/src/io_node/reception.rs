//! A write: payload from the stream to the disk, in pieces, as it arrives.

use bytes::Bytes;
use fec_transport::{Read, StreamError};

use super::context::Context;
use super::extents::{ExtentCursor, described, total};
use super::transfer::Progress;
use super::unpacking::{Step, Unpacker};
use crate::compression::{CodecResult, Packing};
use crate::dataset::Territory;
use crate::name::SubfilePath;
use crate::remote_error::{ErrorKind, RemoteError};
use crate::store::{DiskAction, DiskReply};
use crate::transport::Transport;
use crate::wire::RunTable;

/// Below this much free memory a transfer waits instead of writing crumbs to the disk.
pub(super) const LEAST_READ: u64 = 16 << 10;

/// A write whose payload arrives.
#[derive(Debug)]
pub(super) struct Reception {
    pub(super) path: SubfilePath,
    is_written_once: bool,
    /// Where the payload goes that has not been handed to the disk.
    extents: ExtentCursor,
    /// How many bytes have yet to arrive.
    missing: u64,
    /// What arrived since the last disk operation.
    piece: Vec<Bytes>,
    piece_bytes: u64,
    writes_running: usize,
    /// The size of the subfile before the first write to it; none before the first result.
    size_before: Option<u64>,
    /// Has the payload back from its frames, if it has frames.
    unpacker: Option<Unpacker>,
}

impl Reception {
    /// A write whose payload is packed so; `early` of it came together with the request.
    pub(super) fn new<T: Transport>(
        path: SubfilePath,
        runs: &RunTable,
        (packing, early): (Packing, Bytes),
        cx: &mut Context<'_, T>,
    ) -> Reception {
        let mut reception = Reception::empty(path, runs);
        match packing.has_frames() {
            true => reception.unpacker = Some(Unpacker::new(packing, runs.payload(), early)),
            false => reception.arrived(early, cx),
        }
        reception
    }

    fn empty(path: SubfilePath, runs: &RunTable) -> Reception {
        Reception {
            unpacker: None,
            is_written_once: matches!(Territory::of(&path), Territory::Dataset(_)),
            path,
            extents: ExtentCursor::new(runs),
            missing: runs.payload(),
            piece: Vec::new(),
            piece_bytes: 0,
            writes_running: 0,
            size_before: None,
        }
    }

    /// The payload memory that belongs to no disk operation.
    pub(super) fn held(&self) -> u64 {
        self.piece_bytes + self.unpacker.as_ref().map_or(0, Unpacker::held)
    }

    /// The size before, once everything has arrived and is written.
    pub(super) fn outcome(&self) -> Option<u64> {
        let idle = self.missing == 0 && self.piece.is_empty() && self.writes_running == 0;
        if idle { self.size_before } else { None }
    }

    /// Takes bytes that arrived; ones behind the payload are ignored.
    fn arrived<T: Transport>(&mut self, mut bytes: Bytes, cx: &mut Context<'_, T>) {
        bytes.truncate(usize::try_from(self.missing).unwrap_or(usize::MAX));
        cx.take_memory(bytes.len() as u64);
        self.put(bytes);
    }

    /// Takes the next bytes of the payload, which fit; their memory was taken.
    fn put(&mut self, bytes: Bytes) {
        self.missing -= bytes.len() as u64;
        self.piece_bytes += bytes.len() as u64;
        if !bytes.is_empty() {
            self.piece.push(bytes);
        }
    }

    /// A codec job has ended.
    ///
    /// # Errors
    /// If a frame does not become what it should.
    pub(super) fn coded(&mut self, result: CodecResult) -> Result<(), RemoteError> {
        let Some(unpacker) = &mut self.unpacker else { return Ok(()) };
        unpacker.coded(result).map_err(|error| RemoteError::new(ErrorKind::BadRequest, error.to_string()))
    }

    /// Reads what there is, as far as memory and disk keep up.
    pub(super) fn step<T: Transport>(
        &mut self,
        cx: &mut Context<'_, T>,
    ) -> Result<Result<Progress, RemoteError>, StreamError> {
        if let Err(sealed) = self.check_writer(cx) {
            return Ok(Err(sealed));
        }
        let room = cx.shared.config.piece_bytes.saturating_sub(self.piece_bytes);
        if self.missing == 0 || room == 0 {
            return Ok(Ok(self.flush(cx)));
        }
        if let Some(unpacker) = &mut self.unpacker {
            return Ok(match unpacker.step(room.min(self.missing), cx)? {
                Ok(Step::Bytes(bytes)) => {
                    self.put(bytes);
                    Ok(Progress::Made)
                }
                Ok(Step::Made) => Ok(Progress::Made),
                Ok(Step::NoMemory) => {
                    cx.wait_for_memory();
                    Ok(self.flush(cx))
                }
                Ok(Step::Blocked) => Ok(Progress::Blocked),
                Err(error) => Err(error),
            });
        }
        let available = cx.available_memory();
        if available < LEAST_READ {
            // What is held back now could be what others, or this transfer itself, wait for.
            cx.wait_for_memory();
            return Ok(Ok(self.flush(cx)));
        }
        match cx.read(room.min(available).min(self.missing))? {
            Read::Data { bytes, .. } => {
                self.arrived(bytes, cx);
                Ok(Ok(Progress::Made))
            }
            Read::Blocked => Ok(Ok(Progress::Blocked)),
            Read::Finished | Read::Lost { .. } => Ok(Err(self.cut_short())),
        }
    }

    /// Hands what arrived to the disk, if it can take another operation.
    pub(super) fn flush<T: Transport>(&mut self, cx: &mut Context<'_, T>) -> Progress {
        let is_busy = self.writes_running >= cx.shared.config.operations_per_transfer;
        if self.piece.is_empty() || is_busy || self.check_writer(cx).is_err() {
            return Progress::Blocked;
        }
        let extents = self.extents.take(self.piece_bytes);
        let bytes = total(&extents);
        let data = split_off(&mut self.piece, bytes);
        let description = described(&extents);
        cx.take_memory(description);
        cx.submit(&self.path, DiskAction::Write { extents, data }, bytes + description);
        self.piece_bytes -= bytes;
        self.writes_running += 1;
        Progress::Made
    }

    /// A write has ended; the memory that it held is free.
    pub(super) fn written(&mut self, reply: &DiskReply) {
        self.writes_running -= 1;
        // Writes of one transfer run at once: the smallest size is the one from before all of them.
        let size = self.size_before.map_or(reply.size_before, |size| size.min(reply.size_before));
        self.size_before = Some(size);
    }

    /// What is written once may have been sealed since the write began, for instance because it was published.
    fn check_writer<T: Transport>(&self, cx: &mut Context<'_, T>) -> Result<(), RemoteError> {
        match self.is_written_once {
            true => cx.shared.admission.write_once().check_writer(&self.path, cx.asker.stream.session),
            false => Ok(()),
        }
    }

    fn cut_short(&self) -> RemoteError {
        RemoteError::new(ErrorKind::BadRequest, format!("the payload ends {} bytes too early", self.missing))
    }
}

/// Takes the first `bytes` bytes off `pieces`.
fn split_off(pieces: &mut Vec<Bytes>, bytes: u64) -> Vec<Bytes> {
    let mut left = bytes as usize;
    let whole = pieces.iter().take_while(|piece| {
        let fits = piece.len() <= left;
        left -= if fits { piece.len() } else { 0 };
        fits
    });
    let whole = whole.count();
    let mut taken: Vec<Bytes> = pieces.drain(..whole).collect();
    if let Some(first) = pieces.first_mut().filter(|_| left > 0) {
        taken.push(first.split_to(left));
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_split_where_an_operation_ends() {
        let whole = Bytes::from_static(b"abcdefghij");
        for cut in 0..=10 {
            let mut pieces = vec![whole.slice(..3), whole.slice(3..4), whole.slice(4..)];
            let taken = split_off(&mut pieces, cut);
            assert_eq!(taken.concat(), whole[..cut as usize]);
            assert_eq!(pieces.concat(), whole[cut as usize..]);
            assert!(taken.iter().chain(&pieces).all(|piece| !piece.is_empty()));
        }
    }
}
