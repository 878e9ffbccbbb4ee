//! Scenarios: a network, flows, and what happens to them, written down in TOML, run in virtual time, and measured.
//!
//! docs/scenarios.md describes the language. A run is a function of the file.
//!
//! ```
//! use fec_testbed::scenario::Scenario;
//!
//! let text = r#"
//!     name = "two paths, one dies"
//!     warm_up_s = 1
//!     duration_s = 3
//!     [topology]
//!     parallel = { paths = 2, rate_mbit = 5, round_trip_ms = 20, loss = 0.01 }
//!     [[flow]]
//!     class = "bulk"
//!     [[event]]
//!     at_s = 2
//!     links = [["client", "r1"]]
//!     fail = true
//!     [expect]
//!     ratio = ">= 0.3"
//!     wrong_bytes = "== 0"
//! "#;
//! let scenarios = Scenario::parse_all(text, &|_| Err("no other files".to_owned()))?;
//! let outcome = scenarios[0].run();
//! assert!(outcome.passes(), "{:?}", outcome.checks);
//! # Ok::<(), fec_testbed::scenario::ScenarioError>(())
//! ```

mod deaths;
mod event;
mod file;
mod grid;
mod layout;
mod ledger;
mod limit;
mod load;
mod outcome;
mod sampler;
mod shape;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use deaths::Deaths;
use event::{Happening, NetworkChange};
use fec_transport::Class;
use fec_transport::Time;
use fec_transport::config::Config;
use fec_transport::overlay::{LinkId, MemberId, Overlay};
use fec_transport::sim::{Pauses, Scene, World};
use file::{CompetitorTable, FlowClass, FlowTable, PausesTable, ScenarioFile};
use layout::Layout;
use ledger::{Flow, Ledger, Traffic};
use load::Load;
use outcome::Expectation;
use sampler::{STRIDE, Sampler, TICK};
use shape::seconds;

pub use deaths::LinkDeath;
pub use outcome::{Check, Outcome};
pub use sampler::{PathSample, Series, SeriesRow};

/// What is wrong with a scenario file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScenarioError(String);

impl ScenarioError {
    fn wrong(what: impl Into<String>) -> ScenarioError {
        ScenarioError(what.into())
    }

    fn syntax(text: &str, error: &toml::de::Error) -> ScenarioError {
        let line = error.span().map(|span| text[..span.start.min(text.len())].lines().count().max(1));
        let place = line.map_or_else(String::new, |line| format!("line {line}: "));
        ScenarioError(format!("{place}{}", error.message()))
    }
}

/// A scenario, checked and ready to run.
#[derive(Debug, Clone)]
pub struct Scenario {
    name: String,
    description: String,
    unmasked: Option<String>,
    seed: u64,
    scene: Scene,
    config: Config,
    flows: Vec<Flow>,
    competitors: Vec<Competitor>,
    pauses: Vec<(MemberId, Pauses)>,
    happenings: Vec<Happening>,
    expectations: Vec<Expectation>,
    /// The measured time, from the start of the simulation.
    window: (Time, Time),
}

/// A flow of somebody else.
#[derive(Debug, Clone)]
struct Competitor {
    over: Vec<MemberId>,
    round_trip: Duration,
    start: Time,
    stop: Option<Time>,
}

impl Scenario {
    /// Reads a scenario file: one scenario, or with a `[grid]` one for each combination of its values. `load` gives the
    /// text of a file that it names, or says in words why it cannot.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn parse_all(
        text: &str,
        load: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Vec<Scenario>, ScenarioError> {
        grid::expand(text)?.iter().map(|text| Scenario::parse(text, load)).collect()
    }

