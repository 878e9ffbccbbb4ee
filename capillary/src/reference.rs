//! The recursion of [theory §1.3] written down plainly, over any kind of number.
//!
//! Every maximum flow starts from nothing on a graph that is built for it, and nothing is shared with the solver of
//! [`solve`](crate::solve). Over rational numbers (feature `exact`) this is the oracle of the tests and exact without
//! any tolerance; over `f64` it is the baseline that the benchmark compares with.

use crate::solver::{SolveError, check_pair, unreachable};
use crate::topology::{NodeId, Orientation, Topology};

/// A number that the reference solver can reckon with.
pub trait Scalar: Clone + PartialOrd {
    /// The number of a capacity.
    fn from_capacity(capacity: f64) -> Self;
    /// Nothing.
    fn zero() -> Self;
    /// One.
    fn one() -> Self;
    /// self + other.
    fn plus(&self, other: &Self) -> Self;
    /// self − other.
    fn minus(&self, other: &Self) -> Self;
    /// self · other.
    fn times(&self, other: &Self) -> Self;
    /// self / other; other is never zero.
    fn over(&self, other: &Self) -> Self;
    /// Whether the number is above zero by more than round-off.
    fn is_positive(&self) -> bool;
}

impl Scalar for f64 {
    fn from_capacity(capacity: f64) -> Self {
        capacity
    }
    fn zero() -> Self {
        0.0
    }
    fn one() -> Self {
        1.0
    }
    fn plus(&self, other: &Self) -> Self {
        self + other
    }
    fn minus(&self, other: &Self) -> Self {
        self - other
    }
    fn times(&self, other: &Self) -> Self {
        self * other
    }
    fn over(&self, other: &Self) -> Self {
        self / other
    }
    fn is_positive(&self) -> bool {
        *self > 1e-10
    }
}

/// The signed flow of each link (index: link) in the capillary routing from `source` to `target`.
pub fn solve<S: Scalar>(topology: &Topology, source: NodeId, target: NodeId) -> Result<Vec<S>, SolveError> {
    check_pair(topology, source, target)?;
    let mut flows = vec![S::zero(); topology.link_count()];
    let mut pending = vec![Part::<S>::whole(topology, source, target)];
    while let Some(mut part) = pending.pop() {
        let Some((ratio, residual)) = part.largest_flow() else { continue };
        if !ratio.is_positive() {
            return Err(unreachable(topology, source, target));
        }
        part.grow(&ratio);
        let component = residual.components();
        for (index, arc) in part.arcs.iter().enumerate() {
            let apart = component[arc.tail] != component[arc.head];
            if apart && !residual.left(index).is_positive() {
                part.supply[arc.tail] = part.supply[arc.tail].minus(&arc.capacity);
                part.supply[arc.head] = part.supply[arc.head].plus(&arc.capacity);
                let flow = arc.capacity.over(&part.scale);
                flows[arc.link] = if arc.forward { flow } else { S::zero().minus(&flow) };
            }
        }
        pending.extend(part.divide(&component));
    }
    Ok(flows)
}

#[derive(Clone)]
struct Arc<S> {
    tail: usize,
    head: usize,
    capacity: S,
    link: usize,
    forward: bool,
}

/// An independent problem: its nodes are numbered from 0.
struct Part<S> {
    arcs: Vec<Arc<S>>,
    supply: Vec<S>,
    scale: S,
}

impl<S: Scalar> Part<S> {
    fn whole(topology: &Topology, source: NodeId, target: NodeId) -> Self {
        let mut supply = vec![S::zero(); topology.node_count()];
        supply[source.index()] = S::one();
        supply[target.index()] = S::zero().minus(&S::one());
        let mut arcs = Vec::new();
        for (id, from, to, link) in topology.links().filter(|(_, from, to, _)| from != to) {
            let capacity = S::from_capacity(link.capacity);
            let (tail, head) = (from.index(), to.index());
            let arc = Arc { tail, head, capacity, link: id.index(), forward: true };
            if topology.orientation() == Orientation::Undirected {
                arcs.push(Arc { tail: head, head: tail, forward: false, ..arc.clone() });
            }
            arcs.push(arc);
        }
        Self { arcs, supply, scale: S::one() }
    }

