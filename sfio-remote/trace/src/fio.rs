//! Requests as a log that fio plays: `fio --read_iolog=FILE`, version 3 of its format.
//!
//! A line is `milliseconds file action [offset length]`, the time counted from the first one. fio opens each file once
//! and plays the lines of one log in one process; so there is a log for each process of the job, or one for all.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::record::{ClientId, FileId, Operation, Record};

/// What a log needs to know beside the requests.
#[derive(Debug, Clone, Default)]
pub struct FioLog {
    names: BTreeMap<FileId, String>,
    /// Up to where each file that the log opens is read.
    read_ends: BTreeMap<FileId, u64>,
    only: Option<ClientId>,
    origin: Option<u64>,
    lines: String,
    bytes: (u64, u64),
    /// Who asks for something, whether the log has it or not.
    clients: BTreeSet<ClientId>,
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
            Record::Request(request) if request.bytes > 0 => {
                self.clients.extend(request.client);
                if self.only.is_some() && self.only != request.client {
                    return;
                }
                let origin = *self.origin.get_or_insert(request.start);
                let at = request.start.saturating_sub(origin) / 1_000;
                let name =
                    self.names.entry(request.file).or_insert_with(|| format!("file-{}", request.file.0));
                if !self.read_ends.contains_key(&request.file) {
                    let _ = write!(self.lines, "{at} {name} add\n{at} {name} open\n");
                }
                let end = self.read_ends.entry(request.file).or_default();
                let (action, sum) = match request.operation {
                    Operation::Read => {
                        *end = (*end).max(request.offset + request.bytes);
                        ("read", &mut self.bytes.0)
                    }
                    Operation::Write => ("write", &mut self.bytes.1),
                };
                *sum = sum.saturating_add(request.bytes);
                let _ = writeln!(self.lines, "{at} {name} {action} {} {}", request.offset, request.bytes);
            }
            _ => {}
        }
    }

    /// Bytes that the log reads and writes.
    pub fn bytes(&self) -> (u64, u64) {
        self.bytes
    }

    /// The first and the last of the processes that ask for something by themselves, whether the log has it or not.
    pub fn clients(&self) -> Option<(ClientId, ClientId)> {
        Some((*self.clients.first()?, *self.clients.last()?))
    }

    /// The files that the log reads, and up to where: fio makes none of them, and what is not there is an error to it.
    pub fn files_read(&self) -> impl Iterator<Item = (&str, u64)> {
        let read = self.read_ends.iter().filter(|(_, end)| **end > 0);
        read.filter_map(|(file, end)| self.names.get(file).map(|name| (name.as_str(), *end)))
    }

    /// The log.
    pub fn finish(self) -> String {
        let closing = self.read_ends.keys().filter_map(|file| self.names.get(file));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{ApplicationId, Descriptor, Request};

    fn request(
        client: u32,
        file: u64,
        operation: Operation,
        start: u64,
        (offset, bytes): (u64, u64),
    ) -> Record {
        Record::Request(Request {
            start,
            end: start + 1,
            application: ApplicationId(1),
            client: Some(ClientId(client)),
            file: FileId(file),
            descriptor: Descriptor(0),
            operation,
            asynchronous: false,
            spread: None,
            offset,
            bytes,
        })
    }

    #[test]
    fn a_log_has_a_line_for_each_request_and_opens_each_file_once() {
        let mut log = FioLog::new(None);
        log.push(&request(0, 1, Operation::Write, 5_000, (0, 100)));
        log.push(&request(1, 2, Operation::Read, 7_900, (50, 10)));
        log.push(&request(0, 1, Operation::Write, 9_000, (100, 7)));
        log.push(&request(0, 1, Operation::Write, 9_000, (100, 0)));
        assert_eq!((log.bytes(), log.files_read().collect::<Vec<_>>()), ((10, 107), vec![("file-2", 60)]));
        let expected = "fio version 3 iolog\n0 file-1 add\n0 file-1 open\n0 file-1 write 0 100\n2 file-2 add\n\
            2 file-2 open\n2 file-2 read 50 10\n4 file-1 write 100 7\n4 file-1 close\n4 file-2 close\n";
        assert_eq!(log.finish(), expected);
    }

    #[test]
    fn a_log_of_one_process_has_its_requests_only() {
        let mut log = FioLog::new(Some(ClientId(1)));
        log.push(&request(0, 1, Operation::Write, 5_000, (0, 100)));
        log.push(&request(1, 1, Operation::Write, 6_000, (100, 30)));
        assert_eq!(log.bytes(), (0, 30));
    }
}
