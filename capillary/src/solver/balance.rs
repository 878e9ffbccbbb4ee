//! Flows by balancing: every node has an excess (what it must still send, negative: receive), and rounds of pushes
//! carry excesses along shortest residual paths to where they are missing.
//!
//! The flow to start from is arbitrary within the capacities. That is what makes warm starts cheap: a change of the
//! supplies is a change of a few excesses, not a new flow.

use crate::network::{Network, Slot};

/// The distance of nodes from which no deficit can be reached.
const UNREACHED: u32 = u32::MAX;

/// The distance of nodes that an excess reaches which is stuck for good.
const AHEAD: u32 = UNREACHED - 1;

/// How [`Balance::settle`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Every supply is met.
    Balanced,
    /// Some nodes have more to send than the arcs around them can carry: a cut that is too small for its supply.
    CutOff,
}

/// A residual network with the excess of each node.
#[derive(Debug)]
pub(crate) struct Balance {
    pub(crate) network: Network,
    /// What node v must still send so that its net outflow is its supply. Index: node.
    pub(crate) excess: Vec<f64>,
    /// Fewest residual arcs from node v to a deficit. Index: node.
    distance: Vec<u32>,
    /// The slot to look at next, by node.
    next: Vec<u32>,
    /// The slots of the path that is being looked for.
    path: Vec<usize>,
    /// Nodes by increasing distance.
    queue: Vec<u32>,
    /// Nodes that may be farther than those of the queue.
    unreached: Vec<u32>,
    /// How many times distances were found anew, in all.
    pub(crate) rounds: usize,
}

impl Balance {
    pub(crate) fn new(network: Network, nodes: usize) -> Self {
        Self {
            network,
            excess: vec![0.0; nodes],
            distance: vec![UNREACHED; nodes],
            next: vec![0; nodes],
            path: Vec::new(),
            queue: Vec::with_capacity(nodes),
            unreached: Vec::with_capacity(nodes),
            rounds: 0,
        }
    }

    /// Carries excesses to deficits until none above `tolerance` is left, or until some are cut off from every deficit:
    /// what is cut off is then told by [`Balance::is_cut_off`]. `part` must be closed: no residual arc leaves it.
    ///
    /// Each round finds the distances to the deficits and then fills all shortest paths (Dinic 1970), from every node
    /// with an excess at once.
    pub(crate) fn settle(&mut self, part: &[u32], tolerance: f64) -> Settled {
        loop {
            match self.find_distances(part, tolerance) {
                (0, 0) => return Settled::Balanced,
                (_, 0) => {}
                (_, _) => return Settled::CutOff,
            }
            for place in 0..self.queue.len() {
                self.discharge(self.queue[place], tolerance);
            }
        }
    }

    /// Carries as much as ever reaches a deficit, and returns how many nodes are left with an excess that is cut off
    /// from all of them. `part` must be closed.
    pub(crate) fn carry(&mut self, part: &[u32], tolerance: f64) -> usize {
        loop {
            let (excesses, stuck) = self.find_distances(part, tolerance);
            if excesses == stuck {
                return stuck;
            }
            for place in 0..self.queue.len() {
                self.discharge(self.queue[place], tolerance);
            }
        }
    }

    /// After [`Balance::carry`] has left something stuck: the nodes of the part that it could still reach, and those
    /// from which a deficit could be reached. Either is the one side of a cut that is too small for its supply.
    pub(crate) fn stuck_sides(&mut self, part: &[u32], tolerance: f64) -> (Vec<u32>, Vec<u32>) {
        let is_behind = |&node: &u32| self.distance[node as usize] < AHEAD;
        let behind = part.iter().copied().filter(is_behind).collect();
        let mut ahead: Vec<u32> =
            part.iter().copied().filter(|&node| self.excess[node as usize] > tolerance).collect();
        ahead.iter().for_each(|&node| self.distance[node as usize] = AHEAD);
        let mut place = 0;
        while let Some(&node) = ahead.get(place) {
            for slot in self.network.slots(node) {
                if slot.residual > tolerance && self.distance[slot.head as usize] == UNREACHED {
                    self.distance[slot.head as usize] = AHEAD;
                    ahead.push(slot.head);
                }
            }
            place += 1;
        }
        (ahead, behind)
    }

    /// Whether the node is on the source side of the cut that the last [`Balance::settle`] ended with.
    pub(crate) fn is_cut_off(&self, node: u32) -> bool {
        self.distance[node as usize] == UNREACHED
    }

