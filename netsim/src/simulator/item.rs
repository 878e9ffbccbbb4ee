//! What the simulator's agenda holds.

use super::event::{Change, End, LinkId, NodeId};
use crate::agenda::Agenda;
use crate::link::Transit;

pub(super) type Schedule = Agenda<Item>;

/// Something that is due at a time.
#[derive(Debug)]
pub(super) enum Item {
    /// A packet reaches the end of the link toward which it goes.
    PacketArrives { link: LinkId, toward: End, transit: Transit, packet: Vec<u8> },
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
