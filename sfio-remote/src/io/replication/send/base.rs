//! What a run begins with: the newest record, its tree, and the chunks that need not be sent.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use super::super::error::{FailureKind, Outcome, ReplicationError, temporary};
use super::super::job::Job;
use super::super::manifests::{chunks_of, load_manifest};
use super::super::objects::Source;
use super::super::parts::Parts;
use super::super::spool::ManifestFile;
use super::graft::Place;
use super::wounds::Wounds;
use crate::client::Durability;
use crate::replication::{
    ChunkIndex, ChunkRef, EntryReader, Generation, Inserted, Journal, JournalHeader, MAX_JOURNAL_BYTES,
    ObjectEntry, RunId, SignedRecord, Token, TreePath,
};
use crate::store;

/// Entries of a generation, or of a directory of it.
pub(super) type OldEntries = EntryReader<Box<dyn io::Read + Send>>;

/// The newest record, and what it says about the tree.
#[derive(Debug)]
pub(super) struct Base {
    /// The newest record; none for a new data set.
    pub(super) record: Option<Arc<SignedRecord>>,
    /// The manifest of the current generation; empty if that cannot be read, none once it was taken.
    manifest: Option<ManifestFile>,
    /// The manifest of the newest generation that can be read, if that is not the current one.
    other: Option<ManifestFile>,
    /// Generations whose manifests are damaged.
    pub(super) unreadable: Vec<u64>,
    /// What is damaged.
    pub(super) wounds: Wounds,
}

/// A journal that there is on the site.
#[derive(Debug, Clone)]
pub(super) struct Journaled {
    pub(super) run: RunId,
    /// Whether the session that writes it still lives.
    pub(super) is_alive: bool,
}

/// A run that stored chunks that no generation refers to.
#[derive(Debug)]
pub(super) struct Abandoned {
    pub(super) run: RunId,
    pub(super) token: Token,
    /// Whether the session that wrote it still lives, as far as the first I/O node knows.
    pub(super) is_alive: bool,
    /// The chunks, whatever number their object has.
    pub(super) chunks: Chunks,
}

/// Chunks in one object.
#[derive(Debug)]
pub(super) enum Chunks {
    /// The chunks are those that the run's journal tells of.
    Journal(Journal),
    /// The chunks are those that this process has stored.
    Sent(Inserted),
}

/// The numbers that objects are going to have in the next record.
#[derive(Debug)]
pub(super) struct Numbers {
    first: u32,
    /// The run's own object, and those of earlier runs.
    objects: Vec<NewObject>,
}

/// An object that no record names yet.
#[derive(Debug, Clone, Copy)]
struct NewObject {
    run: RunId,
    /// Where the last chunk in it ends.
    length: u64,
}

impl Numbers {
    /// The numbers behind those of the base; the run's own object gets the first one.
    pub(super) fn new(base: &Base, run: RunId) -> Numbers {
        let first = base.record.as_ref().map_or(0, |record| record.next_object);
        Numbers { first, objects: vec![NewObject { run, length: 0 }] }
    }

    /// The number of the run's own object.
    pub(super) fn own(&self) -> u32 {
        self.first
    }

    /// One more object.
    fn give(&mut self, run: RunId) -> u32 {
        self.objects.push(NewObject { run, length: 0 });
        // Where numbers end, several get the last one, which no record that can be signed has.
        self.first.saturating_add(self.objects.len() as u32 - 1)
    }

    /// The object that a chunk is in is at least so long that it is in it.
    pub(super) fn hold(&mut self, chunk: &ChunkRef) {
        let index = chunk.object.checked_sub(self.first).map(|index| index as usize);
        if let Some(object) = index.and_then(|index| self.objects.get_mut(index)) {
            object.length = object.length.max(chunk.end());
        }
    }

    /// The numbers that were given, as a record names their objects.
    pub(super) fn given(&self) -> impl Iterator<Item = ObjectEntry> + '_ {
        let numbered = (self.first..=u32::MAX).zip(&self.objects);
        numbered.map(|(number, object)| ObjectEntry { number, run: object.run, length: object.length })
    }
}

impl Base {
    /// The current generation, if there is one.
    pub(super) fn current(&self) -> Option<&Generation> {
        self.record.as_ref()?.current()
    }

    /// The runs whose objects the record names.
    pub(super) fn published_runs(&self) -> BTreeSet<RunId> {
        self.record.iter().flat_map(|record| record.objects.iter()).map(|entry| entry.run).collect()
    }