    /// The largest λ for which λ times the supplies can flow, with such a flow; `None` if there are no supplies.
    fn largest_flow(&self) -> Option<(S, Residual<S>)> {
        let mut ratio = self.bound()?;
        loop {
            let residual = Residual::with_largest_flow(self, &ratio);
            let Some(next) = self.cut_ratio(&residual) else { return Some((ratio, residual)) };
            if next >= ratio {
                return Some((ratio, residual));
            }
            ratio = next;
        }
    }

    /// The capacity of all arcs that leave nodes with supply, over that supply: an upper bound of λ.
    fn bound(&self) -> Option<S> {
        let feeds = |node: usize| self.supply[node].is_positive();
        let leaving = self.arcs.iter().filter(|arc| feeds(arc.tail) && !feeds(arc.head));
        let capacity = leaving.fold(S::zero(), |sum, arc| sum.plus(&arc.capacity));
        let supplies = self.supply.iter().filter(|supply| supply.is_positive());
        let supply = supplies.fold(S::zero(), |sum, supply| sum.plus(supply));
        supply.is_positive().then(|| capacity.over(&supply))
    }

    /// The ratio of the cut around what the super-source still reaches, if it is not yet saturated.
    fn cut_ratio(&self, residual: &Residual<S>) -> Option<S> {
        let levels = residual.levels();
        let nodes = 0..self.supply.len();
        let inside = |node: usize| levels[node].is_some();
        let supply =
            nodes.filter(|&node| inside(node)).fold(S::zero(), |sum, node| sum.plus(&self.supply[node]));
        let leaving = self.arcs.iter().filter(|arc| inside(arc.tail) && !inside(arc.head));
        let capacity = leaving.fold(S::zero(), |sum, arc| sum.plus(&arc.capacity));
        supply.is_positive().then(|| capacity.over(&supply))
    }

    fn grow(&mut self, ratio: &S) {
        self.scale = self.scale.times(ratio);
        for supply in &mut self.supply {
            *supply = supply.times(ratio);
        }
    }

    /// One problem per component, with the arcs and supplies of its own.
    fn divide(self, component: &[usize]) -> Vec<Self> {
        let count = component.iter().max().map_or(0, |last| last + 1);
        let mut parts: Vec<Self> = Vec::new();
        parts.resize_with(count, || Self { arcs: Vec::new(), supply: Vec::new(), scale: self.scale.clone() });
        let mut number = Vec::with_capacity(component.len());
        for (node, supply) in self.supply.into_iter().enumerate() {
            let part = &mut parts[component[node]];
            number.push(part.supply.len());
            part.supply.push(supply);
        }
        for arc in self.arcs {
            if component[arc.tail] == component[arc.head] {
                let (tail, head) = (number[arc.tail], number[arc.head]);
                parts[component[arc.tail]].arcs.push(Arc { tail, head, ..arc });
            }
        }
        parts
    }
}

/// A residual graph with a super-source and a super-sink, as in any textbook.
struct Residual<S> {
    /// Arc 2i is the part's arc i, arc 2i + 1 its way back; the super-source's and super-sink's follow.
    head: Vec<usize>,
    left: Vec<S>,
    outgoing: Vec<Vec<usize>>,
    part_arcs: usize,
}

impl<S: Scalar> Residual<S> {
    fn source(&self) -> usize {
        self.outgoing.len() - 2
    }

    fn sink(&self) -> usize {
        self.outgoing.len() - 1
    }

