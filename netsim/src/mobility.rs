//! Mobile ad-hoc networks: nodes that move in a rectangle and hear each other within a range [design §5].
//!
//! - [`Model`]: how nodes move: [`RandomWalk`] (the thesis's), [`RandomWaypoint`], [`GaussMarkov`], [`Groups`].
//! - [`Scenario`]: so many nodes in an [`Area`], moving by a model. With a seed it gives [`Frames`].
//! - [`Frame`]: where all nodes are at one time; [`Frame::topology`] is the network of those within a range of each
//!   other.
//! - [`FrameStatistics`], [`LinkWatch`]: what kind of networks these are.
//! - [`Trace`]: recorded motion, from and to BonnMotion's and ns-2's files ([`trace`]).
//!
//! All motion is piecewise linear: a node is a series of [`Waypoint`]s, and between two of them it goes straight at
//! one speed. Every model starts in its stationary distribution, so that the first frame is as good a sample as any.
//!
//! Frames are a function of the scenario and the seed on every machine: each node has a random stream of its own, so
//! that a further node leaves the others where they were, and transcendental functions come from `libm`.
//!
//! ```
//! use std::time::Duration;
//! use netsim::mobility::{Area, Length, RandomWalk, Scenario, Speeds};
//!
//! let range = Length::from_metres(100.0)?;
//! let area = Area::for_mean_degree(300, range, 8.52, 1.0)?;
//! let walk = RandomWalk::new(Speeds::constant(10.0)?, Duration::from_secs(5))?;
//! let scenario = Scenario::new(300, area, walk)?;
//!
//! let links: usize = scenario
//!     .frames(1, Duration::from_secs(5))
//!     .take(20)
//!     .map(|frame| frame.topology(range).link_count())
//!     .sum();
//! let mean_degree = 2.0 * links as f64 / 20.0 / 300.0;
//! assert!((mean_degree - 8.52).abs() < 0.5, "{mean_degree}");
//! # Ok::<(), netsim::mobility::ScenarioError>(())
//! ```

mod area;
mod bounce;
mod draw;
mod error;
mod frame;
mod gauss_markov;
mod group;
mod radio;
mod random_walk;
mod random_waypoint;
mod scenario;
mod statistics;
pub mod trace;
mod units;
mod waypoint;

pub use capillary::Position;

pub use self::area::Area;
pub use self::error::ScenarioError;
pub use self::frame::{Frame, Frames};
pub use self::gauss_markov::GaussMarkov;
pub use self::group::Groups;
pub use self::random_walk::RandomWalk;
pub use self::random_waypoint::RandomWaypoint;
pub use self::scenario::{Individual, Model, Scenario};
pub use self::statistics::{FrameStatistics, LinkChanges, LinkWatch};
pub use self::trace::Trace;
pub use self::units::{Length, Pauses, Speeds};
pub use self::waypoint::Waypoint;
