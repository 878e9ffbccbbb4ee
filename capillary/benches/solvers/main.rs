//! `cargo bench -p capillary`: the layer solver against the naive one and against the linear program.
//!
//! Every row is one pair in one network on one thread. The naive solver is `capillary::reference` over `f64`: the same
//! recursion with every graph built anew for every flow. The linear program is solved by microlp, with the feature
//! `highs` by HiGHS. Real networks are read from the folder that the variable CAPILLARY_TOPOLOGIES names; without it
//! those rows are left out. `--only TEXT` keeps to the rows whose name contains the text; `--long` runs the naive
//! solver on the Barabási–Albert graph of 10,000 nodes, too, which takes many minutes. `--chains` tells instead of
//! times how much of the work lies on the longest chain of parts.

mod networks;

use std::num::NonZeroU32;
use std::time::Duration;

use capillary::format::{self, ReadOptions};
use capillary::{lp, reference, solve_certified, solve_layers};
use networks::{Scene, barabasi_albert, geometric, grouped};
use rustix::time::{ClockId, clock_gettime};

/// Each measurement is repeated until this time has passed, and the fastest one counts.
const ENOUGH: Duration = Duration::from_millis(300);

/// What solves the linear program.
#[cfg(not(feature = "highs"))]
const SIMPLEX: lp::Simplex = lp::Simplex::Microlp;
#[cfg(feature = "highs")]
const SIMPLEX: lp::Simplex = lp::Simplex::Highs;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let only =
        arguments.iter().position(|argument| argument == "--only").and_then(|at| arguments.get(at + 1));
    if arguments.iter().any(|argument| argument == "--chains") {
        return SCENES.iter().for_each(|(make, rivals)| chain(&make(), *rivals));
    }
    let long = arguments.iter().any(|argument| argument == "--long");
    println!("Linear program: {SIMPLEX:?}\n");
    println!("| network | links | layers | all layers | naive | × | LP | × | first ten | LP | × |");
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let generated = SCENES.iter().map(|(make, rivals)| (make(), *rivals));
    for (scene, rivals) in generated.chain(real_networks()) {
        if only.is_none_or(|text| scene.name.contains(text.as_str())) {
            row(&scene, rivals, long);
        }
    }
}

/// Topology Zoo files with the ids of a pair that is far apart.
const REAL: [(&str, &str, &str); 4] =
    [("Abilene", "3", "0"), ("Geant2012", "11", "33"), ("Cogentco", "125", "182"), ("Kdl", "299", "421")];

fn real_networks() -> Vec<(Scene, Rivals)> {
    let Ok(folder) = std::env::var("CAPILLARY_TOPOLOGIES") else { return Vec::new() };
    let read = |(name, from, to): (&str, &str, &str)| {
        let bytes = std::fs::read(format!("{folder}/zoo-gml/{name}.gml")).ok()?;
        let topology = format::read(&bytes, &ReadOptions::default()).ok()?.topology;
        let (source, target) = (topology.node(from)?, topology.node(to)?);
        Some((Scene { name: name.into(), topology, source, target }, FAST))
    };
    REAL.into_iter().filter_map(read).collect()
}

/// What a row is compared with.
#[derive(Clone, Copy)]
struct Rivals {
    naive: Naive,
    /// The linear program of all layers, and of the first ten.
    lp: (bool, bool),
}

#[derive(Clone, Copy, PartialEq)]
enum Naive {
    Runs,
    /// The naive solver runs only with `--long`.
    TakesLong,
    /// The naive solver is not run.
    TakesHours,
    /// The naive solver is not run, and ours solves the first ten layers only.
    TooLarge,
}

const LP: Rivals = Rivals { naive: Naive::Runs, lp: (true, true) };
const LP_OF_TEN: Rivals = Rivals { naive: Naive::Runs, lp: (false, true) };
const FAST: Rivals = Rivals { naive: Naive::Runs, lp: (false, false) };
const LONG: Rivals = Rivals { naive: Naive::TakesLong, lp: (false, false) };
const NEVER: Rivals = Rivals { naive: Naive::TakesHours, lp: (false, false) };
const HUGE: Rivals = Rivals { naive: Naive::TooLarge, lp: (false, false) };

type Row = (fn() -> Scene, Rivals);

