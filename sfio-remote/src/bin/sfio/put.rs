//! `sfio put`: a local file becomes a striped one.
//!
//! ```text
//! claim and write PATH.sfio-part on all I/O nodes ─▶ its checksums beside it, and sync ─▶ resume the claim
//!     ─▶ remove the old subfiles (--replace) ─▶ rename to PATH
//! ```
//!
//! Until the first rename nothing has the file's name. A crash among the renames leaves subfiles missing, which `stat`
//! and `get` name; never do old and new subfiles stand together, since the old ones are durably gone before. Whether an
//! I/O node has renamed a part that has forgotten who asked, the checksums tell, which name the put.
//!
//! In an outage all of it waits and goes on. That the claim can be resumed behind the sync says that no I/O node was
//! restarted and nobody else has changed a part since the claim, so that the sync is one of all that was written. If it
//! cannot, everything is written again.

use std::cell::Cell;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use sfio_remote::client::{Durability, OpenMode, OperationError};
use sfio_remote::distribution::Structure;
use sfio_remote::io::{FileError, OpenOptions, Patience, SfioClient, StripedFile};
use sfio_remote::name::FileName;
use sfio_remote::remote_error::ErrorKind;
use sfio_remote::sums::PutId;
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle, JoinSet};

use crate::client::{CALLS, CHUNK_BYTES, Endurance, Identification, Session, failure, is_dash};
use crate::exit::{Exit, Failure, OrFail as _};
use crate::part::{Naming, part_name};
use crate::progress::Progress;
use crate::random::random_bytes;
use crate::striped::{Compressing, Striped, StripedName, Striping};
use crate::sums::FileSums;

/// How often everything is written again before it is given up: each time an I/O node was restarted meanwhile.
const MAX_STARTS: usize = 8;

/// Store a file, striped over I/O nodes
///
/// The file appears under its name when all of it is safe on the disks. Of two puts to one name at once, one is
/// refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  sfio put --overlay try notes.txt local:notes.txt\n  \
                  sfio put --overlay try notes.txt \"io1,notes.txt;io2,notes.txt\"\n  \
                  tar c photos | sfio put --overlay try - \"io1,photos.tar;io2,photos.tar\"")]
pub(crate) struct Options {
    /// The file to store; - for standard input
    file: PathBuf,

    /// Its subfiles: "member,path;member,path;…" in the order of striping; or SITE:PATH, that path on all I/O nodes of
    /// a site
    name: StripedName,

    #[command(flatten)]
    striping: Striping,

    /// Replace a file of that name
    #[arg(long)]
    replace: bool,

    #[command(flatten)]
    compressing: Compressing,

    #[command(flatten)]
    endurance: Endurance,

    #[command(flatten)]
    identification: Identification,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let stage = Cell::new(Stage::Begun);
    let put = async |session: &Session| put(session, options, &stage).await;
    options.identification.work_or_clean_up(options.endurance.limit(), put, async |session| {
        match stage.take() {
            Stage::Begun => {}
            // What cannot be removed is overwritten by the next put.
            Stage::Storing(part) => drop(session.client().remove(&part, Durability::None).await),
            Stage::Naming(name, naming) => {
                if let Ok(Ok(())) = naming.await {
                    program::output::note(format_args!("{name} is stored: it was just given its name"));
                }
            }
        }
    })
}

/// How far a put has come, for whoever clears up behind one that was ended.
#[derive(Default)]
enum Stage {
    /// There is nothing to clear up.
    #[default]
    Begun,
    /// Until all of it is on the disks, the part is of no use to anybody.
    Storing(FileName),
    /// The old file may be gone already, so that the task that gives the part its name is not to be ended by a signal.
    Naming(FileName, JoinHandle<Result<(), Failure>>),
}

