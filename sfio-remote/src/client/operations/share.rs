//! One rank's share of a collective call: what it does touches no I/O node but those that it has to do with.

use std::sync::Arc;

use super::open::Opened;
use crate::client::error::OperationError;
use crate::client::file::FileStat;
use crate::client::files::{Durability, FileId};
use crate::client::operation::{Next, Operation, Plan, Planning};
use crate::client::part::Part;
use crate::client::stage::{Stage, access_parts};
use crate::compression::Compression;
use crate::distribution::{Region, StripeUnit, SubfileIndex};
use crate::name::FileName;
use crate::request::WriteList;
use crate::wire::RequestKind;

/// Open a file that others have opened already: no I/O node is asked.
#[derive(Debug, Clone)]
pub struct Attach {
    /// Its subfiles.
    pub name: FileName,
    /// The stripe unit that it is written with.
    pub stripe_unit: StripeUnit,
    /// When its writes survive a power loss.
    pub durability: Durability,
    /// How its bytes are compressed on their way.
    pub compression: Compression,
    /// A length that it has at least, in bytes.
    pub length: u64,
}

/// Write regions, and extend no subfile beyond what is written to it: whoever collects the shares of a call does that
/// when all of them are written.
#[derive(Debug)]
pub struct WriteShare {
    /// The file.
    pub file: FileId,
    /// What to write.
    pub list: WriteList,
}

/// Do something with some of a file's subfiles.
#[derive(Debug, Clone)]
pub struct Keep {
    /// The file.
    pub file: FileId,
    /// These subfiles; a sync is of those, too, that were written through this file.
    pub subfiles: Vec<SubfileIndex>,
    /// What to do with them.
    pub task: KeepTask,
}

/// What to do with some of a file's subfiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepTask {
    /// Extend those that are shorter than in a file of that length, with zeros.
    Grow(u64),
    /// Give them the size that they have in a file of that length.
    SetLength(u64),
    /// Make what was written to them survive a power loss.
    Sync,
}

impl Operation for Attach {
    type Answer = Opened;

    fn plan(self, planning: &Planning<'_>) -> Result<Plan<Opened>, OperationError> {
        let Attach { name, stripe_unit, durability, compression, length } = self;
        Region::new(length, 0)?;
        let layout = planning.layout(name, stripe_unit)?;
        let distribution = layout.distribution();
        let sizes = distribution.subfiles().map(|subfile| Some(distribution.subfile_size(subfile, length)));
        let stat = FileStat::of_existing(&layout, sizes.collect())?;
        Ok(Stage::empty().then(move |_, files| {
            let file = files.insert(Arc::clone(&layout), (durability, compression), length);
            Ok(Next::Answer(Opened { file, stat, layout }))
        }))
    }
}

impl Operation for WriteShare {
    type Answer = ();

    fn plan(self, planning: &Planning<'_>) -> Result<Plan<()>, OperationError> {
        let WriteShare { file, mut list } = self;
        let open = planning.file(file)?;
        let (layout, durable) = (open.layout(), open.durability().is_immediate());
        let compression = open.compression();
        let accesses = list.take_accesses(layout.distribution(), layout.holders());
        let parts = access_parts(layout, accesses, list.is_stripe_by_stripe());
        Ok(Stage::write(parts, list).of(file).durable(durable).compressing(compression).answers(|_| Ok(())))
    }
}

impl Operation for Keep {
    type Answer = ();

    fn plan(self, planning: &Planning<'_>) -> Result<Plan<()>, OperationError> {
        let Keep { file, mut subfiles, task } = self;
        let open = planning.file(file)?;
        let (layout, distribution) = (open.layout(), open.layout().distribution());
        // As `operations::Sync`: a file that is never synced on its own is not synced on demand either.
        if task == KeepTask::Sync && open.durability() == Durability::None {
            return Ok(Stage::empty().answers(|_| Ok(())));
        }
        if task == KeepTask::Sync {
            // Whoever has written knows whether the I/O node is still the process that took it.
            let own = layout.subfiles().filter(|(_, member, path)| open.is_unsynced(*member, path));
            let own: Vec<_> = own.map(|(subfile, ..)| subfile).filter(|it| !subfiles.contains(it)).collect();
            subfiles.extend(own);
        }
        if let KeepTask::Grow(length) | KeepTask::SetLength(length) = task {
            Region::new(length, 0)?;
        }
        let part = |subfile: SubfileIndex| {
            let path = layout.path(subfile).clone();
            let kind = match task {
                KeepTask::Grow(length) => {
                    RequestKind::Grow { path, length: distribution.subfile_size(subfile, length) }
                }
                KeepTask::SetLength(length) => {
                    RequestKind::SetLength { path, length: distribution.subfile_size(subfile, length) }
                }
                KeepTask::Sync => RequestKind::Sync { path },
            };
            Part::single(layout.holder(subfile), kind)
        };
        let durable = task == KeepTask::Sync || open.durability().is_immediate();
        let stage = Stage::new(subfiles.into_iter().map(part).collect()).of(file).durable(durable);
        Ok(stage.then(move |_, files| {
            match task {
                KeepTask::SetLength(length) => files.set_length(file, length),
                KeepTask::Grow(_) | KeepTask::Sync => {}
            }
            Ok(Next::Answer(()))
        }))
    }
}
