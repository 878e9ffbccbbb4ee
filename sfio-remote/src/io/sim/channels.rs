//! What is on its way between two processes.

use std::collections::{BTreeMap, VecDeque};

use fec_transport::{SessionId, Time};

use crate::sim::{Dice, Side, Signal};

/// Signals on their way, those of one session and direction in order.
#[derive(Debug, Default)]
pub(super) struct Channels(BTreeMap<(SessionId, Side), VecDeque<(Time, Signal)>>);

impl Channels {
    /// A signal leaves; it arrives at `at`, or with the one before it.
    pub(super) fn send(&mut self, at: Time, signal: Signal) {
        let channel = self.0.entry((signal.session, signal.to)).or_default();
        let at = channel.back().map_or(at, |(before, _)| at.max(*before));
        channel.push_back((at, signal));
    }

    /// When the next signal arrives, and which, among those that `may_arrive`.
    pub(super) fn next(
        &self,
        may_arrive: impl Fn(SessionId, Side) -> bool,
    ) -> Option<(Time, (SessionId, Side))> {
        let heads = self.0.iter().filter_map(|(key, channel)| Some((channel.front()?.0, *key)));
        heads.filter(|(_, (session, side))| may_arrive(*session, *side)).min()
    }

    /// Takes the next signal of a channel.
    pub(super) fn take(&mut self, key: (SessionId, Side)) -> Option<Signal> {
        let channel = self.0.get_mut(&key)?;
        let (_, signal) = channel.pop_front()?;
        if channel.is_empty() {
            self.0.remove(&key);
        }
        Some(signal)
    }

    /// The process that sends here has died: some of what is on its way is lost, with everything behind it.
    pub(super) fn cut(&mut self, key: (SessionId, Side), dice: &mut Dice) {
        if let Some(channel) = self.0.get_mut(&key) {
            let kept = dice.below(channel.len() + 1);
            channel.truncate(kept);
        }
    }

    /// Nothing of this arrives any more.
    pub(super) fn clear(&mut self, key: (SessionId, Side)) {
        self.0.remove(&key);
    }
}
