//! A path for each demand, from which the simplex method begins.
//!
//! Each demand is on one path, so this is no optimum. But each pivot moves one demand, and there are hundreds of
//! thousands of demands: a start near the optimum saves nearly all pivots.

use std::ops::Range;

use crate::matrix::arcs::Arcs;
use crate::matrix::bounds::Ways;

/// How often each demand is looked at. On Kdl (754 nodes, 567,762 demands) the largest utilisation is 1.3 % above the
/// optimum after so many.
const PASSES: usize = 40;

/// An arc gets longer with this power of its utilisation. The higher it is, the less do demands leave arcs that are not
/// among the fullest, and the closer to the least largest utilisation they come.
const SHARPNESS: i32 = 60;

/// The length of an arc without load, in multiples of that of a usual arc that is as full as the fullest: among empty
/// arcs the fewest are taken.
const EMPTY: f64 = 1e-3;

/// A demand moves to a path that is shorter than its own by more than this share. The lengths change as it moves, so
/// that a smaller gain would be none.
const SHORTER: f64 = 0.03;

/// The paths as they are now, and how long arcs are now. Vectors of arcs are indexed by arc.
struct Search<'n> {
    arcs: &'n Arcs,
    paths: Vec<Vec<u32>>,
    load: Vec<f64>,
    length: Vec<f64>,
    /// The largest utilisation when the pass began.
    fullest: f64,
    /// The mean capacity: so lengths do not depend on the unit of capacities.
    usual: f64,
}

/// Paths of fewest arcs for `demands` (source, target, amount), then some times again around what is full. `by_target`
/// has the range of the demands to each target.
///
/// # Errors
/// The index of a demand that has no path.
pub(super) fn first_paths(
    arcs: &Arcs,
    demands: &[(u32, u32, f64)],
    by_target: &[(u32, Range<usize>)],
    ways: &mut Ways,
) -> Result<Vec<Vec<u32>>, usize> {
    let mut search = Search::new(arcs, demands.len());
    for pass in 0..PASSES {
        let mut moved = false;
        for (target, range) in by_target {
            ways.search(arcs, *target, range.clone(), |arc| Some(search.length[arc as usize]), |_| 1.0);
            for demand in range.clone() {
                let (source, _, amount) = demands[demand];
                moved |= search.look_at(demand, source, amount, ways)?;
            }
        }
        if pass > 0 && !moved {
            break;
        }
        search.measure();
    }
    Ok(search.paths)
}

impl<'n> Search<'n> {
    fn new(arcs: &'n Arcs, demands: usize) -> Self {
        let capacity: f64 = arcs.iter().map(|(_, arc)| arc.capacity).sum();
        Search {
            arcs,
            paths: vec![Vec::new(); demands],
            load: vec![0.0; arcs.len()],
            length: vec![1.0; arcs.len()],
            fullest: 0.0,
            usual: capacity / arcs.len() as f64,
        }
    }

    /// Finds out how full the fullest arc is, by which all lengths change.
    fn measure(&mut self) {
        let utilisation = |(arc, load): (usize, &f64)| load / self.arcs.arc(arc as u32).capacity;
        self.fullest = self.load.iter().enumerate().map(utilisation).fold(0.0, f64::max);
        for arc in 0..self.arcs.len() {
            self.length[arc] = self.length_of(arc);
        }
    }

    /// In the first pass all arcs are alike.
    fn length_of(&self, arc: usize) -> f64 {
        if self.fullest == 0.0 {
            return 1.0;
        }
        let capacity = self.arcs.arc(arc as u32).capacity;
        let full = self.load[arc] / capacity / self.fullest;
        EMPTY + full.powi(SHARPNESS) * self.usual / capacity
    }

    /// Moves a demand to the shortest path of `ways`, if that is shorter than its own. Says whether it did.
    fn look_at(&mut self, demand: usize, source: u32, amount: f64, ways: &Ways) -> Result<bool, usize> {
        let distance = ways.distance(demand, source);
        if distance.is_infinite() {
            return Err(demand);
        }
        let is_first = self.paths[demand].is_empty();
        let enough = (1.0 - SHORTER) * self.length(&self.paths[demand]);
        if !is_first && distance > enough {
            return Ok(false);
        }
        let path = ways.path(self.arcs, demand, source);
        // Demands that moved since the search have made it longer.
        if !is_first && self.length(&path) > enough {
            return Ok(false);
        }
        let before = std::mem::take(&mut self.paths[demand]);
        self.carry(&before, -amount);
        self.carry(&path, amount);
        self.paths[demand] = path;
        Ok(true)
    }

    /// A path carries so much more.
    fn carry(&mut self, path: &[u32], amount: f64) {
        for &arc in path {
            self.load[arc as usize] += amount;
            self.length[arc as usize] = self.length_of(arc as usize);
        }
    }

    fn length(&self, path: &[u32]) -> f64 {
        path.iter().map(|&arc| self.length[arc as usize]).sum()
    }
}
