//! A tree becomes the next generation of a data set.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::cache::ManifestCache;
use super::cutter::{Cutter, Cutting, NewChunk};
use super::filter::Filter;
use super::meter::{Meter, Phase};
use super::prefetch::Prefetch;
use super::spool::ManifestFile;
use super::store::{Locked, Outcome, ReplicationError, Store, fetch_manifest, local};
use super::survey::{Change, Rules, Summary, Survey, Tops};
use super::tree::Tree;
use super::walk::{Attributes, Walk};
use crate::io::threads::{self, Production};
use crate::replication::{
    ChunkIndex, ChunkRef, Commit, Compression, Entry, Generation, Journal, JournalHeader, Metadata, Token,
    TreePath,
};

/// Chunks between the thread that cuts and the task that sends: at most 16 MiB.
const CHUNKS_AHEAD: usize = 16;

/// Chunks in a frame of the journal: some 4 MB.
const FRAME_CHUNKS: usize = 65_536;

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
    /// How many files are read at once.
    pub jobs: usize,
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

/// What a site says about a data set.
#[derive(Clone, PartialEq, Eq)]
struct Seen {
    commit: Option<Bytes>,
    journal: Bytes,
}

/// Where a data set stands before a run.
struct Standing {
    commit: Commit,
    /// Whether there is no generation yet.
    is_new: bool,
    manifest: ManifestFile,
    journal: Option<Journal>,
}

type Teller = Arc<Mutex<dyn FnMut(Change, &TreePath) + Send>>;

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
    let tell: Teller = Arc::new(Mutex::new(tell));
    let (standing, survey) = compare(store, source, options, cache, meter, &tell).await?;
    let mut summary = survey.summary.clone();
    if let Deletion::AtMost(allowed) = options.deletion
        && summary.deleted > allowed
    {
        return Err(ReplicationError::TooManyDeletions { found: summary.deleted, allowed });
    }
    let resumed_bytes = standing.journal.as_ref().map_or(0, Journal::stored_bytes);
    if options.is_dry_run {
        return Ok(Sent { summary, generation: None, is_new: false, resumed_bytes });
    }
    let current = standing.commit.current().filter(|_| !standing.is_new);
    let unchanged = |summary, current: &Generation| Sent {
        summary,
        generation: Some(current.number),
        is_new: false,
        resumed_bytes,
    };
    if let Some(current) = current.filter(|_| !summary.has_changes()) {
        return Ok(unchanged(summary, current));
    }
    meter.enter(Phase::Transfer);
    let top = survey.top.clone();
    let cutting = transfer::<S>(store, source, options, &standing, survey, meter).await?;
    summary.problems.extend(cutting.problems.iter().cloned());
    if let Some(current) = current.filter(|current| current.index == cutting.index && current.top == top) {
        return Ok(unchanged(summary, current));
    }
    let number = publish::<S>(store, &standing, cutting, top, options, cache, meter).await?;
    Ok(Sent { summary, generation: Some(number), is_new: true, resumed_bytes })
}

/// Finds out what has changed, with as few round trips as possible: what is read before it is certain that nobody else
/// writes is read once more while the tree is walked, and all begins anew if it is not the same then.
async fn compare<S: Store>(
    store: &S,
    source: &Path,
    options: &SendOptions,
    cache: &ManifestCache,
    meter: &Arc<Meter>,
    tell: &Teller,
) -> Outcome<(Standing, Survey), S> {
    meter.enter(Phase::Connect);
    let (locked, seen) = tokio::join!(store.lock(), look(store));
    let mut seen = match locked.map_err(ReplicationError::Store)? {
        Locked::AtOnce => seen?,
        Locked::AfterWaiting => look(store).await?,
    };
    loop {
        let standing = stand(store, &seen, options, cache, meter).await?;
        meter.enter(Phase::Compare);
        let (mut later, mut seen_later) = (pin!(look(store)), None);
        let survey = {
            let mut survey = pin!(survey::<S>(source, options, &standing, meter, tell));
            loop {
                tokio::select! {
                    biased;
                    survey = &mut survey => break survey?,
                    seen = &mut later, if seen_later.is_none() => seen_later = Some(seen),
                }
            }
        };
        let writes = !options.is_dry_run && (standing.is_new || survey.summary.has_changes());
        if !writes {
            return Ok((standing, survey));
        }
        let seen_later = match seen_later {
            Some(seen) => seen?,
            None => later.await?,
        };
        if seen_later == seen {
            return Ok((standing, survey));
        }
        // Somebody published between our look and our lock.
        seen = seen_later;
    }
}

