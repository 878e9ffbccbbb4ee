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
use std::ops::Range;

use crate::record::{ApplicationId, ClientId, FileId, Micros, Operation, Record, Request, Spread};
use crate::runs::MAX_TIMES;

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
    /// The processes of each job, as far as the trace tells.
    clients: BTreeMap<ApplicationId, Clients>,
}

/// The processes of a job. There is at least one, whatever the trace says.
#[derive(Debug, Clone)]
enum Clients {
    /// So many, numbered from 0. They may be billions by a slip in a header, and are not written down one by one.
    Numbered(u32),
    Listed(Vec<ClientId>),
}

/// A request of a job as a whole becomes so many regions at most, over all of its processes: what a
/// [run](crate::runs::Run) has at most.
const MOST_REGIONS: u64 = MAX_TIMES;

/// Why a request cannot be played again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a request of {bytes} bytes at {offset}, begun at {start} µs, is spread over {regions} regions; expected at most \
     {MOST_REGIONS}"
)]
pub struct TooManyRegions {
    /// Where it begins.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
    /// When it began.
    pub start: Micros,
    /// How many regions its processes would ask for.
    pub regions: u64,
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
    /// [`TooManyRegions`]; then nothing is noted.
    pub fn note(&mut self, record: &Record) -> Result<(), TooManyRegions> {
        match record {
            Record::ApplicationLoad(load) => {
                let clients = match load.client_list.is_empty() {
                    true => Clients::Numbered(load.clients.max(1)),
                    false => Clients::Listed(load.client_list.clone()),
                };
                self.clients.insert(load.application, clients);
            }
            Record::Request(request) if request.bytes > 0 => self.ask(request)?,
            _ => {}
        }
        Ok(())
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
            calls.flat_map(|call| &call.regions).fold(0, |sum: u64, (_, length)| sum.saturating_add(*length))
        };
        (of(Operation::Read), of(Operation::Write))
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

