//! A generation of a data set becomes a tree.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use super::arrivals::{Arrivals, Fault};
use super::error::{FailureKind, Outcome, ReplicationError, local};
use super::filter::Filter;
use super::meter::{Meter, Phase};
use super::objects::Objects;
use super::owners::Giving;
use super::planting::{Planter, Source, Step, Task, is_part, part_of};
use super::read_ahead::ReadAhead;
use super::spool::{ManifestFile, Spool, SpoolWriter};
use super::subtree::Subtree;
use super::survey::{Change, Summary};
use super::tree::Tree;
use super::walk::{Attributes, LeftOut, Problem, Walk, next_entry};
use crate::replication::{ChunkRef, Difference, Entry, EntryKind, Merge, Metadata, Owner, TreePath};

/// How a tree is to be restored.
#[derive(Debug, Clone)]
pub struct RestoreOptions {
    /// What takes part.
    pub filter: Filter,
    /// Whether extended attributes do.
    pub attributes: Attributes,
    /// Whether entries of the target that the generation does not have are deleted.
    pub deletes: bool,
    /// Whether files are compared although size and time are right.
    pub distrusts_times: bool,
    /// Whether entries get the owners that they had, and files their set-uid and set-gid bits: whoever could publish
    /// could else plant programs that run as somebody else.
    pub owners: bool,
    /// Whether to stop before anything is changed.
    pub is_dry_run: bool,
}

/// What is to become a tree: a generation, or a [`Subtree`](super::Subtree) of one.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// The metadata of its top.
    pub top: &'a Metadata,
    /// What it consists of.
    pub manifest: &'a ManifestFile,
    /// What its chunks are read from.
    pub objects: Objects,
}

impl RestoreOptions {
    /// The metadata that an entry gets: without what makes programs run as somebody else, unless that is wanted.
    fn allowed(&self, mut metadata: Metadata) -> Metadata {
        if !self.owners {
            metadata.mode &= !0o6000;
            metadata.attributes.retain(|(name, _)| !is_privileged(name));
        }
        self.comparable(metadata)
    }

    /// The same without what is neither compared nor set.
    fn comparable(&self, mut metadata: Metadata) -> Metadata {
        if !self.owners {
            metadata.owner = Owner { user: 0, group: 0 };
            metadata.attributes.retain(|(name, _)| !is_privileged(name));
        }
        metadata
    }
}

/// Whether an extended attribute may give a program rights, as `security.capability` does.
pub(super) fn is_privileged(name: &[u8]) -> bool {
    name.starts_with(b"security.") || name.starts_with(b"trusted.")
}

/// Makes the tree below `target` what the manifest says; `tell` hears of each change once it has been made, and in a
/// dry run of those that would be.
///
/// Each file appears as a whole, and only once it is safe on the disk. A run that is interrupted leaves files
/// `.sfio-part-…`, whose content the next one uses.
///
/// # Errors
/// If the site fails, or the target as a whole. What fails for single entries is in the summary; behind one for which
/// no space is left nothing more is made.
pub async fn restore(
    wanted: &Wanted<'_>,
    target: &Path,
    options: &RestoreOptions,
    meter: &Arc<Meter>,
    mut tell: impl FnMut(Change, &TreePath),
) -> Outcome<Summary> {
    meter.enter(Phase::Compare);
    let here = |error| local(target.display(), error);
    let is_there = !options.is_dry_run && target.exists();
    let locked = is_there.then(|| lock(target)).transpose()?;
    let Plan { summary, tasks, top_change } =
        plan(wanted, target, options, meter, &mut tell).map_err(here)?;
    if options.is_dry_run {
        return Ok(summary);
    }
    std::fs::create_dir_all(target).map_err(here)?;
    let _locked = locked.map_or_else(|| lock(target), Ok)?;
    meter.enter(Phase::Transfer);
    let missing = missing_chunks(&tasks).map_err(here)?;
    let mut chunks = ReadAhead::new(wanted.objects.clone(), missing);
    let mut planter = Tree::open(target).and_then(|tree| Planter::new(tree, options)).map_err(here)?;
    let mut arrivals = Arrivals { summary, tell };
    let mut is_full = false;
    for task in tasks.read().map_err(here)? {
        let task = task.map_err(here)?;
        // On a full disk nothing more is made, but what is to go still goes: that may make the room.
        if is_full && !matches!(task.step, Step::Remove { .. }) {
            continue;
        }
        let path = task.step.path().clone();
        if let Err(fault) = plant(task, &mut chunks, &mut planter, meter).await? {
            planter.give_up(&path, &fault);
            is_full |= fault.is_for_space();
            arrivals.miss(path, fault);
        }
        planter.settle_if_due().await.map_err(here)?;
        arrivals.take(planter.arrived());
    }
    meter.enter(Phase::Drain);
    let left = planter.leave_all(&options.allowed(wanted.top.clone()), top_change).await;
    let (arrived, faults) = left.map_err(here)?;
    arrivals.take(arrived);
    faults.into_iter().for_each(|(path, fault)| arrivals.miss(path, fault));
    Ok(arrivals.summary)
}

