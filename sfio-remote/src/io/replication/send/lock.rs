//! The lock of a data set: a courtesy that saves two runs the work of one. Nothing depends on it.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::super::error::{Outcome, ReplicationError, answer_of, is_refusal};
use super::super::job::Job;
use super::super::meter::Awaited;
use crate::client::{Durability, OpenMode, OperationError};
use crate::io::{FileError, OpenOptions, StripedFile};
use crate::remote_error::ErrorKind;

/// How long a claim may outlive the process that made it: I/O nodes miss a killed client after four seconds.
const PATIENCE: Duration = Duration::from_secs(8);
const PAUSE: Duration = Duration::from_millis(250);

/// The claim of this process, over all of its attempts.
#[derive(Debug, Default)]
pub(super) struct Lock {
    claim: Option<StripedFile>,
    /// Whether this process has had it: then it goes on without.
    was_ours: bool,
}

/// How the lock was claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claimed {
    /// Nobody had it, or nobody can have it.
    AtOnce,
    /// Somebody had it before.
    AfterWaiting,
}

impl Lock {
    /// Claims the lock. While somebody else has it, it waits as long as the claim of a dead process may last.
    pub(super) async fn claim(&mut self, job: &Job) -> Outcome<Claimed> {
        let (began, mut claimed) = (Instant::now(), Claimed::AtOnce);
        loop {
            let options = OpenOptions::new().mode(OpenMode::Claim);
            match options.open(job.dataset.client(), &job.dataset.lock()).await {
                Ok(claim) => {
                    (self.claim, self.was_ours) = (Some(claim), true);
                    return Ok(claimed);
                }
                // An earlier attempt's session may still be known to the I/O node.
                Err(error) if is_refusal(&error) || (is_claimed(&error) && self.was_ours) => {
                    return Ok(claimed);
                }
                Err(error) if !is_claimed(&error) => return Err(error.into()),
                Err(error) if began.elapsed() >= PATIENCE => return Err(ReplicationError::Locked(error)),
                Err(error) => {
                    job.meter.begin_to_wait();
                    job.meter.wait_for(Awaited::AnotherRun, holder(&error), began, PATIENCE);
                }
            }
            sleep(PAUSE).await;
            job.meter.go_on();
            claimed = Claimed::AfterWaiting;
        }
    }

    /// The lock's file was removed together with what became obsolete.
    pub(super) fn was_removed(&mut self) {
        self.claim = None;
    }

    /// Lets others write. If it does not work, the claim ends with the session.
    pub(super) async fn release(&mut self, job: &Job) {
        if self.claim.take().is_some() {
            let _ = job.dataset.client().remove(&job.dataset.lock(), Durability::None).await;
        }
    }
}

/// What the I/O node says of whoever has the lock.
fn holder(error: &FileError) -> String {
    match error {
        FileError::Operation(OperationError::IoNode { error, .. }) => error.text.clone(),
        other => other.to_string(),
    }
}

fn is_claimed(error: &FileError) -> bool {
    answer_of(error) == Some(ErrorKind::Claimed)
}
