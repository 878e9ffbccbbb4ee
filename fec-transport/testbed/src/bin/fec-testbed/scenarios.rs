//! `fec-testbed scenarios`: runs scenarios and prints what they have shown.

mod plot;
mod share;
mod table;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use fec_testbed::output::{Unwritten, line};
use fec_testbed::scenario::{Check, LinkDeath};
use fec_testbed::{Outcome, Scenario};

use crate::in_order::in_order;
use share::Share;

/// Runs scenarios in virtual time: a network, flows, and what happens to them.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: fec-testbed scenarios --only \"8 paths\" --threads 2\n\nExit codes: 0 every expectation holds, 1 some do not, 2 usage, 3 bad scenario file."
)]
pub(crate) struct Arguments {
    /// Scenario files; without any, all of fec-transport/testbed/scenarios.
    files: Vec<PathBuf>,
    /// Only scenarios whose name contains this text; given several times, all of the texts.
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Only this part of the scenarios that are left: with 3/10, every tenth one from the fourth on. Parts count from
    /// 0, and all of them together are all scenarios.
    #[arg(long, value_name = "PART/OF")]
    share: Option<Share>,
    /// One JSON object per scenario instead of a table.
    #[arg(long)]
    json: bool,
    /// Only the trace hash and the name of each scenario. The hashes of two versions are equal if they send the same
    /// packets at the same times.
    #[arg(long, conflicts_with = "json")]
    hashes: bool,
    /// How many run at once. Every one is a function of its file, however many there are.
    #[arg(long, default_value_t = 1, value_name = "N")]
    threads: usize,
    /// Write a CSV file per scenario into this directory: what happened over time, a row every 100 ms.
    #[arg(long, value_name = "DIR")]
    series: Option<PathBuf>,
    /// Write an SVG picture per scenario into this directory: the same, drawn.
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
    /// Print the names and stop.
    #[arg(long)]
    list: bool,
}

/// Runs all scenarios and prints each as soon as those before it are printed; tells whether all are as expected.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let scenarios = load(arguments)?;
    if arguments.list {
        scenarios.iter().try_for_each(|scenario| line(scenario.name()))?;
        return Ok(true);
    }
    for directory in [&arguments.series, &arguments.plot].into_iter().flatten() {
        std::fs::create_dir_all(directory).with_context(|| format!("{}", directory.display()))?;
    }
    let mut printer = Printer::new(arguments, &scenarios);
    let mut trouble = None;
    let work = |index: usize| -> anyhow::Result<Finished> {
        #[allow(clippy::disallowed_methods, reason = "how long a run takes is the program's affair")]
        let start = Instant::now();
        let outcome = scenarios[index].run();
        let took = start.elapsed();
        write_pictures(arguments, &outcome)?;
        Ok((outcome, took))
    };
    let take = |_, result: anyhow::Result<Finished>| match result {
        Ok(finished) => match printer.push(finished) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                trouble = Some(error.into());
                ControlFlow::Break(())
            }
        },
        Err(error) => {
            trouble = Some(error);
            ControlFlow::Break(())
        }
    };
    in_order((scenarios.len(), "scenarios"), arguments.threads, work, take);
    if let Some(error) = trouble {
        return Err(error);
    }
    if !arguments.json && !arguments.hashes {
        line(format_args!("\n{} of {} scenarios are as expected", printer.passed, scenarios.len()))?;
    }
    Ok(printer.passed == scenarios.len())
}

fn load(arguments: &Arguments) -> anyhow::Result<Vec<Scenario>> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let files = if arguments.files.is_empty() { files_of(&own)? } else { arguments.files.clone() };
    let mut scenarios = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
        let beside = |name: &str| {
            let path = file.parent().unwrap_or(Path::new(".")).join(name);
            std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        scenarios.extend(Scenario::parse_all(&text, &beside).with_context(|| format!("{}", file.display()))?);
    }
    scenarios.retain(|scenario| arguments.only.iter().all(|text| scenario.name().contains(text)));
    if scenarios.is_empty() {
        bail!("no scenario's name contains {:?}; --list prints them all", arguments.only);
    }
    if let Some(share) = arguments.share {
        let places = scenarios.into_iter().enumerate();
        scenarios = places.filter(|(place, _)| share.has(*place)).map(|(_, scenario)| scenario).collect();
    }
    Ok(scenarios)
}

