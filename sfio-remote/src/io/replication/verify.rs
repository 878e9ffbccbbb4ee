//! Everything that a data set has is read from the disks and compared with its checksums.
//!
//! ```text
//! the records, on every I/O node
//! for each generation, the newest first: index ─▶ manifest ─▶ chunks of files, each place once
//!                                                              └─▶ what is damaged goes into the next record
//! ```

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::time::{Duration, Instant};

use super::error::{FailureKind, Outcome, ReplicationError, is_refusal, temporary};
use super::job::Job;
use super::manifests::{fetch_manifest, manifest_chunks};
use super::meter::{Meter, Phase};
use super::objects::{Objects, Source};
use super::publish::amend;
use super::read_ahead::ReadAhead;
use super::reading::Reading;
use super::records::examine_records;
use super::spool::ManifestFile;
use crate::replication::{ChunkRef, Deed, EntryKind, Extent, Generation, Hash, SignedRecord, TreePath};

/// How often a verification that can be interrupted notes how far it is.
const NOTE: Duration = Duration::from_secs(5);

/// How a data set is to be verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VerifyOptions {
    /// The only generation to be verified; without it all that are kept are.
    pub generation: Option<u64>,
    /// Whether to begin anew, and not where an interrupted verification of the same record was.
    pub begins_anew: bool,
}

/// Something that is not as it was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The generation that it is in; none for what concerns the data set as a whole.
    pub generation: Option<u64>,
    /// The entry; none for what the generation, or the data set, as a whole needs.
    pub path: Option<TreePath>,
    /// What is wrong.
    pub what: String,
}

/// What a verification has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Generations that were read.
    pub generations: Vec<u64>,
    /// Their entries.
    pub entries: u64,
    /// Bytes of chunks that were compared.
    pub bytes: u64,
    /// Bytes of chunks that an interrupted verification has compared before.
    pub resumed_bytes: u64,
    /// Entries that are damaged, generations as a whole, and records that I/O nodes have lost or have otherwise.
    pub findings: u64,
    /// The number of the record that tells of the damage; none if there was nothing to tell, or this member may not.
    pub recorded: Option<u64>,
}

/// Reads a data set from the disks; `tell` hears of each finding.
///
/// # Errors
/// If the site fails. What is damaged is no error.
pub async fn verify(job: &Job, options: VerifyOptions, tell: impl FnMut(&Finding)) -> Outcome<Verified> {
    job.meter.enter(Phase::Connect);
    let reading = Reading::begin(job).await?;
    let mut generations: Vec<Generation> = match options.generation {
        Some(number) => vec![reading.generation(Some(number))?.clone()],
        None => reading.record.generations.clone(),
    };
    generations.reverse();
    let progress = Progress::load(job, &reading.record, &options);
    let verifying = Verifying {
        job,
        objects: reading.objects(Source::Disk),
        record: Arc::clone(&reading.record),
        seen: BTreeSet::new(),
        damaged: progress.damaged.iter().copied().collect(),
        superseded: BTreeSet::new(),
        intact: Vec::new(),
        intact_again: Vec::new(),
        verified: Verified::default(),
        position: 0,
        progress,
        noted: Instant::now(),
        tell,
    };
    let verified = verifying.run(&generations, &options).await;
    drop(reading);
    verified
}

/// How far a verification is: kept on this machine, so that the next one goes on there.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Progress {
    #[serde(skip)]
    path: Option<PathBuf>,
    /// The record that is being verified.
    record: Option<Hash>,
    /// So many chunks have been compared, in the order in which they are.
    position: u64,
    /// What was damaged among them.
    damaged: Vec<Extent>,
}

struct Verifying<'a, F> {
    job: &'a Job,
    objects: Objects,
    record: Arc<SignedRecord>,
    /// Places that were compared.
    seen: BTreeSet<(u32, u64)>,
    /// Those that are damaged.
    damaged: BTreeSet<Extent>,
    /// Those that are damaged, too, and of whose chunks an earlier place is whole: nothing is lost, and the next run
    /// sends them again.
    superseded: BTreeSet<Extent>,
    /// Where chunks were read whole, if any were healed: a healing that is none may lead to what is another's.
    intact: Vec<Extent>,
    /// Those that the record calls damaged, and that are not.
    intact_again: Vec<Extent>,
    verified: Verified,
    /// How many chunks have been compared or passed over.
    position: u64,
    progress: Progress,
    noted: Instant,
    tell: F,
}

