//! Which step of a certificate tells two nodes apart.

use crate::certificate::Step;

/// No step.
const NONE: u32 = u32::MAX;

/// The step at every boundary of the order, prepared for minima over ranges.
///
/// A step that comes later lies within an earlier one or beside it. So of all steps that have a boundary between two
/// positions the earliest is the one that tells them apart. Position p of level k holds the minimum over 2^k
/// boundaries from p on (a sparse table): O(nodes · log nodes) to build, two look-ups for each question.
pub(super) struct Separation {
    levels: Vec<Vec<u32>>,
}

impl Separation {
    /// Prepares the boundaries, from the steps and the list of their children's starts.
    pub(super) fn new(nodes: usize, steps: &[Step], starts: &[u32]) -> Self {
        let mut boundary = vec![NONE; nodes];
        for (index, step) in steps.iter().enumerate() {
            let children = starts.get(step.children.start as usize..step.children.end as usize);
            for &start in children.unwrap_or_default().iter().skip(1) {
                boundary[start as usize] = index as u32;
            }
        }
        let mut levels = vec![boundary];
        let mut width = 1;
        while 2 * width <= nodes {
            let below = &levels[levels.len() - 1];
            let pairs = below.iter().zip(&below[width..]).map(|(&a, &b)| a.min(b));
            levels.push(pairs.collect());
            width *= 2;
        }
        Self { levels }
    }

    /// The step whose children tell two positions of the order apart.
    pub(super) fn step(&self, a: u32, b: u32) -> Option<usize> {
        let (first, last) = (a.min(b) as usize + 1, a.max(b) as usize);
        if first > last {
            return None;
        }
        let level = (last - first + 1).ilog2() as usize;
        let minima = &self.levels[level];
        let step = minima[first].min(minima[last + 1 - (1 << level)]);
        (step != NONE).then_some(step as usize)
    }
}
