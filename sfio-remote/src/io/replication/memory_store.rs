//! A data set in memory that can lose its power: for tests of what survives.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::store::{Locked, Objects, Store};

/// What is left of the power, in operations, and what is not yet safe.
#[derive(Debug, Default)]
struct State {
    durable: BTreeMap<String, Vec<u8>>,
    /// Writes since the last sync, in order.
    volatile: Vec<(String, u64, Bytes)>,
    /// After so many operations the power fails.
    operations_left: Option<u64>,
    appended: u64,
    /// Where the last append ended.
    end: u64,
}

/// Objects, journal and commit record in memory. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
    /// Appends since the last checkpoint.
    since_checkpoint: u64,
}

/// Why an operation on a [`MemoryStore`] failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemoryStoreError {
    /// The power has failed.
    #[error("the power has failed")]
    Power,
    /// There is nothing there.
    #[error("{0} does not reach so far")]
    Missing(String),
}

type Result<T> = std::result::Result<T, MemoryStoreError>;

impl MemoryStore {
    /// Lets the power fail after so many operations.
    pub fn fail_after(&self, operations: u64) {
        self.state().operations_left = Some(operations);
    }

    /// Power again: of what was not synced, any part is there; `keeps` says for each write whether it is.
    pub fn restart(&self, mut keeps: impl FnMut() -> bool) {
        let mut state = self.state();
        for (path, offset, bytes) in std::mem::take(&mut state.volatile) {
            if keeps() {
                put(&mut state.durable, &path, offset, &bytes);
            }
        }
        state.operations_left = None;
    }

    /// Bytes that were appended to objects since the beginning.
    pub fn appended(&self) -> u64 {
        self.state().appended
    }

    /// Flips a bit of an object.
    pub fn damage(&self, object: u32, offset: usize) {
        if let Some(bytes) = self.state().durable.get_mut(&object_path(object)) {
            bytes[offset] ^= 1;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state for one more operation, if there is power.
    fn operate(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        match &mut state.operations_left {
            Some(0) => return Err(MemoryStoreError::Power),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(state)
    }
}

impl State {
    fn sync(&mut self) {
        for (path, offset, bytes) in std::mem::take(&mut self.volatile) {
            put(&mut self.durable, &path, offset, &bytes);
        }
    }

    /// What a reader sees: what was written, synced or not.
    fn content(&self, path: &str) -> Option<Vec<u8>> {
        let mut files: BTreeMap<String, Vec<u8>> =
            self.durable.get(path).map(|bytes| (path.to_owned(), bytes.clone())).into_iter().collect();
        for (other, offset, bytes) in self.volatile.iter().filter(|(other, ..)| other == path) {
            put(&mut files, other, *offset, bytes);
        }
        files.remove(path)
    }
}

fn put(files: &mut BTreeMap<String, Vec<u8>>, path: &str, offset: u64, bytes: &[u8]) {
    let file = files.entry(path.to_owned()).or_default();
    let end = offset as usize + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset as usize..end].copy_from_slice(bytes);
}

fn object_path(object: u32) -> String {
    format!("objects/{object}")
}

impl Store for MemoryStore {
    type Error = MemoryStoreError;
    type Objects = MemoryStore;

    async fn lock(&self) -> Result<Locked> {
        self.operate().map(|_| Locked::AtOnce)
    }

    async fn commit_record(&self) -> Result<Option<Bytes>> {
        Ok(self.operate()?.content("commit").map(Bytes::from))
    }

    async fn journal(&self) -> Result<Bytes> {
        Ok(self.operate()?.content("journal").unwrap_or_default().into())
    }

    async fn append(&mut self, object: u32, offset: u64, bytes: Bytes) -> Result<()> {
        self.since_checkpoint += 1;
        let mut state = self.operate()?;
        state.appended += bytes.len() as u64;
        state.end = offset + bytes.len() as u64;
        state.volatile.push((object_path(object), offset, bytes));
        Ok(())
    }

    fn checkpoint_is_due(&self) -> bool {
        self.since_checkpoint >= 8
    }

    async fn arrived(&mut self) -> Result<u64> {
        Ok(self.operate()?.end)
    }

    async fn next_arrival(&mut self) -> Result<bool> {
        Ok(false)
    }

    async fn checkpoint(&mut self, offset: u64, frames: Vec<u8>) -> Result<()> {
        self.since_checkpoint = 0;
        self.operate()?.sync();
        if offset == 0 {
            self.operate()?.durable.remove("journal");
        }
        // The power may fail between the two.
        let mut state = self.operate()?;
        state.volatile.push(("journal".to_owned(), offset, frames.into()));
        Ok(())
    }

    async fn stage(&mut self, record: Bytes) -> Result<()> {
        self.operate()?.durable.insert("commit.next".to_owned(), record.to_vec());
        Ok(())
    }

    async fn drain(&mut self) -> Result<()> {
        self.operate()?.sync();
        Ok(())
    }

    async fn publish(&mut self) -> Result<()> {
        let mut state = self.operate()?;
        let next = state.durable.remove("commit.next");
        let next = next.ok_or_else(|| MemoryStoreError::Missing("commit.next".to_owned()))?;
        state.durable.insert("commit".to_owned(), next);
        Ok(())
    }

    async fn remove(&mut self, object: u32) -> Result<()> {
        let path = object_path(object);
        let mut state = self.operate()?;
        state.durable.remove(&path);
        state.volatile.retain(|(other, ..)| *other != path);
        Ok(())
    }

    fn objects(&self) -> MemoryStore {
        self.clone()
    }
}

impl Objects for MemoryStore {
    type Error = MemoryStoreError;

    fn read(
        &self,
        object: u32,
        offset: u64,
        length: u64,
    ) -> impl Future<Output = Result<Bytes>> + Send + 'static {
        let path = object_path(object);
        let content = self.operate().map(|state| state.content(&path));
        async move {
            let range = offset as usize..(offset + length) as usize;
            let content = content?.and_then(|bytes| bytes.get(range).map(Bytes::copy_from_slice));
            content.ok_or(MemoryStoreError::Missing(path))
        }
    }
}
