//! Client and I/O node as one application of a fec-transport node.

use fec_transport::node::Node;
use fec_transport::{Application, Event, StreamId, Time};

use crate::client::{Action, Client, ClientConfig, Completion, OperationId};
use crate::compression::{CodecJob, CodecResult, Side};
use crate::io_node::{IoNode, IoNodeConfig};
use crate::remote_error::{ErrorKind, RemoteError};
use crate::store::{DiskResult, Errand};
use crate::transport::Transport;

/// What a member does with striped files: every member is a client, and some serve subfiles.
///
/// Streams that a peer opened belong to the I/O node, streams that this side opened to the client.
#[derive(Debug)]
pub struct SfioApplication {
    client: Client,
    io_node: Option<IoNode>,
}

/// What the world outside asks for.
#[derive(Debug)]
pub enum Command {
    /// Begin an operation; the number comes back with its completion.
    Start(OperationId, Action),
    /// Give an operation up.
    Cancel(OperationId),
    /// A disk operation has ended.
    Disk(DiskResult),
    /// A codec job has ended.
    Codec(CodecResult),
}

/// What the world outside is told.
#[derive(Debug)]
pub enum Outcome {
    /// An operation has ended.
    Completion(Completion),
    /// Carry out disk operations; the answer to each is a [`Command::Disk`].
    Disk(Errand),
    /// Carry out a codec job; the answer is a [`Command::Codec`].
    Codec(CodecJob),
}

impl SfioApplication {
    /// A member that only uses the subfiles of others.
    pub fn client(config: ClientConfig) -> SfioApplication {
        SfioApplication { client: Client::new(config), io_node: None }
    }

    /// A member that also serves subfiles.
    pub fn serving(client: ClientConfig, io_node: IoNodeConfig) -> SfioApplication {
        SfioApplication { client: Client::new(client), io_node: Some(IoNode::new(io_node)) }
    }

    /// The client.
    pub fn as_client(&self) -> &Client {
        &self.client
    }

    /// The I/O node, if this member serves subfiles.
    pub fn io_node(&self) -> Option<&IoNode> {
        self.io_node.as_ref()
    }

    fn incoming<T: Transport>(&mut self, now: Time, transport: &mut T, event: &Event, stream: StreamId) {
        match &mut self.io_node {
            Some(io_node) => io_node.handle_event(now, transport, event),
            None => {
                let refusal = RemoteError::new(ErrorKind::NotServing, "");
                transport.reset(now, stream, refusal.reset_code());
            }
        }
    }

    /// As [`Application::handle_event`], over any transport.
    pub(crate) fn handle<T: Transport>(&mut self, now: Time, transport: &mut T, event: &Event) {
        match *event {
            Event::StreamOpened { stream } => self.incoming(now, transport, event, stream),
            Event::Readable { stream }
            | Event::Writable { stream }
            | Event::Delivered { stream }
            | Event::StreamReset { stream, .. } => match &mut self.io_node {
                Some(io_node) if !self.client.owns(stream) => io_node.handle_event(now, transport, event),
                _ => self.client.handle_event(now, transport, event),
            },
            Event::SessionOpened { .. }
            | Event::SessionClosed { .. }
            | Event::SessionSilent { .. }
            | Event::SessionHeard { .. }
            | Event::StreamsAvailable { .. } => {
                self.client.handle_event(now, transport, event);
                if let Some(io_node) = &mut self.io_node {
                    io_node.handle_event(now, transport, event);
                }
            }
        }
    }

    /// As [`Application::handle_command`], over any transport.
    pub(crate) fn obey<T: Transport>(&mut self, now: Time, transport: &mut T, command: Command) {
        match command {
            Command::Start(id, action) => self.client.start(now, transport, id, action),
            Command::Cancel(id) => self.client.cancel(now, transport, id),
            Command::Codec(result) if result.side() == Side::Client => {
                self.client.handle_codec(now, transport, result);
            }
            Command::Codec(result) => {
                if let Some(io_node) = &mut self.io_node {
                    io_node.handle_codec(now, transport, result);
                }
            }
            Command::Disk(result) => {
                if let Some(io_node) = &mut self.io_node {
                    io_node.handle_disk(now, transport, result);
                }
            }
        }
    }

    /// As [`Application::handle_timeout`], over any transport.
    pub(crate) fn wake<T: Transport>(&mut self, now: Time, transport: &mut T) {
        self.client.handle_timeout(now, transport);
        if let Some(io_node) = &mut self.io_node {
            io_node.handle_timeout(now, transport);
        }
    }
}

impl Application for SfioApplication {
    type Command = Command;
    type Outcome = Outcome;

    fn handle_event(&mut self, now: Time, node: &mut Node, event: Event) {
        self.handle(now, node, &event);
    }

    fn handle_command(&mut self, now: Time, node: &mut Node, command: Command) {
        self.obey(now, node, command);
    }

    fn handle_timeout(&mut self, now: Time, node: &mut Node) {
        self.wake(now, node);
    }

    fn next_timeout(&self) -> Option<Time> {
        let io_node = self.io_node.as_ref().and_then(IoNode::next_timeout);
        self.client.next_timeout().into_iter().chain(io_node).min()
    }

    fn poll_outcome(&mut self) -> Option<Outcome> {
        let completion = self.client.poll_completion().map(Outcome::Completion);
        let disk = completion.or_else(|| self.io_node.as_mut()?.poll_operation().map(Outcome::Disk));
        let job = disk.or_else(|| self.client.poll_codec_job().map(Outcome::Codec));
        job.or_else(|| self.io_node.as_mut()?.poll_codec_job().map(Outcome::Codec))
    }
}
