//! `sfio bench --writers`: the ranks of a parallel program write one file, together or each by itself.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use program::{Table, output};
use serde::Serialize;
use sfio_remote::client::{Durability, OpenMode};
use sfio_remote::collective::{CollectiveConfig, Domains, Report, Stage, When};
use sfio_remote::io::collective::{CollectiveFile, GroupMember, local_group};
use sfio_remote::io::{OpenOptions, SfioClient, SfioMember, StripedFile};
use sfio_remote::name::FileName;
use sfio_remote::request::{ReadList, WriteList};
use tokio::task::JoinSet;

use super::{BYTES, refuse_existing, settle, stages, told};
use crate::client::Session;
use crate::exit::{Exit, Failure, OrFail as _};
use crate::progress::Progress;

/// What concerns ranks that write together.
#[derive(Debug, clap::Args)]
pub(super) struct Writers {
    /// Measure how so many ranks of a parallel program write one file, each as a process of the overlay; the other
    /// patterns are left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512), requires = "collective")]
    writers: Option<u16>,

    /// How the ranks write
    #[arg(long, value_name = "HOW,…", value_delimiter = ',', value_enum, requires = "writers")]
    collective: Vec<How>,

    /// Which bytes each rank has
    #[arg(long, value_enum, default_value_t = Layout::Interleaved, requires = "writers")]
    pattern: Layout,

    /// Bytes of a record: of a turn, of a row of a tile, of a node of the mesh
    #[arg(long, value_name = "SIZE", default_value = "512", requires = "writers", value_parser = super::bytes)]
    record: u64,

    /// How many percent of the records are zeros
    #[arg(long, value_name = "PERCENT", default_value_t = 0, requires = "writers", value_parser = clap::value_parser!(u8).range(0..=100))]
    zeros: u8,

    /// Which aggregator gets which bytes
    #[arg(long, value_enum, default_value_t = DomainKind::Subfile, requires = "writers")]
    domains: DomainKind,

    /// Bytes that an aggregator collects before it writes
    #[arg(long, value_name = "SIZE", default_value = "16MiB", requires = "writers", value_parser = super::bytes)]
    buffer: u64,
}

/// How the ranks write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum How {
    /// Together, by way of aggregators
    TwoPhase,
    /// Each its own list, in one call
    Independent,
    /// Each record by a call of its own, one after the other
    Calls,
}

/// Which bytes each rank has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Layout {
    /// The ranks take turns, record by record
    Interleaved,
    /// A matrix; each rank has a tile of it
    Tile,
    /// Nodes of a mesh, in runs of 1 to 32 that belong to one rank each, in no order
    Mesh,
    /// Each rank has one contiguous block
    Blocks,
}

/// Which aggregator gets which bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum DomainKind {
    /// One for each I/O node
    Subfile,
    /// Each rank an equal part of the range
    Range,
    /// Equal parts, each at the rank that has most of it
    Owner,
}

impl Writers {
    pub(super) fn count(&self) -> Option<u16> {
        self.writers
    }

    fn config(&self) -> CollectiveConfig {
        let domains = match self.domains {
            DomainKind::Subfile => Domains::BySubfile,
            DomainKind::Range => Domains::ByRange,
            DomainKind::Owner => Domains::ByOwner,
        };
        CollectiveConfig {
            domains,
            when: When::Always,
            buffer_bytes: self.buffer,
            ..CollectiveConfig::default()
        }
    }
}

impl Layout {
    /// Where each record of each rank goes, for about `size` bytes in all.
    fn places(self, ranks: u64, record: u64, size: u64) -> Vec<Vec<u64>> {
        let each = (size / ranks / record).max(1);
        let of = |rank: u64| -> Vec<u64> {
            let place = |i: u64| match self {
                Layout::Interleaved => i * ranks + rank,
                Layout::Blocks => rank * each + i,
                Layout::Tile | Layout::Mesh => {
                    let across =
                        (1..=ranks).filter(|n| ranks.is_multiple_of(*n) && n * n <= ranks).max().unwrap_or(1);
                    (rank / across * each + i) * across + rank % across
                }
            };
            (0..each).map(|i| place(i) * record).collect()
        };
        match self {
            Layout::Mesh => mesh(ranks, each * ranks, record),
            _ => (0..ranks).map(of).collect(),
        }
    }
}

