//! `sfio bench`: how fast striped files are written and read, by access pattern and stripe unit.

mod local;
mod pattern;
mod plot;
mod report;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sfio_remote::client::{Durability, OpenMode};
use sfio_remote::distribution::StripeUnit;
use sfio_remote::io::{FileError, OpenOptions, StripedFile};
use sfio_remote::name::FileName;
use sfio_remote::request::{Granularity, ReadList, WriteList};

use crate::client::{Identification, Session, failure};
use crate::exit::{Exit, Failure, OrFail as _};
use crate::progress::Progress;
use pattern::{Call, Pattern};
use report::{Report, Row};

/// Measure how fast striped files are written and read
///
/// Every pattern is written and read with every stripe unit, through the list calls; beside it a local file is written the
/// same way. A write counts as done when the I/O nodes have it; nothing is synced. What is read is compared with what
/// was written.
///
/// Example, on this machine alone:
///   sfio overlay new try --plain --relays 0 --io-nodes 3 && sfio overlay up try &
///   sfio bench --overlay try "io1,b;io2,b;io3,b" --stripe-units 75,200,64KiB --svg bench.svg
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Options {
    /// A file to measure with: "member,path;member,path;…"; it must not exist, and is removed at the end
    name: FileName,

    /// Access patterns
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [Pattern::Contiguous, Pattern::Strided,
        Pattern::Random, Pattern::Tile, Pattern::Small])]
    patterns: Vec<Pattern>,

    /// Stripe units
    #[arg(long, value_delimiter = ',', value_name = "SIZES", default_values_t = default_units())]
    stripe_units: Vec<StripeUnit>,

    /// Bytes to write and read with each pattern and stripe unit; small regions and fragments have fewer
    #[arg(long, default_value_t = StripeUnit::new(64 << 20).expect("in range"))]
    size: StripeUnit,

    /// How often everything is measured; the fastest counts
    #[arg(long, default_value_t = 1)]
    repeat: u32,

    /// Bytes of the contiguous pattern that are written again without optimisation, each stripe by a request of its own,
    /// 64 at a time
    #[arg(long, value_name = "SIZE")]
    unoptimised: Option<StripeUnit>,

    /// Where the local file is written; by default the folder for temporary files
    #[arg(long, value_name = "DIR")]
    local: Option<PathBuf>,

    /// Draw a picture of the rates
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    identification: Identification,
}

/// Calls under way at once.
const CALLS: usize = 4;

fn default_units() -> [StripeUnit; 4] {
    [75, 200, 4 << 10, 64 << 10].map(|bytes| StripeUnit::new(bytes).expect("in range"))
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let work = async |session: &Session| measure(session, options).await;
    options.identification.work_or_clean_up(work, async |session| {
        // Nothing else can be left of a run that was interrupted.
        let _ = session.client().remove(&options.name, Durability::None).await;
    })
}

async fn measure(session: &Session, options: &Options) -> Result<(), Failure> {
    if session.subfile_sizes(&options.name).await?.iter().any(Option::is_some) {
        return Err(Failure::new(Exit::Input, format!("{} exists; expected a new name", options.name)));
    }
    let size = options.size.bytes();
    let data = pattern::data(size);
    let rows = options.patterns.iter().flat_map(|p| p.variants()).collect::<Vec<_>>();
    let progress = Progress::new("measuring", None);
    let mut report = Report::default();
    for variant in rows {
        let calls = variant.calls(size);
        let local =
            local::write(options.local.as_deref(), &calls, &data).or_fail(Exit::Failed, "the local file")?;
        for unit in &options.stripe_units {
            let mut row = Row::new(variant, *unit, &calls, local);
            for _ in 0..options.repeat.max(1) {
                measure_row(session, options, &calls, &data, &mut row).await?;
                progress.advance(2 * row.bytes);
            }
            report.rows.push(row);
        }
    }
    progress.finish("measured");
    if let Some(path) = &options.svg {
        std::fs::write(path, plot::svg(&report)).or_fail(Exit::Failed, path.display())?;
    }
    match options.json {
        true => println!("{}", report.json()),
        false => print!("{}", report.table()),
    }
    Ok(())
}

async fn measure_row(
    session: &Session,
    options: &Options,
    calls: &[Call],
    data: &Bytes,
    row: &mut Row,
) -> Result<(), Failure> {
    let (unit, name) = (row.stripe_unit, &options.name);
    let create = OpenOptions::new().mode(OpenMode::Truncate).stripe_unit(unit).durability(Durability::None);
    let file = create.open(session.client(), name).await.map_err(told)?;
    row.note_write(write(&file, calls, data).await?);
    row.note_read(read(&file, calls, data).await?);
    if let Some(bytes) = options.unoptimised.filter(|_| row.is_contiguous()) {
        let bytes = bytes.bytes().min(data.len() as u64);
        let list = WriteList::new([(0, data.slice(..bytes as usize))]).expect("it was written");
        let began = Instant::now();
        file.write(list.granularity(Granularity::Stripe)).await.map_err(told)?;
        row.note_unoptimised(bytes, began.elapsed());
    }
    drop(file);
    session.client().remove(name, Durability::None).await.map_err(told)
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

async fn settle(write: Option<sfio_remote::io::Submission<()>>) -> Result<(), Failure> {
    match write {
        Some(write) => write.wait().await.map_err(told),
        None => Ok(()),
    }
}

async fn read(file: &StripedFile, calls: &[Call], data: &Bytes) -> Result<Duration, Failure> {
    let mut took = Duration::ZERO;
    for calls in calls.chunks(CALLS) {
        let began = Instant::now();
        let running: Vec<_> = calls
            .iter()
            .map(|call| file.submit_read(ReadList::new(call.regions()).expect("it was written")))
            .collect();
        let mut results = Vec::new();
        for read in running {
            results.push(read.wait().await.map_err(told)?);
        }
        took += began.elapsed();
        // Comparing is not reading.
        for (call, result) in calls.iter().zip(results) {
            if !call.is_in(&result, data) {
                return Err(Failure::new(Exit::Integrity, "what was read differs from what was written"));
            }
        }
    }
    Ok(took)
}

fn told(error: FileError) -> Failure {
    failure(&error)
}
