//! References to peers, and their names as C has them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fec_transport::message::AddressId;

/// Unwanted peers are looked through when there are twice as many as were left the last time, and more than these.
const FEW: usize = 64;

/// What is known of peers beside what the messenger knows.
#[derive(Debug, Default)]
pub struct Addresses {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    references: BTreeMap<AddressId, i64>,
    /// Their memory stays where it is until the peer is dropped.
    names: BTreeMap<AddressId, CString>,
    /// Those without references, which are forgotten once there is nothing for them.
    unwanted: BTreeSet<AddressId>,
    left: usize,
}

impl Addresses {
    /// One more reference.
    pub fn refer(&self, address: AddressId) {
        let mut state = self.lock();
        *state.references.entry(address).or_default() += 1;
        state.unwanted.remove(&address);
    }

    /// One less. After the last one the peer is dropped by `drop_idle` if it can be, now or later.
    pub fn release(&self, address: AddressId, drop_idle: impl Fn(AddressId) -> bool) {
        let mut state = self.lock();
        let references = state.references.entry(address).or_default();
        *references -= 1;
        if *references > 0 {
            return;
        }
        state.references.remove(&address);
        state.unwanted.insert(address);
        if state.unwanted.len() > (2 * state.left).max(FEW) {
            state.sweep(drop_idle);
        }
    }

    /// A peer was dropped.
    pub fn forget(&self, address: AddressId) {
        self.lock().forget(address);
    }

    /// The name of a peer, whose memory stays until it is dropped.
    pub fn name(&self, address: AddressId, text: impl FnOnce() -> Option<String>) -> Option<*const c_char> {
        let mut state = self.lock();
        if let Some(name) = state.names.get(&address) {
            return Some(name.as_ptr());
        }
        let name = CString::new(text()?).ok()?;
        Some(state.names.entry(address).or_insert(name).as_ptr())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn sweep(&mut self, drop_idle: impl Fn(AddressId) -> bool) {
        let dropped: Vec<AddressId> =
            self.unwanted.iter().copied().filter(|address| drop_idle(*address)).collect();
        dropped.into_iter().for_each(|address| self.forget(address));
        self.left = self.unwanted.len();
    }

    fn forget(&mut self, address: AddressId) {
        self.references.remove(&address);
        self.names.remove(&address);
        self.unwanted.remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_without_references_are_dropped_once_there_is_nothing_for_them() {
        let addresses = Addresses::default();
        let all = 0..1000;
        for id in all.clone().map(AddressId) {
            addresses.refer(id);
            addresses.refer(id);
            addresses.release(id, |_| panic!("it has a reference left"));
        }
        // The odd ones are still connected.
        all.clone().for_each(|id| addresses.release(AddressId(id), |id| id.0 % 2 == 0));
        assert!(addresses.lock().unwanted.len() <= 500 + 500 + FEW);
        let mut all = all;
        assert!(all.all(|id| id % 2 == 0 || addresses.lock().unwanted.contains(&AddressId(id))));
        addresses.refer(AddressId(1));
        addresses.lock().sweep(|_| true);
        assert!(addresses.lock().unwanted.is_empty());
        assert_eq!(addresses.lock().references.keys().collect::<Vec<_>>(), [&AddressId(1)]);
    }
}
