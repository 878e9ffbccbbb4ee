//! A tree becomes the next generation of a data set.
//!
//! ```text
//! send ─▶ Sending ─▶ attempt: a run with an id, an object and a journal of its own
//!           │          Base ─▶ Survey ─▶ Cutter ─▶ WriteWindow, Checkpoints ─▶ stage, make durable, publish
//!           └── what earlier attempts have stored is known to later ones
//! ```

mod base;
mod checkpoints;
mod graft;
mod lock;
mod run;
mod wounds;
mod write_window;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::chain::View;
use super::cutter::Cutting;
use super::error::{Outcome, ReplicationError, is_refusal, local, temporary};
use super::expected::{Correction, Expected, correct, tell_all};
use super::filter::Filter;
use super::job::Job;
use super::meter::{Meter, Phase};
use super::parts::Parts;
use super::publish::{Race, Staged, amend, bring_up_to_date};
use super::selection::Selection;
use super::spool::Spool;
use super::survey::{Change, Rules, Summary, Survey, Tops};
use super::tree::Tree;
use super::walk::{Attributes, Walk};
use crate::client::Durability;
use crate::io::threads;
use crate::name::FileName;
use crate::replication::{
    Compression, Deed, Generation, Metadata, ObjectEntry, Origin, Record, RunId, SignedRecord, TreePath,
};
use base::{Abandoned, Base, Journaled, OldEntries, journals, read_journals, to_take_up};
use lock::{Claimed, Lock};
use run::Run;

pub(super) use graft::Graft;
pub use wounds::Mended;
pub(super) use wounds::Wounds;

/// Whether entries that are gone from the source are deleted in the new generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deletion {
    /// The entries stay.
    #[default]
    Never,
    /// The entries are deleted, if there are not more than so many.
    AtMost(u64),
}

/// How a tree is to be sent.
#[derive(Debug, Clone)]
pub struct SendOptions {
    /// Which entries are sent.
    pub filter: Filter,
    /// Whether the files [`IGNORE_FILE`](super::IGNORE_FILE) in the tree have a word on that, too.
    pub obeys_ignore_files: bool,
    /// The directory of the data set that the source becomes; none if it becomes all of it.
    pub at: Option<TreePath>,
    /// Whether extended attributes are sent, too.
    pub attributes: Attributes,
    /// How many files are read at once.
    pub jobs: usize,
    /// How chunks are compressed.
    pub compression: Compression,
    /// What becomes of entries that are gone.
    pub deletion: Deletion,
    /// Whether files are read although size and time are as before.
    pub distrusts_times: bool,
    /// How many generations are kept, this one included. A member that may only append keeps all.
    pub keep: usize,
    /// Whether to stop before anything is changed.
    pub is_dry_run: bool,
    /// Whether to end, and not to compare again, if another run publishes meanwhile.
    pub ends_when_overtaken: bool,
    /// Whether it is an error if the source has something, and nothing of it takes part.
    pub wants_something: bool,
    /// Whether what is mounted in the tree stays out.
    pub is_on_one_file_system: bool,
    /// What the machine calls itself; at most [`MAX_ORIGIN_TEXT_BYTES`](crate::replication::MAX_ORIGIN_TEXT_BYTES), as
    /// the tag.
    pub host: String,
    /// What the generation is to be called; there will be one of that name, even if nothing has changed.
    pub tag: Option<String>,
}

/// What came of a sync run.
#[derive(Debug)]
pub struct Sent {
    /// What was sent, in numbers.
    pub summary: Summary,
    /// The number of the generation that is current now; none in a dry run.
    pub generation: Option<u64>,
    /// Whether it is a new one: not if nothing has changed.
    pub is_new: bool,
    /// Bytes that interrupted runs had stored already.
    pub resumed_bytes: u64,
    /// What was damaged and is whole again.
    pub mended: Mended,
    /// Generations that cannot be read any more because their manifests are damaged.
    pub unreadable: Vec<u64>,
}

type Teller = Arc<Mutex<dyn FnMut(Change, &TreePath) + Send>>;

