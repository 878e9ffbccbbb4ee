//! A trace as the work of its processes, to be done again.
//!
//! A [`Work`] is what the processes of a trace ask for, call by call; a [`Player`] says when each call is due, and is
//! told when it has ended. It does no I/O and looks at no clock: whoever plays does, on sockets or in virtual time.
//!
//! A trace does not tell why a process asks when it does. The rule here is that a call waits for those of its process
//! that had ended before it began, and for no other: so a process that had several calls under way has them again, and
//! one that asked for one thing after the other does so again. What processes wait for of one another is not known,
//! unless they are made to ask [together](Work::together).

mod together;

use std::collections::{BTreeMap, BTreeSet};

use crate::record::{
    ApplicationId, ApplicationLoad, ClientId, FileId, Micros, Operation, Record, Request, Spread,
};

/// A work with more regions would take too much memory: each is a place and a length.
const MAX_REGIONS: u64 = 1 << 26;

/// A job with more processes would, too; the largest machines have fewer cores.
const MAX_PROCESSES: u64 = 1 << 24;

/// Why a trace cannot be done again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    /// More requests, or pieces of them that are dealt out, than can be held.
    #[error(
        "the request of {bytes} bytes at {offset} of file {file} makes {regions} regions of the trace; at most \
         {MAX_REGIONS} can be played"
    )]
    TooManyRegions {
        /// The request's length.
        bytes: u64,
        /// Where it begins.
        offset: u64,
        /// Of which file.
        file: u64,
        /// How many there would be with those of the requests before it.
        regions: u64,
    },
    /// More processes than can be held.
    #[error("job {application} has {processes} processes; at most {MAX_PROCESSES} can be played")]
    TooManyProcesses {
        /// The job.
        application: u64,
        /// How many it has.
        processes: u64,
    },
}

/// When a call begins, once those that it waits for have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// At once.
    Fast,
    /// As long after them as it did in the trace: the process thinks for as long as it did.
    Think,
    /// When it began in the trace, counted from the first call, or at once if that is past.
    Recorded,
}

/// A process of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// The job.
    pub application: ApplicationId,
    /// Which process of it.
    pub client: ClientId,
}

/// Something that a process asks for at once: requests that the trace has with the same times are one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Who asks.
    pub process: Process,
    /// Of which file.
    pub file: FileId,
    /// Reading or writing.
    pub operation: Operation,
    /// Where, as offsets and lengths, in the order of the trace.
    pub regions: Vec<(u64, u64)>,
    /// When it began in the trace.
    pub start: Micros,
    /// When it ended in the trace.
    pub end: Micros,
}

/// What the processes of a trace ask for.
#[derive(Debug, Clone, Default)]
pub struct Work {
    calls: Vec<Call>,
    /// The processes of each job, if the trace lists them.
    clients: BTreeMap<ApplicationId, Vec<ClientId>>,
    /// How many regions all calls have.
    regions: u64,
}

/// Which call of a work: its place in [`Work::calls`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallIndex(pub usize);

/// A work that is being done.
#[derive(Debug)]
pub struct Player {
    pace: Pace,
    began: Micros,
    /// When the calls of the work began in the trace.
    starts: Vec<Micros>,
    turns: Vec<Turns>,
    /// Whose turns a call is of.
    owners: Vec<usize>,
    /// Calls that may begin, by time.
    due: BTreeSet<(Micros, CallIndex)>,
    left: usize,
}

/// The calls of one process.
#[derive(Debug, Default)]
struct Turns {
    /// Those that were not begun, the next one last, each with the number of calls that it waits for.
    waiting: Vec<(CallIndex, usize)>,
    /// All of them, in the order in which they ended in the trace, and when that was.
    by_end: Vec<(Micros, CallIndex)>,
    ended: BTreeSet<CallIndex>,
    /// How many of `by_end` have ended, without a gap.
    prefix: usize,
}

