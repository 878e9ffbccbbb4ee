//! What the I/O nodes of a site know of a data set's records.

use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::cache::Seen;
use super::error::{Outcome, ReplicationError};
use super::job::Job;
use super::objects::Source;
use crate::client::Durability;
use crate::dataset::{record_name, record_number};
use crate::io::FileError;
use crate::name::EntryName;
use crate::replication::{BadRecord, Hash, MAX_RECORD_BYTES, SignedRecord};
use crate::store::Entry;

/// A data set as its I/O nodes know it.
#[derive(Debug, Clone)]
pub struct View {
    /// The newest record; none if there is no data set yet. One that was removed has a record that says so.
    pub newest: Option<Arc<SignedRecord>>,
    /// I/O nodes that lack nothing but the newest record: the member that published it did not come so far.
    pub(super) behind: Vec<String>,
    /// What I/O nodes disagree in; nothing is published before it is repaired.
    pub disagreements: Vec<String>,
}

/// What one I/O node knows.
#[derive(Debug, Clone)]
pub(super) struct Look {
    pub(super) io_node: String,
    /// The number of its newest record; 0 if it has none.
    pub(super) highest: u64,
    /// The record that this machine has seen last, if it is there.
    remembered: Option<Bytes>,
}

/// A record, or why it is none.
type Parsed = Result<SignedRecord, BadRecord>;

impl View {
    /// The newest record of a data set that must be there.
    ///
    /// # Errors
    /// If there is none.
    pub fn existing(&self) -> Outcome<Arc<SignedRecord>> {
        match self.newest_record()? {
            removed if removed.is_removed() => Err(ReplicationError::NoDataSet),
            newest => Ok(newest),
        }
    }

    /// The newest record of a data set that is there, or was removed.
    pub(super) fn newest_record(&self) -> Outcome<Arc<SignedRecord>> {
        self.newest.clone().ok_or(ReplicationError::NoDataSet)
    }

    /// The number of the newest record; 0 if there is none.
    pub(super) fn number(&self) -> u64 {
        self.newest.as_ref().map_or(0, |newest| newest.number)
    }

    /// Whether something may be published behind what was found.
    ///
    /// # Errors
    /// If the I/O nodes disagree.
    pub fn writable(&self) -> Outcome<()> {
        match self.disagreements.as_slice() {
            [] => Ok(()),
            some => Err(ReplicationError::Disagreement(some.join("; "))),
        }
    }
}

impl Job {
    /// Looks at the records on all I/O nodes, and remembers the newest one. One round trip if it is the one that this
    /// machine has seen last.
    ///
    /// # Errors
    /// If an I/O node does not answer, no record can be used, or the data set has gone back.
    pub async fn open(&self) -> Outcome<View> {
        self.persistently(async || self.look_around(Durability::None).await).await
    }

    /// The same without patience. Whoever is to build upon what is there, or to say that it is safe, asks for durable
    /// records: one that can be read may be gone after a power loss.
    pub(super) async fn look_around(&self, durability: Durability) -> Outcome<View> {
        let seen = self.cache.seen(self);
        let look = move |job: Job, io_node| job.look(io_node, seen, durability);
        let mut looks = self.on_all_nodes(look).await?;
        let highest = |looks: &[Look]| looks.iter().map(|look| look.highest).max().unwrap_or(0);
        if looks[0].highest < highest(&looks) {
            // It may have been published between the two.
            looks[0] = look(self.clone(), looks[0].io_node.clone()).await?;
        }
        let newest = highest(&looks);
        for one in looks[1..].iter_mut().filter(|one| one.highest + 1 < newest) {
            // It has answered long before the others, perhaps, and others have published since.
            *one = look(self.clone(), one.io_node.clone()).await?;
        }
        if newest == 0 {
            return self.nothing_there(seen).await;
        }
        let records = match seen.filter(|seen| seen.number == newest) {
            Some(_) => looks.iter().map(|look| look.remembered.clone()).collect(),
            None => self.on_all_nodes(move |job, io_node| job.record_bytes(io_node, newest)).await?,
        };
        let (chosen, disagreements) = self.choose(&looks, newest, records)?;
        self.check(newest, &looks[0].io_node, &chosen)?;
        self.compare_with_memory(seen, &looks, &chosen)?;
        self.cache.remember(self, &chosen);
        let is_behind = |look: &&Look| look.highest + 1 == newest;
        let behind = looks[1..].iter().filter(is_behind).map(|look| look.io_node.clone()).collect();
        Ok(View { newest: Some(Arc::new(chosen)), behind, disagreements })
    }

