//! Whole traffic matrices: the routing of all demands at once whose utilisations, sorted from the largest down, are
//! lexicographically smallest.
//!
//! The utilisation of an arc is its load over its capacity; an undirected link is two arcs, each with the link's
//! capacity. The utilisations are unique; how the demands share the arcs need not be.
//!
//! Level after level: the least t to which all free arcs can be kept is found by the simplex method on paths, the arcs
//! that have a price in its optimal dual stay at t for good, each demand keeps only the arcs that are on its shortest
//! paths by those prices, and the rest goes on (Radunović & Le Boudec 2007; Nace & Pióro 2008). The next level
//! starts from the routing of the last, so that most of them take a few steps.

pub(crate) mod arcs;
mod baseline;
mod basis;
mod bounds;
mod certificate;
mod simplex;
mod split;
mod traffic;
pub(crate) mod tree;

use std::num::NonZeroU32;

use thiserror::Error;

use crate::routing::{Routing, RoutingError};
use crate::topology::{LinkId, NodeId, Topology, TopologyError};
use arcs::Arcs;
use bounds::Budgets;
use simplex::Simplex;

pub use baseline::{equal_cost_multipath, random_multipath, shortest_paths};
pub use bounds::PathBounds;
pub use certificate::{Bound, MatrixCertificate, MatrixCertificateError};
pub use split::{TargetSplit, TargetSplits};
pub use traffic::{Demand, TrafficMatrix};

/// Utilisations that differ by less, relative, are one level.
const SAME: f64 = 1e-9;

/// A level below this share of the first is round-off: nothing is left to carry.
const NOTHING: f64 = 1e-11;

/// An arc is held if its price times its capacity, of 1 in all, is above this.
const PRICED: f64 = 1e-8;

/// No demand is larger: sums and products of what is on arcs must stay far below 1.8e308, the most that floating
/// point holds.
pub const LARGEST_AMOUNT: f64 = 1e100;

/// Why a matrix cannot be routed.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum MatrixError {
    /// A node that the topology does not have.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A demand whose target cannot be reached.
    #[error("the demand from {source_name:?} to {target:?}: the target cannot be reached")]
    Unreachable {
        /// The name of the source.
        source_name: String,
        /// The name of the target.
        target: String,
    },
    /// A demand that has a path, and none within the bounds.
    #[error("the demand from {source_name:?} to {target:?} has no path within the bounds")]
    OutOfBounds {
        /// The name of the source.
        source_name: String,
        /// The name of the target.
        target: String,
    },
    /// A link without a delay, where delays are bounded.
    #[error(
        "{link} ({from} to {to}) has no delay; a bound on the delay takes one for each link, from its delay_ms or \
         the attribute that --delay ATTR names"
    )]
    NoDelay {
        /// The link, by its position.
        link: LinkId,
        /// The name of the node where it begins.
        from: String,
        /// The name of the node where it ends.
        to: String,
    },
    /// A demand that is no amount.
    #[error(
        "the demand from {source_name:?} to {target:?} is {amount:?}; expected a number above 0 and at most \
         {LARGEST_AMOUNT:?}"
    )]
    BadAmount {
        /// The name of the source.
        source_name: String,
        /// The name of the target.
        target: String,
        /// What it is.
        amount: f64,
    },
    /// No demand between two different nodes.
    #[error("there is no demand to route; expected one between two different nodes at least")]
    Empty,
    /// The search for a level came to no end, or had no start: amounts and capacities are beyond the precision of
    /// floating point.
    #[error(
        "level {level} was not found: amounts and capacities span more than floating point can tell apart"
    )]
    Unfinished {
        /// The level, counted from 1.
        level: usize,
    },
    /// The levels fail their own proof: amounts and capacities are beyond the precision of floating point.
    #[error("the result fails its own proof: {0}")]
    Unproven(#[from] MatrixCertificateError),
}

/// What an arc does: one direction of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArcUse {
    /// The link.
    pub link: LinkId,
    /// Where the arc begins.
    pub from: NodeId,
    /// Where it ends.
    pub to: NodeId,
    /// What it can carry.
    pub capacity: f64,
    /// What it carries of all demands together.
    pub load: f64,
    /// Load over capacity.
    pub utilisation: f64,
    /// The level that settled it, counted from 1; `None` if it carries nothing or belongs to no level.
    pub level: Option<u32>,
}

