//! The evaluation of two-phase compressed I/O, repeated in virtual time: `[tpc §5]`, docs/evaluation.md.
//!
//! ```text
//! cargo bench -p sfio-remote --bench two_phase -- [--quick] [--only PART,…] [--one-by-one] [--figures FOLDER]
//! ```
//!
//! 4 to 32 ranks write the records of their part of a mesh collectively: as two-phase I/O does (nothing is packed), as
//! the study's two-phase compressed I/O (everything is), and by the rule. Printed are the tables of the study, and what
//! its figures show. Parts are stages (figure 1), tables (1 to 6), ranks (figures 3 to 5), loads (6 and 7), zeros (8)
//! and defaults. With `--one-by-one` the messages of a rank do not take turns.

mod cluster;
mod codec;
mod mesh;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use program::chart::{Chart, Curve, GREY, Label, Panel, Scale, distinct, draw};
use sfio_remote::collective::{CollectiveConfig, Domains, Report, Stage, When};
use sfio_remote::compression::{Codec, Compression};
use sfio_remote::sim::Dice;

use cluster::{Cluster, Sending};
use mesh::{MESHES, Mesh};

const PROCESSES: [usize; 4] = [4, 8, 16, 32];
const LOADS: [usize; 4] = [100, 200, 500, 1_000];
/// The parts of a mesh are dealt out to the ranks in so many ways: how messages follow one another is chance.
const SEEDS: [u64; 3] = [1, 2, 3];
/// The load of the figures that show others.
const LOAD: usize = 200;

/// What a node of the mesh has `load` of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// 4 bytes each.
    Integers,
    /// 8 bytes each.
    Floats,
}

impl Kind {
    fn bytes(self) -> usize {
        match self {
            Kind::Integers => 4,
            Kind::Floats => 8,
        }
    }

    /// What is left of a byte.
    pub(crate) fn ratio(self) -> f64 {
        match self {
            Kind::Integers => 0.51,
            Kind::Floats => 0.77,
        }
    }

    /// What LZO packs and unpacks, in bytes per second: for mesh 1, load 200 and 4 processes the study has 39.0 and
    /// 42.0 ms for integers, 67.7 and 78.6 ms for floats, of the 7.2 MB that travel (Table 3).
    pub(crate) fn speeds(self) -> (f64, f64) {
        match self {
            Kind::Integers => (185e6, 171e6),
            Kind::Floats => (106e6, 92e6),
        }
    }

    /// So many bytes: integers below 4,000; a smooth field, measured to 40 bits.
    fn values(self, length: usize) -> Bytes {
        let (mut dice, mut place) = (Dice::new(7), 0.0_f64);
        let mut float = || {
            place += 1e-3;
            let field = place.sin() * 100.0 + dice.below(1_000_000) as f64 * 1e-6;
            f64::from_bits(field.to_bits() & !0xfff).to_le_bytes()
        };
        match self {
            Kind::Floats => (0..length / 8).flat_map(|_| float()).collect(),
            Kind::Integers => {
                let mut dice = Dice::new(7);
                (0..length / 4).flat_map(|_| (dice.below(4_000) as u32).to_le_bytes()).collect()
            }
        }
    }
}

/// One cell: who writes what.
#[derive(Debug, Clone, Copy)]
struct Case {
    mesh: Mesh,
    processes: usize,
    load: usize,
    kind: Kind,
    /// How many percent of the nodes are zero.
    zeros: usize,
}

/// How long the stages took, on average over the ranks, and what travelled.
struct Outcome {
    stages: [f64; 7],
    elapsed: f64,
    report: Report,
}

/// What a cell came to: without, with, and by the rule.
struct Cell {
    never: Outcome,
    always: Outcome,
    auto: Outcome,
}

impl Case {
    fn new(mesh: Mesh, processes: usize, kind: Kind) -> Case {
        Case { mesh, processes, load: LOAD, kind, zeros: 0 }
    }