async fn look<S: Store>(store: &S) -> Outcome<Seen, S> {
    let (commit, journal) =
        tokio::try_join!(store.commit_record(), store.journal()).map_err(ReplicationError::Store)?;
    Ok(Seen { commit, journal })
}

async fn stand<S: Store>(
    store: &S,
    seen: &Seen,
    options: &SendOptions,
    cache: &ManifestCache,
    meter: &Meter,
) -> Outcome<Standing, S> {
    let commit = seen.commit.as_ref().map(|record| Commit::parse(record)).transpose()?;
    let journal = Journal::parse(&seen.journal).filter(|journal| journal.header.member == options.member);
    let Some(commit) = commit else {
        let journal = journal.filter(|journal| journal.header.object == 0);
        let token = journal.as_ref().map_or(options.token, |journal| journal.header.token);
        let commit =
            Commit { token, current: 0, generations: Vec::new(), next_object: 0, retired: Vec::new() };
        let manifest = ManifestFile::empty().map_err(|error| local("a temporary file", error))?;
        return Ok(Standing { commit, is_new: true, manifest, journal });
    };
    let is_ours = |journal: &Journal| {
        journal.header.token == commit.token && journal.header.object == commit.next_object
    };
    let journal = journal.filter(is_ours);
    let current = commit.current().expect("a record without one is refused");
    let manifest = match cache.find(commit.token, current) {
        Some(manifest) => manifest,
        None => {
            let manifest = fetch_manifest::<S>(&store.objects(), current, meter).await?;
            cache.put(commit.token, current, &manifest);
            manifest
        }
    };
    Ok(Standing { commit, is_new: false, manifest, journal })
}

async fn survey<S: Store>(
    source: &Path,
    options: &SendOptions,
    standing: &Standing,
    meter: &Arc<Meter>,
    tell: &Teller,
) -> Outcome<Survey, S> {
    let place = source.display().to_string();
    let (source, options, meter) = (source.to_owned(), options.clone(), Arc::clone(meter));
    let mut old = standing.manifest.entries().map_err(|error| local("a temporary file", error))?;
    let old_top = standing.commit.current().map(|current| current.top.clone());
    let tell = Arc::clone(tell);
    let work = move || {
        let walk = Walk::new(&source, &options.filter, options.attributes)?;
        let tops = Tops { old: old_top, new: walk.top().clone() };
        let walk = walk.inspect(|_| Meter::add(&meter.walked, 1));
        let old = std::iter::from_fn(|| old.read().map_err(io::Error::other).transpose());
        let rules = Rules {
            deletes: options.deletion != Deletion::Never,
            distrusts_times: options.distrusts_times,
            filter: &options.filter,
        };
        let mut tell = tell.lock().unwrap_or_else(PoisonError::into_inner);
        let survey = Survey::make(walk, old, tops, rules, &mut *tell)?;
        Meter::set(&meter.files, survey.summary.files);
        Meter::set(&meter.bytes, survey.summary.bytes);
        Ok(survey)
    };
    threads::run(work).await.map_err(|error| local(place, error))
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
    let here = |error| local(source.display(), error);
    let tree = Tree::open(source).map_err(here)?;
    let index = known_chunks(standing).map_err(|error| local("a temporary file", error))?;
    let (compression, object) = (options.compression, standing.commit.next_object);
    let offset = standing.journal.as_ref().map_or(0, Journal::object_end);
    let prefetch = Prefetch::start(options.jobs, source, &survey.planned).map_err(here)?;
    let cutter_meter = Arc::clone(meter);
    let mut cutting = Production::begin(CHUNKS_AHEAD, move |to| {
        let cutter = Cutter { tree, index, compression, object, offset, to, meter: cutter_meter };
        cutter.run(&survey.planned, &prefetch)
    });
    let mut unsaved = Unsaved::behind(standing, options);
    while let Some(NewChunk { chunk, bytes }) = cutting.next().await {
        Meter::add(&meter.moved, bytes.len() as u64);
        store.append(chunk.object, chunk.offset, bytes).await.map_err(ReplicationError::Store)?;
        unsaved.chunks.push_back(chunk);
        if store.checkpoint_is_due() {
            unsaved.checkpoint(store).await.map_err(ReplicationError::Store)?;
        }
    }
    unsaved.follow(store).await.map_err(ReplicationError::Store)?;
    let cutting = cutting.end().await.map_err(here)?;
    Ok(cutting.expect("somebody wanted all chunks"))
}

