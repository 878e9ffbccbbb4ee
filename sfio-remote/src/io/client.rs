//! Operations as futures.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fec_transport::CloseReason;
use fec_transport::io::{EndpointEnded, Handle};
use tokio::runtime::Handle as Runtime;
use tokio::sync::oneshot;

use super::observer::{Observer, observed};
use super::patience::Patience;

use crate::application::{Command, SfioApplication};
use crate::client::operations::{
    List, Mark, Publish, QueryErrorCounters, ReadUnopened, Reclaim, Remove, Rename,
};
use crate::client::{Action, Durability, Operation, OperationError, OperationId};
use crate::dataset::DatasetPath;
use crate::distribution::StripeUnit;
use crate::io_node::ErrorCounters;
use crate::name::{EntryName, FileName, SubfilePath};
use crate::replication::RunId;
use crate::request::ReadList;
use crate::store::Listing;

/// Why an operation on a striped file failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The operation itself failed.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// The member's process was shut down.
    #[error(transparent)]
    Ended(#[from] EndpointEnded),
    /// A read of an exact length reached the end of the file.
    #[error("the file ends {missing} bytes too early for a read of {length} bytes at offset {offset}")]
    EndOfFile {
        /// Where the read began.
        offset: u64,
        /// How long it should have been.
        length: u64,
        /// How many bytes were not there.
        missing: u64,
    },
    /// An I/O node was out of reach for longer than the caller's [`Patience`].
    #[error("{error}; tried again {attempts} times in {:.1} s", .waited.as_secs_f64())]
    OutOfPatience {
        /// How the last attempt failed.
        error: Box<FileError>,
        /// For how long it was tried.
        waited: Duration,
        /// How often.
        attempts: u64,
    },
}

impl FileError {
    /// Whether the keys of this member and of its neighbours do not fit: waiting does not help, and asking again does
    /// not either.
    pub fn is_for_the_key(&self) -> bool {
        let FileError::Operation(OperationError::SessionClosed { reason, .. }) = self else { return false };
        matches!(reason, CloseReason::Unwelcome(_))
    }

    /// For how long an I/O node had been waited for in vain when this error came; zero if that is not why it came.
    pub fn silence(&self) -> Duration {
        match self {
            FileError::Operation(OperationError::SessionClosed { reason, .. }) => reason.waited(),
            _ => Duration::ZERO,
        }
    }
}

/// Opens striped files, and does what needs no open file. Clones share one member's process.
#[derive(Clone)]
pub struct SfioClient {
    handle: Handle<SfioApplication>,
    /// The number of the last operation.
    last_operation: Arc<AtomicU64>,
    observer: Option<Arc<dyn Observer>>,
    /// Where the member's process runs, for those who drop something on a thread of their own.
    runtime: Option<Runtime>,
}

type Result<T> = std::result::Result<T, FileError>;

impl SfioClient {
    pub(super) fn new(handle: Handle<SfioApplication>, observer: Option<Arc<dyn Observer>>) -> SfioClient {
        SfioClient { handle, last_operation: Arc::default(), observer, runtime: Runtime::try_current().ok() }
    }

    /// Who hears of what is done with files, if anybody does.
    pub(super) fn observer(&self) -> Option<&dyn Observer> {
        self.observer.as_deref()
    }

    /// Reads up to `length` bytes from `offset` on, of a file that need not be open; fewer if it ends before. It costs
    /// one round trip; opening it first would cost another one.
    ///
    /// # Errors
    /// If a subfile does not exist, or an I/O node fails.
    pub async fn read_at(
        &self,
        name: &FileName,
        stripe_unit: StripeUnit,
        offset: u64,
        length: u64,
    ) -> Result<Bytes> {
        self.read_unopened(name, stripe_unit, (offset, length), false).await
    }

