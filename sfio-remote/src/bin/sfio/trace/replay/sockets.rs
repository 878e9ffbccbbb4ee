//! A work played on sockets, on this machine, through emulated links.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use sfio_remote::client::{Durability, OpenMode};
use sfio_remote::compression::Compression;
use sfio_remote::io::{FileError, OpenOptions, StripedFile};
use sfio_trace::record::{FileId, Micros, Operation};
use sfio_trace::replay::{Call, CallIndex, Pace, Player, Work};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{Duration, Instant, sleep};

use super::{Played, Storage, data, read_list, write_list};
use crate::client::{Identification, Session, failure};
use crate::exit::{Exit, Failure};
use crate::overlay::Trial;

type Ended = (CallIndex, Micros, Result<(), FileError>);

pub(super) fn play(
    work: &Work,
    pace: Pace,
    storage: &Storage,
    local: Option<&Path>,
) -> Result<Played, Failure> {
    let folder = local.map_or_else(std::env::temp_dir, Path::to_owned);
    let trial = Trial::start(storage.io_nodes, Some(storage.links), &folder)?;
    let mut played = None;
    Identification::client_of(&trial.path()).work(async |session| {
        let files = lay_out(session, work, storage).await?;
        played = Some(play_on(&files, work, pace).await?);
        Ok(())
    })?;
    played.ok_or_else(|| Failure::new(Exit::Failed, "nothing was played"))
}

async fn play_on(
    files: &BTreeMap<FileId, Arc<StripedFile>>,
    work: &Work,
    pace: Pace,
) -> Result<Played, Failure> {
    let (data, began) = (data(work), Instant::now());
    let mut player = Player::new(work, pace);
    let mut times = vec![(0, 0); work.calls().len()];
    let (sender, mut endings) = unbounded_channel();
    while !player.is_done() {
        let now = began.elapsed().as_micros() as Micros;
        while let Some(index) = player.poll(now) {
            let call = &work.calls()[index.0];
            times[index.0].0 = began.elapsed().as_micros() as Micros;
            begin(call, index, &files[&call.file], &data, (began, sender.clone()))?;
        }
        let pause =
            player.next_due().map_or(Duration::MAX, |due| Duration::from_micros(due.saturating_sub(now)));
        let ended: Option<Ended> = tokio::select! {
            ended = endings.recv() => ended,
            () = sleep(pause) => None,
        };
        if let Some((index, now, result)) = ended {
            result.map_err(|error| failure(&error))?;
            times[index.0].1 = now;
            player.ended(index, now);
        }
    }
    Ok(Played { times })
}

/// Begins a call in a task of its own, which tells when it has ended.
fn begin(
    call: &Call,
    index: CallIndex,
    file: &Arc<StripedFile>,
    data: &Bytes,
    (began, ended): (Instant, UnboundedSender<Ended>),
) -> Result<(), Failure> {
    let file = Arc::clone(file);
    let tell = move |result| {
        // Nobody listens any more once the replay has failed.
        let _ = ended.send((index, began.elapsed().as_micros() as Micros, result));
    };
    match call.operation {
        Operation::Read => {
            let list = read_list(call)?;
            tokio::spawn(async move { tell(file.read(list).await.map(drop)) });
        }
        Operation::Write => {
            let list = write_list(call, data)?;
            tokio::spawn(async move { tell(file.write(list).await) });
        }
    }
    Ok(())
}

/// Opens the files, with as many zeros as are read of them.
async fn lay_out(
    session: &Session,
    work: &Work,
    storage: &Storage,
) -> Result<BTreeMap<FileId, Arc<StripedFile>>, Failure> {
    let mut files = BTreeMap::new();
    let create = OpenOptions::new().mode(OpenMode::Create).stripe_unit(storage.stripe_unit);
    // What is written here are not the bytes of the job: how small they become says nothing.
    let create = create.durability(Durability::None).compression(Compression::Never);
    for (file, length) in work.files() {
        let opened = create.open(session.client(), &storage.name(file)).await;
        let opened = opened.map_err(|error| failure(&error))?;
        if length > 0 {
            opened.set_len(length).await.map_err(|error| failure(&error))?;
        }
        files.insert(file, Arc::new(opened));
    }
    Ok(files)
}
