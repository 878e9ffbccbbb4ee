//! SFIO's error counters of one I/O node.

use crate::client::error::OperationError;
use crate::client::operation::{Operation, Plan, Planning};
use crate::client::part::Part;
use crate::client::stage::Stage;
use crate::io_node::{ERROR_COUNTERS_BYTES, ErrorCounters};
use crate::wire::RequestKind;

/// Ask for SFIO's error counters of one I/O node.
#[derive(Debug, Clone)]
pub struct QueryErrorCounters {
    /// Its name.
    pub member: String,
    /// Whether they start again from zero.
    pub reset: bool,
}

impl Operation for QueryErrorCounters {
    type Answer = ErrorCounters;

    fn plan(self, planning: &Planning<'_>) -> Result<Plan<ErrorCounters>, OperationError> {
        let kind = RequestKind::ErrorCounters { reset: self.reset };
        let part = Part::asking(planning.member(&self.member)?, kind, ERROR_COUNTERS_BYTES);
        Ok(Stage::new(vec![part]).answers(|stage| {
            let bytes = <&[u8; ERROR_COUNTERS_BYTES]>::try_from(stage.reply()).ok();
            Ok(bytes.map(ErrorCounters::from_bytes).unwrap_or_default())
        }))
    }
}
