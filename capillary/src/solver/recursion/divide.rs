//! A part along all of its tight cuts, into independent problems [theory §1.3].

use crate::certificate::Step;
use crate::network::Slot;
use crate::solver::recursion::tight_cut::TightCut;
use crate::solver::recursion::{EPSILON, Part, Pending, Recursion, SAFETY};

impl Recursion {
    /// Fixes the flow over the part's tight cuts and makes parts of what they divide.
    pub(super) fn divide(&mut self, part: &Part, cut: &TightCut) {
        let count = self.find_components(part, cut);
        self.sort_by_component(part, count);
        let scale = part.scale * cut.ratio;
        for node in part.nodes.clone() {
            self.supply[self.order[node as usize] as usize] *= cut.ratio;
        }
        let noise = part.noise * cut.ratio + self.cut_between_components(part, scale) * EPSILON;
        self.record(part, cut.ratio, scale);
        let parent = Some(self.steps.len() as u32 - 1);
        for index in 0..count as usize {
            let nodes = self.starts[index]..self.starts[index + 1];
            self.put_off(Part { nodes, parent, scale, noise });
        }
    }

    /// The strongly connected components of the residual network. An arc between two of them is full or empty in
    /// every flow of this λ.
    fn find_components(&mut self, part: &Part, cut: &TightCut) -> u32 {
        let nodes = &self.order[part.nodes.start as usize..part.nodes.end as usize];
        let network = &self.balance.network;
        let count = self.components.search(network, nodes, cut.tolerance, |_, _| true);
        if count > 1 {
            return count;
        }
        // Round-off left a residual on the tight cut itself: the cut is known, so close it by force.
        let is_on_source_side = |node| self.newton.is_on_source_side(cut, &self.supply, node);
        let sides: Vec<bool> = (0..self.supply.len() as u32).map(is_on_source_side).collect();
        self.components.search(network, nodes, cut.tolerance, |tail, head| {
            sides[tail as usize] == sides[head as usize] || !sides[tail as usize]
        })
    }

    /// Puts the part's nodes in the order of their components: from the source side of the cuts to the target side,
    /// since residual arcs lead back to smaller numbers.
    fn sort_by_component(&mut self, part: &Part, count: u32) {
        let range = part.nodes.start as usize..part.nodes.end as usize;
        self.starts.clear();
        self.starts.resize(count as usize + 1, 0);
        for &node in &self.order[range.clone()] {
            self.starts[self.components.of(node) as usize + 1] += 1;
        }
        self.starts[0] = part.nodes.start;
        for index in 1..self.starts.len() {
            self.starts[index] += self.starts[index - 1];
        }
        self.sorted.clear();
        self.sorted.extend_from_slice(&self.order[range]);
        for &node in &self.sorted {
            let start = &mut self.starts[self.components.of(node) as usize];
            self.order[*start as usize] = node;
            *start += 1;
        }
        // Filling has moved each start to the next one's place.
        self.starts.rotate_right(1);
        self.starts[0] = part.nodes.start;
    }

    /// Takes the arcs between components out, fixes the flow of the full ones, and hands their flow to the supplies of
    /// their ends [theory §1.1, eqs. 1–3]. Returns the largest capacity that was taken.
    fn cut_between_components(&mut self, part: &Part, scale: f64) -> f64 {
        let mut largest = 0.0_f64;
        for place in part.nodes.clone() {
            let node = self.order[place as usize];
            let (components, supply, flows) = (&self.components, &mut self.supply, &mut self.flows);
            let home = components.of(node);
            let ends = (node, home);
            let fix = |slot: &Slot, capacity: f64| {
                let (node, home) = ends;
                if components.of(slot.head) > home && capacity > 0.0 {
                    supply[node as usize] -= capacity;
                    supply[slot.head as usize] += capacity;
                    largest = largest.max(capacity);
                    flows[slot.link() as usize] =
                        if slot.is_forward() { capacity } else { -capacity } / scale;
                }
            };
            self.balance.network.cut_off(node, |slot| components.of(slot.head) != home, fix);
        }
        largest
    }

    fn record(&mut self, part: &Part, ratio: f64, scale: f64) {
        let first = self.children.len() as u32;
        self.children.extend_from_slice(&self.starts[..self.starts.len() - 1]);
        let children = first..self.children.len() as u32;
        let load = self.smallest_capacity / scale;
        self.steps.push(Step { part: part.nodes.clone(), ratio, load, parent: part.parent, children });
    }

    /// Rounds the child's supplies and keeps it for later, if it has any.
    fn put_off(&mut self, child: Part) {
        let (mut sum, mut largest, mut holder) = (0.0, 0.0, None);
        for &node in &self.order[child.nodes.start as usize..child.nodes.end as usize] {
            let supply = &mut self.supply[node as usize];
            if supply.abs() <= SAFETY * child.noise {
                *supply = 0.0;
            }
            sum += *supply;
            if supply.abs() > largest {
                (largest, holder) = (supply.abs(), Some(node));
            }
        }
        // Supplies of an independent problem sum to zero; what does not is round-off.
        if let Some(holder) = holder.filter(|_| child.nodes.len() > 1) {
            self.supply[holder as usize] -= sum;
            self.pending.push(Pending { part: child, cut: None });
        }
    }
}
