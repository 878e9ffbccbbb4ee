//! Bounds on the paths of every demand: how many links, how much delay, how much longer than the shortest path.
//!
//! A bound holds path by path. What goes to a target cannot be put together then: at a node a demand that has come far
//! may have to go straight on where another one need not. So the arcs that a demand may use are not known beforehand,
//! and a cheapest path within bounds is searched by labels: at each node every price for which no cheaper path needs as
//! little of each bound (Hansen 1980). With bounds on links alone that is the layered graph of links.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::matrix::arcs::Arcs;
use crate::matrix::tree::Tree;
use crate::matrix::{Demand, MatrixError};
use crate::topology::Topology;

/// Bounds are met if they are exceeded by less than this, relative: lengths are sums of decimal numbers.
const SLACK: f64 = 1e-9;

/// Links, delay in seconds, length by the links' metrics.
const KINDS: usize = 3;

type Amounts = [f64; KINDS];

/// What every path must keep, of one demand or of all; `None`: there is no such bound.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PathBounds {
    /// The most links of a path.
    pub hops: Option<NonZeroU32>,
    /// The longest delay of a path, one way, of propagation alone. Each link must have one.
    pub delay: Option<Duration>,
    /// How many times as long as the demand's shortest path its paths may be, by the metrics of the links; at least 1.
    pub stretch: Option<f64>,
}

impl PathBounds {
    /// Whether there are any.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The narrower bound of each kind.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            hops: self.hops.into_iter().chain(other.hops).min(),
            delay: self.delay.into_iter().chain(other.delay).min(),
            stretch: self.stretch.into_iter().chain(other.stretch).reduce(f64::min),
        }
    }

    /// What bounds are sorted by.
    pub(super) fn key(&self) -> (Option<NonZeroU32>, Option<Duration>, Option<u64>) {
        (self.hops, self.delay, self.stretch.map(f64::to_bits))
    }
}

/// The bounds of a topology's demands as numbers.
#[derive(Debug)]
pub(super) struct Budgets {
    /// What each arc takes of the bounds. Index: arc.
    needs: Vec<Amounts>,
    /// What each demand may take in all. Index: demand.
    limits: Vec<Amounts>,
}

impl Budgets {
    /// The budgets of demands; `None` without bounds.
    pub(super) fn new(
        topology: &Topology,
        arcs: &Arcs,
        demands: &[Demand],
        bounds: &PathBounds,
    ) -> Result<Option<Self>, MatrixError> {
        let bounds: Vec<PathBounds> = demands.iter().map(|demand| demand.bounds.and(bounds)).collect();
        if bounds.iter().all(PathBounds::is_none) {
            return Ok(None);
        }
        let needs = needs(topology, arcs, &bounds)?;
        let mut tree = Tree::new(arcs.nodes());
        let mut searched = None;
        let mut limits = Vec::with_capacity(demands.len());
        for (demand, bounds) in demands.iter().zip(&bounds) {
            if searched != Some(demand.target) {
                let length = |arc: u32| Some(topology.link_weight(arcs.arc(arc).link).length());
                tree.search(arcs, demand.target.0, length, |_| 1.0);
                searched = Some(demand.target);
            }
            let hops = bounds.hops.map_or(f64::INFINITY, |hops| f64::from(hops.get()));
            let delay = bounds.delay.map_or(f64::INFINITY, |delay| delay.as_secs_f64());
            let shortest = tree.distance(demand.source.0);
            let longest = bounds.stretch.map_or(f64::INFINITY, |stretch| stretch.max(1.0) * shortest);
            limits.push([hops, delay, longest].map(|limit| limit * (1.0 + SLACK)));
        }
        Ok(Some(Self { needs, limits }))
    }

    /// Whether a path keeps the bounds of a demand.
    pub(super) fn allows(&self, demand: usize, path: &[u32]) -> bool {
        let total = |kind: usize| path.iter().map(|&arc| self.needs[arc as usize][kind]).sum::<f64>();
        fit(&std::array::from_fn(total), &self.limits[demand])
    }

