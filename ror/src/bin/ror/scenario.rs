//! The networks of a sweep plan: frames of nodes that move.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use capillary::Topology;
use netsim::mobility::{
    self, Area, Frames, GaussMarkov, Groups, Length, Model, Pauses, RandomWalk, RandomWaypoint,
    ScenarioError, Speeds,
};
use rand_core::RngCore as _;

use crate::item::{Place, Task};
use crate::plan::{Mobility, Plan, Problem, Sampling};

/// Makes the tasks of a plan in the order of their items.
#[derive(Debug)]
pub(crate) struct Scenario<'p> {
    plan: &'p Plan,
    /// The moving nodes, for plans that have any.
    moving: Option<Moving<'p>>,
}

#[derive(Debug)]
struct Moving<'p> {
    plan: &'p Sampling,
    scenario: mobility::Scenario,
    range: Length,
    interval: Duration,
    run: Option<Run>,
}

/// The sweep run that is under way.
#[derive(Debug)]
struct Run {
    number: u64,
    frames: Frames<'static>,
    /// The last frame that was asked for, and its number.
    frame: u64,
    topology: Arc<Topology>,
}

impl<'p> Scenario<'p> {
    pub(crate) fn new(plan: &'p Plan) -> Result<Self, Problem> {
        let moving = match plan {
            Plan::Sampling(plan) => Some(Moving::new(plan)?),
            Plan::Law(_) => None,
        };
        Ok(Self { plan, moving })
    }

    /// The tasks of some items; later calls ask for later items.
    pub(crate) fn tasks(&mut self, items: Range<u64>) -> Vec<Task> {
        match (self.plan, &mut self.moving) {
            (Plan::Sampling(plan), Some(moving)) => {
                let sample = |item| {
                    let place = Place::of(plan, item);
                    Task::Sample { place, topology: moving.topology(place.run, place.frame) }
                };
                items.map(sample).collect()
            }
            _ => items.map(|item| Task::Law { item }).collect(),
        }
    }
}

impl<'p> Moving<'p> {
    fn new(plan: &'p Sampling) -> Result<Self, Problem> {
        let nodes = plan.nodes as usize;
        let range = Length::from_metres(plan.range).map_err(|error| because("range", &error))?;
        let area = area(plan, nodes, range)?;
        let model = model(plan)?;
        let scenario = mobility::Scenario::new(nodes, area, model).map_err(|error| {
            let key = match error {
                ScenarioError::TooFast { .. } if plan.mobility == Mobility::GaussMarkov => "mean_speed",
                ScenarioError::TooFast { .. } => "speed",
                ScenarioError::GroupTooWide { .. } => "group_radius",
                _ => "nodes",
            };
            because(key, &error)
        })?;
        Ok(Self { plan, scenario, range, interval: seconds("interval", plan.interval)?, run: None })
    }

    fn topology(&mut self, run: u64, frame: u64) -> Arc<Topology> {
        match &mut self.run {
            Some(current) if current.number == run => {
                if let Some(skipped) = frame.checked_sub(current.frame + 1) {
                    current.topology = take(&mut current.frames, skipped, self.range);
                    current.frame = frame;
                }
                Arc::clone(&current.topology)
            }
            _ => {
                let mut frames = self.scenario.frames(seed(self.plan.seed as u64, run), self.interval);
                let topology = take(&mut frames, frame, self.range);
                self.run = Some(Run { number: run, frames, frame, topology: Arc::clone(&topology) });
                topology
            }
        }
    }
}

/// The frame behind `skipped` others, as a network.
fn take(frames: &mut Frames<'static>, skipped: u64, range: Length) -> Arc<Topology> {
    let frame = frames.nth(skipped as usize).expect("a model's frames do not end");
    Arc::new(frame.topology(range))
}

/// The seed of a sweep run's motion: the runs have nothing to do with one another.
fn seed(root: u64, run: u64) -> u64 {
    netsim::random_stream(root, &["ror sweep", "run", &run.to_string()]).next_u64()
}

fn area(plan: &Sampling, nodes: usize, range: Length) -> Result<Area, Problem> {
    if let Some(degree) = plan.mean_degree {
        return Area::for_mean_degree(nodes, range, degree, 1.0)
            .map_err(|error| because("mean_degree", &error));
    }
    let [width, height] = plan.area.unwrap_or_default();
    let side = |metres| Length::from_metres(metres).map_err(|error| because("area", &error));
    Ok(Area::new(side(width)?, side(height)?))
}

fn model(plan: &Sampling) -> Result<Model, Problem> {
    let speeds = || {
        let [least, greatest] = plan.speed.unwrap_or_default();
        Speeds::between(least, greatest).map_err(|error| because("speed", &error))
    };
    let leg = || seconds("leg", plan.leg.unwrap_or_default());
    let waypoint = || {
        let [shortest, longest] = plan.pause.unwrap_or_default();
        let pauses = Pauses::between(time("pause", shortest)?, time("pause", longest)?);
        Ok(RandomWaypoint::new(speeds()?, pauses.map_err(|error| because("pause", &error))?))
    };
    Ok(match plan.mobility {
        Mobility::RandomWalk => {
            RandomWalk::new(speeds()?, leg()?).map_err(|error| because("leg", &error))?.into()
        }
        Mobility::RandomWaypoint => waypoint()?.into(),
        Mobility::GaussMarkov => gauss_markov(plan, leg()?)?.into(),
        Mobility::ReferencePointGroup => groups(plan, leg()?, waypoint()?)?.into(),
    })
}

fn gauss_markov(plan: &Sampling, step: Duration) -> Result<GaussMarkov, Problem> {
    let (mean, deviation) = (plan.mean_speed.unwrap_or_default(), plan.deviation.unwrap_or_default());
    GaussMarkov::new(mean, deviation, plan.memory.unwrap_or_default(), step).map_err(|error| {
        let key = match error {
            ScenarioError::Memory { .. } => "memory",
            ScenarioError::Moment { what: "deviation", .. } => "deviation",
            _ => "mean_speed",
        };
        because(key, &error)
    })
}

fn groups(plan: &Sampling, step: Duration, reference: RandomWaypoint) -> Result<Groups, Problem> {
    let radius = Length::from_metres(plan.group_radius.unwrap_or_default());
    let radius = radius.map_err(|error| because("group_radius", &error))?;
    let size = plan.group_size.unwrap_or_default();
    let Ok(size) = usize::try_from(size) else {
        return Err(Problem { key: "group_size", reason: format!("{size} is no number of nodes") });
    };
    Groups::new(size, radius, step, reference).map_err(|error| because("group_size", &error))
}

/// A time that may be zero.
fn time(key: &'static str, seconds: f64) -> Result<Duration, Problem> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| Problem { key, reason: format!("{seconds} is no number of seconds") })
}

fn seconds(key: &'static str, seconds: f64) -> Result<Duration, Problem> {
    match time(key, seconds)? {
        Duration::ZERO => {
            Err(Problem { key, reason: format!("{seconds} s is too short; it must be above 0") })
        }
        time => Ok(time),
    }
}

fn because(key: &'static str, error: &ScenarioError) -> Problem {
    Problem { key, reason: error.to_string() }
}