/// Sends the tree below `source`; `tell` hears of each change, in the order of a walk, once it is part of the current
/// generation; in a dry run, of what would be.
///
/// A run that is interrupted anywhere leaves the generation that there was; the next one of the same member sends only
/// what was not yet in the journal. When the network fails the work goes on with a new run, for as long as the
/// patience.
///
/// # Errors
/// If the site fails, or the tree as a whole. What fails for single files is in the summary.
pub async fn send(
    job: &Job,
    source: &Path,
    options: &SendOptions,
    tell: impl FnMut(Change, &TreePath) + Send + 'static,
) -> Outcome<Sent> {
    // What is not there shall claim nothing.
    Tree::open(source).map_err(|error| local(source.display(), error))?;
    let mut sending = Sending {
        job: job.clone(),
        source: source.to_owned(),
        options: options.clone(),
        tell: Arc::new(Mutex::new(tell)),
        lock: Lock::default(),
        seen: None,
        condemned: BTreeSet::new(),
        runs: Vec::new(),
        stored: Vec::new(),
        appends_only: false,
    };
    let sent = job.persistently(async || sending.attempts().await).await;
    sending.lock.release(job).await;
    sent
}

/// A tree on its way, over as many attempts as it takes.
pub(super) struct Sending {
    job: Job,
    source: PathBuf,
    options: SendOptions,
    tell: Teller,
    lock: Lock,
    /// The newest record that an attempt has begun with.
    seen: Option<Arc<SignedRecord>>,
    /// What any record since the first attempt's base condemns.
    condemned: BTreeSet<RunId>,
    /// The runs of earlier attempts.
    runs: Vec<RunId>,
    /// What they have stored and this process knows to be durable.
    stored: Vec<Abandoned>,
    /// Whether the site has refused a record because it drops something.
    appends_only: bool,
}

/// What one attempt has to publish.
struct Offer {
    view: View,
    base: Base,
    run: Run,
    cutting: Cutting,
    top: Metadata,
}

/// What there is on the site when an attempt begins.
struct Opened {
    view: View,
    journals: Vec<Journaled>,
    parts: Parts,
}

/// How an attempt ends that does not fail.
enum End {
    Done(Box<Sent>),
    /// The data set has learnt what it has lost; the next attempt sends it again.
    Told,
    /// Another run has published this record meanwhile.
    Overtaken(u64),
    /// The record drops something, and this member may only append.
    Refused,
}

impl Sending {
    async fn attempts(&mut self) -> Outcome<Sent> {
        loop {
            match self.attempt().await? {
                End::Done(sent) => return Ok(*sent),
                End::Overtaken(number) if self.options.ends_when_overtaken => {
                    return Err(ReplicationError::Overtaken(number));
                }
                End::Overtaken(_) | End::Told => {}
                End::Refused => self.appends_only = true,
            }
        }
    }

    async fn attempt(&mut self) -> Outcome<End> {
        // What fails here ends the attempt; the patience is that of all attempts together.
        let job = self.job.impatient();
        job.meter.enter(Phase::Connect);
        let Opened { view, journals, parts } = self.open(&job).await?;
        self.learn_what_was_condemned(&view).await?;
        if !self.options.is_dry_run && self.tell_of_losses(&job, &view, &parts).await? {
            return Ok(End::Told);
        }
        let base = Base::load(&job, view.newest.clone()).await?;
        job.meter.enter(Phase::Compare);
        let survey = self.survey(&base).await?;
        let expected = Arc::clone(&survey.expected);
        if self.options.is_dry_run {
            self.tell(&expected, None).await?;
        }
        let mut sent = self.sent(&survey, &base)?;
        let has_nothing_to_do = !sent.summary.has_changes() && base.wounds.are_none();
        if self.options.is_dry_run {
            return Ok(End::Done(Box::new(sent)));
        }
        view.writable()?;
        if let Some(current) = base.current().filter(|_| has_nothing_to_do && self.is_tagged(&base)) {
            return self.acknowledge(&view, current.number, sent).await;
        }
        job.meter.enter(Phase::Transfer);
        let mut run = self.begin_run(&job, &base, &journals).await?;
        sent.resumed_bytes = run.resumed_bytes();
        let (mut base, top) = (base, survey.top.clone());
        let cutting = run.transfer(self, &mut base, &parts, survey).await?;
        sent.summary.problems.extend(cutting.problems.iter().cloned());
        let corrections = Arc::clone(&cutting.corrections);
        correct(&mut sent.summary, &corrections).map_err(temporary)?;
        let end = self.publish(Offer { view, base, run, cutting, top }, sent).await?;
        if matches!(end, End::Done(_)) {
            self.tell(&expected, Some(corrections)).await?;
        }
        Ok(end)
    }

