//! A tree becomes the next generation of a data set.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::cache::ManifestCache;
use super::cutter::{Cutter, Cutting, NewChunk};
use super::filter::Filter;
use super::meter::{Meter, Phase};
use super::spool::ManifestFile;
use super::store::{Outcome, ReplicationError, Store, fetch_manifest, load_commit, local, manifest_chunks};
use super::survey::{Change, Rules, Summary, Survey};
use super::tree::Tree;
use super::walk::{Attributes, Walk};
use crate::replication::{
    ChunkIndex, ChunkRef, Commit, Compression, Entry, Generation, Journal, JournalHeader, Token, TreePath,
};

/// Chunks between the thread that cuts and the task that sends: at most 16 MiB.
const CHUNKS_AHEAD: usize = 16;

/// Whether entries that are gone from the source are deleted in the new generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deletion {
    /// They stay.
    #[default]
    Never,
    /// They are, if there are not more than so many.
    AtMost(u64),
}

/// How a tree is to be sent.
#[derive(Debug, Clone)]
pub struct SendOptions {
    /// Who sends: only its own runs are resumed.
    pub member: String,
    /// What takes part.
    pub filter: Filter,
    /// Whether extended attributes do.
    pub attributes: Attributes,
    /// How chunks are compressed.
    pub compression: Compression,
    /// What becomes of entries that are gone.
    pub deletion: Deletion,
    /// Whether files are read although size and time are as before.
    pub distrusts_times: bool,
    /// How many generations are kept, this one included.
    pub keep: usize,
    /// The time of publication, ms since 1970.
    pub now_ms: u64,
    /// For a new data set: random bytes.
    pub token: Token,
    /// Whether to stop before anything is changed.
    pub is_dry_run: bool,
}

/// What came of a run.
#[derive(Debug)]
pub struct Sent {
    /// In numbers.
    pub summary: Summary,
    /// The number of the generation that is current now; none in a dry run.
    pub generation: Option<u64>,
    /// Whether it is a new one: not if nothing has changed.
    pub is_new: bool,
    /// Bytes that an interrupted run had stored already.
    pub resumed_bytes: u64,
}

/// Where a data set stands before a run.
struct Standing {
    commit: Commit,
    /// Whether there is no generation yet.
    is_new: bool,
    manifest: ManifestFile,
    /// The chunks that the current manifest and its index consist of.
    manifest_chunks: Vec<ChunkRef>,
    journal: Option<Journal>,
}

/// Sends the tree below `source`; `tell` hears of each change, in the order of a walk.
///
/// A run that is interrupted anywhere leaves the generation that there was; the next one of the same member sends only
/// what was not yet in the journal.
///
/// # Errors
/// If the site fails, or the tree as a whole. What fails for single files is in the summary.
pub async fn send<S: Store>(
    store: &mut S,
    source: &Path,
    options: &SendOptions,
    cache: &ManifestCache,
    meter: &Arc<Meter>,
    tell: impl FnMut(Change, &TreePath) + Send + 'static,
) -> Outcome<Sent, S> {
    meter.enter(Phase::Connect);
    let standing = stand::<S>(store, options, cache, meter).await?;
    meter.enter(Phase::Compare);
    let survey = survey::<S>(source, options, &standing, meter, tell).await?;
    let mut summary = survey.summary.clone();
    if let Deletion::AtMost(allowed) = options.deletion
        && summary.deleted > allowed
    {
        return Err(ReplicationError::TooManyDeletions { found: summary.deleted, allowed });
    }
    let resumed: u64 = standing
        .journal
        .iter()
        .flat_map(|journal| &journal.chunks)
        .map(|chunk| u64::from(chunk.stored))
        .sum();
    if options.is_dry_run {
        return Ok(Sent { summary, generation: None, is_new: false, resumed_bytes: resumed });
    }
    meter.enter(Phase::Transfer);
    let cutting = transfer::<S>(store, source, options, &standing, survey, meter).await?;
    summary.problems.extend(cutting.problems.iter().cloned());
    let current = standing.commit.current().filter(|_| !standing.is_new);
    if let Some(current) = current.filter(|current| current.index == cutting.index) {
        return Ok(Sent { summary, generation: Some(current.number), is_new: false, resumed_bytes: resumed });
    }
    meter.enter(Phase::Drain);
    store.drain().await.map_err(ReplicationError::Store)?;
    meter.enter(Phase::Publish);
    let number = publish::<S>(store, &standing, cutting, options, cache).await?;
    Ok(Sent { summary, generation: Some(number), is_new: true, resumed_bytes: resumed })
}