    /// Reads as [`read_at`](Self::read_at) does, but from the disks: what the I/O nodes hold in memory does not count,
    /// as far as their systems let them tell. So damage shows that a cache would hide.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub async fn read_from_disk(
        &self,
        name: &FileName,
        stripe_unit: StripeUnit,
        offset: u64,
        length: u64,
    ) -> Result<Bytes> {
        self.read_unopened(name, stripe_unit, (offset, length), true).await
    }

    async fn read_unopened(
        &self,
        name: &FileName,
        stripe_unit: StripeUnit,
        region: (u64, u64),
        from_disk: bool,
    ) -> Result<Bytes> {
        let list = ReadList::new([region]).map_err(OperationError::from)?;
        let regions = list.shared_regions();
        let read = self.call(ReadUnopened { name: name.clone(), stripe_unit, list, from_disk });
        let read = observed(self.observer(), (name, false, &regions), read).await?;
        Ok(read.into_vec().pop().unwrap_or_default())
    }

    /// What a folder of an I/O node holds behind the name `after`, as much as one reply has room for; nothing if it
    /// does not exist. With [`Durability::OnEveryCall`] the names that it tells survive a power loss.
    ///
    /// # Errors
    /// If the I/O node cannot be reached, or the member may not read there.
    pub async fn list(
        &self,
        member: &str,
        folder: &SubfilePath,
        after: Option<&EntryName>,
        durability: Durability,
    ) -> Result<Listing> {
        let (member, folder, after) = (member.to_owned(), folder.clone(), after.cloned());
        self.call(List { member, folder, after, durability }).await
    }

    /// Makes a staged record the one of its number on one I/O node. If the reply is lost it may be asked again.
    ///
    /// # Errors
    /// If there is another record of that number (`Taken`), the record does not follow the one before it there
    /// (`Stale`), or it breaks another rule; if the I/O node cannot be reached.
    pub async fn publish(
        &self,
        member: &str,
        dataset: &DatasetPath,
        staged: RunId,
        number: u64,
    ) -> Result<()> {
        let (member, dataset) = (member.to_owned(), dataset.clone());
        self.call(Publish { member, dataset, staged, number }).await
    }

    /// Says to one I/O node that this process reads the data set, so that it reclaims nothing of it for a while.
    ///
    /// # Errors
    /// If the I/O node cannot be reached, or the member may not read there.
    pub async fn mark(&self, member: &str, dataset: &DatasetPath) -> Result<()> {
        self.call(Mark { member: member.to_owned(), dataset: dataset.clone() }).await
    }

    /// Removes what a run sent to one I/O node, whose newest record, `number`, condemns it.
    ///
    /// # Errors
    /// If it is too early for readers (`TooEarly`), or `number` is not the newest one there (`Stale`); if the I/O node
    /// cannot be reached.
    pub async fn reclaim(&self, member: &str, dataset: &DatasetPath, run: RunId, number: u64) -> Result<()> {
        let (member, dataset) = (member.to_owned(), dataset.clone());
        self.call(Reclaim { member, dataset, run, number }).await
    }

    /// Removes those subfiles of a file that there are.
    ///
    /// # Errors
    /// If there is none, or an I/O node fails; the others have been removed nevertheless.
    pub async fn remove(&self, name: &FileName, durability: Durability) -> Result<()> {
        self.call_again(Remove { name: name.clone(), durability }).await
    }

    /// Gives each subfile of a file the path that `target` has for it; `target` has the same members in the same order.
    ///
    /// Not atomic over several I/O nodes: when one fails, subfiles are missing under both names.
    ///
    /// # Errors
    /// If a target exists and `replace` is not given, or an I/O node fails.
    pub async fn rename(
        &self,
        name: &FileName,
        target: &FileName,
        replace: bool,
        durability: Durability,
    ) -> Result<()> {
        self.call_again(Rename { name: name.clone(), target: target.clone(), replace, durability }).await
    }

    /// This client for operations that must be carried out once; it lives through outages.
    pub fn patiently<'a>(&'a self, patience: &'a Patience) -> Patient<'a> {
        Patient { client: self, patience }
    }

    /// SFIO's eight error counters of one I/O node; with `reset` they start again from zero.
    ///
    /// # Errors
    /// If the I/O node cannot be reached.
    pub async fn error_counters(&self, member: &str, reset: bool) -> Result<ErrorCounters> {
        self.call(QueryErrorCounters { member: member.to_owned(), reset }).await
    }

    /// Reaches the member's process, for instance to look at its sessions.
    pub fn handle(&self) -> &Handle<SfioApplication> {
        &self.handle
    }

    /// Carries out one operation. If the future is dropped before it ends, the operation is cancelled.
    pub(super) async fn call<O: Operation>(&self, operation: O) -> Result<O::Answer> {
        self.call_as(self.next_id(), operation).await
    }

    /// Carries out an operation that an I/O node carries out once, however often it is asked: if a session ends before
    /// the reply, it is asked once more, under the same number.
    async fn call_again<O: Operation + Clone>(&self, operation: O) -> Result<O::Answer> {
        let id = self.next_id();
        match self.call_as(id, operation.clone()).await {
            Err(FileError::Operation(OperationError::SessionClosed { .. })) => {
                self.call_as(id, operation).await
            }
            result => result,
        }
    }

    async fn call_as<O: Operation>(&self, id: OperationId, operation: O) -> Result<O::Answer> {
        let (answer, answered) = oneshot::channel();
        // A caller that has gone needs no answer.
        let action = Action::new(operation, move |result| drop(answer.send(result)));
        let cancel = CancelOnDrop { client: self, id: Some(id) };
        self.handle.command(Command::Start(id, action)).await?;
        // When the endpoint ends, it drops the operation and with it the other end of the channel.
        let result = answered.await.map_err(|_| EndpointEnded);
        cancel.disarm();
        Ok(result??)
    }

    /// Sends a command from a place that cannot wait.
    pub(super) fn send_later(&self, command: Command) {
        // Programs without tasks drop files on threads that are in no runtime.
        if let Some(runtime) = &self.runtime {
            let handle = self.handle.clone();
            // If the endpoint has ended, there is nothing left to tell.
            runtime.spawn(async move {
                let _ = handle.command(command).await;
            });
        }
    }

    /// A number for an operation.
    pub(super) fn next_id(&self) -> OperationId {
        OperationId(1 + self.last_operation.fetch_add(1, Ordering::Relaxed))
    }
}

