//! The capillary routing by maximum flow: Newton's method on cuts, then divide [theory §1.3].
//!
//! Prior art: Georgiadis, Georgatsos, Floros, Sartzetakis, "Lexicographically optimal balanced networks" (the same
//! recursion on cuts); Radzik 1992 (Newton's method on cuts).

mod balance;
mod components;
mod recursion;
mod repair;

use std::num::NonZeroU32;

use thiserror::Error;

use crate::certificate::{Certificate, CertificateError, Reckoned};
use crate::routing::{Routing, RoutingError};
use crate::topology::{NodeId, Topology, TopologyError};

pub(crate) use recursion::Recursion;

/// How often the recursion goes on with what its cuts have left: the first time it finds what is below its round-off,
/// some 1e-12 of the demand, and each time after that as much below the time before.
const MOST_REPAIRS: usize = 4;

/// Why there is no routing.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SolveError {
    /// A source or a target that the topology does not have.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// Source and target are one node.
    #[error("source and target are both {name:?}; they must be two nodes")]
    SourceIsTarget {
        /// The name of the node.
        name: String,
    },
    /// No path leads from the source to the target.
    #[error("{target:?} cannot be reached from {source_name:?}")]
    Unreachable {
        /// The name of the source.
        source_name: String,
        /// The name of the target.
        target: String,
    },
    /// The input was beyond the precision of floating point, and rational numbers are not built in (feature `exact`).
    #[error(
        "the capacities are beyond the precision of floating point; it takes rational numbers (feature exact)"
    )]
    Imprecise,
    /// The result is no flow.
    #[error("round-off spoilt the result: {0}")]
    NoRouting(#[from] RoutingError),
    /// The exact routing fails its own proof: a fault of ours.
    #[error("the result fails its own proof: {0}")]
    Unproven(#[from] CertificateError),
    /// A linear program that its solver gave up on.
    #[error("the linear program of layer {layer} failed: {reason}")]
    LinearProgram {
        /// The layer, counted from 1.
        layer: usize,
        /// What the solver said.
        reason: String,
    },
}

/// The work that a solution took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effort {
    /// How many parts were solved.
    pub steps: usize,
    /// How many maximum flows: several for each step, as Newton's method closes in on a cut.
    pub max_flows: usize,
    /// How many breadth-first searches the maximum flows took.
    pub rounds: usize,
}

/// What the cuts of a solution were found with. The loads that they demand are always reckoned in numbers of some 32
/// digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// Floating point.
    Float,
    /// Rational numbers, after the cuts that floating point found did not fit together (feature `exact`).
    Rational,
}

impl std::fmt::Display for Arithmetic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Float => "float",
            Self::Rational => "rational",
        })
    }
}

/// A capillary routing with the proof that it is one.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// The routing.
    pub routing: Routing,
    /// The cuts that prove it optimal.
    pub certificate: Certificate,
    /// The work that it took.
    pub effort: Effort,
    /// How it was found.
    pub arithmetic: Arithmetic,
}

/// The capillary routing from `source` to `target`: the unit flow whose loads, sorted from the largest down, are
/// lexicographically smallest [theory §1]. It is unique, link by link.
///
/// Typical cost: a few breadth-first searches per layer; 300 nodes with 2,556 arcs take some milliseconds.
///
/// ```
/// use capillary::{Orientation, Topology};
///
/// // Two ways with a link between them, which the routing leaves alone.
/// let links = [("s", "a", 1.0), ("s", "b", 1.0), ("a", "b", 1.0), ("a", "t", 1.0), ("b", "t", 1.0)];
/// let topology = Topology::from_links(Orientation::Undirected, links)?;
/// let (source, target) = (topology.node("s").unwrap(), topology.node("t").unwrap());
/// let routing = capillary::solve(&topology, source, target)?;
/// let loads: Vec<f64> = routing.links().iter().map(|link| link.load).collect();
/// assert_eq!(loads, [0.5, 0.5, 0.0, 0.5, 0.5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn solve(topology: &Topology, source: NodeId, target: NodeId) -> Result<Routing, SolveError> {
    solve_certified(topology, source, target).map(|solution| solution.routing)
}

/// Like [`solve`], with the certificate of each step and the work that it took.
pub fn solve_certified(topology: &Topology, source: NodeId, target: NodeId) -> Result<Solution, SolveError> {
    run(topology, source, target, None)
}

