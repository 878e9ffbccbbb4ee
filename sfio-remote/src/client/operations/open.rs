//! Opening a striped file.

use std::sync::Arc;

use crate::client::error::OperationError;
use crate::client::file::{FileStat, Layout};
use crate::client::files::{Durability, FileId};
use crate::client::operation::{Next, Operation, Plan, Planning};
use crate::client::stage::Stage;
use crate::compression::Compression;
use crate::distribution::StripeUnit;
use crate::name::FileName;
use crate::wire::RequestKind;

/// Open a striped file.
#[derive(Debug, Clone)]
pub struct Open {
    /// Its subfiles.
    pub name: FileName,
    /// The stripe unit that it was, or is going to be, written with.
    pub stripe_unit: StripeUnit,
    /// What must be there, and what happens to it.
    pub mode: OpenMode,
    /// When its writes survive a power loss.
    pub durability: Durability,
    /// How its bytes are compressed on their way.
    pub compression: Compression,
}

/// What must be there when a file is opened, and what happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// All subfiles must exist.
    Existing,
    /// Subfiles that do not exist are created, so that even an empty file has all of them.
    Create,
    /// As `Create`, and what there is becomes empty.
    Truncate,
    /// As `Truncate`, and nobody else may change the subfiles until this process gives them another
    /// name, removes them, or ends: of several processes that want to write one file, one does.
    Claim,
    /// No subfile may exist. Those of data sets are written by this session only, nowhere twice, and by nobody once it
    /// has ended.
    Exclusive,
    /// The subfiles that this process has claimed, as it has written them: the claim goes on over a new session if one
    /// was lost. An error ([`ClaimEnded`](crate::remote_error::ErrorKind::ClaimEnded)) if an I/O node was restarted
    /// since the claim, so that it may have lost what was written, or if somebody else has changed a subfile. A sync
    /// can be believed if the claim is resumed behind it.
    Resume,
}

/// A file that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The file.
    pub file: FileId,
    /// What there was when it was opened; after [`OpenMode::Truncate`] nothing.
    pub stat: FileStat,
    /// Where its bytes are.
    pub layout: Arc<Layout>,
}

impl OpenMode {
    /// Whether nothing of what there was is left.
    fn truncates(self) -> bool {
        matches!(self, OpenMode::Truncate | OpenMode::Claim)
    }
}

impl Operation for Open {
    type Answer = Opened;

    fn plan(self, planning: &Planning<'_>) -> Result<Plan<Opened>, OperationError> {
        let Open { name, stripe_unit, mode, durability, compression } = self;
        let layout = planning.layout(name, stripe_unit)?;
        let (truncate, claim) = (mode.truncates(), matches!(mode, OpenMode::Claim | OpenMode::Resume));
        let exclusive = mode == OpenMode::Exclusive;
        let stage = Stage::each(&layout, |_, path| match mode {
            OpenMode::Existing => RequestKind::Stat { path },
            OpenMode::Create
            | OpenMode::Truncate
            | OpenMode::Claim
            | OpenMode::Resume
            | OpenMode::Exclusive => RequestKind::Create { path, truncate, claim, exclusive },
        });
        Ok(stage.durable(durability.is_immediate()).tolerating_missing().then(move |stage, files| {
            let sizes = if truncate { vec![Some(0); stage.parts().len()] } else { stage.sizes() };
            let stat = FileStat::of_existing(&layout, sizes)?;
            match stat.missing() {
                missing if missing.is_empty() => {}
                missing => return Err(OperationError::Incomplete { missing }),
            }
            let file = files.insert(Arc::clone(&layout), (durability, compression), stat.length());
            Ok(Next::Answer(Opened { file, stat, layout }))
        }))
    }
}
