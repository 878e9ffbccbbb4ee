//! The cheapest flow: what goes where no layer decides [theory §1.5], and the baselines.

use std::cmp::{Ordering, Reverse};
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

    /// Makes room for so many arcs, and no more.
    pub(crate) fn reserve(&mut self, arcs: usize) {
        self.arcs.reserve_exact(2 * arcs);
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
        let equal = largest * EQUAL_COSTS;
        while let Some((sources, steps)) = self.lower_prices(equal) {
            let mut next = vec![0; self.excess.len()];
            for node in sources {
                while self.excess[node as usize] > self.tolerance
                    && self.send_from(node, equal, &steps, &mut next)
                {}
            }
        }
        self.arcs.chunks(2).map(|pair| pair[1].residual).collect()
    }

    /// Finds the cheapest ways to a deficit (Dijkstra, against the arcs) as far as to the nearest nodes with an excess,
    /// and raises the prices by them. Returns those nodes, and for each node the fewest arcs of a cheapest way from
    /// it; `None` if no excess can go anywhere.
    fn lower_prices(&mut self, equal: f64) -> Option<(Vec<u32>, Vec<u32>)> {
        let mut distance = vec![Distance::UNREACHED; self.excess.len()];
        let mut queue = BinaryHeap::new();
        for (node, start) in distance.iter_mut().enumerate() {
            if self.excess[node] < -self.tolerance {
                *start = Distance { cost: 0.0, steps: 0 };
                queue.push(Reverse((*start, node as u32)));
            }
        }
        let mut nearest = f64::INFINITY;
        let mut sources = Vec::new();
        while let Some(Reverse((reached, node))) = queue.pop() {
            if reached.cost > nearest {
                break;
            }
            if reached > distance[node as usize] {
                continue;
            }
            if self.excess[node as usize] > self.tolerance {
                nearest = reached.cost;
                sources.push(node);
            }
            for &back in &self.outgoing[node as usize] {
                let tail = self.arcs[back as usize].head;
                let arc = self.arcs[back as usize ^ 1];
                let longer = reached.and(self.reduced_cost(tail, &arc), equal);
                if arc.residual > self.tolerance && longer < distance[tail as usize] {
                    distance[tail as usize] = longer;
                    queue.push(Reverse((longer, tail)));
                }
            }
        }
        for (price, distance) in self.price.iter_mut().zip(&distance) {
            *price += distance.cost.min(nearest);
        }
        let steps = distance.into_iter().map(|distance| distance.steps).collect();
        (!sources.is_empty()).then_some((sources, steps))
    }

    fn reduced_cost(&self, tail: u32, arc: &Arc) -> f64 {
        arc.cost + self.price[arc.head as usize] - self.price[tail as usize]
    }

    /// Sends excess of `node` along one cheapest way of fewest `steps` to a deficit, if there is one left. Arcs before
    /// `next` of a node lead nowhere any more.
    fn send_from(&mut self, node: u32, equal: f64, steps: &[u32], next: &mut [usize]) -> bool {
        let mut path: Vec<u32> = Vec::new();
        let mut here = node;
        while self.excess[here as usize] >= -self.tolerance {
            let Some(&arc) = self.outgoing[here as usize].get(next[here as usize]) else {
                let Some(back) = path.pop() else { return false };
                here = self.arcs[back as usize ^ 1].head;
                next[here as usize] += 1;
                continue;
            };
            let step = self.arcs[arc as usize];
            let nearer = steps[step.head as usize].wrapping_add(1) == steps[here as usize];
            if nearer && step.residual > self.tolerance && self.reduced_cost(here, &step) <= equal {
                path.push(arc);
                here = step.head;
            } else {
                next[here as usize] += 1;
            }
        }
        self.push(node, here, &path);
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

/// How far a node is from a deficit: first by cost, then by arcs.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Distance {
    /// Never NaN.
    cost: f64,
    steps: u32,
}

impl Distance {
    const UNREACHED: Self = Self { cost: f64::INFINITY, steps: u32::MAX };

    /// One arc farther; a cost that is no more than round-off is none.
    fn and(self, cost: f64, equal: f64) -> Self {
        Self { cost: self.cost + if cost <= equal { 0.0 } else { cost }, steps: self.steps + 1 }
    }
}

impl Eq for Distance {}

impl Ord for Distance {
    fn cmp(&self, other: &Self) -> Ordering {
        self.cost.total_cmp(&other.cost).then(self.steps.cmp(&other.steps))
    }
}

impl PartialOrd for Distance {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
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
