//! `sfio sync`: a tree becomes a data set's next generation, or a generation becomes a tree.

mod direction;
mod download;
mod upload;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::ArgMatches;
use program::quantity;
use sfio_remote::io::replication::{Attributes, Deletion, Filter, Meter, RestoreOptions, SendOptions};
use sfio_remote::replication::{Compression, MAX_ORIGIN_TEXT_BYTES};

use self::direction::Direction;
use self::download::Download;
use self::upload::Upload;
use super::address::Place;
use super::board::Board;
use super::care::Care;
use super::paths::PathLines;
use super::patterns::Patterns;
use super::rate::Limit;
use crate::client::Session;
use crate::exit::{Exit, Failure};

/// Replicate a tree of files to a site, or back
///
/// Exactly one of SOURCE and TARGET is a data set, SITE:NAME, where SITE is a site of the overlay file. Sending makes a
/// new generation of it: readers see all of it or nothing of it, whatever fails, and what is unchanged is neither sent
/// nor stored again. An interrupted run goes on where it was when it is started again.
///
/// Files that are gone from the source stay in the new generation unless --delete is given. While the network is away
/// the run waits, --patience long, and then goes on where it was.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sfio sync --overlay try photos local:photos           send
  sfio sync --overlay try photos/2026 local:photos/2026  send one directory, and change nothing else
  sfio sync --overlay try local:photos restored         fetch
  sfio sync --overlay try local:photos/2026 restored    fetch one directory, or one file
  sfio sync --overlay try --dry-run --delete photos local:photos
  git ls-files -z | sfio sync --overlay try --files-from - . local:code
  sfio generations --overlay try local:photos")]
pub(crate) struct Options {
    /// What to replicate: a directory or a file, or SITE:NAME, or SITE:NAME/PATH for a directory or a file of a data
    /// set
    source: Place,

    /// Where to: SITE:NAME, or SITE:NAME/PATH for a directory of a data set, or a directory
    target: Place,

    #[command(flatten)]
    patterns: Patterns,

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

    /// When sending, how to compress: auto, never, lz4, zstd, or zstd:LEVEL with a level of -7 to 19
    ///
    /// auto compresses where that makes the data arrive sooner, and by what does so most. What is sent compressed is
    /// stored so.
    #[arg(long, value_name = "HOW", default_value_t)]
    compress: Compression,

    /// When sending, leave out what is mounted in the tree: other disks, network file systems, /proc
    #[arg(long, short = 'x')]
    one_file_system: bool,

    /// Replicate extended attributes of files and directories
    #[arg(long)]
    xattrs: bool,

    /// When sending, how many generations to keep, the new one included; who may only append keeps all
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    keep: u16,

    /// Send or fetch no faster than this: 100Mbit/s, 12MiB/s, none
    ///
    /// A timetable is a list of rates, 10Mbit/s@08:00-18:00,100Mbit/s: the first that applies counts. @FILE reads
    /// either from a file, every second, so that it can be changed while it runs.
    #[arg(long, value_name = "RATE")]
    bwlimit: Option<Limit>,

    /// When sending, go on: look for changes again and again, with a pause of so long, as 5s or 10min, and send them
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "5s", require_equals = true,
          conflicts_with = "dry_run", value_parser = pause)]
    watch: Option<Duration>,

    /// With --watch, serve a page of metrics for Prometheus at http://ADDR/metrics: since when the data set is fresh
    #[arg(long, value_name = "ADDR", requires = "watch")]
    metrics: Option<SocketAddr>,

    /// When sending, end with code 9 if another run publishes meanwhile, instead of comparing again and publishing
    /// behind it
    #[arg(long)]
    if_current: bool,

    /// When sending, name the new generation; there will be one of that name even if nothing has changed
    #[arg(long, value_name = "TEXT", value_parser = origin_text)]
    tag: Option<String>,

    /// When sending, what the generation says of where it comes from; without it the machine's name
    #[arg(long, value_name = "NAME", value_parser = origin_text)]
    host: Option<String>,

    /// When fetching, restore owners and set-uid and set-gid bits, too; owners need root
    ///
    /// Whoever may publish could so plant programs that run as another user.
    #[arg(long)]
    owners: bool,

    /// When fetching, this generation and not the current one
    #[arg(long, value_name = "NUMBER")]
    generation: Option<u64>,

    /// When sending, read so many files at once; they are sent in the same order all the same
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,

    /// Say each change
    #[arg(long, short)]
    verbose: bool,

    /// Say at the end how much was looked at, read, known, sent or fetched, and how fast
    #[arg(long, conflicts_with_all = ["quiet", "json"])]
    pub(super) stats: bool,

    /// Say nothing but what is wrong, and show no progress
    #[arg(long, short, conflicts_with_all = ["verbose", "json", "dry_run", "paths"])]
    pub(super) quiet: bool,

    /// On a terminal, show below the progress what each way through the network does
    #[arg(long)]
    paths: bool,

    /// Print JSON: an object for each change, and one in the end
    #[arg(long)]
    pub(super) json: bool,

    #[command(flatten)]
    care: Care,

    /// What is to be said of an option that would do nothing in this direction.
    #[arg(skip)]
    misplaced: Option<String>,
}

