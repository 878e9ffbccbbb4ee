//! From an action to an operation: which subfiles it concerns, and what it does at each.

use std::sync::Arc;

use super::action::{Action, Answer, Durability, OpenMode};
use super::error::OperationError;
use super::file::{Layout, OpenFile};
use super::operation::{Goal, Operation, Part, WriteGoal};
use super::{Client, FileId, growth};
use crate::distribution::{Region, StripeUnit, SubfileIndex};
use crate::name::{FileName, SubfilePath};
use crate::request::{ReadBuffer, ReadList, SubfileAccess, WriteList};
use crate::transport::Transport;
use crate::wire::RequestKind;

/// How many requests a call has under way that makes one of each stripe.
const STRIPES_AT_ONCE: usize = 64;

/// What an action becomes.
pub(super) enum Planned {
    /// Transfers to I/O nodes.
    Operation(Operation),
    /// An answer that needs none.
    Answer(Answer),
}

impl Client {
    /// What `action` becomes.
    pub(super) fn plan(
        &mut self,
        action: Action,
        transport: &impl Transport,
    ) -> Result<Planned, OperationError> {
        let operation = match action {
            Action::Open { name, stripe_unit, mode, durability } => {
                open(Arc::new(Layout::resolve(name, stripe_unit, transport)?), mode, durability)
            }
            Action::Close { file } => {
                self.files.remove(&file).ok_or(OperationError::NotOpen)?;
                return Ok(Planned::Answer(Answer::Done));
            }
            Action::Read { file, list } => read(&self.file(file)?.layout, list, self.config.read_bytes)?,
            Action::ReadUnopened { name, stripe_unit, list } => {
                let layout = Arc::new(Layout::resolve(name, stripe_unit, transport)?);
                read(&layout, list, self.config.read_bytes)?
            }
            Action::Write { file, list } => write(file, self.file(file)?, list),
            Action::SetLength { file, length } => set_length(file, self.file(file)?, length)?,
            Action::Stat { file } => {
                let layout = &self.file(file)?.layout;
                each(layout, Goal::Stat(Arc::clone(layout)), false, |_, path| RequestKind::Stat { path })
            }
            Action::Sync { file } => match self.file(file)? {
                OpenFile { durability: Durability::None, .. } => return Ok(Planned::Answer(Answer::Done)),
                OpenFile { layout, .. } => {
                    each(layout, Goal::Done, true, |_, path| RequestKind::Sync { path })
                }
            },
            Action::Remove { name, durability } => {
                let goal = Goal::Remove { name: name.to_string() };
                let layout = Arc::new(Layout::resolve(name, StripeUnit::DEFAULT, transport)?);
                each(&layout, goal, is_durable(durability), |_, path| RequestKind::Remove { path })
            }
            Action::Rename { name, target, replace, durability } => {
                rename(name, &target, replace, durability, transport)?
            }
            Action::ErrorCounters { member, reset } => error_counters(member, reset, transport)?,
        };
        Ok(Planned::Operation(operation))
    }

    fn file(&self, file: FileId) -> Result<&OpenFile, OperationError> {
        self.files.get(&file).ok_or(OperationError::NotOpen)
    }
}

fn is_durable(durability: Durability) -> bool {
    durability == Durability::OnEveryCall
}

/// One request to each subfile.
fn each(
    layout: &Arc<Layout>,
    goal: Goal,
    durable: bool,
    kind: impl Fn(SubfileIndex, SubfilePath) -> RequestKind,
) -> Operation {
    let part = |(subfile, member, path): (SubfileIndex, _, &SubfilePath)| {
        Part::single(member, kind(subfile, path.clone()))
    };
    let parts = layout.subfiles().map(part).collect();
    Operation::new(goal, durable, parts)
}

