//! `sfio bench`: how fast striped files are written and read, by access pattern and stripe unit.

mod collective;
mod kind;
mod local;
mod pattern;
mod plot;
mod report;
mod stages;
mod virtual_time;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use program::{output, quantity};
use sfio_remote::client::{Durability, OpenMode};
use sfio_remote::distribution::StripeUnit;
use sfio_remote::io::{FileError, OpenOptions, StripedFile, Submission};
use sfio_remote::name::FileName;
use sfio_remote::request::{Granularity, ReadList, RegionsRead, WriteList};
use sfio_remote::sim::Machine;

use crate::client::{Identification, Session, failure};
use crate::exit::{Exit, Failure, OrFail as _};
use crate::overlay::{EmulatedLinks, Trial};
use crate::progress::Progress;
use crate::striped::Compressing;
use kind::Kind;
pub(crate) use pattern::bytes_that_do_not_shrink;
use pattern::{Call, Pattern, Variant};
use report::{Report, Row};
use virtual_time::{Counts, TrafficName};

/// Measure how fast striped files are written and read
///
/// Every pattern is written and read with every stripe unit, through the list calls; beside it a local file is written
/// the same way. A write counts as done when the I/O nodes have it; nothing is synced. What is read is compared with
/// what was written. With --repeat the rows take turns, and the medians count.
///
/// Examples, on this machine alone, directly and through emulated links:
///   sfio bench --here 3 --stripe-units 75,200,64KiB --repeat 5 --plot bench.svg
///   sfio bench --here 3 --rate-mbit 200 --patterns contiguous --stripe-units 75,200,64KiB
///
/// and with an overlay that there is:
///   sfio bench --overlay try "io1,b;io2,b;io3,b"
///
/// Whole clusters in virtual time, as SFIO's papers measured one (docs/evaluation.md). What was measured in parts is
/// put together by --rows:
///   sfio bench --virtual swiss-t1-ethernet --clients 2-31 --plot scaling.svg
///   sfio bench --virtual swiss-t1-ethernet --rows 2-20.json 21-31.json --plot scaling.svg
///
/// A parallel program whose ranks write one file together (docs/collective.md):
///   sfio bench --here 3 --writers 64 --collective two-phase,independent --pattern interleaved --record 512
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Options {
    /// A file to measure with: "member,path;member,path;…"; it must not exist, and is removed at the end
    #[arg(required_unless_present_any = ["here", "machine"])]
    name: Option<FileName>,

    /// Measure on this machine: so many I/O nodes run here for as long as it takes, each as a process of its own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64),
        conflicts_with_all = ["name", "config", "overlay"])]
    here: Option<u16>,

    /// Measure in virtual time: this cluster of computers is played, with its switches, disks and processors
    #[arg(long = "virtual", value_name = "MACHINE", value_parser = Machine::NAMES, requires = "counts",
        conflicts_with_all = ["name", "config", "overlay", "here", "patterns", "repeat", "unoptimised", "local"])]
    machine: Option<String>,

    /// With --virtual: how many compute processes write, as 8, 2-31 or a list
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "machine", group = "counts")]
    clients: Vec<Counts>,

    /// With --virtual: measure nothing, and put together the rows of files that --json printed
    #[arg(long = "rows", value_name = "FILE", num_args = 1.., requires = "machine", group = "counts",
        conflicts_with_all = ["io_nodes", "placements", "seed", "threads", "stripe_units", "size"])]
    measured: Vec<PathBuf>,

    /// With --virtual: how many I/O nodes there are; by default as many as compute processes
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "machine")]
    io_nodes: Vec<Counts>,

    /// With --virtual: who writes to whom
    #[arg(long, value_enum, default_value_t, requires = "machine")]
    traffic: TrafficName,

    /// With --virtual: how often the processes are placed on nodes by chance
    #[arg(long, value_name = "N", default_value_t = 53, value_parser = clap::value_parser!(u32).range(1..),
        requires = "machine")]
    placements: u32,

    /// With --virtual: what chance follows
    #[arg(long, default_value_t = 1, requires = "machine")]
    seed: u64,

    /// With --virtual: how many rows are measured at once
    #[arg(long, value_name = "N", default_value_t = 1, requires = "machine")]
    threads: usize,

    /// With --here: reach each I/O node through an emulated link of that rate, in Mbit/s
    #[arg(long, value_name = "RATE", requires = "here")]
    rate_mbit: Option<f64>,

    /// Delay of the emulated links in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5.0, requires = "rate_mbit")]
    delay_ms: f64,

    /// Share of the packets that each emulated link loses, in each direction
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, requires = "rate_mbit")]
    #[arg(value_parser = program::quantity::share)]
    loss: f64,

    /// Access patterns
    #[arg(
        long,
        value_name = "PATTERN,…",
        value_delimiter = ',',
        value_enum,
        default_value = "contiguous,strided,random,tile,small,scattered"
    )]
    patterns: Vec<Pattern>,

    /// Stripe units; by default 75, 200, 4KiB and 64KiB, with --virtual 200
    #[arg(long, value_delimiter = ',', value_name = "SIZE,…")]
    stripe_units: Vec<StripeUnit>,

    /// Bytes to write and read with each pattern and stripe unit, by default 64MiB; small regions and fragments have
    /// fewer. With --virtual bytes that each compute process writes, by default 20000000
    #[arg(long, value_parser = bytes)]
    size: Option<u64>,

    /// How often everything is measured, row after row and then all over again; the medians count
    #[arg(long, default_value_t = 1)]
    repeat: u32,

    /// Bytes of the contiguous pattern that are written again without optimisation, each stripe by a request of its
    /// own, 64 at a time
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    unoptimised: Option<u64>,

    /// Where the local file is written, and with --here the subfiles; by default the folder for temporary files
    #[arg(long, value_name = "DIR")]
    local: Option<PathBuf>,

    /// Draw the rates over the sizes, with --collective two-phase the stages, as .svg or .png
    #[arg(long, value_name = "FILE", value_parser = program::chart::file)]
    plot: Vec<PathBuf>,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    writers: collective::Writers,

    #[command(flatten)]
    compressing: Compressing,

    /// What is written
    #[arg(long, value_enum, value_name = "KIND", default_value_t)]
    data: Kind,

    #[command(flatten)]
    identification: Identification,
}

