//! `sfio trace export`: traces for other tools.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use program::output::{self, put};
use sfio_trace::columns::Columns;
use sfio_trace::fio::FioLog;
use sfio_trace::record::{ClientId, Record};

use super::source::{LayerName, each};
use crate::exit::Failure;

/// Write a trace for another tool: as a log that fio plays, or as a table in Parquet
///
/// fio plays all requests of a log in one process, one after the other, in the folder where it is
/// started; --client takes those of one process of the job. What is read must be there: --lay-out
/// makes files of zeros.
///
/// Examples:
///   sfio trace export job.jsonl.zst --format fio -o job.fio --lay-out play
///   cd play && fio --name=job --read_iolog=../job.fio --replay_no_stall=1
///   sfio trace export job.jsonl.zst --format parquet -o job.parquet
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Options {
    /// A trace, or a Darshan log
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// What is written
    #[arg(long, value_enum)]
    format: Format,

    /// Only the requests of this process of the job; for fio
    #[arg(long, value_name = "N")]
    client: Option<u32>,

    /// Make the files that the log reads in this folder, sparse and without content; for fio
    #[arg(long, value_name = "DIR")]
    lay_out: Option<PathBuf>,

    /// Of a Darshan log: whose requests are taken
    #[arg(long, value_enum, default_value_t)]
    layer: LayerName,

    /// Where it goes; "-" is standard output. Parquet needs a file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What a trace becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A log for `fio --read_iolog`
    Fio,
    /// A row for each request
    Parquet,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    if options.format == Format::Parquet && (options.client.is_some() || options.lay_out.is_some()) {
        return Err(Failure::usage("--client and --lay-out are for --format fio"));
    }
    match (options.format, &options.output) {
        (Format::Fio, path) => fio(options, path.as_deref()),
        (Format::Parquet, Some(path)) => parquet(options, path),
        (Format::Parquet, None) => Err(Failure::usage("Parquet goes to a file: expected -o FILE")),
    }
}

fn fio(options: &Options, path: Option<&Path>) -> Result<(), Failure> {
    let mut log = FioLog::new(options.client.map(ClientId));
    each(&options.trace, options.layer, |record| {
        log.push(record);
        Ok(())
    })?;
    let (read, written) = log.bytes();
    if (read, written) == (0, 0) {
        return Err(nothing(options, log.clients()));
    }
    if let Some(folder) = &options.lay_out {
        std::fs::create_dir_all(folder).map_err(|error| Failure::file(folder, &error))?;
        for (name, size) in log.files_read() {
            let path = folder.join(name);
            let file = File::create(&path).and_then(|file| file.set_len(size));
            file.map_err(|error| Failure::file(&path, &error))?;
        }
    }
    put(path, &log.finish())?;
    if path.is_some() {
        output::note(format_args!("sfio: the log reads {read} bytes and writes {written}"));
    }
    Ok(())
}

/// Why a log would have nothing in it, although fio plays that without a word.
fn nothing(options: &Options, clients: Option<(ClientId, ClientId)>) -> Failure {
    let what = match (options.client, clients) {
        (Some(client), Some((first, last))) => {
            format!(
                "--client {client}: that process asks for nothing; expected one of {} to {}",
                first.0, last.0
            )
        }
        (Some(client), None) => {
            format!("--client {client}: no process asks for anything by itself; expected no --client")
        }
        (None, _) => "it has no requests".to_owned(),
    };
    Failure::input(&options.trace, what)
}

fn parquet(options: &Options, path: &Path) -> Result<(), Failure> {
    let file = File::create(path).map_err(|error| Failure::file(path, &error))?;
    let mut columns = Columns::new(BufWriter::new(file)).map_err(|error| Failure::library(path, &error))?;
    let mut is_empty = true;
    each(&options.trace, options.layer, |record| {
        is_empty &= !matches!(record, Record::Request(_));
        columns.push(record).map_err(|error| Failure::library(path, &error))
    })?;
    let mut file = columns.finish().map_err(|error| Failure::library(path, &error))?;
    std::io::Write::flush(&mut file).map_err(|error| Failure::file(path, &error))?;
    if is_empty {
        let trace = options.trace.display();
        output::note(format_args!("sfio: {trace}: it has no requests; the table has no rows"));
    }
    Ok(())
}
