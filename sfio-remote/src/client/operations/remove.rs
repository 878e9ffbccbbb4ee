//! Removing a striped file.

use crate::client::error::OperationError;
use crate::client::files::Durability;
use crate::client::operation::{Operation, Plan, Planning};
use crate::client::stage::Stage;
use crate::distribution::StripeUnit;
use crate::name::FileName;
use crate::wire::RequestKind;

/// Remove all subfiles of a file that there are.
#[derive(Debug, Clone)]
pub struct Remove {
    /// The file.
    pub name: FileName,
    /// When that survives a power loss.
    pub durability: Durability,
}

impl Operation for Remove {
    type Answer = ();

    fn plan(self, planning: &Planning<'_>) -> Result<Plan<()>, OperationError> {
        let name = self.name.to_string();
        let layout = planning.layout(self.name, StripeUnit::DEFAULT)?;
        let stage = Stage::each(&layout, |_, path| RequestKind::Remove { path });
        Ok(stage.durable(self.durability.is_immediate()).tolerating_missing().answers(|stage| {
            match stage.sizes().iter().all(Option::is_none) {
                true => Err(OperationError::NotFound { name }),
                false => Ok(()),
            }
        }))
    }
}
