//! Why a routing is the capillary routing, in a form that can be checked without trusting the solver.

mod proof;
mod reckoning;
mod separation;

use std::ops::Range;

use thiserror::Error;

use crate::routing::{EQUAL_LOADS, Routing, RoutingError};
use crate::topology::{LinkId, NodeId, Orientation, Topology};
pub(crate) use reckoning::{Left, Reckoned};
use separation::Separation;

/// The cuts that hold the loads of a capillary routing where they are.
///
/// The nodes are put in an order in which each step of the solver works on a contiguous range of them and splits it
/// into contiguous children. In that order every arc from an earlier to a later child is full, that is at the load of
/// the step, and every arc the other way is empty. So nothing that lowers a link of the step can go around it: a
/// detour would have to lead from an earlier child to a later one by an arc with room, or along an arc that carries
/// something backwards. The loads fall strictly from a step to the steps within its children, so no detour through
/// other parts helps either. This proves the routing optimal link by link [theory §1.3].
#[derive(Debug, Clone, PartialEq)]
pub struct Certificate {
    pub(crate) order: Vec<NodeId>,
    pub(crate) steps: Vec<Step>,
    /// Where the children of all steps start, positions in `order`; each step has a range of this list.
    pub(crate) children: Vec<u32>,
    /// The load of the last layer, if the solver stopped there; the loads of the rest are not above it.
    pub(crate) stopped_at: Option<f64>,
}

/// One step of the solver: a part of the network and the cuts through it at which one load is reached.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The nodes of the part, as positions in [`Certificate::order`].
    pub part: Range<u32>,
    /// The factor by which the flow through the part could grow: a cut's capacity over its supply, F of [theory §1.1].
    pub ratio: f64,
    /// The load of the links that the step fixes, with capacities in units of the smallest.
    pub load: f64,
    /// The step that this one's part comes from; `None` for the first.
    pub parent: Option<u32>,
    /// This step's children, as positions in the list of their starts.
    pub(crate) children: Range<u32>,
}

/// What a certificate fails to show.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum CertificateError {
    /// What is to be proved is no routing of the topology at all.
    #[error(transparent)]
    NoRouting(#[from] RoutingError),
    /// A link of the largest load in its part of the network, around which more could flow.
    #[error("{link} has load {load}, but a detour around it has room")]
    Detour {
        /// The link.
        link: LinkId,
        /// Its load.
        load: f64,
    },
    /// Ranges or counts that do not fit together or do not fit the topology.
    #[error("the certificate does not describe this topology: {what}")]
    Malformed {
        /// What does not fit.
        what: &'static str,
    },
    /// A load of a step that is not below that of the step around it.
    #[error("step {step} has load {load}, not below {limit}, the load of the step around it")]
    NotFalling {
        /// The step.
        step: usize,
        /// Its load.
        load: f64,
        /// The load of the step around it.
        limit: f64,
    },
    /// A link from an earlier to a later child that is not at the load of the step.
    #[error("{link} has load {load}, but a cut of step {step} holds it at {expected}")]
    WrongLoad {
        /// The link.
        link: LinkId,
        /// The step whose cut the link crosses.
        step: usize,
        /// The load in the routing.
        load: f64,
        /// The load that the cut demands.
        expected: f64,
    },
    /// A step whose ratio is not the capacity of its cuts over their supply.
    #[error("step {step} has ratio {ratio}, but the loads of the steps around it make it {expected}")]
    WrongRatio {
        /// The step.
        step: usize,
        /// The ratio in the certificate.
        ratio: f64,
        /// The ratio that follows from the loads.
        expected: f64,
    },
}

impl Certificate {
    /// The nodes in the order that the ranges of the steps refer to.
    pub fn order(&self) -> &[NodeId] {
        &self.order
    }

    /// The steps, each after the step around it.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The source side of each cut of a step: the part's nodes before the start of each child but the first. All of
    /// the part's arcs that leave it are full and all that enter it are empty.
    pub fn cuts(&self, step: &Step) -> impl Iterator<Item = &[NodeId]> {
        let starts = &self.children[step.children.start as usize..step.children.end as usize];
        let begin = step.part.start as usize;
        starts.iter().skip(1).map(move |&start| &self.order[begin..start as usize])
    }

    /// Checks that the cuts prove `routing` to be the capillary routing of `topology`: that is, every link of a layer
    /// that the certificate reaches is at the smallest load that the layers above allow.
    ///
    /// The links that no step separates must be empty, or, if the solver stopped early, below the last load.
    ///
    /// Complexity: O((nodes + links) · log nodes).
    pub fn verify(&self, topology: &Topology, routing: &Routing) -> Result<(), CertificateError> {
        self.verify_within(EQUAL_LOADS, topology, routing)
    }

    /// Like [`Certificate::verify`], for loads that may be off by `tolerance`, relative to those of their step.
    fn verify_within(
        &self,
        tolerance: f64,
        topology: &Topology,
        routing: &Routing,
    ) -> Result<(), CertificateError> {
        self.check_shape(topology, routing)?;
        self.check_fall(topology.smallest_capacity().unwrap_or(1.0))?;
        let place = self.places();
        let innermost = self.innermost_steps();
        let separation = Separation::new(place.len(), &self.steps, &self.children);
        for (id, from, to, _) in topology.links() {
            let ends = (place[from.index()], place[to.index()]);
            let actual = routing.signed_load(id);
            let Some(step) = separation.step(ends.0, ends.1) else {
                self.check_unseparated(tolerance, id, actual, innermost[ends.0 as usize] as usize)?;
                continue;
            };
            let load = self.steps[step].load;
            let expected = match topology.orientation() {
                _ if ends.0 < ends.1 => load,
                Orientation::Undirected => -load,
                Orientation::Directed => 0.0,
            };
            if (actual - expected).abs() > tolerance * load {
                return Err(CertificateError::WrongLoad { link: id, step, load: actual, expected });
            }
        }
        Ok(())
    }

