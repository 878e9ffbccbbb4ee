//! Why no routing of the matrix has smaller utilisations, in a form that can be checked without trusting the solver.

use thiserror::Error;

use crate::matrix::MatrixRouting;
use crate::matrix::arcs::Arcs;
use crate::matrix::bounds::{Budgets, Ways};
use crate::topology::Topology;

/// How far a bound may stay below its level, relative to the two sums whose difference the bound is.
const TOLERANCE: f64 = 1e-8;

/// The prices that hold one level where it is.
///
/// Prices ℓ ≥ 0 of arcs, with Σ ℓ·capacity = 1 over the arcs that no earlier bound has settled, prove for every routing
/// whose settled arcs are at most at their levels that its largest utilisation t of the others is at least
/// Σ demand·(shortest distance by ℓ) − Σ ℓ·capacity·level over the settled arcs: each demand pays at least for its
/// shortest way, and all together for what the arcs carry. If the level reaches the bound, arcs with a price are at
/// the level in every such routing.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// The level, counted from 1.
    pub level: u32,
    /// Arcs with their prices.
    pub prices: Vec<(u32, f64)>,
    /// The arcs that this bound settles at the level.
    pub settled: Vec<u32>,
}

/// The bounds of all levels, in order; a level may take several.
#[derive(Debug, Clone, PartialEq)]
pub struct MatrixCertificate {
    pub(super) bounds: Vec<Bound>,
}

/// What a certificate fails to show.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum MatrixCertificateError {
    /// Numbers that do not belong to the routing or the topology.
    #[error("bound {bound} does not fit the routing: {what}")]
    Malformed {
        /// The bound, counted from 0.
        bound: usize,
        /// What does not fit.
        what: &'static str,
    },
    /// A level that the prices do not hold.
    #[error("bound {bound} proves a utilisation of {proved}, but level {level} is {claimed}")]
    TooLow {
        /// The bound, counted from 0.
        bound: usize,
        /// The level.
        level: u32,
        /// What the prices prove.
        proved: f64,
        /// The utilisation of the level.
        claimed: f64,
    },
    /// An arc that is above the level that it is said to be at or below.
    #[error("arc {arc} has utilisation {utilisation}, above {limit}")]
    TooHigh {
        /// The arc.
        arc: usize,
        /// Its utilisation.
        utilisation: f64,
        /// What it may have.
        limit: f64,
    },
    /// A path that is none of its demand.
    #[error("path {path} is none of its demand: {what}")]
    BadPath {
        /// The path, as a position in [`MatrixRouting::paths`].
        path: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Paths that do not carry their demand.
    #[error("{missing} of demand {demand} is on no path")]
    NotCarried {
        /// The demand, as a position in [`MatrixRouting::demands`].
        demand: usize,
        /// What is missing; below 0: what is too much.
        missing: f64,
    },
    /// Flows to a target that do not carry its demands.
    #[error("at node {node} the flow to node {target} is {actual}; its demand makes it {expected}")]
    NotConserved {
        /// The node.
        node: u32,
        /// Where the flow goes.
        target: u32,
        /// What leaves the node less what enters it.
        actual: f64,
        /// The demand from the node.
        expected: f64,
    },
}

impl MatrixCertificate {
    /// The bounds, in the order in which they settle arcs.
    pub fn bounds(&self) -> &[Bound] {
        &self.bounds
    }

    /// Checks that `routing` carries its demands and that the bounds prove its levels.
    ///
    /// Complexity: a shortest-path tree for each target and bound.
    ///
    /// # Errors
    /// [`MatrixCertificateError`] tells the first thing that is not as it must be.
    pub fn verify(&self, topology: &Topology, routing: &MatrixRouting) -> Result<(), MatrixCertificateError> {
        let arcs = Arcs::new(topology);
        let budgets = Budgets::new(topology, &arcs, routing.demands(), routing.bounds())
            .map_err(|_| MatrixCertificateError::Malformed { bound: 0, what: "a delay is missing" })?;
        let mut ways = Ways::new(arcs.nodes(), budgets);
        check_flows(&arcs, routing)?;
        check_paths(&arcs, routing, ways.budgets())?;
        let mut level_of = vec![None; arcs.len()];
        for (index, bound) in self.bounds.iter().enumerate() {
            self.check_bound(index, &arcs, routing, &level_of, &mut ways)?;
            let utilisation = routing.levels()[bound.level as usize - 1].utilisation;
            bound.settled.iter().for_each(|&arc| level_of[arc as usize] = Some(utilisation));
        }
        check_heights(routing, &level_of)
    }