async fn stand<S: Store>(
    store: &mut S,
    options: &SendOptions,
    cache: &ManifestCache,
    meter: &Meter,
) -> Outcome<Standing, S> {
    let commit = load_commit(store).await?;
    let journal = Journal::parse(&store.journal().await.map_err(ReplicationError::Store)?);
    let journal = journal.filter(|journal| journal.header.member == options.member);
    let Some(commit) = commit else {
        let token = journal.as_ref().map_or(options.token, |journal| journal.header.token);
        let commit =
            Commit { token, current: 0, generations: Vec::new(), next_object: 0, retired: Vec::new() };
        let manifest = ManifestFile::empty().map_err(|error| local("a temporary file", error))?;
        let journal = journal.filter(|journal| journal.header.object == 0);
        return Ok(Standing { commit, is_new: true, manifest, manifest_chunks: Vec::new(), journal });
    };
    let is_ours = |journal: &Journal| {
        journal.header.token == commit.token && journal.header.object == commit.next_object
    };
    let journal = journal.filter(is_ours);
    let current = commit.current().expect("a record without one is refused").clone();
    let objects = store.objects();
    let manifest = match cache.find(commit.token, &current) {
        Some(manifest) => manifest,
        None => {
            let manifest = fetch_manifest::<S>(&objects, &current, meter).await?;
            cache.put(commit.token, &current, &manifest);
            manifest
        }
    };
    let mut manifest_chunks = manifest_chunks::<S>(&objects, &current).await?;
    manifest_chunks.extend(&current.index);
    Ok(Standing { commit, is_new: false, manifest, manifest_chunks, journal })
}

async fn survey<S: Store>(
    source: &Path,
    options: &SendOptions,
    standing: &Standing,
    meter: &Arc<Meter>,
    mut tell: impl FnMut(Change, &TreePath) + Send + 'static,
) -> Outcome<Survey, S> {
    let place = source.display().to_string();
    let (source, options, meter) = (source.to_owned(), options.clone(), Arc::clone(meter));
    let mut old = standing.manifest.entries().map_err(|error| local("a temporary file", error))?;
    let work = move || {
        let walk = Walk::new(&source, &options.filter, options.attributes)?;
        let walk = walk.inspect(|_| Meter::add(&meter.walked, 1));
        let old = std::iter::from_fn(|| old.read().map_err(io::Error::other).transpose());
        let rules = Rules {
            deletes: options.deletion != Deletion::Never,
            distrusts_times: options.distrusts_times,
            filter: &options.filter,
        };
        let survey = Survey::make(walk, old, rules, &mut tell)?;
        Meter::add(&meter.files, survey.summary.files);
        Meter::add(&meter.bytes, survey.summary.bytes);
        Ok(survey)
    };
    spawn_blocking(work).await.expect("a survey does not panic").map_err(|error| local(place, error))
}

