//! `sfio trace replay`: the work of a trace, done again with other storage.

mod report;
mod sockets;
mod virtual_time;

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use program::output;
use sfio_remote::distribution::StripeUnit;
use sfio_remote::name::FileName;
use sfio_remote::request::{ReadList, WriteList};
use sfio_trace::record::{ApplicationLoad, Descriptor, FileId, Micros, Operation, Record, Request, header};
use sfio_trace::replay::{Call, Pace, Work};

use super::source::{LayerName, Sink, each};
use crate::bench::bytes_that_do_not_shrink;
use crate::exit::{Exit, Failure};
use crate::overlay::EmulatedLinks;
use crate::progress::Progress;
use report::{Report, Row};

/// What a call reads is held until it has all of it; a machine that replays should have so much to spare.
const MAX_MEMORY: u64 = 4 << 30;

/// Do the work of a trace again, and say which stripe unit and how many I/O nodes suit it
///
/// All processes of the trace are at one site, and reach each I/O node by a link of its own. Each
/// stripe unit is tried with each number of I/O nodes, in virtual time: an hour of a job over a slow
/// link takes as long as its packets take to compute. With --sockets the I/O nodes run here, as
/// processes of their own behind emulated links, for as long as it takes.
///
/// Processes call each by itself, as they did, or together: the first call of each at a file is
/// then one with the first calls of the others, the second with the second ones, and so on. What
/// they exchange for that among themselves takes no time here.
///
/// Examples:
///   sfio trace replay job.jsonl.zst --rate-mbit 100 --delay-ms 50
///   sfio trace replay job.darshan --io-nodes 1,2,3 --stripe-units 64KiB,1MiB --pace think
///   sfio trace replay job.jsonl.zst --io-nodes 3 --stripe-units 64KiB --sockets -o again.jsonl.zst
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Options {
    /// A trace, or a Darshan log
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// When a process asks for the next thing
    #[arg(long, value_enum, default_value_t)]
    pace: PaceName,

    /// Numbers of I/O nodes
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,3",
        value_parser = clap::value_parser!(u16).range(1..=64))]
    io_nodes: Vec<u16>,

    /// Stripe units
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', default_value = "4KiB,64KiB,1MiB")]
    stripe_units: Vec<StripeUnit>,

    /// How the processes call; both by default, with -o by themselves
    #[arg(long, value_enum, value_name = "HOW,…", value_delimiter = ',')]
    calls: Vec<Calls>,

    /// Rate of the link to each I/O node, in Mbit/s
    #[arg(long, value_name = "RATE", default_value_t = 100.0)]
    rate_mbit: f64,

    /// Its delay in milliseconds, one way
    #[arg(long, value_name = "MS", default_value_t = 5.0)]
    delay_ms: f64,

    /// Share of the packets that it loses, in each direction
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = program::quantity::share)]
    loss: f64,

    /// Play on sockets in real time, on this machine
    #[arg(long)]
    sockets: bool,

    /// With --sockets: where the subfiles are; by default the folder for temporary files
    #[arg(long, value_name = "DIR", requires = "sockets")]
    local: Option<PathBuf>,

    /// What chance follows in virtual time
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Of a Darshan log: whose requests are taken
    #[arg(long, value_enum, default_value_t)]
    layer: LayerName,

    /// Write down the requests with the times that they now took; for one stripe unit, one number of I/O nodes and one
    /// way of calling
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// When a process asks for the next thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum PaceName {
    /// As soon as it has what it waited for
    #[default]
    Fast,
    /// After as long as it thought in the trace
    Think,
    /// When it did in the trace, or as soon as it can after that
    Recorded,
}

/// How the processes call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum Calls {
    /// Each by itself, as in the trace
    Independent,
    /// All processes of a job together
    Collective,
}

/// Storage that is tried.
#[derive(Debug, Clone, Copy)]
struct Storage {
    stripe_unit: StripeUnit,
    io_nodes: u16,
    calls: Calls,
    links: EmulatedLinks,
}

/// When each call of a work began and ended, since the first one could.
#[derive(Debug)]
struct Played {
    times: Vec<(Micros, Micros)>,
}

impl From<PaceName> for Pace {
    fn from(name: PaceName) -> Pace {
        match name {
            PaceName::Fast => Pace::Fast,
            PaceName::Think => Pace::Think,
            PaceName::Recorded => Pace::Recorded,
        }
    }
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    options.check()?;
    let (work, loads) = options.work()?;
    let mut report = Report::new(&work, options.pace.into());
    let together = work.together();
    let storages = options.storages(together.is_some());
    let bytes = work.bytes().0.saturating_add(work.bytes().1);
    let progress = Progress::in_pieces("playing", bytes.saturating_mul(storages.len() as u64));
    for storage in storages {
        let work = together.as_ref().filter(|_| storage.calls == Calls::Collective).unwrap_or(&work);
        options.check_memory(work, storage.calls)?;
        let played = match options.sockets {
            true => sockets::play(work, options.pace.into(), &storage, options.local.as_deref())?,
            false => virtual_time::play(work, options.pace.into(), &storage, options.seed)?,
        };
        progress.advance(bytes);
        if let Some(path) = &options.output {
            let mut sink = Sink::open(Some(path))?;
            sink.push(&header(0, "sfio", "a trace that was played again"))?;
            loads.iter().try_for_each(|load| sink.push(&Record::ApplicationLoad(load.clone())))?;
            played.records(work).try_for_each(|record| sink.push(&record))?;
            sink.close()?;
        }
        report.push(Row::new(&storage, &played));
    }
    progress.finish("played");
    match options.json {
        true => output::json(&report),
        false => output::print(report.text(output::columns(None))),
    }
}

