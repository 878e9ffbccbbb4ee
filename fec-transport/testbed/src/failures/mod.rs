//! The thesis's claim on packets instead of a formula: what a sender adds while links fail is what ROR says.
//!
//! A session speaks in blocks of M source symbols along the pattern of one layer of the capillary routing over a mobile
//! ad-hoc network. Dead paths keep their share of every block and nothing is planned anew, so that redundancy alone
//! answers a failure, as in the thesis [thesis §4.3.1]. Each link of the plan fails in turn, and the symbols that are
//! sent on account of it are counted.
//!
//! **What is compared.** With P symbols per second in quiet times and failures of D seconds, P·D·ROR is the number of
//! redundant symbols that all failures together cost (eqs. 6 and 7). So [`Row::sent`] is the symbols sent from each
//! failure until the sender is quiet again, repairs and the sluggishness of its measurements included, beyond P for as
//! long, summed over the failures and divided by P·D.
//!
//! ```no_run
//! use std::num::NonZeroU32;
//! use fec_testbed::failures::{Sample, Settings, run};
//!
//! let settings = Settings::default();
//! let sample = Sample::draw(1, 0, 115, 7.6)?;
//! let row = run(&sample, NonZeroU32::MIN, &settings)?;
//! println!("sent {:.2}, ROR {:.2}", row.sent, row.ror);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod prediction;
mod sample;
mod summary;
mod voice;

use std::num::NonZeroU32;
use std::time::Duration;

use capillary::Routing;
use serde::{Deserialize, Serialize};

use fec_transport::Time;
use fec_transport::config::{Codec, Config, Policy, Protection, Spreading};
use fec_transport::overlay::{MemberId, Overlay};
use fec_transport::plan::{PlannedRoute, plan};
use fec_transport::sim::{LinkSpec, World};
use fec_transport::{Class, PathState};
use prediction::{Failure, failures, rate_flows};
pub use sample::Sample;
pub use summary::{Summary, correlation, median, summarise};
use voice::{Speech, Voice};

/// What each link is like: so fast that nothing waits, and 2 ms long.
const LINK_MBIT: u64 = 100;
const LINK_DELAY: Duration = Duration::from_millis(2);
/// Bytes of a symbol: small, because only their number matters.
const SYMBOL_SIZE: usize = 64;
/// The most source symbols of the blocks of a real-time stream; longer ones are those of a bulk stream.
pub const MAX_REAL_TIME: usize = 32;
/// How long it may take until all planned paths carry data.
const SET_UP: Duration = Duration::from_secs(10);
/// How long nothing is counted at first, and then for how long the usual rate is counted.
const WARM_UP: Duration = Duration::from_secs(3);
const QUIET: Duration = Duration::from_secs(3);
/// A sender that follows within this has followed; blocks that start later must not be lost.
pub const GRACE: Duration = Duration::from_secs(1);

/// How the claim is tried.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// M, the source symbols of a block: 1 to 32, real-time with a deadline, or 64 to 1,024, bulk that is repaired.
    pub source_symbols: usize,
    /// The share of blocks for which the first sending may fall short: the thesis's decoding error rate.
    pub decoding_error_rate: f64,
    /// t, the loss that every block bears.
    pub tolerance: f64,
    /// How symbols are spread, and which law says how many there are.
    pub spread: Spreading,
    /// The most paths of a plan, up to 32. What they leave of the flow is spread over them.
    pub max_paths: usize,
    /// Blocks per second.
    pub blocks_per_s: f64,
    /// After how long a block is worth nothing.
    pub deadline: Duration,
    /// D, for how long each link is dead.
    pub failure: Duration,
    /// How long a link has been back before the next one fails.
    pub recovery: Duration,
    /// Whether every link fails. If not, one of those that the same paths cross fails for all: to the ends they are
    /// one.
    pub every_link: bool,
    /// The seed of all that is random but the network.
    pub seed: u64,
}

