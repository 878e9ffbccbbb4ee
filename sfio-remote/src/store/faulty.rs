//! A store that fails on demand.

use std::collections::VecDeque;

use super::{DiskAction, DiskError, DiskReply, Store, SystemCall};
use crate::distribution::Extent;
use crate::name::SubfilePath;
use crate::remote_error::{ErrorKind, RemoteError};

/// Wraps a store and lets some of its operations fail, each as the next one that it fits.
#[derive(Debug)]
pub struct FaultyStore<S> {
    inner: S,
    faults: VecDeque<Fault>,
}

/// One failure to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The next operation of that kind fails and does nothing.
    Fail {
        /// Which operations it fits.
        call: SystemCall,
        /// What the disk says.
        error: RemoteError,
    },
    /// The next write reaches the disk up to this many bytes, then fails.
    TornWrite {
        /// How much is written.
        bytes: u64,
    },
    /// The next sync fails once; the ones after it succeed, as those of an operating system do, whether or not the data
    /// is there.
    FailedSync,
    /// The next sync says that it succeeded, and does nothing.
    LostSync,
}

impl<S> FaultyStore<S> {
    /// A store without faults so far.
    pub fn new(inner: S) -> FaultyStore<S> {
        FaultyStore { inner, faults: VecDeque::new() }
    }

    /// One more failure to come.
    pub fn inject(&mut self, fault: Fault) {
        self.faults.push_back(fault);
    }

    /// The store itself.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// The store itself, to change it behind the back of its users.
    pub fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }
}

impl<S: Store> Store for FaultyStore<S> {
    fn perform(&mut self, path: &SubfilePath, action: &DiskAction) -> Result<DiskReply, DiskError> {
        let Some(index) = self.faults.iter().position(|fault| fault.fits(action)) else {
            return self.inner.perform(path, action);
        };
        match (self.faults.remove(index), action) {
            (Some(Fault::Fail { call, error }), _) => Err(DiskError { call, error }),
            (Some(Fault::TornWrite { bytes }), DiskAction::Write { extents, data }) => {
                let extents = cut(extents, bytes);
                self.inner.perform(path, &DiskAction::Write { extents, data: data.clone() })?;
                Err(input_output_error("write"))
            }
            (Some(Fault::LostSync), _) => self.inner.perform(path, &DiskAction::Size),
            _ => Err(input_output_error("fsync")),
        }
    }
}

impl Fault {
    fn fits(&self, action: &DiskAction) -> bool {
        match self {
            Fault::Fail { call, .. } => *call == call_of(action),
            Fault::TornWrite { .. } => matches!(action, DiskAction::Write { .. }),
            Fault::FailedSync | Fault::LostSync => matches!(action, DiskAction::Sync),
        }
    }
}

fn call_of(action: &DiskAction) -> SystemCall {
    match action {
        DiskAction::Size | DiskAction::Uncache { .. } | DiskAction::List { .. } => SystemCall::Open,
        DiskAction::Read { .. } | DiskAction::ReadWhole { .. } => SystemCall::Read,
        DiskAction::Write { .. } | DiskAction::Sync => SystemCall::Write,
        DiskAction::Create { .. } | DiskAction::Rename { .. } => SystemCall::Create,
        DiskAction::SetLength { .. } | DiskAction::Grow { .. } => SystemCall::Truncate,
        DiskAction::Remove { .. } => SystemCall::Unlink,
    }
}

/// The errno of EIO on every Unix.
const EIO: u16 = 5;

fn input_output_error(text: &str) -> DiskError {
    let error = RemoteError { kind: ErrorKind::Disk, os_error: Some(EIO), text: text.to_owned() };
    DiskError { call: SystemCall::Write, error }
}

/// The first `bytes` bytes of `extents`.
fn cut(extents: &[Extent], mut bytes: u64) -> Vec<Extent> {
    let mut kept = Vec::new();
    for extent in extents {
        let length = extent.length().min(bytes);
        bytes -= length;
        if length > 0 {
            kept.push(Extent::between(extent.offset(), extent.offset() + length));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;
    use bytes::Bytes;

    #[test]
    fn each_fault_hits_once_and_only_what_it_fits() {
        let path = SubfilePath::new("a").expect("a right path");
        let mut store = FaultyStore::new(MemoryStore::default());
        store
            .perform(
                &path,
                &DiskAction::Create { truncate: true, exclusive: false, durable: true, owner: None },
            )
            .expect("no fault yet");
        store.inject(Fault::TornWrite { bytes: 3 });
        store.inject(Fault::LostSync);
        store.inject(Fault::FailedSync);
        assert!(store.perform(&path, &DiskAction::Size).is_ok());
        let write = DiskAction::Write {
            extents: vec![Extent::between(0, 2), Extent::between(4, 8)],
            data: vec![Bytes::from_static(b"abcdef")],
        };
        assert_eq!(store.perform(&path, &write).expect_err("torn").call, SystemCall::Write);
        assert_eq!(store.inner().content("a"), Some(b"ab\0\0c".to_vec()));
        assert!(store.perform(&path, &DiskAction::Sync).is_ok());
        store.inner_mut().crash(|| false);
        assert_eq!(store.inner().content("a"), Some(Vec::new()));
        assert!(store.perform(&path, &DiskAction::Sync).is_err());
        assert!(store.perform(&path, &DiskAction::Sync).is_ok());
    }
}