/// Calls under way at once.
const CALLS: usize = 4;

/// Bytes that are written and read before anything is measured.
const WARM_UP_BYTES: usize = 128 << 20;

/// Bytes that are written and read with each pattern, unless told otherwise.
const BYTES: u64 = 64 << 20;

/// Stripe units, unless told otherwise, in bytes.
const STRIPE_UNITS: [u64; 4] = [75, 200, 4 << 10, 64 << 10];

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    if let Some(machine) = &options.machine {
        return virtual_time::run(options, machine);
    }
    let Some(io_nodes) = options.here else {
        let name = options.name.clone().expect("there is a name or --here");
        return run_with(&options.identification, options, &name);
    };
    let links = options.rate_mbit.map(|rate_mbit| EmulatedLinks {
        rate_mbit,
        delay_ms: options.delay_ms,
        loss: options.loss,
    });
    let trial = Trial::start(io_nodes, links, &options.local_folder())?;
    let subfiles: Vec<String> = (1..=io_nodes).map(|number| format!("io{number},bench")).collect();
    let name = subfiles.join(";").parse().expect("a right name");
    run_with(&Identification::client_of(&trial.path()), options, &name)
}

fn run_with(identification: &Identification, options: &Options, name: &FileName) -> Result<(), Failure> {
    let work = async |session: &Session| match options.writers.count() {
        Some(_) => collective::run(session, options, name).await,
        None => Bench { session, options, name }.run().await,
    };
    identification.work_or_clean_up(Duration::ZERO, work, async |session| {
        // Nothing else can be left of a run that was interrupted.
        let _ = session.client().remove(name, Durability::None).await;
    })
}

impl Options {
    fn local_folder(&self) -> PathBuf {
        self.local.clone().unwrap_or_else(std::env::temp_dir)
    }

    fn rows(&self) -> Vec<Row> {
        let variants = self.patterns.iter().flat_map(|pattern| pattern.variants());
        let by_default = STRIPE_UNITS.map(|bytes| StripeUnit::new(bytes).expect("in range"));
        let units = if self.stripe_units.is_empty() { &by_default[..] } else { &self.stripe_units };
        let rows = |variant| units.iter().map(move |unit| Row::new(variant, *unit));
        variants.flat_map(rows).collect()
    }
}

/// A number of bytes of which there is at least one.
fn bytes(text: &str) -> Result<u64, String> {
    match quantity::size(text)? {
        0 => Err("there is nothing to measure in 0 bytes; expected 1 or more".to_owned()),
        bytes => Ok(bytes),
    }
}

/// What is measured with is removed in the end: it must be nobody's.
async fn refuse_existing(session: &Session, name: &FileName) -> Result<(), Failure> {
    match session.subfile_sizes(name).await?.iter().any(Option::is_some) {
        true => Err(Failure::new(Exit::Input, format!("{name} exists; expected a new name"))),
        false => Ok(()),
    }
}

/// A bench that runs.
struct Bench<'a> {
    session: &'a Session,
    options: &'a Options,
    name: &'a FileName,
}

