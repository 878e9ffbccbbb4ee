//! Which records each I/O node has, and the first whole one of a number.

use std::collections::BTreeSet;

use super::error::{Outcome, ReplicationError};
use super::job::Job;
use crate::client::Durability;
use crate::dataset::record_number;
use crate::replication::{BadRecord, SignedRecord};

/// The numbers of the records that each I/O node has, in the order of the site.
pub(super) struct Holdings(Vec<(String, BTreeSet<u64>)>);

impl Holdings {
    /// Asks all I/O nodes.
    pub(super) async fn ask(job: &Job) -> Outcome<Holdings> {
        let ask = |job: Job, io_node: String| async move {
            let entries = job.list_all(&io_node, "commits", None, Durability::OnEveryCall).await?;
            let numbers = entries.iter().filter_map(|entry| record_number(&entry.name)).collect();
            Ok((io_node, numbers))
        };
        Ok(Holdings(job.on_all_nodes(ask).await?))
    }

    /// The number of the newest record that any I/O node has; 0 if there is none.
    pub(super) fn newest(&self) -> u64 {
        self.0.iter().filter_map(|(_, numbers)| numbers.last().copied()).max().unwrap_or(0)
    }

    /// Each I/O node, and whether it has a record of that number.
    pub(super) fn of(&self, number: u64) -> impl Iterator<Item = (&str, bool)> {
        self.0.iter().map(move |(io_node, numbers)| (io_node.as_str(), numbers.contains(&number)))
    }

    /// The record of that number, from the first I/O node that has one which follows the one `before`.
    ///
    /// # Errors
    /// If the site fails, or the record is of a format that is not known any more.
    pub(super) async fn find(
        &self,
        job: &Job,
        number: u64,
        before: Option<&SignedRecord>,
    ) -> Outcome<Option<SignedRecord>> {
        let follows = |record: &SignedRecord| {
            record.is_removed() || before.is_none_or(|before| record.predecessor == before.hash())
        };
        for (io_node, _) in self.of(number).filter(|(_, has)| *has) {
            let read = async || job.clone().record_bytes(io_node.to_owned(), number).await;
            match job.patiently(read).await?.map(SignedRecord::parse) {
                Some(Err(error @ BadRecord::Version1)) => {
                    return Err(ReplicationError::Record { number, io_node: io_node.to_owned(), error });
                }
                Some(Ok(record)) if record.number == number && follows(&record) => return Ok(Some(record)),
                _ => {}
            }
        }
        Ok(None)
    }
}
