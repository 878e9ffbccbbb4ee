//! What cannot be a scenario.

use std::time::Duration;

use thiserror::Error;

use crate::units::Short;

/// A value that makes no sense in a scenario, or not together with the others.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum ScenarioError {
    /// A length that is none.
    #[error("{} m is no length: it must be above 0 and at most 1e9", Short(*.metres))]
    Length {
        /// What was given, in metres.
        metres: f64,
    },
    /// A speed that is none.
    #[error("{} m/s is no speed: it must be above 0 and at most 1e9", Short(*.metres_per_second))]
    Speed {
        /// What was given, in m/s.
        metres_per_second: f64,
    },
    /// A range of speeds the wrong way round.
    #[error("speeds from {} to {} m/s: the least must not be above the greatest", Short(*.least), Short(*.greatest))]
    Speeds {
        /// The first, in m/s.
        least: f64,
        /// The second, in m/s.
        greatest: f64,
    },
    /// A range of pauses the wrong way round.
    #[error("pauses from {least:?} to {greatest:?}: the least must not be above the greatest")]
    Pauses {
        /// The first.
        least: Duration,
        /// The second.
        greatest: Duration,
    },
    /// A time of zero.
    #[error("the {what} is zero; it must be above 0")]
    NoTime {
        /// What takes time.
        what: &'static str,
    },
    /// Too few nodes, or too many.
    #[error("{nodes} nodes; a scenario has at least 1 and at most {}", crate::mobility::Scenario::MAX_NODES)]
    Nodes {
        /// How many were asked for.
        nodes: usize,
    },
    /// A shape that is none.
    #[error("{} is no ratio of width to height: it must lie in [0.001, 1000]", Short(*.aspect))]
    Aspect {
        /// What was given.
        aspect: f64,
    },
    /// A mean degree that no area gives.
    #[error(
        "no area gives {nodes} nodes with a range of {} m the mean degree {}: it must be above 0 and, \
         for this shape, below {greatest:.3}",
        Short(*.range_m),
        Short(*.degree)
    )]
    MeanDegree {
        /// How many nodes there are.
        nodes: usize,
        /// Their range, in metres.
        range_m: f64,
        /// The mean degree that was asked for.
        degree: f64,
        /// What the range reaches where it is as long as the area's shorter side.
        greatest: f64,
    },
    /// Nodes that would cross the area over and over between two changes of direction.
    #[error(
        "a node may go {} m before it turns, which is more than {} times the shorter side of the area",
        Short(*.distance_m),
        super::bounce::MAX_CROSSINGS
    )]
    TooFast {
        /// How far it goes.
        distance_m: f64,
    },
    /// A memory that never fades, or none.
    #[error("{} is no memory: it must be at least 0 and below 1", Short(*.value))]
    Memory {
        /// What was given.
        value: f64,
    },
    /// A mean speed or a deviation of speeds that is none.
    #[error("{} m/s is no {what}: it must be at least 0 and at most 1e9", Short(*.value))]
    Moment {
        /// Which of the two.
        what: &'static str,
        /// What was given, in m/s.
        value: f64,
    },
    /// Nodes that never move.
    #[error("mean speed and deviation are both 0: nothing would move")]
    Still,
    /// Groups without members.
    #[error("groups of 0 nodes; a group has at least 1")]
    EmptyGroups,
    /// Groups that do not fit.
    #[error(
        "a group of radius {} m does not fit an area of {} m by {} m",
        Short(*.radius_m),
        Short(*.width_m),
        Short(*.height_m)
    )]
    GroupTooWide {
        /// The radius, in metres.
        radius_m: f64,
        /// The width of the area, in metres.
        width_m: f64,
        /// Its height, in metres.
        height_m: f64,
    },
}