    /// Reads what the newest record says.
    pub(super) async fn load(job: &Job, record: Option<Arc<SignedRecord>>) -> Outcome<Base> {
        let mut base = Base {
            record,
            manifest: Some(ManifestFile::empty().map_err(temporary)?),
            other: None,
            unreadable: Vec::new(),
            wounds: Wounds::default(),
        };
        let Some(record) = base.record.clone() else { return Ok(base) };
        let Some(current) = record.current() else { return Ok(base) };
        match base.read(job, &record, current).await? {
            Some(manifest) => base.manifest = Some(manifest),
            None => {
                for generation in record.generations.iter().rev().filter(|one| one.number != current.number) {
                    base.other = base.read(job, &record, generation).await?;
                    if base.other.is_some() {
                        break;
                    }
                }
            }
        }
        if !record.damaged.is_empty() {
            base.examine(job, &record, current).await?;
        }
        Ok(base)
    }

    /// A generation's manifest, if it can be read.
    async fn read(
        &mut self,
        job: &Job,
        record: &Arc<SignedRecord>,
        generation: &Generation,
    ) -> Outcome<Option<ManifestFile>> {
        match load_manifest(job, record, generation).await {
            Ok(manifest) => Ok(Some(manifest)),
            Err(error) if error.kind() == FailureKind::Integrity => {
                self.unreadable.push(generation.number);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The entries of the current generation.
    pub(super) fn entries(&self) -> io::Result<OldEntries> {
        let bytes: Box<dyn io::Read + Send> = match &self.manifest {
            Some(manifest) => Box::new(manifest.bytes()?),
            None => Box::new(io::empty()),
        };
        Ok(EntryReader::new(bytes))
    }

    /// The place in the current generation that a tree is to be sent to.
    ///
    /// # Errors
    /// If there can be no directory, the data set was removed, or the generation cannot be read.
    pub(super) fn place(&self, path: &TreePath) -> Outcome<Place> {
        // A directory alone would bring the data set back, as if the rest of it had been deleted on purpose.
        if self.record.as_ref().is_some_and(|record| record.is_removed()) {
            return Err(ReplicationError::NoDataSet);
        }
        let current = self.current();
        let unreadable = current.filter(|current| self.unreadable.contains(&current.number));
        if let Some(current) = unreadable {
            return Err(ReplicationError::Unreadable(current.number));
        }
        let Some(manifest) = &self.manifest else { return Err(ReplicationError::NoDirectory(path.clone())) };
        let place = Place::find(current, manifest, path).map_err(temporary)?;
        place.ok_or_else(|| ReplicationError::NoDirectory(path.clone()))
    }

    /// Looks for the damaged chunks of all generations.
    async fn examine(&mut self, job: &Job, record: &Arc<SignedRecord>, current: &Generation) -> Outcome<()> {
        for generation in &record.generations {
            let fetched = match generation.number == current.number {
                true => None,
                false if self.unreadable.contains(&generation.number) => continue,
                false => self.read(job, record, generation).await?,
            };
            let mut wounds = std::mem::take(&mut self.wounds);
            let manifest = match generation.number == current.number {
                true => self.manifest.as_ref(),
                false => fetched.as_ref(),
            };
            let Some(manifest) = manifest else {
                self.wounds = wounds;
                continue;
            };
            chunks_of(manifest, |chunk| wounds.examine(record, chunk)).map_err(temporary)?;
            generation.index.iter().for_each(|chunk| wounds.examine(record, chunk));
            self.wounds = wounds;
        }
        Ok(())
    }

    /// The manifest of the current generation; it is not needed here any more.
    pub(super) fn take_manifest(&mut self) -> Option<ManifestFile> {
        let current = self.record.as_ref()?.current;
        self.manifest.take().filter(|_| !self.unreadable.contains(&current))
    }

    /// What need not be sent: what generations have whole, and what abandoned runs have stored, as far as it is there.
    /// The numbers of their objects are added to `numbers`.
    pub(super) fn known_chunks(
        &self,
        abandoned: &[Abandoned],
        parts: &Parts,
        numbers: &mut Numbers,
    ) -> io::Result<ChunkIndex> {
        let mut known = Vec::new();
        for manifest in self.manifest.iter().chain(&self.other) {
            chunks_of(manifest, |chunk| known.push(*chunk))?;
        }
        if let Some(record) = &self.record {
            let index = record.current().into_iter().flat_map(|current| current.index.iter().copied());
            known.extend(index.filter(|_| self.other.is_none()));
            if !record.damaged.is_empty() || !record.healed.is_empty() {
                known.retain(|chunk| !record.is_damaged(chunk));
                known.iter_mut().for_each(|chunk| *chunk = record.place_of(chunk));
            }
        }
        for Abandoned { run, chunks, .. } in abandoned {
            let (object, reach) = (numbers.give(*run), parts.reach(*run));
            let stored: Vec<ChunkRef> = match chunks {
                Chunks::Journal(journal) => journal.chunks_in(object).collect(),
                Chunks::Sent(chunks) => chunks.iter().map(|chunk| ChunkRef { object, ..*chunk }).collect(),
            };
            let there = stored.iter().filter(|chunk| chunk.end() <= reach);
            there.clone().for_each(|chunk| numbers.hold(chunk));
            known.extend(there);
        }
        Ok(ChunkIndex::new(known))
    }
}

/// The journals that there are.
pub(super) async fn journals(job: &Job) -> Outcome<Vec<Journaled>> {
    let listed = job.list_all(&job.dataset.io_nodes()[0], "journals", None, Durability::None).await?;
    let journaled = |entry: &store::Entry| {
        Some(Journaled { run: entry.name.as_str().parse().ok()?, is_alive: entry.is_being_written })
    };
    Ok(listed.iter().filter_map(journaled).collect())
}

/// Drops the runs whose chunks nobody may take up any more, because they are `taken`: a record names or condemns them.
/// Gives the journals of the others, apart from those of runs that are known without them.
pub(super) fn to_take_up<'a>(
    known: &mut Vec<Abandoned>,
    journals: &'a [Journaled],
    taken: &BTreeSet<RunId>,
) -> Vec<&'a Journaled> {
    known.retain(|one| !taken.contains(&one.run));
    let is_known = |run: &RunId| known.iter().any(|one| one.run == *run);
    journals.iter().filter(|one| !taken.contains(&one.run) && !is_known(&one.run)).collect()
}

/// What runs have stored, as their journals know it. Of the journals of other members only the beginnings are read,
/// which tell whose they are: they may be long, and must not take the room of our own.
pub(super) async fn read_journals(
    job: &Job,
    journals: impl Iterator<Item = &Journaled>,
    base: &Base,
) -> Outcome<Vec<Abandoned>> {
    let (mut abandoned, mut room) = (Vec::new(), MAX_JOURNAL_BYTES);
    for Journaled { run, is_alive } in journals {
        let counts = |header: &JournalHeader| {
            let is_of_this = base.record.as_ref().is_none_or(|record| record.token == header.token);
            header.run == *run && header.signer == job.author.signer() && is_of_this
        };
        let is_wanted = |start: &[u8]| Journal::header_of(start).as_ref().is_some_and(counts);
        let name = job.dataset.journal(*run);
        let bytes =
            job.dataset.read_whole_if(&name, room, Source::Cache, is_wanted).await?.unwrap_or_default();
        room = room.saturating_sub(bytes.len());
        if let Some(journal) = Journal::parse(&bytes) {
            let (token, is_alive) = (journal.header.token, *is_alive);
            abandoned.push(Abandoned { run: *run, token, is_alive, chunks: Chunks::Journal(journal) });
        }
    }
    Ok(abandoned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that another process of this member had published while this one was at work once got a second number.
    #[test]
    fn no_run_is_taken_up_that_a_record_names_or_that_is_known_already() {
        let [known, published, journaled, condemned] = [1, 2, 3, 4].map(|byte| RunId([byte; 16]));
        let abandoned = |run| {
            let chunks = Chunks::Sent(Inserted::default());
            Abandoned { run, token: Token([7; 16]), is_alive: true, chunks }
        };
        let mut mine = vec![abandoned(known), abandoned(published)];
        let journals = [known, published, journaled, condemned].map(|run| Journaled { run, is_alive: true });
        let unread = to_take_up(&mut mine, &journals, &BTreeSet::from([published, condemned]));
        assert_eq!(mine.iter().map(|one| one.run).collect::<Vec<_>>(), [known]);
        assert_eq!(unread.iter().map(|one| one.run).collect::<Vec<_>>(), [journaled]);
    }
}