impl<F: FnMut(&Finding)> Verifying<'_, F> {
    async fn run(mut self, generations: &[Generation], options: &VerifyOptions) -> Outcome<Verified> {
        self.job.meter.enter(Phase::Compare);
        for what in examine_records(self.job, &self.record).await? {
            self.find(None, None, what);
        }
        let mut manifests = Vec::new();
        for generation in generations {
            manifests.push(self.read_manifest(generation).await?);
            self.verified.generations.push(generation.number);
        }
        self.count(manifests.iter().flatten())?;
        self.job.meter.enter(Phase::Transfer);
        for (generation, manifest) in generations.iter().zip(&manifests) {
            if let Some(manifest) = manifest {
                self.read_files(generation, manifest).await?;
            }
        }
        self.job.meter.enter(Phase::Publish);
        self.record_damage(options).await?;
        self.progress.forget();
        Ok(self.verified)
    }

    /// Reads a generation's manifest from the disks, whatever this machine remembers.
    async fn read_manifest(&mut self, generation: &Generation) -> Outcome<Option<ManifestFile>> {
        let list = manifest_chunks(&self.objects, generation).await;
        let whole = match list {
            Ok(list) => {
                self.examine(&list).await?;
                fetch_manifest(&self.objects, generation, &Meter::default()).await
            }
            Err(error) => Err(error),
        };
        match whole {
            Ok(manifest) => {
                self.verified.entries += generation.entries;
                Ok(Some(manifest))
            }
            Err(error) if error.kind() == FailureKind::Integrity => {
                self.examine(&generation.index).await?;
                let what = match &error {
                    ReplicationError::Manifest { error, .. } => error.to_string(),
                    error => error.to_string(),
                };
                self.find(Some(generation.number), None, format!("its manifest cannot be read: {what}"));
                // What this machine remembers tells where to look; what is there is read from the disks all the same.
                let remembered = self.job.cache.find(self.record.token, generation);
                if let Some(manifest) = &remembered {
                    self.examine(manifest.chunks()).await?;
                }
                Ok(remembered)
            }
            Err(error) => Err(error),
        }
    }

    /// Compares chunks of which nobody needs the content.
    async fn examine(&mut self, chunks: &[ChunkRef]) -> Outcome<()> {
        let mut reading = ReadAhead::new(self.objects.clone(), chunks.iter().copied());
        for chunk in chunks {
            let read = reading.next_with_place(&Meter::default()).await;
            self.judge(chunk, read)?;
        }
        Ok(())
    }

    /// How much there is to compare: what several entries consist of is compared once, and holes are not.
    fn count<'m>(&self, manifests: impl Iterator<Item = &'m ManifestFile>) -> Outcome<()> {
        let (meter, mut places) = (&self.job.meter, BTreeSet::new());
        for manifest in manifests {
            let mut entries = manifest.entries().map_err(temporary)?;
            // What cannot be read here fails once more, with an error, where the files are read.
            while let Some(entry) = entries.read().ok().flatten() {
                Meter::add(&meter.files, u64::from(matches!(entry.kind, EntryKind::File { .. })));
                for chunk in entry.chunks() {
                    let place = self.record.place_of(chunk);
                    if places.insert((place.object, place.offset)) {
                        Meter::add(&meter.bytes, chunk.length.into());
                    }
                }
            }
        }
        Ok(())
    }

    async fn read_files(&mut self, generation: &Generation, manifest: &ManifestFile) -> Outcome<()> {
        let unread = self.unread_chunks(manifest)?;
        let mut chunks = ReadAhead::new(self.objects.clone(), unread.into_iter());
        let mut entries = manifest.entries().map_err(temporary)?;
        loop {
            let entry = entries.read().map_err(|error| ReplicationError::Manifest {
                generation: generation.number,
                error: error.into(),
            })?;
            let Some(entry) = entry else { return Ok(()) };
            let mut fault = None;
            Meter::add(&self.job.meter.files_done, u64::from(matches!(entry.kind, EntryKind::File { .. })));
            for chunk in entry.chunks() {
                let place = self.record.place_of(chunk);
                if self.seen.insert((place.object, place.offset)) {
                    self.position += 1;
                    if self.position <= self.progress.position {
                        self.verified.resumed_bytes += u64::from(chunk.length);
                    } else {
                        let read = chunks.next_with_place(&self.job.meter).await;
                        self.verified.bytes += u64::from(chunk.length);
                        if let Some(what) = self.judge(chunk, read)? {
                            fault = Some(what);
                        }
                        self.note_progress();
                    }
                    Meter::add(&self.job.meter.bytes_done, chunk.length.into());
                }
                if self.damaged.contains(&Extent::of(&place)) {
                    fault.get_or_insert_with(|| format!("object {} at {}", place.object, place.offset));
                }
            }
            if let Some(what) = fault {
                self.find(Some(generation.number), Some(entry.path), what);
            }
        }
    }

    /// The chunks of a manifest that were not compared before, each once, without those that an interrupted
    /// verification has compared.
    fn unread_chunks(&self, manifest: &ManifestFile) -> Outcome<Vec<ChunkRef>> {
        let mut entries = manifest.entries().map_err(temporary)?;
        let (mut listed, mut unread, mut position) = (BTreeSet::new(), Vec::new(), self.position);
        while let Some(entry) = entries.read().ok().flatten() {
            for chunk in entry.chunks() {
                let place = self.record.place_of(chunk);
                let key = (place.object, place.offset);
                if !self.seen.contains(&key) && listed.insert(key) {
                    position += 1;
                    if position > self.progress.position {
                        unread.push(*chunk);
                    }
                }
            }
        }
        Ok(unread)
    }

    /// What is wrong with a chunk that was read, if it is damaged and not merely away.
    fn judge(
        &mut self,
        chunk: &ChunkRef,
        read: Outcome<Option<(ChunkRef, ChunkRef, Bytes)>>,
    ) -> Outcome<Option<String>> {
        let newest = self.record.place_of(chunk);
        let place = Extent::of(&newest);
        match read {
            Ok(read) => {
                let found = read.map_or(newest, |(_, found, _)| found);
                if self.record.is_damaged_at(&found) {
                    self.intact_again.push(Extent::of(&found));
                }
                if !self.record.healed.is_empty() {
                    self.intact.push(found.reach());
                }
                if Extent::of(&found) != place {
                    self.superseded.insert(place);
                }
                Ok(None)
            }
            Err(error) if error.kind() == FailureKind::Integrity => {
                self.damaged.insert(place);
                Ok(Some(error.to_string()))
            }
            Err(error) => Err(error),
        }
    }

    fn find(&mut self, generation: Option<u64>, path: Option<TreePath>, what: String) {
        self.verified.findings += 1;
        (self.tell)(&Finding { generation, path, what });
    }

    fn note_progress(&mut self) {
        if self.noted.elapsed() >= NOTE {
            self.noted = Instant::now();
            self.progress.note(self.record.hash(), self.position, &self.damaged);
        }
    }

    /// Publishes what was found damaged, and what is not damaged any more, if this member may.
    async fn record_damage(&mut self, options: &VerifyOptions) -> Outcome<()> {
        let is_all = options.generation.is_none() && self.progress.position == 0;
        let intact = Extent::merged(std::mem::take(&mut self.intact));
        let superseded = self.superseded.iter().filter(|place| is_all && place.is_apart_from(&intact));
        let found: Vec<Extent> = self.damaged.iter().chain(superseded).copied().collect();
        let recovered = if is_all { self.intact_again.clone() } else { Vec::new() };
        let change = |record: &mut crate::replication::Record| {
            let known = record.damaged.clone();
            record.damaged.retain(|old| !recovered.iter().any(|place| place.overlaps(old)));
            record.add_damage(&found);
            Ok(record.damaged != known)
        };
        let before = self.record.number;
        match amend(self.job, Deed::Damage, change).await {
            Ok(record) => {
                self.verified.recorded = Some(record.number).filter(|number| *number > before);
                Ok(())
            }
            Err(ReplicationError::Site(error)) if is_refusal(&error) => Ok(()),
            // It was read, and the user has been told; what cannot be written is another matter.
            Err(ReplicationError::Disagreement(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Progress {
    fn load(job: &Job, record: &SignedRecord, options: &VerifyOptions) -> Progress {
        // A part of it is soon read again.
        let is_whole = options.generation.is_none();
        let name = format!("verify-{:032x}", u128::from_be_bytes(record.token.0));
        let path = job.cache.path_of(&name).filter(|_| is_whole);
        let bytes = path.as_ref().filter(|_| !options.begins_anew).and_then(|path| std::fs::read(path).ok());
        let found: Option<Progress> = bytes.and_then(|bytes| postcard::from_bytes(&bytes).ok());
        let found = found.filter(|found| found.record == Some(record.hash()));
        Progress { path, ..found.unwrap_or_default() }
    }

    fn note(&mut self, record: Hash, position: u64, damaged: &BTreeSet<Extent>) {
        let Some(path) = &self.path else { return };
        let noted = Progress {
            path: None,
            record: Some(record),
            position,
            damaged: damaged.iter().copied().collect(),
        };
        // Without it the next verification begins anew.
        if let Ok(bytes) = postcard::to_stdvec(&noted) {
            let part = path.with_extension("part");
            let _ = std::fs::write(&part, bytes).and_then(|()| std::fs::rename(&part, path));
        }
    }

    fn forget(&self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}
