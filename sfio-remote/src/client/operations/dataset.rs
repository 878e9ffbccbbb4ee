//! What an I/O node does for data sets: listing folders, publishing records, marks of readers, reclaiming.

use crate::client::error::{OperationError, ProtocolError};
use crate::client::files::Durability;
use crate::client::operation::{Operation, Plan, Planning};
use crate::client::part::Part;
use crate::client::stage::Stage;
use crate::dataset::DatasetPath;
use crate::name::{EntryName, SubfilePath};
use crate::replication::RunId;
use crate::store::Listing;
use crate::wire::{MAX_LISTING_BYTES, RequestKind, parse_listing};

/// Ask what a folder of an I/O node holds, as much as one reply has room for. A folder that does not exist holds
/// nothing.
#[derive(Debug, Clone)]
pub struct List {
    /// The I/O node's name.
    pub member: String,
    /// The folder, which may be the export root.
    pub folder: SubfilePath,
    /// Only what comes behind this name; none: from the beginning.
    pub after: Option<EntryName>,
    /// Whether the names that it tells survive a power loss once they are told.
    pub durability: Durability,
}

/// Make a staged record the one of its number on one I/O node. That may be asked again: what was published stays so.
#[derive(Debug, Clone)]
pub struct Publish {
    /// The I/O node's name.
    pub member: String,
    /// The data set.
    pub dataset: DatasetPath,
    /// What the record was staged as.
    pub staged: RunId,
    /// The record's number.
    pub number: u64,
}

/// Say that this process reads a data set, so that nothing of it is reclaimed for a while.
#[derive(Debug, Clone)]
pub struct Mark {
    /// The I/O node's name.
    pub member: String,
    /// The data set.
    pub dataset: DatasetPath,
}

/// Remove what a condemned run sent to one I/O node, unless a reader may still need it.
#[derive(Debug, Clone)]
pub struct Reclaim {
    /// The I/O node's name.
    pub member: String,
    /// The data set.
    pub dataset: DatasetPath,
    /// The run.
    pub run: RunId,
    /// The number of the newest record, which condemns it.
    pub number: u64,
}

impl Operation for List {
    type Answer = Listing;

    fn plan(self, planning: &Planning<'_>) -> Result<Plan<Listing>, OperationError> {
        let List { member, folder, after, durability } = self;
        let after_name = after.clone();
        let kind = RequestKind::List { folder, after };
        let part = Part::asking(planning.member(&member)?, kind, MAX_LISTING_BYTES);
        Ok(Stage::new(vec![part]).durable(durability.is_immediate()).answers(move |stage| {
            let page = parse_listing(stage.reply()).map_err(ProtocolError::from);
            let page = page.and_then(|page| check_page(page, after_name.as_ref()));
            page.map_err(|error| OperationError::Protocol { member, error })
        }))
    }
}

/// Whoever asks for page after page behind the last name comes to an end only if each page goes on.
fn check_page(page: Listing, after: Option<&EntryName>) -> Result<Listing, ProtocolError> {
    let goes_on = match page.entries.first() {
        Some(first) => after.is_none_or(|after| first.name > *after),
        None => !page.more,
    };
    let after = || after.map(ToString::to_string).unwrap_or_default();
    if goes_on { Ok(page) } else { Err(ProtocolError::Page(after())) }
}

impl Operation for Publish {
    type Answer = ();

    fn plan(self, planning: &Planning<'_>) -> Result<Plan<()>, OperationError> {
        let Publish { member, dataset, staged, number } = self;
        ask(&member, RequestKind::Publish { dataset, staged, number }, planning)
    }
}

impl Operation for Mark {
    type Answer = ();

    fn plan(self, planning: &Planning<'_>) -> Result<Plan<()>, OperationError> {
        ask(&self.member, RequestKind::Mark { dataset: self.dataset }, planning)
    }
}

impl Operation for Reclaim {
    type Answer = ();

    fn plan(self, planning: &Planning<'_>) -> Result<Plan<()>, OperationError> {
        let Reclaim { member, dataset, run, number } = self;
        ask(&member, RequestKind::Reclaim { dataset, run, number }, planning)
    }
}

/// One request to one I/O node that answers nothing but whether it is done.
fn ask(member: &str, kind: RequestKind, planning: &Planning<'_>) -> Result<Plan<()>, OperationError> {
    let part = Part::single(planning.member(member)?, kind);
    Ok(Stage::new(vec![part]).answers(|_| Ok(())))
}