/// One level: the arcs that cannot be relieved without loading others as much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// Counted from 1, by falling utilisation.
    pub number: u32,
    /// The utilisation of its arcs.
    pub utilisation: f64,
    /// How many arcs it settles.
    pub arcs: usize,
}

/// The flow of all demands to one target.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetFlow {
    /// Where the demands go.
    pub target: NodeId,
    /// How much of them is on each arc; index: arc.
    pub arcs: Vec<f64>,
}

/// One path of a demand.
#[derive(Debug, Clone, PartialEq)]
pub struct DemandPath {
    /// The demand's position in [`MatrixRouting::demands`].
    pub demand: usize,
    /// How much it carries.
    pub amount: f64,
    /// Its arcs, as positions in [`MatrixRouting::arcs`].
    pub arcs: Vec<u32>,
}

/// The work that a solution took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MatrixEffort {
    /// How many times an optimum was found.
    pub steps: usize,
    /// How many steps of the simplex method.
    pub pivots: usize,
    /// How many shortest-path trees.
    pub trees: usize,
}

/// All demands of a matrix routed together.
#[derive(Debug, Clone, PartialEq)]
pub struct MatrixRouting {
    demands: Vec<Demand>,
    arcs: Vec<ArcUse>,
    levels: Vec<Level>,
    targets: Vec<TargetFlow>,
    paths: Vec<DemandPath>,
    bounds: PathBounds,
    certificate: MatrixCertificate,
    effort: MatrixEffort,
}

impl MatrixRouting {
    /// The demands, those between the same two nodes with the same bounds as one.
    pub fn demands(&self) -> &[Demand] {
        &self.demands
    }

    /// What each arc does.
    pub fn arcs(&self) -> &[ArcUse] {
        &self.arcs
    }

    /// The levels by falling utilisation.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// The flows by target: what a router needs, which looks at the destination alone. It does not keep bounds on
    /// paths.
    pub fn targets(&self) -> &[TargetFlow] {
        &self.targets
    }

    /// The paths of the demands. Few demands have more than one: no more than there are arcs at their levels.
    pub fn paths(&self) -> &[DemandPath] {
        &self.paths
    }

    /// How the routing carries one demand (its position in [`demands`](Self::demands)), as a unit flow. Where its paths
    /// use both directions of an undirected link, what is left is their difference.
    ///
    /// # Errors
    /// [`RoutingError`] if the topology is not the one that was routed in.
    ///
    /// # Panics
    /// If there is no such demand.
    pub fn share(&self, topology: &Topology, demand: usize) -> Result<Routing, RoutingError> {
        let Demand { source, target, amount, .. } = self.demands[demand];
        let mut flows = vec![0.0; topology.link_count()];
        for path in self.paths.iter().filter(|path| path.demand == demand) {
            for &arc in &path.arcs {
                let arc = &self.arcs[arc as usize];
                let Some(flow) = flows.get_mut(arc.link.index()) else { continue };
                let is_forward = topology.ends(arc.link).0 == arc.from;
                *flow += if is_forward { path.amount } else { -path.amount } / amount;
            }
        }
        Routing::new(topology, source, target, &flows)
    }

    /// The bounds that every path keeps, beside those of its demand.
    pub fn bounds(&self) -> &PathBounds {
        &self.bounds
    }

    /// The proof of the levels.
    pub fn certificate(&self) -> &MatrixCertificate {
        &self.certificate
    }

    /// The work that it took.
    pub fn effort(&self) -> MatrixEffort {
        self.effort
    }

    /// The largest utilisation of any arc.
    pub fn largest_utilisation(&self) -> f64 {
        self.arcs.iter().map(|arc| arc.utilisation).fold(0.0, f64::max)
    }
}

