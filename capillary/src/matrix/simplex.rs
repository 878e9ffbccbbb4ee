//! The routing of all demands at one level, improved path by path: the primal simplex method on paths.
//!
//! Minimise t, so that no free arc carries more than t times its capacity and no settled one more than its share. A
//! basis knows the price of each tight arc; a demand that finds a way of lower price than its own moves to it.

mod first_paths;
mod pivot;
mod tight;

use crate::matrix::NOTHING;
use crate::matrix::arcs::Arcs;
use crate::matrix::basis::Inverse;
use crate::matrix::bounds::{Budgets, Ways};
use first_paths::first_paths;
use tight::OpenArcs;

/// A way counts as cheaper only if it is so by this much, relative to the prices on it and on the way of now, and if
/// moving there would save more than this share of what all demands pay. Less than that is round-off.
const CHEAPER: f64 = 1e-11;
const WORTH: f64 = 1e-14;

/// Prices below this share of the highest are round-off, when both are multiplied with the capacity of their arc.
const FREE: f64 = 1e-12;

/// The inverse is found anew after so many pivots.
const WORN: usize = 150;

/// The leeway of arcs, of the largest utilisation.
const LEEWAY: f64 = 1e-10;

/// The share of a demand on a path that may be missing to 0 by round-off.
const NEGATIVE: f64 = 1e-11;

/// Rates and prices below this are round-off.
const ROUND_OFF: f64 = 1e-9;

/// One demand between two nodes, all of the same two nodes together.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    pub(super) source: u32,
    pub(super) amount: f64,
    /// The path that carries what the others leave.
    key: Vec<u32>,
    /// How much it carries.
    key_flow: f64,
    /// The demand's other paths in the basis, as columns.
    columns: Vec<usize>,
}

/// What a column of the working matrix stands for.
#[derive(Debug, Clone)]
enum Column {
    /// −t: a level that sinks as it grows.
    Level,
    /// A path of a demand beside the key.
    Path { flow: usize, arcs: Vec<u32> },
}

/// What enters the basis.
enum Entering {
    Level,
    Path {
        flow: usize,
        arcs: Vec<u32>,
    },
    /// The room on the tight arc of a row.
    Slack {
        row: usize,
    },
}

/// The working matrix: its rows, its columns and its inverse.
#[derive(Debug, Default)]
struct Basis {
    /// The tight arcs.
    rows: Vec<u32>,
    columns: Vec<Column>,
    /// How much each column carries (the level's: −t).
    values: Vec<f64>,
    inverse: Inverse,
    level: Option<usize>,
}

/// Work done so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Count {
    pub(super) pivots: usize,
    pub(super) trees: usize,
}

/// The state of the method. Vectors of arcs are indexed by arc.
#[derive(Debug)]
pub(super) struct Simplex<'n> {
    arcs: &'n Arcs,
    flows: Vec<Flow>,
    /// The flows to each target; each range of flows has one.
    by_target: Vec<(u32, std::ops::Range<usize>)>,
    basis: Basis,
    /// The row of each tight arc.
    row_of: Vec<Option<u32>>,
    /// What an arc may carry once its utilisation is settled; `None`: it is free.
    settled: Vec<Option<f64>>,
    load: Vec<f64>,
    /// What a free arc may carry beyond its level: a little, and different for each, so that hardly ever two things
    /// stop a step at once and the method does not go in circles (Charnes 1952).
    leeway: Vec<f64>,
    /// The price of each arc: by how much t falls for a unit more of what the arc may carry.
    price: Vec<f64>,
    /// What all demands pay together, prices below 0 as if they were above.
    paid: f64,
    /// The arcs that demands to each target of `by_target` may still use.
    open: OpenArcs,
    ways: Ways,
    pub(super) count: Count,
    /// Pivots since the inverse was last found anew.
    since: usize,
    /// Pivots in a row that changed no flow.
    idle: usize,
}

