//! Syncs, and what must be remembered when one fails.
//!
//! After a failed fsync the operating system may have dropped the data and calls the pages clean, so that the next
//! fsync succeeds and says nothing about it. Therefore syncs of one subfile run one after the other, and after one has
//! failed all later ones fail, too, until the subfile is made anew: removed, or cut to nothing. Disks remember that for
//! the processes to come (`io::disk`).
//!
//! The syncs that are asked for while one runs are all served by the next one: everything that they are to make durable
//! has been written before it begins. So the durable writes of many clients to one subfile cost two syncs at a time,
//! however many they are.

use std::collections::{BTreeMap, BTreeSet};

use crate::name::SubfilePath;
use crate::remote_error::ErrorKind;
use crate::store::{DiskAction, DiskError, DiskOperation, SystemCall, Ticket};

/// The most subfiles with a failed sync that are told apart; beyond that every subfile counts as one.
const MAX_LOST: usize = 4_096;

/// The running and waiting syncs of every subfile, and the subfiles of which one failed.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    /// Subfiles with a running sync.
    running: BTreeMap<SubfilePath, Running>,
    lost: BTreeSet<SubfilePath>,
    all_lost: bool,
}

/// A running sync.
#[derive(Debug)]
struct Running {
    ticket: Ticket,
    /// The syncs that it serves, beside the one that it was started for.
    served: Vec<Ticket>,
    /// The syncs that were asked for since it began: it may miss what they are to make durable.
    waiting: Vec<DiskOperation>,
}

/// What follows from the end of a sync.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ended {
    /// The sync that runs next.
    pub(super) next: Option<DiskOperation>,
    /// The syncs that end with this one, with the same outcome.
    pub(super) with_it: Vec<Ticket>,
    /// The syncs that would be of no use any more.
    pub(super) useless: Vec<Ticket>,
}

/// What a finished disk operation means for later syncs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Aftermath {
    /// Nothing.
    None,
    /// It was a sync.
    Sync,
    /// What was written before is gone by the caller's will.
    Anew,
    /// The subfile has another path.
    Moved(SubfilePath),
}

impl Aftermath {
    pub(super) fn of(action: &DiskAction) -> Aftermath {
        match action {
            DiskAction::Sync => Aftermath::Sync,
            DiskAction::Remove { .. }
            | DiskAction::Create { truncate: true, .. }
            | DiskAction::Create { exclusive: true, .. }
            | DiskAction::SetLength { length: 0 } => Aftermath::Anew,
            DiskAction::Rename { target, .. } => Aftermath::Moved(target.clone()),
            _ => Aftermath::None,
        }
    }
}

impl Syncs {
    /// Lets a sync run if none of that subfile is running, else keeps it for later; refuses it if one failed before.
    pub(super) fn admit(&mut self, operation: DiskOperation) -> Result<Option<DiskOperation>, DiskError> {
        self.refuse_lost(&operation.path)?;
        match self.running.get_mut(&operation.path) {
            Some(running) => {
                running.waiting.push(operation);
                Ok(None)
            }
            None => {
                self.run(&operation, Vec::new());
                Ok(Some(operation))
            }
        }
    }

    fn run(&mut self, operation: &DiskOperation, served: Vec<Ticket>) {
        let running = Running { ticket: operation.ticket, served, waiting: Vec::new() };
        self.running.insert(operation.path.clone(), running);
    }

    /// Nobody waits for this sync of `path` any more, which the disk has not begun. Says whether it is not needed: it
    /// is if it serves others.
    pub(super) fn cancel(&mut self, path: &SubfilePath, ticket: Ticket) -> bool {
        let Some(running) = self.running.get_mut(path) else { return true };
        if running.ticket != ticket {
            running.served.retain(|other| *other != ticket);
            running.waiting.retain(|operation| operation.ticket != ticket);
            return true;
        }
        let is_alone = running.served.is_empty() && running.waiting.is_empty();
        if is_alone {
            self.running.remove(path);
        }
        is_alone
    }

    /// The sync of `path` has ended.
    pub(super) fn ended(&mut self, path: &SubfilePath, failure: Option<&DiskError>) -> Ended {
        let Some(Running { served: with_it, waiting, .. }) = self.running.remove(path) else {
            return Ended::default();
        };
        // What could not be opened was not synced, and has lost nothing by that.
        if failure.is_some_and(|error| error.call != SystemCall::Open) {
            self.mark_lost(path);
            let useless = waiting.iter().map(|operation| operation.ticket).collect();
            return Ended { next: None, with_it, useless };
        }
        if let [next, served @ ..] = &waiting[..] {
            self.run(next, served.iter().map(|operation| operation.ticket).collect());
        }
        Ended { next: waiting.into_iter().next(), with_it, useless: Vec::new() }
    }

    /// An operation with that aftermath succeeded on `path`.
    pub(super) fn succeeded(&mut self, path: &SubfilePath, aftermath: Aftermath) {
        match aftermath {
            Aftermath::None | Aftermath::Sync => {}
            Aftermath::Anew => drop(self.lost.remove(path)),
            Aftermath::Moved(target) => {
                if self.lost.remove(path) {
                    self.lost.insert(target);
                } else {
                    self.lost.remove(&target);
                }
            }
        }
    }