/// Routes a traffic matrix so that the utilisations of all arcs, sorted from the largest down, are lexicographically
/// smallest. With `levels` it stops there: the arcs beyond are below the last level, but not as low as they could be.
///
/// ```
/// use capillary::matrix::{Demand, TrafficMatrix, solve};
/// use capillary::{NodeId, Orientation, Topology};
///
/// let links = [("a", "b", 10.0), ("a", "c", 10.0), ("c", "b", 10.0)];
/// let topology = Topology::from_links(Orientation::Undirected, links)?;
/// let demands = [("a", "b", 6.0), ("c", "b", 6.0)].map(|(from, to, amount)| {
///     Demand::new(topology.node(from).unwrap(), topology.node(to).unwrap(), amount)
/// });
/// let routing = solve(&topology, &TrafficMatrix::new(demands.to_vec()), None)?;
/// assert!((routing.levels()[0].utilisation - 0.6).abs() < 1e-12);
/// routing.certificate().verify(&topology, &routing)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`MatrixError`] names the demand that cannot be routed, or the level that was not found.
pub fn solve(
    topology: &Topology,
    traffic: &TrafficMatrix,
    levels: Option<NonZeroU32>,
) -> Result<MatrixRouting, MatrixError> {
    solve_within(topology, traffic, levels, &PathBounds::default())
}

/// Like [`solve`], of all routings whose every path keeps bounds, beside those that its demand has of its own. The
/// levels are those of these routings, and so is their proof: each demand pays at least for its cheapest path within
/// the bounds.
///
/// ```
/// use std::num::NonZeroU32;
/// use capillary::matrix::{Demand, PathBounds, TrafficMatrix, solve_within};
/// use capillary::{NodeId, Orientation, Topology};
///
/// let links = [("a", "b", 1.0), ("a", "c", 1.0), ("c", "b", 1.0)];
/// let topology = Topology::from_links(Orientation::Directed, links)?;
/// let traffic = TrafficMatrix::new(vec![Demand::new(NodeId(0), NodeId(1), 1.0)]);
/// let level = |hops| -> Result<f64, Box<dyn std::error::Error>> {
///     let bounds = PathBounds { hops: NonZeroU32::new(hops), ..PathBounds::default() };
///     Ok(solve_within(&topology, &traffic, None, &bounds)?.levels()[0].utilisation)
/// };
/// assert!((level(2)? - 0.5).abs() < 1e-9 && (level(1)? - 1.0).abs() < 1e-9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`MatrixError`] as of [`solve`], and for a demand that has no path within the bounds, or a delay that is missing.
pub fn solve_within(
    topology: &Topology,
    traffic: &TrafficMatrix,
    levels: Option<NonZeroU32>,
    bounds: &PathBounds,
) -> Result<MatrixRouting, MatrixError> {
    let demands = traffic.checked(topology)?;
    let arcs = Arcs::new(topology);
    let plain: Vec<(u32, u32, f64)> =
        demands.iter().map(|demand| (demand.source.0, demand.target.0, demand.amount)).collect();
    let budgets = Budgets::new(topology, &arcs, &demands, bounds)?;
    let simplex = Simplex::new(&arcs, &plain, budgets)
        .map_err(|index| without_path(topology, &arcs, &demands[index], bounds))?;
    let mut chain =
        Chain { simplex, levels: Vec::new(), level_of: vec![None; arcs.len()], bounds: Vec::new() };
    chain.run(&arcs, levels)?;
    chain.tighten();
    let routing = chain.into_routing(&arcs, demands, *bounds);
    routing.certificate.verify(topology, &routing)?;
    Ok(routing)
}

/// Why a demand has no path: there is none at all, or none within the bounds; without bounds it is lengths that
/// are no numbers any more.
fn without_path(topology: &Topology, arcs: &Arcs, demand: &Demand, bounds: &PathBounds) -> MatrixError {
    let mut tree = tree::Tree::new(arcs.nodes());
    tree.search(arcs, demand.target.0, |_| Some(1.0), |_| 1.0);
    match unreachable(topology, demand) {
        MatrixError::Unreachable { source_name, target } if tree.distance(demand.source.0).is_finite() => {
            match demand.bounds.and(bounds).is_none() {
                true => MatrixError::Unfinished { level: 1 },
                false => MatrixError::OutOfBounds { source_name, target },
            }
        }
        error => error,
    }
}

fn unreachable(topology: &Topology, demand: &Demand) -> MatrixError {
    let name = |node| topology.node_weight(node).name().to_string();
    MatrixError::Unreachable { source_name: name(demand.source), target: name(demand.target) }
}