    fn check_bound(
        &self,
        index: usize,
        arcs: &Arcs,
        routing: &MatrixRouting,
        level_of: &[Option<f64>],
        ways: &mut Ways,
    ) -> Result<(), MatrixCertificateError> {
        let malformed = |what| Err(MatrixCertificateError::Malformed { bound: index, what });
        let bound = &self.bounds[index];
        let Some(level) = routing.levels().get((bound.level as usize).wrapping_sub(1)) else {
            return malformed("there is no such level");
        };
        let mut price = vec![0.0; arcs.len()];
        let (mut free, mut settled) = (0.0, 0.0);
        for &(arc, value) in &bound.prices {
            if arc as usize >= arcs.len() || !value.is_finite() || value < 0.0 {
                return malformed("a price is no number of at least 0, or of no arc");
            }
            price[arc as usize] = value;
            match level_of[arc as usize] {
                None => free += value * arcs.arc(arc).capacity,
                Some(level) => settled += value * arcs.arc(arc).capacity * level,
            }
        }
        let is_priced = |&arc: &u32| level_of[arc as usize].is_none() && price[arc as usize] > 0.0;
        if free <= 0.0 || bound.settled.is_empty() || !bound.settled.iter().all(is_priced) {
            return malformed("an arc is settled that is settled already or has no price");
        }
        let paid = paid(arcs, routing, &price, ways);
        let proved = (paid - settled) / free;
        if proved < level.utilisation - TOLERANCE * (paid / free).max(level.utilisation) {
            let (level, claimed) = (bound.level, level.utilisation);
            return Err(MatrixCertificateError::TooLow { bound: index, level, proved, claimed });
        }
        Ok(())
    }
}

/// What all demands pay together on their shortest ways.
fn paid(arcs: &Arcs, routing: &MatrixRouting, price: &[f64], ways: &mut Ways) -> f64 {
    let mut paid = 0.0;
    let mut begin = 0;
    // Demands are sorted by target.
    for same_target in routing.demands().chunk_by(|a, b| a.target == b.target) {
        let demands = begin..begin + same_target.len();
        let length = |arc: u32| Some(price[arc as usize]);
        ways.search(arcs, same_target[0].target.0, demands.clone(), length, |_| 1.0);
        for (index, demand) in demands.clone().zip(same_target) {
            paid += demand.amount * ways.distance(index, demand.source.0);
        }
        begin = demands.end;
    }
    paid
}

/// Whether the paths lead from source to target within the bounds, and carry each demand.
fn check_paths(
    arcs: &Arcs,
    routing: &MatrixRouting,
    budgets: Option<&Budgets>,
) -> Result<(), MatrixCertificateError> {
    let mut rest: Vec<f64> = routing.demands().iter().map(|demand| demand.amount).collect();
    for (index, path) in routing.paths().iter().enumerate() {
        let wrong = |what| Err(MatrixCertificateError::BadPath { path: index, what });
        let demand = routing.demands()[path.demand];
        let mut here = demand.source.0;
        for &arc in &path.arcs {
            if arcs.arc(arc).tail != here {
                return wrong("it is broken");
            }
            here = arcs.arc(arc).head;
        }
        if here != demand.target.0 {
            return wrong("it ends elsewhere");
        }
        if budgets.is_some_and(|budgets| !budgets.allows(path.demand, &path.arcs)) {
            return wrong("it exceeds a bound");
        }
        rest[path.demand] -= path.amount;
    }
    let carries = |(rest, demand): (&f64, &crate::matrix::Demand)| rest.abs() <= 1e-9 * demand.amount;
    match rest.iter().zip(routing.demands()).position(|pair| !carries(pair)) {
        Some(demand) => Err(MatrixCertificateError::NotCarried { demand, missing: rest[demand] }),
        None => Ok(()),
    }
}

/// Whether the flows to each target leave each node as its demand says, and are what the arcs carry.
fn check_flows(arcs: &Arcs, routing: &MatrixRouting) -> Result<(), MatrixCertificateError> {
    for target in routing.targets() {
        let mut rest = vec![0.0; arcs.nodes()];
        for demand in routing.demands().iter().filter(|demand| demand.target == target.target) {
            rest[demand.source.index()] += demand.amount;
            rest[demand.target.index()] -= demand.amount;
        }
        let expected = rest.clone();
        let total = -expected[target.target.index()];
        for ((_, arc), flow) in arcs.iter().zip(&target.arcs) {
            rest[arc.tail as usize] -= flow;
            rest[arc.head as usize] += flow;
        }
        for (node, (rest, expected)) in rest.iter().zip(expected).enumerate() {
            if rest.abs() > 1e-9 * total {
                let (node, target, actual) = (node as u32, target.target.0, expected - rest);
                return Err(MatrixCertificateError::NotConserved { node, target, actual, expected });
            }
        }
    }
    Ok(())
}

/// Checks that no arc is above its level, and no arc without a level above the last level.
fn check_heights(routing: &MatrixRouting, level_of: &[Option<f64>]) -> Result<(), MatrixCertificateError> {
    let first = routing.levels().first().map_or(0.0, |level| level.utilisation);
    let last = routing.levels().last().map_or(0.0, |level| level.utilisation);
    for (arc, (arc_use, level)) in routing.arcs().iter().zip(level_of).enumerate() {
        let (limit, utilisation) = (level.unwrap_or(last), arc_use.utilisation);
        if utilisation > limit + 1e-9 * first {
            return Err(MatrixCertificateError::TooHigh { arc, utilisation, limit });
        }
    }
    Ok(())
}
