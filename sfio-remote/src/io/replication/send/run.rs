//! One sync run: an object and a journal of its own, and what is written there.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};

use super::super::cutter::{Cutter, Cutting};
use super::super::error::{Outcome, local, temporary};
use super::super::job::Job;
use super::super::meter::Meter;
use super::super::packer::ChunkPacker;
use super::super::parts::Parts;
use super::super::placer::{NewChunk, Placer};
use super::super::prefetch::Prefetch;
use super::super::reclaim::reclaim_condemned;
use super::super::survey::Survey;
use super::super::tree::Tree;
use super::Sending;
use super::base::{Abandoned, Base, Chunks, Numbers};
use super::checkpoints::Checkpoints;
use super::write_window::WriteWindow;
use crate::io::threads::Production;
use crate::replication::{Inserted, JournalHeader, RunId, Token};

/// How many chunks may wait between the thread that cuts and the task that sends: at most 16 MiB.
const CHUNKS_AHEAD: usize = 16;

/// An attempt to send.
#[derive(Debug)]
pub(super) struct Run {
    /// The name of its object and of its journal.
    pub(super) id: RunId,
    /// The token of the data set.
    pub(super) token: Token,
    /// The objects that no record names yet and that chunks may be in.
    pub(super) numbers: Numbers,
    /// What earlier runs have stored.
    abandoned: Vec<Abandoned>,
    window: WriteWindow,
    checkpoints: Checkpoints,
    reclaiming: JoinHandle<Vec<RunId>>,
    reclaimed: Vec<RunId>,
}

impl Run {
    /// Nothing is made on the site before there is something to store.
    pub(super) fn begin(job: &Job, base: &Base, abandoned: Vec<Abandoned>) -> Run {
        let id = job.draw();
        let token = match (&base.record, abandoned.first()) {
            (Some(record), _) => record.token,
            (None, Some(abandoned)) => abandoned.token,
            (None, None) => Token((job.random)()),
        };
        let header = JournalHeader { token, run: id, signer: job.author.signer() };
        let (reclaimer, record) = (job.clone(), base.record.clone());
        Run {
            id,
            token,
            numbers: Numbers::new(base, id),
            abandoned,
            window: WriteWindow::new(&job.dataset, id),
            checkpoints: Checkpoints::new(job, &header),
            reclaiming: tokio::spawn(async move {
                match record {
                    Some(record) => reclaim_condemned(&reclaimer, &record).await,
                    None => Vec::new(),
                }
            }),
            reclaimed: Vec::new(),
        }
    }

    /// Bytes that earlier runs of other processes have stored.
    pub(super) fn resumed_bytes(&self) -> u64 {
        let journals = self.abandoned.iter().filter_map(|one| match &one.chunks {
            Chunks::Journal(journal) => Some(journal.stored_bytes()),
            Chunks::Sent(_) => None,
        });
        journals.sum()
    }

    /// Cuts what has changed on a thread, and sends what is new of it.
    pub(super) async fn transfer(
        &mut self,
        sending: &Sending,
        base: &mut Base,
        parts: &Parts,
        survey: Survey,
    ) -> Outcome<Cutting> {
        let here = |error| local(sending.source.display(), error);
        let known = base.known_chunks(&self.abandoned, parts, &mut self.numbers);
        let tree = Tree::open(&sending.source).map_err(here)?;
        let index = known.map_err(temporary)?;
        let (compression, object) = (sending.options.compression, self.numbers.own());
        let carrying = self.window.carrying().clone();
        let (record, wounds) = (base.record.clone(), std::mem::take(&mut base.wounds));
        let meter = Arc::clone(&sending.job.meter);
        let old_manifest = base.take_manifest();
        let prefetch =
            Prefetch::start(sending.options.jobs, &sending.source, &survey.planned).map_err(here)?;
        let packer = ChunkPacker::new(compression, carrying);
        let mut cutting = Production::begin(CHUNKS_AHEAD, move |to| {
            let Survey { planned, graft, .. } = survey;
            let placer = Placer::new(index, packer, object, wounds, to, Arc::clone(&meter));
            let cutter = Cutter { tree, graft, placer, record, meter };
            cutter.run(&planned, old_manifest.as_ref(), &prefetch)
        });
        while let Some(next) = until(self.window.deadline(), cutting.next()).await.transpose() {
            let Ok(NewChunk { chunk, bytes }) = next else {
                self.window.send_waiting().await?;
                continue;
            };
            Meter::add(&sending.job.meter.moved, bytes.len() as u64);
            self.window.append(chunk.offset, bytes).await?;
            self.numbers.hold(&chunk);
            self.checkpoints.note(chunk);
            self.checkpoint_if_due().await?;
        }
        // On a slow link much is still under way when all is cut.
        while self.window.next_arrival().await? {
            self.checkpoint_if_due().await?;
        }
        let cutting = cutting.end().await.map_err(here)?;
        Ok(cutting.expect("somebody wanted all chunks"))
    }

    async fn checkpoint_if_due(&mut self) -> Outcome<()> {
        if self.checkpoints.is_due() {
            let arrived = self.window.arrived().await?;
            self.checkpoints.save(self.window.object(), arrived).await?;
        }
        Ok(())
    }

    /// Waits until everything that was sent is durable on all I/O nodes.
    pub(super) async fn finish(&mut self) -> Outcome<()> {
        let needs_sync = self.window.drain().await?;
        self.checkpoints.finish().await?;
        if needs_sync {
            self.window.object().file().await?.sync_all().await?;
        }
        Ok(())
    }

    /// Condemned runs of which nothing is left, as far as that is known by now.
    pub(super) async fn look_at_reclaimed(&mut self) {
        if self.reclaiming.is_finished()
            && let Ok(reclaimed) = (&mut self.reclaiming).await
        {
            self.reclaimed = reclaimed;
        }
    }

    /// Condemned runs of which nothing is left.
    pub(super) fn reclaimed(&self) -> &[RunId] {
        &self.reclaimed
    }

    /// Earlier runs of which no process is alive any more.
    pub(super) fn abandoned_for_good(&self) -> impl Iterator<Item = RunId> + '_ {
        self.abandoned.iter().filter(|one| !one.is_alive).map(|one| one.run)
    }

    /// Whether a run may have left a journal that this one knows of.
    pub(super) fn may_have_journal(&self, run: RunId) -> bool {
        (run == self.id && self.checkpoints.have_begun()) || self.abandoned.iter().any(|one| one.run == run)
    }

    /// What the next run of this process knows: what this one knew, and what it has stored.
    pub(super) fn into_abandoned(mut self, stored: Inserted) -> Vec<Abandoned> {
        let (run, token) = (self.id, self.token);
        self.abandoned.push(Abandoned { run, token, is_alive: false, chunks: Chunks::Sent(stored) });
        std::mem::take(&mut self.abandoned)
    }
}

/// What comes of it, or that it took too long.
async fn until<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Result<T, Elapsed> {
    match deadline {
        Some(deadline) => timeout_at(deadline, work).await,
        None => Ok(work.await),
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.reclaiming.abort();
    }
}