    /// What the demand may take that may take most, of each bound.
    fn widest(&self, demands: std::ops::Range<usize>) -> Amounts {
        let most =
            |kind: usize| self.limits[demands.clone()].iter().map(|limit| limit[kind]).fold(0.0, f64::max);
        std::array::from_fn(most)
    }
}

/// What each arc takes of the kinds of bounds that there are.
fn needs(topology: &Topology, arcs: &Arcs, bounds: &[PathBounds]) -> Result<Vec<Amounts>, MatrixError> {
    let has_hops = bounds.iter().any(|bounds| bounds.hops.is_some());
    let has_delay = bounds.iter().any(|bounds| bounds.delay.is_some());
    let has_stretch = bounds.iter().any(|bounds| bounds.stretch.is_some());
    let mut needs = Vec::with_capacity(arcs.len());
    for (_, arc) in arcs.iter() {
        let link = topology.link_weight(arc.link);
        let delay = match link.delay {
            _ if !has_delay => 0.0,
            Some(delay) => delay.as_secs_f64(),
            None => {
                let (from, to) = topology.ends(arc.link);
                let [from, to] = [from, to].map(|node| topology.node_weight(node).name().to_string());
                return Err(MatrixError::NoDelay { link: arc.link, from, to });
            }
        };
        let hops = if has_hops { 1.0 } else { 0.0 };
        needs.push([hops, delay, if has_stretch { link.length() } else { 0.0 }]);
    }
    Ok(needs)
}

/// Whether amounts are within limits.
fn fit(amounts: &Amounts, limits: &Amounts) -> bool {
    amounts.iter().zip(limits).all(|(amount, limit)| amount <= limit)
}

/// A path from a node to the target: its price, what it needs, and how it goes on.
#[derive(Debug, Clone, Copy)]
struct Label {
    price: f64,
    /// What decides between equal prices.
    second: f64,
    needs: Amounts,
    node: u32,
    /// The first arc, and the label at its head; `None` at the target itself.
    next: Option<(u32, u32)>,
}

/// A label in the queue; the greatest is the cheapest.
#[derive(Debug)]
struct Entry(Label);

impl Entry {
    fn key(&self) -> (f64, f64) {
        (self.0.price, self.0.second)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        let ((a, b), (c, d)) = (self.key(), other.key());
        c.total_cmp(&a).then(d.total_cmp(&b)).then(other.0.node.cmp(&self.0.node))
    }
}

/// The paths to the target that was searched last, within bounds if there are any.
#[derive(Debug)]
pub(super) struct Ways {
    pub(super) tree: Tree,
    budgets: Option<Budgets>,
    labels: Vec<Label>,
    /// The labels of each node by rising price. Index: node.
    at: Vec<Vec<u32>>,
    queue: BinaryHeap<Entry>,
}

impl Ways {
    pub(super) fn new(nodes: usize, budgets: Option<Budgets>) -> Self {
        let at = vec![Vec::new(); if budgets.is_some() { nodes } else { 0 }];
        Self { tree: Tree::new(nodes), budgets, labels: Vec::new(), at, queue: BinaryHeap::new() }
    }

    /// Whether paths have bounds.
    pub(super) fn are_bounded(&self) -> bool {
        self.budgets.is_some()
    }

    pub(super) fn budgets(&self) -> Option<&Budgets> {
        self.budgets.as_ref()
    }

