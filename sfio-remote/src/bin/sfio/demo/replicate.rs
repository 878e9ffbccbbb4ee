//! Writing the source's files to the I/O nodes, and reading them back.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use sfio_remote::client::{Durability, OpenMode};
use sfio_remote::distribution::StripeUnit;
use sfio_remote::io::{OpenOptions, SfioClient, StripedFile};
use sfio_remote::name::{FileName, SubfileName};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, JoinSet, block_in_place};

use super::source::SourceFile;
use crate::exit::{Exit, Failure, OrFail as _, exit_of};

/// Files under way at once: enough to hide a round trip behind others when they are small.
const FILES_AT_ONCE: usize = 128;
/// Bytes that one call reads or writes, and calls under way at once: 64 MiB in all, so that a fast I/O node need not
/// wait for a slow one.
const PIECE: u64 = 256 << 10;
const PIECES_AT_ONCE: usize = 256;

/// What a file was when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint {
    length: u64,
    hash: blake3::Hash,
}

/// The files on the I/O nodes.
#[derive(Debug, Clone)]
pub(super) struct Replica {
    client: SfioClient,
    io_nodes: Arc<[String]>,
    pieces: Arc<Semaphore>,
}

impl Replica {
    pub(super) fn new(client: &SfioClient, io_nodes: &[String]) -> Replica {
        let pieces = Arc::new(Semaphore::new(PIECES_AT_ONCE));
        Replica { client: client.clone(), io_nodes: io_nodes.into(), pieces }
    }

    /// Opens a session to each I/O node.
    pub(super) async fn connect(&self) -> Result<(), Failure> {
        for io_node in &*self.io_nodes {
            let answer = self.client.error_counters(io_node, false).await;
            answer.map_err(|error| Failure::new(exit_of(&error), error))?;
        }
        Ok(())
    }

    /// Writes all files, durably; gives what they were.
    pub(super) async fn write(&self, files: &Arc<[SourceFile]>) -> Result<Vec<Fingerprint>, Failure> {
        for_all(files, |index, file| write_file(self.clone(), index, file)).await
    }

    /// Reads all files; gives what they are.
    pub(super) async fn read(&self, files: &Arc<[SourceFile]>) -> Result<Vec<Fingerprint>, Failure> {
        for_all(files, |index, file| read_file(self.clone(), index, file)).await
    }

    /// Leave to hold one more piece in memory.
    async fn permit(&self) -> OwnedSemaphorePermit {
        let permit = Arc::clone(&self.pieces).acquire_owned().await;
        permit.expect("the semaphore is never closed")
    }

    /// Leave to hold one more piece in memory, if there is room or it `may_wait` for some.
    async fn permit_if(&self, may_wait: bool) -> Option<OwnedSemaphorePermit> {
        if may_wait { Some(self.permit().await) } else { Arc::clone(&self.pieces).try_acquire_owned().ok() }
    }

    /// The striped file for the source's file of that number. Its own name stays at the client: a name string could not
    /// hold every name that a file may have.
    fn name(&self, index: usize) -> Result<FileName, Failure> {
        let path = format!("demo/{index:06}");
        let subfiles = self.io_nodes.iter().map(|io_node| SubfileName::new(io_node, &path));
        let subfiles: Result<Vec<_>, _> = subfiles.collect();
        FileName::new(subfiles.or_fail(Exit::Input, "I/O nodes")?).or_fail(Exit::Input, "I/O nodes")
    }
}

/// Runs `task` for every file, some at once, the large ones first; gives the results in the order of the files.
async fn for_all<F>(
    files: &Arc<[SourceFile]>,
    task: impl Fn(usize, SourceFile) -> F,
) -> Result<Vec<Fingerprint>, Failure>
where
    F: Future<Output = Result<Fingerprint, Failure>> + Send + 'static,
{
    let mut order: Vec<usize> = (0..files.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(files[*index].length));
    let permits = Arc::new(Semaphore::new(FILES_AT_ONCE));
    let mut tasks = JoinSet::new();
    for index in order {
        let (permits, work) = (Arc::clone(&permits), task(index, files[index].clone()));
        tasks.spawn(async move {
            let _permit = permits.acquire_owned().await;
            (index, work.await)
        });
    }
    let mut results = vec![None; files.len()];
    while let Some(ended) = tasks.join_next().await {
        let (index, result) = ended.or_fail(Exit::Failed, "a task of the demo")?;
        results[index] = Some(result?);
    }
    Ok(results.into_iter().flatten().collect())
}