    /// Looks at what there is, and claims the lock meanwhile: it takes one round trip.
    async fn open(&mut self, job: &Job) -> Outcome<Opened> {
        let look = async || -> Outcome<Opened> {
            let (view, journals, parts) =
                tokio::join!(job.look_around(Durability::OnEveryCall), journals(job), Parts::ask(job));
            Ok(Opened { view: view?, journals: journals?, parts: parts? })
        };
        if self.options.is_dry_run {
            return look().await;
        }
        let (locked, seen) = tokio::join!(self.lock.claim(job), look());
        match locked? {
            Claimed::AtOnce => seen,
            // The run that had it before has probably published something.
            Claimed::AfterWaiting => look().await,
        }
    }

    /// Publishes what the I/O nodes have lost of objects that the data set counts on; false if there is nothing new.
    async fn tell_of_losses(&self, job: &Job, view: &View, parts: &Parts) -> Outcome<bool> {
        let Some(newest) = &view.newest else { return Ok(false) };
        let mut lost = parts.losses(newest);
        if !lost.is_empty() {
            // Another run may have published while the parts were looked at.
            lost = Parts::ask(job).await?.losses(newest);
        }
        if !newest.record().clone().add_damage(&lost) {
            return Ok(false);
        }
        amend(job, Deed::Damage, |record| Ok(record.add_damage(&lost))).await?;
        Ok(true)
    }

    /// There is nothing to publish, so the generation that there is counts: on all I/O nodes.
    async fn acknowledge(&self, view: &View, current: u64, mut sent: Sent) -> Outcome<End> {
        bring_up_to_date(&self.job.impatient(), view).await?;
        sent.generation = Some(current);
        Ok(End::Done(Box::new(sent)))
    }

    /// A run that begins anew reads every record since its first base: what any of them condemns is not known any more.
    async fn learn_what_was_condemned(&mut self, view: &View) -> Outcome<()> {
        let Some(newest) = &view.newest else { return Ok(()) };
        if self.seen.as_ref().is_some_and(|seen| seen.number > newest.number) {
            let seen = self.seen.as_ref().map_or(0, |seen| seen.number);
            let what = format!("there was record {seen}, and now there is only {}", newest.number);
            return Err(ReplicationError::Disagreement(what));
        }
        if !self.runs.is_empty() {
            let between = self.job.impatient().records_between(self.seen.as_deref(), newest).await?;
            self.condemned.extend(between.iter().flat_map(|record| record.condemned.iter().copied()));
        }
        self.condemned.extend(newest.condemned.iter().copied());
        self.seen = Some(Arc::clone(newest));
        Ok(())
    }

    /// Compares the source with the current generation, or with the directory of it that it is to become.
    async fn survey(&self, base: &Base) -> Outcome<Survey> {
        let whole_top = base.current().map(|current| current.top.clone());
        let Some(path) = &self.options.at else {
            return self.compare(base, base.entries().map_err(temporary)?, whole_top).await;
        };
        let place = base.place(path)?;
        let entries = place.entries().map_err(temporary)?;
        let survey = self.compare(base, entries, place.top.clone()).await?;
        let top = whole_top.unwrap_or_else(|| survey.top.clone());
        Ok(Survey { graft: Some(place.with_top(survey.top)), top, ..survey })
    }

    /// Says what has become of what was expected. Whoever listens may be slow.
    async fn tell(
        &self,
        expected: &Arc<Spool<Expected>>,
        corrections: Option<Arc<Spool<Correction>>>,
    ) -> Outcome<()> {
        let (tell, expected) = (Arc::clone(&self.tell), Arc::clone(expected));
        let work = move || {
            let mut tell = tell.lock().unwrap_or_else(PoisonError::into_inner);
            tell_all(&expected, corrections.as_deref(), &mut *tell)
        };
        threads::run(work).await.map_err(temporary)
    }