    pub(super) async fn nothing_there(&self, seen: Option<Seen>) -> Outcome<View> {
        if let Some(seen) = seen.filter(|_| !self.accepts_older) {
            let found = "no record".to_owned();
            return Err(ReplicationError::WentBack { seen: seen.number, hash: seen.hash, found });
        }
        if self.dataset.read_whole(&self.dataset.commit_of_version_1(), 8, Source::Cache).await?.is_some() {
            let io_node = self.dataset.io_nodes()[0].clone();
            return Err(ReplicationError::Record { number: 1, io_node, error: BadRecord::Version1 });
        }
        Ok(View { newest: None, behind: Vec::new(), disagreements: Vec::new() })
    }

    /// The newest number that an I/O node knows, and the record that was seen last.
    pub(super) async fn look(
        self,
        io_node: String,
        seen: Option<Seen>,
        durability: Durability,
    ) -> Result<Look, FileError> {
        let from = seen.map_or(0, |seen| seen.number);
        let remembered = async {
            match from {
                0 => Ok(None),
                number => self.clone().record_bytes(io_node.clone(), number).await,
            }
        };
        let (highest, remembered) = tokio::try_join!(self.highest(&io_node, from, durability), remembered)?;
        let highest = match highest {
            0 if from > 0 => self.highest(&io_node, 0, durability).await?,
            highest => highest,
        };
        Ok(Look { io_node: io_node.clone(), highest, remembered })
    }

    /// The highest number from `from` on that an I/O node has a record of; 0 if there is none.
    async fn highest(&self, io_node: &str, from: u64, durability: Durability) -> Result<u64, FileError> {
        let after = record_name(from.saturating_sub(1));
        let entries = self.list_all(io_node, "commits", Some(after), durability).await?;
        Ok(entries.iter().filter_map(|entry| record_number(&entry.name)).max().unwrap_or(0))
    }

    /// A record's bytes, if they are there and outlive a power loss. One that was only read may have been renamed by a
    /// process that was killed before it could sync the folder.
    pub(super) async fn durable_record_bytes(
        self,
        io_node: String,
        number: u64,
    ) -> Result<Option<Bytes>, FileError> {
        match self.highest(&io_node, number, Durability::OnEveryCall).await? {
            highest if highest < number => Ok(None),
            _ => self.record_bytes(io_node, number).await,
        }
    }

    /// A record's bytes, if they are there.
    pub(super) async fn record_bytes(self, io_node: String, number: u64) -> Result<Option<Bytes>, FileError> {
        let name = self.dataset.record(&io_node, number);
        self.dataset.read_whole(&name, MAX_RECORD_BYTES + 1, Source::Cache).await
    }

    /// The record that counts, and what is wrong with the others.
    fn choose(
        &self,
        looks: &[Look],
        newest: u64,
        records: Vec<Option<Bytes>>,
    ) -> Outcome<(SignedRecord, Vec<String>)> {
        let parsed: Vec<Option<Parsed>> =
            records.into_iter().map(|bytes| bytes.map(SignedRecord::parse)).collect();
        // The first I/O node decides, as long as it knows.
        let chosen = parsed.iter().find_map(|parsed| parsed.as_ref()?.as_ref().ok()).cloned();
        let Some(chosen) = chosen else {
            let bad = looks.iter().zip(parsed).find_map(|(look, parsed)| Some((look, parsed?.err()?)));
            let (io_node, error) = bad.map_or((&looks[0], BadRecord::Magic), |(look, error)| (look, error));
            let io_node = io_node.io_node.clone();
            return Err(ReplicationError::Record { number: newest, io_node, error });
        };
        let mut disagreements = Vec::new();
        for (index, (look, parsed)) in looks.iter().zip(&parsed).enumerate() {
            let io_node = &look.io_node;
            match parsed {
                Some(Ok(record)) if record.hash() == chosen.hash() => {}
                Some(Ok(_)) => disagreements.push(format!("{io_node} has another record {newest}")),
                Some(Err(error)) => disagreements.push(format!("record {newest} on {io_node}: {error}")),
                None if index > 0 && look.highest + 1 >= newest => {}
                None => {
                    let highest = look.highest;
                    disagreements
                        .push(format!("{io_node} has records up to {highest}, others up to {newest}"));
                }
            }
        }
        Ok((chosen, disagreements))
    }

