//! A data set on the I/O nodes of a site.
//!
//! ```text
//! NAME/objects/00000007   striped over all I/O nodes, from another one on for each object
//! NAME/journal            striped
//! NAME/commit             whole, on the first I/O node
//! NAME/lock               empty, there; claimed by whoever writes
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::store::{Objects, Store};
use super::throttle::Throttle;
use crate::client::{Durability, OpenMode, OperationError};
use crate::distribution::StripeUnit;
use crate::io::{FileError, OpenOptions, SfioClient, StripedFile};
use crate::name::{FileName, SubfileName};
use crate::remote_error::ErrorKind;

/// Bytes of one write.
const WRITE: usize = 2 << 20;
/// Writes under way at once.
const WRITES: usize = 24;
/// A checkpoint is due after so long, or so much (design §8).
const INTERVAL: (Duration, usize) = (Duration::from_millis(100), 64 << 20);

/// How long a claim may outlive the process that made it: I/O nodes miss a killed client after five seconds.
const PATIENCE: Duration = Duration::from_secs(8);
const RETRY: Duration = Duration::from_millis(500);

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

/// A data set on a site.
#[derive(Debug)]
pub struct SiteStore {
    place: Place,
    /// Held while this process writes.
    lock: Option<StripedFile>,
    /// What the next write takes along: object, offset, pieces, bytes.
    waiting: Option<(u32, u64, Vec<Bytes>, usize)>,
    writes: Vec<JoinHandle<std::result::Result<(), FileError>>>,
    permits: Arc<Semaphore>,
    checkpoint: Option<JoinHandle<std::result::Result<(), FileError>>>,
    checkpoint_began: Instant,
    since_checkpoint: usize,
}

/// Where the data set is.
#[derive(Debug, Clone)]
pub struct Place {
    client: SfioClient,
    io_nodes: Arc<[String]>,
    stripe_unit: StripeUnit,
    name: String,
    open: Arc<Mutex<BTreeMap<u32, StripedFile>>>,
    throttle: Arc<Throttle>,
}

impl SiteStore {
    /// The data set `name` on these I/O nodes, for reading.
    pub fn reading(
        client: &SfioClient,
        io_nodes: &[String],
        stripe_unit: StripeUnit,
        name: &str,
    ) -> SiteStore {
        let place = Place {
            client: client.clone(),
            io_nodes: io_nodes.into(),
            stripe_unit,
            name: name.to_owned(),
            open: Arc::default(),
            throttle: Arc::default(),
        };
        SiteStore {
            place,
            lock: None,
            waiting: None,
            writes: Vec::new(),
            permits: Arc::new(Semaphore::new(WRITES)),
            checkpoint: None,
            checkpoint_began: now(),
            since_checkpoint: 0,
        }
    }