    /// Finds the cheapest paths to `target` for `demands`, all of which lead there, as [`Tree::search`] does. Within
    /// bounds, prices below 0 count as 0.
    pub(super) fn search(
        &mut self,
        arcs: &Arcs,
        target: u32,
        demands: std::ops::Range<usize>,
        first: impl Fn(u32) -> Option<f64>,
        second: impl Fn(u32) -> f64,
    ) -> bool {
        let Some(budgets) = &self.budgets else { return self.tree.search(arcs, target, first, second) };
        let limit = budgets.widest(demands);
        self.labels.clear();
        self.at.iter_mut().for_each(Vec::clear);
        self.queue.clear();
        let start = Label { price: 0.0, second: 0.0, needs: [0.0; KINDS], node: target, next: None };
        self.queue.push(Entry(start));
        while let Some(Entry(label)) = self.queue.pop() {
            if is_beaten(&self.labels, &self.at[label.node as usize], &label) {
                continue;
            }
            let index = self.labels.len() as u32;
            self.labels.push(label);
            self.at[label.node as usize].push(index);
            for &arc in arcs.entering(label.node) {
                let Some(price) = first(arc) else { continue };
                let own = &budgets.needs[arc as usize];
                let longer = Label {
                    price: label.price + price.max(0.0),
                    second: label.second + second(arc),
                    needs: std::array::from_fn(|kind| label.needs[kind] + own[kind]),
                    node: arcs.arc(arc).tail,
                    next: Some((arc, index)),
                };
                if fit(&longer.needs, &limit)
                    && !is_beaten(&self.labels, &self.at[longer.node as usize], &longer)
                {
                    self.queue.push(Entry(longer));
                }
            }
        }
        true
    }

    /// The label of a demand from a node: the cheapest that keeps its bounds.
    fn label_of(&self, budgets: &Budgets, demand: usize, source: u32) -> Option<&Label> {
        let mut labels = self.at[source as usize].iter().map(|&index| &self.labels[index as usize]);
        labels.find(|label| fit(&label.needs, &budgets.limits[demand]))
    }

    /// The price of a demand's way from its source; infinite if there is none.
    pub(super) fn distance(&self, demand: usize, source: u32) -> f64 {
        match &self.budgets {
            None => self.tree.distance(source),
            Some(budgets) => {
                self.label_of(budgets, demand, source).map_or(f64::INFINITY, |label| label.price)
            }
        }
    }

    /// The arcs of a demand's way from its source, which there must be.
    pub(super) fn path(&self, arcs: &Arcs, demand: usize, source: u32) -> Vec<u32> {
        let Some(budgets) = &self.budgets else { return self.tree.path(arcs, source) };
        let mut label = self.label_of(budgets, demand, source);
        let mut path = Vec::new();
        while let Some((arc, next)) = label.and_then(|label| label.next) {
            path.push(arc);
            label = self.labels.get(next as usize);
        }
        path
    }
}

/// Whether a label that is no dearer, as all that are known already, needs as little of each bound.
fn is_beaten(labels: &[Label], known: &[u32], label: &Label) -> bool {
    known.iter().any(|&index| fit(&labels[index as usize].needs, &label.needs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{NodeId, Orientation};

    #[test]
    fn the_cheapest_path_is_the_one_within_the_bounds() {
        // Cheap and long, dear and short, and one between.
        let links = [("s", "a", 1.0), ("a", "b", 1.0), ("b", "t", 1.0), ("s", "b", 1.0), ("s", "t", 1.0)];
        let topology = Topology::from_links(Orientation::Directed, links).unwrap();
        let arcs = Arcs::new(&topology);
        let price = [1.0, 1.0, 1.0, 3.0, 9.0];
        let (source, target) = (NodeId(0), topology.node("t").unwrap());
        let demands = [Demand::new(source, target, 1.0)];
        for (hops, cost, path) in [(3, 3.0, vec![0, 1, 2]), (2, 4.0, vec![3, 2]), (1, 9.0, vec![4])] {
            let bounds = PathBounds { hops: NonZeroU32::new(hops), ..PathBounds::default() };
            let budgets = Budgets::new(&topology, &arcs, &demands, &bounds).unwrap();
            let mut ways = Ways::new(arcs.nodes(), budgets);
            ways.search(&arcs, target.0, 0..1, |arc| Some(price[arc as usize]), |_| 1.0);
            assert_eq!((ways.distance(0, 0), ways.path(&arcs, 0, 0)), (cost, path));
        }
    }
}
