//! A rank of a group, as a program holds it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fec_transport::Time;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::client::Durability;
use crate::collective::{
    Answer, CollectiveConfig, CollectiveError, FileWork, Group, Job, Participant, Rank, Report, Step,
    WorkDone,
};
use crate::io::SfioClient;
use crate::io::codecs::Worker;
use crate::io_node::{ERROR_COUNTERS_BYTES, ErrorCounters};
use crate::name::FileName;
use crate::store::SystemCall;

/// A [`Group`] that can be waited for. When it is dropped, the other ranks are told that this one is lost.
pub trait Link: Group + Send {
    /// Ends when [`poll`](Group::poll) may have something. It may be dropped before, and nothing is lost by that.
    fn arrival(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Ends when what was sent will reach the others even if this process ends now. Without a queue of its own that is
    /// so at once.
    fn flush(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }

    /// Tells the others that nothing more comes of this rank, and ends when they have heard it. Where they notice that
    /// a link is dropped, there is nothing to do.
    fn leave(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}

/// How long a rank whose call has ended waits until its last words are out: one that does not take them may have
/// stopped.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// What is done at the file for a call.
type AtFile = Pin<Box<dyn Future<Output = std::result::Result<WorkDone, String>> + Send>>;

type Result<T> = std::result::Result<T, CollectiveError>;

/// One rank of a group. Clones are the same rank, whose calls wait for one another.
#[derive(Clone)]
pub struct GroupMember {
    rank: Rank,
    size: usize,
    seat: Arc<Mutex<Seat>>,
}

struct Seat {
    participant: Participant,
    /// None while a call is under way, and for good if that was dropped before its end.
    link: Option<Box<dyn Link>>,
    began: Instant,
    /// Packs and unpacks what travels between ranks.
    worker: Worker,
}

impl GroupMember {
    /// The rank that is at this end of a link.
    pub fn new(link: Box<dyn Link>) -> GroupMember {
        let (rank, size) = (link.rank(), link.size());
        let seat = Seat {
            participant: Participant::new(size),
            link: Some(link),
            began: Instant::now(),
            worker: Worker::new(),
        };
        GroupMember { rank, size, seat: Arc::new(Mutex::new(seat)) }
    }

    /// Which rank this is.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Leaves the group, of which no clone can make another call. The others have heard it when this ends, and may not
    /// have if the last clone is dropped without it and the process ends: over a network that takes them some seconds
    /// to notice.
    pub async fn leave(self) {
        if let Some(mut link) = self.seat.lock().await.link.take() {
            // A rank that does not answer may have stopped.
            let _ = timeout(FLUSH_LIMIT, link.leave()).await;
        }
    }

    /// Waits until all ranks have come here.
    ///
    /// # Errors
    /// If a rank was lost, or is in another call.
    pub async fn barrier(&self) -> Result<()> {
        self.perform("a barrier".to_owned(), async { Ok(Bytes::new()) }).await.map(drop)
    }

    /// The error counters of these I/O nodes, summed; all ranks get the same. Each I/O node is asked by one rank. With
    /// `reset` they start again from zero. `[sfio §3]`, *merrora*
    ///
    /// # Errors
    /// If an I/O node cannot be reached, which may have reset others nevertheless, a rank was lost, or is in another
    /// call.
    pub async fn error_counters(
        &self,
        client: &SfioClient,
        io_nodes: &[String],
        reset: bool,
    ) -> Result<[u64; SystemCall::ALL.len()]> {
        let asker = |index: usize| index * self.size / io_nodes.len().max(self.size);
        let ours = io_nodes.iter().enumerate().filter(|(index, _)| asker(*index) == self.rank.index());
        let (ours, client) = (ours.map(|(_, name)| name.clone()).collect::<Vec<_>>(), client.clone());
        let words = format!("the error counters of {}", io_nodes.join(", "));
        let told = self.perform(words, async move {
            let mut all = Vec::new();
            for name in ours {
                let counters =
                    client.error_counters(&name, reset).await.map_err(|error| error.to_string())?;
                all.extend_from_slice(&counters.to_bytes());
            }
            Ok(all.into())
        });
        let mut sums = [0; SystemCall::ALL.len()];
        let told = told.await?;
        let counters = told.iter().flat_map(|bytes| bytes.as_chunks::<ERROR_COUNTERS_BYTES>().0);
        for counters in counters.map(ErrorCounters::from_bytes) {
            sums.iter_mut().zip(counters.iter()).for_each(|(sum, (_, count))| *sum += count);
        }
        Ok(sums)
    }

    /// Removes those subfiles of a file that there are; one rank asks for it.
    ///
    /// # Errors
    /// On all ranks: if there is no such file, an I/O node fails, a rank was lost, or is in another call.
    pub async fn remove(&self, client: &SfioClient, name: &FileName, durability: Durability) -> Result<()> {
        let (is_first, client, removed) = (self.rank == Rank(0), client.clone(), name.clone());
        let part = async move {
            if is_first {
                client.remove(&removed, durability).await.map_err(|error| error.to_string())?;
            }
            Ok(Bytes::new())
        };
        self.perform(format!("remove {name}"), part).await.map(drop)
    }

    /// A call that moves no data: each rank does its part, and all are told what came of each.
    pub(super) async fn perform(
        &self,
        words: String,
        part: impl Future<Output = std::result::Result<Bytes, String>> + Send + 'static,
    ) -> Result<Vec<Bytes>> {
        let mut part = Some(part);
        let work = move |_| -> AtFile {
            let part = part.take();
            Box::pin(async move {
                match part {
                    Some(part) => part.await.map(WorkDone::Performed),
                    None => Err("a part of a call is done once".to_owned()),
                }
            })
        };
        match self.call(&CollectiveConfig::default(), Job::Perform { words }, work).await? {
            (Answer::Performed(told), _) => Ok(told),
            _ => Ok(Vec::new()),
        }
    }

    /// Makes a collective call, of which `work` does what is to be done at the file.
    pub(super) async fn call(
        &self,
        config: &CollectiveConfig,
        job: Job,
        mut work: impl FnMut(FileWork) -> AtFile,
    ) -> Result<(Answer, Report)> {
        let mut seat = self.seat.lock().await;
        // If this future is dropped before the end, the link goes with it, and the others hear that this rank is lost.
        let mut link = seat.link.take().ok_or(CollectiveError::Left)?;
        let result = match seat.begin(config, job) {
            Ok(()) => seat.drive(&mut *link, &mut work).await,
            Err(error) => Err(error),
        };
        // A program may end with the call: the others must have its last words all the same.
        let _ = timeout(FLUSH_LIMIT, link.flush()).await;
        seat.link = Some(link);
        result
    }
}

impl Seat {
    fn begin(&mut self, config: &CollectiveConfig, job: Job) -> Result<()> {
        self.participant.begin(self.now(), config, job)
    }

    async fn drive(
        &mut self,
        link: &mut dyn Link,
        work: &mut impl FnMut(FileWork) -> AtFile,
    ) -> Result<(Answer, Report)> {
        let mut under_way = JoinSet::new();
        loop {
            let now = self.now();
            match self.participant.step(now, link, &mut self.worker.processor()) {
                Step::Again => {}
                Step::Work(id, what) => {
                    let done = work(what);
                    under_way.spawn(async move { (id, done.await) });
                }
                Step::Done(result) => return result,
                Step::Wait => tokio::select! {
                    biased;
                    Some(done) = under_way.join_next() => {
                        let (id, outcome) =
                            done.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()));
                        self.participant.finish(id, outcome);
                    }
                    () = link.arrival() => {}
                },
            }
        }
    }

    fn now(&self) -> Time {
        Time::from_epoch(self.began.elapsed())
    }
}

impl fmt::Debug for GroupMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.rank, self.size)
    }
}