async fn put(session: &Session, options: &Options, stage: &Cell<Stage>) -> Result<(), Failure> {
    let Striped { name, unit } = &options.name.resolve(session, &options.striping)?;
    let (client, part) = (session.client(), &part_name(name)?);
    let mut source = Source::open(&options.file).await?;
    let is_there = session.subfile_sizes(name).await?.iter().any(Option::is_some);
    if is_there && !options.replace {
        return Err(Failure::new(Exit::Input, format!("{name} exists already; --replace replaces it")));
    }
    let progress = Progress::new("storing", source.size);
    let patience = options.endurance.patience(session, &progress);
    patience.worked();
    stage.set(Stage::Storing(part.clone()));
    let options = OpenOptions::new().stripe_unit(*unit).compression(options.compressing.how());
    let put = PutId(random_bytes()?);
    let storing =
        Storing { client, part, put, options: options.clone(), patience: &patience, progress: &progress };
    storing.store(&mut source).await?;
    let naming = Naming {
        client: client.clone(),
        part: part.clone(),
        name: name.clone(),
        put,
        options,
        patience: Arc::clone(&patience),
        replaces: is_there,
    };
    let (named, has_named) = oneshot::channel();
    let naming = tokio::spawn(async move {
        let result = naming.run().await;
        let told = named.send(result.clone());
        // If nobody waits any more, whoever clears up does.
        drop(told);
        result
    });
    stage.set(Stage::Naming(name.clone(), naming));
    has_named.await.or_fail(Exit::Failed, "giving it its name")??;
    progress.finish("stored");
    Ok(())
}

/// The part of a file while it is written.
struct Storing<'a> {
    client: &'a SfioClient,
    part: &'a FileName,
    /// Which put this is, as its checksums say.
    put: PutId,
    options: OpenOptions,
    patience: &'a Arc<Patience>,
    progress: &'a Progress,
}

/// Why what was written so far is not what will be on the disks.
enum Broken {
    /// It never will.
    Failed(Failure),
    /// An I/O node was restarted, or somebody else has changed a part: it must be written again.
    Lost(FileError),
}

impl Storing<'_> {
    /// Writes all of `source` until it is on the disks.
    async fn store(&self, source: &mut Source) -> Result<(), Failure> {
        for _ in 1..MAX_STARTS {
            match self.try_once(source).await {
                Ok(()) => return Ok(()),
                Err(Broken::Failed(failure)) => return Err(failure),
                Err(Broken::Lost(error)) => source.rewind(&error).await?,
            }
            self.begin_anew();
        }
        self.try_once(source).await.map_err(|broken| match broken {
            Broken::Failed(failure) => failure,
            Broken::Lost(error) => failure(&error),
        })
    }

    fn begin_anew(&self) {
        let words = "an I/O node was restarted: everything is stored again";
        tracing::info!("{words}");
        self.progress.announcer()(words);
        self.progress.begin_anew("storing again");
    }

    async fn try_once(&self, source: &mut Source) -> Result<(), Broken> {
        let claim = self.options.clone().mode(OpenMode::Claim);
        let file = self.patience.retry(|| claim.open(self.client, self.part)).await;
        let file = Arc::new(file.map_err(|error| Broken::Failed(told(error)))?);
        let (sums, length) = self.write(source, &file).await?;
        self.progress.phase("waiting for the disks");
        let sync = self.patience.retry(|| file.sync_all());
        tokio::try_join!(sums.store(self.client, self.part, self.patience), sync)?;
        match self.resume().await?.stat_when_opened().structure() {
            Structure::Intact { length: found } if found == length => Ok(()),
            _ => Err(Broken::Lost(OperationError::NotFound { name: self.part.to_string() }.into())),
        }
    }

    /// Makes sure that all that was written since the claim is as it was written.
    async fn resume(&self) -> Result<StripedFile, FileError> {
        let resume = self.options.clone().mode(OpenMode::Resume);
        self.patience.retry(|| resume.open(self.client, self.part)).await
    }

    /// Writes all of `source`, several chunks at once; gives the sums and the length.
    async fn write(&self, source: &mut Source, file: &Arc<StripedFile>) -> Result<(FileSums, u64), Broken> {
        let mut sums = FileSums::new(self.put, file.layout().distribution());
        let (mut writes, mut offset, mut outages) = (JoinSet::new(), 0, self.patience.outages());
        loop {
            let chunk = source.next_chunk().await.map_err(Broken::Failed)?;
            if chunk.is_empty() {
                source.finish().await.map_err(Broken::Failed)?;
                break;
            }
            sums.push(&chunk);
            if writes.len() >= CALLS {
                settle(writes.join_next().await, self.progress)?;
            }
            if self.patience.outages() > outages {
                // Rather now than after all the rest.
                outages = self.patience.outages();
                self.resume().await?;
            }
            let (file, patience, length) = (Arc::clone(file), Arc::clone(self.patience), chunk.len() as u64);
            writes.spawn(async move {
                patience.retry(|| file.write_at(offset, chunk.clone())).await.map(|()| length)
            });
            offset += length;
        }
        while !writes.is_empty() {
            settle(writes.join_next().await, self.progress)?;
        }
        Ok((sums, offset))
    }
}

