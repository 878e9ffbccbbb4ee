//! `sfio put`: a local file becomes a striped one.
//!
//! ```text
//! claim and write PATH.part on all I/O nodes ─▶ its checksums beside it, and sync ─▶ resume the claim
//!     ─▶ remove the old subfiles (--replace) ─▶ rename to PATH
//! ```
//!
//! Until the first rename nothing has the file's name. A crash among the renames leaves subfiles missing, which `stat`
//! and `get` name; never do old and new subfiles stand together, since the old ones are durably gone before.
//!
//! In an outage all of it waits and goes on. That the claim can be resumed behind the sync says that no I/O node was
//! restarted and nobody else has changed a part since the claim, so that the sync is one of all that was written. If it
//! cannot, everything is written again.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use sfio_remote::client::{Durability, OpenMode, OperationError};
use sfio_remote::distribution::Structure;
use sfio_remote::io::{FileError, OpenOptions, Patience, SfioClient, StripedFile};
use sfio_remote::name::{FileName, SubfileName};
use sfio_remote::remote_error::ErrorKind;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::task::{JoinError, JoinSet};

use crate::client::{CALLS, CHUNK_BYTES, Endurance, Identification, Session, failure, is_dash};
use crate::exit::{Exit, Failure, OrFail as _};
use crate::progress::Progress;
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
    // Until all of them are on the disks, the parts are ours to remove. Then they may be all there is of the file.
    let unfinished = Cell::new(false);
    let put = async |session: &Session| {
        let file = options.name.resolve(session, &options.striping)?;
        put(session, options, &file, &unfinished).await
    };
    options.identification.work_or_clean_up(options.endurance.limit(), put, async |session| {
        if unfinished.get()
            && let Ok(file) = options.name.resolve(session, &options.striping)
            && let Ok(part) = part_name(&file.name)
        {
            // What cannot be removed is overwritten by the next put.
            let _ = session.client().remove(&part, Durability::None).await;
        }
    })
}

async fn put(
    session: &Session,
    options: &Options,
    file: &Striped,
    unfinished: &Cell<bool>,
) -> Result<(), Failure> {
    let (name, client, part) = (&file.name, session.client(), &part_name(&file.name)?);
    let mut source = Source::open(&options.file).await?;
    let is_there = session.subfile_sizes(name).await?.iter().any(Option::is_some);
    if is_there && !options.replace {
        return Err(Failure::new(Exit::Input, format!("{name} exists already; --replace replaces it")));
    }
    let progress = Progress::new("storing", source.size);
    let patience = options.endurance.patience(session, &progress);
    patience.worked();
    unfinished.set(true);
    let options = OpenOptions::new().stripe_unit(file.unit).compression(options.compressing.how());
    let storing = Storing { client, part, options, patience: &patience, progress: &progress };
    let length = storing.store(&mut source).await?;
    unfinished.set(false);
    let client = client.patiently(&patience);
    if is_there {
        match client.remove(name, Durability::OnEveryCall).await {
            // Removed, and then the I/O nodes were restarted: they do not know who asked.
            Err(FileError::Operation(OperationError::NotFound { .. })) if patience.outages() > 0 => {}
            removed => removed.map_err(told)?,
        }
    }
    match client.rename(part, name, false, Durability::OnEveryCall).await {
        Err(error) if patience.outages() > 0 && storing.has_become(name, length).await => drop(error),
        renamed => renamed.map_err(told)?,
    }
    progress.finish("stored");
    Ok(())
}