/// The pattern of layer `layers`: the loads of the first layers, and for the rest the cheapest flow, of least
/// Σ flow/capacity, that keeps all other loads within that of the last layer [theory §1.5]. Later layers are not
/// solved, which saves most of the work. If there are fewer layers, it is the capillary routing itself.
///
/// Only the links of the first layers have a layer number. The cheapest flow need not be unique; of equally cheap ways
/// those over earlier links are taken, so that the result is always the same.
///
/// ```
/// use std::num::NonZeroU32;
/// use capillary::{NodeId, Orientation, Topology};
///
/// let links = [("s", "a", 1.0), ("s", "b", 1.0), ("a", "t", 1.0), ("b", "c", 1.0), ("c", "t", 1.0), ("b", "t", 1.0)];
/// let topology = Topology::from_links(Orientation::Directed, links)?;
/// let (source, target) = (topology.node("s").unwrap(), topology.node("t").unwrap());
/// let pattern = capillary::solve_layers(&topology, source, target, NonZeroU32::MIN)?.routing;
/// let loads: Vec<f64> = pattern.links().iter().map(|link| link.load).collect();
/// assert_eq!(loads, [0.5, 0.5, 0.5, 0.0, 0.0, 0.5]); // b goes straight to t
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn solve_layers(
    topology: &Topology,
    source: NodeId,
    target: NodeId,
    layers: NonZeroU32,
) -> Result<Solution, SolveError> {
    run(topology, source, target, Some(layers))
}

fn run(
    topology: &Topology,
    source: NodeId,
    target: NodeId,
    layers: Option<NonZeroU32>,
) -> Result<Solution, SolveError> {
    check_pair(topology, source, target)?;
    let mut recursion = Recursion::new(topology, source, target);
    recursion.run(layers);
    if recursion.is_unreachable() {
        return Err(unreachable(topology, source, target));
    }
    let mut effort = recursion.effort();
    let Some(reckoned) = reckon(recursion.certificate(), topology, (source, target), &mut effort) else {
        return by_rationals(topology, source, target, effort);
    };
    let Reckoned { mut flows, certificate } = reckoned;
    let in_layer: Vec<bool> = flows.iter().map(|&flow| flow != 0.0).collect();
    if certificate.stopped_at.is_some() {
        recursion.fill_rest();
        let rest = flows.iter_mut().zip(recursion.flows()).zip(&in_layer).filter(|(_, fixed)| !**fixed);
        rest.for_each(|((flow, &rest), _)| *flow = rest);
    }
    let routing = Routing::with_layers(topology, source, target, &flows, |link| in_layer[link.index()])?;
    if certificate.verify(topology, &routing).is_err() {
        return by_rationals(topology, source, target, effort);
    }
    Ok(Solution { routing, certificate, effort, arithmetic: Arithmetic::Float })
}

/// The flows that the cuts demand, after as many cuts were added as they lack. `None`: what they lack is not found in
/// floating point.
fn reckon(
    mut certificate: Certificate,
    topology: &Topology,
    (source, target): (NodeId, NodeId),
    effort: &mut Effort,
) -> Option<Reckoned> {
    for _ in 0..=MOST_REPAIRS {
        match Reckoned::of(certificate, topology, source, target) {
            Ok(reckoned) => return Some(reckoned),
            Err(left) => certificate = repair::divide_what_is_left(left, topology, effort)?,
        }
    }
    None
}

/// The whole routing in exact arithmetic, when floating point has failed its own proof.
#[cfg(feature = "exact")]
fn by_rationals(
    topology: &Topology,
    source: NodeId,
    target: NodeId,
    effort: Effort,
) -> Result<Solution, SolveError> {
    let exact = crate::exact::solve(topology, source, target)?;
    let certificate = exact.certificate(topology)?;
    Ok(Solution { routing: exact.routing, certificate, effort, arithmetic: Arithmetic::Rational })
}

#[cfg(not(feature = "exact"))]
fn by_rationals(_: &Topology, _: NodeId, _: NodeId, _: Effort) -> Result<Solution, SolveError> {
    Err(SolveError::Imprecise)
}

/// Whether the two are different nodes of the topology.
pub(crate) fn check_pair(topology: &Topology, source: NodeId, target: NodeId) -> Result<(), SolveError> {
    topology.check_node(source)?;
    topology.check_node(target)?;
    if source == target {
        return Err(SolveError::SourceIsTarget { name: topology.node_weight(source).name().into() });
    }
    Ok(())
}

pub(crate) fn unreachable(topology: &Topology, source: NodeId, target: NodeId) -> SolveError {
    let name = |node| topology.node_weight(node).name().to_string();
    SolveError::Unreachable { source_name: name(source), target: name(target) }
}
