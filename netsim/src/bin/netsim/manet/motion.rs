//! The nodes and how they move, from the command line.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use netsim::mobility::trace::{BONNMOTION_MARGIN_M, read_bonnmotion, read_ns2};
use netsim::mobility::{
    Area, Frame, GaussMarkov, Groups, Length, Model, Pauses, RandomWalk, RandomWaypoint, Scenario, Speeds,
    Trace,
};

use super::View;
use super::files::{TraceFormat, TraceName};
use crate::failure::Failure;
use program::quantity::{count, duration};

/// Frames of a model if nobody says how many.
const DEFAULT_FRAMES: u64 = 100;

#[derive(Debug, Subcommand)]
pub(super) enum Motion {
    /// Random walk with reflection at the border, as in the thesis
    #[command(
        after_help = "Example: netsim manet walk --nodes 115 --degree 7 --range 100 --speed 5..15 --frames 300"
    )]
    Walk(Walk),
    /// Random waypoint, from its stationary distribution
    #[command(
        after_help = "Example: netsim manet waypoint --nodes 50 --area 500x500 --range 100 --speed 0.5..1.5 --pause 0..60"
    )]
    Waypoint(Waypoint),
    /// Gauss–Markov: velocities with a memory
    #[command(
        after_help = "Example: netsim manet gauss-markov --nodes 50 --area 500x300 --range 100 --mean-speed 3 --deviation 1"
    )]
    GaussMarkov(GaussMarkovMotion),
    /// Groups around reference points that move by random waypoint
    #[command(
        after_help = "Example: netsim manet groups --nodes 60 --size 6 --radius 40 --area 800x800 --range 100 --speed 2..5"
    )]
    Groups(GroupMotion),
    /// A trace of BonnMotion or ns-2
    #[command(
        after_help = "Example, with a trace of our own (`bm NSFile` of BonnMotion makes such files, too):\n  \
                      netsim manet waypoint --nodes 50 --area 500x500 --range 100 --speed 1 \\\n    \
                      --write-trace rwp.ns_movements\n  \
                      netsim manet trace rwp.ns_movements --shift 10 --range 150 --interval 10"
    )]
    Trace(TraceFile),
}

/// How many nodes move where.
#[derive(Debug, Args)]
struct Place {
    /// How many nodes
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    nodes: usize,
    /// The area, width by height in metres
    #[arg(long, value_name = "WxH", value_parser = area, required_unless_present = "degree")]
    area: Option<Area>,
    /// Instead of --area: the neighbours that uniformly spread nodes have on average (the thesis's links a node)
    #[arg(long, value_name = "D", conflicts_with = "area")]
    degree: Option<f64>,
    /// With --degree: the area's width over its height
    #[arg(long, value_name = "X", default_value_t = 1.0, requires = "degree")]
    aspect: f64,
    /// Another seed, other motion
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Args)]
pub(super) struct Walk {
    #[command(flatten)]
    place: Place,
    /// Speeds in m/s, LEAST..GREATEST or one
    #[arg(long, value_name = "V", value_parser = speeds)]
    speed: Speeds,
    /// Seconds between two turns [default: --interval]
    #[arg(long, value_name = "S", value_parser = time)]
    leg: Option<Duration>,
    #[command(flatten)]
    view: View,
}

#[derive(Debug, Args)]
struct Trips {
    /// Speeds in m/s, LEAST..GREATEST or one
    #[arg(long, value_name = "V", value_parser = speeds)]
    speed: Speeds,
    /// Pauses between trips in seconds, LEAST..GREATEST or one
    #[arg(long, value_name = "S", default_value = "0", value_parser = pauses)]
    pause: Pauses,
}

#[derive(Debug, Args)]
pub(super) struct Waypoint {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    trips: Trips,
    #[command(flatten)]
    view: View,
}

