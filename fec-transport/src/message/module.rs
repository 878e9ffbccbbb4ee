//! What a messenger knows of a network, and what it asks of it.

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;

use super::link::LinkId;
use super::operation::Urgency;
use crate::wire::message::Frame;

/// A network that messages travel over, as the messenger knows it. Whoever carries them takes what the messenger wants
/// from it, and brings what has come.
pub trait Module: fmt::Debug + Send {
    /// What its addresses begin with, before `://`.
    fn scheme(&self) -> &'static str;

    /// What a place behind the scheme is called by everybody, or what is wrong with it.
    ///
    /// # Errors
    /// The reason, for people.
    fn resolve(&self, place: &str) -> Result<String, String>;

    /// Bytes of a message at most. Default: 2⁴⁰.
    fn largest(&self) -> u64 {
        1 << 40
    }

    /// Bytes of an unexpected message at most. Default: 16 KiB.
    fn largest_unexpected(&self) -> usize {
        EAGER
    }

    /// Bytes up to which a message is sent before its receive is known of. Default: 16 KiB, as the paper has it.
    fn eager(&self) -> usize {
        EAGER
    }

    /// Whether the pieces that come over it are the sender's own, in this process. Those of a network lie in blocks
    /// that are as large as its peers like; a message that has to wait is copied out of them. Default: no.
    fn shares_memory(&self) -> bool {
        false
    }
}

/// Bytes up to which messages travel with their envelope [bmi §4.1].
pub(super) const EAGER: usize = 16 << 10;

/// What a messenger wants of a network.
#[derive(Debug)]
pub(crate) enum Output {
    /// A link to that place; it comes up, or is closed.
    Connect { link: LinkId, place: String },
    /// Say this over a link. `taken` goes along.
    Frame { link: LinkId, frame: Frame, taken: u32 },
    /// Send the bytes of a granted message.
    Bulk { link: LinkId, message: u64, pieces: Vec<Bytes>, urgency: Urgency },
    /// A message of ours is not to be sent any more.
    StopSending { link: LinkId, message: u64 },
    /// A message of the peer's is not wanted any more.
    StopReceiving { link: LinkId, message: u64 },
    /// The link is not wanted any more; the messenger has forgotten it.
    Disconnect { link: LinkId },
}

/// A module and what is wanted of it.
#[derive(Debug)]
pub(super) struct Slot {
    module: Box<dyn Module>,
    outputs: VecDeque<Output>,
}

impl Slot {
    pub(super) fn new(module: Box<dyn Module>) -> Slot {
        Slot { module, outputs: VecDeque::new() }
    }

    pub(super) fn module(&self) -> &dyn Module {
        &*self.module
    }

    pub(super) fn ask(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(super) fn next_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    pub(super) fn has_output(&self) -> bool {
        !self.outputs.is_empty()
    }
}
