//! The way to one peer, while there is one.

use super::address::Route;
use super::incoming::Incoming;
use super::operation::AddressId;
use super::outgoing::Outgoing;
use crate::wire::message::Frame;

/// A way to a peer. Another one to the same peer has another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// A way to a peer, with all that is on its way there.
#[derive(Debug)]
pub(super) struct Link {
    address: AddressId,
    route: Route,
    outgoing: Outgoing,
    /// None until it is up.
    incoming: Option<Incoming>,
}

impl Link {
    /// One that is being opened.
    pub(super) fn new(address: AddressId, route: Route, outgoing: Outgoing) -> Link {
        Link { address, route, outgoing, incoming: None }
    }

    pub(super) fn address(&self) -> AddressId {
        self.address
    }

    pub(super) fn module(&self) -> usize {
        self.route.module
    }

    /// Whether it leads there, up or not.
    pub(super) fn goes_along(&self, route: &Route) -> bool {
        self.route == *route
    }

    pub(super) fn is_up(&self) -> bool {
        self.incoming.is_some()
    }

    pub(super) fn come_up(&mut self, incoming: Incoming) {
        self.incoming = Some(incoming);
    }

    pub(super) fn outgoing(&mut self) -> &mut Outgoing {
        &mut self.outgoing
    }

    pub(super) fn incoming(&mut self) -> Option<&mut Incoming> {
        self.incoming.as_mut()
    }

    /// How many messages have come over it, as its frames tell.
    pub(super) fn taken(&self) -> u32 {
        self.incoming.as_ref().map_or(0, Incoming::taken)
    }

    /// What the peer is to be told of its windows, if it is worth a frame.
    pub(super) fn next_window(&mut self) -> Option<Frame> {
        self.incoming.as_mut()?.next_window()
    }

    pub(super) fn into_halves(self) -> (Outgoing, Option<Incoming>) {
        (self.outgoing, self.incoming)
    }
}
