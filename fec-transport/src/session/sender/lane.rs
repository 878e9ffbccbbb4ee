//! Blocks of equal urgency that have symbols to send.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::session::block::SendBlock;
use crate::session::paths::PathId;

/// Bulk blocks of which the first sending may be under way at once: enough that a fast path does not wait for a slow
/// one's share of an older block, few enough that the shares within a block mean something.
pub(super) const BULK_SENDING: usize = 6;
/// The same where a mask counts on every path's being no further behind than a block: with a link dead, nothing hides
/// it.
pub(super) const MASKED_SENDING: usize = 2;
/// The same for urgent blocks, which are small.
pub(super) const URGENT_SENDING: usize = 256;

/// Blocks of equal urgency that have symbols to send.
#[derive(Debug)]
pub(super) struct Lane {
    /// Blocks whose first sending is under way, oldest first.
    sending: VecDeque<u32>,
    /// Blocks that owe repair symbols.
    owing: BTreeSet<u32>,
    most_sending: usize,
}

/// What a lane has for a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Take {
    /// So many symbols of this block.
    Symbols(u32, usize),
    /// Some that do not fit into the run.
    TooLarge,
    Nothing,
}

impl Lane {
    pub(super) fn new(most_sending: usize) -> Lane {
        Lane { sending: VecDeque::new(), owing: BTreeSet::new(), most_sending }
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.owing.is_empty() || !self.sending.is_empty()
    }

    /// Whether a block has a quota for `path`.
    pub(super) fn has(&self, blocks: &BTreeMap<u32, Box<SendBlock>>, path: PathId) -> bool {
        let has_quota = |id: &u32| blocks.get(id).is_some_and(|block| block.has_quota(Some(path)));
        self.sending.iter().any(has_quota)
    }

    /// How many symbols of first sendings `path` still has to carry.
    pub(super) fn backlog(&self, blocks: &BTreeMap<u32, Box<SendBlock>>, path: PathId) -> usize {
        self.sending.iter().filter_map(|id| blocks.get(id)).map(|block| block.quota(path)).sum()
    }

    /// Whether a block owes repair symbols.
    pub(super) fn owes_any(&self) -> bool {
        !self.owing.is_empty()
    }

    /// Whether another block may begin.
    pub(super) fn has_room(&self) -> bool {
        self.sending.len() < self.most_sending
    }

    /// A block's first sending begins.
    pub(super) fn begin(&mut self, id: u32) {
        self.sending.push_back(id);
    }

    /// A block owes repair symbols.
    pub(super) fn owes(&mut self, id: u32) {
        self.owing.insert(id);
    }

    /// A block is gone.
    pub(super) fn forget(&mut self, id: u32) {
        self.owing.remove(&id);
        self.sending.retain(|other| *other != id);
    }

    /// Takes symbols of one block for `path`, as many as there is `room` for by their size: of the oldest block that
    /// has some, what is owed first, then the path's quota. What is owed does not go where it may be lost: to a path
    /// that is not trusted.
    pub(super) fn take(
        &mut self,
        blocks: &mut BTreeMap<u32, Box<SendBlock>>,
        path: Option<PathId>,
        room: &dyn Fn(usize) -> usize,
        is_trusted: bool,
    ) -> Take {
        let owing = self.owing.first().copied().filter(|_| is_trusted);
        let has_quota = |id: &&u32| blocks.get(id).is_some_and(|block| block.has_quota(path));
        let sending = self.sending.iter().find(has_quota).copied();
        // What is owed of a younger block does not keep an older one waiting.
        let owing = owing.filter(|owing| sending.is_none_or(|sending| *owing <= sending));
        let Some(id) = owing.or(sending) else { return Take::Nothing };
        let Some(block) = blocks.get_mut(&id) else { return Take::Nothing };
        // Somebody waits for each urgent symbol: it goes alone.
        let most =
            room(block.geometry().symbol_size).min(if block.class().is_urgent() { 1 } else { usize::MAX });
        if most == 0 {
            return Take::TooLarge;
        }
        let count = if owing.is_some() { block.take_owed(most) } else { block.take_quota(path, most) };
        if owing.is_some() && !block.owes() {
            self.owing.remove(&id);
        } else if owing.is_none() && block.unsent() == 0 {
            self.sending.retain(|other| *other != id);
        }
        Take::Symbols(id, count)
    }

    /// What a dead path was to carry of first sendings is owed by the others: all of it if somebody waits for the
    /// blocks, else as much as they cannot do without.
    pub(super) fn on_path_death(&mut self, blocks: &mut BTreeMap<u32, Box<SendBlock>>, path: PathId) {
        for id in &self.sending {
            let Some(block) = blocks.get_mut(id) else { continue };
            let dropped = block.forget_path(path);
            let deficit = u16::try_from(block.deficit()).unwrap_or(u16::MAX);
            let owed = if block.class().is_urgent() { dropped } else { deficit.min(dropped) };
            if owed > 0 {
                block.owe(owed);
                self.owing.insert(*id);
            }
        }
        self.sending.retain(|id| blocks.get(id).is_some_and(|block| block.unsent() > 0));
    }
}
