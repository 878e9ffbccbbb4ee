//! `fec-testbed failures`: the thesis's claim on packets, whether the redundancy that a sender adds while links fail is
//! what ROR says. [`fec_testbed::failures`] says what is compared; docs/evaluation.md has results.

mod plot;
mod table;

use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use clap::{Args, ValueEnum};
use fec_testbed::failures::{MAX_REAL_TIME, Row, Sample, Settings, run, summarise};
use fec_testbed::output::line;
use fec_transport::config::Spreading;

use crate::in_order::in_order;

/// Lets each link of many plans fail in turn and compares the redundancy that is sent with ROR.
///
/// Plans follow the layers of the capillary routing over mobile ad-hoc networks; dead paths keep their share of every
/// block, so that redundancy is the only answer to a failure.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: fec-testbed failures --samples 5 --threads 2 --plot pictures\n\nExit codes: 0 the claim holds (with random spreading: a median correlation of at least 0.9, every ratio within 0.7 to 1.3, late blocks lost within the decoding error rate; with quotas it is only looked at), 1 it does not, 2 usage, 3 a value out of its range, or no such network."
)]
pub(crate) struct Arguments {
    /// How many networks.
    #[arg(long, default_value_t = 30, value_name = "N")]
    samples: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0, value_name = "N")]
    from: u64,
    /// Layers of the capillary routing.
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4,5,6,7,8,9,10", value_name = "L,…")]
    layers: Vec<u32>,
    /// Static tolerances.
    #[arg(long, value_delimiter = ',', default_value = "0.057,0.078", value_name = "P,…")]
    tolerances: Vec<f64>,
    /// Source symbols of a block: 1 to 32, real-time with a deadline, or 64 to 1024, bulk that is repaired.
    #[arg(long, default_value_t = 20, value_name = "M")]
    source_symbols: usize,
    /// The share of blocks for which the first sending may fall short.
    #[arg(long, default_value_t = 1e-5, value_name = "P")]
    decoding_error_rate: f64,
    /// The most paths of a plan, 1 to 32. What they leave of the flow is spread over them.
    #[arg(long, default_value_t = 32, value_name = "N")]
    paths: usize,
    /// How symbols are spread over the paths.
    #[arg(long, value_enum, default_value_t = Spread::Random)]
    spread: Spread,
    /// Nodes of a network.
    #[arg(long, default_value_t = 115, value_name = "N")]
    nodes: usize,
    /// Neighbours of a node in the mean.
    #[arg(long, default_value_t = 7.6, value_name = "N")]
    mean_degree: f64,
    /// Blocks per second.
    #[arg(long, default_value_t = 10.0, value_name = "N")]
    blocks_per_s: f64,
    /// Let every link fail, instead of one for all that the same paths cross.
    #[arg(long)]
    every_link: bool,
    /// The seed of networks and sessions.
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// One JSON object per plan instead of a table.
    #[arg(long)]
    json: bool,
    /// Look at rows of earlier runs, files of what --json prints, instead of running anything.
    #[arg(long, num_args = 1.., value_name = "FILE", conflicts_with = "json")]
    rows: Vec<PathBuf>,
    /// Write a picture of sent over predicted into this directory.
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
    /// How many plans run at once; each is a function of its arguments, however many there are.
    #[arg(long, default_value_t = 1, value_name = "N")]
    threads: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Spread {
    /// Each symbol draws its path, and FEC(M, p) says how many there are: the thesis's rule, against eq. 8.
    Random,
    /// Each path gets its share of every block, to the nearest symbol; against eq. 11.
    Quotas,
}

impl Spread {
    /// The prediction that belongs to it.
    fn predicted(self, row: &Row) -> f64 {
        match self {
            Spread::Random => row.ror,
            Spread::Quotas => row.ror_large,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Spread::Random => "random",
            Spread::Quotas => "quotas",
        }
    }

    fn prediction_name(self) -> &'static str {
        match self {
            Spread::Random => "ROR (eq. 8)",
            Spread::Quotas => "ROR (eq. 11)",
        }
    }
}

/// Runs all plans; tells whether the claim holds.
pub(crate) fn evaluate(arguments: &Arguments) -> anyhow::Result<bool> {
    let rows = if arguments.rows.is_empty() { run_all(arguments)? } else { read(arguments)? };
    let mut holds = true;
    if !arguments.json {
        table::print(&rows, arguments.spread)?;
    }
    for tolerance in &arguments.tolerances {
        let own: Vec<Row> = rows.iter().filter(|row| row.tolerance == *tolerance).cloned().collect();
        let summary = summarise(&own, |row| arguments.spread.predicted(row));
        if !arguments.json {
            table::summary(*tolerance, &summary)?;
        }
        holds &= arguments.spread == Spread::Quotas || table::holds(&summary, arguments.decoding_error_rate);
    }
    if let Some(directory) = &arguments.plot {
        std::fs::create_dir_all(directory).with_context(|| format!("{}", directory.display()))?;
        let file = directory.join(format!("failures-{}.svg", arguments.spread.name()));
        let picture = plot::svg(&rows, &arguments.tolerances, arguments.spread);
        std::fs::write(&file, picture).with_context(|| format!("{}", file.display()))?;
    }
    Ok(holds)
}