impl From<FileError> for Broken {
    fn from(error: FileError) -> Broken {
        match &error {
            FileError::Operation(OperationError::IoNode { error: remote, .. })
                if matches!(remote.kind, ErrorKind::ClaimEnded | ErrorKind::NotFound) =>
            {
                Broken::Lost(error)
            }
            FileError::Operation(
                OperationError::NotFound { .. }
                | OperationError::Incomplete { .. }
                | OperationError::Restarted { .. },
            ) => Broken::Lost(error),
            _ => Broken::Failed(told(error)),
        }
    }
}

fn told(error: FileError) -> Failure {
    failure(&error)
}

type Written = Result<Result<u64, FileError>, JoinError>;

fn settle(written: Option<Written>, progress: &Progress) -> Result<(), Broken> {
    let Some(written) = written else { return Ok(()) };
    progress.advance(written.or_fail(Exit::Failed, "a write").map_err(Broken::Failed)??);
    Ok(())
}

/// What is to be stored.
struct Source {
    path: PathBuf,
    reader: Box<dyn AsyncRead + Unpin + Send>,
    /// Its size, if it is a file that has one; then it can be read again.
    size: Option<u64>,
    /// The file itself, to see whether somebody changes it meanwhile, and what it looked like in the beginning.
    watched: Option<(File, Look)>,
}

/// What changes with the content of a file: its length, and when it was last written to.
type Look = (u64, SystemTime);

fn look(metadata: &Metadata) -> std::io::Result<Look> {
    Ok((metadata.len(), metadata.modified()?))
}

impl Source {
    async fn open(path: &Path) -> Result<Source, Failure> {
        if is_dash(path) {
            let reader = Box::new(tokio::io::stdin());
            return Ok(Source { path: path.to_owned(), reader, size: None, watched: None });
        }
        let place = path.display();
        // A pipe is opened only when somebody opens its other end: that must not keep a signal from being heard.
        let mut file = File::open(path).await.or_fail(Exit::Input, &place)?;
        file.set_max_buf_size(CHUNK_BYTES);
        let metadata = file.metadata().await.or_fail(Exit::Input, &place)?;
        if metadata.is_dir() {
            let message = format!("{} is a directory; expected a file", path.display());
            return Err(Failure::new(Exit::Input, message));
        }
        let size = metadata.is_file().then_some(metadata.len());
        let watched = match size {
            Some(_) => Some((
                file.try_clone().await.or_fail(Exit::Failed, &place)?,
                look(&metadata).or_fail(Exit::Input, &place)?,
            )),
            None => None,
        };
        Ok(Source { path: path.to_owned(), reader: Box::new(file), size, watched })
    }