/// A client that asks again, under the same number, for what I/O nodes carry out once however often they are asked,
/// until its [`Patience`] ends.
#[derive(Debug, Clone, Copy)]
pub struct Patient<'a> {
    client: &'a SfioClient,
    patience: &'a Patience,
}

impl Patient<'_> {
    /// As [`SfioClient::remove`].
    ///
    /// # Errors
    /// As there, and if an I/O node is out of reach for too long.
    pub async fn remove(&self, name: &FileName, durability: Durability) -> Result<()> {
        self.call(Remove { name: name.clone(), durability }).await
    }

    /// As [`SfioClient::rename`]. An I/O node that was restarted after it had done its part knows nothing of that: then
    /// it says that the subfile does not exist.
    ///
    /// # Errors
    /// As there, and if an I/O node is out of reach for too long.
    pub async fn rename(
        &self,
        name: &FileName,
        target: &FileName,
        replace: bool,
        durability: Durability,
    ) -> Result<()> {
        self.call(Rename { name: name.clone(), target: target.clone(), replace, durability }).await
    }

    async fn call<O: Operation + Clone>(&self, operation: O) -> Result<O::Answer> {
        let id = self.client.next_id();
        self.patience.retry(|| self.client.call_as(id, operation.clone())).await
    }
}

impl fmt::Debug for SfioClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SfioClient").finish_non_exhaustive()
    }
}

/// Cancels an operation whose caller has lost interest.
struct CancelOnDrop<'a> {
    client: &'a SfioClient,
    id: Option<OperationId>,
}

impl CancelOnDrop<'_> {
    fn disarm(mut self) {
        self.id = None;
    }
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.client.send_later(Command::Cancel(id));
        }
    }
}
