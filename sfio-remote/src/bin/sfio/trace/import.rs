//! `sfio trace import`: a Darshan log as a trace.

use std::path::PathBuf;

use program::output;

use super::source::{LayerName, Sink, darshan_log};
use crate::exit::Failure;

/// Make a trace of a Darshan log with extended tracing (DXT)
///
/// Logs of Darshan 3.00 to 3.41 are read if the job ran with DXT_ENABLE_IO_TRACE or with the module
/// DXT enabled. A request to MPI-IO becomes requests to the operating system, so only one of the
/// two layers is taken.
///
/// Example:
///   sfio trace import job.darshan -o job.jsonl.zst
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Options {
    /// The log
    #[arg(value_name = "LOG")]
    log: PathBuf,

    /// Whose requests are taken
    #[arg(long, value_enum, default_value_t)]
    layer: LayerName,

    /// Where the trace goes: JSON lines, compressed if the name ends in .zst; "-" is standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let log = darshan_log(&options.log)?;
    if log.is_partial {
        output::note("sfio: Darshan ran out of memory during the job: the log has not all of its requests");
    }
    let records = log.records(options.layer.into());
    if log.traces(options.layer.into()).is_empty() {
        output::note("sfio: the log has no requests of that layer: was extended tracing (DXT) enabled?");
    }
    let mut sink = Sink::open(options.output.as_deref())?;
    records.iter().try_for_each(|record| sink.push(record))?;
    sink.close()
}
