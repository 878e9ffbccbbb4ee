//! Unexpected messages that were taken from the network and could not be given to the caller: there was no memory for
//! his copy.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fec_transport::message::Unexpected;

/// They come before all others in the next test. There are no more of them than one test has asked for.
#[derive(Debug, Default)]
pub struct Leftover {
    messages: Mutex<VecDeque<Unexpected>>,
}

impl Leftover {
    /// Takes the first ones, at most `most`.
    pub fn take(&self, most: usize) -> VecDeque<Unexpected> {
        let mut messages = self.lock();
        let count = messages.len().min(most);
        messages.drain(..count).collect()
    }

    /// Keeps what was taken, in front of what is there.
    pub fn put_back(&self, mut taken: VecDeque<Unexpected>) {
        let mut messages = self.lock();
        taken.append(&mut messages);
        *messages = taken;
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Unexpected>> {
        // Each change is whole.
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