impl Work {
    /// Takes note of a record. Requests of a job as a whole are dealt to its processes as their spread says; without
    /// one its first process asks for all. What disks did is not asked for again.
    ///
    /// # Errors
    /// If that would take too much memory.
    pub fn note(&mut self, record: &Record) -> Result<(), WorkError> {
        match record {
            Record::ApplicationLoad(load) => self.load(load),
            Record::Request(request) if request.bytes > 0 => self.ask(request),
            _ => Ok(()),
        }
    }

    /// The calls, by the time at which they began.
    pub fn finish(mut self) -> Work {
        self.calls.sort_by_key(|call| (call.start, call.process));
        self
    }

    /// The calls.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// Bytes that are read, and bytes that are written.
    pub fn bytes(&self) -> (u64, u64) {
        let of = |operation| {
            let calls = self.calls.iter().filter(|call| call.operation == operation);
            calls.map(Call::bytes).fold(0, u64::saturating_add)
        };
        (of(Operation::Read), of(Operation::Write))
    }

    /// The most bytes that may be read at once, which must all have a place: calls of a process that do not wait for
    /// one another, and processes that do not either.
    pub fn read_at_once(&self) -> u64 {
        let mut under_way: BTreeMap<Process, ReadsAtOnce> = BTreeMap::new();
        for call in self.calls.iter().filter(|call| call.operation == Operation::Read) {
            under_way.entry(call.process).or_default().begin(call);
        }
        under_way.values().map(|reads| reads.most).fold(0, u64::saturating_add)
    }

    /// The files, with the bytes that must be there before anything begins: up to where they are read.
    pub fn files(&self) -> BTreeMap<FileId, u64> {
        let mut files = BTreeMap::new();
        for call in &self.calls {
            let size: &mut u64 = files.entry(call.file).or_default();
            let end = call.regions.iter().map(|(offset, length)| offset + length).max().unwrap_or(0);
            if call.operation == Operation::Read {
                *size = (*size).max(end);
            }
        }
        files
    }

    fn load(&mut self, load: &ApplicationLoad) -> Result<(), WorkError> {
        let listed = &load.client_list;
        let processes = if listed.is_empty() { load.clients.into() } else { listed.len() as u64 };
        if processes > MAX_PROCESSES {
            return Err(WorkError::TooManyProcesses { application: load.application.0, processes });
        }
        let numbered = || (0..load.clients).map(ClientId).collect();
        let clients = if listed.is_empty() { numbered() } else { listed.clone() };
        self.clients.insert(load.application, clients);
        Ok(())
    }

