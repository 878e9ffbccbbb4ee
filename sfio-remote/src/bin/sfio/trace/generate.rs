//! `sfio trace generate`: workloads drawn from the numbers of a study.

use std::path::PathBuf;

use program::output;
use sfio_trace::model::{Generator, Model, PRESETS};
use sfio_trace::record::header;

use super::source::Sink;
use crate::exit::{Exit, Failure};

/// Draw a workload from the numbers of a study
///
/// The presets are the two programming models of a CM-5 in 1994: data-parallel jobs that ask as a
/// whole, and message-passing jobs whose processes ask. --print shows a preset as TOML, in which
/// every parameter names its place in the study; a changed one is read with --model. Equal seeds
/// give equal traces.
///
/// Examples:
///   sfio trace generate --preset charisma-cmf --jobs 100 -o cmf.jsonl.zst
///   sfio trace generate --preset charisma-cmmd --print > mine.toml
///   sfio trace generate --model mine.toml --jobs 20 --seed 3
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Options {
    /// A preset
    #[arg(long, value_name = "NAME", value_parser = PRESETS.map(|(name, _)| name), required_unless_present = "model")]
    preset: Option<String>,

    /// A model of your own, in TOML
    #[arg(long, value_name = "FILE", conflicts_with = "preset")]
    model: Option<PathBuf>,

    /// Print the model as it is, and do nothing else
    #[arg(long)]
    print: bool,

    /// How many jobs are drawn; by default as many as the study has
    #[arg(long, value_name = "N")]
    jobs: Option<u64>,

    /// What the chance follows
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Where the trace goes: JSON lines, compressed if the name ends in .zst; "-" is standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let text = options.text()?;
    if options.print {
        return output::put(options.output.as_deref(), &text);
    }
    let model: Model = text.parse().map_err(|error| match &options.model {
        Some(path) => Failure::input(path, error),
        None => Failure::new(Exit::Failed, error),
    })?;
    let jobs = options.jobs.unwrap_or_else(|| model.files_per_job.value.iter().sum());
    let mut sink = Sink::open(options.output.as_deref())?;
    sink.push(&header(model.first_day_us.value, &model.name, "a workload that was drawn"))?;
    let mut generator = Generator::new(&model, options.seed);
    for job in generator.by_ref().take(jobs as usize) {
        job.iter().try_for_each(|record| sink.push(record))?;
    }
    sink.close()?;
    let misfits = generator.misfits();
    if misfits.misfits > 0 {
        let (some, all) = (misfits.misfits, misfits.files);
        output::note(format_args!("sfio: {some} of {all} files could not be drawn as their tables say"));
    }
    Ok(())
}

impl Options {
    fn text(&self) -> Result<String, Failure> {
        if let Some(path) = &self.model {
            return std::fs::read_to_string(path).map_err(|error| Failure::file(path, &error));
        }
        let preset = PRESETS.iter().find(|(name, _)| Some(*name) == self.preset.as_deref());
        preset
            .map(|(_, text)| (*text).to_owned())
            .ok_or_else(|| Failure::usage("expected --preset or --model"))
    }
}
