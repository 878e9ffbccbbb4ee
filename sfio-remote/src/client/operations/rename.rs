//! Giving a striped file another name.

use crate::client::error::OperationError;
use crate::client::files::Durability;
use crate::client::operation::{Operation, Plan, Planning};
use crate::client::stage::Stage;
use crate::distribution::StripeUnit;
use crate::name::{FileName, SubfileName};
use crate::wire::RequestKind;

/// Give each subfile of a file the path that the other name has for it. Not atomic over several I/O nodes: one that
/// fails on the way leaves subfiles missing under both names.
#[derive(Debug, Clone)]
pub struct Rename {
    /// The file.
    pub name: FileName,
    /// Its new name; the same members in the same order.
    pub target: FileName,
    /// Whether subfiles that have these paths already are replaced; else that is an error.
    pub replace: bool,
    /// When that survives a power loss.
    pub durability: Durability,
}

impl Operation for Rename {
    type Answer = ();

    fn plan(self, planning: &Planning<'_>) -> Result<Plan<()>, OperationError> {
        let Rename { name, target, replace, durability } = self;
        if !members(&name).eq(members(&target)) {
            let (name, target) = (name.to_string(), target.to_string());
            return Err(OperationError::OtherMembers { name, target });
        }
        let layout = planning.layout(name, StripeUnit::DEFAULT)?;
        let stage = Stage::each(&layout, |subfile, path| RequestKind::Rename {
            path,
            target: target.subfiles()[subfile.index()].path().clone(),
            replace,
        });
        Ok(stage.durable(durability.is_immediate()).answers(|_| Ok(())))
    }
}

fn members(name: &FileName) -> impl Iterator<Item = &str> {
    name.subfiles().iter().map(SubfileName::member)
}