impl<'n> Simplex<'n> {
    /// Every demand on a path of its own, within budgets if there are any; an error for one that has no path: its index
    /// among `demands` (source, target, amount), which must be sorted by target.
    pub(super) fn new(
        arcs: &'n Arcs,
        demands: &[(u32, u32, f64)],
        budgets: Option<Budgets>,
    ) -> Result<Self, usize> {
        let mut by_target: Vec<(u32, std::ops::Range<usize>)> = Vec::new();
        for (index, &(_, target, _)) in demands.iter().enumerate() {
            match by_target.last_mut().filter(|(last, _)| *last == target) {
                Some((_, range)) => range.end = index + 1,
                None => by_target.push((target, index..index + 1)),
            }
        }
        let mut ways = Ways::new(arcs.nodes(), budgets);
        let paths = first_paths(arcs, demands, &by_target, &mut ways)?;
        let mut load = vec![0.0; arcs.len()];
        for (path, (_, _, amount)) in paths.iter().zip(demands) {
            path.iter().for_each(|&arc| load[arc as usize] += amount);
        }
        let flow = |(key, &(source, _, amount)): (Vec<u32>, &(u32, u32, f64))| Flow {
            source,
            amount,
            key,
            key_flow: amount,
            columns: Vec::new(),
        };
        let open = OpenArcs::all(arcs, by_target.len());
        let mut simplex = Self {
            arcs,
            flows: paths.into_iter().zip(demands).map(flow).collect(),
            by_target,
            basis: Basis::default(),
            row_of: vec![None; arcs.len()],
            settled: vec![None; arcs.len()],
            load,
            leeway: vec![0.0; arcs.len()],
            price: vec![0.0; arcs.len()],
            paid: 0.0,
            open,
            ways,
            count: Count::default(),
            since: 0,
            idle: 0,
        };
        simplex.loosen();
        Ok(simplex)
    }

    pub(super) fn utilisation(&self, arc: u32) -> f64 {
        self.load[arc as usize] / self.arcs.arc(arc).capacity
    }