#[derive(Debug, Args)]
pub(super) struct GaussMarkovMotion {
    #[command(flatten)]
    place: Place,
    /// The length of each node's mean velocity, in m/s
    #[arg(long, value_name = "V", default_value_t = 0.0)]
    mean_speed: f64,
    /// The deviation of each coordinate of the velocity, in m/s
    #[arg(long, value_name = "V")]
    deviation: f64,
    /// How much of the last velocity stays in the next, from 0 to below 1
    #[arg(long, value_name = "A", default_value_t = 0.75)]
    memory: f64,
    /// Seconds between two velocities
    #[arg(long, value_name = "S", default_value = "1", value_parser = time)]
    step: Duration,
    #[command(flatten)]
    view: View,
}

#[derive(Debug, Args)]
pub(super) struct GroupMotion {
    #[command(flatten)]
    place: Place,
    /// Nodes of a group
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    size: usize,
    /// How far members stray from their reference point, in metres
    #[arg(long, value_name = "M", value_parser = metres)]
    radius: Length,
    /// Seconds that a member takes from one place in its group to the next
    #[arg(long, value_name = "S", default_value = "10", value_parser = time)]
    step: Duration,
    #[command(flatten)]
    trips: Trips,
    #[command(flatten)]
    view: View,
}

#[derive(Debug, Args)]
pub(super) struct TraceFile {
    /// The trace: BonnMotion's .movements, ns-2's .ns_movements (also .ns2, .tcl), compressed (.gz) or not
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// The format, if the name of the file does not tell
    #[arg(long = "input-format", value_enum)]
    format: Option<TraceFormat>,
    /// Metres to take off all coordinates of an ns-2 file: 10 for those that BonnMotion wrote
    #[arg(long, value_name = "M", default_value_t = 0.0, allow_hyphen_values = true)]
    shift: f64,
    #[command(flatten)]
    view: View,
}

/// Where frames come from.
#[derive(Debug)]
pub(super) enum Source {
    Model(Scenario, u64),
    Trace(Trace),
}

impl Motion {
    pub(super) fn view(&self) -> &View {
        match self {
            Self::Walk(motion) => &motion.view,
            Self::Waypoint(motion) => &motion.view,
            Self::GaussMarkov(motion) => &motion.view,
            Self::Groups(motion) => &motion.view,
            Self::Trace(motion) => &motion.view,
        }
    }

    pub(super) fn source(&self) -> Result<Source, Failure> {
        let (place, view) = match self {
            Self::Walk(motion) => (&motion.place, &motion.view),
            Self::Waypoint(motion) => (&motion.place, &motion.view),
            Self::GaussMarkov(motion) => (&motion.place, &motion.view),
            Self::Groups(motion) => (&motion.place, &motion.view),
            Self::Trace(file) => return file.read().map(Source::Trace),
        };
        let area = place.area(view.range)?;
        Ok(Source::Model(Scenario::new(place.nodes, area, self.model()?)?, place.seed))
    }

    fn model(&self) -> Result<Model, Failure> {
        Ok(match self {
            Self::Walk(Walk { speed, leg, view, .. }) => {
                RandomWalk::new(*speed, leg.unwrap_or(view.interval))?.into()
            }
            Self::Waypoint(Waypoint { trips, .. }) => trips.model().into(),
            Self::GaussMarkov(motion) => {
                GaussMarkov::new(motion.mean_speed, motion.deviation, motion.memory, motion.step)?.into()
            }
            Self::Groups(groups) => {
                Groups::new(groups.size, groups.radius, groups.step, groups.trips.model())?.into()
            }
            Self::Trace(_) => unreachable!("a trace has no model"),
        })
    }
}

impl Place {
    fn area(&self, range: Length) -> Result<Area, Failure> {
        match (self.area, self.degree) {
            (Some(area), _) => Ok(area),
            (None, Some(degree)) => Ok(Area::for_mean_degree(self.nodes, range, degree, self.aspect)?),
            (None, None) => unreachable!("clap asks for one of the two"),
        }
    }
}

impl Trips {
    fn model(&self) -> RandomWaypoint {
        RandomWaypoint::new(self.speed, self.pause)
    }
}

impl TraceFile {
    fn read(&self) -> Result<Trace, Failure> {
        let name = TraceName::new(&self.path, self.format)?;
        let bytes = std::fs::read(&self.path).map_err(|error| Failure::File(self.path.clone(), error))?;
        match name.format {
            TraceFormat::Bonnmotion => read_bonnmotion(&bytes),
            TraceFormat::Ns2 => read_ns2(&bytes, self.shift),
        }
        .map_err(|error| Failure::Trace(self.path.clone(), error))
    }
}

