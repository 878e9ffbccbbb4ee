//! The checkpoints of a run: what has arrived becomes durable, and then the journal says so.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::super::dataset::Opening;
use super::super::job::Job;
use super::write_window::{Errand, finish};
use crate::client::{Durability, OpenMode};
use crate::io::FileError;
use crate::replication::{ChunkRef, Journal, JournalHeader, MAX_FRAME_CHUNKS};

/// A checkpoint is due after so much time, or so many bytes (design §8).
const INTERVAL: (Duration, usize) = (Duration::from_millis(100), 64 << 20);

/// Chunks that were sent, and what of them the journal knows.
#[derive(Debug)]
pub(super) struct Checkpoints {
    journal: Opening,
    /// The first frame, as long as it is not written.
    header: Option<Vec<u8>>,
    /// The offset of the next frame.
    end: u64,
    /// Chunks that no frame tells of.
    unsaved: VecDeque<ChunkRef>,
    under_way: Option<Errand>,
    /// When the last checkpoint began; before the first one, when there was first something to lose.
    began: Option<Instant>,
    /// Bytes since then.
    since: usize,
}

impl Checkpoints {
    /// Checkpoints in the journal of the run, which is made with the first of them.
    pub(super) fn new(job: &Job, header: &JournalHeader) -> Checkpoints {
        let name = job.dataset.journal(header.run);
        Checkpoints {
            journal: job.dataset.opening(name, OpenMode::Exclusive, Durability::OnEveryCall),
            header: Some(Journal::begin(header, &job.author.identity)),
            end: 0,
            unsaved: VecDeque::new(),
            under_way: None,
            began: None,
            since: 0,
        }
    }

    /// A chunk was appended to the object.
    pub(super) fn note(&mut self, chunk: ChunkRef) {
        self.began.get_or_insert_with(Instant::now);
        self.since += chunk.stored as usize;
        self.unsaved.push_back(chunk);
    }

    /// Whether it is time for a checkpoint.
    pub(super) fn is_due(&self) -> bool {
        let is_idle = self.under_way.as_ref().is_none_or(JoinHandle::is_finished);
        let is_time = self.began.is_some_and(|began| began.elapsed() >= INTERVAL.0);
        is_idle && (is_time || self.since >= INTERVAL.1)
    }

    /// Begins to save what has arrived, of the object up to `arrived`.
    pub(super) async fn save(&mut self, object: Opening, arrived: u64) -> Result<(), FileError> {
        let count = self.unsaved.partition_point(|chunk| chunk.end() <= arrived).min(MAX_FRAME_CHUNKS);
        if count == 0 {
            return Ok(());
        }
        self.finish().await?;
        (self.began, self.since) = (Some(Instant::now()), 0);
        let saved: Vec<ChunkRef> = self.unsaved.drain(..count).collect();
        let mut frames = self.header.take().unwrap_or_default();
        frames.extend(Journal::frame(&saved));
        let (journal, offset) = (self.journal.clone(), self.end);
        self.end += frames.len() as u64;
        self.under_way = Some(tokio::spawn(async move {
            journal.begin();
            object.file().await?.sync_all().await?;
            journal.file().await?.write_at(offset, frames).await
        }));
        Ok(())
    }

    /// Waits until the last checkpoint is made.
    pub(super) async fn finish(&mut self) -> Result<(), FileError> {
        match self.under_way.take() {
            Some(under_way) => finish(under_way).await,
            None => Ok(()),
        }
    }

    /// Whether there is a journal, or may be.
    pub(super) fn have_begun(&self) -> bool {
        self.header.is_none()
    }
}