/// Two runs that restore to one directory would take away each other's parts.
fn lock(target: &Path) -> Outcome<Tree> {
    let tree = Tree::open(target).map_err(|error| local(target.display(), error))?;
    match tree.lock() {
        true => Ok(tree),
        false => Err(ReplicationError::TargetLocked(target.display().to_string())),
    }
}

/// Takes one step, with the chunks that it needs. What fails for this entry alone is the inner error: one damaged chunk
/// spoils one file.
async fn plant(
    task: Task,
    chunks: &mut ReadAhead<impl Iterator<Item = ChunkRef>>,
    planter: &mut Planter<'_>,
    meter: &Meter,
) -> Outcome<Result<(), Fault>> {
    let (missing, is_file) = (task.step.missing().count(), matches!(task.step, Step::File { .. }));
    let mut done = planter.begin(task).map_err(Fault::from);
    for _ in 0..missing {
        match chunks.next(meter).await {
            Ok(Some((chunk, bytes))) => {
                Meter::add(&meter.bytes_done, bytes.len() as u64);
                done = done.and_then(|()| Ok(planter.write(&chunk, &bytes)?));
                // The disk is full, and what is behind it in the file would have no room either.
                if done.as_ref().is_err_and(Fault::is_for_space) {
                    break;
                }
            }
            Ok(None) => break,
            Err(error) if error.kind() == FailureKind::Integrity => done = Err(error.into()),
            Err(error) => return Err(error),
        }
    }
    Meter::add(&meter.files_done, u64::from(is_file));
    Ok(done.and_then(|()| Ok(planter.finish()?)))
}

/// The chunks to be fetched, in the order in which they are written.
fn missing_chunks(tasks: &Spool<Task>) -> io::Result<impl Iterator<Item = ChunkRef> + use<>> {
    // What cannot be read here fails once more, with an error, where the tasks are done.
    let missing = |task: Task| task.step.missing().copied().collect::<Vec<_>>();
    Ok(tasks.read()?.map_while(Result::ok).flat_map(missing))
}

/// What is to be done in the target.
struct Plan {
    /// What is known before anything is done; in a dry run, what would be done, too.
    summary: Summary,
    tasks: Spool<Task>,
    /// What happens to the top.
    top_change: Option<Change>,
}

/// Compares the target with the manifest.
fn plan(
    wanted: &Wanted<'_>,
    target: &Path,
    options: &RestoreOptions,
    meter: &Arc<Meter>,
    tell: impl FnMut(Change, &TreePath),
) -> io::Result<Plan> {
    let everything = Filter::default();
    let exists = target.exists();
    let walk = exists.then(|| Walk::new(target, &everything, options.attributes)).transpose()?;
    let top = options.allowed(wanted.top.clone());
    let top_differs = walk.as_ref().is_some_and(|walk| options.comparable(walk.top().clone()) != top);
    let comparable = |entry: Entry| Entry { metadata: options.comparable(entry.metadata.clone()), ..entry };
    let mut walk = walk.into_iter().flatten().map(|entry| entry.map(comparable));
    let admitted = match options.filter.is_everything() {
        true => None,
        false => Some(Subtree::admitted(wanted.manifest, &options.filter)?),
    };
    let mut wanted = admitted.as_ref().unwrap_or(wanted.manifest).entries()?;
    let tree = exists.then(|| Tree::open(target)).transpose()?;
    let giving = options.owners.then(Giving::of_this_process).transpose()?;
    let mut planning = Planning {
        target,
        options,
        tree,
        giving,
        summary: Summary::default(),
        unseen: options.filter.listed().cloned().unwrap_or_default(),
        tasks: SpoolWriter::new()?,
        removed: None,
        remade: BTreeSet::new(),
        parts: BTreeSet::new(),
        used: BTreeSet::new(),
        meter,
        tell,
    };
    let top_change = top_differs.then_some(Change::Touched);
    planning.expect(top_change, &TreePath::top());
    if top_differs || !exists {
        planning.check_owner(&TreePath::top(), &top)?;
    }
    let merge = Merge { distrusts_times: options.distrusts_times };
    let (mut before, mut next) = (None, None);
    loop {
        before = before.or_else(|| next_entry(&mut walk, &mut planning.summary));
        if next.is_none() {
            next = wanted.read().map_err(io::Error::other)?;
            Meter::add(&meter.walked, u64::from(next.is_some()));
            next = next.map(|entry| Entry { metadata: options.allowed(entry.metadata), ..entry });
        }
        let Some(difference) = merge.next(&mut before, &mut next) else { break };
        planning.take(difference)?;
    }
    planning.remove_parts(None)?;
    planning
        .summary
        .miss(planning.unseen, |path, is_directory| options.filter.admits_with_parents(path, is_directory));
    Ok(Plan { summary: planning.summary, tasks: planning.tasks.finish()?, top_change })
}

