//! A data set on the I/O nodes of a site, for a run.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::place::{Opening, Place, is_missing};
use super::store::{Locked, Store};
use super::throttle::Throttle;
use crate::client::{Durability, OpenMode, OperationError};
use crate::distribution::StripeUnit;
use crate::io::{FileError, OpenOptions, SfioClient, StripedFile};
use crate::remote_error::ErrorKind;

/// Bytes of one write.
const WRITE: usize = 2 << 20;
/// Writes under way at once: so many, and as many more as have arrived in the last second, up to `MOST_WRITES`. Until an I/O
/// node is there, or when it is gone, the others take what no journal can tell of, and a run that ends so sends it again.
const WRITES: usize = 4;
const MOST_WRITES: usize = 24;
/// A checkpoint is due after so long, or so much (design §8).
const INTERVAL: (Duration, usize) = (Duration::from_millis(100), 64 << 20);

/// How long a claim may outlive the process that made it: I/O nodes miss a killed client after four seconds.
const PATIENCE: Duration = Duration::from_secs(8);
const RETRY: Duration = Duration::from_millis(250);

/// Why a site does not do what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SiteStoreError {
    /// An operation on a file failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// Another run writes to the data set.
    #[error("another run writes to {0}")]
    Locked(String),
}

type Result<T> = std::result::Result<T, SiteStoreError>;
type Errand = JoinHandle<std::result::Result<(), FileError>>;

/// A data set on a site.
#[derive(Debug)]
pub struct SiteStore {
    place: Place,
    /// Whether this process is going to write, and so needs the lock.
    writes_at_all: bool,
    /// Claimed by this process.
    lock: OnceLock<StripedFile>,
    object: Option<Appending>,
    /// What the next write takes along: its pieces, where the first one goes, and their bytes together.
    waiting: Option<(u64, Vec<Bytes>, usize)>,
    /// Writes that are not known to have arrived, each with its end in the object.
    writes: VecDeque<(u64, Errand)>,
    /// The end of the last write that is.
    arrived: u64,
    /// When the latest writes arrived, at most `MOST_WRITES` of them.
    arrivals: VecDeque<Instant>,
    journal: Option<Opening>,
    checkpoint: Option<Errand>,
    /// When the last checkpoint began; before the first one, when there was first something to lose.
    checkpoint_began: Option<Instant>,
    since_checkpoint: usize,
    /// Whether something was written that only a sync makes durable.
    is_unsynced: bool,
    next_commit: Opening,
    staged: Option<Errand>,
}

/// The object that a run appends to.
#[derive(Debug, Clone)]
struct Appending {
    number: u32,
    file: Opening,
    /// The same with writes that are durable when they return: a run that fits into one write needs no sync.
    durable: Opening,
}

impl SiteStore {
    /// The data set `name` on these I/O nodes, for reading.
    pub fn reading(
        client: &SfioClient,
        io_nodes: &[String],
        stripe_unit: StripeUnit,
        name: &str,
    ) -> SiteStore {
        let place = Place::new(client, io_nodes, stripe_unit, name);
        let next_commit = place.opening(place.next_commit(), OpenMode::Truncate, Durability::OnEveryCall);
        SiteStore {
            place,
            writes_at_all: false,
            lock: OnceLock::new(),
            object: None,
            waiting: None,
            writes: VecDeque::new(),
            arrived: 0,
            arrivals: VecDeque::new(),
            journal: None,
            checkpoint: None,
            checkpoint_began: None,
            since_checkpoint: 0,
            is_unsynced: false,
            next_commit,
            staged: None,
        }
    }

    /// The same for writing, once [`lock`](Store::lock) has said that nobody else writes.
    pub fn writing(
        client: &SfioClient,
        io_nodes: &[String],
        stripe_unit: StripeUnit,
        name: &str,
    ) -> SiteStore {
        SiteStore { writes_at_all: true, ..SiteStore::reading(client, io_nodes, stripe_unit, name) }
    }

    /// What limits the rate of appends and reads.
    pub fn throttle(&self) -> Arc<Throttle> {
        Arc::clone(&self.place.throttle)
    }

    /// Lets others write.
    pub async fn close(self) {
        if self.lock.get().is_some() {
            // If it does not work, the claim ends with our session.
            let _ = self.place.client.remove(&self.place.lock(), Durability::None).await;
        }
    }