impl Bench<'_> {
    async fn run(&self) -> Result<(), Failure> {
        let (options, name) = (self.options, self.name);
        refuse_existing(self.session, name).await?;
        let data = options.data.bytes(options.size.unwrap_or(BYTES));
        let mut report = Report { rows: options.rows() };
        let of_variant = |rows: &[Row]| 2 * rows.len() as u64 * rows[0].variant.bytes(data.len() as u64);
        let round: u64 =
            report.rows.chunk_by(|one, other| one.variant == other.variant).map(of_variant).sum();
        let progress = Progress::in_pieces("measuring", round * u64::from(options.repeat.max(1)));
        self.warm_up(&data).await?;
        for _ in 0..options.repeat.max(1) {
            for rows in report.rows.chunk_by_mut(|one, other| one.variant == other.variant) {
                let calls = rows[0].variant.calls(data.len() as u64);
                let local = local::write(&options.local_folder(), &calls, &data);
                let local = local.or_fail(Exit::Failed, "the local file")?;
                for row in rows {
                    row.begin(&calls, local);
                    self.measure(&calls, &data, row).await?;
                    progress.advance(2 * row.bytes);
                }
            }
        }
        progress.finish("measured");
        let chart = plot::chart(&report);
        options.plot.iter().try_for_each(|path| program::chart::draw(&chart, path))?;
        match options.json {
            true => output::json(&report.entries()),
            false => output::print(report.table().folded(output::columns(None))),
        }
    }

    /// Lets the paths find their rates in both directions: the first row shall not be slower for being the first.
    async fn warm_up(&self, data: &Bytes) -> Result<(), Failure> {
        let data = data.slice(..data.len().min(WARM_UP_BYTES));
        let variant = Variant { pattern: Pattern::Contiguous, fragment: None };
        let calls = variant.calls(data.len() as u64);
        self.measure(&calls, &data, &mut Row::new(variant, StripeUnit::DEFAULT)).await
    }

    async fn measure(&self, calls: &[Call], data: &Bytes, row: &mut Row) -> Result<(), Failure> {
        let (unit, client) = (row.stripe_unit, self.session.client());
        let create = OpenOptions::new().mode(OpenMode::Truncate).stripe_unit(unit);
        let create = create.durability(Durability::None).compression(self.options.compressing.how());
        let file = create.open(client, self.name).await.map_err(told)?;
        row.write.note(write(&file, calls, data).await?);
        let before = self.sent().await?;
        row.read.note(read(&file, calls, data).await?);
        row.note_requests(self.sent().await?.saturating_sub(before));
        if let Some(bytes) = self.options.unoptimised.filter(|_| row.is_contiguous()) {
            let bytes = bytes.min(data.len() as u64);
            let list = WriteList::new([(0, data.slice(..bytes as usize))]).expect("it was written");
            let began = Instant::now();
            file.write(list.granularity(Granularity::Stripe)).await.map_err(told)?;
            row.note_unoptimised(bytes, began.elapsed());
        }
        drop(file);
        client.remove(self.name, Durability::None).await.map_err(told)
    }

    /// Bytes of streams that were written to I/O nodes: while a file is read, its requests.
    async fn sent(&self) -> Result<u64, Failure> {
        let sum = |node: &fec_transport::node::Node| {
            let status = node.sessions().filter_map(|session| node.session_status(session));
            status.map(|status| status.acknowledged.bytes + status.unacknowledged as u64).sum()
        };
        let handle = self.session.client().handle();
        handle.inspect(move |node, _| sum(node)).await.or_fail(Exit::Failed, "the member has ended")
    }
}

async fn write(file: &StripedFile, calls: &[Call], data: &Bytes) -> Result<Duration, Failure> {
    let began = Instant::now();
    let mut running = VecDeque::new();
    for call in calls {
        if running.len() >= CALLS {
            settle(running.pop_front()).await?;
        }
        running.push_back(file.submit_write(call.write(data)));
    }
    while !running.is_empty() {
        settle(running.pop_front()).await?;
    }
    Ok(began.elapsed())
}

async fn settle(write: Option<Submission<()>>) -> Result<(), Failure> {
    match write {
        Some(write) => write.wait().await.map_err(told),
        None => Ok(()),
    }
}

async fn read(file: &StripedFile, calls: &[Call], data: &Bytes) -> Result<Duration, Failure> {
    let began = Instant::now();
    let (mut running, mut results) = (VecDeque::new(), Vec::new());
    for call in calls {
        if running.len() >= CALLS {
            results.push(arrival(running.pop_front()).await?);
        }
        running.push_back(file.submit_read(ReadList::new(call.regions()).expect("it was written")));
    }
    while !running.is_empty() {
        results.push(arrival(running.pop_front()).await?);
    }
    let took = began.elapsed();
    // Comparing is not reading.
    match calls.iter().zip(results.iter().flatten()).all(|(call, result)| call.is_in(result, data)) {
        true => Ok(took),
        false => Err(Failure::new(Exit::Integrity, "what was read differs from what was written")),
    }
}

async fn arrival(read: Option<Submission<RegionsRead>>) -> Result<Option<RegionsRead>, Failure> {
    match read {
        Some(read) => read.wait().await.map(Some).map_err(told),
        None => Ok(None),
    }
}

fn told(error: FileError) -> Failure {
    failure(&error)
}
