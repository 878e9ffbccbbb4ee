//! Publishing a record: a staged one becomes the record of its number, for good.
//!
//! ```text
//!  Queued ──▶ Reading ──▶ Finding ──▶ Syncing ──▶ Renaming ──▶ published
//!             staged,     the runs    staged      never over    (its folder is
//!             N, N − 1    it adds                 another one     synced)
//!                └──────────── N is the same record ──▶ Confirming ──▶ published
//! ```
//!
//! Nobody writes to the staged record from the moment on at which it is read, so what was checked is what is published.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::context::Context;
use super::rights::Right;
use crate::dataset::DatasetPath;
use crate::name::SubfilePath;
use crate::remote_error::{ErrorKind, RemoteError};
use crate::replication::{self, BadSuccessor, MAX_RECORD_BYTES, RunId, SignedRecord};
use crate::store::{DiskAction, DiskReply, Ticket};
use crate::transport::Transport;

/// A record that is being published.
#[derive(Debug)]
pub(super) struct Publication {
    claim: Claim,
    stage: Stage,
}

/// What the client says.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) dataset: DatasetPath,
    /// What the record was staged as.
    pub(super) staged: RunId,
    pub(super) number: u64,
}

/// Which file of those that are read first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Staged,
    Occupant,
    Predecessor,
}

#[derive(Debug)]
enum Stage {
    Queued,
    Reading { tickets: BTreeMap<Ticket, Which>, found: Found },
    Finding { tickets: BTreeMap<Ticket, RunId>, proposal: Box<Proposal> },
    Syncing(Box<Proposal>),
    Renaming(Box<Proposal>),
    Confirming(Box<SignedRecord>),
}

/// The files that decide, as they are on the disk; one that is too long is as good as an empty one.
#[derive(Debug, Clone, Default)]
struct Found {
    staged: Option<Bytes>,
    /// What has the number already.
    occupant: Option<Bytes>,
    predecessor: Option<Bytes>,
}

/// A record that may be published if the runs are there that it adds.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Proposal {
    record: SignedRecord,
    new_runs: Vec<RunId>,
    newly_condemned: Vec<RunId>,
    /// Those of them that no record has named: nobody can be reading what they have left.
    unpublished: BTreeSet<RunId>,
    /// Whether what has the number is damaged, and is replaced.
    replaces: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    /// It was published before.
    Published(SignedRecord),
    /// It may be published.
    Proposed(Proposal),
}

/// A member as far as publishing is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Standing {
    name: String,
    key: [u8; 32],
    right: Right,
}

impl Publication {
    pub(super) fn new(claim: Claim) -> Publication {
        Publication { claim, stage: Stage::Queued }
    }

    /// Begins if it has not begun; says whether it has now.
    ///
    /// # Errors
    /// If the staged record is still being written.
    pub(super) fn begin<T: Transport>(&mut self, cx: &mut Context<'_, T>) -> Result<bool, RemoteError> {
        if !matches!(self.stage, Stage::Queued) {
            return Ok(false);
        }
        let Claim { dataset, staged, number } = &self.claim;
        let staged = dataset.staged(staged);
        if cx.shared.disk.is_busy_at(&staged) {
            return Err(RemoteError::new(ErrorKind::Claimed, staged.to_string()));
        }
        cx.shared.admission.write_once().seal(&staged);
        let mut read = |path: &SubfilePath, which| {
            (cx.submit(path, DiskAction::ReadWhole { limit: MAX_RECORD_BYTES as u64 }, 0), which)
        };
        let mut tickets =
            BTreeMap::from([read(&staged, Which::Staged), read(&dataset.commit(*number), Which::Occupant)]);
        if *number > 1 {
            tickets.extend([read(&dataset.commit(number - 1), Which::Predecessor)]);
        }
        self.stage = Stage::Reading { tickets, found: Found::default() };
        Ok(true)
    }

