//! Requests as a log that fio plays: `fio --read_iolog=FILE`, version 3 of its format.
//!
//! A line is `milliseconds file action [offset length]`, the time counted from the first one. fio opens each file once
//! and plays the lines of one log in one process; so there is a log for each process of the job, or one for all.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::record::{ClientId, FileId, Operation, Record};

/// What a log needs to know beside the requests.
#[derive(Debug, Clone, Default)]
pub struct FioLog {
    names: BTreeMap<FileId, String>,
    is_listed: BTreeMap<FileId, bool>,
    only: Option<ClientId>,
    origin: Option<u64>,
    lines: String,
    bytes: (u64, u64),
}

impl FioLog {
    /// A log of all requests, or only of those of one process.
    pub fn new(only: Option<ClientId>) -> FioLog {
        FioLog { only, ..FioLog::default() }
    }

    /// Adds a record; opens give names, requests become lines.
    pub fn push(&mut self, record: &Record) {
        match record {
            Record::ClientOpen(open) | Record::ApplicationOpen(open) => {
                let name = format!("{}-{}", open.file.0, plain(&open.path));
                self.names.entry(open.file).or_insert(name);
            }
            Record::Request(request) if self.only.is_none() || self.only == request.client => {
                if request.bytes == 0 {
                    return;
                }
                let origin = *self.origin.get_or_insert(request.start);
                let at = request.start.saturating_sub(origin) / 1_000;
                let name =
                    self.names.entry(request.file).or_insert_with(|| format!("file-{}", request.file.0));
                let known = self.is_listed.entry(request.file).or_insert(false);
                if !*known {
                    *known = true;
                    let _ = write!(self.lines, "{at} {name} add\n{at} {name} open\n");
                }
                let (action, sum) = match request.operation {
                    Operation::Read => ("read", &mut self.bytes.0),
                    Operation::Write => ("write", &mut self.bytes.1),
                };
                *sum += request.bytes;
                let _ = writeln!(self.lines, "{at} {name} {action} {} {}", request.offset, request.bytes);
            }
            _ => {}
        }
    }

    /// Bytes that the log reads and writes.
    pub fn bytes(&self) -> (u64, u64) {
        self.bytes
    }

    /// The log.
    pub fn finish(self) -> String {
        let closing = self.is_listed.keys().filter_map(|file| self.names.get(file));
        let last = self.lines.rsplit('\n').find(|line| !line.is_empty());
        let at = last.and_then(|line| line.split(' ').next()).unwrap_or("0").to_owned();
        let closing: String = closing.map(|name| format!("{at} {name} close\n")).collect();
        format!("fio version 3 iolog\n{}{closing}", self.lines)
    }
}

/// The last part of a path without what fio takes for something else.
fn plain(path: &str) -> String {
    let last = path.rsplit('/').next().unwrap_or(path);
    last.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '_' }).collect()
}