    /// The object of the run; the first one that asks has everything opened that the run is going to need.
    fn appending_to(&mut self, number: u32) -> &Appending {
        let place = &self.place;
        let next_commit = &self.next_commit;
        self.object.get_or_insert_with(|| {
            let open = |durability| place.opening(place.object(number), OpenMode::Create, durability);
            let (file, durable) = (open(Durability::OnFlush), open(Durability::OnEveryCall));
            [&file, &durable, next_commit].into_iter().for_each(Opening::begin);
            Appending { number, file, durable }
        })
    }

    /// Sends on what waits to become a full write.
    async fn flush(&mut self, durability: Durability) -> Result<()> {
        let (Some((offset, pieces, bytes)), Some(object)) = (self.waiting.take(), &self.object) else {
            return Ok(());
        };
        let file = match durability {
            Durability::OnEveryCall => object.durable.clone(),
            _ => object.file.clone(),
        };
        self.is_unsynced |= durability != Durability::OnEveryCall;
        self.place.throttle.pass(bytes as u64).await;
        while self.writes.len() >= self.window() {
            self.next_arrival().await?;
        }
        let end = offset + bytes as u64;
        let write = tokio::spawn(async move { file.file().await?.write_list(placed(offset, pieces)).await });
        self.writes.push_back((end, write));
        Ok(())
    }

    /// How many writes may be under way.
    fn window(&self) -> usize {
        let fresh = self.arrivals.iter().rev().take_while(|at| at.elapsed() < Duration::from_secs(1));
        (WRITES + fresh.count()).min(MOST_WRITES)
    }

    /// Waits for writes, as long as `wanted` says so.
    async fn finish_writes(&mut self, wanted: impl Fn(&Errand) -> bool) -> Result<()> {
        while self.writes.front().is_some_and(|(_, write)| wanted(write)) {
            self.next_arrival().await?;
        }
        Ok(())
    }

    async fn finish_checkpoint(&mut self) -> Result<()> {
        match self.checkpoint.take() {
            Some(checkpoint) => Ok(finish(checkpoint).await?),
            None => Ok(()),
        }
    }
}

impl Appending {
    /// Syncs what was written. A subfile of which a sync has failed is good for nothing until it is made anew, and nothing
    /// that was published refers to the object: so it goes, but not before the journal that claims to know its content.
    async fn sync(&self, place: &Place) -> std::result::Result<(), FileError> {
        let synced = self.file.file().await?.sync_all().await;
        if matches!(synced, Err(FileError::Operation(OperationError::IoNode { .. }))) {
            let removed = place.client.remove(&place.journal(), Durability::OnEveryCall).await;
            if removed.is_ok() || removed.is_err_and(|error| is_missing(&error)) {
                // If it does not work, the next run fails here and tries again.
                let _ = place.client.remove(&place.object(self.number), Durability::None).await;
            }
        }
        synced
    }
}

/// Each piece behind the one before.
fn placed(mut offset: u64, pieces: Vec<Bytes>) -> Vec<(u64, Bytes)> {
    let place = |piece: Bytes| {
        let from = offset;
        offset += piece.len() as u64;
        (from, piece)
    };
    pieces.into_iter().map(place).collect()
}

async fn finish(errand: Errand) -> std::result::Result<(), FileError> {
    errand.await.expect("errands do not panic, and nobody aborts them")
}

fn is_claimed(error: &FileError) -> bool {
    matches!(error, FileError::Operation(OperationError::IoNode { error, .. }) if error.kind == ErrorKind::Claimed)
}

impl Store for SiteStore {
    type Error = SiteStoreError;
    type Objects = Place;

    async fn lock(&self) -> Result<Locked> {
        if !self.writes_at_all || self.lock.get().is_some() {
            return Ok(Locked::AtOnce);
        }
        let (began, mut locked) = (Instant::now(), Locked::AtOnce);
        loop {
            let claim = OpenOptions::new().mode(OpenMode::Claim);
            match claim.open(&self.place.client, &self.place.lock()).await {
                Ok(lock) => {
                    self.lock.get_or_init(|| lock);
                    return Ok(locked);
                }
                Err(error) if !is_claimed(&error) => return Err(error.into()),
                Err(_) if began.elapsed() >= PATIENCE => {
                    return Err(SiteStoreError::Locked(self.place.name().to_owned()));
                }
                Err(_) => tokio::time::sleep(RETRY).await,
            }
            locked = Locked::AfterWaiting;
        }
    }

