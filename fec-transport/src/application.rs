//! What runs on top of a node.

use crate::event::Event;
use crate::node::Node;
use crate::time::Time;

/// A program on top of a [`Node`]: it gets the node's events and acts on its streams.
///
/// Like the node it does no I/O. In production `io::Endpoint` drives both on tokio, in tests `sim::World` drives them
/// in virtual time; both call [`handle_event`](Self::handle_event) for every event, and hand every
/// [`poll_outcome`](Self::poll_outcome) to the world outside, whose answers come back as commands.
pub trait Application {
    /// What the world outside asks for: a caller's request, a finished disk operation.
    type Command: Send + 'static;
    /// What the world outside is told: a finished request, a disk operation to carry out.
    type Outcome: Send + 'static;

    /// The node has news.
    fn handle_event(&mut self, now: Time, node: &mut Node, event: Event);

    /// The world outside has news.
    fn handle_command(&mut self, now: Time, node: &mut Node, command: Self::Command);

    /// The time that [`next_timeout`](Self::next_timeout) named has come.
    fn handle_timeout(&mut self, now: Time, node: &mut Node);

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    fn next_timeout(&self) -> Option<Time>;

    /// What to tell the world outside; called until it gives nothing.
    fn poll_outcome(&mut self) -> Option<Self::Outcome>;
}
