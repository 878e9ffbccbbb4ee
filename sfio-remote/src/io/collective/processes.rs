//! Groups of processes of one machine, which meet in a folder and talk over Unix sockets.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};

use super::inbox::Inbox;
use super::join::{JoinError, check_rank, meeting_point};
use super::member::{GroupMember, Link};
use crate::collective::{Arrival, Group, Rank};

/// How often a rank looks whether another one has come.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What a connection begins with: who speaks, and of how many.
const MAGIC: [u8; 4] = *b"SFG1";
const HELLO_BYTES: usize = 12;

/// Joins the group of `size` processes that meet in `folder`, as one of its ranks. All of them run on one machine and
/// may write there; whoever may enter the folder can take part, so that it should be the job's alone. What is left of
/// it is removed when the group is complete.
///
/// A process that ends, in whatever way, is lost to the others at once. One that is stopped is not.
///
/// # Errors
/// If the rank is not one of the group's, its socket cannot be made, or the others have not come within `patience`.
pub async fn join_group(
    folder: &Path,
    rank: u32,
    size: u32,
    patience: Duration,
) -> Result<GroupMember, JoinError> {
    check_rank(rank, size)?;
    let path = meeting_point(folder, rank);
    let bound = UnixListener::bind(&path);
    let listener = bound.map_err(|error| JoinError::Socket { path: path.clone(), error })?;
    let mut meeting = Meeting { folder, rank, size, streams: (0..size).map(|_| None).collect() };
    let complete = timeout_at(Instant::now() + patience, meeting.complete(&listener)).await.is_ok();
    // Who is connected needs the name no more, and the next job may want it.
    let _ = std::fs::remove_file(&path);
    if !complete {
        let missing = (0..size).filter(|other| *other != rank && meeting.streams[*other as usize].is_none());
        let (folder, missing) = (folder.to_owned(), missing.collect());
        return Err(JoinError::Missing { folder, missing, after: patience });
    }
    Ok(GroupMember::new(Box::new(SocketLink::new(Rank(rank), meeting.streams))))
}

/// The ranks on their way to one another: each dials those below it and is dialled by those above.
struct Meeting<'a> {
    folder: &'a Path,
    rank: u32,
    size: u32,
    streams: Vec<Option<UnixStream>>,
}

impl Meeting<'_> {
    async fn complete(&mut self, listener: &UnixListener) {
        for below in 0..self.rank {
            self.streams[below as usize] = Some(self.dial(below).await);
        }
        while self.streams[self.rank as usize + 1..].iter().any(Option::is_none) {
            let Ok((mut stream, _)) = listener.accept().await else {
                sleep(LOOK_INTERVAL).await;
                continue;
            };
            // Somebody who is not of this group is left to itself.
            if let Some(above) = self.greeted(&mut stream).await {
                self.streams[above as usize] = Some(stream);
            }
        }
    }

    async fn dial(&self, below: u32) -> UnixStream {
        loop {
            if let Ok(mut stream) = UnixStream::connect(meeting_point(self.folder, below)).await
                && stream.write_all(&self.hello()).await.is_ok()
            {
                return stream;
            }
            sleep(LOOK_INTERVAL).await;
        }
    }

    fn hello(&self) -> [u8; HELLO_BYTES] {
        let mut hello = [0; HELLO_BYTES];
        hello[..4].copy_from_slice(&MAGIC);
        hello[4..8].copy_from_slice(&self.rank.to_be_bytes());
        hello[8..].copy_from_slice(&self.size.to_be_bytes());
        hello
    }

    /// The rank that a connection comes from, if it is one that is awaited.
    async fn greeted(&self, stream: &mut UnixStream) -> Option<u32> {
        let mut hello = [0; HELLO_BYTES];
        stream.read_exact(&mut hello).await.ok()?;
        let number = |at: usize| u32::from_be_bytes([hello[at], hello[at + 1], hello[at + 2], hello[at + 3]]);
        let (rank, size) = (number(4), number(8));
        let is_awaited = hello[..4] == MAGIC && size == self.size && rank > self.rank && rank < size;
        (is_awaited && self.streams[rank as usize].is_none()).then_some(rank)
    }
}

/// What is to be written to a rank.
enum Outgoing {
    Message(Bytes),
    /// To be told when everything before it is written.
    Flush(oneshot::Sender<()>),
}

/// A connection to each other rank, with a task for each direction.
struct SocketLink {
    rank: Rank,
    to: Vec<UnboundedSender<Outgoing>>,
    inbox: Inbox,
}

impl SocketLink {
    fn new(rank: Rank, streams: Vec<Option<UnixStream>>) -> SocketLink {
        let (arrivals, from) = unbounded_channel();
        let connect = |(other, stream): (usize, Option<UnixStream>)| {
            let (to, messages) = unbounded_channel();
            if let Some(stream) = stream {
                let (reader, writer) = stream.into_split();
                tokio::spawn(write(writer, messages));
                tokio::spawn(read(reader, Rank(other as u32), arrivals.clone()));
            }
            to
        };
        let to = streams.into_iter().enumerate().map(connect).collect();
        SocketLink { rank, to, inbox: Inbox::new(from) }
    }
}

