//! Liquid schedules: many transfers of one size over links that each carry one at a time [thesis §3].
//!
//! Transfers that share an arc cannot go together. The load of an arc is the number of transfers over it, and the
//! largest load Λ bounds the number of frames from below. A schedule is *liquid* if it needs no more: then each of its
//! frames is a team, a set of transfers that do not collide and keep every bottleneck busy. Not all traffics have one.
//!
//! The search fixes the frame of one transfer after another, the one with fewest frames left first. A frame that one
//! transfer gets is closed to all transfers that collide with it; if only one transfer can still keep a bottleneck busy
//! in a frame, it gets that frame. The transfers of one bottleneck get frames 0, 1, 2 and so on beforehand, since
//! frames have no order.

mod search;

use thiserror::Error;

use crate::matrix::arcs::Arcs;
use crate::matrix::tree::Tree;
use crate::topology::{LinkId, NodeId, Topology, TopologyError};
use search::Search;

pub use search::Outcome;

/// One transfer with the way that it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// Where it comes from.
    pub source: NodeId,
    /// Where it goes.
    pub target: NodeId,
    /// The arcs of its path: links with their direction (`true`: from the first end to the second).
    pub path: Vec<(LinkId, bool)>,
}

/// Transfers of one size on fixed paths.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    transfers: Vec<Transfer>,
    /// The transfers over each arc that carries any.
    on_arc: Vec<((LinkId, bool), Vec<usize>)>,
}

/// Transfers by frame: position i holds those of frame i, as positions in [`Traffic::transfers`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// The frames.
    pub frames: Vec<Vec<usize>>,
}

/// Why there is no traffic or no schedule of it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ScheduleError {
    /// A node that the topology does not have.
    #[error("there is no {0} in the topology")]
    UnknownNode(NodeId),
    /// A transfer from a node to itself.
    #[error("a transfer leads from {name:?} to itself; expected two nodes")]
    SourceIsTarget {
        /// The node's name.
        name: String,
    },
    /// A transfer whose target cannot be reached.
    #[error("the transfer from {source_name:?} to {target:?}: the target cannot be reached")]
    Unreachable {
        /// The name of the source.
        source_name: String,
        /// The name of the target.
        target: String,
    },
    /// Two transfers of one frame on one arc.
    #[error("transfers {first} and {second} of frame {frame} collide on {link}")]
    Collision {
        /// The frame.
        frame: usize,
        /// One transfer.
        first: usize,
        /// The other.
        second: usize,
        /// The link.
        link: LinkId,
    },
    /// A transfer that is in no frame or in several.
    #[error("transfer {transfer} is in {frames} frames; expected one")]
    NotOnce {
        /// The transfer.
        transfer: usize,
        /// How many frames it is in.
        frames: usize,
    },
}

impl Traffic {
    /// Transfers between pairs of nodes, each on a path of fewest links; of several on the first found.
    ///
    /// # Errors
    /// [`ScheduleError`] names a transfer that has no path.
    pub fn on_shortest_paths(topology: &Topology, pairs: &[(NodeId, NodeId)]) -> Result<Self, ScheduleError> {
        let arcs = Arcs::new(topology);
        let mut tree = Tree::new(arcs.nodes());
        let mut transfers = Vec::with_capacity(pairs.len());
        let mut searched = None;
        for &(source, target) in pairs {
            for node in [source, target] {
                topology.check_node(node).map_err(|_: TopologyError| ScheduleError::UnknownNode(node))?;
            }
            let name = |node| topology.node_weight(node).name().to_string();
            if source == target {
                return Err(ScheduleError::SourceIsTarget { name: name(source) });
            }
            if searched != Some(target) {
                tree.search(&arcs, target.0, |_| Some(1.0), f64::from);
                searched = Some(target);
            }
            if tree.distance(source.0).is_infinite() {
                return Err(ScheduleError::Unreachable { source_name: name(source), target: name(target) });
            }
            let way = |arc: u32| (arcs.arc(arc).link, arcs.arc(arc).forward);
            let path = tree.path(&arcs, source.0).into_iter().map(way).collect();
            transfers.push(Transfer { source, target, path });
        }
        Ok(Self::new(transfers))
    }

    /// Transfers on paths that the caller chose.
    pub fn new(transfers: Vec<Transfer>) -> Self {
        let mut on_arc = std::collections::BTreeMap::new();
        for (index, transfer) in transfers.iter().enumerate() {
            for &arc in &transfer.path {
                let on: &mut Vec<usize> = on_arc.entry(arc).or_default();
                if on.last() != Some(&index) {
                    on.push(index);
                }
            }
        }
        Self { transfers, on_arc: on_arc.into_iter().collect() }
    }