    fn parse(text: &str, load: &dyn Fn(&str) -> Result<String, String>) -> Result<Scenario, ScenarioError> {
        let file: ScenarioFile = toml::from_str(text).map_err(|error| ScenarioError::syntax(text, &error))?;
        file.config.validate().map_err(|error| ScenarioError::wrong(format!("config: {error}")))?;
        let layout = Layout::new(file.topology, load)?;
        let scene = layout.scene()?;
        let (overlay, _) = scene.overlay();
        let flow = |(index, table): (usize, FlowTable)| flow(&overlay, index, table);
        let flows = file.flow.into_iter().enumerate().map(flow).collect::<Result<Vec<_>, _>>()?;
        let happenings =
            event::happenings(&file.event, &layout, &planned_links(&overlay, &flows, &file.config))?;
        let competitors = file.competitor.iter().map(|table| competitor(&overlay, table));
        let competitors = competitors.collect::<Result<Vec<_>, _>>()?;
        let pauses = file.pauses.iter().map(|table| pauses(&overlay, table));
        let pauses = pauses.collect::<Result<Vec<_>, _>>()?.concat();
        let bounds = file.expect.iter().flat_map(|(metric, bounds)| {
            bounds.texts().iter().map(move |text| Expectation::parse(metric, text))
        });
        let expectations = bounds.collect::<Result<Vec<_>, _>>()?;
        let wrong = ScenarioError::wrong;
        file.config.validate().map_err(|error| wrong(error.to_string()))?;
        let from = Time::ZERO + seconds(file.warm_up_s, "warm_up_s").map_err(wrong)?;
        let window = (from, from + seconds(file.duration_s, "duration_s").map_err(wrong)?);
        if let Some(late) =
            happenings.iter().map(|happening| happening.at).find(|at| *at > window.1.since_epoch())
        {
            return Err(ScenarioError::wrong(format!(
                "an event at {late:?} comes after the end of the run, {:?}",
                window.1.since_epoch()
            )));
        }
        Ok(Scenario {
            name: file.name,
            description: file.description,
            unmasked: file.unmasked,
            seed: file.seed,
            scene,
            config: file.config,
            flows,
            competitors,
            pauses,
            happenings,
            expectations,
            window,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is to show.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The name of the same scenario without masks, if it is to be compared with one.
    pub fn unmasked(&self) -> Option<&str> {
        self.unmasked.as_deref()
    }

    /// How much virtual time it takes.
    pub fn length(&self) -> Duration {
        self.window.1.since_epoch()
    }

    /// Runs it to its end.
    pub fn run(&self) -> Outcome {
        let ledger = Rc::new(RefCell::new(Ledger::new(self.flows.clone(), self.window)));
        let of_application = Rc::clone(&ledger);
        let make = move |_: &Overlay, member| Load::new(member, Rc::clone(&of_application));
        let mut world = World::new(&self.scene, self.config.clone(), self.seed, make);
        for Competitor { over, round_trip, start, stop } in &self.competitors {
            world.add_competitor(over, *round_trip, *start, *stop);
        }
        self.pauses.iter().for_each(|(member, pauses)| world.pause(*member, *pauses));
        for happening in &self.happenings {
            happening.schedule(&mut world);
        }
        let mut sampler = Sampler::new(&world, &ledger.borrow(), self.config.coding.symbol_size);
        let mut deaths = Deaths::new(&world, &self.flows, &self.happenings);
        let strides = self.length().as_nanos().div_ceil(STRIDE.as_nanos());
        for _ in 0..strides {
            for _ in 0..STRIDE.as_nanos() / TICK.as_nanos() {
                world.run_for(TICK);
                sampler.tick(&mut world);
            }
            sampler.stride(&world, &ledger.borrow());
            deaths.stride(&world, sampler.repair_rounds());
        }
        let mut ledger = ledger.borrow_mut();
        ledger.close(world.now());
        let changes = self.happenings.iter().map(|happening| Time::from_epoch(happening.at));
        let changes = changes.filter(|at| *at >= self.window.0);
        let changes = changes.clone().min().zip(changes.max());
        let deaths = deaths.outcome(&ledger);
        let mut metrics = outcome::metrics(&ledger, &sampler, &deaths, changes);
        metrics.extend(self.slowest_return(&sampler.series).map(|back| ("back_s".to_owned(), back)));
        let checks = outcome::check_all(&self.expectations, &metrics);
        Outcome {
            name: self.name.clone(),
            metrics,
            checks,
            deaths,
            series: sampler.series,
            trace_hash: world.trace_hash(),
        }
    }
}

impl Scenario {
    /// For all links that came back, how long it took until a path over them carried data again, in seconds.
    fn slowest_return(&self, series: &Series) -> Option<f64> {
        let returns = self.happenings.iter().filter_map(|happening| match &happening.change {
            NetworkChange::LinkUp { a, b } => Some((happening.at.as_secs_f64(), [a.as_str(), b.as_str()])),
            _ => None,
        });
        returns.map(|(at, ends)| series.carries_again(at, ends)).max_by(f64::total_cmp)
    }
}

impl Happening {
    fn schedule(&self, world: &mut World<Load>) {
        let after = self.at;
        match &self.change {
            NetworkChange::LinkDown { a, b } => world.cut(after, world.member(a), world.member(b)),
            NetworkChange::LinkUp { a, b } => world.restore(after, world.member(a), world.member(b)),
            NetworkChange::Crash(name) => world.crash(after, world.member(name)),
            NetworkChange::Restart(name) => world.restart(after, world.member(name)),
            NetworkChange::Model { a, b, model } => {
                world.reshape(after, world.member(a), world.member(b), (**model).clone());
            }
        }
    }
}

/// The links that the plans of all flows use, each once, in the order of the overlay.
fn planned_links(overlay: &Overlay, flows: &[Flow], config: &Config) -> event::Pairs {
    let plan =
        |flow: &Flow| fec_transport::plan::plan(overlay, flow.from, flow.to, config).unwrap_or_default();
    let routes = flows.iter().flat_map(plan);
    let links: std::collections::BTreeSet<_> =
        routes.flat_map(|planned| planned.route.links().to_vec()).collect();
    let ends = |link: LinkId| {
        let link = &overlay.links()[link.entry()];
        [overlay.name(link.a), overlay.name(link.b)]
    };
    links.into_iter().map(ends).collect()
}

fn competitor(overlay: &Overlay, table: &CompetitorTable) -> Result<Competitor, ScenarioError> {
    let wrong = |what: String| ScenarioError::wrong(format!("competitor: {what}"));
    let member =
        |name: &String| overlay.find(name).ok_or_else(|| wrong(format!("there is no member \"{name}\"")));
    let over = table.over.iter().map(member).collect::<Result<Vec<_>, _>>()?;
    let is_joined = |pair: &[MemberId]| overlay.are_neighbours(pair[0], pair[1]);
    if over.len() < 2 || !over.windows(2).all(is_joined) {
        return Err(wrong(format!(
            "over is {:?}: expected at least two members, neighbours in order",
            table.over
        )));
    }
    Ok(Competitor {
        over,
        round_trip: seconds(table.round_trip_ms / 1e3, "round_trip_ms / 1000").map_err(&wrong)?,
        start: Time::from_epoch(seconds(table.start_s, "start_s").map_err(&wrong)?),
        stop: table
            .stop_s
            .map(|at| seconds(at, "stop_s").map(Time::from_epoch))
            .transpose()
            .map_err(&wrong)?,
    })
}

/// The members of the table, and how each of them pauses.
fn pauses(overlay: &Overlay, table: &PausesTable) -> Result<Vec<(MemberId, Pauses)>, ScenarioError> {
    let wrong = |what: String| ScenarioError::wrong(format!("pauses: {what}"));
    let time = |ms: f64, what| seconds(ms / 1e3, what).map_err(wrong);
    let [least, most] = table.for_ms;
    let pauses = Pauses {
        every: time(table.every_ms, "every_ms / 1000")?,
        shortest: time(least, "for_ms / 1000")?,
        longest: time(most, "for_ms / 1000")?,
    };
    if pauses.every.is_zero() || pauses.shortest > pauses.longest {
        return Err(wrong(format!(
            "every {} ms for {:?} ms: expected more than 0 ms, and the shortest pause before the longest",
            table.every_ms, table.for_ms
        )));
    }
    let member =
        |name: &String| overlay.find(name).ok_or_else(|| wrong(format!("there is no member \"{name}\"")));
    table.members.iter().map(|name| Ok((member(name)?, pauses))).collect()
}

fn flow(overlay: &Overlay, index: usize, table: FlowTable) -> Result<Flow, ScenarioError> {
    let name = table.name.unwrap_or_else(|| format!("flow{}", index + 1));
    let wrong = |what: String| ScenarioError::wrong(format!("flow \"{name}\": {what}"));
    let member =
        |name: &str| overlay.find(name).ok_or_else(|| wrong(format!("there is no member \"{name}\"")));
    let time = |value: f64, what| seconds(value, what).map(Time::from_epoch).map_err(&wrong);
    let traffic = match (table.bytes, &table.messages) {
        (Some(_), Some(_)) => return Err(wrong("expected bytes or messages, not both".to_owned())),
        (bytes, None) => Traffic::Bulk { bytes },
        (None, Some(messages)) if messages.per_s > 0.0 && messages.per_s <= 1e6 && messages.bytes > 0 => {
            Traffic::Messages {
                every: Duration::from_secs_f64(1.0 / messages.per_s),
                bytes: messages.bytes,
                within: messages.within_ms.map(|ms| Duration::from_secs_f64(ms.max(0.0) / 1e3)),
            }
        }
        (None, Some(messages)) => {
            return Err(wrong(format!(
                "{} messages of {} bytes per second: expected up to a million of at least 1 byte",
                messages.per_s, messages.bytes
            )));
        }
    };
    Ok(Flow {
        from: member(&table.from)?,
        to: member(&table.to)?,
        class: match table.class {
            FlowClass::Bulk => Class::Bulk,
            FlowClass::Interactive => Class::Interactive,
            FlowClass::RealTime => Class::RealTime {
                deadline: seconds(table.deadline_ms / 1e3, "deadline_ms / 1000").map_err(&wrong)?,
            },
        },
        start: time(table.start_s, "start_s")?,
        stop: table.stop_s.map(|at| time(at, "stop_s")).transpose()?,
        traffic,
        in_order: table.in_order,
        name,
    })
}
