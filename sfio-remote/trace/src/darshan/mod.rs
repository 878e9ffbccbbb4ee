//! Logs of Darshan, as far as its extended tracing (DXT) goes: format versions 3.00 to 3.41.
//!
//! ```text
//! header      version[8] · magic 6567223 (i64) · compression (u8) · 7 bytes · flag (u32, from 3.41 on u64)
//!             name map (offset u64, length u64) · 16 module maps (64 from 3.41) · 16 module versions (u32; 64)
//! job         from the header's end to the name map: uid, times, processes, job id, metadata[1024], executable
//! names       id (u64) and a string, one for each file
//! modules     DXT_POSIX and DXT_MPIIO: for each file and rank
//!             id u64 · rank i64 · shared i64 · host[64] · writes i64 · reads i64, then the segments of both:
//!             offset i64 · length i64 · start f64 · end f64 (seconds since the job began) [· thread u64]
//! ```
//!
//! Each region is compressed by itself, as one or several streams behind each other. The words are in the byte order of
//! the machine that wrote them; the magic number tells which.
//!
//! Versions 3.10 and 3.21 are tested on logs that Darshan wrote, the others on what our own tests write.

mod bytes;
mod header;
mod region;
mod traces;

use std::collections::BTreeMap;

use crate::record::{
    ApplicationExit, ApplicationId, ApplicationLoad, ClientId, Close, Descriptor, FileId, Micros, Open,
    OpenMode, Operation, Record, Request, header,
};

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DarshanError {
    /// It ends within something.
    #[error("{region}, byte {offset}: it ends within {what}, which needs {needed} bytes more")]
    Truncated {
        /// The part of the log.
        region: &'static str,
        /// Where in it, decompressed.
        offset: usize,
        /// What is not whole.
        what: &'static str,
        /// How many bytes are missing.
        needed: usize,
    },
    /// It is no log.
    #[error(
        "header, byte 8: the magic number is {found}; expected 6567223 in either byte order: is this a Darshan log?"
    )]
    Magic {
        /// What is there.
        found: i64,
    },
    /// It is of a version that this reader does not know.
    #[error("header, byte 0: version \"{found}\"; expected 3.00 to 3.41")]
    Version {
        /// What is there.
        found: String,
    },
    /// Its compression is none that there is.
    #[error("header, byte 16: compression {found}; expected 0 (zlib), 1 (bzip2) or 2 (none)")]
    CompressionKind {
        /// What is there.
        found: u8,
    },
    /// A region lies outside of the log.
    #[error(
        "header: {region} is at byte {offset} with {length} bytes, but the log has {size}; is it cut off?"
    )]
    Outside {
        /// Which one.
        region: &'static str,
        /// Where it should begin.
        offset: u64,
        /// How long it should be.
        length: u64,
        /// The size of the log.
        size: usize,
    },
    /// Compressed bytes are damaged.
    #[error("{region}, compressed byte {offset} of the log: {error}")]
    Compression {
        /// The part of the log.
        region: &'static str,
        /// Where its damaged stream begins in the log.
        offset: usize,
        /// What the decompressor says.
        error: std::io::Error,
    },
    /// A region decompresses to more than anything that was ever logged.
    #[error("{region}: it decompresses to more than {limit} bytes")]
    TooLarge {
        /// Which one.
        region: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A value is none that there can be.
    #[error("{region}, byte {offset}: {what} is {found}; expected {expected}")]
    Value {
        /// The part of the log.
        region: &'static str,
        /// Where in it, decompressed.
        offset: usize,
        /// What is wrong.
        what: &'static str,
        /// What is there.
        found: String,
        /// What would be right.
        expected: &'static str,
    },
}

/// What a log says of its job, and the requests of its files.
#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    /// The version of its format, as "3.21".
    pub version: String,
    /// Whether Darshan ran out of memory and left requests out.
    pub is_partial: bool,
    /// The job.
    pub job: Job,
    /// Names of files by record id.
    pub names: BTreeMap<u64, String>,
    /// Requests to the operating system, by file and rank.
    pub posix: Vec<Trace>,
    /// Requests to MPI-IO, by file and rank.
    pub mpiio: Vec<Trace>,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Whose it is.
    pub user: i64,
    /// When it began.
    pub start: Micros,
    /// When it ended.
    pub end: Micros,
    /// How many processes it has.
    pub processes: i64,
    /// Its number.
    pub id: i64,
    /// Its program, with its arguments.
    pub executable: String,
}

/// The requests of one rank to one file.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// Which file.
    pub id: u64,
    /// Which rank.
    pub rank: i64,
    /// On which host.
    pub host: String,
    /// Writes, in the order in which they began.
    pub writes: Vec<Segment>,
    /// Reads.
    pub reads: Vec<Segment>,
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// Where in the file it began; −1 if that is not known.
    pub offset: i64,
    /// How many bytes.
    pub length: i64,
    /// When it began, in seconds since the job did.
    pub start: f64,
    /// When it ended.
    pub end: f64,
}