    async fn compare(&self, base: &Base, mut old: OldEntries, old_top: Option<Metadata>) -> Outcome<Survey> {
        let place = self.source.display().to_string();
        let (source, options) = (self.source.clone(), self.options.clone());
        let meter = Arc::clone(&self.job.meter);
        let damaged = base.record.clone().filter(|record| !record.damaged.is_empty());
        let work = move || {
            let selection = || match options.obeys_ignore_files {
                true => Selection::with_ignore_files(&options.filter, &source),
                false => Ok(Selection::from(&options.filter)),
            };
            let walk = Walk::new(&source, selection()?, options.attributes)?.without_parts();
            let mut walk = if options.is_on_one_file_system { walk.on_one_file_system()? } else { walk };
            // The top is in no list, so with a list it stays as it was.
            let kept_top = options.filter.listed().and(old_top.clone());
            let (new, is_entry) = (kept_top.unwrap_or_else(|| walk.top().clone()), options.at.is_some());
            let tops = Tops { old: old_top, new, is_entry };
            let entries = walk.by_ref().inspect(|_| Meter::add(&meter.walked, 1));
            let old = std::iter::from_fn(|| old.read().map_err(io::Error::other).transpose());
            let rules = Rules {
                deletes: options.deletion != Deletion::Never,
                distrusts_times: options.distrusts_times,
                selection: selection()?,
                damaged: damaged.as_ref().map(|record| record.record()),
            };
            let survey = Survey::make(entries, old, tops, rules)?;
            let finds_nothing = walk.has_found_nothing_that_takes_part() && survey.summary.deleted == 0;
            if options.wants_something && finds_nothing {
                return Ok(None);
            }
            Meter::set(&meter.files, survey.summary.files);
            Meter::set(&meter.bytes, survey.summary.bytes);
            // An earlier attempt may have read some of it.
            Meter::set(&meter.files_done, 0);
            Meter::set(&meter.bytes_done, 0);
            Ok(Some(survey))
        };
        let survey = threads::run(work).await.map_err(|error| local(&place, error))?;
        survey.ok_or(ReplicationError::NothingTakesPart(place))
    }

    /// Whether the current generation has the name that is wanted, if one is.
    fn is_tagged(&self, base: &Base) -> bool {
        let origin = base.record.as_ref().and_then(|record| record.origin(record.current));
        self.options.tag.as_ref().is_none_or(|tag| origin.is_some_and(|origin| origin.tag == *tag))
    }

    /// What there is to say, as far as it is known after the survey.
    fn sent(&self, survey: &Survey, base: &Base) -> Outcome<Sent> {
        let summary = survey.summary.clone();
        if let Deletion::AtMost(allowed) = self.options.deletion
            && summary.deleted > allowed
        {
            return Err(ReplicationError::TooManyDeletions { found: summary.deleted, allowed });
        }
        Ok(Sent {
            summary,
            generation: None,
            is_new: false,
            resumed_bytes: 0,
            mended: Mended::default(),
            unreadable: base.unreadable.clone(),
        })
    }

    /// A run with an id of its own, which knows what earlier ones have stored.
    async fn begin_run(&mut self, job: &Job, base: &Base, journals: &[Journaled]) -> Outcome<Run> {
        let mut abandoned = std::mem::take(&mut self.stored);
        // What another process of this member has published since has a number already.
        let taken: BTreeSet<RunId> = base.published_runs().union(&self.condemned).copied().collect();
        let unread = to_take_up(&mut abandoned, journals, &taken);
        abandoned.extend(read_journals(job, unread.into_iter(), base).await?);
        let run = Run::begin(job, base, abandoned);
        self.runs.push(run.id);
        Ok(run)
    }