    /// All of it was read.
    ///
    /// # Errors
    /// If somebody has written to it meanwhile: what was read never was its content.
    async fn finish(&self) -> Result<(), Failure> {
        let (Some((file, before)), place) = (&self.watched, self.path.display()) else { return Ok(()) };
        let metadata = file.metadata().await.or_fail(Exit::Input, &place)?;
        if look(&metadata).or_fail(Exit::Input, &place)? == *before {
            return Ok(());
        }
        let message = format!(
            "{place} was changed while it was read: nothing is stored; put it again when nobody writes to it"
        );
        Err(Failure::new(Exit::Input, message))
    }

    /// Begins again from the start, because of `error`.
    async fn rewind(&mut self, error: &FileError) -> Result<(), Failure> {
        if self.size.is_none() {
            let message = format!("{error}; and {} cannot be read again from its start", self.path.display());
            return Err(Failure::new(Exit::Network, message));
        }
        *self = Source::open(&self.path).await?;
        Ok(())
    }

    /// The next chunk, full unless the source ends; empty at the end.
    async fn next_chunk(&mut self) -> Result<Bytes, Failure> {
        let mut chunk = BytesMut::with_capacity(CHUNK_BYTES);
        while chunk.len() < CHUNK_BYTES {
            let room = (CHUNK_BYTES - chunk.len()) as u64;
            let read = (&mut self.reader).take(room).read_buf(&mut chunk).await;
            if read.or_fail(Exit::Input, "reading what is to be stored")? == 0 {
                break;
            }
        }
        Ok(chunk.freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn chunks_are_full_until_the_source_ends() {
        let bytes: &'static [u8] = vec![7; CHUNK_BYTES + 3].leak();
        let mut source = Source { path: "bytes".into(), reader: Box::new(bytes), size: None, watched: None };
        let mut lengths = Vec::new();
        for _ in 0..3 {
            lengths.push(source.next_chunk().await.expect("memory does not fail").len());
        }
        assert_eq!(lengths, [CHUNK_BYTES, 3, 0]);
    }

    /// Half of the old content and half of the new one were stored, and the code was 0.
    #[tokio::test]
    async fn a_file_that_is_changed_while_it_is_read_is_told() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(&file, vec![7; CHUNK_BYTES + 3]).expect("it can be written");
        let read_and = async |change: &dyn Fn()| {
            let mut source = Source::open(file.path()).await.expect("it is there");
            source.next_chunk().await.expect("it can be read");
            change();
            while !source.next_chunk().await.expect("it can be read").is_empty() {}
            source.finish().await.map_err(|failure| failure.to_string())
        };
        assert_eq!(read_and(&|| ()).await, Ok(()));
        let told = read_and(&|| file.as_file().set_len(CHUNK_BYTES as u64).expect("possible")).await;
        assert!(told.clone().is_err_and(|told| told.contains("was changed while it was read")), "{told:?}");
        let told = read_and(&|| file.as_file().set_modified(SystemTime::UNIX_EPOCH).expect("possible")).await;
        assert!(told.is_err());
    }

    /// A signal is heard by the same thread.
    #[tokio::test]
    async fn a_pipe_without_another_end_keeps_nothing_else_from_running() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("there is a mkfifo").success());
        let (ran, has_run) = std::sync::mpsc::channel();
        let other_end = pipe.clone();
        let writer = std::thread::spawn(move || {
            let has_run = has_run.recv_timeout(std::time::Duration::from_secs(10)).is_ok();
            std::fs::OpenOptions::new().write(true).open(other_end).map(|_| has_run)
        });
        let (source, ()) = tokio::join!(Source::open(&pipe), async { ran.send(()).expect("it waits") });
        assert!(source.is_ok_and(|source| source.size.is_none()));
        assert!(writer.join().expect("no panic").expect("a reader waits"), "it waited for the other end");
    }
}
