//! `sfio get`: a striped file becomes a local one.

use std::collections::VecDeque;
use std::fs::Permissions;
use std::io::IsTerminal as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use sfio_remote::distribution::Structure;
use sfio_remote::io::{FileError, OpenOptions, Patience, StripedFile};
use tempfile::TempPath;
use tokio::fs::File;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::task::JoinHandle;

use crate::client::{CALLS, CHUNK_BYTES, Endurance, Identification, Session, failure, is_dash, is_missing};
use crate::exit::{Exit, Failure, OrFail as _};
use crate::part::not_there;
use crate::progress::Progress;
use crate::striped::{Compressing, Striped, StripedName, Striping};
use crate::sums::FileCheck;

/// The place that failures name where the bytes go to standard output, whose reader may go without being a failure.
const STANDARD_OUTPUT: &str = "standard output";

/// Fetch a striped file
///
/// FILE appears, or is replaced, when all of it is there. What comes is compared with the checksums that put has stored
/// beside each subfile; a subfile that was changed since has none, and is named.
///
/// The stripe unit is not recorded anywhere: give the one that the file was written with. Another one gives the right
/// bytes in the wrong order, and often nothing can tell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  sfio get --overlay try local:notes.txt notes.txt\n  \
                  sfio get --overlay try \"io1,notes.txt;io2,notes.txt\" notes.txt")]
pub(crate) struct Options {
    /// The striped file: "member,path;member,path;…" in the order of striping, or SITE:PATH
    name: StripedName,

    /// Where to put it; - for standard output
    file: PathBuf,

    #[command(flatten)]
    striping: Striping,

    /// Do not compare what comes with the checksums that put has stored
    #[arg(long)]
    no_check: bool,

    #[command(flatten)]
    compressing: Compressing,

    #[command(flatten)]
    endurance: Endurance,

    #[command(flatten)]
    identification: Identification,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    options
        .identification
        .work_patiently(options.endurance.limit(), async |session| get(session, options).await)
}

async fn get(session: &Session, options: &Options) -> Result<(), Failure> {
    let Striped { name, unit } = &options.name.resolve(session, &options.striping)?;
    let how = OpenOptions::new().stripe_unit(*unit).compression(options.compressing.how());
    let file = match how.open(session.client(), name).await {
        Err(error) if is_missing(&error) => return Err(not_there(session.client(), name, &how).await),
        opened => opened.map_err(told)?,
    };
    let length = match file.stat_when_opened().structure() {
        Structure::Intact { length } => length,
        Structure::Torn(torn) => {
            let message = format!("{name} is torn, or was not written with a stripe unit of {unit}: {torn}");
            return Err(Failure::new(Exit::Integrity, message));
        }
    };
    tracing::info!(%name, length, "fetching");
    let mut sink = Sink::open(&options.file).await?;
    // A terminal that shows the bytes themselves has no room for how far they are.
    let shows_bytes = is_dash(&options.file) && std::io::stdout().is_terminal();
    let progress = if shows_bytes { Progress::hidden() } else { Progress::new("fetching", Some(length)) };
    let patience = options.endurance.patience(session, &progress);
    patience.worked();
    let check = match options.no_check {
        true => FileCheck::nothing(&file),
        false => FileCheck::begin(session.client(), &file, &patience),
    };
    let place =
        if is_dash(&options.file) { STANDARD_OUTPUT.into() } else { options.file.display().to_string() };
    let copying = Copying { file: Arc::new(file), length, patience, progress: &progress };
    let unchecked = copying.run(check, &mut sink.writer, &place).await?;
    sink.finish(&options.file).await.map_err(|error| local_failure(&place, &error))?;
    progress.finish("fetched");
    if !unchecked.is_empty() && !options.no_check {
        program::output::note(format_args!(
            "not compared with checksums, because there are none (changed since it was put): {}",
            unchecked.join("; ")
        ));
    }
    Ok(())
}

fn told(error: FileError) -> Failure {
    failure(&error)
}