    /// A disk operation has ended. Says whether the record is published.
    ///
    /// # Errors
    /// Why it is not.
    pub(super) fn completed<T: Transport>(
        &mut self,
        ticket: Ticket,
        outcome: Result<DiskReply, RemoteError>,
        cx: &mut Context<'_, T>,
    ) -> Result<bool, RemoteError> {
        match &mut self.stage {
            Stage::Queued => return Ok(false),
            Stage::Reading { tickets, found } => {
                if let Some(which) = tickets.remove(&ticket) {
                    found.take(which, outcome)?;
                }
                if tickets.is_empty() {
                    let found = std::mem::take(found);
                    return self.decide(&found, cx).map(|()| false);
                }
            }
            Stage::Finding { tickets, .. } => {
                if let Some(run) = tickets.remove(&ticket) {
                    outcome.map_err(|error| missing_object(run, error))?;
                }
                if tickets.is_empty()
                    && let Stage::Finding { proposal, .. } = self.take_stage()
                {
                    return self.sync(proposal, cx).map(|()| false);
                }
            }
            Stage::Syncing(_) => {
                outcome?;
                if let Stage::Syncing(proposal) = self.take_stage() {
                    self.rename(proposal, cx);
                }
            }
            Stage::Renaming(proposal) => {
                outcome.map_err(|error| self.claim.renaming_failed(error))?;
                // Not before: if another record is published instead, that one may name such a run.
                for run in &proposal.unpublished {
                    cx.shared.grace.unread(self.claim.dataset.clone(), *run);
                }
                seal_objects(&self.claim.dataset, &proposal.record, cx);
                return Ok(true);
            }
            Stage::Confirming(record) => {
                outcome?;
                seal_objects(&self.claim.dataset, record, cx);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The stage that ends; the next one takes its place.
    fn take_stage(&mut self) -> Stage {
        std::mem::replace(&mut self.stage, Stage::Queued)
    }

    fn decide<T: Transport>(&mut self, found: &Found, cx: &mut Context<'_, T>) -> Result<(), RemoteError> {
        let publisher = standing(&cx.client_name()?, &self.claim.dataset, cx)
            .ok_or_else(|| RemoteError::new(ErrorKind::PermissionDenied, "no member"))?;
        let verdict = self.claim.judge(&publisher, |name| standing(name, &self.claim.dataset, cx), found)?;
        match verdict {
            Verdict::Published(record) => {
                cx.sync(&self.claim.dataset.commit(self.claim.number))?;
                self.stage = Stage::Confirming(Box::new(record));
            }
            Verdict::Proposed(proposal) => {
                let find =
                    |run: &RunId| (cx.submit(&self.claim.dataset.object(run), DiskAction::Size, 0), *run);
                let tickets: BTreeMap<Ticket, RunId> = proposal.new_runs.iter().map(find).collect();
                let proposal = Box::new(proposal);
                match tickets.is_empty() {
                    true => self.sync(proposal, cx)?,
                    false => self.stage = Stage::Finding { tickets, proposal },
                }
            }
        }
        Ok(())
    }

    /// Makes the staged record durable: the client that staged it may have had no time to.
    fn sync<T: Transport>(
        &mut self,
        proposal: Box<Proposal>,
        cx: &mut Context<'_, T>,
    ) -> Result<(), RemoteError> {
        cx.sync(&self.claim.dataset.staged(self.claim.staged))?;
        self.stage = Stage::Syncing(proposal);
        Ok(())
    }

    fn rename<T: Transport>(&mut self, proposal: Box<Proposal>, cx: &mut Context<'_, T>) {
        let Claim { dataset, staged, number } = &self.claim;
        // The runs are noted before the record condemns them, so that their grace counts from the beginning. If the
        // record is not published, the note does no harm.
        for run in &proposal.newly_condemned {
            cx.shared.grace.condemned(cx.now, dataset.clone(), *run);
        }
        let target = dataset.commit(*number);
        let action = DiskAction::Rename { target, replace: proposal.replaces, durable: true };
        cx.submit(&dataset.staged(staged), action, 0);
        self.stage = Stage::Renaming(proposal);
    }
}

/// What is published is not written to any more, by its own run either.
fn seal_objects<T: Transport>(dataset: &DatasetPath, record: &SignedRecord, cx: &mut Context<'_, T>) {
    for entry in &record.objects {
        cx.shared.admission.write_once().seal(&dataset.object(entry.run));
    }
}

fn standing<T: Transport>(name: &str, dataset: &DatasetPath, cx: &Context<'_, T>) -> Option<Standing> {
    let member = cx.transport.find_member(name)?;
    let right = cx.shared.admission.access().right(name, dataset.folder());
    Some(Standing { name: name.to_owned(), key: cx.transport.signing_key(member), right })
}

fn missing_object(run: RunId, error: RemoteError) -> RemoteError {
    match error.kind {
        ErrorKind::NotFound => {
            RemoteError::new(ErrorKind::BadRecord, format!("it names run {run}, of which nothing is here"))
        }
        _ => error,
    }
}

impl Found {
    fn take(&mut self, which: Which, outcome: Result<DiskReply, RemoteError>) -> Result<(), RemoteError> {
        let bytes = match outcome {
            Ok(reply) => Some(reply.data),
            Err(error) if error.kind == ErrorKind::NotFound => None,
            Err(error) if error.kind == ErrorKind::FileTooLarge && which != Which::Staged => {
                Some(Bytes::new())
            }
            Err(error) => return Err(error),
        };
        match which {
            Which::Staged => self.staged = bytes,
            Which::Occupant => self.occupant = bytes,
            Which::Predecessor => self.predecessor = bytes,
        }
        Ok(())
    }
}

impl Claim {
    /// Whether the staged record may become the one of its number, for that publisher.
    fn judge(
        &self,
        publisher: &Standing,
        member: impl Fn(&str) -> Option<Standing>,
        found: &Found,
    ) -> Result<Verdict, RemoteError> {
        let occupant = found.occupant.clone().map(SignedRecord::parse);
        let Some(staged) = found.staged.clone() else { return self.judge_without_staged(occupant) };
        let bad = |text: String| RemoteError::new(ErrorKind::BadRecord, text);
        let record =
            SignedRecord::parse(staged).map_err(|error| bad(format!("the staged record: {error}")))?;
        match &occupant {
            Some(Ok(occupant)) if *occupant == record => return Ok(Verdict::Published(record)),
            Some(Ok(occupant)) => return Err(self.taken(occupant)),
            Some(Err(damage)) if publisher.right < Right::ReadWrite => {
                let number = self.number;
                return Err(bad(format!(
                    "record {number} here is damaged, and only read-write replaces it: {damage}"
                )));
            }
            Some(Err(_)) | None => {}
        }
        if record.number != self.number {
            return Err(bad(format!("it is record {}, not {}", record.number, self.number)));
        }
        if SubfilePath::new(&record.name).as_ref() != Ok(self.dataset.folder()) {
            return Err(bad(format!("it is a record of {}, not of {}", record.name, self.dataset)));
        }
        let predecessor = match self.predecessor(found) {
            Err(_) if gives_up(publisher, &record) => None,
            predecessor => {
                let predecessor = predecessor?;
                let right = allowance(publisher, member, &record)?;
                record.check_successor(predecessor.as_ref(), right).map_err(|error| refusal(&error))?;
                predecessor
            }
        };
        let before = predecessor.as_deref();
        let condemned_before = |run: &RunId| before.is_some_and(|before| before.condemned.contains(run));
        let newly_condemned: Vec<RunId> =
            record.condemned.iter().copied().filter(|run| !condemned_before(run)).collect();
        let named_before: BTreeSet<RunId> =
            before.iter().flat_map(|before| before.objects.iter()).map(|entry| entry.run).collect();
        // Where the record before is lost, nobody can tell which runs it named.
        let is_known = before.is_some() || record.number == 1;
        let was_named = |run: &RunId| !is_known || named_before.contains(run);
        Ok(Verdict::Proposed(Proposal {
            new_runs: record.new_runs(before),
            unpublished: newly_condemned.iter().copied().filter(|run| !was_named(run)).collect(),
            newly_condemned,
            replaces: occupant.is_some(),
            record,
        }))
    }

    /// The staged record is gone: perhaps because it was published, and the reply was lost.
    fn judge_without_staged(
        &self,
        occupant: Option<Result<SignedRecord, replication::BadRecord>>,
    ) -> Result<Verdict, RemoteError> {
        match occupant {
            Some(Ok(occupant)) if occupant.run == self.staged => Ok(Verdict::Published(occupant)),
            Some(Ok(occupant)) => Err(self.taken(&occupant)),
            Some(Err(_)) | None => {
                let staged = self.dataset.staged(self.staged);
                Err(RemoteError::new(ErrorKind::NotFound, staged.to_string()))
            }
        }
    }

    fn predecessor(&self, found: &Found) -> Result<Option<SignedRecord>, RemoteError> {
        let before = self.number - 1;
        match found.predecessor.clone() {
            _ if before == 0 => Ok(None),
            None => {
                let text = format!("this I/O node has no record {before} of {}", self.dataset);
                Err(RemoteError::new(ErrorKind::Stale, text))
            }
            Some(bytes) => SignedRecord::parse(bytes).map(Some).map_err(|error| {
                RemoteError::new(ErrorKind::BadRecord, format!("record {before} here is damaged: {error}"))
            }),
        }
    }

    fn taken(&self, occupant: &SignedRecord) -> RemoteError {
        let (run, member) = (occupant.run, &occupant.signer.member);
        RemoteError::new(ErrorKind::Taken, format!("record {} is of run {run}, by {member}", self.number))
    }

    /// Nothing else publishes meanwhile, unless somebody does so on the disk itself.
    fn renaming_failed(&self, error: RemoteError) -> RemoteError {
        match error.kind {
            ErrorKind::AlreadyExists => RemoteError::new(ErrorKind::Taken, format!("record {}", self.number)),
            _ => error,
        }
    }
}

/// Whether the record ends what was before, by a member that may do everything: then it need not follow what this I/O
/// node has lost. It has no generation, so that nothing that is published depends on what it condemns.
fn gives_up(publisher: &Standing, record: &SignedRecord) -> bool {
    record.is_removed() && publisher.right == Right::ReadWrite
}

/// What the record may do. A member that publishes a record of its own has its own right. One that brings another
/// member's record from where it was published has the signer's, if the signer is a member, or its own if it may do
/// everything anyway.
fn allowance(
    publisher: &Standing,
    member: impl Fn(&str) -> Option<Standing>,
    record: &SignedRecord,
) -> Result<replication::Right, RemoteError> {
    let is_signer =
        |standing: &Standing| standing.name == record.signer.member && standing.key == record.signer.key;
    let right = match publisher.right {
        right if is_signer(publisher) => right,
        Right::ReadWrite => Right::ReadWrite,
        _ => {
            let signer = member(&record.signer.member).filter(is_signer);
            let text = || format!("it is signed by {}, who is no member with that key", record.signer.member);
            signer.ok_or_else(|| RemoteError::new(ErrorKind::PermissionDenied, text()))?.right
        }
    };
    match right {
        Right::ReadWrite => Ok(replication::Right::ReadWrite),
        Right::Append => Ok(replication::Right::Append),
        Right::None | Right::Read => {
            let text = format!("{} may not publish here", record.signer.member);
            Err(RemoteError::new(ErrorKind::PermissionDenied, text))
        }
    }
}

fn refusal(error: &BadSuccessor) -> RemoteError {
    let kind = match error {
        BadSuccessor::Stale { .. } => ErrorKind::Stale,
        BadSuccessor::Right(_) => ErrorKind::AppendOnly,
        _ => ErrorKind::BadRecord,
    };
    RemoteError::new(kind, error.to_string())
}

#[cfg(test)]
mod tests;