impl Default for Settings {
    /// The thesis's M and decoding error rate, its middle tolerance, and blocks that come four times as fast as those
    /// of its telephony, so that a second holds enough of them.
    fn default() -> Settings {
        Settings {
            source_symbols: ror::DEFAULT_SOURCE_PACKETS as usize,
            decoding_error_rate: ror::DEFAULT_DECODING_ERROR_RATE,
            tolerance: 0.057,
            spread: Spreading::Random,
            max_paths: 32,
            blocks_per_s: 10.0,
            deadline: Duration::from_millis(400),
            failure: Duration::from_secs(10),
            recovery: Duration::from_secs(2),
            every_link: false,
            seed: 1,
        }
    }
}

impl Settings {
    fn class(&self) -> Class {
        if self.source_symbols <= MAX_REAL_TIME {
            Class::RealTime { deadline: self.deadline }
        } else {
            Class::Bulk
        }
    }
}

/// What one plan has shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The number of its sample.
    pub sample: u64,
    /// The layer of the capillary routing that the plan follows.
    pub layer: u32,
    /// The static tolerance.
    pub tolerance: f64,
    /// Its paths.
    pub paths: usize,
    /// The share of the routing's flow that they stand for.
    pub covered: f64,
    /// Links of the plan that failed, and how many failures stood for them.
    pub links: usize,
    /// See `links`.
    pub failures: usize,
    /// ROR of the layer's routing with blocks of M packets (eq. 8), and with very large ones (eq. 11).
    pub ror: f64,
    /// See `ror`.
    pub ror_large: f64,
    /// The same of the plan: the paths that there are, with their shares.
    pub planned_ror: f64,
    /// See `planned_ror`.
    pub planned_ror_large: f64,
    /// The redundancy that was sent on account of the failures, as ROR counts it.
    pub sent: f64,
    /// Symbols per block in quiet times.
    pub usual_symbols: f64,
    /// Blocks that started more than [`GRACE`] after a failure, while the link was dead; how many of them were not
    /// whole by their deadline, and how many needed more symbols than were sent at first.
    pub late_blocks: u64,
    /// See `late_blocks`.
    pub late_lost: u64,
    /// See `late_blocks`.
    pub late_repaired: u64,
    /// Blocks that started within [`GRACE`] of a failure, and how many of them were lost.
    pub early_blocks: u64,
    /// See `early_blocks`.
    pub early_lost: u64,
}