const SCENES: &[Row] = &[
    (|| geometric(115, 8.5, 1), LP),
    (|| geometric(300, 8.5, 1), LP),
    (|| geometric(300, 17.0, 1), LP),
    (|| geometric(1_000, 8.5, 1), LP_OF_TEN),
    (|| geometric(3_000, 8.5, 1), FAST),
    (|| geometric(10_000, 8.5, 1), FAST),
    (|| barabasi_albert(3_000, 3, 1), FAST),
    (|| barabasi_albert(10_000, 3, 1), LONG),
    (|| barabasi_albert(30_000, 5, 1), NEVER),
    (|| barabasi_albert(40_000, 3, 1), HUGE),
    (|| geometric(70_000, 8.5, 1), NEVER),
];

fn row(scene: &Scene, rivals: Rivals, long: bool) {
    let Scene { name, topology, source, target } = scene;
    let mut layers = None;
    let all = (rivals.naive != Naive::TooLarge).then(|| {
        fastest(|| {
            let solution = solve_certified(topology, *source, *target).expect("a connected network");
            layers = Some((solution.routing.layers().len(), solution.effort));
        })
    });
    let naive = (rivals.naive == Naive::Runs || (long && rivals.naive == Naive::TakesLong))
        .then(|| fastest(|| reference::solve::<f64>(topology, *source, *target)));
    let ten = NonZeroU32::new(10);
    let first = fastest(|| solve_layers(topology, *source, *target, ten.unwrap_or(NonZeroU32::MIN)));
    let lp = |runs: bool, layers| {
        runs.then(|| {
            once(|| lp::solve_by(SIMPLEX, topology, *source, *target, layers).expect("it is solved"))
        })
    };
    let (lp_all, lp_first) = (lp(rivals.lp.0, None), lp(rivals.lp.1, ten));
    println!(
        "| {name} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        grouped(topology.link_count()),
        layers.map_or("–".into(), |(layers, _)| grouped(layers)),
        shown(all),
        shown(naive),
        times(naive, all),
        shown(lp_all),
        times(lp_all, all),
        shown(Some(first)),
        shown(lp_first),
        times(lp_first, Some(first)),
    );
    eprintln!("{name}: {:?}", layers.map(|(_, effort)| effort));
}

/// Prints the share of the longest chain of parts in all work, reckoned in nodes. Parts that lie beside each other
/// could be solved by several threads; parts within each other cannot.
fn chain(scene: &Scene, rivals: Rivals) {
    if rivals.naive == Naive::TooLarge {
        return;
    }
    let solution = solve_certified(&scene.topology, scene.source, scene.target).expect("a connected network");
    let steps = solution.certificate.steps();
    // Each step comes after the one around it.
    let mut chains: Vec<usize> = Vec::with_capacity(steps.len());
    for step in steps {
        chains.push(step.part.len() + step.parent.map_or(0, |parent| chains[parent as usize]));
    }
    let all: usize = steps.iter().map(|step| step.part.len()).sum();
    let longest = chains.into_iter().max().unwrap_or(0);
    println!("{}: {:.1} % of the work", scene.name, 100.0 * longest as f64 / all as f64);
}

/// The processor time that some work takes: other users of the machine do not count.
fn once<T>(work: impl FnOnce() -> T) -> Duration {
    let start = processor_time();
    std::hint::black_box(work());
    processor_time().saturating_sub(start)
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn fastest<T>(mut work: impl FnMut() -> T) -> Duration {
    let mut best = once(&mut work);
    let mut total = best;
    while total < ENOUGH {
        let time = once(&mut work);
        best = best.min(time);
        total += time;
    }
    best
}

fn shown(time: Option<Duration>) -> String {
    match time.map(|time| time.as_secs_f64()) {
        Some(seconds) if seconds >= 1.0 => format!("{seconds:.1} s"),
        Some(seconds) => format!("{:.2} ms", seconds * 1e3),
        None => "not run".into(),
    }
}

/// How many times as long the other one takes.
fn times(other: Option<Duration>, ours: Option<Duration>) -> String {
    match other.zip(ours).map(|(other, ours)| other.as_secs_f64() / ours.as_secs_f64()) {
        Some(ratio) if ratio >= 100.0 => grouped(ratio.round() as usize),
        Some(ratio) => format!("{ratio:.1}"),
        None => "–".into(),
    }
}
