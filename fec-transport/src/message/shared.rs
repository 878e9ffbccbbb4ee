//! A messenger that callers and carriers share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::budget::Limits;
use super::messenger::Messenger;

/// A messenger that callers and carriers share; clones are the same one.
#[derive(Debug, Clone)]
pub struct Shared {
    messenger: Arc<Mutex<Messenger>>,
}

impl Shared {
    /// A messenger without any network yet.
    pub fn new(limits: Limits) -> Shared {
        Shared { messenger: Arc::new(Mutex::new(Messenger::new(limits))) }
    }

    /// Has the messenger for itself while the guard lives.
    pub fn lock(&self) -> MutexGuard<'_, Messenger> {
        self.messenger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