/// Why there is no row.
#[derive(Debug, thiserror::Error)]
pub enum FailuresError {
    /// No plan.
    #[error(transparent)]
    Plan(#[from] fec_transport::ConnectError),
    /// No routing.
    #[error(transparent)]
    Routing(#[from] capillary::SolveError),
    /// No rating.
    #[error(transparent)]
    Rating(#[from] ror::RatingError),
    /// No law.
    #[error(transparent)]
    Law(#[from] ror::BlockError),
    /// The session did not live through it, or something wrong was delivered.
    #[error("sample {sample}, layer {layer}: {what}")]
    Session {
        /// The sample.
        sample: u64,
        /// The layer.
        layer: u32,
        /// What happened.
        what: String,
    },
}

/// Lets the links of the plan of one layer fail in turn.
///
/// # Errors
/// [`FailuresError`] if there is no such plan or the session ends on the way.
pub fn run(sample: &Sample, layer: NonZeroU32, settings: &Settings) -> Result<Row, FailuresError> {
    let config = config(layer, settings);
    let scene = sample.scene(&LinkSpec::new(LINK_MBIT, LINK_DELAY));
    let (overlay, _) = scene.overlay();
    let ends = [sample.from, sample.to].map(|node| MemberId(node.index() as u16));
    let routes = plan(&overlay, ends[0], ends[1], &config)?;
    let routing = capillary::solve_layers(&sample.topology, sample.from, sample.to, layer)?.routing;
    let mut row = predict(sample.number, layer.get(), &routing, &overlay, &routes, settings)?;
    let speech = Speech {
        class: settings.class(),
        block_bytes: settings.source_symbols * SYMBOL_SIZE,
        every: Duration::from_secs_f64(1.0 / settings.blocks_per_s),
    };
    let world = World::new(&scene, config, settings.seed, move |_, _| Voice::new(speech));
    let failures = failures(&overlay, &routes, settings.every_link);
    row.failures = failures.len();
    let mut trial = Trial { world, ends, settings: *settings, windows: Vec::new() };
    let outcome = trial.run(routes.len(), &failures, &mut row);
    outcome.map_err(|what| FailuresError::Session { sample: sample.number, layer: layer.get(), what })?;
    Ok(row)
}

/// What the formulas say.
fn predict(
    sample: u64,
    layer: u32,
    routing: &Routing,
    overlay: &Overlay,
    routes: &[PlannedRoute],
    settings: &Settings,
) -> Result<Row, FailuresError> {
    let law = ror::BlockLaw::new(settings.source_symbols as u32, settings.decoding_error_rate)?;
    let tolerance = settings.tolerance;
    let flows: Vec<f64> = failures(overlay, routes, true).into_iter().map(|failure| failure.share).collect();
    let planned = rate_flows(&flows, tolerance, &law)?;
    Ok(Row {
        sample,
        layer,
        tolerance,
        paths: routes.len(),
        covered: routing.paths(settings.max_paths, 1.0).covered,
        links: flows.len(),
        failures: 0,
        ror: ror::rate(routing, tolerance, &law)?.overall,
        ror_large: ror::rate_large_blocks(routing, tolerance)?.overall,
        planned_ror: planned.short,
        planned_ror_large: planned.large,
        sent: 0.0,
        usual_symbols: 0.0,
        late_blocks: 0,
        late_lost: 0,
        late_repaired: 0,
        early_blocks: 0,
        early_lost: 0,
    })
}

/// The thesis's session: along the plan by its shares, with redundancy as the only answer to a failure.
fn config(layer: NonZeroU32, settings: &Settings) -> Config {
    let mut config = Config::default();
    let coding = &mut config.coding;
    coding.symbol_size = SYMBOL_SIZE;
    coding.spread = settings.spread;
    let protection = if settings.class() == Class::Bulk {
        // Reed–Solomon has too few symbols for what a static tolerance may ask.
        coding.codec = Codec::RaptorQ;
        coding.bulk_symbols = settings.source_symbols..=settings.source_symbols;
        &mut coding.bulk
    } else {
        coding.interactive_symbols = settings.source_symbols;
        &mut coding.interactive
    };
    *protection = Protection {
        tolerance: settings.tolerance,
        residual: settings.decoding_error_rate,
        prior_loss: 0.0,
        mask: 0,
        policy: Policy::Resilient,
        block_timer: Duration::from_millis(1),
    };
    config.liveness.removal = false;
    config.limits.max_route = 64;
    config.routing.layers = Some(layer);
    config.limits.paths = settings.max_paths;
    config.routing.max_paths = settings.max_paths;
    config.routing.cover = 1.0;
    config.routing.replan = false;
    // Longer than any trial, because circuits that are replaced are not what is tried here.
    config.routing.circuit_lifetime = Duration::from_secs(24 * 3_600);
    config
}

/// A session on its network.
struct Trial {
    world: World<Voice>,
    /// The speaker and the listener.
    ends: [MemberId; 2],
    settings: Settings,
    /// The times from and to which a link was dead.
    windows: Vec<(Time, Time)>,
}

impl Trial {
    fn run(&mut self, paths: usize, failures: &[Failure], row: &mut Row) -> Result<(), String> {
        self.open(paths)?;
        let before = self.count()?;
        self.world.run_for(QUIET);
        let quiet = self.count()?.since(before);
        let usual = quiet.symbols as f64 / quiet.blocks as f64;
        row.usual_symbols = usual;
        for failure in failures {
            let (extra, repaired) = self.fail(failure, usual)?;
            let weight = failure.links.len() as f64;
            let blocks = self.settings.failure.as_secs_f64() * self.settings.blocks_per_s;
            row.sent += weight * extra / (usual * blocks);
            row.late_repaired += repaired;
        }
        self.close(row)
    }

    /// Opens the session and waits until all paths carry data and the sender is quiet.
    fn open(&mut self, paths: usize) -> Result<(), String> {
        let [speaker, listener] = self.ends;
        self.world.act(speaker, |now, node, voice| voice.speak_to(now, node, listener));
        let all_live = self.world.run_until(SET_UP, |world| live_paths(world, speaker) == paths);
        if !all_live {
            let live = live_paths(&self.world, speaker);
            return Err(format!("only {live} of {paths} paths carry data after {SET_UP:?}"));
        }
        self.world.run_for(WARM_UP);
        Ok(())
    }

    /// Cuts a link and restores it: gives the symbols sent beyond the `usual` ones, and how many blocks were repaired
    /// later than [`GRACE`] after the cut.
    fn fail(&mut self, failure: &Failure, usual: f64) -> Result<(f64, u64), String> {
        let (a, b) = failure.ends;
        let before = self.count()?;
        let start = self.world.now();
        self.world.cut(Duration::ZERO, a, b);
        // A block that started just before is repaired for as long as its deadline allows.
        let settled = (GRACE + self.settings.deadline).min(self.settings.failure);
        self.world.run_for(settled);
        let early = self.count()?;
        self.world.run_for(self.settings.failure - settled);
        let late = self.count()?.since(early);
        self.windows.push((start, self.world.now()));
        self.world.restore(Duration::ZERO, a, b);
        self.world.run_for(self.settings.recovery);
        let all = self.count()?.since(before);
        let extra = all.symbols as f64 - usual * all.blocks as f64;
        Ok((extra, late.repaired))
    }

    /// Lets the last block arrive and looks at what became of all of them.
    fn close(&mut self, row: &mut Row) -> Result<(), String> {
        self.world.act(self.ends[0], |_, _, voice| voice.fall_silent());
        self.world.run_for(2 * self.settings.deadline);
        let [speaker, listener] = self.ends.map(|member| self.world.application(member));
        if listener.wrong_bytes > 0 {
            return Err(format!("{} wrong bytes were delivered", listener.wrong_bytes));
        }
        for (block, written) in speaker.written.iter().enumerate() {
            let during = self.windows.iter().find(|(from, to)| written >= from && written < to);
            let Some((from, _)) = during else { continue };
            let lost = u64::from(!listener.heard.get(block).copied().unwrap_or(false));
            if written.since(*from) > GRACE {
                row.late_blocks += 1;
                row.late_lost += lost;
            } else {
                row.early_blocks += 1;
                row.early_lost += lost;
            }
        }
        Ok(())
    }

    fn count(&self) -> Result<Count, String> {
        let voice = self.world.application(self.ends[0]);
        if let Some(trouble) = &voice.trouble {
            return Err(trouble.clone());
        }
        let status = voice.session().and_then(|id| self.world.node(self.ends[0]).session_status(id));
        let sent = status.ok_or_else(|| "there is no session".to_owned())?.sent;
        Ok(Count {
            blocks: voice.written.len() as u64,
            symbols: sent.source_symbols + sent.redundancy_symbols + sent.repair_symbols,
            repaired: sent.repaired_blocks,
        })
    }
}

fn live_paths(world: &World<Voice>, speaker: MemberId) -> usize {
    let session = world.application(speaker).session();
    let status = session.and_then(|id| world.node(speaker).session_status(id));
    status.map_or(0, |status| status.paths.iter().filter(|path| path.state == PathState::Live).count())
}

/// What the speaker has sent so far.
#[derive(Debug, Clone, Copy)]
struct Count {
    /// Blocks of speech.
    blocks: u64,
    /// Symbols of every kind, and what little the session itself says.
    symbols: u64,
    /// Blocks that were repaired at least once.
    repaired: u64,
}

impl Count {
    fn since(self, earlier: Count) -> Count {
        Count {
            blocks: self.blocks - earlier.blocks,
            symbols: self.symbols - earlier.symbols,
            repaired: self.repaired - earlier.repaired,
        }
    }
}
