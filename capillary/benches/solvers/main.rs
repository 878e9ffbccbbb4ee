//! `cargo bench -p capillary`: the layer solver against the naive one and against the linear program.
//!
//! Every row is one pair in one network on one thread. The naive solver is `capillary::reference` over `f64`: the same
//! recursion with every graph built anew for every flow. Real networks are read from the folder that the
//! variable CAPILLARY_TOPOLOGIES names; without it those rows are left out. `--only TEXT` keeps to the rows whose name
//! contains the text.

mod networks;

use std::num::NonZeroU32;
use std::time::Duration;

use capillary::format::{self, ReadOptions};
use capillary::{lp, reference, solve_certified, solve_layers};
use networks::{Scene, barabasi_albert, geometric};
use rustix::time::{ClockId, clock_gettime};

/// A run is repeated until this has passed, and the fastest counts.
const ENOUGH: Duration = Duration::from_millis(300);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let only =
        arguments.iter().position(|argument| argument == "--only").and_then(|at| arguments.get(at + 1));
    println!("| network | links | layers | all layers | first ten | naive | × | linear program | × |");
    println!("|---|---|---|---|---|---|---|---|---|");
    let generated = SCENES.iter().map(|(make, against)| (make(), *against));
    for (scene, against) in generated.chain(real_networks()) {
        if only.is_none_or(|text| scene.name.contains(text.as_str())) {
            row(&scene, against);
        }
    }
}

/// Topology Zoo files with the ids of a pair that is far apart.
const REAL: [(&str, &str, &str); 4] =
    [("Abilene", "3", "0"), ("Geant2012", "11", "33"), ("Cogentco", "125", "182"), ("Kdl", "299", "421")];

fn real_networks() -> Vec<(Scene, Against)> {
    let Ok(folder) = std::env::var("CAPILLARY_TOPOLOGIES") else { return Vec::new() };
    let read = |(name, from, to): (&str, &str, &str)| {
        let bytes = std::fs::read(format!("{folder}/zoo-gml/{name}.gml")).ok()?;
        let topology = format::read(&bytes, &ReadOptions::default()).ok()?.topology;
        let (source, target) = (topology.node(from)?, topology.node(to)?);
        Some((Scene { name: name.into(), topology, source, target }, Against::Naive))
    };
    REAL.into_iter().filter_map(read).collect()
}

/// What a row is compared with.
#[derive(Clone, Copy, PartialEq)]
enum Against {
    NaiveAndLp,
    Naive,
    Nothing,
}

type Row = (fn() -> Scene, Against);

const SCENES: &[Row] = &[
    (|| geometric(115, 8.5, 1), Against::NaiveAndLp),
    (|| geometric(300, 8.5, 1), Against::NaiveAndLp),
    (|| geometric(300, 17.0, 1), Against::Naive),
    (|| geometric(1_000, 8.5, 1), Against::Naive),
    (|| geometric(3_000, 8.5, 1), Against::Naive),
    (|| geometric(10_000, 8.5, 1), Against::Naive),
    (|| barabasi_albert(3_000, 3, 1), Against::Naive),
    (|| barabasi_albert(10_000, 3, 1), Against::Naive),
    (|| barabasi_albert(40_000, 3, 1), Against::Nothing),
];

fn row(scene: &Scene, against: Against) {
    let Scene { name, topology, source, target } = scene;
    let ten = NonZeroU32::new(10).expect("not zero");
    let first = fastest(|| solve_layers(topology, *source, *target, ten));
    if against == Against::Nothing {
        println!(
            "| {name} | {} | – | not run | {} | not run | – | not run | – |",
            topology.link_count(),
            shown(first)
        );
        return;
    }
    let mut solution = None;
    let all = fastest(|| solution = solve_certified(topology, *source, *target).ok());
    let naive = fastest(|| reference::solve::<f64>(topology, *source, *target));
    let lp = (against == Against::NaiveAndLp).then(|| once(|| lp::solve(topology, *source, *target)));
    println!(
        "| {name} | {} | {} | {} | {} | {} | {:.1} | {} | {} |",
        topology.link_count(),
        solution.as_ref().map_or(0, |solution| solution.routing.layers().len()),
        shown(all),
        shown(first),
        shown(naive),
        naive.as_secs_f64() / all.as_secs_f64(),
        lp.map_or("not run".into(), shown),
        lp.map_or("–".into(), |lp| format!("{:.0}", lp.as_secs_f64() / all.as_secs_f64())),
    );
    eprintln!("{name}: {:?}", solution.map(|solution| solution.effort));
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

fn shown(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds >= 1.0 => format!("{seconds:.1} s"),
        seconds => format!("{:.2} ms", seconds * 1e3),
    }
}