/// The chain of levels.
struct Chain<'n> {
    simplex: Simplex<'n>,
    levels: Vec<Level>,
    /// The level of each arc. Index: arc.
    level_of: Vec<Option<u32>>,
    bounds: Vec<Bound>,
}

impl Chain<'_> {
    fn run(&mut self, arcs: &Arcs, limit: Option<NonZeroU32>) -> Result<(), MatrixError> {
        loop {
            self.simplex.begin_level();
            if !self.simplex.optimise() {
                return Err(MatrixError::Unfinished { level: self.levels.len() + 1 });
            }
            let utilisation = self.simplex.proved_level(|arc| self.level_at(arc));
            let first = self.levels.first().map_or(utilisation, |level| level.utilisation);
            // Without any free arc left there is no level at all.
            if utilisation.is_infinite() || utilisation <= NOTHING * first {
                return Ok(());
            }
            let last = self.levels.last().map_or(f64::INFINITY, |level| level.utilisation);
            if utilisation < last * (1.0 - SAME) {
                if limit.is_some_and(|limit| self.levels.len() == limit.get() as usize) {
                    return Ok(());
                }
                let number = self.levels.len() as u32 + 1;
                self.levels.push(Level { number, utilisation, arcs: 0 });
            }
            if !self.settle(arcs) {
                return Err(MatrixError::Unfinished { level: self.levels.len() });
            }
        }
    }

    /// The utilisation at which an arc is settled.
    fn level_at(&self, arc: u32) -> Option<f64> {
        let number = self.level_of[arc as usize]?;
        Some(self.levels[number as usize - 1].utilisation)
    }

    fn tighten(&mut self) {
        let (levels, level_of) = (&self.levels, &self.level_of);
        let utilisation = |number: u32| levels[number as usize - 1].utilisation;
        self.simplex.tighten(|arc| level_of[arc as usize].map(utilisation));
    }

    /// Settles the arcs that have a price, and keeps the prices as the proof. Returns whether there were any.
    fn settle(&mut self, arcs: &Arcs) -> bool {
        let price = self.simplex.prices();
        let is_held = |&arc: &u32| {
            let worth = price[arc as usize] * arcs.arc(arc).capacity;
            self.level_of[arc as usize].is_none() && worth > PRICED
        };
        let settled: Vec<u32> = (0..arcs.len() as u32).filter(is_held).collect();
        let Some(level) = self.levels.last_mut().filter(|_| !settled.is_empty()) else { return false };
        let Some(prices) = self.simplex.close_detours(&settled) else { return false };
        for &arc in &settled {
            self.level_of[arc as usize] = Some(level.number);
            self.simplex.settle(arc);
        }
        level.arcs += settled.len();
        self.bounds.push(Bound { level: level.number, prices, settled });
        true
    }

    fn into_routing(self, arcs: &Arcs, demands: Vec<Demand>, bounds: PathBounds) -> MatrixRouting {
        let targets: Vec<TargetFlow> = self
            .simplex
            .by_target()
            .into_iter()
            .map(|(target, arcs)| TargetFlow { target: NodeId(target), arcs })
            .collect();
        let uses = arcs.iter().map(|(index, arc)| {
            let load = targets.iter().map(|target| target.arcs[index as usize]).sum::<f64>();
            ArcUse {
                link: arc.link,
                from: NodeId(arc.tail),
                to: NodeId(arc.head),
                capacity: arc.capacity,
                load,
                utilisation: load / arc.capacity,
                level: self.level_of[index as usize],
            }
        });
        let paths = (0..demands.len()).flat_map(|demand| {
            let paths = self.simplex.paths(demand);
            paths.map(move |(arcs, amount)| DemandPath { demand, amount, arcs: arcs.to_vec() })
        });
        let count = self.simplex.count;
        let effort = MatrixEffort { steps: self.bounds.len(), pivots: count.pivots, trees: count.trees };
        MatrixRouting {
            arcs: uses.collect(),
            paths: paths.collect(),
            demands,
            levels: self.levels,
            certificate: MatrixCertificate { bounds: self.bounds },
            targets,
            bounds,
            effort,
        }
    }
}
