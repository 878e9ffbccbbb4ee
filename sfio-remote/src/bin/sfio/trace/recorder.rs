//! What a member does with files, written down as a trace.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use program::output;
use sfio_remote::client::OpenMode;
use sfio_remote::io::{DiskAccess, Observer, Transfer};
use sfio_remote::name::FileName;
use sfio_trace::lines::write_call;
use sfio_trace::record::{
    ApplicationExit, ApplicationId, ApplicationLoad, ClientId, Close, Descriptor, FileId, Micros, Open,
    Operation, Physical, Record, Request, header,
};
use sfio_trace::regions::Regions;
use sfio_trace::runs::runs;
use zstd::stream::write::Encoder;

/// The trace of every command and member of `sfio` goes to the file that this environment variable names.
pub(crate) const VARIABLE: &str = "SFIO_TRACE";

/// Lines that wait for the thread that writes; then callers wait, too, so that none is lost.
const WAITING: usize = 1 << 10;

/// Runs of regions that stand in one line at most: 42 MB wait for the thread that writes.
const RUNS: usize = 1 << 10;

/// What a crash takes away is at most what came in so long.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// The thread that writes takes what others leave: where processors are short, a read of a million regions at random
/// places lost a sixth of its rate to it, and loses half as much now.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 19;

/// A process has one job, which has one process.
const CLIENT: ClientId = ClientId(0);

/// Numbers that follow no rule become as small with it and cost half as much as with zstd's usual level, 3.
const ZSTD_LEVEL: i32 = 1;

/// So many bytes of text are gathered before they are compressed, or written.
const BUFFER: usize = 1 << 17;

/// What stands in one line of the trace.
struct Line {
    record: Record,
    /// The other regions of the same call.
    further: Vec<Regions>,
}

impl From<Record> for Line {
    fn from(record: Record) -> Line {
        Line { record, further: Vec::new() }
    }
}

/// Writes records to a file, on a thread of its own; ends with the last of those who hold it.
#[derive(Debug)]
pub(crate) struct Recorder {
    application: ApplicationId,
    /// None once it ends.
    lines: Option<SyncSender<Line>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Recorder {
    /// Begins a trace. "{pid}" in the path becomes the number of the process, for several processes at once.
    ///
    /// # Errors
    /// If the file or the thread cannot be made.
    pub(crate) fn create(path: &Path, member: &str) -> io::Result<Recorder> {
        let process = std::process::id();
        let text = path.to_string_lossy().replace("{pid}", &process.to_string());
        let path = Path::new(&text).to_owned();
        let sink = Sink::create(&path)?;
        let (lines, waiting) = sync_channel(WAITING);
        let application = ApplicationId(process.into());
        let load = Record::ApplicationLoad(ApplicationLoad {
            at: now(),
            application,
            executable: std::env::args().next().unwrap_or_default(),
            user: 0,
            clients: 1,
            client_list: vec![CLIENT],
        });
        let beginning = [header(now(), "sfio", &format!("member {member}")), load];
        beginning.into_iter().for_each(|record| drop(lines.send(record.into())));
        let write = move || {
            // On Linux that is the thread alone, elsewhere it would be the process.
            #[cfg(target_os = "linux")]
            let _ = rustix::process::nice(NICENESS);
            if let Err(error) = write(sink, &waiting) {
                output::note(format_args!(
                    "sfio: the trace {}: {error}; it is not written on",
                    path.display()
                ));
            }
        };
        let writer = std::thread::Builder::new().name("trace".to_owned()).spawn(write)?;
        Ok(Recorder { application, lines: Some(lines), writer: Mutex::new(Some(writer)) })
    }

    fn push(&self, line: impl Into<Line>) {
        if let Some(lines) = &self.lines {
            // The thread ends before the recorder only if the file cannot be written, and has said so.
            let _ = lines.send(line.into());
        }
    }

    /// A call at all of these regions; `record` is the call at any of them.
    fn push_call(&self, record: &Record, regions: impl Iterator<Item = (u64, u64)>) {
        let mut runs = runs(regions);
        while let Some(first) = runs.next() {
            let ((offset, bytes), rest) = first.split_first();
            if let Some(record) = record.elsewhere(offset, bytes) {
                let further = Regions::gather(rest.into_iter().chain(runs.by_ref()).take(RUNS));
                self.push(Line { record, further });
            }
        }
    }
}

impl Observer for Recorder {
    fn opened(&self, name: &FileName, length: u64, mode: OpenMode) {
        use sfio_trace::record::OpenMode as Mode;
        let mode = match mode {
            OpenMode::Existing | OpenMode::Create => Mode::ReadWrite,
            _ => Mode::Create,
        };
        let at = now();
        self.push(Record::ClientOpen(Open {
            at,
            application: self.application,
            client: Some(CLIENT),
            path: name.to_string(),
            file: file_id(&name.to_string()),
            descriptor: Descriptor(0),
            size: length,
            created: 0,
            mode,
        }));
    }