    /// Gives each arc a leeway of its own, the same in every run (SplitMix64's mixing).
    fn loosen(&mut self) {
        let worst = self.largest_utilisation();
        for (index, arc) in self.arcs.iter() {
            let mixed = (u64::from(index) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let share = ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64;
            self.leeway[index as usize] = LEEWAY * worst * arc.capacity * (0.5 + share);
        }
    }

    /// The least level that the free arcs would be at now.
    fn height(&self) -> f64 {
        let free = (0..self.arcs.len()).filter(|&arc| self.settled[arc].is_none());
        let height = |arc: usize| (self.load[arc] - self.leeway[arc]) / self.arcs.arc(arc as u32).capacity;
        free.map(height).fold(0.0, f64::max)
    }

    /// The largest utilisation of a free arc.
    pub(super) fn largest_utilisation(&self) -> f64 {
        let free = (0..self.arcs.len() as u32).filter(|&arc| self.settled[arc as usize].is_none());
        free.map(|arc| self.utilisation(arc)).fold(0.0, f64::max)
    }

    /// The least level t that the free arcs can be kept to.
    pub(super) fn level(&self) -> f64 {
        self.basis.level.map_or(f64::INFINITY, |column| -self.basis.values[column])
    }

    /// The price of each arc at the optimum; those of settled arcs may be below 0.
    pub(super) fn prices(&self) -> &[f64] {
        &self.price
    }

    /// The level that the prices prove: what [`level`](Self::level) would be without leeways, at which `levels` tells
    /// where the settled arcs were.
    pub(super) fn proved_level(&self, level_of: impl Fn(u32) -> Option<f64>) -> f64 {
        let beyond = self.arcs.iter().map(|(index, arc)| {
            let (price, limit) = (self.price[index as usize], self.settled[index as usize]);
            let leeway = match (limit, level_of(index)) {
                (Some(limit), Some(level)) => limit - level * arc.capacity,
                _ => self.leeway[index as usize],
            };
            price * leeway
        });
        self.level() + beyond.sum::<f64>()
    }

    /// Settles a free arc where it is now, for good.
    pub(super) fn settle(&mut self, arc: u32) {
        let level = self.level() * self.arcs.arc(arc).capacity;
        self.settled[arc as usize] = Some(level + self.leeway[arc as usize]);
    }

    /// Takes the leeways back once all levels are known, if the routing of the same basis without them is one: with
    /// leeways as small as these it nearly always is. Where both have less than nothing on a path, by round-off, the
    /// better one stays.
    pub(super) fn tighten(&mut self, level_of: impl Fn(u32) -> Option<f64>) {
        let before =
            (self.settled.clone(), self.leeway.clone(), self.basis.values.clone(), self.load.clone());
        let key_flows: Vec<f64> = self.flows.iter().map(|flow| flow.key_flow).collect();
        let allowed = self.least_share().min(-NEGATIVE);
        self.leeway.fill(0.0);
        for (index, arc) in self.arcs.iter() {
            if let (limit @ Some(_), Some(level)) = (&mut self.settled[index as usize], level_of(index)) {
                *limit = Some(level * arc.capacity);
            }
        }
        self.since = WORN;
        self.renew_if_worn(WORN);
        if self.least_share() < allowed {
            (self.settled, self.leeway, self.basis.values, self.load) = before;
            for (flow, key_flow) in self.flows.iter_mut().zip(key_flows) {
                flow.key_flow = key_flow;
            }
        }
    }

    /// The least share of its demand that any path carries; below 0 by round-off.
    fn least_share(&self) -> f64 {
        let least = |flow: &Flow| {
            let columns = flow.columns.iter().map(|&column| self.basis.values[column]);
            columns.fold(flow.key_flow, f64::min) / flow.amount
        };
        self.flows.iter().map(least).fold(f64::INFINITY, f64::min)
    }

    /// Begins a level: the level of before is given up, and sinks from where the free arcs are now.
    pub(super) fn begin_level(&mut self) {
        if let Some(level) = self.basis.level.take() {
            let prices = self.basis.inverse.row(level);
            let weight = |&row: &usize| prices[row].abs() * self.arcs.arc(self.basis.rows[row]).capacity;
            let is_settled = |&row: &usize| self.settled[self.basis.rows[row] as usize].is_some();
            let heaviest =
                (0..prices.len()).filter(is_settled).max_by(|a, b| weight(a).total_cmp(&weight(b)));
            self.remove(heaviest.unwrap_or(0), level);
        }
        self.renew_if_worn(WORN);
        self.enter(Entering::Level);
    }

    /// Improves the routing until no demand finds a cheaper way and no tight arc has a price below 0. Returns whether
    /// it came to an end: round-off could keep it going for ever.
    pub(super) fn optimise(&mut self) -> bool {
        let limit = self.count.pivots + 10_000 + 20 * (self.arcs.len() + self.flows.len());
        while self.count.pivots < limit {
            self.cheapen_slacks();
            let mut moved = false;
            for place in 0..self.by_target.len() {
                moved |= self.improve_target(place);
            }
            if !moved && !self.has_negative_price() {
                return true;
            }
            self.renew_if_worn(4 * WORN);
        }
        false
    }

    /// Closes for each target the arcs that are on no shortest path by the prices of now, which settle some arcs.
    /// Returns prices that prove the level over all arcs, none below 0; `None` if round-off made a circle below 0.
    ///
    /// Within bounds nothing is closed, and the prices are a proof as they are.
    pub(super) fn close_detours(&mut self, settled: &[u32]) -> Option<Vec<(u32, f64)>> {
        if self.ways.are_bounded() {
            let prices = (0..).zip(self.price.iter().copied());
            return Some(prices.filter(|&(_, price)| price > 0.0).collect());
        }
        let distance: Option<Vec<Vec<f64>>> =
            (0..self.by_target.len()).map(|place| self.distances(place)).collect();
        Some(self.open.close_detours(self.arcs, &self.price, distance?, settled))
    }

    /// The distance of each node from a target over the arcs that are open for it.
    fn distances(&mut self, place: usize) -> Option<Vec<f64>> {
        let (price, open) = (&self.price, self.open.of(place));
        let length = |arc: u32| open[arc as usize].then(|| price[arc as usize]);
        let tree = &mut self.ways.tree;
        let found = tree.search(self.arcs, self.by_target[place].0, length, |_| 1.0);
        found.then(|| (0..self.arcs.nodes() as u32).map(|node| tree.distance(node)).collect())
    }

    /// Lets tight arcs go whose price is below 0.
    fn cheapen_slacks(&mut self) {
        // Degenerate steps could go round in circles; paths will break them.
        for _ in 0..4 * self.arcs.len() {
            let Some(row) = self.most_negative_price() else { break };
            if !self.enter(Entering::Slack { row }) {
                break;
            }
        }
    }

    /// Whether the load of an arc is fixed: it is settled, and each demand has only ways left that keep it where it is.
    /// Within bounds ways are not closed, and what a settled arc may carry is only its limit.
    fn is_fixed(&self, arc: u32) -> bool {
        self.settled[arc as usize].is_some() && !self.ways.are_bounded()
    }

    fn has_negative_price(&self) -> bool {
        self.most_negative_price().is_some()
    }

    fn most_negative_price(&self) -> Option<usize> {
        let prices = self.basis.inverse.row(self.basis.level?);
        let weight = |row: usize| prices[row] * self.arcs.arc(self.basis.rows[row]).capacity;
        let is_free = |&row: &usize| !self.is_fixed(self.basis.rows[row]);
        let lowest = (0..prices.len()).filter(is_free).min_by(|&a, &b| weight(a).total_cmp(&weight(b)))?;
        (weight(lowest) < -ROUND_OFF).then_some(lowest)
    }

    /// Takes the prices over from the basis.
    fn reprice(&mut self) {
        self.price.fill(0.0);
        self.paid = 0.0;
        let Some(level) = self.basis.level else { return };
        let priced = self.basis.rows.iter().zip(self.basis.inverse.row(level));
        let whole = |arc: u32, price: f64| match self.settled[arc as usize] {
            Some(_) => price.abs() * self.arcs.arc(arc).capacity,
            None => price * self.arcs.arc(arc).capacity,
        };
        let highest = priced.clone().map(|(&arc, &price)| whole(arc, price)).fold(0.0, f64::max);
        for (&arc, &price) in priced.filter(|&(&arc, &price)| whole(arc, price) > FREE * highest) {
            self.price[arc as usize] = price;
            self.paid += (price * self.load[arc as usize]).abs();
        }
    }

    /// What a demand of this amount saves if it leaves a path for another one, if that is more than round-off. Prices
    /// below 0 take away from those above, so that the round-off of a sum follows from the sizes of its terms.
    fn gain(&self, path: &[u32], other: &[u32], amount: f64) -> Option<f64> {
        let gain = self.cost(path) - self.cost(other);
        let size: f64 = path.iter().chain(other).map(|&arc| self.price[arc as usize].abs()).sum();
        (gain > CHEAPER * size && gain * amount > WORTH * self.paid).then_some(gain * amount)
    }

    /// The sum of the prices on a path, in four sums side by side: one waits for the sum before.
    fn cost(&self, path: &[u32]) -> f64 {
        let price = |&arc: &u32| self.price[arc as usize];
        let (fours, rest) = path.as_chunks::<4>();
        let mut sums = [0.0; 4];
        for four in fours {
            sums.iter_mut().zip(four).for_each(|(sum, arc)| *sum += price(arc));
        }
        sums.iter().sum::<f64>() + rest.iter().map(price).sum::<f64>()
    }

    /// Moves demands to one target onto cheaper ways. Returns whether there were any.
    fn improve_target(&mut self, place: usize) -> bool {
        let (target, range) = self.by_target[place].clone();
        let worst = self.largest_utilisation();
        let (price, load, arcs, open) = (&self.price, &self.load, self.arcs, self.open.of(place));
        let length = |arc: u32| open[arc as usize].then(|| price[arc as usize]);
        let detour = |arc: u32| 1.0 + 4.0 * (load[arc as usize] / arcs.arc(arc).capacity / worst).powi(2);
        self.count.trees += 1;
        if !self.ways.search(arcs, target, range.clone(), length, detour) {
            return false;
        }
        let mut candidates: Vec<(f64, usize, Vec<u32>)> = range
            .filter_map(|index| {
                let Flow { source, key, amount, .. } = &self.flows[index];
                let (now, then) = (self.cost(key), self.ways.distance(index, *source));
                // Most demands are on a shortest way already: those that differ by round-off alone are told without
                // the way itself, by sizes that are no larger than those of `gain`.
                if now - then <= 0.5 * CHEAPER * (now.abs() + then.abs()) {
                    return None;
                }
                let path = self.ways.path(self.arcs, index, *source);
                Some((self.gain(key, &path, *amount)?, index, path))
            })
            .collect();
        candidates.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        let mut moved = false;
        for (_, flow, arcs) in candidates {
            // The moves before have changed the prices.
            let Flow { key, amount, .. } = &self.flows[flow];
            if self.gain(key, &arcs, *amount).is_some() {
                moved |= self.enter(Entering::Path { flow, arcs });
                self.cheapen_slacks();
            }
        }
        moved
    }

    /// The flow on each arc (index: arc) to each target, with the target.
    pub(super) fn by_target(&self) -> Vec<(u32, Vec<f64>)> {
        let flows = |(target, range): &(u32, std::ops::Range<usize>)| {
            let mut on_arc = vec![0.0; self.arcs.len()];
            for index in range.clone() {
                for (path, amount) in self.paths(index) {
                    path.iter().for_each(|&arc| on_arc[arc as usize] += amount);
                }
            }
            (*target, on_arc)
        };
        self.by_target.iter().map(flows).collect()
    }

    /// The paths of a demand with what they carry; what round-off has left on a path is no part of the demand.
    pub(super) fn paths(&self, index: usize) -> impl Iterator<Item = (&[u32], f64)> {
        let flow = &self.flows[index];
        let others = flow.columns.iter().filter_map(|&column| match &self.basis.columns[column] {
            Column::Path { arcs, .. } => Some((arcs.as_slice(), self.basis.values[column])),
            Column::Level => None,
        });
        std::iter::once((flow.key.as_slice(), flow.key_flow))
            .chain(others)
            .filter(|(_, carried)| *carried > NOTHING * flow.amount)
    }
}