impl Source {
    pub(super) fn nodes(&self) -> usize {
        match self {
            Self::Model(scenario, _) => scenario.nodes(),
            Self::Trace(trace) => trace.nodes().len(),
        }
    }

    /// Width and height, in metres; of a trace, those of what its nodes visit.
    pub(super) fn extent(&self) -> [f64; 2] {
        match self {
            Self::Model(scenario, _) => [scenario.area().width_m(), scenario.area().height_m()],
            Self::Trace(trace) => {
                let (low, high) = trace.bounds();
                [high.x - low.x, high.y - low.y]
            }
        }
    }

    pub(super) fn frames(&self, interval: Duration) -> Box<dyn Iterator<Item = Frame> + '_> {
        match self {
            Self::Model(scenario, seed) => Box::new(scenario.frames(*seed, interval)),
            Self::Trace(trace) => Box::new(trace.frames(interval)),
        }
    }

    pub(super) fn frame_count(&self, view: &View) -> u64 {
        let wanted = view.frames.map(u64::from);
        match self {
            Self::Model(..) => wanted.unwrap_or(DEFAULT_FRAMES),
            Self::Trace(trace) => {
                let all = trace.frames(view.interval).remaining().unwrap_or(u64::MAX);
                wanted.map_or(all, |wanted| wanted.min(all))
            }
        }
    }

    /// The motion until the last frame, as a trace.
    pub(super) fn trace(&self, view: &View, frames: u64) -> Trace {
        match self {
            Self::Model(scenario, seed) => {
                let intervals = u32::try_from(frames - 1).unwrap_or(u32::MAX);
                scenario.trace(*seed, view.interval.saturating_mul(intervals))
            }
            Self::Trace(trace) => trace.clone(),
        }
    }
}

/// How far ns-2 files are shifted that are written.
pub(super) const WRITTEN_MARGIN_M: f64 = BONNMOTION_MARGIN_M;

fn at_least_one(text: &str) -> Result<usize, String> {
    count(text).map(|count| count.get() as usize)
}

fn number(text: &str) -> Result<f64, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is no number"))
}

pub(super) fn metres(text: &str) -> Result<Length, String> {
    Length::from_metres(number(text)?).map_err(|error| error.to_string())
}

/// A time above 0, in seconds or with a unit.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let time = any_time(text)?;
    if time.is_zero() { Err("expected a time above 0 (and at least a nanosecond)".into()) } else { Ok(time) }
}

/// A time in seconds, also as a power of ten, or with a unit.
fn any_time(text: &str) -> Result<Duration, String> {
    text.trim().parse().map_or_else(|_| duration(text), seconds)
}

fn seconds(seconds: f64) -> Result<Duration, String> {
    const LONGEST_S: f64 = 1e9;
    let time = Some(seconds).filter(|seconds| (0.0..=LONGEST_S).contains(seconds));
    time.map(Duration::from_secs_f64)
        .ok_or_else(|| format!("{seconds} is no time: expected 0 to 1e9 seconds"))
}

fn area(text: &str) -> Result<Area, String> {
    let (width, height) = text.split_once('x').ok_or("expected WIDTHxHEIGHT in metres, such as 500x300")?;
    Ok(Area::new(metres(width)?, metres(height)?))
}

/// LEAST..GREATEST, or one number that is both.
fn span(text: &str) -> Result<RangeInclusive<f64>, String> {
    let (least, greatest) = text.split_once("..").unwrap_or((text, text));
    Ok(number(least)?..=number(greatest)?)
}

fn speeds(text: &str) -> Result<Speeds, String> {
    let (least, greatest) = span(text)?.into_inner();
    Speeds::between(least, greatest).map_err(|error| error.to_string())
}

fn pauses(text: &str) -> Result<Pauses, String> {
    let (least, greatest) = text.split_once("..").unwrap_or((text, text));
    Pauses::between(any_time(least)?, any_time(greatest)?).map_err(|error| error.to_string())
}