    /// Data of `path` may be lost.
    pub(super) fn mark_lost(&mut self, path: &SubfilePath) {
        self.all_lost |= self.lost.len() >= MAX_LOST && !self.lost.contains(path);
        if !self.all_lost {
            self.lost.insert(path.clone());
        }
    }

    /// The error of a sync that cannot help any more.
    pub(super) fn refuse_lost(&self, path: &SubfilePath) -> Result<(), DiskError> {
        if self.all_lost || self.lost.contains(path) {
            return Err(DiskError::new(SystemCall::Write, ErrorKind::SyncLost, path.to_string()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> SubfilePath {
        SubfilePath::new(text).expect("a right path")
    }

    fn sync(ticket: u64) -> DiskOperation {
        DiskOperation { ticket: Ticket(ticket), path: path("a"), action: DiskAction::Sync }
    }

    fn failed(call: SystemCall) -> DiskError {
        DiskError::new(call, ErrorKind::Disk, "a")
    }

    /// A member that could only read once made every later sync of everybody fail: 4,097 syncs of what is not there
    /// counted as losses of all.
    #[test]
    fn what_could_not_be_opened_has_lost_nothing() {
        let mut syncs = Syncs::default();
        for ticket in 0..=2 * MAX_LOST as u64 {
            let operation = DiskOperation { path: path(&ticket.to_string()), ..sync(ticket) };
            let admitted = syncs.admit(operation.clone()).expect("nothing is lost").expect("none is running");
            assert_eq!(syncs.ended(&admitted.path, Some(&failed(SystemCall::Open))), Ended::default());
        }
        assert!(syncs.refuse_lost(&path("1")).is_ok());
    }

    #[test]
    fn a_sync_that_nobody_waits_for_is_not_needed_unless_it_serves_others() {
        let mut syncs = Syncs::default();
        for ticket in 1..=3 {
            let _ = syncs.admit(sync(ticket)).expect("nothing is lost");
        }
        assert!(syncs.cancel(&path("a"), Ticket(2)));
        assert!(!syncs.cancel(&path("a"), Ticket(1)), "the third waits for its end");
        assert_eq!(syncs.ended(&path("a"), None), Ended { next: Some(sync(3)), ..Ended::default() });
        assert!(syncs.cancel(&path("a"), Ticket(3)));
        assert_eq!(syncs.admit(sync(4)), Ok(Some(sync(4))), "none is running any more");
    }

    #[test]
    fn syncs_of_a_subfile_run_one_after_the_other_and_one_serves_all_that_waited() {
        let mut syncs = Syncs::default();
        assert_eq!(syncs.admit(sync(1)), Ok(Some(sync(1))));
        for waiting in 2..5 {
            assert_eq!(syncs.admit(sync(waiting)), Ok(None));
        }
        assert_eq!(syncs.ended(&path("a"), None), Ended { next: Some(sync(2)), ..Ended::default() });
        assert_eq!(syncs.admit(sync(5)), Ok(None));
        let with_it = vec![Ticket(3), Ticket(4)];
        let ended = Ended { next: Some(sync(5)), with_it, useless: Vec::new() };
        assert_eq!(syncs.ended(&path("a"), None), ended);
        assert_eq!(syncs.ended(&path("a"), None), Ended::default());
        assert_eq!(syncs.admit(sync(6)), Ok(Some(sync(6))));
    }

    #[test]
    fn after_a_failed_sync_all_that_wait_and_all_later_ones_fail() {
        let mut syncs = Syncs::default();
        assert_eq!(syncs.admit(sync(1)), Ok(Some(sync(1))));
        assert_eq!(syncs.admit(sync(2)), Ok(None));
        let useless = vec![Ticket(2)];
        assert_eq!(
            syncs.ended(&path("a"), Some(&failed(SystemCall::Write))),
            Ended { useless, ..Ended::default() }
        );
        assert_eq!(syncs.admit(sync(3)).expect_err("lost").error.kind, ErrorKind::SyncLost);
    }

    #[test]
    fn a_loss_follows_the_subfile_and_ends_with_it() {
        let mut syncs = Syncs::default();
        syncs.mark_lost(&path("a"));
        syncs.succeeded(&path("a"), Aftermath::Moved(path("b")));
        assert!(syncs.refuse_lost(&path("a")).is_ok() && syncs.refuse_lost(&path("b")).is_err());
        syncs.succeeded(&path("c"), Aftermath::Moved(path("b")));
        assert!(syncs.refuse_lost(&path("b")).is_ok());
        syncs.mark_lost(&path("b"));
        syncs.succeeded(&path("b"), Aftermath::of(&DiskAction::SetLength { length: 1 }));
        assert!(syncs.refuse_lost(&path("b")).is_err());
        syncs.succeeded(&path("b"), Aftermath::of(&DiskAction::SetLength { length: 0 }));
        assert!(syncs.refuse_lost(&path("b")).is_ok());
    }

    #[test]
    fn more_losses_than_can_be_told_apart_are_a_loss_of_all() {
        let mut syncs = Syncs::default();
        (0..MAX_LOST).for_each(|i| syncs.mark_lost(&path(&i.to_string())));
        assert!(syncs.refuse_lost(&path("a")).is_ok());
        syncs.mark_lost(&path("one more"));
        assert!(syncs.refuse_lost(&path("a")).is_err());
    }
}