    fn with_largest_flow(part: &Part<S>, ratio: &S) -> Self {
        let nodes = part.supply.len();
        let outgoing = vec![Vec::new(); nodes + 2];
        let mut graph = Self { head: Vec::new(), left: Vec::new(), outgoing, part_arcs: part.arcs.len() };
        for arc in &part.arcs {
            graph.add(arc.tail, arc.head, arc.capacity.clone());
        }
        for (node, supply) in part.supply.iter().enumerate() {
            let demand = supply.times(ratio);
            if demand.is_positive() {
                graph.add(nodes, node, demand);
            } else if S::zero().minus(&demand).is_positive() {
                graph.add(node, nodes + 1, S::zero().minus(&demand));
            }
        }
        graph.augment();
        graph
    }

    fn add(&mut self, tail: usize, head: usize, capacity: S) {
        self.outgoing[tail].push(self.head.len());
        self.head.push(head);
        self.left.push(capacity);
        self.outgoing[head].push(self.head.len());
        self.head.push(tail);
        self.left.push(S::zero());
    }

    /// What a part's arc can still carry.
    fn left(&self, part_arc: usize) -> &S {
        &self.left[2 * part_arc]
    }

    /// Dinic's algorithm.
    fn augment(&mut self) {
        loop {
            let levels = self.levels();
            if levels[self.sink()].is_none() {
                return;
            }
            let mut next = vec![0; self.outgoing.len()];
            while self.augment_path(&levels, &mut next) {}
        }
    }

    /// Breadth-first levels from the super-source.
    fn levels(&self) -> Vec<Option<usize>> {
        let mut levels = vec![None; self.outgoing.len()];
        levels[self.source()] = Some(0);
        let mut queue = std::collections::VecDeque::from([self.source()]);
        while let Some(node) = queue.pop_front() {
            for &arc in &self.outgoing[node] {
                let head = self.head[arc];
                if levels[head].is_none() && self.left[arc].is_positive() {
                    levels[head] = levels[node].map(|level: usize| level + 1);
                    queue.push_back(head);
                }
            }
        }
        levels
    }

    /// Pushes along one path of rising levels; `next` remembers which arcs are spent.
    fn augment_path(&mut self, levels: &[Option<usize>], next: &mut [usize]) -> bool {
        let mut path: Vec<usize> = Vec::new();
        let mut node = self.source();
        while node != self.sink() {
            let Some(&arc) = self.outgoing[node].get(next[node]) else {
                let Some(back) = path.pop() else { return false };
                node = self.head[back ^ 1];
                next[node] += 1;
                continue;
            };
            let rises = levels[self.head[arc]] == levels[node].map(|level| level + 1);
            if rises && self.left[arc].is_positive() {
                path.push(arc);
                node = self.head[arc];
            } else {
                next[node] += 1;
            }
        }
        self.push(&path);
        true
    }

    fn push(&mut self, path: &[usize]) {
        let mut width = self.left[path[0]].clone();
        for &arc in path {
            if self.left[arc] < width {
                width = self.left[arc].clone();
            }
        }
        for &arc in path {
            self.left[arc] = self.left[arc].minus(&width);
            self.left[arc ^ 1] = self.left[arc ^ 1].plus(&width);
        }
    }

    /// The strongly connected component of each of the part's nodes, the super-source and super-sink left out.
    fn components(&self) -> Vec<usize> {
        let nodes = self.outgoing.len() - 2;
        let mut graph = petgraph::graph::DiGraph::<(), (), usize>::with_capacity(nodes, self.head.len());
        for _ in 0..nodes {
            graph.add_node(());
        }
        for arc in 0..2 * self.part_arcs {
            if self.left[arc].is_positive() {
                graph.add_edge(self.head[arc ^ 1].into(), self.head[arc].into(), ());
            }
        }
        let mut component = vec![0; nodes];
        for (number, members) in petgraph::algo::tarjan_scc(&graph).into_iter().enumerate() {
            for node in members {
                component[node.index()] = number;
            }
        }
        component
    }
}
