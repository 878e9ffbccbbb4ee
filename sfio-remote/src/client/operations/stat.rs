//! The sizes of all subfiles.

use std::sync::Arc;

use crate::client::error::OperationError;
use crate::client::file::FileStat;
use crate::client::files::FileId;
use crate::client::operation::{Operation, Plan, Planning};
use crate::client::stage::Stage;
use crate::wire::RequestKind;

/// Ask for the sizes of all subfiles.
#[derive(Debug, Clone, Copy)]
pub struct Stat {
    /// The file.
    pub file: FileId,
}

impl Operation for Stat {
    type Answer = FileStat;

    fn plan(self, planning: &Planning<'_>) -> Result<Plan<FileStat>, OperationError> {
        let layout = Arc::clone(planning.file(self.file)?.layout());
        let stage = Stage::each(&layout, |_, path| RequestKind::Stat { path });
        Ok(stage.tolerating_missing().answers(move |stage| FileStat::of_existing(&layout, stage.sizes())))
    }
}