/// The nodes of a mesh, dealt out in runs.
fn mesh(ranks: u64, nodes: u64, record: u64) -> Vec<Vec<u64>> {
    let mut places = vec![Vec::new(); ranks as usize];
    let (mut node, mut run) = (0_u64, 0_u64);
    while node < nodes {
        run += 1;
        let number = run.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let (length, owner) = (1 + number % 32, (number >> 8) % ranks);
        let end = (node + length).min(nodes);
        places[owner as usize].extend((node..end).map(|node| node * record));
        node = end;
    }
    places
}

/// The ranks, each with a process of its own, and what each has.
struct Ranks {
    members: Vec<SfioMember>,
    pieces: Vec<Vec<(u64, Bytes)>>,
}

/// How one way has done.
#[derive(Debug, Default)]
struct Row {
    times: Vec<Duration>,
    /// The times of the stages, on average over the ranks, of the last time.
    stages: [f64; 7],
    report: Report,
    sessions: u64,
}

/// A row in JSON.
#[derive(Debug, Serialize)]
struct Entry {
    collective: String,
    bytes: u64,
    write_s: f64,
    write_bytes_per_s: f64,
    sessions: u64,
    requests: u64,
    rounds: u64,
    pairs: u64,
    exchanged_bytes: u64,
    wire_bytes: u64,
    stages_s: [f64; 7],
}

pub(super) async fn run(session: &Session, options: &super::Options, name: &FileName) -> Result<(), Failure> {
    let writers = &options.writers;
    if !options.plot.is_empty() && !writers.collective.contains(&How::TwoPhase) {
        return Err(Failure::new(Exit::Usage, "--plot draws the stages of --collective two-phase"));
    }
    refuse_existing(session, name).await?;
    let ranks = u64::from(writers.count().unwrap_or(1));
    let size = options.size.unwrap_or(BYTES);
    let places = writers.pattern.places(ranks, writers.record, size);
    let pieces: Vec<_> =
        places.iter().enumerate().map(|(rank, places)| filled(writers, rank, places)).collect();
    let bytes: u64 = pieces.iter().flatten().map(|(_, piece)| piece.len() as u64).sum();
    let unit = options.stripe_units.first().copied().unwrap_or_default();
    let create = OpenOptions::new().mode(OpenMode::Truncate).stripe_unit(unit).durability(Durability::None);
    let create = create.compression(options.compressing.how());
    let mut rows: Vec<Row> = writers.collective.iter().map(|_| Row::default()).collect();
    let rounds = options.repeat.max(1);
    let writes = u64::from(rounds) * rows.len() as u64;
    let progress = Progress::of_things("measuring", "writes", writes, 0);
    for _ in 0..rounds {
        for (how, row) in writers.collective.iter().zip(&mut rows) {
            let mut members = Vec::new();
            for _ in 0..ranks {
                members.push(session.another().await?);
            }
            let all = Ranks { members, pieces: pieces.clone() };
            measure(&all, *how, writers, &create, name, row).await?;
            for member in all.members {
                member.shutdown().await.or_fail(Exit::Failed, "a rank has ended")?;
            }
            session.client().remove(name, Durability::None).await.map_err(told)?;
            progress.advance(1);
        }
    }
    progress.clear();
    let entries: Vec<Entry> =
        writers.collective.iter().zip(&rows).map(|(how, row)| row.entry(*how, bytes)).collect();
    draw(&entries, ranks, &options.plot)?;
    match options.json {
        true => output::json(&entries),
        false => output::print(table(&entries).folded(output::columns(None))),
    }
}

