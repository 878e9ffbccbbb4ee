//! `sfio sync` to a site: a tree becomes a data set's next generation.

use std::fs::FileType;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use program::output::Telling;
use sfio_remote::io::replication::{
    DataSet, FailureKind, Filter, Job, Meter, ReplicationError, SendOptions, Sent, send,
};
use sfio_remote::replication::TreePath;
use tokio::sync::OnceCell;

use super::super::address::Address;
use super::super::board::Board;
use super::super::failure;
use super::super::rate::Limiting;
use super::super::report::{Report, complain, teller};
use super::Options;
use crate::client::Session;
use crate::exit::{Exit, Failure, OrFail as _};
use crate::operations::WatchPage;

/// A tree that is to be sent, once or again and again.
pub(super) struct Upload<'a> {
    session: &'a Session,
    /// What any data set of the site needs.
    job: Job,
    source: PathBuf,
    target: &'a Address,
    /// What the target has proved to mean, once the site was asked.
    destination: OnceCell<Destination>,
    options: &'a Options,
    filter: Filter,
}

/// A data set, or a directory of one.
struct Destination {
    dataset: DataSet,
    address: Address,
    at: Option<TreePath>,
}

impl<'a> Upload<'a> {
    pub(super) fn new(
        session: &'a Session,
        source: &Path,
        target: &'a Address,
        options: &'a Options,
        filter: Filter,
    ) -> Result<Upload<'a>, Failure> {
        let (source, filter) = single_file(source, options, filter)?;
        let (shortest, _) = target.meanings().last().expect("a name has a meaning");
        let job = options.care.job(session, &shortest)?;
        Ok(Upload { session, job, source, target, destination: OnceCell::new(), options, filter })
    }

    /// Sends again and again. What fails is said and tried again: the network and disks come back, a source is mounted,
    /// somebody makes room or repairs. Only a wrong command line stays wrong. What is as it was at the pass before is
    /// not said again, so that a log grows only when something happens.
    pub(super) async fn watch(&self, pause: Duration) -> Result<(), Failure> {
        let page = WatchPage::serve(self.options.metrics, self.target.to_string()).await?;
        let mut fresh: Option<Instant> = None;
        let mut before = None;
        loop {
            let (began, telling) = (Instant::now(), Telling::default());
            let report = self.pass(&telling).await;
            let mut complaints = report.as_ref().map(Report::complaints).unwrap_or_default();
            let mut reasons = complaints.clone();
            match report.as_ref().map_err(Clone::clone).and_then(Report::verdict) {
                Ok(()) => fresh = Some(began),
                Err(failure) if matches!(failure.exit, Exit::Usage | Exit::Interrupted) => {
                    complain(&complaints, "");
                    return Err(failure);
                }
                Err(failure) => {
                    reasons.push(reason(&failure));
                    complaints.push(failure.to_string());
                }
            }
            let generation = report.as_ref().ok().and_then(|report| report.generation);
            page.passed(fresh.filter(|fresh| *fresh == began), generation);
            let is_as_before = before.as_ref() == Some(&reasons);
            if !is_as_before {
                complain(&complaints, &format!("{} ", time_of_day()));
            }
            if let Ok(report) = report
                && (report.is_new || !is_as_before)
            {
                report.tell(&telling, self.options);
            }
            before = Some(reasons);
            telling.finish()?;
            let age = (!self.options.quiet).then(|| Board::of_age(fresh));
            tokio::time::sleep(pause).await;
            drop(age);
        }
    }

    /// Sends once.
    pub(super) async fn run(&self) -> Result<(), Failure> {
        let telling = Telling::default();
        self.pass(&telling).await?.end(&telling, self.options)
    }

    async fn pass(&self, telling: &Telling) -> Result<Report, Failure> {
        let options = self.options;
        let job = Job { meter: Arc::default(), ..self.job.clone() };
        let meter = Arc::clone(&job.meter);
        options.care.follow(self.session, &meter);
        let limiting = Limiting::of(options.bwlimit.as_ref(), job.dataset.throttle());
        let (started, board) = (Instant::now(), options.board("sending", &meter, self.session));
        let found = self.destination.get_or_try_init(async || destination(&job, self.target).await).await?;
        let Destination { dataset, address: target, at } = found;
        let job = Job { dataset: dataset.clone(), ..job };
        let how = SendOptions { at: at.clone(), ..options.how_to_send(self.filter.clone()) };
        let sent = send(&job, &self.source, &how, teller(options, telling)).await;
        drop((board, limiting));
        let Sent { summary, generation, is_new, resumed_bytes: resumed, mended, unreadable } =
            sent.map_err(|error| failure_to_send(target, &error))?;
        self.session.outages().end_all();
        let unreadable = unreadable.iter().map(|generation| {
            format!("{target}: the manifest of generation {generation} is damaged and cannot be read")
        });
        let line = match generation {
            None => "nothing was changed".to_owned(),
            Some(number) if is_new => format!("{target} is at generation {number} now"),
            Some(number) => format!("{target} stays at generation {number}: nothing has changed"),
        };
        let line = if options.watch.is_some() { format!("{} {line}", time_of_day()) } else { line };
        let (took, bytes, warnings) =
            (started.elapsed(), Meter::get(&meter.bytes_done), unreadable.collect());
        Ok(Report { summary, meter, bytes, took, generation, is_new, resumed, mended, warnings, line })
    }
}