impl Options {
    /// Takes from the command line what clap does not say by itself: of several patterns the last that matches counts,
    /// so their order must be known; and options with a default must not be given where they would do nothing.
    pub(crate) fn take_from(&mut self, matches: &ArgMatches) {
        self.patterns.put_in_order(matches);
        let direction = Direction::of(&self.source, &self.target);
        self.misplaced = direction.and_then(|direction| direction.complaint(matches));
    }

    fn attributes(&self) -> Attributes {
        if self.xattrs { Attributes::Kept } else { Attributes::Ignored }
    }

    fn how_to_send(&self, filter: Filter) -> SendOptions {
        SendOptions {
            filter,
            at: None,
            obeys_ignore_files: self.patterns.sfioignore,
            attributes: self.attributes(),
            jobs: self.jobs.into(),
            compression: self.compress,
            deletion: match self.delete {
                true => Deletion::AtMost(self.max_delete.unwrap_or(u64::MAX)),
                false => Deletion::Never,
            },
            distrusts_times: self.checksum,
            keep: self.keep.into(),
            is_dry_run: self.dry_run,
            ends_when_overtaken: self.if_current,
            wants_something: self.watch.is_none(),
            is_on_one_file_system: self.one_file_system,
            host: self.host.clone().unwrap_or_else(host_name),
            tag: self.tag.clone(),
        }
    }

    fn how_to_restore(&self, filter: Filter) -> RestoreOptions {
        RestoreOptions {
            filter,
            attributes: self.attributes(),
            deletes: self.delete,
            distrusts_times: self.checksum,
            owners: self.owners,
            is_dry_run: self.dry_run,
        }
    }

    /// How far a run is, and what the ways through the network do, as far as that is wanted.
    fn board(&self, verb: &'static str, meter: &Arc<Meter>, session: &Session) -> Option<Board> {
        let paths = self.paths.then(|| PathLines::of(session.client()));
        (!self.quiet).then(|| Board::of_run(verb, Arc::clone(meter), paths))
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    pub(super) fn says_changes(&self) -> bool {
        self.dry_run || self.verbose || self.json
    }
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    if let Some(misplaced) = &options.misplaced {
        return Err(Failure::new(Exit::Usage, misplaced));
    }
    let filter = options.patterns.filter()?;
    match (&options.source, &options.target) {
        (Place::Local(source), Place::Remote(target)) => {
            let ended = options.care.as_member(async |session| {
                let upload = Upload::new(session, source, target, options, filter)?;
                match options.watch {
                    None => upload.run().await,
                    Some(pause) => upload.watch(pause).await,
                }
            });
            // Nothing but a signal ends a run that watches.
            ended.or_else(|failure| match failure.exit {
                Exit::Interrupted if options.watch.is_some() => Ok(()),
                _ => Err(failure),
            })
        }
        (Place::Remote(source), Place::Local(target)) => options
            .care
            .as_member(async |session| Download::new(session, source, target, options).run(filter).await),
        _ => Err(Failure::new(Exit::Usage, "exactly one of SOURCE and TARGET must be a data set, SITE:NAME")),
    }
}

/// What may stand beside a generation.
fn origin_text(text: &str) -> Result<String, String> {
    match text.len() {
        1..=MAX_ORIGIN_TEXT_BYTES if !text.contains(char::is_control) => Ok(text.to_owned()),
        _ => Err(format!("expected one line of 1 to {MAX_ORIGIN_TEXT_BYTES} bytes")),
    }
}

/// What this machine calls itself, or nothing if that could not be printed.
fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    origin_text(&name).unwrap_or_default()
}

/// A pause that leaves the site time for others.
fn pause(text: &str) -> Result<Duration, String> {
    let pause = quantity::duration(text)?;
    if pause >= Duration::from_secs(1) { Ok(pause) } else { Err(format!("{text} is less than 1s")) }
}