    /// Makes the new generation safe and then current.
    async fn publish(&mut self, mut offer: Offer, mut sent: Sent) -> Outcome<End> {
        let Offer { view, base, run, cutting, top } = &mut offer;
        let is_current = |one: &&Generation| one.index == cutting.index && one.top == *top;
        if let Some(current) = base.current().filter(is_current).filter(|_| self.is_tagged(base)) {
            return self.acknowledge(view, current.number, sent).await;
        }
        self.job.meter.enter(Phase::Drain);
        run.look_at_reclaimed().await;
        let (record, mended) = self.next_record(base, run, cutting, top);
        let is_less = base.record.as_ref().is_some_and(|before| record.drops_something_of(before));
        let (generation, token) = (record.current().cloned(), record.token);
        // The record waits beside the others until everything that it refers to is safe.
        let mut staged = Staged::begin(&self.job, record)?;
        run.finish().await?;
        self.job.meter.enter(Phase::Publish);
        staged.obsolete = self.obsolete(run, staged.record());
        let published = staged.publish(&self.job, view).await;
        let race = match published {
            Err(ReplicationError::Site(error)) if is_less && is_refusal(&error) => {
                self.keep_what_was_stored(offer);
                return Ok(End::Refused);
            }
            race => race?,
        };
        if race == Race::Lost {
            let number = view.number() + 1;
            self.keep_what_was_stored(offer);
            return Ok(End::Overtaken(number));
        }
        self.lock.was_removed();
        if let Some(generation) = generation {
            self.job.cache.put(token, &generation, &cutting.manifest);
            sent.generation = Some(generation.number);
        }
        (sent.is_new, sent.mended) = (true, mended);
        Ok(End::Done(Box::new(sent)))
    }

    /// What a run that lost has stored is durable, and known to the next one.
    fn keep_what_was_stored(&mut self, offer: Offer) {
        let Offer { run, cutting, .. } = offer;
        self.stored = run.into_abandoned(cutting.stored);
    }

    /// The record that follows the base.
    fn next_record(&self, base: &Base, run: &Run, cutting: &mut Cutting, top: &Metadata) -> (Record, Mended) {
        let mut record = match &base.record {
            Some(before) => self.job.successor(before, Deed::Publish),
            None => self.job.first_record(run.token),
        };
        record.run = run.id;
        let generation = Generation {
            number: record.next_generation,
            published_ms: record.published_ms,
            entries: cutting.entries,
            bytes: cutting.bytes,
            top: top.clone(),
            index: cutting.index.clone(),
            objects: cutting.objects.iter().copied().collect(),
        };
        // With the last number of all the record contradicts itself, and is not signed.
        (record.current, record.next_generation) = (generation.number, generation.number.saturating_add(1));
        record.origins.push(Origin {
            generation: generation.number,
            member: record.signer.member.clone(),
            host: self.options.host.clone(),
            tag: self.options.tag.clone().unwrap_or_default(),
        });
        record.generations.push(generation);
        let (healed, mended) = std::mem::take(&mut cutting.wounds).into_healed(&record.healed);
        let holds_healed = |number: u32| healed.iter().any(|healed| healed.object == number);
        let is_used =
            |entry: &ObjectEntry| cutting.objects.contains(&entry.number) || holds_healed(entry.number);
        record.objects.extend(run.numbers.given().filter(is_used));
        let behind_last = record.objects.last().map_or(0, |last| last.number.saturating_add(1));
        record.next_object = record.next_object.max(behind_last);
        record.healed = healed;
        if !self.appends_only {
            self.drop_what_is_old(&mut record, run);
        }
        (record, mended)
    }

    /// Drops surplus generations, and condemns what nothing needs any more.
    fn drop_what_is_old(&self, record: &mut Record, run: &Run) {
        let surplus = record.generations.len().saturating_sub(self.options.keep.max(1));
        record.generations.drain(..surplus);
        let reclaimed = run.reclaimed();
        record.condemned.retain(|run| !reclaimed.contains(run));
        record.condemn_unneeded();
        let named: BTreeSet<RunId> =
            record.objects.iter().map(|entry| entry.run).chain(record.condemned.iter().copied()).collect();
        let over = self.runs.iter().copied().filter(|id| *id != run.id);
        let over: BTreeSet<RunId> = over.chain(run.abandoned_for_good()).collect();
        record.condemned.extend(over.into_iter().filter(|id| !named.contains(id)));
    }

    /// What nobody needs once the record counts: journals of what it names, and the lock.
    fn obsolete(&self, run: &Run, record: &Record) -> Vec<FileName> {
        let dataset = &self.job.dataset;
        let named = record.objects.iter().map(|entry| entry.run);
        let named: BTreeSet<RunId> = named.filter(|id| run.may_have_journal(*id)).collect();
        named.into_iter().map(|id| dataset.journal(id)).chain([dataset.lock()]).collect()
    }
}
