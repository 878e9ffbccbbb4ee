//! A part along all of its tight cuts, into independent problems [theory §1.3].

use crate::certificate::Step;
use crate::network::Slot;
use crate::solver::recursion::chain::Chain;
use crate::solver::recursion::tight_cut::TightCut;
use crate::solver::recursion::{EPSILON, Part, Pending, Recursion, SAFETY};

impl Recursion {
    /// Fixes the flow over the part's tight cuts and makes parts of what they divide.
    pub(super) fn divide(&mut self, part: &Part, cut: &TightCut) {
        let count = self.find_components(part, cut);
        self.sort_by_component(part, count);
        let scale = part.scale * cut.ratio;
        self.grow(part, cut.ratio);
        let noise = part.noise * cut.ratio + self.cut_between_components(part, scale) * EPSILON;
        let starts = std::mem::take(&mut self.starts);
        let parent = self.record(part, &starts[..count as usize], cut.ratio, scale);
        for nodes in starts.windows(2).map(|pair| pair[0]..pair[1]) {
            self.put_off(Part { nodes, parent, scale, noise, bound: 1.0 });
        }
        self.starts = starts;
    }

    /// Makes parts of what a chain of cuts divides. Its links are out already; the flows of links are not fixed, since
    /// nobody asks for them where all layers are solved.
    pub(super) fn divide_along(&mut self, part: &Part, chain: &Chain) {
        self.order[part.nodes.start as usize..part.nodes.end as usize].copy_from_slice(&chain.order);
        let mut rest = part.clone();
        for step in &chain.steps {
            let scale = rest.scale * step.ratio;
            let parent = self.record(&rest, &step.starts, step.ratio, scale);
            let ends = step.starts.iter().skip(1).copied().chain([rest.nodes.end]);
            let growth = scale / part.scale;
            let noise = step.noise * growth;
            for nodes in step.starts.iter().copied().zip(ends).map(|(start, end)| start..end) {
                let child = Part { nodes, parent, scale, noise, bound: 1.0 };
                if child.nodes == step.rest {
                    rest = child;
                } else {
                    self.grow(&child, growth);
                    self.put_off(child);
                }
            }
        }
        let growth = rest.scale / part.scale;
        self.grow(&rest, growth);
        self.put_off(Part { bound: chain.proven / growth, ..rest });
    }

    /// Multiplies the supplies of a part.
    fn grow(&mut self, part: &Part, growth: f64) {
        for &node in &self.order[part.nodes.start as usize..part.nodes.end as usize] {
            self.supply[node as usize] *= growth;
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

    /// Writes a step down, whose children start there, and returns its number as a parent.
    fn record(&mut self, part: &Part, starts: &[u32], ratio: f64, scale: f64) -> Option<u32> {
        let first = self.children.len() as u32;
        self.children.extend_from_slice(starts);
        let children = first..self.children.len() as u32;
        let load = self.smallest_capacity / scale;
        self.steps.push(Step { part: part.nodes.clone(), ratio, load, parent: part.parent, children });
        Some(self.steps.len() as u32 - 1)
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
