//! What kind of network a frame is, and how long links last.

use std::collections::BTreeMap;
use std::time::Duration;

use petgraph::unionfind::UnionFind;

/// What kind of network a frame is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrameStatistics {
    /// How many nodes there are.
    pub nodes: usize,
    /// How many pairs of nodes hear each other.
    pub links: usize,
    /// Nodes that hear nobody.
    pub isolated: usize,
    /// How many parts the network falls into.
    pub components: usize,
    /// How many nodes the largest of them has.
    pub largest_component: usize,
    /// The share of pairs of nodes between which there is a way; 1 for a single node.
    pub connected_share: f64,
}

impl FrameStatistics {
    /// The statistics of a network of so many nodes with these links ([`Frame::links`](super::Frame::links)).
    /// O(nodes + links), nearly.
    ///
    /// ```
    /// # use netsim::mobility::FrameStatistics;
    /// let statistics = FrameStatistics::of(5, &[(0, 1), (1, 2)]);
    /// assert_eq!((statistics.components, statistics.largest_component, statistics.isolated), (3, 3, 2));
    /// assert_eq!((statistics.mean_degree(), statistics.connected_share), (0.8, 0.3));
    /// ```
    ///
    /// # Panics
    /// If a link ends at no node.
    pub fn of(nodes: usize, links: &[(usize, usize)]) -> Self {
        let mut parts = UnionFind::<usize>::new(nodes);
        for &(from, to) in links {
            parts.union(from, to);
        }
        let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
        for part in parts.into_labeling() {
            *sizes.entry(part).or_default() += 1;
        }
        let pairs = |size: usize| size as f64 * size.saturating_sub(1) as f64;
        let connected: f64 = sizes.values().map(|size| pairs(*size)).sum();
        Self {
            nodes,
            links: links.len(),
            isolated: sizes.values().filter(|size| **size == 1).count(),
            components: sizes.len(),
            largest_component: sizes.values().copied().max().unwrap_or(0),
            connected_share: if nodes > 1 { connected / pairs(nodes) } else { 1.0 },
        }
    }

    /// How many neighbours a node has on average: the thesis's directed links a node.
    pub fn mean_degree(&self) -> f64 {
        2.0 * self.links as f64 / self.nodes.max(1) as f64
    }
}

/// Watches links come and go from frame to frame.
#[derive(Debug, Clone, Default)]
pub struct LinkWatch {
    present: Option<Vec<(usize, usize)>>,
    /// Links seen at one frame whose fate at the next is known, counted once per frame.
    watched: u64,
    broken: u64,
    formed: u64,
}

/// What has become of the links since the last frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkChanges {
    /// Links that were not there.
    pub formed: u64,
    /// Links that are gone.
    pub broken: u64,
}

impl LinkWatch {
    /// Takes in the links of the next frame, in order; says what has changed since the last one. `None` for the first.
    pub fn observe(&mut self, links: Vec<(usize, usize)>) -> Option<LinkChanges> {
        let before = self.present.replace(links)?;
        let links = self.present.as_deref().unwrap_or_default();
        let kept = before.iter().filter(|link| links.binary_search(link).is_ok()).count() as u64;
        let changes = LinkChanges { formed: links.len() as u64 - kept, broken: before.len() as u64 - kept };
        self.watched += before.len() as u64;
        self.formed += changes.formed;
        self.broken += changes.broken;
        Some(changes)
    }

    /// How long a link lasts on average: the time for which links were watched, over the number that broke. So links
    /// that were there before the first frame or after the last count for the time that they were seen, and bias
    /// nothing as long as breaks are equally likely at any time. What happens between two frames is not seen: a link
    /// that breaks and returns counts as unbroken.
    ///
    /// `None` if none has broken.
    pub fn mean_duration(&self, interval: Duration) -> Option<Duration> {
        let seconds = self.watched as f64 * interval.as_secs_f64() / self.broken as f64;
        if self.broken > 0 { Duration::try_from_secs_f64(seconds).ok() } else { None }
    }

    /// How many links have come and gone so far.
    pub fn changes(&self) -> LinkChanges {
        LinkChanges { formed: self.formed, broken: self.broken }
    }
}