/// Draws the stages of what was written by way of aggregators.
fn draw(entries: &[Entry], ranks: u64, pictures: &[PathBuf]) -> Result<(), Failure> {
    let by_aggregators = entries.iter().filter(|entry| entry.rounds > 0);
    let write = |entry: &Entry| {
        (format!("{}, {ranks} ranks, {:.3} s", entry.collective, entry.write_s), entry.stages_s)
    };
    let writes: Vec<stages::Write> = by_aggregators.map(write).collect();
    pictures.iter().try_for_each(|path| program::chart::draw(&stages::chart(&writes), path))
}

/// What a rank writes: bytes that say whose they are, or zeros.
fn filled(options: &Writers, rank: usize, places: &[u64]) -> Vec<(u64, Bytes)> {
    let record = options.record;
    let own: Bytes = (0..record)
        .map(|i| ((i ^ (rank as u64 + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect();
    let zeros = Bytes::from(vec![0; record as usize]);
    let is_zero = |place: u64| (place / record).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0xffff_ffff;
    let limit = u64::from(options.zeros) * (1 << 32) / 100;
    places
        .iter()
        .map(|place| (*place, if is_zero(*place) < limit { zeros.clone() } else { own.clone() }))
        .collect()
}

/// Writes the file one way, by all ranks at once, and reads it back. It is written once before the time counts, so that
/// sessions are there and their paths have found their rates.
async fn measure(
    all: &Ranks,
    how: How,
    options: &Writers,
    create: &OpenOptions,
    name: &FileName,
    row: &mut Row,
) -> Result<(), Failure> {
    let mut tasks = JoinSet::new();
    for ((member, process), pieces) in
        local_group(all.members.len()).into_iter().zip(&all.members).zip(&all.pieces)
    {
        let (client, create, name, pieces) =
            (process.client().clone(), create.clone(), name.clone(), pieces.clone());
        let config = options.config();
        tasks.spawn(async move { write(member, client, how, config, (create, name), pieces).await });
    }
    let (mut took, mut stages, mut reports) = (Duration::ZERO, [0.0; 7], 0_u32);
    while let Some(ended) = tasks.join_next().await {
        let (time, report) = ended.or_fail(Exit::Failed, "a rank has ended")??;
        took = took.max(time);
        if let Some(report) = report {
            reports += 1;
            stages.iter_mut().zip(report.stages).for_each(|(sum, stage)| *sum += stage.as_secs_f64());
            row.report = report;
        }
    }
    row.stages = stages.map(|sum| sum / f64::from(reports.max(1)));
    row.sessions = sessions(&all.members).await?;
    let place = row.times.partition_point(|other| *other < took);
    row.times.insert(place, took);
    Ok(())
}

async fn sessions(members: &[SfioMember]) -> Result<u64, Failure> {
    let mut sum = 0;
    for member in members {
        let count = member.client().handle().inspect(|node, _| node.sessions().count() as u64).await;
        sum += count.or_fail(Exit::Failed, "a rank has ended")?;
    }
    Ok(sum)
}

/// The part of one rank: how long its write took, and what a collective one says of it.
async fn write(
    member: GroupMember,
    client: SfioClient,
    how: How,
    config: CollectiveConfig,
    (create, name): (OpenOptions, FileName),
    pieces: Vec<(u64, Bytes)>,
) -> Result<(Duration, Option<Report>), Failure> {
    let file =
        CollectiveFile::open(&member, &client, &create, &name, config).await.or_fail(Exit::Failed, "open")?;
    let list = || WriteList::new(pieces.iter().cloned()).or_fail(Exit::Usage, "the pattern");
    let (took, report) = match how {
        How::TwoPhase => {
            file.write_all(list()?).await.or_fail(Exit::Failed, "the collective write")?;
            let began = Instant::now();
            let report = file.write_all(list()?).await.or_fail(Exit::Failed, "the collective write")?;
            (began.elapsed(), Some(report))
        }
        How::Independent | How::Calls => {
            let alone = create.clone().mode(OpenMode::Existing).open(&client, &name).await.map_err(told)?;
            alone.write(list()?).await.map_err(told)?;
            member.barrier().await.or_fail(Exit::Failed, "the group")?;
            let began = Instant::now();
            match how {
                How::Calls => one_by_one(&alone, &pieces).await?,
                _ => alone.write(list()?).await.map_err(told)?,
            }
            (began.elapsed(), None)
        }
    };
    member.barrier().await.or_fail(Exit::Failed, "the group")?;
    compare(&file, &pieces).await?;
    Ok((took, report))
}

async fn one_by_one(file: &StripedFile, pieces: &[(u64, Bytes)]) -> Result<(), Failure> {
    let mut running = VecDeque::new();
    for piece in pieces {
        let list = WriteList::new([piece.clone()]).or_fail(Exit::Usage, "the pattern")?;
        running.push_back(file.submit_write(list));
        settle(running.pop_front()).await?;
    }
    Ok(())
}

/// Reads what was written, by way of aggregators.
async fn compare(file: &CollectiveFile, pieces: &[(u64, Bytes)]) -> Result<(), Failure> {
    let regions = pieces.iter().map(|(offset, piece)| (*offset, piece.len() as u64));
    let list = ReadList::new(regions).or_fail(Exit::Usage, "the pattern")?;
    let (read, _) = file.read_all(list).await.or_fail(Exit::Failed, "the collective read")?;
    match pieces.iter().zip(read.iter()).all(|((_, piece), found)| piece == found) {
        true => Ok(()),
        false => Err(Failure::new(Exit::Integrity, "what was read differs from what was written")),
    }
}

impl Row {
    fn entry(&self, how: How, bytes: u64) -> Entry {
        let took = self.times.get(self.times.len() / 2).copied().unwrap_or_default().as_secs_f64();
        let Report { requests, rounds, pairs, exchanged_bytes, wire_bytes, .. } = self.report;
        Entry {
            collective: how.name().to_owned(),
            bytes,
            write_s: took,
            write_bytes_per_s: if took > 0.0 { bytes as f64 / took } else { 0.0 },
            sessions: self.sessions,
            requests,
            rounds,
            pairs,
            exchanged_bytes,
            wire_bytes,
            stages_s: self.stages,
        }
    }
}

impl How {
    fn name(self) -> &'static str {
        match self {
            How::TwoPhase => "two-phase",
            How::Independent => "independent",
            How::Calls => "calls",
        }
    }
}

/// The stages in milliseconds, on average over the ranks.
fn table(entries: &[Entry]) -> Table {
    let header = [
        "collective",
        "time s",
        "MB/s",
        "sessions",
        "requests",
        "rounds",
        "pairs",
        "exchanged MB",
        "wire MB",
    ];
    let stages = Stage::ALL.map(|stage| format!("{} ms", stage.name()));
    let mut table = Table::new(header.into_iter().map(str::to_owned).chain(stages));
    for entry in entries {
        let of_two_phases = |text: String| if entry.rounds > 0 { text } else { "-".to_owned() };
        let megabytes = |bytes: u64| of_two_phases(format!("{:.1}", bytes as f64 / 1e6));
        let mut cells = vec![
            entry.collective.clone(),
            format!("{:.3}", entry.write_s),
            format!("{:.1}", entry.write_bytes_per_s / 1e6),
            entry.sessions.to_string(),
            of_two_phases(entry.requests.to_string()),
            of_two_phases(entry.rounds.to_string()),
            of_two_phases(entry.pairs.to_string()),
            megabytes(entry.exchanged_bytes),
            megabytes(entry.wire_bytes),
        ];
        cells.extend(entry.stages_s.map(|stage| of_two_phases(format!("{:.1}", stage * 1e3))));
        table.push(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_has_every_record_once() {
        for layout in [Layout::Interleaved, Layout::Tile, Layout::Mesh, Layout::Blocks] {
            for ranks in [1, 2, 6, 64] {
                let mut places: Vec<u64> =
                    layout.places(ranks, 8, 64 * 8 * 30).into_iter().flatten().collect();
                places.sort_unstable();
                let expected: Vec<u64> = (0..places.len() as u64).map(|i| i * 8).collect();
                assert_eq!(places, expected, "{layout:?}, {ranks} ranks");
            }
        }
    }
}
