//! `sfio trace analyse`: every table and figure of a study.

use std::path::PathBuf;

use program::{Table, output};
use sfio_trace::analysis::{Analysis, Conventions, Order, Report, tables};

use super::picture;
use super::source::{LayerName, each};
use crate::exit::{Exit, Failure};

/// Count what a trace asks of storage: every table and figure of a study
///
/// The study is that of a CM-5 in 1994 (docs/traces.md): jobs, files, request sizes, order,
/// sharing, re-use, with its conventions, so that today's traces can be compared with it.
///
/// Examples:
///   sfio trace analyse job.darshan
///   sfio trace analyse job.jsonl.zst --pictures job-pictures
///   sfio trace analyse job.jsonl.zst --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Options {
    /// Traces, or Darshan logs; they are counted together
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,

    /// Of Darshan logs: whose requests are taken
    #[arg(long, value_enum, default_value_t)]
    layer: LayerName,

    /// Bytes of a block; the study's file system had 29.5 KiB
    #[arg(long, value_name = "SIZE", value_parser = program::quantity::size, default_value = "30208")]
    block: u64,

    /// Compare each request with the one of the whole job before it, even where processes ask
    #[arg(long)]
    by_job: bool,

    /// Draw the figures into this folder, as SVG
    #[arg(long, value_name = "DIR")]
    pictures: Option<PathBuf>,

    /// Draw them as PNG instead
    #[arg(long, requires = "pictures")]
    png: bool,

    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    if options.block == 0 {
        return Err(Failure::usage("--block 0: expected at least a byte"));
    }
    let order = if options.by_job { Order::Job } else { Order::Recorded };
    let mut analysis = Analysis::new(Conventions { block_bytes: options.block, order });
    for trace in &options.traces {
        let mut is_empty = true;
        each(trace, options.layer, |record| {
            is_empty = false;
            analysis.note(record);
            Ok(())
        })?;
        if is_empty {
            let what = "there is no operation on files in it";
            return Err(Failure::new(Exit::Input, format!("{}: {what}", trace.display())));
        }
    }
    let report = analysis.finish();
    if let Some(folder) = &options.pictures {
        std::fs::create_dir_all(folder).map_err(|error| Failure::file(folder, &error))?;
        picture::draw(&report, folder, if options.png { "png" } else { "svg" })?;
    }
    if options.json {
        let text = serde_json::to_string(&report).map_err(|error| Failure::new(Exit::Failed, error))?;
        return output::line(text);
    }
    output::print(text(&report))
}

/// All tables below each other.
fn text(report: &Report) -> String {
    let columns = output::columns(None);
    let mut text = String::new();
    for part in tables(report) {
        let mut table = Table::new(part.header);
        part.rows.into_iter().for_each(|row| table.push(row));
        text += &format!("{}\n\n{}\n", output::wrapped(part.title, columns), table.folded(columns));
    }
    text
}
