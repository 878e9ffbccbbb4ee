//! Making what was written survive a power loss.

use crate::client::error::OperationError;
use crate::client::files::{Durability, FileId};
use crate::client::operation::{Operation, Plan, Planning};
use crate::client::stage::Stage;
use crate::wire::RequestKind;

/// Make everything that was written before survive a power loss. A file that was opened with [`Durability::None`] needs
/// none. It fails with [`OperationError::Restarted`] if what was written may have been lost before, and goes on to fail
/// until the file is opened anew.
#[derive(Debug, Clone, Copy)]
pub struct Sync {
    /// The file.
    pub file: FileId,
}

impl Operation for Sync {
    type Answer = ();

    fn plan(self, planning: &Planning<'_>) -> Result<Plan<()>, OperationError> {
        let file = planning.file(self.file)?;
        let stage = match file.durability() {
            Durability::None => Stage::empty(),
            Durability::OnFlush | Durability::OnEveryCall => {
                Stage::each(file.layout(), |_, path| RequestKind::Sync { path }).of(self.file).durable(true)
            }
        };
        Ok(stage.answers(|_| Ok(())))
    }
}
