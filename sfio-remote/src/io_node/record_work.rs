//! The requests that read and change the records of a data set, one at a time.

use super::context::Context;
use super::publication::Publication;
use super::reclamation::Reclamation;
use super::transfer::Progress;
use crate::remote_error::RemoteError;
use crate::store::{DiskReply, Ticket};
use crate::transport::Transport;

/// A request that concerns records.
#[derive(Debug)]
pub(super) enum RecordWork {
    Publication(Publication),
    Reclamation(Reclamation),
}

impl RecordWork {
    /// Begins when it is its turn.
    ///
    /// # Errors
    /// If it is not possible.
    pub(super) fn step<T: Transport>(&mut self, cx: &mut Context<'_, T>) -> Result<Progress, RemoteError> {
        if !cx.shared.turns.take(cx.member(), cx.stream()) {
            return Ok(Progress::Blocked);
        }
        let begun = match self {
            RecordWork::Publication(publication) => publication.begin(cx)?,
            RecordWork::Reclamation(reclamation) => reclamation.begin(cx),
        };
        Ok(if begun { Progress::Made } else { Progress::Blocked })
    }

    /// A disk operation has ended. Says whether all is done.
    ///
    /// # Errors
    /// If it is not possible.
    pub(super) fn completed<T: Transport>(
        &mut self,
        ticket: Ticket,
        outcome: Result<DiskReply, RemoteError>,
        cx: &mut Context<'_, T>,
    ) -> Result<bool, RemoteError> {
        match self {
            RecordWork::Publication(publication) => publication.completed(ticket, outcome, cx),
            RecordWork::Reclamation(reclamation) => reclamation.completed(outcome, cx),
        }
    }
}