    fn ask(&mut self, request: &Request) -> Result<(), WorkError> {
        let known = self.clients.get(&request.application).filter(|all| !all.is_empty());
        let count = known.map_or(1, Vec::len) as u64;
        let more = match (request.client, request.spread) {
            (None, Some(Spread::Whole)) => count,
            // One more at each end may be cut.
            (None, Some(Spread::Dealt { unit, .. })) => request.bytes / unit + 2,
            _ => 1,
        };
        self.regions = self.regions.saturating_add(more);
        if self.regions > MAX_REGIONS {
            let Request { bytes, offset, file, .. } = *request;
            return Err(WorkError::TooManyRegions { bytes, offset, file: file.0, regions: self.regions });
        }
        let whole = || vec![(request.offset, request.bytes)];
        match (request.client, request.spread) {
            (Some(client), _) => self.push(request, client, whole()),
            (None, None) => {
                let first = known.map_or(ClientId(0), |all| all[0]);
                self.push(request, first, whole());
            }
            (None, Some(Spread::Whole)) => {
                let all = known.cloned().unwrap_or_else(|| vec![ClientId(0)]);
                all.into_iter().for_each(|client| self.push(request, client, whole()));
            }
            (None, Some(Spread::Dealt { unit, overlap })) => {
                let all = known.cloned().unwrap_or_else(|| vec![ClientId(0)]);
                for (rank, client) in (0..).zip(all) {
                    let regions = dealt(request, rank, (count, unit, overlap));
                    if !regions.is_empty() {
                        self.push(request, client, regions);
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds to the call of the same times, if that is the last one, or makes a new one.
    fn push(&mut self, request: &Request, client: ClientId, regions: Vec<(u64, u64)>) {
        let process = Process { application: request.application, client };
        let Request { file, operation, start, end, .. } = *request;
        let call = Call { process, file, operation, regions, start, end };
        match self.calls.last_mut().filter(|last| last.is_one_with(&call)) {
            Some(last) => last.regions.extend(call.regions),
            None => self.calls.push(call),
        }
    }
}

impl Call {
    /// How many bytes it reads or writes.
    pub fn bytes(&self) -> u64 {
        self.regions.iter().map(|(_, length)| *length).fold(0, u64::saturating_add)
    }

    fn is_one_with(&self, other: &Call) -> bool {
        let times = |call: &Call| (call.start, call.end);
        let place = |call: &Call| (call.process, call.file, call.operation);
        place(self) == place(other) && times(self) == times(other) && self.end > self.start
    }
}

/// What a process reads at once.
#[derive(Debug, Default)]
struct ReadsAtOnce {
    /// When those under way end, and how many bytes that many are.
    ends: BTreeMap<Micros, u64>,
    now: u64,
    most: u64,
}

impl ReadsAtOnce {
    /// The next call begins; those that have ended by then are waited for.
    fn begin(&mut self, call: &Call) {
        let later = self.ends.split_off(&call.start.saturating_add(1));
        let ended = std::mem::replace(&mut self.ends, later);
        self.now = ended.values().fold(self.now, |now, bytes| now.saturating_sub(*bytes));
        let bytes = call.bytes();
        let of_its_end = self.ends.entry(call.end).or_default();
        *of_its_end = of_its_end.saturating_add(bytes);
        self.now = self.now.saturating_add(bytes);
        self.most = self.most.max(self.now);
    }
}

/// The pieces of a request that process number `rank` of `count` has.
fn dealt(request: &Request, rank: u64, (count, unit, overlap): (u64, u64, u64)) -> Vec<(u64, u64)> {
    let end = request.offset + request.bytes;
    let first = request.offset / unit;
    let first = first + (rank + count - first % count) % count;
    let pieces = (first..).step_by(count as usize);
    let pieces = pieces.take_while(|piece| piece.checked_mul(unit).is_some_and(|start| start < end));
    let region = |piece: u64| {
        let from = (piece * unit).max(request.offset);
        (from, (piece * unit).saturating_add(unit).saturating_add(overlap).min(end) - from)
    };
    pieces.map(region).collect()
}

impl Player {
    /// Begins at time 0.
    pub fn new(work: &Work, pace: Pace) -> Player {
        let calls = work.calls();
        let mut players: BTreeMap<Process, usize> = BTreeMap::new();
        let mut turns: Vec<Turns> = Vec::new();
        let mut owners = Vec::new();
        for (index, call) in calls.iter().enumerate() {
            let next = players.len();
            let owner = *players.entry(call.process).or_insert(next);
            if owner == turns.len() {
                turns.push(Turns::default());
            }
            turns[owner].by_end.push((call.end, CallIndex(index)));
            turns[owner].waiting.push((CallIndex(index), 0));
            owners.push(owner);
        }
        for one in &mut turns {
            one.by_end.sort_unstable();
            let ends = &one.by_end;
            for (index, waits) in &mut one.waiting {
                // A call that takes no time does not wait for itself.
                let before = ends.partition_point(|(end, _)| *end <= calls[index.0].start);
                *waits = ends[..before].iter().take_while(|(_, other)| other < index).count();
            }
            one.waiting.reverse();
        }
        let began = calls.iter().map(|call| call.start).min().unwrap_or(0);
        let starts = calls.iter().map(|call| call.start).collect();
        let left = calls.len();
        let mut player = Player { pace, began, starts, turns, owners, due: BTreeSet::new(), left };
        (0..player.turns.len()).for_each(|owner| player.release(owner, 0));
        player
    }

    /// A call that is due at `now`, in µs since the begin; called until it gives none.
    pub fn poll(&mut self, now: Micros) -> Option<CallIndex> {
        let first = *self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.remove(&first);
        Some(first.1)
    }

    /// When the next call is due, if any is that waits for nothing else.
    pub fn next_due(&self) -> Option<Micros> {
        self.due.first().map(|(at, _)| *at)
    }

    /// A call has ended at `now`.
    pub fn ended(&mut self, call: CallIndex, now: Micros) {
        let owner = self.owners[call.0];
        self.turns[owner].ended.insert(call);
        self.left -= 1;
        self.release(owner, now);
    }

    /// Whether all calls have ended.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Makes those calls of a process due that wait for nothing any more.
    fn release(&mut self, owner: usize, now: Micros) {
        let turns = &mut self.turns[owner];
        while turns.by_end.get(turns.prefix).is_some_and(|(_, call)| turns.ended.contains(call)) {
            turns.prefix += 1;
        }
        while let Some((call, _)) = turns.waiting.last().filter(|(_, waits)| *waits <= turns.prefix).copied()
        {
            let (_, waits) = turns.waiting.pop().unwrap_or((call, 0));
            let start = self.starts[call.0];
            let before = if waits == 0 { self.began } else { turns.by_end[waits - 1].0 };
            let at = match self.pace {
                Pace::Fast => now,
                Pace::Think => now.saturating_add(start.saturating_sub(before)),
                Pace::Recorded => now.max(start - self.began),
            };
            self.due.insert((at, call));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Descriptor;

    pub(super) fn request(client: Option<u32>, times: (u64, u64), offset: u64) -> Request {
        Request {
            start: times.0,
            end: times.1,
            application: ApplicationId(1),
            client: client.map(ClientId),
            file: FileId(1),
            descriptor: Descriptor(0),
            operation: Operation::Write,
            asynchronous: false,
            spread: None,
            offset,
            bytes: 10,
        }
    }

    pub(super) fn work(requests: &[Request]) -> Work {
        let mut work = Work::default();
        requests.iter().for_each(|request| work.note(&Record::Request(*request)).expect("few"));
        work.finish()
    }

    /// When each call begins if each takes `took`.
    fn begins(work: &Work, pace: Pace, took: Micros) -> Vec<Micros> {
        let (mut player, mut running) = (Player::new(work, pace), BTreeSet::new());
        let (mut now, mut begins) = (0, vec![0; work.calls().len()]);
        while !player.is_done() {
            while let Some(call) = player.poll(now) {
                begins[call.0] = now;
                running.insert((now + took, call));
            }
            let next = running.first().map(|(end, _)| *end).into_iter().chain(player.next_due()).min();
            now = next.expect("something happens");
            while let Some((end, call)) = running.first().copied().filter(|(end, _)| *end <= now) {
                running.remove(&(end, call));
                player.ended(call, now);
            }
        }
        begins
    }

    #[test]
    fn a_process_asks_again_one_thing_after_the_other_and_thinks_as_long() {
        let trace = [(100, 110), (150, 160), (400, 410)];
        let work = work(&trace.map(|times| request(Some(3), times, times.0)));
        assert_eq!(begins(&work, Pace::Fast, 50), [0, 50, 100]);
        assert_eq!(begins(&work, Pace::Think, 50), [0, 90, 380]);
        assert_eq!(begins(&work, Pace::Recorded, 60), [0, 60, 300]);
    }

    #[test]
    fn calls_that_were_under_way_together_are_so_again() {
        // The third waits for the first only; the other process waits for nobody.
        let first =
            [request(Some(1), (0, 10), 0), request(Some(1), (1, 100), 10), request(Some(1), (20, 30), 20)];
        let work = work(&[&first[..], &[request(Some(2), (5, 6), 30)]].concat());
        assert_eq!(begins(&work, Pace::Fast, 50), [0, 0, 0, 50]);
        assert_eq!(begins(&work, Pace::Recorded, 3), [0, 1, 5, 20]);
    }

    #[test]
    fn regions_of_one_call_stay_one_call() {
        let work = work(&[(0, 9), (0, 9), (9, 12)].map(|times| request(Some(1), times, 7)));
        let regions: Vec<usize> = work.calls().iter().map(|call| call.regions.len()).collect();
        assert_eq!((regions, work.bytes()), (vec![2, 1], (0, 30)));
    }

    #[test]
    fn what_a_job_asks_for_as_a_whole_is_dealt_to_its_processes() {
        let mut work = Work::default();
        work.note(&load(2)).expect("few");
        let collective = Request { bytes: 25, spread: None, ..request(None, (0, 5), 5) };
        let dealt = Spread::Dealt { unit: 10, overlap: 2 };
        work.note(&Record::Request(Request { spread: Some(dealt), ..collective })).expect("few");
        let read = Request { operation: Operation::Read, spread: Some(Spread::Whole), ..collective };
        work.note(&Record::Request(read)).expect("few");
        let work = work.finish();
        let calls: Vec<_> = work
            .calls()
            .iter()
            .map(|call| (call.process.client.0, call.operation, &call.regions[..]))
            .collect();
        let (write, read) = (Operation::Write, Operation::Read);
        let whole = &[(5, 25)][..];
        let expected = [
            (0, write, &[(5, 7), (20, 10)][..]),
            (0, read, whole),
            (1, write, &[(10, 12)][..]),
            (1, read, whole),
        ];
        assert_eq!(calls, expected);
        assert_eq!(work.files(), BTreeMap::from([(FileId(1), 30)]));
    }

    fn load(clients: u32) -> Record {
        Record::ApplicationLoad(ApplicationLoad {
            at: 0,
            application: ApplicationId(1),
            executable: String::new(),
            user: 0,
            clients,
            client_list: Vec::new(),
        })
    }

    /// A line of a trace could take all memory, or a place in an empty list.
    #[test]
    fn a_record_that_would_take_too_much_memory_is_refused() {
        let dealt = Request {
            bytes: 1 << 60,
            spread: Some(Spread::Dealt { unit: 1, overlap: 0 }),
            ..request(None, (0, 5), 7)
        };
        let told = Work::default().note(&Record::Request(dealt)).unwrap_err().to_string();
        let expected =
            "the request of 1152921504606846976 bytes at 7 of file 1 makes 1152921504606846978 regions";
        assert!(told.starts_with(expected), "{told}");
        assert!(Work::default().note(&load(u32::MAX)).is_err());
        let mut work = Work::default();
        work.note(&load(0)).expect("none");
        work.note(&Record::Request(request(None, (0, 5), 7))).expect("one");
        assert_eq!(work.calls()[0].process.client, ClientId(0));
    }

    #[test]
    fn what_is_read_at_once_is_that_of_calls_that_do_not_wait_for_one_another() {
        let read = |client, times| Request { operation: Operation::Read, ..request(Some(client), times, 0) };
        let at_once = |requests: &[Request]| work(requests).read_at_once();
        assert_eq!(at_once(&[read(1, (0, 5)), read(1, (5, 9)), read(1, (9, 9)), read(1, (9, 9))]), 10);
        assert_eq!(at_once(&[read(1, (0, 9)), read(1, (5, 9)), read(1, (9, 12))]), 20);
        assert_eq!(at_once(&[read(1, (0, 5)), read(2, (50, 60)), request(Some(3), (0, 5), 0)]), 20);
        let huge = Request { bytes: 1 << 62, ..read(1, (0, 5)) };
        let four = [0, 1, 2, 3, 4].map(|client| Request { client: Some(ClientId(client)), ..huge });
        assert_eq!((at_once(&four), work(&four).bytes().0), (u64::MAX, u64::MAX));
    }
}