/// Writes messages, each behind its length, until the link is dropped or the other rank is gone.
async fn write(mut writer: OwnedWriteHalf, mut messages: UnboundedReceiver<Outgoing>) {
    while let Some(next) = messages.recv().await {
        let message = match next {
            Outgoing::Message(message) => message,
            Outgoing::Flush(told) => {
                // Nobody may wait for it any more.
                let _ = told.send(());
                continue;
            }
        };
        let length = (message.len() as u64).to_be_bytes();
        if writer.write_all(&length).await.is_err() || writer.write_all(&message).await.is_err() {
            return;
        }
    }
}

/// Reads messages until the connection ends, which is the loss of that rank.
async fn read(mut reader: OwnedReadHalf, rank: Rank, arrivals: UnboundedSender<Arrival>) {
    while let Ok(length) = reader.read_u64().await {
        // It grows as bytes come: a length alone takes no memory.
        let mut message = Vec::new();
        match (&mut reader).take(length).read_to_end(&mut message).await {
            Ok(_) if message.len() as u64 == length => {}
            _ => break,
        }
        if arrivals.send(Arrival::From(rank, message.into())).is_err() {
            return;
        }
    }
    // A link that was dropped hears nothing more.
    let _ = arrivals.send(Arrival::Lost(rank));
}

impl Group for SocketLink {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn send(&mut self, to: Rank, message: Bytes) {
        // A rank that is gone needs no messages; that it is lost has been, or will be, told.
        let _ = self.to[to.index()].send(Outgoing::Message(message));
    }

    fn poll(&mut self) -> Option<Arrival> {
        self.inbox.poll()
    }
}

impl Link for SocketLink {
    fn arrival(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.inbox.arrival()
    }

    fn flush(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let ask = |to: &UnboundedSender<Outgoing>| {
            let (told, written) = oneshot::channel();
            to.send(Outgoing::Flush(told)).ok().map(|()| written)
        };
        let asked: Vec<_> = self.to.iter().filter_map(ask).collect();
        Box::pin(async {
            for written in asked {
                // A rank that is gone takes nothing more.
                let _ = written.await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::CollectiveError;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// A rank in a runtime of its own, which ends with it: so the sockets are closed as those of a process that ends.
    fn rank<T: Send + 'static>(
        folder: &Path,
        rank: u32,
        size: u32,
        work: impl AsyncFnOnce(GroupMember) -> T + Send + 'static,
    ) -> std::thread::JoinHandle<T> {
        let folder = folder.to_owned();
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("threads");
            runtime.block_on(async {
                work(join_group(&folder, rank, size, PATIENCE).await.expect("all come")).await
            })
        })
    }

    #[test]
    fn processes_that_meet_in_a_folder_are_a_group_and_leave_nothing_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let ranks = (0..4).map(|number| {
            rank(folder.path(), number, 4, async move |member| {
                let mine = Bytes::from(vec![number as u8; 100_000]);
                let told =
                    member.perform("tell".to_owned(), async { Ok(mine) }).await.expect("all are there");
                member.barrier().await.expect("all are there");
                told
            })
        });
        let expected: Vec<Bytes> = (0..4).map(|number| vec![number; 100_000].into()).collect();
        for told in ranks.collect::<Vec<_>>() {
            assert_eq!(told.join().expect("no panic"), expected);
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0);
    }

    #[test]
    fn a_process_that_ends_is_lost_to_the_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let ranks = (0..3).map(|number| {
            rank(folder.path(), number, 3, async move |member| match number {
                1 => Ok(()),
                _ => member.barrier().await,
            })
        });
        let results: Vec<_> =
            ranks.collect::<Vec<_>>().into_iter().map(|rank| rank.join().expect("no panic")).collect();
        assert_eq!(results[1], Ok(()));
        // Of two that notice one may end first, and be the one that the other names.
        for result in [&results[0], &results[2]] {
            assert!(matches!(result, Err(CollectiveError::RankLost { .. })), "{result:?}");
        }
    }

    #[tokio::test]
    async fn who_does_not_come_is_named_and_a_name_in_use_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let alone =
            join_group(folder.path(), 1, 3, Duration::from_millis(50)).await.expect_err("nobody comes");
        assert!(alone.to_string().contains("[0, 2]"), "{alone}");
        std::fs::write(folder.path().join("rank-0"), "").expect("possible");
        let taken = join_group(folder.path(), 0, 2, PATIENCE).await.expect_err("it is there");
        assert!(matches!(taken, JoinError::Socket { .. }), "{taken}");
        let none = join_group(folder.path(), 2, 2, PATIENCE).await.expect_err("ranks 0 and 1");
        assert_eq!(none.to_string(), "rank 2 of a group of 2; ranks are counted from 0");
    }
}
