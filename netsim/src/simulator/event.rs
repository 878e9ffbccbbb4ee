//! What the simulator is told and what it tells.

use crate::link::LinkModel;

/// A node of a [`Simulator`](super::Simulator).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(super) u32);

impl NodeId {
    /// Its number: nodes are counted from 0 in the order in which they were added.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A link of a [`Simulator`](super::Simulator), both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(super) u32);

impl LinkId {
    /// Its number: links are counted from 0 in the order in which they were added.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Something that happens to the network.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The link dies, with everything that waits or is under way on it.
    LinkDown(LinkId),
    /// The link is back.
    LinkUp(LinkId),
    /// The node crashes: it receives nothing, sends nothing, and its wake-up is forgotten.
    NodeDown(NodeId),
    /// The node is back, and remembers nothing.
    NodeUp(NodeId),
    /// The direction of the link that leads away from `from` gets new parameters.
    SetModel {
        /// The link.
        link: LinkId,
        /// The end whose sending it concerns.
        from: NodeId,
        /// The new parameters.
        model: LinkModel,
    },
}

/// Something that the owner of the nodes has to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A packet has arrived.
    Packet {
        /// The receiver.
        node: NodeId,
        /// The link it came by.
        link: LinkId,
        /// Its payload.
        packet: Vec<u8>,
    },
    /// A message has arrived by a control pipe.
    ControlMessage {
        /// The receiver.
        node: NodeId,
        /// The link whose pipe it is.
        link: LinkId,
        /// The message.
        message: Vec<u8>,
    },
    /// A control pipe is new and empty at this end; the node may send.
    ControlUp {
        /// The end that learns it.
        node: NodeId,
        /// The link whose pipe it is.
        link: LinkId,
    },
    /// A control pipe has broken; what it had not delivered is gone.
    ControlDown {
        /// The end that learns it.
        node: NodeId,
        /// The link whose pipe it is.
        link: LinkId,
    },
    /// The time that the node asked for has come.
    Wake {
        /// The node.
        node: NodeId,
    },
    /// The node has crashed: its owner drops its state.
    NodeDown {
        /// The node.
        node: NodeId,
    },
    /// The node is back: its owner makes a fresh state.
    NodeUp {
        /// The node.
        node: NodeId,
    },
    /// The link has died.
    LinkDown {
        /// The link.
        link: LinkId,
    },
    /// The link is back.
    LinkUp {
        /// The link.
        link: LinkId,
    },
}

/// One end of a link, as an index: `a` is the first node that `add_link` was given, `b` the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    A = 0,
    B = 1,
}

impl End {
    pub(super) const BOTH: [Self; 2] = [Self::A, Self::B];

    pub(super) fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}
