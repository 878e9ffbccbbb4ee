//! The records of a trace: the thirteen kinds of the study's Table 1.
//!
//! Times are microseconds since the Unix epoch, offsets and sizes are bytes. A request names its file beside the
//! descriptor, so that each record can be understood by itself.

use serde::{Deserialize, Serialize};

/// Microseconds since the Unix epoch.
pub type Micros = u64;

/// One run of a program, a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApplicationId(pub u64);

/// One process of a job: a compute node, a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientId(pub u32);

/// A file, the same for all jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileId(pub u64);

/// What an open file is called by the process that has opened it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Descriptor(pub u32);

/// One line of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// What the trace is of; the first record.
    Header(Header),
    /// A job begins.
    ApplicationLoad(ApplicationLoad),
    /// A job ends.
    ApplicationExit(ApplicationExit),
    /// One process opens a file.
    ClientOpen(Open),
    /// A job opens a file as a whole.
    ApplicationOpen(Open),
    /// One process closes a file.
    ClientClose(Close),
    /// A job closes a file as a whole.
    ApplicationClose(Close),
    /// A read or a write.
    Request(Request),
    /// A file is cut off or extended.
    Resize(Resize),
    /// A file gets a further name, or loses one.
    Link(Link),
    /// A process sets the I/O mode of an open file.
    SetMode(SetMode),
    /// Another request to the file system.
    Fcntl(Fcntl),
    /// An operation at a disk, or past the file system.
    Physical(Physical),
}

/// What the trace is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The version of this format, [`FORMAT_VERSION`].
    pub format: u32,
    /// When it was begun.
    pub at: Micros,
    /// What was traced: "sfio", "darshan 3.21", "charisma-cmf".
    pub system: String,
    /// Its name.
    pub system_id: String,
    /// Nodes, memory, disks, in words.
    pub configuration: String,
    /// The unit of the time stamps: "us".
    pub timestamp_unit: String,
}

/// The version of the record format. Since version 2 a line may have further regions, since version 3 as lists, too.
pub const FORMAT_VERSION: u32 = 3;

/// A job begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationLoad {
    /// When.
    pub at: Micros,
    /// Which job.
    pub application: ApplicationId,
    /// Where its program lies.
    pub executable: String,
    /// Whose it is.
    pub user: u32,
    /// On how many nodes it runs, or how many processes it has.
    pub clients: u32,
    /// Which ones; empty if they are not listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_list: Vec<ClientId>,
}

/// A job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationExit {
    /// When.
    pub at: Micros,
    /// Which job.
    pub application: ApplicationId,
}

/// A file is opened, by a process or by a job as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// When.
    pub at: Micros,
    /// Which job.
    pub application: ApplicationId,
    /// Which process of it; none if the job opens it as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    /// The file's name.
    pub path: String,
    /// Which file.
    pub file: FileId,
    /// What the file is called from now on.
    pub descriptor: Descriptor,
    /// How large it is.
    pub size: u64,
    /// When it was created.
    pub created: Micros,
    /// What it is opened for.
    pub mode: OpenMode,
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpenMode {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Both.
    ReadWrite,
    /// Writing, after it has been created.
    Create,
}

/// A file is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Close {
    /// When.
    pub at: Micros,
    /// Which job.
    pub application: ApplicationId,
    /// Which process of it; none if the job closes it as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    /// Which file.
    pub file: FileId,
    /// How large it is now.
    pub size: u64,
}

/// Reading or writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Bytes go to the job.
    Read,
    /// Bytes come from the job.
    Write,
}

/// A read or a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// When it began.
    pub start: Micros,
    /// When it ended.
    pub end: Micros,
    /// Which job.
    pub application: ApplicationId,
    /// Which process of it; none if the job asks as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    /// Which file.
    pub file: FileId,
    /// What it is called.
    pub descriptor: Descriptor,
    /// Reading or writing.
    pub operation: Operation,
    /// Whether the caller went on meanwhile.
    #[serde(default, skip_serializing_if = "is_false")]
    pub asynchronous: bool,
    /// Of a request of a job as a whole: which process has which of its bytes, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
    /// Where in the file it begins.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Which process has which bytes of a collective request. The study's Table 1 has no field for it, but its Table 10
