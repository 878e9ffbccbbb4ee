//! What a transfer needs of the I/O node while it takes a step.

use fec_transport::{Read, StreamError, StreamId, Time};

use super::IoNodeConfig;
use super::budget::Budget;
use super::disk_queue::DiskQueue;
use crate::name::SubfilePath;
use crate::remote_error::RemoteError;
use crate::store::{DiskAction, Ticket};
use crate::transport::Transport;

/// What all transfers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: IoNodeConfig,
    pub(super) budget: Budget,
    pub(super) disk: DiskQueue,
}

/// What all transfers share, the transport, the time, and which transfer takes the step.
pub(super) struct Context<'a, T> {
    pub(super) now: Time,
    pub(super) stream: StreamId,
    pub(super) shared: &'a mut Shared,
    pub(super) transport: &'a mut T,
}

impl<T: Transport> Context<'_, T> {
    pub(super) fn read(&mut self, max: u64) -> Result<Read, StreamError> {
        self.transport.read(self.now, self.stream, usize::try_from(max).unwrap_or(usize::MAX))
    }

    pub(super) fn submit(&mut self, path: &SubfilePath, action: DiskAction, reserved: u64) -> Ticket {
        self.shared.disk.submit(self.stream, path, action, reserved)
    }

    pub(super) fn sync(&mut self, path: &SubfilePath) -> Result<(), RemoteError> {
        self.shared.disk.sync(self.stream, path).map_err(|error| error.error)
    }

    /// How much payload memory this transfer may take now.
    pub(super) fn available_memory(&self) -> u64 {
        self.shared.budget.available(self.stream.session)
    }

    pub(super) fn take_memory(&mut self, bytes: u64) {
        self.shared.budget.take(self.stream.session, bytes);
    }

    pub(super) fn release_memory(&mut self, bytes: u64) {
        self.shared.budget.release(self.stream.session, bytes);
    }

    /// The transfer takes its next step when there may be more memory.
    pub(super) fn wait_for_memory(&mut self) {
        self.shared.budget.wait(self.stream);
    }
}
