//! What a topology is made of.

use std::fmt;
use std::time::Duration;

use crate::topology::TopologyError;

/// A node of one [`Topology`](crate::Topology): its place in the order in which the nodes were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// A link of one [`Topology`](crate::Topology): its place in the order in which the links were added (in a file: its
/// position).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

impl NodeId {
    /// The position of the node in slices that have one entry per node.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl LinkId {
    /// The position of the link in slices that have one entry per link.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {}", self.0)
    }
}

/// Whether the links of a network carry one way or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Orientation {
    /// A link is one arc, from its first end to its second.
    Directed,
    /// A link is two opposite arcs, each with the link's capacity [theory §1.4].
    Undirected,
}

/// A place on the plane; for geographic files x is the longitude and y the latitude, in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Position {
    /// The coordinate to the right (longitude, in degrees east).
    pub x: f64,
    /// Upwards (latitude, degrees north).
    pub y: f64,
}

/// A node of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Names the node; unique within a topology.
    pub id: String,
    /// What people call it; several nodes may share a label. `None`: the same as the id.
    pub label: Option<String>,
    /// Where it stands, if known.
    pub position: Option<Position>,
}

impl Node {
    /// A node of which only the name is known.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), label: None, position: None }
    }

    /// The label if there is one, otherwise the id.
    pub fn name(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.id)
    }
}

/// A link of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// The name of the link in its file, if it has one.
    pub id: Option<String>,
    /// What the link can carry: positive and finite, in any unit, the same for all links of a topology.
    pub capacity: f64,
    /// Propagation delay, one way.
    pub delay: Option<Duration>,
    /// Share of the packets that the link loses, in [0, 1]. Planning does not look at it [design §2].
    pub loss: Option<f64>,
    /// Its metric (weight, cost) in an interior gateway protocol: what shortest paths are measured in, above 0. `None`:
    /// 1. Capillary routing does not look at it.
    pub metric: Option<f64>,
}

impl Default for Link {
    /// A link of capacity 1, as everywhere in the thesis.
    fn default() -> Self {
        Self { id: None, capacity: 1.0, delay: None, loss: None, metric: None }
    }
}

impl Link {
    /// A link of which only the capacity is known.
    pub fn with_capacity(capacity: f64) -> Self {
        Self { capacity, ..Self::default() }
    }

    /// How much the link adds to the length of a path: its metric, or 1.
    pub fn length(&self) -> f64 {
        self.metric.unwrap_or(1.0)
    }

    pub(super) fn check(&self, link: LinkId) -> Result<(), TopologyError> {
        if !(self.capacity.is_finite() && self.capacity > 0.0) {
            return Err(TopologyError::BadCapacity { link, capacity: self.capacity });
        }
        match (self.loss, self.metric) {
            (Some(loss), _) if !(0.0..=1.0).contains(&loss) => Err(TopologyError::BadLoss { link, loss }),
            (_, Some(metric)) if !(metric.is_finite() && metric > 0.0) => {
                Err(TopologyError::BadMetric { link, metric })
            }
            _ => Ok(()),
        }
    }
}
