//! Reclaiming: the bytes of a run that nothing needs are removed, once no reader can need them.
//!
//! ```text
//!  Queued ──▶ Listing ──▶ Reading ──▶ Removing ──▶ done
//!             is it the    does it     journal, staged record, object
//!             newest?      condemn?
//! ```

use super::context::Context;
use crate::dataset::{DatasetPath, record_name, record_number};
use crate::name::SubfilePath;
use crate::remote_error::{ErrorKind, RemoteError};
use crate::replication::{MAX_RECORD_BYTES, RunId, SignedRecord};
use crate::store::{DiskAction, DiskReply, Listing};
use crate::transport::Transport;

/// A run whose bytes are being removed.
#[derive(Debug)]
pub(super) struct Reclamation {
    dataset: DatasetPath,
    run: RunId,
    /// The number of the record that the client takes for the newest.
    number: u64,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Queued,
    Listing,
    Reading,
    /// The first is being removed; the journal goes first, so that none tells of what is gone.
    Removing(Vec<SubfilePath>),
}

impl Reclamation {
    pub(super) fn new(dataset: DatasetPath, run: RunId, number: u64) -> Reclamation {
        Reclamation { dataset, run, number, stage: Stage::Queued }
    }

    /// Begins if it has not begun; says whether it has now.
    pub(super) fn begin<T: Transport>(&mut self, cx: &mut Context<'_, T>) -> bool {
        if !matches!(self.stage, Stage::Queued) {
            return false;
        }
        let after = Some(record_name(self.number - 1));
        cx.submit(&self.dataset.commits(), DiskAction::List { after, durable: false }, 0);
        self.stage = Stage::Listing;
        true
    }

    /// A disk operation has ended. Says whether the bytes are gone.
    ///
    /// # Errors
    /// Why they are not.
    pub(super) fn completed<T: Transport>(
        &mut self,
        outcome: Result<DiskReply, RemoteError>,
        cx: &mut Context<'_, T>,
    ) -> Result<bool, RemoteError> {
        match &mut self.stage {
            Stage::Queued => Ok(false),
            Stage::Listing => {
                self.check_newest(&outcome?.listing)?;
                let action = DiskAction::ReadWhole { limit: MAX_RECORD_BYTES as u64 };
                cx.submit(&self.dataset.commit(self.number), action, 0);
                self.stage = Stage::Reading;
                Ok(false)
            }
            Stage::Reading => {
                self.check_condemned(outcome?)?;
                self.check_grace(cx)?;
                let Reclamation { dataset, run, .. } = self;
                let files = vec![dataset.object(*run), dataset.staged(*run), dataset.journal(*run)];
                files.iter().for_each(|file| cx.shared.admission.moved(file));
                Ok(self.remove_next(files, cx))
            }
            Stage::Removing(files) => {
                match outcome {
                    Err(error) if error.kind != ErrorKind::NotFound => return Err(error),
                    _ => drop(files.pop()),
                }
                let files = std::mem::take(files);
                Ok(self.remove_next(files, cx))
            }
        }
    }

    /// Removes the last of `files`; says whether there are none any more.
    fn remove_next<T: Transport>(&mut self, files: Vec<SubfilePath>, cx: &mut Context<'_, T>) -> bool {
        let Some(next) = files.last() else {
            cx.shared.grace.removed(&self.dataset, self.run);
            return true;
        };
        cx.submit(next, DiskAction::Remove { durable: true }, 0);
        self.stage = Stage::Removing(files);
        false
    }

    /// `listing` is what there is from the record on that the client takes for the newest.
    fn check_newest(&self, listing: &Listing) -> Result<(), RemoteError> {
        let numbers: Vec<u64> =
            listing.entries.iter().filter_map(|entry| record_number(&entry.name)).collect();
        let text = match numbers[..] {
            [number] if number == self.number && !listing.more => return Ok(()),
            [] => format!("this I/O node has no record {} of {}", self.number, self.dataset),
            [.., newest] => format!("the newest record here is {newest}, not {}", self.number),
        };
        Err(RemoteError::new(ErrorKind::Stale, text))
    }

    fn check_condemned(&self, reply: DiskReply) -> Result<(), RemoteError> {
        let bad = |text: String| RemoteError::new(ErrorKind::BadRecord, text);
        let record = SignedRecord::parse(reply.data)
            .map_err(|error| bad(format!("record {} here is damaged: {error}", self.number)))?;
        match record.condemned.contains(&self.run) {
            true => Ok(()),
            false => Err(bad(format!("record {} does not condemn run {}", self.number, self.run))),
        }
    }

    fn check_grace<T: Transport>(&self, cx: &Context<'_, T>) -> Result<(), RemoteError> {
        match cx.shared.grace.remaining(cx.now, &self.dataset, self.run) {
            left if left.is_zero() => Ok(()),
            left => {
                let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
                let text = format!("readers may need run {} for {seconds} s yet", self.run);
                Err(RemoteError::new(ErrorKind::TooEarly, text))
            }
        }
    }
}