struct Planning<'a, F> {
    target: &'a Path,
    options: &'a RestoreOptions,
    tree: Option<Tree>,
    /// To whom files may be given, if owners are restored.
    giving: Option<Giving>,
    summary: Summary,
    /// The paths that somebody has listed and that nothing was found at so far.
    unseen: BTreeSet<TreePath>,
    tasks: SpoolWriter<Task>,
    /// The last directory that goes with all that is in it.
    removed: Option<TreePath>,
    /// Files that are made anew in the place of others: their other names lead to the old ones.
    remade: BTreeSet<TreePath>,
    /// Parts that an interrupted run has left, in directories that the walk has not left yet. A file that comes later
    /// may use its part, so the others are removed only when the walk leaves their directory.
    parts: BTreeSet<TreePath>,
    /// Parts of files in such directories that come before all parts there: the walk may still find them.
    used: BTreeSet<TreePath>,
    meter: &'a Meter,
    tell: F,
}

impl<F: FnMut(Change, &TreePath)> Planning<'_, F> {
    fn take(&mut self, difference: Difference) -> io::Result<()> {
        self.remove_parts(Some(difference.path()))?;
        if !matches!(difference, Difference::Gone(_)) {
            self.unseen.remove(difference.path());
        }
        match difference {
            Difference::Gone(entry) => self.gone(entry),
            Difference::New(entry) => self.make(entry, Change::New),
            Difference::Changed { old, new } => self.changed(old, new),
            Difference::Kept { entry, is_touched } => self.kept(entry, is_touched),
        }
    }

    fn changed(&mut self, old: Entry, new: Entry) -> io::Result<()> {
        let is_directory = old.kind == EntryKind::Directory;
        if is_directory && !self.goes_as_a_whole(&old.path)? {
            let why = match self.options.deletes {
                true => "something in that does not take part",
                false => "that is not empty and only goes if what is too much is deleted (--delete)",
            };
            let what = format!("a directory is in its place, and {why}");
            self.summary.problems.push(Problem { path: new.path, what });
            return Ok(());
        }
        if matches!((&old.kind, &new.kind), (EntryKind::File { .. }, EntryKind::File { .. })) {
            return self.changed_file(&old, new);
        }
        if is_directory {
            self.removed = Some(old.path.clone());
        }
        if matches!(old.kind, EntryKind::File { .. }) {
            self.remade.insert(old.path.clone());
        }
        if is_directory || new.kind == EntryKind::Directory {
            self.push(Step::Remove { path: old.path.clone(), is_directory }, None)?;
        }
        self.make(new, Change::Changed)
    }

    /// A file whose time says that it may have other content.
    fn changed_file(&mut self, old: &Entry, new: Entry) -> io::Result<()> {
        let sources = self.sources(&new, true);
        let has_chunks =
            sources.len() == new.chunks().count() && sources.iter().all(|source| *source == Source::Old);
        let is_same = has_chunks
            && old.size() == new.size()
            && self.tree.as_mut().is_some_and(|tree| tree.has_holes_of(&new));
        if is_same && old.metadata == new.metadata {
            self.summary.unchanged += 1;
            return Ok(());
        }
        self.remade.insert(new.path.clone());
        self.make_file(new, sources, if is_same { Change::Touched } else { Change::Changed })
    }

    fn kept(&mut self, entry: Entry, is_touched: bool) -> io::Result<()> {
        let change = is_touched.then_some(Change::Touched);
        self.summary.unchanged += u64::from(!is_touched);
        match &entry.kind {
            EntryKind::Directory => self.push(Step::Enter(entry), change),
            EntryKind::HardLink { to } if self.remade.contains(to) => self.push(Step::Link(entry), change),
            EntryKind::Symlink { .. } if is_touched => self.push(Step::Link(entry), change),
            EntryKind::File { .. } | EntryKind::HardLink { .. } if is_touched => {
                self.push(Step::Touch(entry), change)
            }
            _ => Ok(()),
        }
    }

    /// What is to be done, and what it does to the entry.
    fn push(&mut self, step: Step, change: Option<Change>) -> io::Result<()> {
        if let Some(entry) = step.entry().filter(|_| change.is_some()) {
            self.check_owner(&entry.path, &entry.metadata)?;
        }
        self.expect(change, step.path());
        self.tasks.push(&Task { step, change })
    }

    fn check_owner(&self, path: &TreePath, metadata: &Metadata) -> io::Result<()> {
        self.giving.as_ref().map_or(Ok(()), |giving| giving.check(path, metadata.owner))
    }

    /// A dry run says what would happen; any other one, what has.
    fn expect(&mut self, change: Option<Change>, path: &TreePath) {
        if let Some(change) = change.filter(|_| self.options.is_dry_run) {
            *self.summary.count_of(change) += 1;
            (self.tell)(change, path);
        }
    }

    fn gone(&mut self, entry: Entry) -> io::Result<()> {
        let path = entry.path;
        if self.removed.as_ref().is_some_and(|removed| path.is_within(removed)) {
            // Any other run counts what it removes.
            self.summary.deleted += u64::from(self.options.is_dry_run);
            return Ok(());
        }
        let is_directory = entry.kind == EntryKind::Directory;
        if is_part(&path) {
            if !self.used.remove(&path) {
                self.parts.insert(path);
            }
            return Ok(());
        }
        let goes = self.options.deletes && self.options.filter.admits_with_parents(&path, is_directory);
        if goes {
            self.unseen.remove(&path);
        }
        // Of a directory in which something stays, the rest is deleted one by one.
        if !goes || (is_directory && !self.goes_as_a_whole(&path)?) {
            self.summary.retained += 1;
            return Ok(());
        }
        if is_directory {
            self.removed = Some(path.clone());
        }
        self.push(Step::Remove { path, is_directory }, Some(Change::Deleted))
    }

    /// Whether nothing in a directory of the target is to stay.
    fn goes_as_a_whole(&self, directory: &TreePath) -> io::Result<bool> {
        let RestoreOptions { filter, deletes, .. } = self.options;
        if *deletes && filter.is_everything() {
            return Ok(true);
        }
        let everything = Filter::default();
        let place = self.target.join(OsStr::from_bytes(directory.as_bytes()));
        let mut walk = Walk::new(&place, &everything, Attributes::Ignored)?;
        Ok(walk.all(|found| {
            let (path, is_directory) = match &found {
                Ok(entry) => (&entry.path, entry.kind == EntryKind::Directory),
                Err(LeftOut::Special(problem) | LeftOut::Part(problem) | LeftOut::Failed(problem)) => {
                    (&problem.path, false)
                }
            };
            *deletes && filter.admits_with_parents(&directory.join(path), is_directory)
        }))
    }

    /// Removes the parts that no file has used, in directories that do not lead to `path`; without a path, in all.
    fn remove_parts(&mut self, path: Option<&TreePath>) -> io::Result<()> {
        let is_left = |part: &TreePath| {
            let parent = part.parent();
            path.is_none_or(|path| !parent.is_none_or(|parent| path.is_within(&parent)))
        };
        self.used.retain(|part| !is_left(part));
        let (left, stay) = std::mem::take(&mut self.parts).into_iter().partition(is_left);
        self.parts = stay;
        let left: BTreeSet<TreePath> = left;
        left.into_iter().try_for_each(|path| self.push(Step::Remove { path, is_directory: false }, None))
    }

    /// A file uses its part, if there is one: the walk may have found that, or will.
    fn use_part(&mut self, path: &TreePath) {
        let part = part_of(path);
        let is_to_be_found = |tree: &mut Tree| path < &part && tree.has_part(path);
        if !self.parts.remove(&part) && self.tree.as_mut().is_some_and(is_to_be_found) {
            self.used.insert(part);
        }
    }

    fn make(&mut self, entry: Entry, change: Change) -> io::Result<()> {
        match &entry.kind {
            EntryKind::Directory => self.push(Step::Enter(entry), Some(change)),
            EntryKind::File { .. } => {
                let sources = self.sources(&entry, false);
                self.make_file(entry, sources, change)
            }
            EntryKind::Symlink { .. } | EntryKind::HardLink { .. } => {
                self.push(Step::Link(entry), Some(change))
            }
        }
    }

    fn sources(&mut self, entry: &Entry, has_old: bool) -> Vec<Source> {
        self.tree.as_mut().map(|tree| tree.chunks_here(entry, has_old)).unwrap_or_default()
    }

    fn make_file(&mut self, entry: Entry, sources: Vec<Source>, change: Change) -> io::Result<()> {
        self.use_part(&entry.path);
        let step = Step::File { entry, sources };
        let missing: u64 = step.missing().map(|chunk| u64::from(chunk.length)).sum();
        if self.options.is_dry_run {
            self.summary.files += 1;
            self.summary.bytes += missing;
        }
        Meter::add(&self.meter.files, 1);
        Meter::add(&self.meter.bytes, missing);
        self.push(step, Some(change))
    }
}