/// Cuts what has changed on a thread, and sends what is new of it.
async fn transfer<S: Store>(
    store: &mut S,
    source: &Path,
    options: &SendOptions,
    standing: &Standing,
    survey: Survey,
    meter: &Arc<Meter>,
) -> Outcome<Cutting, S> {
    let object = standing.commit.next_object;
    let header = JournalHeader { token: standing.commit.token, member: options.member.clone(), object };
    let mut journal_end = standing.journal.as_ref().map(|journal| journal.end);
    let tree = Tree::open(source).map_err(|error| local(source.display(), error))?;
    let (to, mut new_chunks) = mpsc::channel(CHUNKS_AHEAD);
    let cutter = Cutter {
        tree,
        index: known_chunks(standing).map_err(|error| local("a temporary file", error))?,
        compression: options.compression,
        object,
        offset: standing.journal.as_ref().map_or(0, Journal::object_end),
        to,
        meter: Arc::clone(meter),
    };
    let cutting = spawn_blocking(move || cutter.run(&survey.planned));
    let mut unsaved = Vec::new();
    while let Some(NewChunk { chunk, bytes }) = new_chunks.recv().await {
        Meter::add(&meter.moved, bytes.len() as u64);
        store.append(object, chunk.offset, bytes).await.map_err(ReplicationError::Store)?;
        unsaved.push(chunk);
        if store.checkpoint_is_due() {
            let from = match journal_end {
                Some(end) => end,
                None => begin_journal::<S>(store, &header).await?,
            };
            let frame = Journal::frame(&std::mem::take(&mut unsaved));
            journal_end = Some(from + frame.len() as u64);
            store.checkpoint(from, frame).await.map_err(ReplicationError::Store)?;
        }
    }
    let cutting = cutting.await.expect("cutting does not panic");
    let cutting = cutting.map_err(|error| local(source.display(), error))?;
    Ok(cutting.expect("somebody wanted all chunks"))
}

/// Begins the journal of this run, and gives where it goes on.
async fn begin_journal<S: Store>(store: &mut S, header: &JournalHeader) -> Outcome<u64, S> {
    let frame = Journal::begin(header);
    let end = frame.len() as u64;
    store.begin_journal(frame).await.map_err(ReplicationError::Store)?;
    Ok(end)
}

/// What need not be sent: what the current generation has, and what an interrupted run has stored.
fn known_chunks(standing: &Standing) -> io::Result<ChunkIndex> {
    let mut entries = standing.manifest.entries()?;
    let mut failure = None;
    let entries = std::iter::from_fn(|| match entries.read() {
        Ok(entry) => entry,
        Err(error) => {
            failure = Some(error);
            None
        }
    });
    let of_files = entries.flat_map(|entry: Entry| entry.chunks().copied().collect::<Vec<_>>());
    let of_manifest = standing.manifest_chunks.iter().copied();
    let of_journal = standing.journal.iter().flat_map(|journal| journal.chunks.iter().copied());
    let index = ChunkIndex::new(of_files.chain(of_manifest).chain(of_journal));
    failure.map_or(Ok(index), |error| Err(io::Error::other(error)))
}

/// Makes the new generation current, and clears up behind it.
async fn publish<S: Store>(
    store: &mut S,
    standing: &Standing,
    cutting: Cutting,
    options: &SendOptions,
    cache: &ManifestCache,
) -> Outcome<u64, S> {
    let number = standing.commit.next_number();
    let generation = Generation {
        number,
        published_ms: options.now_ms,
        entries: cutting.entries,
        bytes: cutting.bytes,
        index: cutting.index,
        objects: cutting.objects.into_iter().collect(),
    };
    let mut commit = standing.commit.with(generation.clone(), options.keep);
    if cutting.offset > 0 {
        commit.next_object += 1;
    }
    store.replace_commit_record(commit.emit().into()).await.map_err(ReplicationError::Store)?;
    cache.put(commit.token, &generation, &cutting.manifest);
    for object in
        standing.commit.retired.iter().chain(&commit.retired).filter(|object| !commit.refers_to(**object))
    {
        // The record names it as retired: the next run tries again.
        let _ = store.remove(*object).await;
    }
    Ok(number)
}
