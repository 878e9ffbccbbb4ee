//! The world as the client sees it while it takes a step.

use std::time::Duration;

use fec_transport::overlay::{InstanceId, MemberId};
use fec_transport::{ConnectError, Read, SessionId, StreamError, StreamId, Time};

use crate::remote_error::{ErrorKind, RemoteError};
use crate::transport::{Flow, Transport};

/// The time, which stands still while a step is taken, and the transport.
pub(super) struct Context<'a, T> {
    now: Time,
    transport: &'a mut T,
}

impl<'a, T: Transport> Context<'a, T> {
    pub(super) fn new(now: Time, transport: &'a mut T) -> Context<'a, T> {
        Context { now, transport }
    }

    pub(super) fn now(&self) -> Time {
        self.now
    }

    /// How much time has passed since `earlier`.
    pub(super) fn since(&self, earlier: Time) -> Duration {
        self.now.since(earlier)
    }

    /// The name of a member, for messages.
    pub(super) fn name(&self, member: MemberId) -> String {
        self.transport.member_name(member)
    }

    /// The process at the other end of a session; none if it has ended.
    pub(super) fn process(&self, session: SessionId) -> Option<InstanceId> {
        self.transport.peer(session).map(|peer| peer.instance)
    }

    pub(super) fn flow(&self, session: SessionId) -> Flow {
        self.transport.flow(session)
    }

    pub(super) fn connect(&mut self, member: MemberId) -> Result<SessionId, ConnectError> {
        self.transport.connect(self.now, member)
    }

    pub(super) fn open_stream(&mut self, session: SessionId) -> Result<StreamId, StreamError> {
        self.transport.open_stream(session)
    }

    /// What we send on the stream is a request that somebody waits for, no bulk.
    pub(super) fn set_interactive(&mut self, stream: StreamId) {
        self.transport.set_interactive(self.now, stream);
    }

    pub(super) fn write(&mut self, stream: StreamId, data: &[u8]) -> Result<usize, StreamError> {
        self.transport.write(self.now, stream, data)
    }

    pub(super) fn finish(&mut self, stream: StreamId) -> Result<(), StreamError> {
        self.transport.finish(self.now, stream)
    }

    pub(super) fn read(&mut self, stream: StreamId, max: usize) -> Result<Read, StreamError> {
        self.transport.read(self.now, stream, max)
    }

    pub(super) fn read_block(&mut self, stream: StreamId) -> Result<Read, StreamError> {
        self.transport.read_block(self.now, stream)
    }

    /// Gives up both directions of a stream.
    pub(super) fn give_up(&mut self, stream: StreamId) {
        let code = RemoteError::new(ErrorKind::Cancelled, "").reset_code();
        self.transport.reset(self.now, stream, code);
    }
}