/// What a run that has filled a disk has sent is there for the next one.
fn failure_to_send(target: &Address, error: &ReplicationError) -> Failure {
    match error {
        ReplicationError::Site(_) | ReplicationError::Halfway { .. }
            if error.kind() == FailureKind::NoSpace =>
        {
            let remedy = format!(
                "once there is room, the next run goes on from here; `sfio forget {target} --unfinished` gives up what \
                 this one has sent"
            );
            Failure::new(Exit::NoSpace, format!("{target}: {error}; {remedy}"))
        }
        error => failure(target, error),
    }
}

/// Why a pass failed: the same from pass to pass, whatever runs, offsets and counts it names.
fn reason(failure: &Failure) -> String {
    let text = failure.to_string();
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let is_run = |word: &str| word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words = text.split(|c: char| !c.is_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !is_number(word) && !is_run(word)).collect();
    format!("{:?} {}", failure.exit, words.join(" "))
}

/// A run that goes on for days says when things happened.
fn time_of_day() -> impl std::fmt::Display {
    jiff::Zoned::now().strftime("%F %T")
}

/// The directory that is sent, and what of it: of a single file, the one that it is in, and nothing else.
fn single_file(source: &Path, options: &Options, filter: Filter) -> Result<(PathBuf, Filter), Failure> {
    let there = source.symlink_metadata();
    if let Ok(metadata) = &there {
        refuse_special(source, metadata.file_type())?;
    }
    // A link to a directory is that directory; any other link is an entry of its own, also one that leads nowhere.
    let is_tree = source.metadata().map_or(there.is_err(), |metadata| metadata.is_dir());
    let Some(name) = source.file_name().filter(|_| !is_tree) else {
        return Ok((source.to_owned(), filter));
    };
    if !options.patterns.are_none() {
        let message = format!("{} is one file: patterns and lists choose among many", source.display());
        return Err(Failure::new(Exit::Usage, message));
    }
    let only = TreePath::new(name.as_bytes().to_vec()).expect("the name of a file");
    let directory = source.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    Ok((directory.to_owned(), filter.only([only].into())))
}

/// A pipe, socket or device within a tree is left out; as the source itself nothing would be left to send.
fn refuse_special(source: &Path, kind: FileType) -> Result<(), Failure> {
    let what = match () {
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () if kind.is_block_device() || kind.is_char_device() => "a device",
        () => return Ok(()),
    };
    let message =
        format!("{} is {what}: what is sent is a directory, a file or a symbolic link", source.display());
    Err(Failure::new(Exit::Input, message))
}

/// Where a tree is sent that is to have this name: to the data set of that name; or to a directory of one that has a
/// shorter name; or to a new data set.
async fn destination(job: &Job, target: &Address) -> Result<Destination, Failure> {
    let named = |address: &Address| job.dataset.named(address.dataset().clone());
    let meanings: Vec<(Address, Option<TreePath>)> = target.meanings().collect();
    // A name without a slash has one meaning, and nothing need be asked.
    let asked = if meanings.len() > 1 { &meanings[..] } else { &[] };
    for (address, at) in asked {
        let Ok(dataset) = named(address) else { continue };
        let view = Job { dataset: dataset.clone(), ..job.clone() }.open().await;
        let is_there = match (view, at) {
            // One that was removed is there, too: its numbers go on.
            (Ok(view), None) => view.newest.is_some(),
            (Ok(view), Some(_)) => view.existing().is_ok(),
            // What this member may not look at, it cannot mean.
            (Err(error), Some(_)) if error.kind() == FailureKind::Failed => false,
            (Err(error), _) => return Err(failure(address, &error)),
        };
        if is_there {
            return Ok(Destination { dataset, address: address.clone(), at: at.clone() });
        }
    }
    let dataset = named(target).or_fail(Exit::Usage, target)?;
    Ok(Destination { dataset, address: target.clone(), at: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One gave an empty generation, with code 0.
    #[test]
    fn devices_are_no_sources() {
        let folder = tempfile::tempdir().expect("a folder");
        let kind = Path::new("/dev/zero").symlink_metadata().expect("it is there").file_type();
        let refusal = refuse_special(Path::new("/dev/zero"), kind).expect_err("nothing is left to send");
        assert_eq!(refusal.exit, Exit::Input);
        assert!(refusal.to_string().starts_with("/dev/zero is a device: "), "{refusal}");
        let kind = folder.path().symlink_metadata().expect("it is there").file_type();
        assert!(refuse_special(folder.path(), kind).is_ok());
    }

    #[test]
    fn a_reason_is_the_same_from_run_to_run() {
        let full = |io_node: &str, run: &str, at: u64| {
            let text = format!("local:w: {io_node},w/objects/{run}: no space left: write at {at}");
            reason(&Failure::new(Exit::NoSpace, text))
        };
        let first = full("io1", "85d1b60f0af3b86fc908007943718540", 5);
        assert_eq!(first, full("io1", "00d1b60f0af3b86fc908007943718541", 77));
        assert_ne!(first, full("io2", "85d1b60f0af3b86fc908007943718540", 5));
    }
}