/// Whose requests are meant: one request to MPI-IO becomes some to the operating system, so both together count twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// The operating system's: what reaches storage.
    Posix,
    /// The library's: what the program asked for.
    MpiIo,
}

/// Reads a log.
///
/// # Errors
/// If it is none, or damaged, or cut off; the error says where.
pub fn read(log: &[u8]) -> Result<Log, DarshanError> {
    let header = header::read(log)?;
    let job = header::job(log, &header)?;
    let names = header::names(log, &header)?;
    let posix = traces::read(log, &header, traces::Module::Posix)?;
    let mpiio = traces::read(log, &header, traces::Module::MpiIo)?;
    let version = format!("{}.{:02}", header.version / 100, header.version % 100);
    Ok(Log { version, is_partial: header.is_partial(), job, names, posix, mpiio })
}

impl Log {
    /// The traces of a layer.
    pub fn traces(&self, layer: Layer) -> &[Trace] {
        match layer {
            Layer::Posix => &self.posix,
            Layer::MpiIo => &self.mpiio,
        }
    }

    /// The log as records, in the order of time. DXT has no opens and closes: a rank opens a file with its first
    /// request, and closes it with its last one. A trace without a rank of its own (−1) is of the job as a whole.
    pub fn records(&self, layer: Layer) -> Vec<Record> {
        let application = ApplicationId(self.job.id as u64);
        let mut records = Vec::new();
        let mut last = self.job.end.max(self.job.start);
        for (index, trace) in self.traces(layer).iter().enumerate() {
            let client = u32::try_from(trace.rank).ok().map(ClientId);
            let place =
                Place { application, client, file: FileId(trace.id), descriptor: Descriptor(index as u32) };
            last = last.max(self.push_trace(trace, place, &mut records));
        }
        records.sort_by_key(Record::at);
        let configuration = format!("{} processes", self.job.processes);
        let load = ApplicationLoad {
            at: self.job.start,
            application,
            executable: self.job.executable.clone(),
            user: self.job.user as u32,
            clients: u32::try_from(self.job.processes).unwrap_or(u32::MAX),
            client_list: Vec::new(),
        };
        let first = [
            header(self.job.start, &format!("darshan {}", self.version), &configuration),
            Record::ApplicationLoad(load),
        ];
        let exit = Record::ApplicationExit(ApplicationExit { at: last, application });
        first.into_iter().chain(records).chain([exit]).collect()
    }

    /// Adds what one rank does with one file; gives its end.
    fn push_trace(&self, trace: &Trace, place: Place, records: &mut Vec<Record>) -> Micros {
        let writes = trace.writes.iter().map(|segment| (Operation::Write, segment));
        let reads = trace.reads.iter().map(|segment| (Operation::Read, segment));
        let mut requests: Vec<Request> =
            writes.chain(reads).filter_map(|(what, segment)| self.request(what, segment, place)).collect();
        requests.sort_by_key(|request| (request.start, request.end));
        let (Some(first), Some(end)) = (requests.first(), requests.iter().map(|request| request.end).max())
        else {
            return 0;
        };
        let mode = match (trace.reads.is_empty(), trace.writes.is_empty()) {
            (false, true) => OpenMode::Read,
            (true, false) => OpenMode::Write,
            _ => OpenMode::ReadWrite,
        };
        let size = requests.iter().map(|request| request.offset + request.bytes).max().unwrap_or(0);
        let Place { application, client, file, descriptor } = place;
        let path = self.names.get(&trace.id).cloned().unwrap_or_else(|| format!("{:016x}", trace.id));
        let at = first.start;
        let open = Open { at, application, client, path, file, descriptor, size: 0, created: 0, mode };
        let close = Close { at: end, application, client, file, size };
        let is_whole = client.is_none();
        records.push(if is_whole { Record::ApplicationOpen(open) } else { Record::ClientOpen(open) });
        records.extend(requests.into_iter().map(Record::Request));
        records.push(if is_whole { Record::ApplicationClose(close) } else { Record::ClientClose(close) });
        end
    }

    /// A segment as a request; none if its offset is not known.
    fn request(&self, operation: Operation, segment: &Segment, place: Place) -> Option<Request> {
        let after = |seconds: f64| self.job.start.saturating_add((seconds.max(0.0) * 1e6).round() as u64);
        let start = after(segment.start);
        Some(Request {
            start,
            end: after(segment.end).max(start),
            application: place.application,
            client: place.client,
            file: place.file,
            descriptor: place.descriptor,
            operation,
            asynchronous: false,
            spread: None,
            offset: u64::try_from(segment.offset).ok()?,
            bytes: u64::try_from(segment.length).ok()?,
        })
    }
}

/// Whose requests they are.
#[derive(Debug, Clone, Copy)]
struct Place {
    application: ApplicationId,
    client: Option<ClientId>,
    file: FileId,
    descriptor: Descriptor,
}
