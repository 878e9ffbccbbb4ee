//! The arcs that a demand can still use once a level is settled.
//!
//! A routing that keeps the settled arcs at their levels has every demand on shortest paths by the prices of each
//! bound. So an arc that is on no shortest path to a target is closed for it, and the problem shrinks from level to
//! level. What is left keeps every settled arc exactly at its level: its row is an equation, whose price may be below
//! 0.

use crate::matrix::arcs::Arcs;

/// An arc is on a shortest path if it is longer than the distance that it covers by less than this, relative.
const TIGHT: f64 = 1e-9;

/// What is missing to 0 by less than this, of the highest price, is round-off.
const MISSING: f64 = 1e-13;

/// A level's proof: prices over all arcs, none below 0.
#[derive(Debug)]
pub(super) struct Bound {
    /// Index: arc.
    price: Vec<f64>,
    /// The distance of each node from each target by the prices. Index: place of the target, node.
    distance: Vec<Vec<f64>>,
    /// The arcs that the bound settles.
    settled: Vec<u32>,
    /// The arcs that were open until this bound, with the places of the targets for which it closes them.
    closed: Vec<(usize, u32)>,
}

impl Bound {
    /// How much longer the way over an arc is than the distance that the arc covers; `None` where the target cannot be
    /// reached.
    fn detour(&self, arcs: &Arcs, place: usize, arc: u32) -> Option<f64> {
        let ends = arcs.arc(arc);
        let (near, far) =
            (self.distance[place][ends.head as usize], self.distance[place][ends.tail as usize]);
        (near.is_finite() && far.is_finite()).then(|| self.price[arc as usize] + near - far)
    }

    /// Adds a multiple of an earlier bound. That changes what a demand pays by the same on all paths that the earlier
    /// bound left open, so that the sum proves as much.
    fn add(&mut self, factor: f64, earlier: &Self) {
        let add = |mine: &mut Vec<f64>, other: &Vec<f64>| {
            mine.iter_mut().zip(other).for_each(|(mine, other)| *mine += factor * other);
        };
        add(&mut self.price, &earlier.price);
        self.distance.iter_mut().zip(&earlier.distance).for_each(|(mine, other)| add(mine, other));
    }

    /// How many times an earlier bound must be added so that none of the arcs that it settled has a price below 0, and
    /// none that it closed makes a way shorter.
    fn factor(&self, arcs: &Arcs, earlier: &Bound, missing: f64) -> f64 {
        let raise = |&arc: &u32| -self.price[arc as usize] / earlier.price[arc as usize];
        let highest = earlier.settled.iter().map(raise).fold(0.0, f64::max);
        let by_detour = earlier.closed.iter().filter_map(|&(place, arc)| {
            let detour = self.detour(arcs, place, arc).filter(|detour| *detour < -missing)?;
            Some(-detour / earlier.detour(arcs, place, arc)?)
        });
        by_detour.fold(highest, f64::max)
    }
}

/// Which arcs demands may still use, and the bounds that closed the others.
#[derive(Debug)]
pub(super) struct OpenArcs {
    /// Index: place of the target, arc.
    open: Vec<Vec<bool>>,
    /// The proofs so far.
    bounds: Vec<Bound>,
}

impl OpenArcs {
    /// All arcs are open for so many targets.
    pub(super) fn all(arcs: &Arcs, targets: usize) -> OpenArcs {
        OpenArcs { open: vec![vec![true; arcs.len()]; targets], bounds: Vec::new() }
    }

    /// The arcs that are open for a target. Index: arc.
    pub(super) fn of(&self, place: usize) -> &[bool] {
        &self.open[place]
    }

    /// Closes for each target the arcs that are on no shortest path by prices that settle some arcs; `distance` is by
    /// the same prices over open arcs. Returns prices that prove the level over all arcs, none below 0.
    pub(super) fn close_detours(
        &mut self,
        arcs: &Arcs,
        price: &[f64],
        distance: Vec<Vec<f64>>,
        settled: &[u32],
    ) -> Vec<(u32, f64)> {
        let (price, settled) = (price.to_vec(), settled.to_vec());
        let highest = price.iter().map(|price| price.abs()).fold(0.0, f64::max);
        let mut bound = Bound { price, distance, settled, closed: Vec::new() };
        bound.closed = self.detours(arcs, &bound, highest);
        for &(place, arc) in &bound.closed {
            self.open[place][arc as usize] = false;
        }
        for earlier in self.bounds.iter().rev() {
            let factor = bound.factor(arcs, earlier, MISSING * highest);
            if factor > 0.0 {
                bound.add(factor, earlier);
            }
        }
        let prices = (0..).zip(bound.price.iter().copied()).filter(|&(_, price)| price > 0.0).collect();
        self.bounds.push(bound);
        prices
    }

    /// The open arcs that are on no shortest path, with the places of the targets.
    fn detours(&self, arcs: &Arcs, bound: &Bound, highest: f64) -> Vec<(usize, u32)> {
        let open = |place: usize| (0..arcs.len() as u32).filter(move |&arc| self.open[place][arc as usize]);
        let is_detour = |&(place, arc): &(usize, u32)| {
            let far = bound.distance[place][arcs.arc(arc).tail as usize];
            bound.detour(arcs, place, arc).is_some_and(|detour| detour > TIGHT * far.abs().max(highest))
        };
        let places = 0..self.open.len();
        places.flat_map(|place| open(place).map(move |arc| (place, arc))).filter(is_detour).collect()
    }
}