/// The rows of files, in the order of their plans.
fn read(arguments: &Arguments) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for file in &arguments.rows {
        let text = std::fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
        for (number, line) in text.lines().enumerate() {
            let place =
                || format!("{}, line {}: expected a row as --json prints it", file.display(), number + 1);
            let object: serde_json::Value = serde_json::from_str(line).with_context(place)?;
            let spread = object["spread"].as_str().unwrap_or("random");
            ensure!(
                spread == arguments.spread.name(),
                "{}, line {}: spread is \"{spread}\"; expected \"{}\", as --spread says",
                file.display(),
                number + 1,
                arguments.spread.name()
            );
            rows.push(serde_json::from_value::<Row>(object).with_context(place)?);
        }
    }
    rows.sort_by(|a, b| {
        (a.sample, a.layer).cmp(&(b.sample, b.layer)).then(a.tolerance.total_cmp(&b.tolerance))
    });
    Ok(rows)
}

/// One plan to try.
#[derive(Debug, Clone, Copy)]
struct Task {
    sample: u64,
    layer: NonZeroU32,
    tolerance: f64,
}

fn tasks(arguments: &Arguments) -> anyhow::Result<Vec<Task>> {
    check(arguments)?;
    let mut tasks = Vec::new();
    for sample in arguments.from..arguments.from.saturating_add(arguments.samples) {
        for layer in &arguments.layers {
            let layer = NonZeroU32::new(*layer).context("--layers has a 0; the first layer is 1")?;
            tasks.extend(arguments.tolerances.iter().map(|tolerance| Task {
                sample,
                layer,
                tolerance: *tolerance,
            }));
        }
    }
    Ok(tasks)
}

/// Names the first value that is out of its range.
fn check(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { source_symbols, decoding_error_rate, paths, blocks_per_s, .. } = arguments;
    let fits = matches!(source_symbols, 1..=MAX_REAL_TIME | 64..=1024);
    ensure!(fits, "--source-symbols is {source_symbols}; expected 1 to 32 or 64 to 1024");
    let fits = (1e-12..1.0).contains(decoding_error_rate);
    ensure!(fits, "--decoding-error-rate is {decoding_error_rate}; expected 1e-12 to below 1");
    ensure!((1..=32).contains(paths), "--paths is {paths}; expected 1 to 32");
    ensure!((0.1..=1e3).contains(blocks_per_s), "--blocks-per-s is {blocks_per_s}; expected 0.1 to 1000");
    for tolerance in &arguments.tolerances {
        ensure!((0.0..=0.9).contains(tolerance), "--tolerances has {tolerance}; expected 0 to 0.9");
    }
    Ok(())
}

/// Runs all plans, prints JSON as soon as the rows before are printed, and gives the rows in order.
fn run_all(arguments: &Arguments) -> anyhow::Result<Vec<Row>> {
    let tasks = tasks(arguments)?;
    let (mut rows, mut trouble) = (Vec::new(), None);
    let show = |row: Row| -> anyhow::Result<Row> {
        if arguments.json {
            line(table::json(&row, arguments.spread))?;
        }
        Ok(row)
    };
    let take = |_, result: anyhow::Result<Row>| match result.and_then(show) {
        Ok(row) => {
            rows.push(row);
            ControlFlow::Continue(())
        }
        Err(error) => {
            trouble = Some(error);
            ControlFlow::Break(())
        }
    };
    in_order((tasks.len(), "plans"), arguments.threads, |index| measure(arguments, &tasks[index]), take);
    match trouble {
        Some(error) => Err(error),
        None => Ok(rows),
    }
}

fn measure(arguments: &Arguments, task: &Task) -> anyhow::Result<Row> {
    let sample = Sample::draw(arguments.seed, task.sample, arguments.nodes, arguments.mean_degree)?;
    let spread = match arguments.spread {
        Spread::Random => Spreading::Random,
        Spread::Quotas => Spreading::Quotas,
    };
    let settings = Settings {
        tolerance: task.tolerance,
        spread,
        source_symbols: arguments.source_symbols,
        decoding_error_rate: arguments.decoding_error_rate,
        max_paths: arguments.paths,
        blocks_per_s: arguments.blocks_per_s,
        every_link: arguments.every_link,
        seed: arguments.seed,
        ..Settings::default()
    };
    Ok(run(&sample, task.layer, &settings)?)
}