    async fn commit_record(&self) -> Result<Option<Bytes>> {
        Ok(self.place.read_whole(&self.place.commit()).await?)
    }

    async fn journal(&self) -> Result<Bytes> {
        Ok(self.place.read_whole(&self.place.journal()).await?.unwrap_or_default())
    }

    async fn append(&mut self, object: u32, offset: u64, bytes: Bytes) -> Result<()> {
        let appending = self.appending_to(object);
        debug_assert_eq!(appending.number, object, "a run appends to one object");
        let length = bytes.len();
        self.checkpoint_began.get_or_insert_with(Instant::now);
        self.since_checkpoint += length;
        let (_, pieces, waiting) = self.waiting.get_or_insert((offset, Vec::new(), 0));
        pieces.push(bytes);
        *waiting += length;
        if *waiting >= WRITE {
            self.flush(Durability::OnFlush).await?;
        }
        Ok(())
    }

    fn checkpoint_is_due(&self) -> bool {
        let is_idle = self.checkpoint.as_ref().is_none_or(JoinHandle::is_finished);
        let is_time = self.checkpoint_began.is_some_and(|began| began.elapsed() >= INTERVAL.0);
        is_idle && (is_time || self.since_checkpoint >= INTERVAL.1)
    }

    async fn arrived(&mut self) -> Result<u64> {
        self.finish_writes(JoinHandle::is_finished).await?;
        Ok(self.arrived)
    }

    async fn next_arrival(&mut self) -> Result<bool> {
        let Some((end, write)) = self.writes.pop_front() else { return Ok(false) };
        finish(write).await?;
        self.arrived = end;
        if self.arrivals.len() == MOST_WRITES {
            self.arrivals.pop_front();
        }
        self.arrivals.push_back(Instant::now());
        Ok(true)
    }

    async fn checkpoint(&mut self, offset: u64, frames: Vec<u8>) -> Result<()> {
        self.finish_checkpoint().await?;
        (self.checkpoint_began, self.since_checkpoint) = (Some(Instant::now()), 0);
        let mode = if offset == 0 { OpenMode::Truncate } else { OpenMode::Create };
        let place = &self.place;
        let journal = self
            .journal
            .get_or_insert_with(|| place.opening(place.journal(), mode, Durability::OnEveryCall))
            .clone();
        let (object, place) = (self.object.clone(), self.place.clone());
        self.checkpoint = Some(tokio::spawn(async move {
            journal.begin();
            if let Some(object) = object {
                object.sync(&place).await?;
            }
            journal.file().await?.write_at(offset, frames).await
        }));
        Ok(())
    }

    async fn stage(&mut self, record: Bytes) -> Result<()> {
        let next = self.next_commit.clone();
        self.staged = Some(tokio::spawn(async move { next.file().await?.write_at(0, record).await }));
        Ok(())
    }

    async fn drain(&mut self) -> Result<()> {
        if !self.is_unsynced {
            self.flush(Durability::OnEveryCall).await?;
            return self.finish_writes(|_| true).await;
        }
        self.flush(Durability::OnFlush).await?;
        self.finish_writes(|_| true).await?;
        self.finish_checkpoint().await?;
        if let Some(object) = &self.object {
            object.sync(&self.place).await?;
        }
        self.is_unsynced = false;
        Ok(())
    }

    async fn publish(&mut self) -> Result<()> {
        if let Some(staged) = self.staged.take() {
            finish(staged).await?;
        }
        // One name on one I/O node: the system call replaces it or does not.
        let (next, commit) = (self.place.next_commit(), self.place.commit());
        Ok(self.place.client.rename(&next, &commit, true, Durability::OnEveryCall).await?)
    }

    async fn remove(&mut self, object: u32) -> Result<()> {
        Ok(self.place.client.remove(&self.place.object(object), Durability::None).await?)
    }

    fn objects(&self) -> Place {
        self.place.clone()
    }
}
