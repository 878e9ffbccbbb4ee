//! `sfio sync`: a tree becomes a data set's next generation, or a generation becomes a tree.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::ArgMatches;
use sfio_remote::io::replication::{
    Attributes, Deletion, Filter, Meter, RestoreOptions, SendOptions, Sent, SiteStore, restore, send,
};
use sfio_remote::replication::{Compression, Token};
use tokio::task::JoinHandle;

use super::address::{Address, Place};
use super::board::Board;
use super::paths::PathLines;
use super::rate::Limit;
use super::report::{report, teller};
use super::{cache, choose, existing, failure, manifest};
use crate::client::{Identification, Session};
use crate::exit::{Exit, Failure, OrFail as _};

/// Replicate a tree of files to a site, or back
///
/// Exactly one of SOURCE and TARGET is a data set, SITE:NAME, where SITE is a site of the overlay file. Sending makes a
/// new generation of it: readers see all of it or nothing of it, whatever fails, and what is unchanged is neither sent nor
/// stored again. An interrupted run goes on where it was when it is started again.
///
/// Files that are gone from the source stay in the new generation unless --delete is given.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sfio sync --overlay try photos local:photos           send
  sfio sync --overlay try local:photos restored         fetch
  sfio sync --overlay try --dry-run --delete photos local:photos
  sfio generations --overlay try local:photos")]
pub(crate) struct Options {
    /// What to replicate: a directory, or SITE:NAME
    source: Place,

    /// Where to: SITE:NAME, or a directory
    target: Place,

    /// Leave out what matches, as in .gitignore; of several patterns the last that matches counts
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,

    /// Take part after all, as a line with ! in .gitignore
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,

    /// Delete what the source does not have
    #[arg(long)]
    delete: bool,

    /// Change nothing if more than so many entries would be deleted
    #[arg(long, value_name = "N", requires = "delete")]
    max_delete: Option<u64>,

    /// Say what would change, and change nothing
    #[arg(long, short = 'n')]
    dry_run: bool,

    /// Compare content even where size and time are the same
    #[arg(long)]
    checksum: bool,

    /// How to compress: auto tries a sample of each chunk first
    #[arg(long, value_enum, default_value_t)]
    compress: Compress,

    /// Replicate extended attributes of files and directories
    #[arg(long)]
    xattrs: bool,

    /// How many generations to keep, the new one included
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    keep: u16,

    /// Send or fetch no faster than this: 100Mbit/s, 12MiB/s, none
    ///
    /// A timetable is a list of rates, 10Mbit/s@08:00-18:00,100Mbit/s: the first that applies counts. @FILE reads either
    /// from a file, every second, so that it can be changed while it runs.
    #[arg(long, value_name = "RATE")]
    bwlimit: Option<Limit>,

    /// Go on: look for changes every so many seconds and send them
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "5", require_equals = true,
          conflicts_with = "dry_run", value_parser = clap::value_parser!(u64).range(1..))]
    watch: Option<u64>,

    /// When fetching, restore owners and set-uid and set-gid bits, too; owners need root
    ///
    /// Whoever may publish could so plant programs that run as another user.
    #[arg(long)]
    owners: bool,

    /// Fetch this generation and not the current one
    #[arg(long, value_name = "NUMBER")]
    generation: Option<u64>,

    /// Read so many files at once; they are sent in the same order all the same
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,

    /// Say each change
    #[arg(long, short)]
    verbose: bool,

    /// On a terminal, show below the progress what each way through the network does
    #[arg(long)]
    paths: bool,

    /// Print JSON: an object for each change, and one in the end
    #[arg(long)]
    pub(super) json: bool,

    #[command(flatten)]
    identification: Identification,

    /// The patterns in the order in which they were given.
    #[arg(skip)]
    patterns: Vec<(bool, String)>,
}

/// How to compress chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Compress {
    /// Zstandard where a sample shrinks
    #[default]
    Auto,
    /// Zstandard
    Zstd,
    /// LZ4
    Lz4,
    /// Not at all
    None,
}

impl From<Compress> for Compression {
    fn from(compress: Compress) -> Compression {
        match compress {
            Compress::Auto => Compression::Auto,
            Compress::Zstd => Compression::Zstd,
            Compress::Lz4 => Compression::Lz4,
            Compress::None => Compression::None,
        }
    }
}

impl Options {
    /// clap keeps the order within an option, and between options only by position.
    pub(crate) fn order_patterns(&mut self, matches: &ArgMatches) {
        let of = |name: &str, excludes: bool| {
            let indices = matches.indices_of(name).into_iter().flatten();
            let values = matches.get_many::<String>(name).into_iter().flatten();
            indices
                .zip(values)
                .map(move |(index, value)| (index, excludes, value.clone()))
                .collect::<Vec<_>>()
        };
        let mut all = [of("exclude", true), of("include", false)].concat();
        all.sort_by_key(|(index, ..)| *index);
        self.patterns = all.into_iter().map(|(_, excludes, value)| (excludes, value)).collect();
    }

    fn filter(&self) -> Result<Filter, Failure> {
        Filter::new(self.patterns.iter().cloned()).or_fail(Exit::Usage, "--exclude or --include")
    }

    fn attributes(&self) -> Attributes {
        if self.xattrs { Attributes::Kept } else { Attributes::Ignored }
    }

