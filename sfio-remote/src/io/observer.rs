//! Somebody who hears what a member does with files, to write it down.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use crate::client::OpenMode;
use crate::distribution::{Extent, Region};
use crate::name::{FileName, SubfilePath};
use crate::store::{DiskAction, DiskOperation};

/// Hears of each operation when it has succeeded, in the task or on the thread that did it: so it should only hand on
/// what it hears. Without an observer nothing looks at a clock.
pub trait Observer: fmt::Debug + Send + Sync {
    /// A file was opened; it has so many bytes.
    fn opened(&self, name: &FileName, length: u64, mode: OpenMode);

    /// The last handle of an open file was dropped.
    fn closed(&self, name: &FileName);

    /// Bytes were read or written.
    fn transferred(&self, transfer: &Transfer<'_>);

    /// An I/O node has read or written at its disk.
    fn at_disk(&self, access: &DiskAccess<'_>);
}

/// A call that has read or written.
#[derive(Debug, Clone, Copy)]
pub struct Transfer<'a> {
    /// Of which file.
    pub name: &'a FileName,
    /// Whether it has written.
    pub is_write: bool,
    /// For how long it was under way; it has ended now.
    pub took: Duration,
    /// Where in the file, in the order of the call.
    pub regions: &'a [Region],
}

/// What a disk has read or written.
#[derive(Debug, Clone, Copy)]
pub struct DiskAccess<'a> {
    /// Of which subfile.
    pub path: &'a SubfilePath,
    /// Whether it has written.
    pub is_write: bool,
    /// For how long it was under way; it has ended now.
    pub took: Duration,
    /// Where in the subfile.
    pub extents: &'a [Extent],
}

/// Tells an observer, if there is one, of what follows: the regions are kept for it.
pub(super) async fn observed<T, E>(
    observer: Option<&dyn Observer>,
    (name, is_write, regions): (&FileName, bool, &[Region]),
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let Some(observer) = observer else { return call.await };
    let began = Instant::now();
    let result = call.await?;
    observer.transferred(&Transfer { name, is_write, took: began.elapsed(), regions });
    Ok(result)
}

/// Carries out a disk operation and tells an observer of it, if it reads or writes and succeeds.
pub(super) fn at_disk<T, E>(
    observer: Option<&dyn Observer>,
    operation: &DiskOperation,
    perform: impl FnOnce() -> T,
    outcome: impl FnOnce(&T) -> &Result<E, crate::store::DiskError>,
) -> T {
    let extents = match &operation.action {
        DiskAction::Read { extents } | DiskAction::Write { extents, .. } => extents,
        _ => return perform(),
    };
    let Some(observer) = observer else { return perform() };
    let began = Instant::now();
    let result = perform();
    if outcome(&result).is_ok() {
        let is_write = matches!(operation.action, DiskAction::Write { .. });
        observer.at_disk(&DiskAccess { path: &operation.path, is_write, took: began.elapsed(), extents });
    }
    result
}