    /// The transfers.
    pub fn transfers(&self) -> &[Transfer] {
        &self.transfers
    }

    /// The transfers over each arc that carries any.
    pub fn loads(&self) -> impl Iterator<Item = ((LinkId, bool), &[usize])> {
        self.on_arc.iter().map(|(arc, on)| (*arc, on.as_slice()))
    }

    /// Λ: the largest number of transfers over an arc, below which no schedule's number of frames can be.
    pub fn bound(&self) -> usize {
        self.on_arc.iter().map(|(_, on)| on.len()).max().unwrap_or(0)
    }

    /// The arcs that carry Λ transfers.
    pub fn bottlenecks(&self) -> impl Iterator<Item = ((LinkId, bool), &[usize])> {
        let bound = self.bound();
        self.loads().filter(move |(_, on)| on.len() == bound)
    }

    /// A liquid schedule, the proof that there is none, or neither after `patience` decisions of the search.
    pub fn liquid_schedule(&self, patience: usize) -> Outcome {
        Search::run(self, patience)
    }

    /// Each transfer in the first frame in which it collides with none, those over the fullest arcs first.
    pub fn greedy_schedule(&self) -> Schedule {
        let load = |arc: &(LinkId, bool)| {
            let place = self.on_arc.binary_search_by_key(arc, |(arc, _)| *arc);
            place.map_or(0, |place| self.on_arc[place].1.len())
        };
        let mut order: Vec<usize> = (0..self.transfers.len()).collect();
        order.sort_by_key(|&index| {
            let loads = self.transfers[index].path.iter().map(load);
            std::cmp::Reverse(loads.fold((0, 0), |(most, sum), load| (most.max(load), sum + load)))
        });
        self.first_fit(order)
    }

    /// Round robin, as schedulers do it that know nothing of the network: source i sends to the target r places on in
    /// round r, and a round takes as many frames as its transfers need on the arcs that they share.
    pub fn round_robin_schedule(&self) -> Schedule {
        let mut nodes: Vec<NodeId> = self.transfers.iter().flat_map(|t| [t.source, t.target]).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let place = |node: NodeId| nodes.binary_search(&node).unwrap_or(0);
        let round = |transfer: &Transfer| {
            (place(transfer.target) + nodes.len() - place(transfer.source)) % nodes.len().max(1)
        };
        let mut frames = Vec::new();
        for number in 0..nodes.len() {
            let members = (0..self.transfers.len()).filter(|&index| round(&self.transfers[index]) == number);
            frames.extend(self.first_fit(members.collect()).frames);
        }
        Schedule { frames }
    }

    fn first_fit(&self, order: Vec<usize>) -> Schedule {
        let mut frames: Vec<Vec<usize>> = Vec::new();
        let mut busy: Vec<std::collections::BTreeSet<(LinkId, bool)>> = Vec::new();
        for index in order {
            let path = &self.transfers[index].path;
            let free = busy.iter().position(|busy| path.iter().all(|arc| !busy.contains(arc)));
            let frame = free.unwrap_or_else(|| {
                frames.push(Vec::new());
                busy.push(std::collections::BTreeSet::new());
                frames.len() - 1
            });
            frames[frame].push(index);
            busy[frame].extend(path);
        }
        Schedule { frames }
    }
}

impl Schedule {
    /// Checks that each transfer of `traffic` is in one frame and none of a frame collide.
    ///
    /// # Errors
    /// [`ScheduleError`] names the transfers.
    pub fn verify(&self, traffic: &Traffic) -> Result<(), ScheduleError> {
        let mut times = vec![0; traffic.transfers.len()];
        for (frame, members) in self.frames.iter().enumerate() {
            let mut user = std::collections::BTreeMap::new();
            for &second in members {
                let Some(count) = times.get_mut(second) else {
                    return Err(ScheduleError::NotOnce { transfer: second, frames: 0 });
                };
                *count += 1;
                for &arc in &traffic.transfers[second].path {
                    if let Some(first) = user.insert(arc, second) {
                        return Err(ScheduleError::Collision { frame, first, second, link: arc.0 });
                    }
                }
            }
        }
        match times.iter().position(|&frames| frames != 1) {
            Some(transfer) => Err(ScheduleError::NotOnce { transfer, frames: times[transfer] }),
            None => Ok(()),
        }
    }
}