fn files_of(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(directory).with_context(|| format!("{}", directory.display()))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    let mut files: Vec<PathBuf> = paths
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    Ok(files)
}

/// A finished scenario and how long it took.
type Finished = (Outcome, Duration);

/// Writes what was asked for beside the table.
fn write_pictures(arguments: &Arguments, outcome: &Outcome) -> anyhow::Result<()> {
    let plain = |c: char| if c.is_alphanumeric() || "-.".contains(c) { c } else { '_' };
    let name: String = outcome.name.chars().map(plain).collect();
    let write = |directory: &Option<PathBuf>, extension: &str, text: &dyn Fn() -> String| {
        let Some(directory) = directory else { return Ok(()) };
        let path = directory.join(format!("{name}.{extension}"));
        std::fs::write(&path, text()).with_context(|| format!("{}", path.display()))
    };
    write(&arguments.series, "csv", &|| plot::csv(&outcome.series))?;
    write(&arguments.plot, "svg", &|| plot::svg(&outcome.name, &outcome.series))
}

struct Printer<'a> {
    arguments: &'a Arguments,
    scenarios: &'a [Scenario],
    table: table::Table,
    /// The results so far, in the order of the scenarios.
    results: Vec<Finished>,
    printed: usize,
    passed: usize,
}

impl<'a> Printer<'a> {
    fn new(arguments: &'a Arguments, scenarios: &'a [Scenario]) -> Printer<'a> {
        let table = table::Table::new(scenarios);
        Printer { arguments, scenarios, table, results: Vec::new(), printed: 0, passed: 0 }
    }

    /// Prints what is finished; a masked scenario waits for the unmasked one that it is compared with.
    fn push(&mut self, finished: Finished) -> Result<(), Unwritten> {
        self.results.push(finished);
        while let Some((outcome, took)) = self.results.get(self.printed) {
            let unmasked = self.scenarios[self.printed].unmasked();
            let compared = unmasked
                .and_then(|name| self.scenarios.iter().position(|scenario| scenario.name() == name))
                .map(|index| self.results.get(index));
            let mask_overhead = match compared {
                Some(None) => return Ok(()),
                Some(Some((unmasked, _))) => mask_overhead(outcome, unmasked),
                None => None,
            };
            if self.arguments.json {
                line(json(outcome, mask_overhead, *took))?;
            } else if self.arguments.hashes {
                line(format_args!("{}  {}", outcome.trace_hash, outcome.name))?;
            } else {
                self.table.print(self.printed, outcome, mask_overhead, *took)?;
            }
            self.printed += 1;
            self.passed += usize::from(outcome.passes());
        }
        Ok(())
    }
}

/// What masking costs: the overhead with it minus that without it.
fn mask_overhead(masked: &Outcome, unmasked: &Outcome) -> Option<f64> {
    Some(masked.metric("overhead")? - unmasked.metric("overhead")?)
}

fn json(outcome: &Outcome, mask_overhead: Option<f64>, took: Duration) -> serde_json::Value {
    let mut object = serde_json::Map::new();
    object.insert("name".into(), outcome.name.clone().into());
    object.insert("pass".into(), outcome.passes().into());
    for (metric, value) in &outcome.metrics {
        object.insert(metric.clone(), (*value).into());
    }
    let check = |check: &Check| {
        serde_json::json!({
            "metric": check.metric, "bound": check.bound, "value": check.value, "holds": check.holds,
        })
    };
    if let Some(overhead) = mask_overhead {
        object.insert("mask_overhead".into(), overhead.into());
    }
    object.insert("unmasked_links".into(), outcome.unmasked_links().into());
    let death = |death: &LinkDeath| {
        serde_json::json!({
            "link": death.link, "at_s": death.at_s, "planned_share": death.planned_share,
            "masked": death.is_masked, "gap_ms": death.gap_ms, "bound_ms": death.bound_ms,
            "repair_rounds": death.repair_rounds,
        })
    };
    object.insert("link_deaths".into(), outcome.deaths.iter().map(death).collect());
    object.insert("checks".into(), outcome.checks.iter().map(check).collect());
    object.insert("trace".into(), outcome.trace_hash.clone().into());
    object.insert("seconds".into(), took.as_secs_f64().into());
    object.into()
}