    fn how_to_send(&self, session: &Session, filter: Filter) -> Result<SendOptions, Failure> {
        Ok(SendOptions {
            member: session.member_name().to_owned(),
            filter,
            attributes: self.attributes(),
            jobs: self.jobs.into(),
            compression: self.compress.into(),
            deletion: match self.delete {
                true => Deletion::AtMost(self.max_delete.unwrap_or(u64::MAX)),
                false => Deletion::Never,
            },
            distrusts_times: self.checksum,
            keep: self.keep.into(),
            now_ms: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64,
            token: random_token()?,
            is_dry_run: self.dry_run,
        })
    }

    /// Keeps the store at the limit, as long as what it gives lives.
    fn limit(&self, store: &SiteStore) -> Option<Limiting> {
        Some(Limiting(self.bwlimit.as_ref()?.keep(store.throttle())))
    }

    /// What the ways through the network do, if that is wanted.
    fn path_lines(&self, session: &Session) -> Option<PathLines> {
        self.paths.then(|| PathLines::of(session.client()))
    }

    pub(super) fn says_changes(&self) -> bool {
        self.dry_run || self.verbose || self.json
    }
}

/// The task that keeps a limit; it ends with this.
struct Limiting(JoinHandle<()>);

impl Drop for Limiting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let filter = options.filter()?;
    match (&options.source, &options.target) {
        (Place::Local(source), Place::Remote(target)) => {
            options.identification.work(async |session| match options.watch {
                None => upload(session, source, target, options, filter).await,
                Some(seconds) => watch(session, source, target, options, filter, seconds).await,
            })
        }
        (Place::Remote(source), Place::Local(target)) => options
            .identification
            .work(async |session| download(session, source, target, options, filter).await),
        _ => Err(Failure::new(Exit::Usage, "exactly one of SOURCE and TARGET must be a data set, SITE:NAME")),
    }
}

/// Sends again and again. What fails for a while, the network or a file, is said and tried again.
async fn watch(
    session: &Session,
    source: &Path,
    target: &Address,
    options: &Options,
    filter: Filter,
    seconds: u64,
) -> Result<(), Failure> {
    let mut fresh: Option<Instant> = None;
    loop {
        let began = Instant::now();
        match upload(session, source, target, options, filter.clone()).await {
            Ok(()) => fresh = Some(began),
            Err(failure) if matches!(failure.exit, Exit::Network | Exit::Partial | Exit::Locked) => {
                eprintln!("sfio: {failure}");
            }
            Err(failure) => return Err(failure),
        }
        let age = Board::of_age(fresh);
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        drop(age);
    }
}

async fn upload(
    session: &Session,
    source: &Path,
    target: &Address,
    options: &Options,
    filter: Filter,
) -> Result<(), Failure> {
    let mut store = if options.dry_run { target.reading(session)? } else { target.writing(session)? };
    let meter = Arc::<Meter>::default();
    let how = options.how_to_send(session, filter)?;
    let limiting = options.limit(&store);
    let (started, board) =
        (Instant::now(), Board::of_run("sending", Arc::clone(&meter), options.path_lines(session)));
    let sent = send(&mut store, source, &how, &cache(), &meter, teller(options)).await;
    drop((board, limiting));
    store.close().await;
    let sent = sent.map_err(|error| failure(target, &error))?;
    let generation = sent.generation;
    let line = match &sent {
        Sent { generation: None, .. } => "nothing was changed".to_owned(),
        Sent { generation: Some(number), is_new: true, .. } => {
            format!("{target} is at generation {number} now")
        }
        Sent { generation: Some(number), .. } => {
            format!("{target} stays at generation {number}: nothing has changed")
        }
    };
    report(&sent.summary, &meter, started, generation, sent.resumed_bytes, &line, options)
}

async fn download(
    session: &Session,
    source: &Address,
    target: &Path,
    options: &Options,
    filter: Filter,
) -> Result<(), Failure> {
    let store = source.reading(session)?;
    let meter = Arc::<Meter>::default();
    let limiting = options.limit(&store);
    let (started, board) =
        (Instant::now(), Board::of_run("fetching", Arc::clone(&meter), options.path_lines(session)));
    let commit = existing(&store, source).await?;
    let generation = choose(&commit, options.generation).map_err(|error| failure(source, &error))?;
    let manifest = manifest(&store, &commit, generation, source, &meter).await?;
    let top = &generation.top;
    let mut how = RestoreOptions {
        filter,
        attributes: options.attributes(),
        deletes: options.delete,
        distrusts_times: options.checksum,
        owners: options.owners,
        is_dry_run: options.dry_run,
    };
    if let Some(allowed) = options.max_delete {
        how.is_dry_run = true;
        let counted = restore(&store, &manifest, top, target, &how, &Arc::default(), |_, _| {}).await;
        let found = counted.map_err(|error| failure(source, &error))?.deleted;
        if found > allowed {
            let message = format!("{found} entries would be deleted; --max-delete allows {allowed}");
            return Err(Failure::new(Exit::Failed, message));
        }
        how.is_dry_run = options.dry_run;
    }
    let restored = restore(&store, &manifest, top, target, &how, &meter, teller(options)).await;
    drop((board, limiting));
    let summary = restored.map_err(|error| failure(source, &error))?;
    let line = match options.dry_run {
        true => "nothing was changed".to_owned(),
        false => format!("{} is generation {} of {source} now", target.display(), generation.number),
    };
    report(&summary, &meter, started, Some(generation.number), 0, &line, options)
}

fn random_token() -> Result<Token, Failure> {
    let mut token = [0; 16];
    let random = ring::rand::SystemRandom::new();
    ring::rand::SecureRandom::fill(&random, &mut token)
        .map_err(|_| Failure::new(Exit::Failed, "the operating system gives no random numbers"))?;
    Ok(Token(token))
}