    fn check_shape(&self, topology: &Topology, routing: &Routing) -> Result<(), CertificateError> {
        let malformed = |what| Err(CertificateError::Malformed { what });
        let nodes = topology.node_count();
        let mut sorted = self.order.clone();
        sorted.sort_unstable();
        if sorted.len() != nodes || sorted.iter().enumerate().any(|(index, node)| node.index() != index) {
            return malformed("its order is no permutation of the nodes");
        }
        if routing.links().len() != topology.link_count() {
            return malformed("the routing has another number of links");
        }
        for (index, step) in self.steps.iter().enumerate() {
            if !self.is_well_formed(index, step, nodes as u32) {
                return malformed("the range of a step does not fit the step around it");
            }
        }
        Ok(())
    }

    /// Whether the step's part is one child of its parent (the whole, for the first) and is split into children.
    fn is_well_formed(&self, index: usize, step: &Step, nodes: u32) -> bool {
        let Some(starts) = self.starts(step) else { return false };
        let inside = starts.first() == Some(&step.part.start)
            && starts.windows(2).all(|pair| pair[0] < pair[1])
            && starts.last().is_some_and(|&last| last < step.part.end);
        let around = match step.parent {
            None => index == 0 && step.part == (0..nodes),
            Some(parent) => {
                (parent as usize) < index
                    && self.child_ranges(parent as usize).any(|child| child == step.part)
            }
        };
        inside && around
    }

    /// Where the ranges of the order begin that no step divides.
    pub(crate) fn undivided(&self) -> Vec<u32> {
        let mut starts = self.children.clone();
        starts.push(0);
        starts.sort_unstable();
        starts.dedup();
        starts
    }

    /// Puts the steps of another certificate, that of the nodes of a range of the order by their places in it, into
    /// that range, which no step divides.
    pub(crate) fn divide(&mut self, start: u32, parent: u32, within: &Certificate) {
        let range = start as usize..start as usize + within.order.len();
        let nodes = self.order[range.clone()].to_vec();
        for (place, local) in self.order[range].iter_mut().zip(&within.order) {
            *place = nodes[local.index()];
        }
        let (first_step, first_child) = (self.steps.len() as u32, self.children.len() as u32);
        self.children.extend(within.children.iter().map(|child| child + start));
        self.steps.extend(within.steps.iter().map(|step| Step {
            part: step.part.start + start..step.part.end + start,
            parent: Some(step.parent.map_or(parent, |within| within + first_step)),
            children: step.children.start + first_child..step.children.end + first_child,
            ..step.clone()
        }));
    }

    fn starts(&self, step: &Step) -> Option<&[u32]> {
        self.children.get(step.children.start as usize..step.children.end as usize)
    }

    fn child_ranges(&self, step: usize) -> impl Iterator<Item = Range<u32>> {
        let step = &self.steps[step];
        let starts = self.starts(step).unwrap_or_default();
        let ends = starts.iter().skip(1).copied().chain([step.part.end]);
        starts.iter().copied().zip(ends).map(|(start, end)| start..end)
    }

    /// Loads fall, and each is the one above divided by the step's ratio [theory §1.1, eq. 4].
    fn check_fall(&self, smallest_capacity: f64) -> Result<(), CertificateError> {
        if self.steps.is_empty() {
            return Err(CertificateError::Malformed { what: "it has no step" });
        }
        for (index, step) in self.steps.iter().enumerate() {
            let limit = match step.parent {
                Some(parent) => self.steps[parent as usize].load,
                None => f64::INFINITY,
            };
            // A NaN is not below anything.
            let falls = step.load > 0.0 && step.load < limit;
            if !falls {
                return Err(CertificateError::NotFalling { step: index, load: step.load, limit });
            }
            // A flow of r loads a link of capacity c with r·(smallest capacity)/c, and the first flow is 1.
            let above = if step.parent.is_some() { limit } else { smallest_capacity };
            let expected = above / step.load;
            if (step.ratio - expected).abs() > EQUAL_LOADS * expected {
                return Err(CertificateError::WrongRatio { step: index, ratio: step.ratio, expected });
            }
        }
        Ok(())
    }

    /// Where each node stands in the order.
    pub(crate) fn places(&self) -> Vec<u32> {
        let mut place = vec![0; self.order.len()];
        for (position, node) in self.order.iter().enumerate() {
            place[node.index()] = position as u32;
        }
        place
    }

    /// The smallest step around each position of the order. A later step lies within an earlier one or beside it.
    pub(crate) fn innermost_steps(&self) -> Vec<u32> {
        let mut innermost = vec![0; self.order.len()];
        for (index, step) in self.steps.iter().enumerate() {
            innermost[step.part.start as usize..step.part.end as usize].fill(index as u32);
        }
        innermost
    }

    /// Checks a link within a child that no step goes into: nothing is left to carry there, unless the solver stopped
    /// early.
    fn check_unseparated(
        &self,
        tolerance: f64,
        link: LinkId,
        actual: f64,
        step: usize,
    ) -> Result<(), CertificateError> {
        let allowed = self.stopped_at.unwrap_or(0.0);
        if actual.abs() > allowed + tolerance * self.steps[step].load {
            return Err(CertificateError::WrongLoad { link, step, load: actual, expected: allowed });
        }
        Ok(())
    }
}
