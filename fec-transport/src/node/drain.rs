//! The end of a process without harm: nothing new is taken, what passes through goes around, what ends here may finish.

use super::Node;
use crate::event::SessionId;
use crate::time::Time;

impl Node {
    /// Takes nothing new from now on: peers can open no sessions here, and no circuits through this node. Circuits that
    /// it relays are torn down with a notice that lets their originators go around it at once. Sessions that are open
    /// go on, with all their streams, until somebody [closes](Self::close) them.
    pub fn drain(&mut self, now: Time) {
        self.now = now;
        self.is_draining = true;
        self.circuits.drain();
    }

    /// The sessions with streams that are open in either direction.
    pub fn busy_sessions(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.sessions.iter().filter(|(_, session)| session.stream_count() > 0).map(|(id, _)| *id)
    }
}
