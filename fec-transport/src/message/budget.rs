//! Memory for messages that come before somebody takes them: how much each peer may have, and all of them together.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::link::LinkId;
use crate::wire::message::Kind;

/// What a peer may send of each kind before it is told more, in charged bytes. A peer for which there is not even that
/// is not let in.
pub(super) const FIRST_WINDOW: u64 = 32 << 10;

/// What a message counts beside its own bytes: its place in queues and maps.
const ENVELOPE: u64 = 128;

/// Of what is left for all peers, each new one gets one part of so many.
const PARTS: u64 = 16;

/// The bounds on what peers may have in the memory of a messenger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that a peer may have here of unexpected messages that nobody has taken, and as many of expected ones for
    /// which no receive was posted; 128 are counted for each message beside its own. Default 1 MiB.
    pub per_peer: u64,
    /// Bytes of both kinds that all peers together may have. Default 64 MiB: more than 50 peers can have all that one
    /// may, the next ones get less.
    pub in_all: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { per_peer: 1 << 20, in_all: 64 << 20 }
    }
}

/// A message to keep, in memory of its own: the block that it came in is as large as its sender likes, and would stay
/// for as long.
pub(super) fn kept(pieces: &[Bytes]) -> Bytes {
    pieces.concat().into()
}

/// Whose messages they are, whatever connection they came over.
pub(super) type Holder = Arc<str>;

/// A message's part of the budget.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) link: LinkId,
    pub(super) holder: Holder,
    pub(super) kind: Kind,
    pub(super) charge: u64,
}

#[cfg(test)]
impl Held {
    /// Of nobody.
    pub(super) fn for_tests() -> Held {
        Held { link: LinkId(0), holder: Arc::from("nobody"), kind: Kind::Expected, charge: 0 }
    }
}

/// What a message of so many bytes counts; of one that is only offered the sender keeps the bytes.
pub(super) fn charge(bytes: usize) -> u64 {
    ENVELOPE + bytes as u64
}

/// How much each peer has of each kind.
#[derive(Debug)]
pub(super) struct Budget {
    limits: Limits,
    used: u64,
    reserved: BTreeMap<(Holder, Kind), u64>,
}

impl Budget {
    pub(super) fn new(limits: Limits) -> Budget {
        Budget { limits, used: 0, reserved: BTreeMap::new() }
    }

    /// Sets a window aside; gives its size, or nothing if there is not enough.
    pub(super) fn reserve(&mut self, holder: &Holder, kind: Kind) -> Option<u64> {
        let held = self.reserved.get(&(Arc::clone(holder), kind)).copied().unwrap_or(0);
        let left = self.limits.in_all.saturating_sub(self.used);
        let own = self.limits.per_peer.saturating_sub(held);
        let window = own.min((left / PARTS).max(FIRST_WINDOW));
        if window < FIRST_WINDOW || window > left {
            return None;
        }
        self.used += window;
        *self.reserved.entry((Arc::clone(holder), kind)).or_default() += window;
        Some(window)
    }

    /// So much of what was set aside is free again.
    pub(super) fn give_back(&mut self, holder: &Holder, kind: Kind, amount: u64) {
        let key = (Arc::clone(holder), kind);
        let Some(held) = self.reserved.get_mut(&key) else { return };
        let amount = amount.min(*held);
        *held -= amount;
        self.used -= amount;
        if *held == 0 {
            self.reserved.remove(&key);
        }
    }

    /// What is set aside for all.
    pub(super) fn used(&self) -> u64 {
        self.used
    }
}
