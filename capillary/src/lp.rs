//! The capillary routing by linear programming, as in the thesis: the numerically stable form with the bottleneck
//! hunting loop [thesis §4.2.2, §4.2.3; theory §1.2]. Feature `lp`.
//!
//! It is thousands of times slower than [`solve`](crate::solve) and stays for comparison: as a second opinion in
//! tests, and to show how the hunt goes (figure 41 of the thesis).

mod layer;
mod simplex;

use std::num::NonZeroU32;

use crate::routing::Routing;
use crate::solver::{SolveError, check_pair, unreachable};
use crate::topology::{NodeId, Topology};
use layer::LayerProblem;

pub use simplex::Simplex;

/// The hunt for the bottlenecks of one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Hunt {
    /// The factor by which the flow could grow: F of [theory §1.1].
    pub ratio: f64,
    /// The number of suspects before the hunt and after each of its iterations; the last two are equal, and are the
    /// number of bottlenecks.
    pub suspects: Vec<usize>,
}

impl Hunt {
    /// How many linear programs the hunt took: the last one finds that no suspect can be dropped.
    pub fn iterations(&self) -> usize {
        self.suspects.len() - 1
    }

    /// How many links the layer fixes.
    pub fn bottlenecks(&self) -> usize {
        self.suspects.last().copied().unwrap_or(0)
    }
}

/// A capillary routing with the record of each layer's hunt.
#[derive(Debug, Clone, PartialEq)]
pub struct LpSolution {
    /// The routing.
    pub routing: Routing,
    /// The hunts, in the order of the layers.
    pub hunts: Vec<Hunt>,
}

/// The capillary routing from `source` to `target` by linear programming.
///
/// ```
/// use capillary::{NodeId, Orientation, Topology, lp};
///
/// let links = [("s", "a", 1.0), ("a", "t", 1.0), ("s", "t", 1.0)];
/// let topology = Topology::from_links(Orientation::Directed, links)?;
/// let solution = lp::solve(&topology, NodeId(0), NodeId(2))?;
/// assert_eq!(solution.hunts[0].suspects, [3, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn solve(topology: &Topology, source: NodeId, target: NodeId) -> Result<LpSolution, SolveError> {
    solve_by(Simplex::default(), topology, source, target, None)
}

/// The pattern of layer `layers` by linear programming: one hunt for each of the first layers, and one program more for
/// the rest, the cheapest flow that keeps all other loads within that of the last layer [theory §1.5].
///
/// The layers are those of [`solve_layers`](crate::solve_layers), and the rest costs as much as there; where several
/// flows are equally cheap it may be another one.
///
/// ```
/// use std::num::NonZeroU32;
/// use capillary::{NodeId, Orientation, Topology, lp};
///
/// let links = [("s", "a", 1.0), ("s", "b", 1.0), ("a", "t", 1.0), ("b", "c", 1.0), ("c", "t", 1.0), ("b", "t", 1.0)];
/// let topology = Topology::from_links(Orientation::Directed, links)?;
/// let (source, target) = (topology.node("s").unwrap(), topology.node("t").unwrap());
/// let solution = lp::solve_layers(&topology, source, target, NonZeroU32::MIN)?;
/// assert_eq!((solution.hunts.len(), solution.hunts[0].bottlenecks()), (1, 3));
/// assert_eq!(solution.routing.links()[5].flow, 0.5); // b goes straight to t
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn solve_layers(
    topology: &Topology,
    source: NodeId,
    target: NodeId,
    layers: NonZeroU32,
) -> Result<LpSolution, SolveError> {
    solve_by(Simplex::default(), topology, source, target, Some(layers))
}

/// Like [`solve`], or with `layers` like [`solve_layers`], with a choice of the simplex solver.
pub fn solve_by(
    simplex: Simplex,
    topology: &Topology,
    source: NodeId,
    target: NodeId,
    layers: Option<NonZeroU32>,
) -> Result<LpSolution, SolveError> {
    check_pair(topology, source, target)?;
    let mut problem = LayerProblem::first(simplex, topology, source, target);
    // HiGHS refuses a program without variables.
    if problem.has_no_arcs() {
        return Err(unreachable(topology, source, target));
    }
    let mut hunts: Vec<Hunt> = Vec::new();
    let failed = |layer: usize, reason: String| SolveError::LinearProgram { layer, reason };
    while problem.has_supplies() && layers.is_none_or(|layers| hunts.len() < layers.get() as usize) {
        let layer = hunts.len() + 1;
        let (hunt, bottlenecks) = problem.hunt().map_err(|error| failed(layer, error.to_string()))?;
        if bottlenecks.is_empty() {
            return Err(unreachable(topology, source, target));
        }
        problem.remove(&bottlenecks, &hunt);
        hunts.push(hunt);
    }
    let in_layer: Vec<bool> = problem.flows().iter().map(|&flow| flow != 0.0).collect();
    if problem.has_supplies() {
        problem.fill_rest().map_err(|error| failed(hunts.len(), error.to_string()))?;
    }
    let fixed = |link: crate::LinkId| in_layer[link.index()];
    let routing = Routing::with_layers(topology, source, target, problem.flows(), fixed)?;
    Ok(LpSolution { routing, hunts })
}
