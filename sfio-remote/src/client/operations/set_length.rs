//! Cutting or extending a striped file.

use crate::client::error::OperationError;
use crate::client::files::FileId;
use crate::client::operation::{Next, Operation, Plan, Planning};
use crate::client::stage::Stage;
use crate::distribution::Region;
use crate::wire::RequestKind;

/// Cut the logical file, or extend it with zeros.
#[derive(Debug, Clone, Copy)]
pub struct SetLength {
    /// The file.
    pub file: FileId,
    /// Its new length in bytes.
    pub length: u64,
}

impl Operation for SetLength {
    type Answer = ();

    fn plan(self, planning: &Planning<'_>) -> Result<Plan<()>, OperationError> {
        let SetLength { file, length } = self;
        Region::new(length, 0)?;
        let open = planning.file(file)?;
        let distribution = open.layout().distribution();
        let stage = Stage::each(open.layout(), |subfile, path| RequestKind::SetLength {
            path,
            length: distribution.subfile_size(subfile, length),
        });
        Ok(stage.of(file).durable(open.durability().is_immediate()).then(move |_, files| {
            files.set_length(file, length);
            Ok(Next::Answer(()))
        }))
    }
}
