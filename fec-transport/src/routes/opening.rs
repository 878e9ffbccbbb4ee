//! A session that is being opened: the handshakes that are on their way, and when the next one leaves.
//!
//! Each circuit that is tried carries a handshake of its own. Usually the first one is answered within a round trip. If
//! no answer has come after a moment, its path may be dead, and another one is tried beside it, as programs do with the
//! addresses of a host [RFC 8305]. The first answer opens the session.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::Liveness;
use crate::crypto::handshake::Initiator;
use crate::event::CloseReason;
use crate::time::Time;
use crate::wire::circuit::CircuitId;

/// How long a handshake is alone on its way: a dead path costs so much. On a path with a longer round trip a second
/// handshake is made in vain, which is some 0.2 ms of work and 600 bytes.
const HEAD_START: Duration = Duration::from_millis(100);

/// A handshake that waits for its answer, and the token of the session that it is to open.
pub(crate) type Handshake = (Initiator, u64);

/// A session that is being opened.
#[derive(Debug)]
pub(super) struct Opening {
    deadline: Time,
    patience: Duration,
    /// The handshakes that were not answered yet.
    handshakes: BTreeMap<CircuitId, Handshake>,
    /// Until when the latest of them is not joined by another one.
    alone_until: Time,
    last_refusal: Option<CloseReason>,
}

impl Opening {
    pub(super) fn new(now: Time, liveness: &Liveness) -> Opening {
        let patience = liveness.connect;
        Opening {
            deadline: now + patience,
            patience,
            handshakes: BTreeMap::new(),
            alone_until: now,
            last_refusal: None,
        }
    }

    /// A handshake leaves.
    pub(super) fn sent(&mut self, now: Time, circuit: CircuitId, handshake: Handshake) {
        self.alone_until = now + HEAD_START;
        self.handshakes.insert(circuit, handshake);
    }

    /// A circuit is gone, perhaps because it was refused.
    pub(super) fn lost(&mut self, circuit: CircuitId, refusal: Option<CloseReason>) {
        self.handshakes.remove(&circuit);
        self.last_refusal = refusal.or(self.last_refusal.take());
    }

    /// The answer over this circuit opens the session: gives the handshake that it answers, and the circuits of the
    /// others, which are of no use any more.
    pub(super) fn answered(mut self, circuit: CircuitId) -> (Option<Handshake>, Vec<CircuitId>) {
        let handshake = self.handshakes.remove(&circuit);
        (handshake, self.handshakes.into_keys().collect())
    }

    /// When the next route may be tried.
    pub(super) fn free_at(&self) -> Option<Time> {
        (!self.handshakes.is_empty()).then_some(self.alone_until)
    }

    /// When the session is given up.
    pub(super) fn deadline(&self) -> Time {
        self.deadline
    }

    /// Why it is given up.
    pub(super) fn take_reason(&mut self) -> CloseReason {
        self.last_refusal.take().unwrap_or(CloseReason::no_path(self.patience))
    }
}
