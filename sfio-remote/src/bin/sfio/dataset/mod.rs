//! Commands on data sets: trees that a site keeps in generations.

mod address;
mod board;
mod care;
mod cat;
mod datasets;
mod diff;
mod du;
mod find;
mod forget;
mod generations;
mod listed;
mod ls;
mod paths;
mod patterns;
mod rate;
mod repair;
mod report;
pub(crate) mod sync;
mod verify;
mod wait;

pub(crate) use address::find_site;

use std::fmt;
use std::sync::Arc;

use clap::Subcommand;
use indicatif::HumanCount;
use sfio_remote::io::replication::{FailureKind, ManifestFile, Reading, ReplicationError};
use sfio_remote::replication::Generation;

use crate::exit::{Exit, Failure};
use address::Address;
use board::Board;
use care::Care;

/// Commands on data sets beside `sync`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Datasets(datasets::Options),
    Generations(generations::Options),
    Diff(diff::Options),
    Rollback(generations::RollbackOptions),
    Forget(forget::Options),
    Ls(ls::Options),
    Find(find::Options),
    Cat(cat::Options),
    Du(du::Options),
    Verify(verify::Options),
    Repair(repair::Options),
    Wait(wait::Options),
}

pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Datasets(options) => datasets::run(options),
        Command::Generations(options) => generations::list(options),
        Command::Diff(options) => diff::run(options),
        Command::Rollback(options) => generations::rollback(options),
        Command::Forget(options) => forget::run(options),
        Command::Ls(options) => ls::run(options),
        Command::Find(options) => find::run(options),
        Command::Cat(options) => cat::run(options),
        Command::Du(options) => du::run(options),
        Command::Verify(options) => verify::run(options),
        Command::Repair(options) => repair::run(options),
        Command::Wait(options) => wait::run(options),
    }
}

/// Which generation to look at.
#[derive(Debug, clap::Args)]
struct Choice {
    /// The data set: SITE:NAME, where SITE is a site of the overlay file
    dataset: Address,

    /// Another generation than the current one
    #[arg(long, value_name = "NUMBER")]
    generation: Option<u64>,

    #[command(flatten)]
    care: Care,
}

/// A generation that was looked up.
struct Opened {
    reading: Reading,
    generation: Generation,
    manifest: ManifestFile,
}

impl Choice {
    fn work(&self, work: impl AsyncFnOnce(Opened) -> Result<(), Failure>) -> Result<(), Failure> {
        self.care.work(&self.dataset, async |_, job| {
            let waiting = Board::of_waiting(Arc::clone(&job.meter));
            let opened = async {
                let reading = Reading::begin(&job).await?;
                let generation = reading.generation(self.generation)?.clone();
                let manifest = reading.manifest(&generation).await?;
                Ok(Opened { reading, generation, manifest })
            };
            let opened = opened.await.map_err(|error| failure(&self.dataset, &error))?;
            warn(&opened.reading.disagreements, &self.dataset);
            let done = work(opened).await;
            drop(waiting);
            done
        })
    }
}

/// What the I/O nodes disagree in is said, whatever the command does.
fn warn(disagreements: &[String], address: &Address) {
    for disagreement in disagreements {
        program::output::note(format_args!(
            "sfio: {address}: I/O nodes disagree: {disagreement}; `sfio repair` puts back what is missing"
        ));
    }
}

/// So many of something, in the words of a sentence.
fn counted(count: u64, one: &str, several: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{} {several}", HumanCount(count)) }
}

/// Generations, in the words of a sentence.
fn generations_of(numbers: &[u64]) -> String {
    match numbers {
        [one] => format!("generation {one}"),
        several => format!("{} generations", several.len()),
    }
}

/// What failures of temporary files name.
fn temporary_file() -> String {
    format!("a temporary file in {} (TMPDIR names the folder)", std::env::temp_dir().display())
}

/// What the user is told of a failed run; `place` is the data set or the site.
fn failure(place: &impl fmt::Display, error: &ReplicationError) -> Failure {
    let exit = match error.kind() {
        FailureKind::Failed => Exit::Failed,
        FailureKind::Input => Exit::Input,
        FailureKind::Network => Exit::Network,
        FailureKind::Integrity => Exit::Integrity,
        FailureKind::NoSpace => Exit::NoSpace,
        FailureKind::Locked => Exit::Locked,
    };
    match error {
        ReplicationError::Local { .. } | ReplicationError::NothingTakesPart(_) => Failure::new(exit, error),
        _ if exit == Exit::NoSpace => {
            let remedy =
                "what the command is to do takes a little space there, too: make room, and give it again";
            Failure::new(exit, format!("{place}: {error}; {remedy}"))
        }
        ReplicationError::Record { .. } if exit == Exit::Integrity => {
            let remedy = "`sfio repair` puts it back from another I/O node, or says what else can be done";
            Failure::new(exit, format!("{place}: {error}; {remedy}"))
        }
        _ => Failure::new(exit, format!("{place}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use sfio_remote::client::OperationError;
    use sfio_remote::io::FileError;
    use sfio_remote::remote_error::{ErrorKind, RemoteError};

    use super::*;

    /// `forget` on a full disk advised to give up what it had sent.
    #[test]
    fn a_command_that_sends_nothing_does_not_advise_to_give_that_up() {
        let error = RemoteError::new(ErrorKind::NoSpace, "io1 is full");
        let full = FileError::from(OperationError::IoNode { subfile: "io1".into(), error });
        let failure = failure(&"local:photos", &full.into());
        assert_eq!(failure.exit, Exit::NoSpace);
        assert!(!failure.to_string().contains("--unfinished"), "{failure}");
        assert!(failure.to_string().ends_with("make room, and give it again"), "{failure}");
    }
}