fn open(layout: Arc<Layout>, mode: OpenMode, durability: Durability) -> Operation {
    let claim = mode == OpenMode::Claim;
    let truncate = claim || mode == OpenMode::Truncate;
    let goal = Goal::Open { layout: Arc::clone(&layout), durability, truncated: truncate };
    each(&layout, goal, is_durable(durability), |_, path| match mode {
        OpenMode::Existing => RequestKind::Stat { path },
        OpenMode::Create | OpenMode::Truncate | OpenMode::Claim => {
            RequestKind::Create { path, truncate, claim }
        }
    })
}

/// The parts that carry `accesses` out; `single` if each stripe is to be a request of its own.
fn parts(layout: &Layout, accesses: Vec<SubfileAccess>, single: bool) -> Vec<Part> {
    // As many as the optimised calls are compared with, over all subfiles.
    let at_once = (STRIPES_AT_ONCE / accesses.len().max(1)).max(1);
    let part = |access: SubfileAccess| {
        let path = layout.path(access.subfile()).clone();
        Part::access(access, path, single.then_some(at_once))
    };
    accesses.into_iter().map(part).collect()
}

fn read(layout: &Arc<Layout>, mut list: ReadList, limit: u64) -> Result<Operation, OperationError> {
    let accesses = list.take_accesses(layout.distribution, &layout.holders);
    let parts = parts(layout, accesses, list.is_stripe_by_stripe());
    let buffer = ReadBuffer::new(list, limit)?;
    Ok(Operation::new(Goal::Read { layout: Arc::clone(layout), buffer }, false, parts))
}

fn write(id: FileId, file: &OpenFile, mut list: WriteList) -> Operation {
    let layout = Arc::clone(&file.layout);
    let accesses = list.take_accesses(layout.distribution, &layout.holders);
    let mut parts = parts(&layout, accesses, list.is_stripe_by_stripe());
    // Writing nothing extends nothing, wherever it is.
    let written = list.regions().iter().filter(|region| region.length() > 0);
    let end = written.map(|region| region.end()).max().unwrap_or(0);
    let known_length = file.known_length;
    let touches =
        |subfile| parts.iter().any(|part| part.subfile_access().is_some_and(|a| a.subfile() == subfile));
    let witness = growth::witness(&layout.distribution, known_length, end, touches);
    parts.extend(witness.map(|subfile| {
        Part::single(
            layout.holders[subfile.index()],
            RequestKind::Stat { path: layout.path(subfile).clone() },
        )
    }));
    let goal = Goal::Write(WriteGoal { file: id, layout, known_length, end, witness, list });
    Operation::new(goal, is_durable(file.durability), parts)
}

fn set_length(id: FileId, file: &OpenFile, length: u64) -> Result<Operation, OperationError> {
    Region::new(length, 0)?;
    let OpenFile { layout, durability, .. } = file;
    let goal = Goal::SetLength { file: id, length };
    Ok(each(layout, goal, is_durable(*durability), |subfile, path| RequestKind::SetLength {
        path,
        length: layout.distribution.subfile_size(subfile, length),
    }))
}

fn rename(
    name: FileName,
    target: &FileName,
    replace: bool,
    durability: Durability,
    transport: &impl Transport,
) -> Result<Operation, OperationError> {
    let members = |name: &FileName| name.subfiles().iter().map(|s| s.member().to_owned()).collect::<Vec<_>>();
    if members(&name) != members(target) {
        return Err(OperationError::OtherMembers { name: name.to_string(), target: target.to_string() });
    }
    let layout = Arc::new(Layout::resolve(name, StripeUnit::DEFAULT, transport)?);
    Ok(each(&layout, Goal::Done, is_durable(durability), |subfile, path| RequestKind::Rename {
        path,
        target: target.subfiles()[subfile.index()].path().clone(),
        replace,
    }))
}

fn error_counters(
    member: String,
    reset: bool,
    transport: &impl Transport,
) -> Result<Operation, OperationError> {
    let Some(id) = transport.find_member(&member) else {
        return Err(OperationError::UnknownMember { member });
    };
    let part = Part::single(id, RequestKind::ErrorCounters { reset });
    Ok(Operation::new(Goal::ErrorCounters, false, vec![part]))
}
