//! A read: from the disk to the stream, a bounded amount ahead.

use std::collections::VecDeque;

use bytes::Bytes;

use super::context::Context;
use super::extents::{ExtentCursor, described, total};
use super::outbox::Outbox;
use super::packing::Packer;
use super::transfer::Progress;
use crate::compression::{CodecResult, Packing};
use crate::name::SubfilePath;
use crate::remote_error::{ErrorKind, RemoteError};
use crate::store::{DiskAction, Ticket};
use crate::transport::Transport;
use crate::wire::RunTable;

/// A read whose reply was begun.
#[derive(Debug)]
pub(super) struct Emission {
    path: SubfilePath,
    extents: ExtentCursor,
    /// How many bytes of the reply no disk operation has been asked for.
    unread: u64,
    /// The disk operations that are under way or have ended, in the order of the payload.
    ahead: VecDeque<Piece>,
    /// Makes frames of what was read, if the payload has frames.
    packer: Option<Packer>,
}

#[derive(Debug)]
struct Piece {
    ticket: Ticket,
    length: u64,
    data: Option<Bytes>,
}

impl Emission {
    /// A reply with `payload` bytes of the runs.
    pub(super) fn new(path: SubfilePath, runs: &RunTable, payload: u64, packing: Packing) -> Emission {
        Emission {
            path,
            extents: ExtentCursor::new(runs),
            unread: payload,
            ahead: VecDeque::new(),
            packer: packing.has_frames().then(|| Packer::new(packing)),
        }
    }

    /// The payload memory that belongs to no running disk operation.
    pub(super) fn held(&self) -> u64 {
        let read = self.ahead.iter().filter(|piece| piece.data.is_some()).map(|piece| piece.length);
        read.sum::<u64>() + self.packer.as_ref().map_or(0, Packer::held)
    }

    /// Whether all of the payload was handed on.
    pub(super) fn is_complete(&self) -> bool {
        self.unread == 0 && self.ahead.is_empty() && self.packer.as_ref().is_none_or(Packer::is_empty)
    }

    /// Reads ahead, and hands on what is next.
    pub(super) fn step<T: Transport>(&mut self, cx: &mut Context<'_, T>, outbox: &mut Outbox) -> Progress {
        let handed_on = match self.packer {
            Some(_) => self.hand_on_frames(outbox, cx),
            None => self.hand_on(outbox),
        };
        let asked = self.read_ahead(cx);
        if handed_on || asked { Progress::Made } else { Progress::Blocked }
    }

    /// A read has ended. Gives how many bytes stay in memory.
    pub(super) fn read(&mut self, ticket: Ticket, data: Bytes) -> Result<u64, RemoteError> {
        let Some(piece) = self.ahead.iter_mut().find(|piece| piece.ticket == ticket) else { return Ok(0) };
        if data.len() as u64 != piece.length {
            return Err(RemoteError::new(ErrorKind::Changed, self.path.to_string()));
        }
        piece.data = Some(data);
        Ok(piece.length)
    }

    fn hand_on(&mut self, outbox: &mut Outbox) -> bool {
        if !outbox.is_empty() {
            return false;
        }
        let Some(front) = self.ahead.front_mut() else { return false };
        let Some(data) = front.data.take() else { return false };
        outbox.push(data, front.length);
        self.ahead.pop_front();
        true
    }

    /// Makes frames of what was read, and hands on those that are ready.
    fn hand_on_frames<T: Transport>(&mut self, outbox: &mut Outbox, cx: &mut Context<'_, T>) -> bool {
        let Some(packer) = &mut self.packer else { return false };
        let mut any = false;
        while let Some(front) = self.ahead.front_mut()
            && let Some(data) = &mut front.data
        {
            any |= packer.take(&self.path, data, cx);
            front.length = data.len() as u64;
            if front.length > 0 {
                break;
            }
            self.ahead.pop_front();
        }
        packer.hand_on(outbox, cx) || any
    }

    /// A codec job has ended.
    pub(super) fn coded<T: Transport>(&mut self, result: &CodecResult, cx: &mut Context<'_, T>) {
        if let Some(packer) = &mut self.packer {
            packer.coded(&self.path, result, cx);
        }
    }

    fn read_ahead<T: Transport>(&mut self, cx: &mut Context<'_, T>) -> bool {
        if self.unread == 0 || self.ahead.len() >= cx.shared.config.operations_per_transfer {
            return false;
        }
        let wanted = self.unread.min(cx.shared.config.piece_bytes);
        if cx.available_memory() < wanted {
            cx.wait_for_memory();
            return false;
        }
        let extents = self.extents.take(wanted);
        let (length, reserved) = (total(&extents), total(&extents) + described(&extents));
        cx.take_memory(reserved);
        let ticket = cx.submit(&self.path, DiskAction::Read { extents }, reserved);
        self.unread -= length;
        self.ahead.push_back(Piece { ticket, length, data: None });
        true
    }
}