    /// Of each rank the nodes that it has, each with its record.
    fn lists(&self, seed: u64) -> Vec<Vec<(u64, Bytes)>> {
        let record = self.load * self.kind.bytes();
        let values = self.kind.values((8 << 20) + record);
        let zeros = Bytes::from(vec![0; record]);
        let mut lists = vec![Vec::new(); self.processes];
        for (node, owner) in self.mesh.owners(self.processes, seed).into_iter().enumerate() {
            let at = node * record;
            let is_zero = (node as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            let is_zero = (is_zero as usize) < (self.zeros << 24) / 100;
            let from = at % (8 << 20) / 8 * 8;
            let bytes = if is_zero { zeros.clone() } else { values.slice(from..from + record) };
            lists[usize::from(owner)].push((at as u64, bytes));
        }
        lists
    }

    /// Plays it once for each seed; times are means over ranks and seeds, counts those of the first seed.
    fn play(&self, config: &CollectiveConfig) -> Outcome {
        let sending = sending();
        let played: Vec<Vec<Report>> =
            SEEDS.map(|seed| Cluster::write_twice(self.kind, sending, config, self.lists(seed))).into();
        let count = (played.len() * self.processes) as f64;
        let mean = |of: &dyn Fn(&Report) -> f64| played.iter().flatten().map(of).sum::<f64>() / count;
        let stages = std::array::from_fn(|stage| mean(&|report| report.stages[stage].as_secs_f64()));
        Outcome { stages, elapsed: mean(&|report| report.elapsed.as_secs_f64()), report: played[0][0] }
    }

    fn play_as_in_the_study(&self, compression: Compression) -> Outcome {
        self.play(&CollectiveConfig { compression, ..as_in_the_study() })
    }

    fn cell(&self) -> Cell {
        std::thread::scope(|scope| {
            let others = [Compression::Always(Codec::Lz4), Compression::Auto]
                .map(|compression| scope.spawn(move || self.play_as_in_the_study(compression)));
            let never = self.play_as_in_the_study(Compression::Never);
            let [always, auto] = others.map(|played| played.join().expect("no panic"));
            Cell { never, always, auto }
        })
    }
}

fn sending() -> Sending {
    match std::env::args().any(|argument| argument == "--one-by-one") {
        true => Sending::OneByOne,
        false => Sending::InTurn,
    }
}

/// As ROMIO did it: equal parts of the file, rounds of 4 MiB, one buffer.
fn as_in_the_study() -> CollectiveConfig {
    CollectiveConfig {
        domains: Domains::ByRange,
        when: When::Always,
        buffer_bytes: 4 << 20,
        double_buffering: false,
        ..CollectiveConfig::default()
    }
}

impl Cell {
    /// By how many percent a stage is shorter with compression, and by the rule.
    fn improvement(&self, stage: Stage) -> [f64; 2] {
        let of = |outcome: &Outcome| outcome.stages[stage as usize];
        [&self.always, &self.auto].map(|other| 100.0 * (1.0 - of(other) / of(&self.never)))
    }

    /// The same of the whole call, by the rule.
    fn whole(&self) -> f64 {
        100.0 * (1.0 - self.auto.elapsed / self.never.elapsed)
    }
}

/// A figure: a row for each point of its horizontal axis, a column for each mesh.
struct Figure {
    name: String,
    over: &'static str,
    stage: Stage,
    rows: Vec<(usize, Vec<Cell>)>,
}

impl Figure {
    fn new(name: &str, over: &'static str, points: &[usize], case: impl Fn(Mesh, usize) -> Case) -> Figure {
        let row = |point: &usize| (*point, MESHES.map(|mesh| case(mesh, *point).cell()).into());
        let rows = points.iter().map(row).collect();
        let figure = Figure { name: name.to_owned(), over, stage: Stage::Exchange, rows };
        figure.print();
        figure
    }

    /// The same runs, another stage.
    fn of(self, name: &str, stage: Stage) -> Figure {
        let figure = Figure { name: name.to_owned(), stage, ..self };
        figure.print();
        figure
    }

    fn print(&self) {
        println!(
            "\n{}: {} shorter by % with compression everywhere / by the rule (the whole call by the rule)\n",
            self.name,
            self.stage.name()
        );
        println!("| {} | mesh 1 | mesh 2 | mesh 3 | mesh 4 |\n|---|---|---|---|---|", self.over);
        for (point, cells) in &self.rows {
            let cell = |cell: &Cell| {
                let [always, auto] = cell.improvement(self.stage);
                format!("{always:.1} / {auto:.1} ({:.1})", cell.whole())
            };
            println!("| {point} | {} |", cells.iter().map(cell).collect::<Vec<_>>().join(" | "));
        }
        let all = || self.rows.iter().flat_map(|(_, cells)| cells);
        let least = all().map(|cell| cell.improvement(self.stage)[1]).fold(f64::MAX, f64::min);
        let least_whole = all().map(Cell::whole).fold(f64::MAX, f64::min);
        println!("\nleast by the rule: {least:.2} % of the stage, {least_whole:.2} % of the whole call");
    }