async fn write_file(replica: Replica, index: usize, file: SourceFile) -> Result<Fingerprint, Failure> {
    let at_nodes = |error| from_io_nodes(&file, &error);
    // A file of one piece is durable with its only write; the pieces of others arrive in any order, and are synced
    // last.
    let is_small = file.length <= PIECE;
    let durability = if is_small { Durability::OnEveryCall } else { Durability::OnFlush };
    let options = OpenOptions::new().mode(OpenMode::Truncate).durability(durability);
    let striped = options.open(&replica.client, &replica.name(index)?).await;
    let striped = Arc::new(striped.map_err(at_nodes)?);
    if !is_small {
        striped.set_len(file.length).await.map_err(at_nodes)?;
    }
    let mut reader = file.open().or_fail(Exit::Input, format!("file {}", file.name))?;
    let mut hasher = blake3::Hasher::new();
    let mut writes = JoinSet::new();
    for offset in (0..file.length).step_by(PIECE as usize) {
        let length = PIECE.min(file.length - offset);
        let permit = replica.permit().await;
        let piece = block_in_place(|| reader.read(offset, length as usize));
        let piece = piece.or_fail(Exit::Input, format!("file {} changed while it was read", file.name))?;
        hasher.update(&piece);
        let striped = Arc::clone(&striped);
        writes.spawn(async move {
            let _permit = permit;
            striped.write_at(offset, Bytes::from(piece)).await
        });
    }
    while let Some(write) = writes.join_next().await {
        write.or_fail(Exit::Failed, "a task of the demo")?.map_err(at_nodes)?;
    }
    if !is_small {
        striped.sync_all().await.map_err(at_nodes)?;
    }
    Ok(Fingerprint { length: file.length, hash: hasher.finalize() })
}

async fn read_file(replica: Replica, index: usize, file: SourceFile) -> Result<Fingerprint, Failure> {
    let at_nodes = |error| from_io_nodes(&file, &error);
    let striped = StripedFile::open(&replica.client, &replica.name(index)?, StripeUnit::DEFAULT).await;
    let striped = Arc::new(striped.map_err(at_nodes)?);
    let length = striped.stat_when_opened().length();
    let mut hasher = blake3::Hasher::new();
    let mut reads: VecDeque<JoinHandle<_>> = VecDeque::new();
    let mut offsets = (0..length).step_by(PIECE as usize).peekable();
    loop {
        // A task that holds pieces takes one more only if there is room: it could not let go of them while it waits.
        let may_wait = reads.is_empty();
        let next = offsets.peek().copied();
        let permit = if next.is_some() { replica.permit_if(may_wait).await } else { None };
        if let (Some(offset), Some(permit)) = (next, permit) {
            offsets.next();
            let piece = PIECE.min(length - offset);
            let striped = Arc::clone(&striped);
            reads.push_back(tokio::spawn(async move {
                let bytes = striped.read_exact_at(offset, piece).await;
                bytes.map(|bytes| (permit, bytes))
            }));
            continue;
        }
        let Some(read) = reads.pop_front() else { break };
        hasher.update(&read.await.or_fail(Exit::Failed, "a task of the demo")?.map_err(at_nodes)?.1);
    }
    Ok(Fingerprint { length, hash: hasher.finalize() })
}

fn from_io_nodes(file: &SourceFile, error: &sfio_remote::io::FileError) -> Failure {
    Failure::new(exit_of(error), format!("file {}: {error}", file.name))
}
