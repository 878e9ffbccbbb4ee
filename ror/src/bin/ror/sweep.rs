//! `ror sweep`.

use std::num::NonZeroU32;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::columns::Columns;
use crate::failure::Failure;
use crate::folder::{Folder, Shard};
use crate::item::{Failed, Meter, Task, schema};
use crate::journal::Journal;
use crate::merge::open_shard;
use crate::plan::{Measure, Plan, Problem};
use crate::preset::Preset;
use crate::put;
use crate::rows_file::RowsWriter;
use crate::scenario::Scenario;
use program::progress::Progress;
use program::quantity::count;
use program::threads::pool;

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["plan", "preset"]))]
#[command(
    after_help = "Examples:\n  ror sweep --preset thesis-43 --folder DIR && ror merge DIR && ror plot DIR\n  \
                        ror sweep --preset thesis-43 --print > plan.toml\n  \
                        ror sweep plan.toml --folder DIR --shard 3/7"
)]
pub(crate) struct Sweep {
    /// The plan of the sweep; `--preset thesis-43 --print` shows one
    #[arg(value_name = "PLAN.toml")]
    plan: Option<PathBuf>,
    /// A plan that repeats a figure of the thesis
    #[arg(long, value_enum)]
    preset: Option<Preset>,
    /// Print the plan as TOML, with all defaults, and do nothing
    #[arg(long)]
    print: bool,
    /// The folder of the results; a sweep that was interrupted goes on there
    #[arg(long, value_name = "DIR", required_unless_present = "print")]
    folder: Option<PathBuf>,
    /// Do only the i-th of n parts, counted from 1
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    shard: String,
    /// Threads; without it, as many as there are processors
    #[arg(long, value_parser = count)]
    threads: Option<NonZeroU32>,
    /// So many independent runs instead of the plan's
    #[arg(long)]
    runs: Option<u32>,
    /// Another root of all random numbers than the plan's
    #[arg(long)]
    seed: Option<u32>,
}

impl Sweep {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let plan = self.plan()?;
        let shard = Shard::parse(&self.shard)?;
        let Some(path) = self.folder.as_ref().filter(|_| !self.print) else { return put(None, &plan.toml()) };
        let (meter, scenario) = self.ready(&plan).map_err(|problem| self.in_plan(&problem))?;
        let folder = Folder::of(path, &plan)?;
        folder.check_cut(shard)?;
        if folder.rows(shard).exists() {
            open_shard(&folder, shard, &plan)?;
            program::output::note(format_args!("ror: {}: shard {shard} is finished", path.display()));
            return Ok(());
        }
        let mut journal =
            Journal::open(&folder.journal(shard), schema(plan.measure()), shard.items(plan.items()).start)?;
        // Another process may have finished it after we looked and before we had the lock.
        if !folder.rows(shard).exists() {
            let items = shard.items(plan.items());
            self.fill(&meter, scenario, chunk_per_thread(plan.measure()), items, &mut journal)?;
            finish(&folder.rows(shard), &plan, &mut journal)?;
        }
        match std::fs::remove_file(folder.journal(shard)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Failure::File(folder.journal(shard), error))
            }
            _ => Ok(()),
        }
    }

    /// The plan with what the command line changes in it.
    fn plan(&self) -> Result<Plan, Failure> {
        let mut plan = match (&self.plan, self.preset) {
            (Some(path), _) => Plan::load(path)?,
            (None, Some(preset)) => preset.plan(),
            (None, None) => return Err(Failure::Usage("a plan or --preset is needed".into())),
        };
        if self.runs.is_none() && self.seed.is_none() {
            return Ok(plan);
        }
        let Plan::Sampling(sampling) = &mut plan else {
            return Err(Failure::Usage("--runs, --seed: a table of the law has neither".into()));
        };
        sampling.runs = self.runs.map_or(sampling.runs, i64::from);
        sampling.seed = self.seed.map_or(sampling.seed, i64::from);
        plan.check().map_err(|Problem { key, reason }| Failure::Usage(format!("--{key}: {reason}")))?;
        Ok(plan)
    }

    /// What measures and what is measured; fails if the plan cannot be carried out.
    fn ready<'p>(&self, plan: &'p Plan) -> Result<(Meter<'p>, Scenario<'p>), Problem> {
        Ok((Meter::new(plan)?, Scenario::new(plan)?))
    }

    /// Measures what the journal does not have yet, in chunks of so many items per thread.
    fn fill(
        &self,
        meter: &Meter<'_>,
        mut scenario: Scenario<'_>,
        chunk: u64,
        items: Range<u64>,
        journal: &mut Journal,
    ) -> Result<(), Failure> {
        let pool = pool(self.threads, items.end - journal.next).map_err(Failure::Output)?;
        let stop = stop_flag()?;
        let chunk = chunk * pool.current_num_threads() as u64;
        // The remaining time counts what this process does, not what it found done.
        let (all, found) = (items.end - items.start, journal.next - items.start);
        let progress = Progress::of_things("measuring", "items", all, found);
        while journal.next < items.end {
            let next = journal.next..items.end.min(journal.next + chunk);
            let tasks = scenario.tasks(next);
            let rows =
                pool.install(|| measure(meter, &tasks, &stop)).map_err(|failed| self.failure(failed))?;
            let done = rows.len() as u64;
            journal.append_items(&rows)?;
            progress.advance(done);
            if stop.load(Ordering::Relaxed) && journal.next < items.end {
                let (done, items) = (journal.next - items.start, items.end - items.start);
                return Err(Failure::Interrupted { done, items });
            }
        }
        Ok(())
    }

    fn failure(&self, failed: Failed) -> Failure {
        match failed {
            Failed::Plan(problem) => self.in_plan(&problem),
            Failed::Work(failure) => failure,
        }
    }

    /// A problem of the plan, with the file that it is in.
    fn in_plan(&self, Problem { key, reason }: &Problem) -> Failure {
        let path = self.plan.clone().unwrap_or_else(|| PathBuf::from("the preset"));
        Failure::Input(path, format!("{key}: {reason}"))
    }
}

/// Items between two entries of the journal: some tenths of a second of work.
fn chunk_per_thread(measure: Measure) -> u64 {
    match measure {
        Measure::Ror => 64,
        Measure::Hunt => 2,
        Measure::Law => 1,
    }
}

/// The rows of the first of the tasks: of all of them, or of those before the interruption.
fn measure(meter: &Meter<'_>, tasks: &[Task], stop: &AtomicBool) -> Result<Vec<Columns>, Failed> {
    let measured: Vec<Option<Result<Columns, Failed>>> =
        tasks.par_iter().map(|task| (!stop.load(Ordering::Relaxed)).then(|| meter.measure(task))).collect();
    measured.into_iter().map_while(|rows| rows).collect()
}

/// Set when somebody wants us to stop; the second time we are gone at once.
fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let code = 128 + signal;
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::Usage(format!("cannot listen for Ctrl-C: {error}")))?;
    }
    Ok(stop)
}

/// Turns a full journal into the shard's Parquet file.
fn finish(path: &Path, plan: &Plan, journal: &mut Journal) -> Result<(), Failure> {
    let mut writer = RowsWriter::create(path, schema(plan.measure()), &plan.toml())?;
    journal.read(|chunk, _| chunk.rows.each_item(|item| writer.push(item)))?;
    writer.finish_with_checksum()
}
