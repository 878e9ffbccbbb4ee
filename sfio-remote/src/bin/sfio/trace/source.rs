//! Traces from files, and to files.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read as _, Seek as _, Write};
use std::path::{Path, PathBuf};

use program::output::Results;
use sfio_trace::darshan::{self, Layer};
use sfio_trace::lines::{Lines, line};
use sfio_trace::record::Record;

use crate::exit::Failure;

/// How strongly traces are compressed: twice as small as the fastest, at a tenth of the speed of a disk.
const ZSTD_LEVEL: i32 = 3;

/// Whose requests of a Darshan log are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(super) enum LayerName {
    /// What reaches storage
    #[default]
    Posix,
    /// What the program asked MPI-IO for
    MpiIo,
}

impl From<LayerName> for Layer {
    fn from(name: LayerName) -> Layer {
        match name {
            LayerName::Posix => Layer::Posix,
            LayerName::MpiIo => Layer::MpiIo,
        }
    }
}

/// The magic number of a Darshan log, in either byte order, behind its version.
fn is_darshan(first: &[u8]) -> bool {
    let magic = 6_567_223_i64;
    first.get(8..16).is_some_and(|word| word == magic.to_le_bytes() || word == magic.to_be_bytes())
}

/// Gives every record of a trace to `take`: of one of ours, plain or compressed, or of a Darshan log. A trace of ours
/// that goes wrong in the middle has given what came before.
pub(super) fn each(
    path: &Path,
    layer: LayerName,
    mut take: impl FnMut(&Record) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::file(path, &error);
    let mut file = File::open(path).map_err(failed)?;
    let mut first = Vec::new();
    (&mut file).take(16).read_to_end(&mut first).map_err(failed)?;
    if is_darshan(&first) {
        return darshan_log(path)?.records(layer.into()).iter().try_for_each(take);
    }
    file.rewind().map_err(failed)?;
    let lines = Lines::new(BufReader::new(file)).map_err(|error| Failure::input(path, error))?;
    for record in lines {
        take(&record.map_err(|error| Failure::input(path, error))?)?;
    }
    Ok(())
}

/// A Darshan log.
pub(super) fn darshan_log(path: &Path) -> Result<darshan::Log, Failure> {
    let bytes = std::fs::read(path).map_err(|error| Failure::file(path, &error))?;
    darshan::read(&bytes).map_err(|error| Failure::input(path, error))
}

/// A place for a trace: a file, compressed if its name ends in `.zst`, or standard output.
pub(super) enum Sink {
    Plain(Results),
    Compressed { path: PathBuf, encoder: zstd::stream::write::Encoder<'static, BufWriter<File>> },
}

impl Sink {
    pub(super) fn open(path: Option<&Path>) -> Result<Sink, Failure> {
        match path.filter(|path| path.extension().is_some_and(|ending| ending == "zst")) {
            None => Results::open(path).map(Sink::Plain),
            Some(path) => {
                let failed = |error: std::io::Error| Failure::file(path, &error);
                let file = BufWriter::new(File::create(path).map_err(failed)?);
                let encoder = zstd::stream::write::Encoder::new(file, ZSTD_LEVEL).map_err(failed)?;
                Ok(Sink::Compressed { path: path.to_owned(), encoder })
            }
        }
    }

    pub(super) fn push(&mut self, record: &Record) -> Result<(), Failure> {
        match self {
            Sink::Plain(results) => results.print(line(record)),
            Sink::Compressed { path, encoder } => {
                encoder.write_all(line(record).as_bytes()).map_err(|error| Failure::file(path, &error))
            }
        }
    }

    pub(super) fn close(self) -> Result<(), Failure> {
        match self {
            Sink::Plain(results) => results.close(),
            Sink::Compressed { path, encoder } => {
                let written = encoder.finish().and_then(|mut file| file.flush());
                written.map_err(|error| Failure::file(&path, &error))
            }
        }
    }
}
