//! Every table and figure of `[charisma]`, counted from records.
//!
//! The conventions are the study's: a request is *sequential* if it begins at a higher offset than the one before it,
//! *consecutive* if it begins where that one ended; the order is that of the job where the job asks as a whole, and
//! that of each process where processes ask (§4.4). Blocks have 29.5 KiB. A file counts once for each job that opens
//! it.

mod distribution;
mod figures;
mod file;
mod report;
mod reuse;
mod sharing;
mod tables;

use std::collections::BTreeMap;

use serde::Serialize;

pub use distribution::Distribution;
pub use figures::{Axis, Figure, Series, figures};
pub use file::Class;
pub use report::{ByClass, Day, ModeShare, Report, Totals};
pub use sharing::SHARE_ROWS;
pub use tables::{TextTable, tables};

pub(crate) use file::Sequences;
pub(crate) use sharing::{Touches, share_row};

use crate::record::{ApplicationId, ClientId, FileId, Micros, Open, OpenMode, Operation, Record, Request};
use file::File;

/// What the analyses rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Conventions {
    /// Bytes of a block: 29.5 KiB in the study (118 disks of 256 B, §3).
    pub block_bytes: u64,
    /// In whose order requests stand.
    pub order: Order,
}

/// In whose order requests stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// In that of each process, where processes ask; in that of the job, where it asks as a whole.
    Recorded,
    /// In that of the job.
    Job,
}

impl Default for Conventions {
    fn default() -> Conventions {
        Conventions { block_bytes: 30_208, order: Order::Recorded }
    }
}

/// A job that has not ended.
#[derive(Debug, Clone)]
struct Job {
    loaded: Micros,
    last: Micros,
    nodes: u32,
    seen: u32,
    files: BTreeMap<FileId, File>,
    is_asynchronous: bool,
    physical_bytes: u64,
}

/// Takes records one after the other. It holds only the jobs that have not ended, so a trace of any length needs no
/// more memory than the jobs that overlap.
#[derive(Debug)]
pub struct Analysis {
    jobs: BTreeMap<ApplicationId, Job>,
    report: Report,
}

impl Analysis {
    /// Begins.
    pub fn new(conventions: Conventions) -> Analysis {
        let block_bytes = conventions.block_bytes.max(1);
        let report = Report { conventions: Conventions { block_bytes, ..conventions }, ..Report::default() };
        Analysis { jobs: BTreeMap::new(), report }
    }

    /// The next record; those of a file in the order of time.
    pub fn note(&mut self, record: &Record) {
        match record {
            Record::Header(_) => {}
            Record::ApplicationLoad(load) => {
                self.end(load.application);
                let job = self.job(load.application, load.at);
                job.nodes = load.clients;
            }
            Record::ApplicationExit(exit) => {
                self.job(exit.application, exit.at);
                self.end(exit.application);
            }
            Record::ClientOpen(open) | Record::ApplicationOpen(open) => self.open(open),
            Record::ClientClose(close) | Record::ApplicationClose(close) => {
                let file = self.file(close.application, close.file, close.at);
                file.close(close.at, close.size);
            }
            Record::Request(request) => self.request(request),
            Record::Resize(resize) => {
                self.file(resize.application, resize.file, resize.at).resize(resize.size);
            }
            Record::Link(link) => {
                self.file(link.application, link.file, link.at).deleted |= link.links == 0;
            }
            Record::SetMode(set) => {
                self.file(set.application, set.file, set.at).set_mode(set.client, set.mode);
            }
            Record::Fcntl(fcntl) => drop(self.job(fcntl.application, fcntl.at)),
            Record::Physical(physical) => {
                let job = self.job(physical.application, physical.end);
                job.physical_bytes = job.physical_bytes.saturating_add(physical.bytes);
            }
        }
    }

    /// What was counted; jobs that have not ended count up to here.
    pub fn finish(mut self) -> Report {
        let open: Vec<ApplicationId> = self.jobs.keys().copied().collect();
        open.into_iter().for_each(|application| self.end(application));
        self.report
    }

    fn job(&mut self, application: ApplicationId, at: Micros) -> &mut Job {
        let new = || Job {
            loaded: at,
            last: at,
            nodes: 0,
            seen: 0,
            files: BTreeMap::new(),
            is_asynchronous: false,
            physical_bytes: 0,
        };
        let job = self.jobs.entry(application).or_insert_with(new);
        job.last = job.last.max(at);
        job
    }

    fn file(&mut self, application: ApplicationId, file: FileId, at: Micros) -> &mut File {
        self.job(application, at).files.entry(file).or_default()
    }

    fn open(&mut self, open: &Open) {
        let whose = self.sequence_of(open.client);
        let job = self.job(open.application, open.at);
        job.see(open.client);
        let file = job.files.entry(open.file).or_default();
        if !file.opened {
            file.created = open.mode == OpenMode::Create;
        }
        file.open(whose, open.at, open.size);
    }

    fn sequence_of(&self, client: Option<ClientId>) -> Option<ClientId> {
        client.filter(|_| self.report.conventions.order == Order::Recorded)
    }

    fn request(&mut self, request: &Request) {
        let sequence = self.sequence_of(request.client);
        let block = self.report.conventions.block_bytes;
        let job = self.job(request.application, request.end);
        job.see(request.client);
        job.is_asynchronous |= request.asynchronous;
        let file = job.files.entry(request.file).or_default();
        file.request(request, sequence);
        let mode = file.mode(request.client);
        let last = match request.operation {
            Operation::Read => &mut file.last_read,
            Operation::Write => &mut file.last_write,
        };
        let mut elapsed = Vec::new();
        if request.bytes > 0 {
            let end = (request.offset + request.bytes - 1) / block + 1;
            last.access(request.offset / block, end, request.start, |us, blocks| elapsed.push((us, blocks)));
        }
        self.report.note_request(request, mode, &elapsed);
    }

    fn end(&mut self, application: ApplicationId) {
        if let Some(job) = self.jobs.remove(&application) {
            self.report.note_job(&job);
        }
    }
}

impl Job {
    fn see(&mut self, client: Option<ClientId>) {
        self.seen = self.seen.max(client.map_or(0, |client| client.0.saturating_add(1)));
    }

    /// When it began.
    fn began(&self) -> Micros {
        self.loaded
    }

    /// For how long it ran, as far as it was seen.
    fn duration(&self) -> Micros {
        self.last - self.loaded
    }

    /// Whether it asked for something without waiting for it.
    fn is_asynchronous(&self) -> bool {
        self.is_asynchronous
    }

    /// The bytes that its disks moved.
    fn physical_bytes(&self) -> u64 {
        self.physical_bytes
    }

    /// On how many nodes it runs: as it said, or at least as many as were seen.
    fn nodes(&self) -> u32 {
        if self.nodes > 0 { self.nodes } else { self.seen.max(1) }
    }
}