/// The part of a file while it is written.
struct Storing<'a> {
    client: &'a SfioClient,
    part: &'a FileName,
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
    /// Writes all of `source` until it is on the disks; gives its length.
    async fn store(&self, source: &mut Source) -> Result<u64, Failure> {
        for _ in 1..MAX_STARTS {
            match self.try_once(source).await {
                Ok(length) => return Ok(length),
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

    async fn try_once(&self, source: &mut Source) -> Result<u64, Broken> {
        let claim = self.options.clone().mode(OpenMode::Claim);
        let file = self.patience.retry(|| claim.open(self.client, self.part)).await;
        let file = Arc::new(file.map_err(|error| Broken::Failed(told(error)))?);
        let (sums, length) = self.write(source, &file).await?;
        self.progress.phase("waiting for the disks");
        let sync = self.patience.retry(|| file.sync_all());
        tokio::try_join!(sums.store(self.client, self.part, self.patience), sync)?;
        match self.resume().await?.stat_when_opened().structure() {
            Structure::Intact { length: found } if found == length => Ok(length),
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
        let mut sums = FileSums::new(file.layout().distribution());
        let (mut writes, mut offset, mut outages) = (JoinSet::new(), 0, self.patience.outages());
        loop {
            let chunk = source.next_chunk().await.map_err(Broken::Failed)?;
            if chunk.is_empty() {
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

    /// Whether all subfiles have the name that they should get: an I/O node that was restarted after it had renamed one
    /// does not know who asked.
    async fn has_become(&self, name: &FileName, length: u64) -> bool {
        match self.patience.retry(|| self.options.open(self.client, name)).await {
            Ok(file) => file.stat_when_opened().structure() == Structure::Intact { length },
            Err(_) => false,
        }
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
            FileError::Operation(OperationError::NotFound { .. } | OperationError::Incomplete { .. }) => {
                Broken::Lost(error)
            }
            _ => Broken::Failed(told(error)),
        }
    }
}

fn told(error: FileError) -> Failure {
    failure(&error)
}

/// The name under which a file is written until all of it is there.
fn part_name(name: &FileName) -> Result<FileName, Failure> {
    let part =
        |subfile: &SubfileName| SubfileName::new(subfile.member(), &format!("{}.part", subfile.path()));
    let parts: Vec<SubfileName> =
        name.subfiles().iter().map(part).collect::<Result<_, _>>().or_fail(Exit::Usage, name)?;
    if let Some(taken) = parts.iter().find(|part| name.subfiles().contains(part)) {
        let message =
            format!("{name}: {taken} is needed for a subfile while it is written; choose other paths");
        return Err(Failure::new(Exit::Usage, message));
    }
    FileName::new(parts).or_fail(Exit::Usage, name)
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
}

impl Source {
    async fn open(path: &Path) -> Result<Source, Failure> {
        if is_dash(path) {
            return Ok(Source { path: path.to_owned(), reader: Box::new(tokio::io::stdin()), size: None });
        }
        let place = path.display();
        let mut file = tokio::fs::File::open(path).await.or_fail(Exit::Input, place)?;
        file.set_max_buf_size(CHUNK_BYTES);
        let metadata = file.metadata().await.or_fail(Exit::Input, path.display())?;
        if metadata.is_dir() {
            let message = format!("{} is a directory; expected a file", path.display());
            return Err(Failure::new(Exit::Input, message));
        }
        let size = metadata.is_file().then_some(metadata.len());
        Ok(Source { path: path.to_owned(), reader: Box::new(file), size })
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

    #[test]
    fn a_part_stands_beside_its_subfile() {
        let part = part_name(&"io1,/a/x; io2, y".parse().expect("a right name")).expect("it can be");
        assert_eq!(part.to_string(), "io1,a/x.part;io2,y.part;");
    }

    #[test]
    fn a_subfile_in_the_place_of_anothers_part_is_refused() {
        let name = "io1,x;io1,x.part".parse().expect("a right name");
        let refusal = part_name(&name).expect_err("one would overwrite the other");
        assert!(refusal.to_string().contains("io1,x.part is needed"), "{refusal}");
    }

    #[tokio::test]
    async fn chunks_are_full_until_the_source_ends() {
        let bytes: &'static [u8] = vec![7; CHUNK_BYTES + 3].leak();
        let mut source = Source { path: "bytes".into(), reader: Box::new(bytes), size: None };
        let mut lengths = Vec::new();
        for _ in 0..3 {
            lengths.push(source.next_chunk().await.expect("memory does not fail").len());
        }
        assert_eq!(lengths, [CHUNK_BYTES, 3, 0]);
    }
}