    fn ask(&mut self, request: &Request) -> Result<(), TooManyRegions> {
        let clients = self.clients.get(&request.application).cloned().unwrap_or(Clients::Numbered(1));
        let whole = || vec![(request.offset, request.bytes)];
        match (request.client, request.spread) {
            (Some(client), _) => self.push(request, client, whole()),
            (None, None) => self.push(request, clients.of_rank(0), whole()),
            (None, Some(Spread::Whole)) => {
                check(request, clients.count())?;
                (0..clients.count()).for_each(|rank| self.push(request, clients.of_rank(rank), whole()));
            }
            (None, Some(Spread::Dealt { unit, overlap })) => {
                let pieces = pieces(request, unit);
                check(request, pieces.end - pieces.start)?;
                let count = clients.count();
                for rank in ranks(pieces, count) {
                    let regions = dealt(request, rank, count, (unit, overlap));
                    self.push(request, clients.of_rank(rank), regions);
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
    fn is_one_with(&self, other: &Call) -> bool {
        let times = |call: &Call| (call.start, call.end);
        let place = |call: &Call| (call.process, call.file, call.operation);
        place(self) == place(other) && times(self) == times(other) && self.end > self.start
    }
}

impl Clients {
    fn count(&self) -> u64 {
        match self {
            Clients::Numbered(count) => u64::from(*count),
            Clients::Listed(list) => list.len() as u64,
        }
    }

    fn of_rank(&self, rank: u64) -> ClientId {
        match self {
            Clients::Numbered(_) => ClientId(rank as u32),
            Clients::Listed(list) => list[rank as usize],
        }
    }
}

fn check(request: &Request, regions: u64) -> Result<(), TooManyRegions> {
    let Request { offset, bytes, start, .. } = *request;
    if regions > MOST_REGIONS { Err(TooManyRegions { offset, bytes, start, regions }) } else { Ok(()) }
}

/// The units of the file that a request touches.
fn pieces(request: &Request, unit: u64) -> Range<u64> {
    let end = request.offset + request.bytes;
    request.offset / unit..end.div_ceil(unit)
}

/// What whoever has a unit gets of a request.
fn region(request: &Request, piece: u64, (unit, overlap): (u64, u64)) -> (u64, u64) {
    let end = request.offset + request.bytes;
    let from = (piece * unit).max(request.offset);
    let to = (piece + 1).saturating_mul(unit).saturating_add(overlap).min(end);
    (from, to - from)
}

/// The ranks among `count` that get any of these pieces, in ascending order.
fn ranks(pieces: Range<u64>, count: u64) -> Vec<u64> {
    let mut ranks: Vec<u64> = pieces.take(count as usize).map(|piece| piece % count).collect();
    ranks.sort_unstable();
    ranks
}

/// What the process of a rank gets of a request that is dealt to `count` of them.
fn dealt(request: &Request, rank: u64, count: u64, spread: (u64, u64)) -> Vec<(u64, u64)> {
    let pieces = pieces(request, spread.0);
    let first = pieces.start + (rank + count - pieces.start % count) % count;
    let its = (first..pieces.end).step_by(count as usize);
    its.map(|piece| region(request, piece, spread)).collect()
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
        requests.iter().for_each(|request| work.note(&Record::Request(*request)).expect("it is no spread"));
        work.finish()
    }

    /// A job of so many processes.
    fn load_of(clients: u32) -> Record {
        Record::ApplicationLoad(crate::record::ApplicationLoad {
            at: 0,
            application: ApplicationId(1),
            executable: String::new(),
            user: 0,
            clients,
            client_list: Vec::new(),
        })
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
        work.note(&load_of(2)).expect("a job");
        let collective = Request { bytes: 25, spread: None, ..request(None, (0, 5), 5) };
        let dealt = Spread::Dealt { unit: 10, overlap: 2 };
        work.note(&Record::Request(Request { spread: Some(dealt), ..collective })).expect("few regions");
        let read = Request { operation: Operation::Read, spread: Some(Spread::Whole), ..collective };
        work.note(&Record::Request(read)).expect("few regions");
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

    /// A log that was damaged told of no process, which ended the program, or of four billions, which took 16 GB.
    #[test]
    fn a_job_may_claim_to_have_no_process_or_billions() {
        for clients in [0, 1, 7, u32::MAX] {
            let mut work = Work::default();
            work.note(&load_of(clients)).expect("a job");
            work.note(&Record::Request(request(None, (0, 5), 5))).expect("one region");
            let dealt = Spread::Dealt { unit: 4, overlap: 0 };
            let spread = Request { spread: Some(dealt), ..request(None, (6, 7), 5) };
            work.note(&Record::Request(spread)).expect("three regions");
            let work = work.finish();
            assert_eq!((work.calls()[0].process.client, work.bytes()), (ClientId(0), (0, 20)), "{clients}");
        }
    }

    /// Four bytes of a line asked for more regions than there is memory or time for.
    #[test]
    fn what_is_spread_over_too_many_regions_is_refused_and_the_largest_unit_is_whole() {
        let all = Request { bytes: i64::MAX as u64, ..request(None, (0, 5), 0) };
        let noted = |clients, spread| {
            let mut work = Work::default();
            work.note(&load_of(clients)).expect("a job");
            work.note(&Record::Request(Request { spread: Some(spread), ..all }))?;
            Ok(work.finish().calls().iter().map(|call| call.regions.clone()).collect::<Vec<_>>())
        };
        let refused = |spread, clients| {
            let error: Result<Vec<_>, TooManyRegions> = noted(clients, spread);
            error.expect_err("too many").regions
        };
        assert_eq!(refused(Spread::Dealt { unit: 1, overlap: 0 }, 2), i64::MAX as u64);
        assert_eq!(refused(Spread::Whole, u32::MAX), u64::from(u32::MAX));
        for unit in [u64::MAX, 1 << 63] {
            let dealt = noted(3, Spread::Dealt { unit, overlap: unit });
            assert_eq!(dealt, Ok(vec![vec![(0, i64::MAX as u64)]]));
        }
    }

    /// The oracle looks at each unit for each process.
    #[test]
    fn what_is_dealt_is_what_looking_at_each_unit_gives() {
        for (offset, bytes, unit, overlap, count) in (0..25)
            .flat_map(|at| [(at, 60, 7, 2, 3), (at, 5, 7, 0, 5), (at, 33, 10, 10, 1), (at, 20, 3, 1, 9)])
        {
            let request = Request { bytes, spread: None, ..request(None, (0, 5), offset) };
            let mut work = Work::default();
            work.note(&load_of(count)).expect("a job");
            let spread = Some(Spread::Dealt { unit, overlap });
            work.note(&Record::Request(Request { spread, ..request })).expect("few regions");
            let found: Vec<(u32, Vec<(u64, u64)>)> =
                work.calls().iter().map(|call| (call.process.client.0, call.regions.clone())).collect();
            let end = offset + bytes;
            let of = |rank: u32| {
                let pieces = (0..end).filter(|piece| {
                    piece * unit < end
                        && (piece + 1) * unit > offset
                        && piece % u64::from(count) == u64::from(rank)
                });
                let region = |piece: u64| {
                    let from = (piece * unit).max(offset);
                    (from, ((piece + 1) * unit + overlap).min(end) - from)
                };
                (rank, pieces.map(region).collect::<Vec<_>>())
            };
            let expected: Vec<_> = (0..count).map(of).filter(|(_, regions)| !regions.is_empty()).collect();
            assert_eq!(found, expected, "{request:?}, {count}");
        }
    }
}