    /// Whether a record is one of this data set, and its signer a member.
    pub(super) fn check(&self, number: u64, io_node: &str, record: &SignedRecord) -> Outcome<()> {
        let expected = (number, self.dataset.site(), self.dataset.name());
        if (record.number, record.site.as_str(), record.name.as_str()) != expected {
            let found = format!("{}:{}, number {}", record.site, record.name, record.number);
            return Err(ReplicationError::OtherDataSet { number, io_node: io_node.to_owned(), found });
        }
        let signer = &record.signer;
        if self.keys.get(&signer.member) != Some(&signer.key) {
            return Err(ReplicationError::Signer { number, member: signer.member.clone() });
        }
        Ok(())
    }

    /// Nothing that this machine has seen may be gone.
    fn compare_with_memory(&self, seen: Option<Seen>, looks: &[Look], newest: &SignedRecord) -> Outcome<()> {
        let Some(seen) = seen.filter(|_| !self.accepts_older) else { return Ok(()) };
        let is_there = looks.iter().any(|look| look.remembered.as_deref().map(Hash::of) == Some(seen.hash));
        if is_there && seen.token == newest.token && seen.number <= newest.number {
            return Ok(());
        }
        let found = match newest.number < seen.number {
            true => format!("only record {}", newest.number),
            false => format!("another record {}", seen.number),
        };
        Err(ReplicationError::WentBack { seen: seen.number, hash: seen.hash, found })
    }

    /// The records from `from` on to the one before `to`, from the first I/O node, each checked to follow the one
    /// before.
    pub(super) async fn records_between(
        &self,
        from: Option<&SignedRecord>,
        to: &SignedRecord,
    ) -> Outcome<Vec<SignedRecord>> {
        let io_node = &self.dataset.io_nodes()[0];
        let mut records = Vec::new();
        let (first, mut before) = from.map_or((1, Hash::ZERO), |from| (from.number + 1, from.hash()));
        for number in first..to.number {
            let bytes =
                self.patiently(async || self.clone().record_bytes(io_node.clone(), number).await).await?;
            let bytes = bytes.unwrap_or_default();
            let record = SignedRecord::parse(bytes).map_err(|error| ReplicationError::Record {
                number,
                io_node: io_node.clone(),
                error,
            })?;
            if record.number != number || record.predecessor != before {
                let what = format!("record {number} on {io_node} does not follow record {}", number - 1);
                return Err(ReplicationError::Disagreement(what));
            }
            before = record.hash();
            records.push(record);
        }
        if to.number >= first && to.predecessor != before {
            let what = format!("record {} on {io_node} does not follow record {}", to.number, to.number - 1);
            return Err(ReplicationError::Disagreement(what));
        }
        Ok(records)
    }

    /// All entries of one of the data set's folders on an I/O node behind the name `after`.
    pub(super) async fn list_all(
        &self,
        io_node: &str,
        folder: &str,
        mut after: Option<EntryName>,
        durability: Durability,
    ) -> Result<Vec<Entry>, FileError> {
        let folder = self.dataset.folder(folder);
        let mut all: Vec<Entry> = Vec::new();
        loop {
            let page = self.dataset.client().list(io_node, &folder, after.as_ref(), durability).await?;
            all.extend(page.entries);
            match all.last() {
                Some(last) if page.more => after = Some(last.name.clone()),
                _ => return Ok(all),
            }
        }
    }

    /// Does something at all I/O nodes of the site at once; the results are in their order.
    pub(super) async fn on_all_nodes<T, F>(
        &self,
        work: impl Fn(Job, String) -> F,
    ) -> Result<Vec<T>, FileError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, FileError>> + Send + 'static,
    {
        let mut errands = JoinSet::new();
        for (index, io_node) in self.dataset.io_nodes().iter().enumerate() {
            let errand = work(self.clone(), io_node.clone());
            errands.spawn(async move { (index, errand.await) });
        }
        let mut results: Vec<(usize, T)> = Vec::new();
        while let Some(done) = errands.join_next().await {
            let (index, result) = done.expect("errands do not panic, and nobody aborts them");
            results.push((index, result?));
        }
        results.sort_by_key(|(index, _)| *index);
        Ok(results.into_iter().map(|(_, result)| result).collect())
    }
}
