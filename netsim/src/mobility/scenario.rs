//! Who moves where and how.

use std::time::Duration;

use super::area::Area;
use super::error::ScenarioError;
use super::frame::{Frame, Frames};
use super::gauss_markov::GaussMarkov;
use super::group::Groups;
use super::random_walk::RandomWalk;
use super::random_waypoint::RandomWaypoint;
use super::waypoint::{Course, Cursor};
use crate::stream::random_stream;

/// How a node moves by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Individual {
    /// As in the thesis.
    RandomWalk(RandomWalk),
    /// From place to place.
    RandomWaypoint(RandomWaypoint),
    /// With a memory.
    GaussMarkov(GaussMarkov),
}

impl Individual {
    pub(super) fn check(self, area: Area) -> Result<(), ScenarioError> {
        match self {
            Self::RandomWalk(model) => model.check(area),
            Self::RandomWaypoint(_) => Ok(()),
            Self::GaussMarkov(model) => model.check(area),
        }
    }

    pub(super) fn course(self, area: Area, rng: rand_chacha::ChaCha8Rng) -> Course<'static> {
        match self {
            Self::RandomWalk(model) => Box::new(model.course(area, rng)),
            Self::RandomWaypoint(model) => Box::new(model.course(area, rng)),
            Self::GaussMarkov(model) => Box::new(model.course(area, rng)),
        }
    }
}

/// How nodes move.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Model {
    /// Each by itself.
    Individual(Individual),
    /// In groups.
    Groups(Groups),
}

impl From<RandomWalk> for Individual {
    fn from(model: RandomWalk) -> Self {
        Self::RandomWalk(model)
    }
}

impl From<RandomWaypoint> for Individual {
    fn from(model: RandomWaypoint) -> Self {
        Self::RandomWaypoint(model)
    }
}

impl From<GaussMarkov> for Individual {
    fn from(model: GaussMarkov) -> Self {
        Self::GaussMarkov(model)
    }
}

impl<M: Into<Individual>> From<M> for Model {
    fn from(model: M) -> Self {
        Self::Individual(model.into())
    }
}

impl From<Groups> for Model {
    fn from(groups: Groups) -> Self {
        Self::Groups(groups)
    }
}

/// So many nodes that move in an area by a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scenario {
    nodes: usize,
    area: Area,
    model: Model,
}

impl Scenario {
    /// More nodes would not fit the memory of most machines.
    pub const MAX_NODES: usize = 10_000_000;

    /// Puts a scenario together.
    ///
    /// # Errors
    /// [`ScenarioError`] for too few or too many nodes, and for a model that does not fit the area.
    pub fn new(nodes: usize, area: Area, model: impl Into<Model>) -> Result<Self, ScenarioError> {
        let model = model.into();
        if !(1..=Self::MAX_NODES).contains(&nodes) {
            return Err(ScenarioError::Nodes { nodes });
        }
        match model {
            Model::Individual(model) => model.check(area)?,
            Model::Groups(groups) => groups.check(area)?,
        }
        Ok(Self { nodes, area, model })
    }

    /// How many nodes there are.
    pub const fn nodes(&self) -> usize {
        self.nodes
    }

    /// Where they move.
    pub const fn area(&self) -> Area {
        self.area
    }

    /// How they move.
    pub const fn model(&self) -> &Model {
        &self.model
    }

    /// The frames at times 0, `interval`, 2·`interval` and so on, without end. `nth` and `skip` cost the waypoints that
    /// are passed, and no positions are computed for what is left out.
    pub fn frames(&self, seed: u64, interval: Duration) -> Frames<'static> {
        let cursors = (0..self.nodes).filter_map(|node| Cursor::new(self.course(seed, node)));
        Frames::new(cursors.collect(), interval, None)
    }

    /// Frame number `number` of [`frames`](Self::frames). O(nodes · waypoints until then): where many are wanted,
    /// iterate.
    pub fn frame(&self, seed: u64, interval: Duration, number: u64) -> Frame {
        self.frames(seed, interval).frame(number)
    }

    /// The waypoints of a node, without end.
    pub(super) fn course(&self, seed: u64, node: usize) -> Course<'static> {
        let stream =
            |kind: &str, number: usize| random_stream(seed, &["mobility", kind, &number.to_string()]);
        let rng = stream("node", node);
        match self.model {
            Model::Individual(model) => model.course(self.area, rng),
            Model::Groups(groups) => {
                let group_rng = stream("group", groups.group_of(node));
                let course = groups.course(self.area, group_rng, rng);
                Box::new(course.expect("new() has checked that groups fit the area"))
            }
        }
    }
}
