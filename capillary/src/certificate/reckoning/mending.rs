//! Cuts of the solver that are not what it took them for.
//!
//! Where loads differ by less than the round-off of floating point, the solver may put cuts into one step whose loads
//! are not quite equal, or into one after the other whose loads are equal or fall the wrong way. The reckoning sees the
//! difference, and what to do follows from the order of the nodes, which stays as it is: a step that is too high is put
//! together with the step around it, and of the cuts of one step only those stay that are the tightest. What they leave
//! undivided is a problem of its own again.

use std::collections::BTreeMap;

use crate::certificate::reckoning::{Cut, Reckoning};
use crate::certificate::{Certificate, Step};
use crate::double::Double;

/// Steps with other children than before: where these start. Index: step.
type Changed = BTreeMap<usize, Vec<u32>>;

impl Reckoning<'_> {
    /// The certificate without what does not fit; `None` if there is nothing to mend.
    pub(super) fn mended(&mut self) -> Option<Certificate> {
        if self.certificate.stopped_at.is_some() {
            return None;
        }
        let changed = if self.too_high.is_empty() { self.loose_cuts() } else { self.put_together() };
        (!changed.is_empty()).then(|| self.with(&changed))
    }

    fn starts(&self, step: usize) -> Vec<u32> {
        self.certificate.starts(&self.certificate.steps[step]).unwrap_or_default().to_vec()
    }

    /// The steps around those that are too high, with the cuts of both.
    fn put_together(&self) -> Changed {
        let mut changed = Changed::new();
        for &step in &self.too_high {
            let around = self.around(step as usize);
            let starts = changed.entry(around).or_insert_with(|| self.starts(around));
            starts.extend(self.starts(step as usize));
            starts.sort_unstable();
            starts.dedup();
        }
        changed
    }

    /// The innermost step around a step that is not itself too high.
    fn around(&self, step: usize) -> usize {
        let mut around = step;
        while self.too_high.binary_search(&(around as u32)).is_ok() {
            around = self.certificate.steps[around].parent.map_or(0, |parent| parent as usize);
        }
        around
    }

    /// The steps whose cuts are not all full at one load, with those that are the tightest: what others leave in the
    /// children does not sum to zero.
    fn loose_cuts(&mut self) -> Changed {
        let mut changed = Changed::new();
        if !self.is_something_left() {
            return changed;
        }
        let mut sums = vec![Double::ZERO];
        for node in &self.certificate.order {
            sums.push(sums[sums.len() - 1] + self.supply[node.index()]);
        }
        for index in 0..self.scales.len() {
            let is_off = self
                .certificate
                .child_ranges(index)
                .any(|child| (sums[child.end as usize] - sums[child.start as usize]).abs().is_something());
            if self.scales[index].is_some() && is_off {
                self.take_back(index);
                changed.insert(index, self.tightest(index));
            }
        }
        changed
    }

    /// Takes a step back and all within it, so that supplies are what they were before it.
    fn take_back(&mut self, first: usize) {
        for index in first..self.scales.len() {
            let parent = self.certificate.steps[index].parent;
            // Nothing but what is within the step has a scale while the step around it has none.
            let is_within = parent.is_some_and(|parent| self.scales[parent as usize].is_none());
            if index == first || is_within {
                let scale = self.scales[index].take();
                self.carry(index, scale.map(|scale| -scale));
            }
        }
    }

    /// Where the children of a step start if only its tightest cuts are left: by Newton's method from the scale of the
    /// largest on. Supplies are compared and no ratios, since the round-off of all supplies is alike.
    fn tightest(&self, index: usize) -> Vec<u32> {
        let cuts = self.cuts(index);
        let mut scale = self.scale(index);
        let left = |cut: &Cut, scale: Double| cut.supply - cut.capacity / scale;
        while let Some(now) = scale {
            let over = |cut: &&Cut| left(cut, now).is_something();
            let worst =
                cuts.iter().filter(over).reduce(|a, b| if left(a, now) < left(b, now) { b } else { a });
            let Some(worst) = worst else { break };
            scale = Some(worst.capacity / worst.supply).filter(|next| *next < now);
        }
        let is_tight = |cut: &&Cut| {
            scale.is_some_and(|scale| cut.supply.is_something() && !left(cut, scale).abs().is_something())
        };
        let tight = cuts.iter().filter(is_tight).map(|cut| cut.start);
        std::iter::once(self.certificate.steps[index].part.start).chain(tight).collect()
    }

    /// The certificate with other cuts of some steps. Steps within what is not a child any more are left out, and those
    /// that are too high are part of the step around them.
    fn with(&self, changed: &Changed) -> Certificate {
        let given = self.certificate;
        let (mut steps, mut children) = (Vec::<Step>::new(), Vec::new());
        let mut number: Vec<Option<u32>> = vec![None; given.steps.len()];
        for (index, step) in given.steps.iter().enumerate() {
            if self.too_high.binary_search(&(index as u32)).is_ok() {
                number[index] = number[self.around(index)];
                continue;
            }
            let parent = step.parent.map(|parent| number[parent as usize]);
            let is_child = |parent: u32| {
                let Step { part, children: range, .. } = &steps[parent as usize];
                let starts: &[u32] = &children[range.start as usize..range.end as usize];
                let end =
                    starts.binary_search(&step.part.start).map(|at| starts.get(at + 1).unwrap_or(&part.end));
                end == Ok(&step.part.end)
            };
            if parent.is_some_and(|parent| !parent.is_some_and(is_child)) {
                continue;
            }
            number[index] = Some(steps.len() as u32);
            let first = children.len() as u32;
            match changed.get(&index) {
                Some(starts) => children.extend_from_slice(starts),
                None => children.extend_from_slice(given.starts(step).unwrap_or_default()),
            }
            let children = first..children.len() as u32;
            steps.push(Step { parent: parent.flatten(), children, ..step.clone() });
        }
        Certificate { order: given.order.clone(), steps, children, stopped_at: given.stopped_at }
    }
}
