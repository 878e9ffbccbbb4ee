//! Frames on their way out, in order, while codecs work on some of them.

use std::collections::VecDeque;

use bytes::Bytes;

use super::frame::emit;
use super::{CodecOutcome, CodecResult, Format, JobTicket};

/// How many frames of one transfer are made ahead: so many of its codec jobs can run at once.
const FRAMES_AHEAD: usize = 4;

/// The frames of one transfer that are not sent yet.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    frames: VecDeque<Queued>,
}

#[derive(Debug)]
struct Queued {
    plain: u32,
    /// What is sent if it does not become shorter.
    pieces: Vec<Bytes>,
    /// The job that packs it.
    waits_for: Option<JobTicket>,
    packed: Option<(Format, Bytes)>,
}

/// A frame that can be sent.
#[derive(Debug)]
pub(crate) struct ReadyFrame {
    /// Its header, and what follows.
    pub(crate) chunks: Vec<Bytes>,
    /// How many bytes it has before they are packed.
    pub(crate) plain: u64,
    /// How many follow its header.
    pub(crate) packed: u64,
}

impl Framer {
    /// Whether another frame may be made.
    pub(crate) fn has_room(&self) -> bool {
        self.frames.len() < FRAMES_AHEAD
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The bytes of its frames before they are packed.
    pub(crate) fn plain_bytes(&self) -> u64 {
        self.frames.iter().map(|frame| u64::from(frame.plain)).sum()
    }

    /// Another frame, which a job packs if there is one.
    pub(crate) fn push(&mut self, pieces: Vec<Bytes>, waits_for: Option<JobTicket>) {
        let plain: usize = pieces.iter().map(Bytes::len).sum();
        // Frames are far shorter than what 32 bits count.
        self.frames.push_back(Queued { plain: plain as u32, pieces, waits_for, packed: None });
    }

    /// A job has ended.
    pub(crate) fn packed(&mut self, result: &CodecResult) {
        let CodecOutcome::Packed { packed, trial } = &result.outcome else { return };
        if let Some(frame) = self.frames.iter_mut().find(|frame| frame.waits_for == Some(result.ticket)) {
            frame.waits_for = None;
            frame.packed = packed.clone().map(|packed| (trial.codec.format(), packed));
        }
    }

    /// The next frame, if it is ready.
    pub(crate) fn pop(&mut self) -> Option<ReadyFrame> {
        if self.frames.front()?.waits_for.is_some() {
            return None;
        }
        let frame = self.frames.pop_front()?;
        let plain = frame.plain;
        let chunks = match frame.packed {
            Some((format, packed)) => emit(format, plain, [packed]),
            None => emit(Format::Plain, plain, frame.pieces),
        };
        let packed = chunks.iter().skip(1).map(|chunk| chunk.len() as u64).sum();
        Some(ReadyFrame { chunks, plain: plain.into(), packed })
    }
}