/// Chunks that were sent, and that no frame of the journal tells of.
struct Unsaved {
    header: JournalHeader,
    /// Where the next frame goes.
    journal_end: u64,
    chunks: VecDeque<ChunkRef>,
}

impl Unsaved {
    /// Nothing yet: the journal is as an interrupted run has left it.
    fn behind(standing: &Standing, options: &SendOptions) -> Unsaved {
        let (token, object) = (standing.commit.token, standing.commit.next_object);
        Unsaved {
            header: JournalHeader { token, member: options.member.clone(), object },
            journal_end: standing.journal.as_ref().map_or(0, |journal| journal.end),
            chunks: VecDeque::new(),
        }
    }

    /// Goes on saving what arrives until everything has: on a slow link much is still under way when all is cut.
    async fn follow<S: Store>(&mut self, store: &mut S) -> Result<(), S::Error> {
        while store.next_arrival().await? {
            if store.checkpoint_is_due() {
                self.checkpoint(store).await?;
            }
        }
        Ok(())
    }

    /// Begins to save those that have arrived.
    async fn checkpoint<S: Store>(&mut self, store: &mut S) -> Result<(), S::Error> {
        let arrived = store.arrived().await?;
        let count = self.chunks.partition_point(|chunk| chunk.end() <= arrived).min(FRAME_CHUNKS);
        if count == 0 {
            return Ok(());
        }
        let saved: Vec<ChunkRef> = self.chunks.drain(..count).collect();
        let mut frames = if self.journal_end == 0 { Journal::begin(&self.header) } else { Vec::new() };
        frames.extend(Journal::frame(&saved));
        let begin = self.journal_end;
        self.journal_end += frames.len() as u64;
        store.checkpoint(begin, frames).await
    }
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
    let of_manifest = standing.manifest.chunks().iter().copied();
    let of_index = standing.commit.current().into_iter().flat_map(|current| current.index.iter().copied());
    let of_journal = standing.journal.iter().flat_map(|journal| journal.chunks.iter().copied());
    let index = ChunkIndex::new(of_files.chain(of_manifest).chain(of_index).chain(of_journal));
    failure.map_or(Ok(index), |error| Err(io::Error::other(error)))
}

/// Makes the new generation safe and then current, and clears up behind it.
async fn publish<S: Store>(
    store: &mut S,
    standing: &Standing,
    cutting: Cutting,
    top: Metadata,
    options: &SendOptions,
    cache: &ManifestCache,
    meter: &Meter,
) -> Outcome<u64, S> {
    let number = standing.commit.next_number();
    let generation = Generation {
        number,
        published_ms: options.now_ms,
        entries: cutting.entries,
        bytes: cutting.bytes,
        top,
        index: cutting.index,
        objects: cutting.objects.into_iter().collect(),
    };
    let mut commit = standing.commit.with(generation.clone(), options.keep);
    if cutting.offset > 0 {
        commit.next_object += 1;
    }
    meter.enter(Phase::Drain);
    // The record waits beside the current one until everything that it refers to is safe.
    store.stage(commit.emit().into()).await.map_err(ReplicationError::Store)?;
    store.drain().await.map_err(ReplicationError::Store)?;
    meter.enter(Phase::Publish);
    store.publish().await.map_err(ReplicationError::Store)?;
    cache.put(commit.token, &generation, &cutting.manifest);
    for object in
        standing.commit.retired.iter().chain(&commit.retired).filter(|object| !commit.refers_to(**object))
    {
        // The record names it as retired: the next run tries again.
        let _ = store.remove(*object).await;
    }
    Ok(number)
}