fn local_failure(place: &str, error: &std::io::Error) -> Failure {
    if place == STANDARD_OUTPUT {
        return Failure::output(error);
    }
    let full = matches!(
        error.kind(),
        std::io::ErrorKind::StorageFull
            | std::io::ErrorKind::FileTooLarge
            | std::io::ErrorKind::QuotaExceeded
    );
    Failure::new(if full { Exit::NoSpace } else { Exit::Failed }, format!("{place}: {error}"))
}

type Reading = JoinHandle<Result<Bytes, FileError>>;

/// A file on its way.
struct Copying<'a> {
    file: Arc<StripedFile>,
    length: u64,
    patience: Arc<Patience>,
    progress: &'a Progress,
}

impl Copying<'_> {
    /// Copies all of the file, several chunks at once, in order, as far as `check` lets it through. Gives the subfiles
    /// that have no sums.
    async fn run(
        &self,
        mut check: FileCheck,
        writer: &mut Writer,
        place: &str,
    ) -> Result<Vec<String>, Failure> {
        let mut readings: VecDeque<Reading> = VecDeque::new();
        let mut offset = 0;
        loop {
            while offset < self.length && readings.len() < CALLS {
                let bytes = (self.length - offset).min(CHUNK_BYTES as u64);
                readings.push_back(self.read(offset, bytes));
                offset += bytes;
            }
            let Some(next) = readings.pop_front() else { break };
            let bytes = next.await.or_fail(Exit::Failed, "a read")?.map_err(told)?;
            check.push(&bytes).await?;
            writer.write_all(&bytes).await.map_err(|error| local_failure(place, &error))?;
            self.progress.advance(bytes.len() as u64);
        }
        let unchecked = check.finish().await?;
        writer.flush().await.map_err(|error| local_failure(place, &error))?;
        Ok(unchecked)
    }

    fn read(&self, offset: u64, bytes: u64) -> Reading {
        let (file, patience) = (Arc::clone(&self.file), Arc::clone(&self.patience));
        tokio::spawn(async move { patience.retry(|| file.read_exact_at(offset, bytes)).await })
    }
}

type Writer = Box<dyn AsyncWrite + Unpin + Send>;

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Where the bytes go.
struct Sink {
    writer: Writer,
    /// The new file, which takes its name in the end; without one the bytes go straight to their place.
    new: Option<New>,
}

struct New {
    file: File,
    /// Removed when it is dropped before it has its name.
    path: TempPath,
}

impl Sink {
    async fn open(path: &Path) -> Result<Sink, Failure> {
        if is_dash(path) {
            return Ok(Sink { writer: Box::new(tokio::io::stdout()), new: None });
        }
        let place = path.display();
        let metadata = tokio::fs::metadata(path).await.ok();
        if metadata.as_ref().is_some_and(std::fs::Metadata::is_dir) {
            return Err(Failure::new(Exit::Input, format!("{place} is a directory; expected a file name")));
        }
        if metadata.is_some_and(|metadata| !metadata.is_file()) {
            // A device or a pipe is written to and not replaced.
            let file = File::options().write(true).open(path).await.or_fail(Exit::Input, place)?;
            return Ok(Sink { writer: Box::new(file), new: None });
        }
        let folder = folder_of(path);
        let new = tempfile::Builder::new()
            .prefix(".sfio-")
            // As any new file: what the user's umask leaves of it.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)
            .or_fail(Exit::Input, folder.display())?;
        let (file, path) = new.into_parts();
        let file = File::from_std(file);
        let mut writer = file.try_clone().await.or_fail(Exit::Failed, path.display())?;
        writer.set_max_buf_size(CHUNK_BYTES);
        Ok(Sink { writer: Box::new(writer), new: Some(New { file, path }) })
    }

    /// Makes the new file durable and gives it its name, durably too.
    async fn finish(self, path: &Path) -> std::io::Result<()> {
        if let Some(New { file, path: temporary }) = self.new {
            file.sync_all().await?;
            temporary.persist(path).map_err(|error| error.error)?;
            std::fs::File::open(folder_of(path))?.sync_all()?;
        }
        Ok(())
    }
}
