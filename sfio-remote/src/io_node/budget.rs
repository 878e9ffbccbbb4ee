//! The memory between network and disk.

use std::collections::BTreeSet;

use fec_transport::StreamId;
use fec_transport::overlay::MemberId;
use fec_transport::shares::Shares;

use crate::fair::FairQueue;

/// Counts payload bytes in memory, over all members and for each, and remembers which streams wait for some.
#[derive(Debug)]
pub(super) struct Budget {
    shares: Shares<MemberId>,
    waiting: FairQueue<MemberId, StreamId>,
    /// Whether anything was given back since the streams that wait were last called.
    released: bool,
}

/// Which members were called and wait again.
pub(super) type Called = BTreeSet<MemberId>;

impl Budget {
    /// Memory of `limit` bytes, of which each member may have `least` whatever others have.
    pub(super) fn new(limit: u64, least: u64) -> Budget {
        Budget { shares: Shares::new(limit, least), waiting: FairQueue::default(), released: false }
    }

    pub(super) fn used(&self) -> u64 {
        self.shares.used()
    }

    /// What each member has.
    pub(super) fn holders(&self) -> impl Iterator<Item = (MemberId, u64)> + '_ {
        self.shares.holders()
    }

    /// Whether `member` has anything.
    pub(super) fn holds(&self, member: MemberId) -> bool {
        self.shares.held(member) > 0
    }

    /// How much `member` may take now.
    pub(super) fn available(&self, member: MemberId) -> u64 {
        self.shares.available(member)
    }

    pub(super) fn take(&mut self, member: MemberId, bytes: u64) {
        self.shares.take(member, bytes);
    }

    pub(super) fn release(&mut self, member: MemberId, bytes: u64) {
        self.shares.give_back(member, bytes);
        self.released |= bytes > 0;
    }

    /// `stream` wants to be called when there may be more.
    pub(super) fn wait(&mut self, member: MemberId, stream: StreamId) {
        self.waiting.push(member, stream);
    }

    /// `stream` is gone.
    pub(super) fn forget(&mut self, member: MemberId, stream: StreamId) {
        self.waiting.remove(member, &stream);
    }

    pub(super) fn is_waiting(&self, member: MemberId, stream: StreamId) -> bool {
        self.waiting.has(member, &stream)
    }

    /// Whether there is more memory since this was last asked.
    pub(super) fn take_released(&mut self) -> bool {
        std::mem::take(&mut self.released)
    }

    /// The stream to call next, of the member that has least, but for those that were called in vain.
    pub(super) fn next_waiting(&mut self, in_vain: &Called) -> Option<(MemberId, StreamId)> {
        let Budget { shares, waiting, .. } = self;
        waiting.pop(|member| !in_vain.contains(&member), |member| shares.held(member))
    }
}
