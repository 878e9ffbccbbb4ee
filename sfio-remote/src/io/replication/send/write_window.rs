//! The writes of a run to its object: how many are under way, and how much has arrived.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::super::carrying::Carrying;
use super::super::dataset::{DataSet, Opening};
use super::super::throttle::Throttle;
use crate::client::{Durability, OpenMode};
use crate::io::FileError;
use crate::replication::RunId;

/// Bytes of one write.
const WRITE: usize = 2 << 20;
/// Writes under way at once: so many, and as many more as have arrived in the last second, up to `MOST_WRITES`. Until
/// an I/O node is there, or when it is gone, the others take what no journal can tell of, and a run that ends so sends
/// it again.
const WRITES: usize = 4;
const MOST_WRITES: usize = 24;

/// So long pieces wait for more of them while nothing else is under way: a run that has ended by then is a single
/// write.
const PATIENCE: Duration = Duration::from_millis(50);

pub(super) type Errand = JoinHandle<Result<(), FileError>>;

/// The object that a run appends to, and what is under way there.
#[derive(Debug)]
pub(super) struct WriteWindow {
    object: Opening,
    throttle: Arc<Throttle>,
    /// The bytes that the next write takes along.
    waiting: Option<Write>,
    /// Writes that are not known to have arrived, each with its end in the object.
    writes: VecDeque<(u64, Errand)>,
    /// The end of the last write that is known to have arrived.
    arrived: u64,
    /// What the network does with them.
    carrying: Carrying,
    /// When the latest writes arrived, at most `MOST_WRITES` of them.
    arrivals: VecDeque<Instant>,
    /// Whether something was written that only a sync makes durable.
    is_unsynced: bool,
}

/// Pieces that go one behind the other.
#[derive(Debug)]
struct Write {
    offset: u64,
    pieces: Vec<Bytes>,
    length: usize,
    /// When the first of them came.
    began: Instant,
}

impl WriteWindow {
    /// Writes into the object of that run, which nobody has yet; it is made with the first bytes.
    pub(super) fn new(dataset: &DataSet, run: RunId) -> WriteWindow {
        WriteWindow {
            object: dataset.opening(dataset.object(run), OpenMode::Exclusive, Durability::OnFlush),
            throttle: Arc::clone(dataset.throttle()),
            waiting: None,
            writes: VecDeque::new(),
            arrived: 0,
            carrying: Carrying::default(),
            arrivals: VecDeque::new(),
            is_unsynced: false,
        }
    }

    /// Puts bytes behind what was put before; they are on their way, or wait to become a full write, when this
    /// returns.
    pub(super) async fn append(&mut self, offset: u64, bytes: Bytes) -> Result<(), FileError> {
        if offset == 0 {
            self.object.begin();
        }
        let began = Instant::now();
        let write = self.waiting.get_or_insert(Write { offset, pieces: Vec::new(), length: 0, began });
        write.length += bytes.len();
        write.pieces.push(bytes);
        if write.length >= WRITE { self.send_waiting().await } else { Ok(()) }
    }

    /// Until when what waits to become a full write may wait; none if there is nothing, or something else is under
    /// way.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let is_idle = self.writes.iter().all(|(_, write)| write.is_finished());
        self.waiting.as_ref().filter(|_| is_idle).map(|write| write.began + PATIENCE)
    }

    /// Sends what waits to become a full write.
    pub(super) async fn send_waiting(&mut self) -> Result<(), FileError> {
        self.flush(Durability::OnFlush).await
    }

    /// What the network does with the writes.
    pub(super) fn carrying(&self) -> &Carrying {
        &self.carrying
    }

    /// The end of the part of the object that has arrived, without waiting for more of it.
    pub(super) async fn arrived(&mut self) -> Result<u64, FileError> {
        while self.writes.front().is_some_and(|(_, write)| write.is_finished()) {
            self.next_arrival().await?;
        }
        Ok(self.arrived)
    }

    /// Waits until more of the object has arrived; false if nothing is under way.
    pub(super) async fn next_arrival(&mut self) -> Result<bool, FileError> {
        let Some((end, write)) = self.writes.pop_front() else { return Ok(false) };
        finish(write).await?;
        self.arrived = end;
        if self.arrivals.len() == MOST_WRITES {
            self.arrivals.pop_front();
        }
        self.arrivals.push_back(Instant::now());
        Ok(true)
    }

    /// Sends the rest and waits until everything is there, and durable if it fits into one write: a small run needs no
    /// sync. Says whether a sync is needed.
    pub(super) async fn drain(&mut self) -> Result<bool, FileError> {
        let durability = if self.is_unsynced { Durability::OnFlush } else { Durability::OnEveryCall };
        self.flush(durability).await?;
        while self.next_arrival().await? {}
        Ok(self.is_unsynced)
    }

    /// Makes what has arrived durable, as a task of its own may do it.
    pub(super) fn object(&self) -> Opening {
        self.object.clone()
    }

    async fn flush(&mut self, durability: Durability) -> Result<(), FileError> {
        let Some(Write { offset, pieces, length, .. }) = self.waiting.take() else { return Ok(()) };
        self.is_unsynced |= durability != Durability::OnEveryCall;
        self.throttle.pass(length as u64).await;
        self.arrived().await?;
        self.carrying.sends_behind(offset - self.arrived);
        while self.writes.len() >= self.most() {
            self.next_arrival().await?;
        }
        let (object, end) = (self.object.clone(), offset + length as u64);
        let carrying = self.carrying.clone();
        let write = tokio::spawn(async move {
            let file = object.file().await?;
            let written = match durability {
                // An I/O node that gets none of the bytes has an empty part. A power loss must not take its name,
                // because the I/O node would refuse a record that names an object of which it has nothing.
                Durability::OnEveryCall => {
                    let written = file.write_list_durably(placed(offset, pieces));
                    tokio::try_join!(written, file.sync_all()).map(|_| ())
                }
                _ => file.write_list(placed(offset, pieces)).await,
            };
            written.inspect(|()| carrying.arrived(length as u64))
        });
        self.writes.push_back((end, write));
        Ok(())
    }

    /// How many writes may be under way.
    fn most(&self) -> usize {
        let fresh = self.arrivals.iter().rev().take_while(|at| at.elapsed() < Duration::from_secs(1));
        (WRITES + fresh.count()).min(MOST_WRITES)
    }
}

/// The pieces, each behind the one before.
fn placed(mut offset: u64, pieces: Vec<Bytes>) -> Vec<(u64, Bytes)> {
    let place = |piece: Bytes| {
        let from = offset;
        offset += piece.len() as u64;
        (from, piece)
    };
    pieces.into_iter().map(place).collect()
}

pub(super) async fn finish(errand: Errand) -> Result<(), FileError> {
    errand.await.expect("errands do not panic, and nobody aborts them")
}
