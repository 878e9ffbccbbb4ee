//! Strongly connected components of the residual network within one part (Tarjan 1972).
//!
//! petgraph's `tarjan_scc` would need a filtered copy of the graph for every step; here the residual network itself
//! is walked, and the working arrays live as long as the solver.

use crate::network::Network;

const UNSEEN: u32 = u32::MAX;

/// The working arrays of the search. All are indexed by node, save the stacks.
#[derive(Debug)]
pub(crate) struct Components {
    /// The component of node v, numbered so that residual arcs between components lead to smaller numbers.
    component: Vec<u32>,
    /// When node v was found.
    found: Vec<u32>,
    /// The earliest found node that node v is known to reach.
    low: Vec<u32>,
    /// Found nodes whose component is still open.
    open: Vec<u32>,
    /// The path of the search: nodes with the slot to look at next.
    path: Vec<(u32, u32)>,
    count: u32,
    clock: u32,
}

impl Components {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            component: vec![UNSEEN; nodes],
            found: vec![UNSEEN; nodes],
            low: vec![0; nodes],
            open: Vec::new(),
            path: Vec::new(),
            count: 0,
            clock: 0,
        }
    }

    /// The component of a node of the part that was searched last.
    pub(crate) fn of(&self, node: u32) -> u32 {
        self.component[node as usize]
    }

    /// Finds the components of `part` under the arcs whose residual exceeds `tolerance` and that `passable` (tail,
    /// head) lets through, and returns their number.
    pub(crate) fn search(
        &mut self,
        network: &Network,
        part: &[u32],
        tolerance: f64,
        passable: impl Fn(u32, u32) -> bool,
    ) -> u32 {
        (self.count, self.clock) = (0, 0);
        for &node in part {
            self.component[node as usize] = UNSEEN;
            self.found[node as usize] = UNSEEN;
        }
        for &node in part {
            if self.found[node as usize] == UNSEEN {
                self.search_from(node, network, tolerance, &passable);
            }
        }
        self.count
    }

    fn search_from(
        &mut self,
        root: u32,
        network: &Network,
        tolerance: f64,
        passable: &impl Fn(u32, u32) -> bool,
    ) {
        self.enter(root, network);
        while let Some((node, next)) = self.path.last_mut() {
            let node = *node;
            if *next as usize == network.range(node).end {
                self.leave(node);
                continue;
            }
            let slot = network.slot(*next as usize);
            *next += 1;
            if slot.residual <= tolerance || !passable(node, slot.head) {
                continue;
            }
            if self.found[slot.head as usize] == UNSEEN {
                self.enter(slot.head, network);
            } else if self.component[slot.head as usize] == UNSEEN {
                self.lower(node, self.found[slot.head as usize]);
            }
        }
    }

    fn enter(&mut self, node: u32, network: &Network) {
        self.found[node as usize] = self.clock;
        self.low[node as usize] = self.clock;
        self.clock += 1;
        self.open.push(node);
        self.path.push((node, network.range(node).start as u32));
    }

    /// Ends a node: closes its component if it is the first found of it, and tells its parent what it reaches.
    fn leave(&mut self, node: u32) {
        self.path.pop();
        let low = self.low[node as usize];
        if let Some(&(parent, _)) = self.path.last() {
            self.lower(parent, low);
        }
        if low != self.found[node as usize] {
            return;
        }
        while let Some(member) = self.open.pop() {
            self.component[member as usize] = self.count;
            if member == node {
                break;
            }
        }
        self.count += 1;
    }

    fn lower(&mut self, node: u32, reached: u32) {
        self.low[node as usize] = self.low[node as usize].min(reached);
    }
}
