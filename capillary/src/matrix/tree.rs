//! Shortest paths from all nodes to one (Dijkstra 1959).

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::matrix::arcs::Arcs;

/// No arc.
const NONE: u32 = u32::MAX;

/// Nodes are looked at again where lengths are below 0, on average hardly ever; a search that needs so many rounds of
/// all nodes and arcs has met a circle.
const ROUNDS: usize = 100;

/// The length of a path: what counts first, and what decides between equals.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Length {
    first: f64,
    second: f64,
}

impl Length {
    const FARTHEST: Self = Self { first: f64::INFINITY, second: f64::INFINITY };

    fn is_below(self, other: Self) -> bool {
        self.first < other.first || (self.first == other.first && self.second < other.second)
    }
}

/// A node in the queue; the greatest is the nearest.
#[derive(Debug, PartialEq)]
struct Entry {
    length: Length,
    node: u32,
}

impl Eq for Entry {}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_length = other.length.first.total_cmp(&self.length.first);
        by_length.then(other.length.second.total_cmp(&self.length.second)).then(other.node.cmp(&self.node))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The shortest paths to the target that was searched last. The vectors are indexed by node.
#[derive(Debug)]
pub(crate) struct Tree {
    length: Vec<Length>,
    /// The first arc of the path.
    next: Vec<u32>,
    queue: BinaryHeap<Entry>,
}

impl Tree {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { length: vec![Length::FARTHEST; nodes], next: vec![NONE; nodes], queue: BinaryHeap::new() }
    }

    /// Finds the shortest paths to `target` by the `first` lengths of arcs (`None`: the arc is closed); of equal ones
    /// those that are shorter by their `second` lengths, above 0 wherever the first are not.
    ///
    /// Lengths may be below 0 if no circle is. Returns whether the search came to an end: a circle below 0 has none.
    pub(crate) fn search(
        &mut self,
        arcs: &Arcs,
        target: u32,
        first: impl Fn(u32) -> Option<f64>,
        second: impl Fn(u32) -> f64,
    ) -> bool {
        self.length.fill(Length::FARTHEST);
        self.next.fill(NONE);
        self.queue.clear();
        let mut rest = ROUNDS * (self.length.len() + arcs.len());
        self.length[target as usize] = Length { first: 0.0, second: 0.0 };
        self.queue.push(Entry { length: self.length[target as usize], node: target });
        while let Some(Entry { length, node }) = self.queue.pop() {
            if self.length[node as usize].is_below(length) {
                continue;
            }
            if rest == 0 {
                return false;
            }
            rest -= 1;
            for &arc in arcs.entering(node) {
                let Some(own) = first(arc) else { continue };
                let tail = arcs.arc(arc).tail as usize;
                let longer = Length { first: length.first + own, second: length.second + second(arc) };
                if longer.is_below(self.length[tail]) {
                    self.length[tail] = longer;
                    self.next[tail] = arc;
                    self.queue.push(Entry { length: longer, node: tail as u32 });
                }
            }
        }
        true
    }

    /// The length from a node to the target; infinite if there is no way.
    pub(crate) fn distance(&self, node: u32) -> f64 {
        self.length[node as usize].first
    }

    /// The arcs of the path from a node to the target, which must be reachable.
    pub(crate) fn path(&self, arcs: &Arcs, source: u32) -> Vec<u32> {
        let first = (self.next[source as usize] != NONE).then_some(self.next[source as usize]);
        let after = |&arc: &u32| {
            let next = self.next[arcs.arc(arc).head as usize];
            (next != NONE).then_some(next)
        };
        let arcs = || std::iter::successors(first, after);
        // Millions of paths are kept: none with more room than it takes.
        let mut path = Vec::with_capacity(arcs().count());
        path.extend(arcs());
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Orientation, Topology};

    #[test]
    fn lengths_below_zero_are_followed_and_a_circle_of_them_is_told() {
        let links = [("a", "b", 1.0), ("b", "t", 1.0), ("a", "t", 1.0), ("b", "a", 1.0)];
        let arcs = Arcs::new(&Topology::from_links(Orientation::Directed, links).unwrap());
        let mut tree = Tree::new(arcs.nodes());
        let target = arcs.arc(1).head;
        let search = |tree: &mut Tree, lengths: [Option<f64>; 4]| {
            tree.search(&arcs, target, |arc| lengths[arc as usize], |_| 1.0)
        };
        assert!(search(&mut tree, [Some(-3.0), Some(4.0), Some(2.0), Some(3.5)]));
        assert_eq!((tree.distance(0), tree.path(&arcs, 0)), (1.0, vec![0, 1]));
        // A closed arc is no way.
        assert!(search(&mut tree, [None, Some(4.0), Some(2.0), Some(3.5)]));
        assert_eq!((tree.distance(0), tree.path(&arcs, 0)), (2.0, vec![2]));
        assert!(!search(&mut tree, [Some(-3.0), Some(4.0), Some(2.0), Some(2.5)]));
    }
}