    /// The same for writing: nobody else writes until it is closed.
    ///
    /// # Errors
    /// If somebody does for seconds on end, or the first I/O node cannot be asked.
    pub async fn writing(
        client: &SfioClient,
        io_nodes: &[String],
        stripe_unit: StripeUnit,
        name: &str,
    ) -> Result<SiteStore> {
        let store = SiteStore::reading(client, io_nodes, stripe_unit, name);
        let began = now();
        loop {
            match OpenOptions::new().mode(OpenMode::Claim).open(client, &store.place.on_first("lock")).await {
                Ok(lock) => return Ok(SiteStore { lock: Some(lock), ..store }),
                Err(error) if !is_claimed(&error) => return Err(error.into()),
                Err(_) if began.elapsed() >= PATIENCE => return Err(SiteStoreError::Locked(name.to_owned())),
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    /// What limits the rate of appends and reads.
    pub fn throttle(&self) -> Arc<Throttle> {
        Arc::clone(&self.place.throttle)
    }

    /// Lets others write.
    pub async fn close(self) {
        if self.lock.is_some() {
            // If it does not work, the claim ends with our session.
            let _ = self.place.client.remove(&self.place.on_first("lock"), Durability::None).await;
        }
    }

    /// Sends on what waits to become a full write.
    async fn flush(&mut self) -> Result<()> {
        let Some((object, offset, pieces, bytes)) = self.waiting.take() else { return Ok(()) };
        self.place.throttle.pass(bytes as u64).await;
        let file = self.place.object_for_writing(object).await?;
        let permit = Arc::clone(&self.permits).acquire_owned().await.expect("nobody closes it");
        let mut at = offset;
        let pieces: Vec<(u64, Bytes)> = pieces
            .into_iter()
            .map(|piece| {
                let from = at;
                at += piece.len() as u64;
                (from, piece)
            })
            .collect();
        self.writes.push(tokio::spawn(async move {
            let written = file.write_list(pieces).await;
            drop(permit);
            written
        }));
        Ok(())
    }

    async fn finish_checkpoint(&mut self) -> Result<()> {
        if let Some(checkpoint) = self.checkpoint.take() {
            checkpoint.await.expect("a checkpoint does not panic, and nobody aborts it")?;
        }
        Ok(())
    }
}

#[allow(clippy::disallowed_methods, reason = "what is checkpointed when is up to the real clock")]
fn now() -> Instant {
    Instant::now()
}

fn is_claimed(error: &FileError) -> bool {
    matches!(error, FileError::Operation(OperationError::IoNode { error, .. }) if error.kind == ErrorKind::Claimed)
}

impl Store for SiteStore {
    type Error = SiteStoreError;
    type Objects = Place;

    async fn commit_record(&mut self) -> Result<Option<Bytes>> {
        let name = self.place.on_first("commit");
        match StripedFile::open(&self.place.client, &name, self.place.stripe_unit).await {
            Err(FileError::Operation(OperationError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(file) => Ok(Some(file.read_at(0, file.stat_when_opened().length()).await?)),
        }
    }

    async fn replace_commit_record(&mut self, record: Bytes) -> Result<()> {
        let (next, name) = (self.place.on_first("commit.next"), self.place.on_first("commit"));
        let file = StripedFile::create(&self.place.client, &next, self.place.stripe_unit).await?;
        file.write_at(0, record).await?;
        file.sync_all().await?;
        // One name on one I/O node: the system call replaces it or does not.
        Ok(self.place.client.rename(&next, &name, true, Durability::OnEveryCall).await?)
    }

    async fn journal(&mut self) -> Result<Bytes> {
        let name = self.place.striped("journal", 0);
        match StripedFile::open(&self.place.client, &name, self.place.stripe_unit).await {
            // A crash while it was made leaves subfiles missing: as good as none.
            Err(FileError::Operation(
                OperationError::NotFound { .. } | OperationError::Incomplete { .. },
            )) => Ok(Bytes::new()),
            Err(error) => Err(error.into()),
            Ok(file) => Ok(file.read_at(0, file.stat_when_opened().length()).await?),
        }
    }

    async fn begin_journal(&mut self, frame: Vec<u8>) -> Result<()> {
        let file = self.place.journal(OpenMode::Truncate).await?;
        Ok(file.write_at(0, frame).await?)
    }

    async fn append(&mut self, object: u32, offset: u64, bytes: Bytes) -> Result<()> {
        let length = bytes.len();
        self.since_checkpoint += length;
        match &mut self.waiting {
            Some((_, _, pieces, waiting)) => {
                pieces.push(bytes);
                *waiting += length;
            }
            None => self.waiting = Some((object, offset, vec![bytes], length)),
        }
        if self.waiting.as_ref().is_some_and(|(.., waiting)| *waiting >= WRITE) {
            self.flush().await?;
        }
        Ok(())
    }

    fn checkpoint_is_due(&self) -> bool {
        let is_idle = self.checkpoint.as_ref().is_none_or(JoinHandle::is_finished);
        is_idle && (self.checkpoint_began.elapsed() >= INTERVAL.0 || self.since_checkpoint >= INTERVAL.1)
    }

    async fn checkpoint(&mut self, offset: u64, frame: Vec<u8>) -> Result<()> {
        self.finish_checkpoint().await?;
        self.flush().await?;
        (self.checkpoint_began, self.since_checkpoint) = (now(), 0);
        let writes = std::mem::take(&mut self.writes);
        let journal = self.place.journal(OpenMode::Create).await?;
        let files = self.place.open_objects();
        self.checkpoint = Some(tokio::spawn(async move {
            for write in writes {
                write.await.expect("a write does not panic, and nobody aborts it")?;
            }
            for file in files {
                file.sync_all().await?;
            }
            journal.write_at(offset, frame).await
        }));
        Ok(())
    }

    async fn drain(&mut self) -> Result<()> {
        self.finish_checkpoint().await?;
        self.flush().await?;
        for write in std::mem::take(&mut self.writes) {
            write.await.expect("a write does not panic, and nobody aborts it")?;
        }
        for file in self.place.open_objects() {
            file.sync_all().await?;
        }
        Ok(())
    }

    async fn remove(&mut self, object: u32) -> Result<()> {
        Ok(self.place.client.remove(&self.place.object_name(object), Durability::None).await?)
    }

    fn objects(&self) -> Place {
        self.place.clone()
    }
}

impl Objects for Place {
    type Error = SiteStoreError;

    fn read(
        &self,
        object: u32,
        offset: u64,
        length: u64,
    ) -> impl Future<Output = Result<Bytes>> + Send + 'static {
        let place = self.clone();
        async move {
            place.throttle.pass(length).await;
            Ok(place.object(object, OpenMode::Existing).await?.read_exact_at(offset, length).await?)
        }
    }
}

impl Place {
    fn object_name(&self, object: u32) -> FileName {
        self.striped(&format!("objects/{object:08}"), object as usize)
    }

    /// A file over all I/O nodes, beginning with another one for each `turn`.
    fn striped(&self, path: &str, turn: usize) -> FileName {
        let mut io_nodes = self.io_nodes.to_vec();
        io_nodes.rotate_left(turn % self.io_nodes.len());
        self.name_on(&io_nodes, path)
    }

    fn on_first(&self, path: &str) -> FileName {
        self.name_on(&self.io_nodes[..1], path)
    }

    fn name_on(&self, io_nodes: &[String], path: &str) -> FileName {
        let path = format!("{}/{path}", self.name);
        let subfiles = io_nodes.iter().map(|io_node| SubfileName::new(io_node, &path));
        let subfiles =
            subfiles.collect::<std::result::Result<_, _>>().expect("the data set's name was checked");
        FileName::new(subfiles).expect("a site's I/O nodes differ")
    }

    async fn journal(&self, mode: OpenMode) -> Result<StripedFile> {
        let options = OpenOptions::new().mode(mode).stripe_unit(self.stripe_unit);
        let options = options.durability(Durability::OnEveryCall);
        Ok(options.open(&self.client, &self.striped("journal", 0)).await?)
    }

    async fn object_for_writing(&self, object: u32) -> Result<StripedFile> {
        self.object(object, OpenMode::Create).await
    }

    async fn object(&self, object: u32, mode: OpenMode) -> Result<StripedFile> {
        let known = self.open().get(&object).cloned();
        if let Some(file) = known {
            return Ok(file);
        }
        let options = OpenOptions::new().mode(mode).stripe_unit(self.stripe_unit);
        let file = options.open(&self.client, &self.object_name(object)).await?;
        Ok(self.open().entry(object).or_insert(file).clone())
    }

    fn open_objects(&self) -> Vec<StripedFile> {
        self.open().values().cloned().collect()
    }

    fn open(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, StripedFile>> {
        // Each change is a single statement.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