    fn panel(&self, title: &str) -> Panel {
        let curve = |mesh: usize, way: usize| Curve {
            points: self
                .rows
                .iter()
                .map(|(point, cells)| (*point as f64, cells[mesh].improvement(self.stage)[way].max(0.0)))
                .collect(),
            colour: distinct(mesh),
            dashed: way == 1,
            band: Vec::new(),
        };
        let curves = (0..MESHES.len()).flat_map(|mesh| [curve(mesh, 0), curve(mesh, 1)]);
        Panel { title: title.to_owned(), curves: curves.collect() }
    }
}

fn picture(folder: Option<&Path>, file: &str, x: &str, x_scale: Scale, panels: Vec<Panel>) {
    let Some(folder) = folder else { return };
    let meshes =
        MESHES.iter().map(|mesh| Label::solid(format!("mesh {}", mesh.number), distinct(mesh.number - 1)));
    let ways = [Label::solid("all is compressed", GREY), Label::dashed("by the rule", GREY)];
    let chart = Chart {
        title: String::new(),
        x: x.to_owned(),
        x_scale,
        y: "shorter by % (higher is better)".to_owned(),
        panels,
        legend: meshes.chain(ways).collect(),
    };
    draw(&chart, &folder.join(file)).expect("the folder can be written to");
}

/// Figure 1: the stages for mesh 1, load 200; and for mesh 4, of which the study tells the share of st6.
fn stages() {
    for mesh in [MESHES[0], MESHES[3]] {
        stages_of(mesh);
    }
}

fn stages_of(mesh: Mesh) {
    println!(
        "\nFigure 1: stages in ms on average over the ranks, mesh {}, load 200, integers, nothing compressed\n",
        mesh.number
    );
    println!("| ranks | buffers | st1 | st2 | st3 | st4 | st5 | st6 | st7 | whole | st6 % |");
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for (processes, double_buffering) in
        PROCESSES.into_iter().flat_map(|count| [(count, false), (count, true)])
    {
        let case = Case::new(mesh, processes, Kind::Integers);
        let compression = Compression::Never;
        let Outcome { stages, elapsed, .. } =
            case.play(&CollectiveConfig { compression, double_buffering, ..as_in_the_study() });
        let cells: Vec<String> = stages.iter().map(|stage| format!("{:.1}", stage * 1e3)).collect();
        let share = 100.0 * stages[Stage::Exchange as usize] / elapsed;
        let buffers = 1 + usize::from(double_buffering);
        println!("| {processes} | {buffers} | {} | {:.0} | {share:.0} |", cells.join(" | "), elapsed * 1e3);
    }
}

/// Tables 1 to 3, 5 and 6: how much there is, and how much of it travels between whom.
fn tables() {
    println!(
        "\nTable 1: MiB of each file, integers\n\n| load | mesh 1 | mesh 2 | mesh 3 | mesh 4 |\n|---|---|---|---|---|"
    );
    for load in LOADS {
        let cells = MESHES.map(|mesh| format!("{:.0}", (mesh.nodes * load * 4) as f64 / f64::from(1 << 20)));
        println!("| {load} | {} |", cells.join(" | "));
    }
    let outcome =
        |case: Case| case.play(&CollectiveConfig { compression: Compression::Never, ..as_in_the_study() });
    println!(
        "\nTables 2 and 3: pairs, and integers exchanged, mesh 1\n\n| ranks | {} |\n|---|---|---|---|---|",
        LOADS.map(|load| load.to_string()).join(" | ")
    );
    for processes in PROCESSES {
        let cells = LOADS.map(|load| {
            let report = outcome(Case { load, ..Case::new(MESHES[0], processes, Kind::Integers) }).report;
            format!("{}, {}", report.pairs, report.exchanged_bytes / 4)
        });
        println!("| {processes} | {} |", cells.join(" | "));
    }
    println!(
        "\nTables 5 and 6: pairs, and integers exchanged, load 200\n\n| ranks | mesh 1 | mesh 2 | mesh 3 | mesh 4 |\n|---|---|---|---|---|"
    );
    for processes in PROCESSES {
        let cells = MESHES.map(|mesh| {
            let report = outcome(Case::new(mesh, processes, Kind::Integers)).report;
            format!("{}, {}", report.pairs, report.exchanged_bytes / 4)
        });
        println!("| {processes} | {} |", cells.join(" | "));
    }
}

/// The same work as sfio does it by itself.
fn by_default() {
    println!(
        "\nThe whole call in s, load 200: as in the study / all compressed / by the rule / sfio's defaults, plain / by the rule\n"
    );
    println!("| ranks | mesh 1, integers | mesh 4, integers | mesh 4, floats |\n|---|---|---|---|");
    for processes in PROCESSES {
        let cases = [(0, Kind::Integers), (3, Kind::Integers), (3, Kind::Floats)];
        let cells = cases.map(|(mesh, kind)| {
            let case = Case::new(MESHES[mesh], processes, kind);
            let Cell { never, always, auto } = case.cell();
            let plain = CollectiveConfig {
                when: When::Always,
                compression: Compression::Never,
                ..CollectiveConfig::default()
            };
            let ours = [Compression::Never, Compression::Auto]
                .map(|compression| case.play(&CollectiveConfig { compression, ..plain.clone() }));
            let all = [never, always, auto].into_iter().chain(ours);
            all.map(|outcome| format!("{:.2}", outcome.elapsed)).collect::<Vec<_>>().join(" / ")
        });
        println!("| {processes} | {} |", cells.join(" | "));
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let is_quick = arguments.iter().any(|argument| argument == "--quick");
    let folder = arguments.iter().position(|argument| argument == "--figures");
    let folder = folder.and_then(|at| arguments.get(at + 1)).map(PathBuf::from);
    if is_quick {
        return quick();
    }
    let only = arguments.iter().position(|argument| argument == "--only");
    let only = only.and_then(|at| arguments.get(at + 1)).map(String::as_str);
    let is_wanted = |part: &str| only.is_none_or(|only| only.split(',').any(|one| one == part));
    let parts: [(&str, &dyn Fn()); 6] = [
        ("stages", &stages),
        ("tables", &tables),
        ("ranks", &|| over_ranks(folder.as_deref())),
        ("loads", &|| over_loads(folder.as_deref())),
        ("zeros", &|| over_zeros(folder.as_deref())),
        ("defaults", &by_default),
    ];
    parts.iter().filter(|(part, _)| is_wanted(part)).for_each(|(_, print)| print());
}

/// One cell, to see that it works.
fn quick() {
    println!("mesh 1, 8 ranks: st6, st7 and the whole call in s, MB on the wire");
    let Cell { never, always, auto } = Case::new(MESHES[0], 8, Kind::Integers).cell();
    for (name, outcome) in [("plain", never), ("all compressed", always), ("by the rule", auto)] {
        let [.., exchange, file] = outcome.stages;
        let wire = outcome.report.wire_bytes as f64 / 1e6;
        println!("{name}: {exchange:.3}, {file:.3}, {:.3}, {wire:.1}", outcome.elapsed);
    }
}

/// Figures 3, 4 and 5.
fn over_ranks(folder: Option<&Path>) {
    let case = |kind| move |mesh, processes| Case::new(mesh, processes, kind);
    let three = Figure::new("Figure 3, integers, load 200", "ranks", &PROCESSES, case(Kind::Integers));
    let four = Figure::new("Figure 4, floats, load 200", "ranks", &PROCESSES, case(Kind::Floats));
    let panels = vec![three.panel("integers, st6"), four.panel("floats, st6")];
    picture(folder, "two-phase-ranks.svg", "ranks", Scale::PowersOfTwo, panels);
    three.of("Figure 5, integers, load 200", Stage::Tables);
}

/// Figures 6 and 7.
fn over_loads(folder: Option<&Path>) {
    let case = |kind| move |mesh, load| Case { load, ..Case::new(mesh, 16, kind) };
    let six = Figure::new("Figure 6, integers, 16 ranks", "load", &LOADS, case(Kind::Integers));
    let seven = Figure::new("Figure 7, floats, 16 ranks", "load", &LOADS, case(Kind::Floats));
    let panels = vec![six.panel("integers, st6"), seven.panel("floats, st6")];
    picture(folder, "two-phase-loads.svg", "load", Scale::Linear, panels);
}

/// Figure 8, and the cell of which the study tells the most.
fn over_zeros(folder: Option<&Path>) {
    let shares: Vec<usize> = (0..=10).map(|tenth| tenth * 10).collect();
    let case = |mesh, zeros| Case { zeros, ..Case::new(mesh, 16, Kind::Integers) };
    let eight = Figure::new("Figure 8, integers, 16 ranks, load 200", "zeros %", &shares, case);
    let panels = vec![eight.panel("integers, st6")];
    picture(folder, "two-phase-zeros.svg", "zeros in %", Scale::Linear, panels);
    let most = Case { zeros: 100, load: 500, ..Case::new(MESHES[2], 32, Kind::Floats) }.cell();
    let [always, auto] = most.improvement(Stage::Exchange);
    println!(
        "\nmesh 3, floats, 32 ranks, load 500, 100 % zeros: {always:.1} / {auto:.1} ({:.1})",
        most.whole()
    );
}
