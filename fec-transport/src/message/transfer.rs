//! What a pending operation does.

use bytes::Bytes;

use super::operation::{AddressId, Tag};
use super::room::Room;

/// What a pending operation does.
#[derive(Debug)]
pub(super) enum Transfer {
    /// The message itself lies with the address's link.
    Send {
        to: AddressId,
    },
    Receive(Receive),
}

/// A receive, waiting or paired with a message that comes in parts.
#[derive(Debug)]
pub(super) struct Receive {
    from: AddressId,
    tag: Tag,
    room: Room,
    coming: Option<Coming>,
}

/// A large message on its way into a room.
#[derive(Debug, Clone, Copy)]
struct Coming {
    /// The sender's number of it.
    message: u64,
    length: u64,
    received: u64,
}

/// Parts of a message that do not belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stray;

impl Transfer {
    /// The room that goes back to the caller.
    pub(super) fn into_room(self) -> Option<Room> {
        match self {
            Transfer::Send { .. } => None,
            Transfer::Receive(receive) => Some(receive.room),
        }
    }

    pub(super) fn as_receive(&mut self) -> Option<&mut Receive> {
        match self {
            Transfer::Send { .. } => None,
            Transfer::Receive(receive) => Some(receive),
        }
    }
}

impl Receive {
    pub(super) fn new(from: AddressId, tag: Tag, room: Room) -> Receive {
        Receive { from, tag, room, coming: None }
    }

    pub(super) fn from(&self) -> AddressId {
        self.from
    }

    pub(super) fn tag(&self) -> Tag {
        self.tag
    }

    /// The number of the message that is on its way, if one is.
    pub(super) fn message(&self) -> Option<u64> {
        self.coming.map(|coming| coming.message)
    }

    /// How long a message may be, in bytes.
    pub(super) fn room(&self) -> u64 {
        self.room.size()
    }

    /// Takes a message that is here, and fits.
    pub(super) fn fill(&mut self, pieces: &[Bytes]) {
        let mut offset = 0;
        for piece in pieces {
            self.room.put(offset, piece);
            offset += piece.len() as u64;
        }
    }

    /// From now on this message is on its way.
    pub(super) fn expect(&mut self, message: u64, length: u64) {
        self.coming = Some(Coming { message, length, received: 0 });
    }

    /// Takes a part of the message; gives its length once all of it is here.
    pub(super) fn take(&mut self, offset: u64, bytes: &[u8]) -> Result<Option<u64>, Stray> {
        let coming = self.coming.as_mut().ok_or(Stray)?;
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= coming.length).ok_or(Stray)?;
        debug_assert!(end <= self.room.size(), "it was compared with the room before it was granted");
        self.room.put(offset, bytes);
        coming.received += bytes.len() as u64;
        Ok((coming.received >= coming.length).then_some(coming.length))
    }
}
