//! Forgetting an open file.

use crate::client::error::OperationError;
use crate::client::files::FileId;
use crate::client::operation::{Next, Operation, Plan, Planning};
use crate::client::stage::Stage;

/// Forget an open file. Operations on it that are under way go on.
#[derive(Debug, Clone, Copy)]
pub struct Close {
    /// The file.
    pub file: FileId,
}

impl Operation for Close {
    type Answer = ();

    fn plan(self, _: &Planning<'_>) -> Result<Plan<()>, OperationError> {
        Ok(Stage::empty().then(move |_, files| files.close(self.file).map(Next::Answer)))
    }
}
