//! The rest of a flow that stops at some layer: what the layers have not fixed goes the cheapest way [theory §1.5].

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Costs that differ by less than this, relative to the largest, are equal.
const EQUAL_COSTS: f64 = 1e-11;

/// A minimum-cost flow problem on nodes 0..n, solved by the primal–dual method: all cheapest ways at once, then the
/// next cheapest. With equal capacities the costs are whole numbers, and there are few different ones.
#[derive(Debug)]
pub(crate) struct MinimumCostFlow {
    /// Arc 2i is the i-th arc that was added, arc 2i + 1 its way back.
    arcs: Vec<Arc>,
    outgoing: Vec<Vec<u32>>,
    excess: Vec<f64>,
    /// The price of a node: arcs on cheapest ways cost as much as the price falls along them.
    price: Vec<f64>,
    /// Amounts below this are round-off.
    tolerance: f64,
}

#[derive(Debug, Clone, Copy)]
struct Arc {
    head: u32,
    residual: f64,
    cost: f64,
}

impl MinimumCostFlow {
    /// A problem without arcs. `supply` is what each node sends, negative: receives.
    pub(crate) fn new(supply: Vec<f64>, tolerance: f64) -> Self {
        let nodes = supply.len();
        let outgoing = vec![Vec::new(); nodes];
        Self { arcs: Vec::new(), outgoing, excess: supply, price: vec![0.0; nodes], tolerance }
    }

    /// Adds an arc; of equally cheap ways those over earlier arcs are filled first.
    pub(crate) fn add(&mut self, tail: u32, head: u32, capacity: f64, cost: f64) {
        for (from, arc) in [
            (tail, Arc { head, residual: capacity, cost }),
            (head, Arc { head: tail, residual: 0.0, cost: -cost }),
        ] {
            self.outgoing[from as usize].push(self.arcs.len() as u32);
            self.arcs.push(arc);
        }
    }

    /// The flow on each arc that was added, in order.
    pub(crate) fn solve(mut self) -> Vec<f64> {
        let largest = self.arcs.iter().fold(0.0, |largest: f64, arc| largest.max(arc.cost));
        while self.lower_prices() {
            let mut visited = vec![false; self.excess.len()];
            for node in 0..self.excess.len() as u32 {
                while self.excess[node as usize] > self.tolerance
                    && self.send_from(node, largest * EQUAL_COSTS, &mut visited)
                {}
            }
        }
        self.arcs.chunks(2).map(|pair| pair[1].residual).collect()
    }

    /// Finds the cheapest way from each node to a deficit (Dijkstra, against the arcs) and makes it the node's price.
    /// Returns whether an excess can still go somewhere.
    fn lower_prices(&mut self) -> bool {
        let mut distance = vec![f64::INFINITY; self.excess.len()];
        let mut queue = BinaryHeap::new();
        for node in 0..self.excess.len() {
            if self.excess[node] < -self.tolerance {
                distance[node] = 0.0;
                queue.push(Reverse((Ordered(0.0), node as u32)));
            }
        }
        let mut farthest = 0.0;
        let mut found = false;
        while let Some(Reverse((Ordered(reached), node))) = queue.pop() {
            if reached > distance[node as usize] {
                continue;
            }
            farthest = reached;
            found |= self.excess[node as usize] > self.tolerance;
            for &back in &self.outgoing[node as usize] {
                let tail = self.arcs[back as usize].head;
                let arc = self.arcs[back as usize ^ 1];
                let longer = reached + self.reduced_cost(tail, &arc).max(0.0);
                if arc.residual > self.tolerance && longer < distance[tail as usize] {
                    distance[tail as usize] = longer;
                    queue.push(Reverse((Ordered(longer), tail)));
                }
            }
        }
        for (price, distance) in self.price.iter_mut().zip(distance) {
            *price += distance.min(farthest);
        }
        found
    }

    fn reduced_cost(&self, tail: u32, arc: &Arc) -> f64 {
        arc.cost + self.price[arc.head as usize] - self.price[tail as usize]
    }

    /// Sends excess of `node` along one cheapest way to a deficit. Nodes from which none leads on are `visited` for
    /// good: filled arcs open only ways back along the cheapest ways, which the search has been through.
    fn send_from(&mut self, node: u32, equal: f64, visited: &mut [bool]) -> bool {
        let mut path: Vec<u32> = Vec::new();
        let mut next: Vec<usize> = vec![0];
        let mut here = node;
        if visited[node as usize] {
            return false;
        }
        visited[node as usize] = true;
        while self.excess[here as usize] >= -self.tolerance {
            let place = next.len() - 1;
            let Some(&arc) = self.outgoing[here as usize].get(next[place]) else {
                next.pop();
                let Some(back) = path.pop() else { return false };
                here = self.arcs[back as usize ^ 1].head;
                continue;
            };
            next[place] += 1;
            let step = self.arcs[arc as usize];
            let open = step.residual > self.tolerance && !visited[step.head as usize];
            if open && self.reduced_cost(here, &step) <= equal {
                visited[step.head as usize] = true;
                path.push(arc);
                next.push(0);
                here = step.head;
            }
        }
        self.push(node, here, &path);
        // The nodes of the path lead on still, as far as it is not full.
        visited[node as usize] = false;
        for &arc in &path {
            visited[self.arcs[arc as usize].head as usize] = false;
        }
        true
    }

    fn push(&mut self, from: u32, to: u32, path: &[u32]) {
        let available = self.excess[from as usize].min(-self.excess[to as usize]);
        let amount = path.iter().fold(available, |amount, &arc| amount.min(self.arcs[arc as usize].residual));
        for &arc in path {
            self.arcs[arc as usize].residual -= amount;
            self.arcs[arc as usize ^ 1].residual += amount;
        }
        self.excess[from as usize] -= amount;
        self.excess[to as usize] += amount;
    }
}

/// A distance, which is never NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ordered(f64);

impl Eq for Ordered {}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheaper_way_is_filled_first() {
        // 0 → 1 directly at cost 3, or through 2 at cost 2 with room for one half.
        let mut problem = MinimumCostFlow::new(vec![1.0, -1.0, 0.0], 1e-12);
        problem.add(0, 1, 1.0, 3.0);
        problem.add(0, 2, 0.5, 1.0);
        problem.add(2, 1, 1.0, 1.0);
        assert_eq!(problem.solve(), [0.5, 0.5, 0.5]);
    }

    #[test]
    fn a_way_that_was_taken_too_early_is_taken_back() {
        // The cheapest way 0-2-3-1 blocks both of the ways that together carry 2.
        let mut problem = MinimumCostFlow::new(vec![2.0, -2.0, 0.0, 0.0], 1e-12);
        for (tail, head, cost) in [(0, 2, 1.0), (2, 3, 1.0), (3, 1, 1.0), (0, 3, 3.0), (2, 1, 3.0)] {
            problem.add(tail, head, 1.0, cost);
        }
        assert_eq!(problem.solve(), [1.0, 0.0, 1.0, 1.0, 1.0]);
    }
}
