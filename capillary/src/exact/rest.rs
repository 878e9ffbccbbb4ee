//! What the layers have left free, in exact arithmetic: the cheapest flow by successive cheapest paths, plainly.

use num_rational::BigRational;
use num_traits::{Signed, Zero};

use crate::exact::decimal;
use crate::topology::{Orientation, Topology};

/// One direction of a link that no layer has fixed.
struct Arc {
    tail: usize,
    head: usize,
    link: usize,
    /// 1 in the link's own direction, else -1.
    sign: i8,
    room: BigRational,
    cost: BigRational,
}

/// Replaces the flows of the links that are not fixed by the cheapest flow, of least Σ |flow|/capacity, that carries as
/// much between the fixed ones, and puts at most `load` times its capacity on each link.
pub(super) fn fill(topology: &Topology, is_fixed: &[bool], load: &BigRational, flows: &mut [BigRational]) {
    let mut excess = vec![BigRational::zero(); topology.node_count()];
    let mut arcs = Vec::new();
    for (id, from, to, link) in topology.links().filter(|(id, ..)| !is_fixed[id.index()]) {
        let flow = std::mem::take(&mut flows[id.index()]);
        excess[from.index()] += &flow;
        excess[to.index()] -= &flow;
        let capacity = decimal(link.capacity);
        let count = if topology.orientation() == Orientation::Undirected { 2 } else { 1 };
        let ways = [(from, to, 1), (to, from, -1)];
        for (tail, head, sign) in ways.into_iter().take(count).filter(|_| from != to) {
            let (room, cost) = (&capacity * load, capacity.recip());
            arcs.push(Arc { tail: tail.index(), head: head.index(), link: id.index(), sign, room, cost });
        }
    }
    let mut problem = Problem { flow: vec![BigRational::zero(); arcs.len()], arcs, excess };
    while problem.send() {}
    for (arc, flow) in problem.arcs.iter().zip(problem.flow) {
        if arc.sign > 0 {
            flows[arc.link] += flow;
        } else {
            flows[arc.link] -= flow;
        }
    }
}

struct Problem {
    arcs: Vec<Arc>,
    /// What each arc carries; index: arc.
    flow: Vec<BigRational>,
    /// What each node must still send (negative: receive); index: node.
    excess: Vec<BigRational>,
}

/// A step of a way: an arc, and whether it is taken against its direction.
type Step = (usize, bool);

impl Problem {
    /// Sends as much as one cheapest path takes; `false`: nothing is left to send.
    fn send(&mut self) -> bool {
        let Some((target, into)) = self.cheapest() else { return false };
        let mut path = Vec::new();
        let mut node = target;
        while let Some((arc, is_back)) = into[node] {
            path.push((arc, is_back));
            node = if is_back { self.arcs[arc].head } else { self.arcs[arc].tail };
        }
        let ends = self.excess[node].clone().min(-&self.excess[target]);
        let amount = path.iter().fold(ends, |amount, &step| amount.min(self.room(step)));
        for (arc, is_back) in path {
            if is_back {
                self.flow[arc] -= &amount;
            } else {
                self.flow[arc] += &amount;
            }
        }
        self.excess[node] -= &amount;
        self.excess[target] += amount;
        true
    }

    fn room(&self, (arc, is_back): Step) -> BigRational {
        if is_back { self.flow[arc].clone() } else { &self.arcs[arc].room - &self.flow[arc] }
    }

    /// The cheapest way from any node that must send to one that must receive (Bellman and Ford): its end, and the last
    /// step into each node. Costs are exact, so that no circle is ever below 0.
    fn cheapest(&self) -> Option<(usize, Vec<Option<Step>>)> {
        let nodes = self.excess.len();
        let start = |excess: &BigRational| excess.is_positive().then(|| (BigRational::zero(), 0));
        let mut distance: Vec<Option<(BigRational, usize)>> = self.excess.iter().map(start).collect();
        let mut into = vec![None; nodes];
        let mut is_changed = true;
        while is_changed {
            is_changed = false;
            for (index, arc) in self.arcs.iter().enumerate() {
                for (tail, head, is_back) in [(arc.tail, arc.head, false), (arc.head, arc.tail, true)] {
                    let Some((cost, steps)) = &distance[tail] else { continue };
                    if !self.room((index, is_back)).is_positive() {
                        continue;
                    }
                    let cost = if is_back { cost - &arc.cost } else { cost + &arc.cost };
                    let longer = Some((cost, steps + 1));
                    if distance[head].is_none() || longer < distance[head] {
                        (distance[head], into[head], is_changed) = (longer, Some((index, is_back)), true);
                    }
                }
            }
        }
        let targets = (0..nodes).filter(|&node| self.excess[node].is_negative() && distance[node].is_some());
        let nearest = targets.min_by(|&a, &b| distance[a].cmp(&distance[b]))?;
        Some((nearest, into))
    }
}
