//! What is on a link, shared by its task and its handles.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quinn_udp::EcnCodepoint;

use super::port::Exit;
use super::shaper::Shaper;

/// How a packet leaves: by which socket, with which congestion bits.
#[derive(Debug, Clone)]
pub(super) struct Departure {
    pub(super) exit: Exit,
    pub(super) ecn: Option<EcnCodepoint>,
}

/// The state of a link that its handles may look at and change between two turns of its task.
#[derive(Debug)]
pub(super) struct Traffic {
    /// Indexed by [`Direction`](super::Direction).
    pub(super) shapers: [Shaper<Departure>; 2],
    pub(super) longest_pause: Duration,
    last_turn: Duration,
}

/// The traffic of a link under its lock, which a turn holds for as long as it takes.
#[derive(Debug, Clone)]
pub(super) struct SharedTraffic(Arc<Mutex<Traffic>>);

impl SharedTraffic {
    pub(super) fn new(shapers: [Shaper<Departure>; 2]) -> Self {
        let traffic = Traffic { shapers, longest_pause: Duration::ZERO, last_turn: Duration::ZERO };
        Self(Arc::new(Mutex::new(traffic)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Traffic> {
        // A panic elsewhere leaves a shaper at worst one packet short.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Traffic {
    /// A turn begins at `now`, the time since the start; gives when the one before began.
    pub(super) fn begin_turn(&mut self, now: Duration) -> Duration {
        let last_turn = std::mem::replace(&mut self.last_turn, now);
        self.longest_pause = self.longest_pause.max(now.saturating_sub(last_turn));
        last_turn
    }
}
