//! Where everybody is at one time.

use std::time::Duration;

use capillary::{Link, Node, NodeId, Orientation, Topology};

use super::radio::links_within;
use super::units::Length;
use super::waypoint::Cursor;
use crate::mobility::Position;

/// The positions of all nodes at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Which frame it is, counted from 0.
    pub number: u64,
    /// The time since the start.
    pub time: Duration,
    /// Where each node is, in metres.
    pub positions: Vec<Position>,
}

impl Frame {
    /// The pairs of nodes at most `range` apart (unit-disk radio), as (lower, higher) number, in order. O(n + pairs)
    /// for nodes that are spread evenly.
    pub fn links(&self, range: Length) -> Vec<(usize, usize)> {
        links_within(&self.positions, range.metres())
    }

    /// The network of nodes at most `range` apart: undirected links of capacity 1 in the order of
    /// [`links`](Self::links); node i has the id "i" and its position.
    pub fn topology(&self, range: Length) -> Topology {
        self.topology_of(&self.links(range))
    }

    /// The network with these links, as [`links`](Self::links) gives them.
    ///
    /// # Panics
    /// If a link ends at no node of the frame.
    pub fn topology_of(&self, links: &[(usize, usize)]) -> Topology {
        let mut topology = Topology::new(Orientation::Undirected);
        topology.set_name(format!("frame {}", self.number));
        for (number, position) in self.positions.iter().enumerate() {
            let node = Node { position: Some(*position), ..Node::new(number.to_string()) };
            topology
                .add_node(node)
                .expect("numbers differ, and MAX_NODES is far below what a topology holds");
        }
        for &(from, to) in links {
            let [from, to] = [from, to].map(|node| NodeId(node as u32));
            topology.add_link(from, to, Link::default()).expect("links join nodes of the frame");
        }
        topology
    }
}

/// Frames in the order of time, at equal intervals.
pub struct Frames<'a> {
    cursors: Vec<Cursor<'a>>,
    interval: Duration,
    next: u64,
    /// The number of frames, if it is finite.
    end: Option<u64>,
}

impl<'a> Frames<'a> {
    pub(super) fn new(cursors: Vec<Cursor<'a>>, interval: Duration, end: Option<u64>) -> Self {
        Self { cursors, interval, next: 0, end }
    }

    /// How many frames are left; `None` if they never end.
    pub fn remaining(&self) -> Option<u64> {
        self.end.map(|end| end.saturating_sub(self.next))
    }

    /// The frame of this number, not before any that has been taken.
    pub(super) fn frame(&mut self, number: u64) -> Frame {
        self.next = number.saturating_add(1);
        let time = time_of(self.interval, number);
        let time_s = time.as_secs_f64();
        let positions = self.cursors.iter_mut().map(|cursor| cursor.position_at(time_s)).collect();
        Frame { number, time, positions }
    }
}

impl Iterator for Frames<'_> {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        self.nth(0)
    }

    fn nth(&mut self, n: usize) -> Option<Frame> {
        let number = self.next.saturating_add(n as u64);
        if self.end.is_some_and(|end| number >= end) {
            self.next = number;
            return None;
        }
        Some(self.frame(number))
    }
}

impl std::fmt::Debug for Frames<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frames")
            .field("nodes", &self.cursors.len())
            .field("interval", &self.interval)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

/// `number` intervals, or the longest time there is.
fn time_of(interval: Duration, number: u64) -> Duration {
    let nanos = interval.as_nanos().saturating_mul(u128::from(number));
    let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    Duration::new(seconds, (nanos % 1_000_000_000) as u32)
}