    fn closed(&self, name: &FileName) {
        let (at, application, file) = (now(), self.application, file_id(&name.to_string()));
        self.push(Record::ClientClose(Close { at, application, client: Some(CLIENT), file, size: 0 }));
    }

    fn transferred(&self, transfer: &Transfer<'_>) {
        let (end, file) = (now(), file_id(&transfer.name.to_string()));
        let start = end.saturating_sub(micros(transfer.took));
        let request = Record::Request(Request {
            start,
            end,
            application: self.application,
            client: Some(CLIENT),
            file,
            descriptor: Descriptor(0),
            operation: operation(transfer.is_write),
            asynchronous: false,
            spread: None,
            offset: 0,
            bytes: 0,
        });
        self.push_call(&request, transfer.regions.iter().map(|region| (region.offset(), region.length())));
    }

    fn at_disk(&self, access: &DiskAccess<'_>) {
        let (end, file) = (now(), file_id(access.path.as_str()));
        let start = end.saturating_sub(micros(access.took));
        let physical = Record::Physical(Physical {
            start,
            end,
            application: self.application,
            file,
            operation: operation(access.is_write),
            clients: 1,
            offset: 0,
            bytes: 0,
        });
        self.push_call(&physical, access.extents.iter().map(|extent| (extent.offset(), extent.length())));
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.push(Record::ApplicationExit(ApplicationExit { at: now(), application: self.application }));
        self.lines = None;
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A thread that has panicked has said so.
        let _ = writer.map(JoinHandle::join);
    }
}

fn operation(is_write: bool) -> Operation {
    if is_write { Operation::Write } else { Operation::Read }
}

fn now() -> Micros {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, micros)
}

fn micros(duration: Duration) -> Micros {
    duration.as_micros() as Micros
}

/// The same name is the same file, in every process.
fn file_id(name: &str) -> FileId {
    let hash = blake3::hash(name.as_bytes());
    let mut word = [0; 8];
    word.copy_from_slice(&hash.as_bytes()[..8]);
    FileId(u64::from_le_bytes(word) >> 1)
}

/// A trace file, compressed if its name ends in `.zst`.
enum Sink {
    Plain(BufWriter<File>),
    Compressed(BufWriter<Encoder<'static, File>>),
}

impl Sink {
    fn create(path: &Path) -> io::Result<Sink> {
        let file = File::create(path)?;
        Ok(match path.extension().is_some_and(|ending| ending == "zst") {
            true => Sink::Compressed(BufWriter::with_capacity(BUFFER, Encoder::new(file, ZSTD_LEVEL)?)),
            false => Sink::Plain(BufWriter::with_capacity(BUFFER, file)),
        })
    }

    fn write(&mut self, line: &Line) -> io::Result<()> {
        match self {
            Sink::Plain(file) => write_call(file, &line.record, &line.further),
            Sink::Compressed(encoder) => write_call(encoder, &line.record, &line.further),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Plain(file) => file.flush(),
            Sink::Compressed(encoder) => encoder.flush(),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Sink::Plain(mut file) => file.flush(),
            Sink::Compressed(encoder) => encoder.into_inner()?.finish()?.flush(),
        }
    }
}

/// Writes what comes in until nobody sends any more; what came in is flushed after a while, whether more comes or not.
fn write(mut sink: Sink, waiting: &Receiver<Line>) -> io::Result<()> {
    // Since when something has not been flushed.
    let mut kept_since: Option<Instant> = None;
    loop {
        let kept_for = kept_since.map_or(Duration::ZERO, |since| since.elapsed());
        if kept_for >= FLUSH_INTERVAL {
            sink.flush()?;
            kept_since = None;
            continue;
        }
        match waiting.recv_timeout(FLUSH_INTERVAL - kept_for) {
            Ok(line) => {
                sink.write(&line)?;
                kept_since.get_or_insert_with(Instant::now);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return sink.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was flushed only when nothing came for a second: of a program that asks now and then, a crash took all that
    /// fitted into the buffer, which may be an hour of it.
    #[test]
    fn what_has_come_is_flushed_after_a_while_although_more_comes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace.jsonl");
        let recorder = Recorder::create(&path, "client").expect("possible");
        let began = Instant::now();
        while std::fs::metadata(&path).expect("it is there").len() == 0 {
            assert!(began.elapsed() < 10 * FLUSH_INTERVAL, "nothing was flushed");
            recorder.closed(&"io1,a;io2,a".parse().expect("a right name"));
            std::thread::sleep(FLUSH_INTERVAL / 20);
        }
    }
}