    /// Finds how far each node is from a deficit, up to the farthest with an excess. Returns how many nodes have an
    /// excess, and how many of them cannot reach a deficit.
    fn find_distances(&mut self, part: &[u32], tolerance: f64) -> (usize, usize) {
        self.rounds += 1;
        self.queue.clear();
        self.unreached.clear();
        let mut missing = 0;
        for &node in part {
            self.next[node as usize] = self.network.range(node).start as u32;
            let excess = self.excess[node as usize];
            missing += usize::from(excess > tolerance);
            if excess < -tolerance {
                self.distance[node as usize] = 0;
                self.queue.push(node);
            } else {
                self.distance[node as usize] = UNREACHED;
                self.unreached.push(node);
            }
        }
        let excesses = missing;
        let (mut level, mut begin) = (0, 0);
        while missing > 0 && begin < self.queue.len() {
            let end = self.queue.len();
            // Where most nodes are near, it is quicker to ask those that are left whether they are, too: the first arc
            // that leads to the last level is enough (Beamer, Asanović, Patterson 2012).
            if end - begin > self.unreached.len() / 4 {
                self.reach_from_far(level, tolerance);
            } else {
                self.reach_from_near(begin..end, tolerance);
            }
            let found =
                self.queue[end..].iter().filter(|&&node| self.excess[node as usize] > tolerance).count();
            (missing, level, begin) = (missing - found, level + 1, end);
        }
        (excesses, missing)
    }

    /// Puts the nodes into the queue that the places `near` of it can be reached from, one arc farther.
    fn reach_from_near(&mut self, near: std::ops::Range<usize>, tolerance: f64) {
        for place in near {
            let node = self.queue[place];
            let beyond = self.distance[node as usize] + 1;
            for slot in self.network.slots(node) {
                if slot.reverse > tolerance && self.distance[slot.head as usize] == UNREACHED {
                    self.distance[slot.head as usize] = beyond;
                    self.queue.push(slot.head);
                }
            }
        }
    }

    /// Puts the nodes into the queue that reach a node of distance `level`, and have not been reached before.
    fn reach_from_far(&mut self, level: u32, tolerance: f64) {
        let Self { network, distance, queue, unreached, .. } = self;
        unreached.retain(|&node| {
            let is_far = distance[node as usize] == UNREACHED;
            let is_next = |slot: &Slot| slot.residual > tolerance && distance[slot.head as usize] == level;
            let is_reached = is_far && network.slots(node).iter().any(is_next);
            if is_reached {
                distance[node as usize] = level + 1;
                queue.push(node);
            }
            is_far && !is_reached
        });
    }

    /// Carries the excess of a node along shortest residual paths to deficits, as far as there are any left.
    fn discharge(&mut self, node: u32, tolerance: f64) {
        while self.excess[node as usize] > tolerance && self.find_path(node, tolerance) {
            let last = self.path.last().map_or(node, |&index| self.network.slot(index).head);
            let available = self.excess[node as usize].min(-self.excess[last as usize]);
            let amount = self
                .path
                .iter()
                .fold(available, |amount, &index| amount.min(self.network.slot(index).residual));
            for &index in &self.path {
                self.network.push(index, amount);
            }
            self.excess[node as usize] -= amount;
            self.excess[last as usize] += amount;
        }
    }

    /// Finds a path from a node, each arc one nearer to a deficit. Arcs before `next` of a node lead nowhere any more.
    fn find_path(&mut self, node: u32, tolerance: f64) -> bool {
        self.path.clear();
        let mut here = node;
        loop {
            let distance = self.distance[here as usize];
            if distance == 0 && self.excess[here as usize] < -tolerance {
                return true;
            }
            if let Some(index) = self.step_nearer(here, distance, tolerance) {
                self.path.push(index);
                here = self.network.slot(index).head;
                continue;
            }
            let Some(back) = self.path.pop() else { return false };
            here = self.network.tail(back);
            self.next[here as usize] += 1;
        }
    }

    /// The next slot of a node that leads one nearer to a deficit.
    fn step_nearer(&mut self, node: u32, distance: u32, tolerance: f64) -> Option<usize> {
        let end = self.network.range(node).end;
        let nearer = distance.checked_sub(1)?;
        let found = (self.next[node as usize] as usize..end).find(|&index| {
            let slot = self.network.slot(index);
            slot.residual > tolerance && self.distance[slot.head as usize] == nearer
        });
        self.next[node as usize] = found.unwrap_or(end) as u32;
        found
    }
}