/// cannot be counted without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Every process has all of them.
    Whole,
    /// Byte b of the file belongs to process ⌊b / unit⌋ modulo the number of processes; each piece of `unit` bytes
    /// goes on for `overlap` bytes in the next one.
    Dealt {
        /// Bytes of a piece; at least 1.
        unit: u64,
        /// Bytes that a piece has beyond its unit; at most a unit.
        overlap: u64,
    },
}

/// A file is cut off or extended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resize {
    /// When.
    pub at: Micros,
    /// Which job.
    pub application: ApplicationId,
    /// Which process of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    /// Which file.
    pub file: FileId,
    /// Its size before.
    pub original: u64,
    /// Its size now.
    pub size: u64,
}

/// A file gets a further name, or loses one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// When.
    pub at: Micros,
    /// Which job.
    pub application: ApplicationId,
    /// Which process of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    /// Which file.
    pub file: FileId,
    /// How many names it has now; with 0 it is gone.
    pub links: u32,
}

/// How the processes of a job share a file's pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoMode {
    /// Every process has a file of its own.
    LocalIndependent,
    /// Each process reads and writes a common file where it likes.
    GlobalIndependent,
    /// All have the same pointer and get the same bytes.
    SynchronousBroadcast,
    /// All take part, each with the portion behind that of the process before.
    SynchronousSequential,
}

/// A process sets the I/O mode of an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetMode {
    /// When.
    pub at: Micros,
    /// Which job.
    pub application: ApplicationId,
    /// Which process of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    /// Which file.
    pub file: FileId,
    /// The mode from now on.
    pub mode: IoMode,
}

/// Another request to the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fcntl {
    /// When.
    pub at: Micros,
    /// Which job.
    pub application: ApplicationId,
    /// Which process of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    /// The system's number for it; ours: [`SYNC`](Fcntl::SYNC).
    pub code: u32,
}

impl Fcntl {
    /// What was written is made durable.
    pub const SYNC: u32 = 1;
}

/// An operation at a disk, or past the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Physical {
    /// When it began.
    pub start: Micros,
    /// When it ended.
    pub end: Micros,
    /// Which job; at an I/O node of ours the member that asks.
    pub application: ApplicationId,
    /// Which file; at an I/O node of ours a subfile.
    pub file: FileId,
    /// Reading or writing.
    pub operation: Operation,
    /// How many processes take part.
    pub clients: u32,
    /// Where in the file it begins.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl Record {
    /// The same call at another region of its file, if it is one that has a region.
    pub fn elsewhere(&self, offset: u64, bytes: u64) -> Option<Record> {
        match *self {
            Record::Request(request) => Some(Record::Request(Request { offset, bytes, ..request })),
            Record::Physical(physical) => Some(Record::Physical(Physical { offset, bytes, ..physical })),
            _ => None,
        }
    }

    /// When it happened, or began.
    pub fn at(&self) -> Micros {
        match self {
            Record::Header(header) => header.at,
            Record::ApplicationLoad(load) => load.at,
            Record::ApplicationExit(exit) => exit.at,
            Record::ClientOpen(open) | Record::ApplicationOpen(open) => open.at,
            Record::ClientClose(close) | Record::ApplicationClose(close) => close.at,
            Record::Request(request) => request.start,
            Record::Resize(resize) => resize.at,
            Record::Link(link) => link.at,
            Record::SetMode(set) => set.at,
            Record::Fcntl(fcntl) => fcntl.at,
            Record::Physical(physical) => physical.start,
        }
    }
}

/// The beginning of a trace of `system`.
pub fn header(at: Micros, system: &str, configuration: &str) -> Record {
    Record::Header(Header {
        format: FORMAT_VERSION,
        at,
        system: system.to_owned(),
        system_id: String::new(),
        configuration: configuration.to_owned(),
        timestamp_unit: "us".to_owned(),
    })
}
