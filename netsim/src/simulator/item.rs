//! What the simulator's agenda holds.

use std::sync::Arc;

use super::event::{Change, End, LinkId, NodeId};
use crate::agenda::Agenda;
use crate::link::Transit;

pub(super) type Schedule = Agenda<Item>;

/// Something that is due at a time.
#[derive(Debug)]
pub(super) enum Item {
    /// A packet reaches the end of the link toward which it goes.
    PacketArrives { link: LinkId, toward: End, transit: Transit, packet: Vec<u8>, onward: Option<Onward> },
    /// The first message of the pipe toward this end reaches it.
    MessageArrives { link: LinkId, toward: End, life: u32 },
    /// This end learns that the pipe is up.
    PipeOpens { link: LinkId, toward: End, life: u32 },
    /// The pipe has been interrupted for too long.
    PipeBreaks { link: LinkId, interruption: u32 },
    /// A wake-up.
    Wake { node: NodeId },
    /// A scheduled change of the network.
    Change(Box<Change>),
}

/// The links that a packet takes behind the one that it is on.
#[derive(Debug, Clone)]
pub(super) struct Onward {
    route: Arc<[LinkId]>,
    next: usize,
}

impl Onward {
    /// What follows the first link of a route, if anything does.
    pub(super) fn behind_first(route: &Arc<[LinkId]>) -> Option<Onward> {
        (route.len() > 1).then(|| Onward { route: Arc::clone(route), next: 1 })
    }

    /// The next link, and what follows it.
    pub(super) fn step(self) -> (LinkId, Option<Onward>) {
        let Onward { route, next } = self;
        let link = route[next];
        let follows = next + 1 < route.len();
        (link, follows.then_some(Onward { route, next: next + 1 }))
    }
}