impl Options {
    fn check(&self) -> Result<(), Failure> {
        let wrong = |what: String| Err(Failure::usage(what));
        if !(0.1..=100_000.0).contains(&self.rate_mbit) {
            return wrong(format!("--rate-mbit {}: expected 0.1 to 100000", self.rate_mbit));
        }
        if !(0.0..=10_000.0).contains(&self.delay_ms) {
            return wrong(format!("--delay-ms {}: expected 0 to 10000", self.delay_ms));
        }
        if self.output.is_some() && self.storages(true).len() != 1 {
            let what = "-o: expected one stripe unit, one number of I/O nodes and one way of calling";
            return wrong(what.to_owned());
        }
        Ok(())
    }

    /// All that is tried, if the processes of the trace can call together, or else.
    fn storages(&self, can_call_together: bool) -> Vec<Storage> {
        let mut ways = match &self.calls[..] {
            [] if self.output.is_some() => vec![Calls::Independent],
            [] => vec![Calls::Independent, Calls::Collective],
            ways => ways.to_vec(),
        };
        if !can_call_together {
            ways = vec![Calls::Independent];
        }
        let storage =
            |stripe_unit, io_nodes, calls| Storage { stripe_unit, io_nodes, calls, links: self.links() };
        let rows = self.stripe_units.iter().flat_map(|unit| self.io_nodes.iter().map(move |n| (*unit, *n)));
        rows.flat_map(|(unit, n)| ways.iter().map(move |calls| storage(unit, n, *calls))).collect()
    }

    fn links(&self) -> EmulatedLinks {
        EmulatedLinks { rate_mbit: self.rate_mbit, delay_ms: self.delay_ms, loss: self.loss }
    }

    fn work(&self) -> Result<(Work, Vec<ApplicationLoad>), Failure> {
        let (mut work, mut loads) = (Work::default(), Vec::new());
        each(&self.trace, self.layer, |record| {
            work.note(record).map_err(|error| Failure::input(&self.trace, error))?;
            if let Record::ApplicationLoad(load) = record {
                loads.push(load.clone());
            }
            Ok(())
        })?;
        let work = work.finish();
        match work.calls().is_empty() {
            true => Err(Failure::new(Exit::Input, format!("{}: it has no requests", self.trace.display()))),
            false => Ok((work, loads)),
        }
    }

    /// Refuses a work that would hold more than there may be, before anything is allocated for it.
    fn check_memory(&self, work: &Work, calls: Calls) -> Result<(), Failure> {
        let (written, read) = (longest_written(work), work.read_at_once());
        let memory = written.saturating_add(read);
        if memory <= MAX_MEMORY {
            return Ok(());
        }
        let remedy = match calls {
            Calls::Independent => "expected a trace of fewer jobs, or of smaller requests",
            Calls::Collective => "expected --calls independent, or a trace of smaller requests",
        };
        let what = format!(
            "to play it would take {memory} bytes of memory, {written} for its longest request that writes and \
             {read} for those that read at once; at most {MAX_MEMORY} are possible; {remedy}"
        );
        Err(Failure::input(&self.trace, what))
    }
}

impl Storage {
    /// The striped file that stands for a file of the trace.
    fn name(&self, file: FileId) -> FileName {
        let subfiles: Vec<String> =
            (1..=self.io_nodes).map(|node| format!("io{node},replay/{:x}", file.0)).collect();
        subfiles.join(";").parse().expect("a right name")
    }
}

impl Played {
    /// How long everything took.
    fn took(&self) -> Duration {
        Duration::from_micros(self.times.iter().map(|(_, end)| *end).max().unwrap_or(0))
    }

    /// The requests of the work with these times.
    fn records<'a>(&'a self, work: &'a Work) -> impl Iterator<Item = Record> + 'a {
        work.calls().iter().zip(&self.times).flat_map(|(call, (start, end))| {
            call.regions.iter().map(|(offset, bytes)| {
                Record::Request(Request {
                    start: *start,
                    end: *end,
                    application: call.process.application,
                    client: Some(call.process.client),
                    file: call.file,
                    descriptor: Descriptor(0),
                    operation: call.operation,
                    asynchronous: false,
                    spread: None,
                    offset: *offset,
                    bytes: *bytes,
                })
            })
        })
    }
}

/// The longest region that is written.
fn longest_written(work: &Work) -> u64 {
    let writes = work.calls().iter().filter(|call| call.operation == Operation::Write);
    writes.flat_map(|call| &call.regions).map(|(_, length)| *length).max().unwrap_or(0)
}

/// Bytes enough for any region that is written.
fn data(work: &Work) -> Bytes {
    bytes_that_do_not_shrink(longest_written(work))
}

fn write_list(call: &Call, data: &Bytes) -> Result<WriteList, Failure> {
    let pieces = call.regions.iter().map(|(offset, length)| (*offset, data.slice(..*length as usize)));
    WriteList::new(pieces).map_err(|error| Failure::new(Exit::Input, error))
}

fn read_list(call: &Call) -> Result<ReadList, Failure> {
    ReadList::new(call.regions.iter().copied()).map_err(|error| Failure::new(Exit::Input, error))
}
