//! The I/O node against clients that speak the protocol by hand.

use std::time::Duration;

use bytes::Bytes;
use fec_transport::Read;
use fec_transport::overlay::MemberId;
use proptest::prelude::*;

use super::record_fixtures::{first, forgetting, next, run, signed};
use super::*;
use crate::compression::{Codec, Coder, Format, FrameHeader, Packing};
use crate::dataset::DatasetPath;
use crate::distribution::Extent;
use crate::name::SubfilePath;
use crate::replication::SignedRecord;
use crate::sim::{Dice, Network};
use crate::store::{DiskAction, Fault, FaultyStore, MemoryStore, Store as _, SystemCall};
use crate::wire::{
    Assembler, Reply, Request, RequestId, RequestKind, RunTable, RunTableBuilder, parse_listing,
};

const CLIENT: MemberId = MemberId(0);
const SERVER: MemberId = MemberId(1);

/// A client, an I/O node, and its disk.
struct Bench {
    network: Network,
    node: IoNode,
    store: FaultyStore<MemoryStore>,
    /// Disk operations under way; any may end next.
    running: Vec<Errand>,
    disk_stands_still: bool,
    /// How many syncs the disk has carried out.
    syncs: usize,
    dice: Dice,
    now: Time,
    most_memory: u64,
    next_operation: u64,
}

/// One transfer as the client sees it.
struct Call {
    stream: StreamId,
    unsent: Bytes,
    finished: bool,
    header: Option<Reply>,
    assembler: Assembler,
    payload: Vec<u8>,
    ended: bool,
}

impl Bench {
    fn new(config: IoNodeConfig, seed: u64) -> Bench {
        Bench {
            network: Network::new(&["client", "io1"], seed),
            node: IoNode::new(config),
            store: FaultyStore::new(MemoryStore::default()),
            running: Vec::new(),
            disk_stands_still: false,
            syncs: 0,
            dice: Dice::new(seed),
            now: Time::ZERO,
            most_memory: 0,
            next_operation: 1,
        }
    }

    fn begin(&mut self, kind: RequestKind, durable: bool, payload: &[u8]) -> Call {
        self.next_operation += 1;
        self.begin_as(self.next_operation, kind, durable, payload)
    }

    fn begin_as(&mut self, operation: u64, kind: RequestKind, durable: bool, payload: &[u8]) -> Call {
        let id = RequestId { operation, transfer: 1 };
        let mut bytes = Request { id, durable, packing: Packing::Raw, kind }.emit();
        bytes.extend_from_slice(payload);
        self.begin_bytes(bytes.into())
    }

    fn begin_bytes(&mut self, unsent: Bytes) -> Call {
        let session = self.network.port(CLIENT).connect(self.now, SERVER).expect("possible");
        while self.network.poll_event(CLIENT).is_some() {}
        let stream = self.network.port(CLIENT).open_stream(session).expect("open");
        let assembler = Assembler::reply();
        Call { stream, unsent, finished: false, header: None, assembler, payload: Vec::new(), ended: false }
    }

    /// Lets the I/O node and its disk take one step each; says whether anything happened.
    fn step(&mut self) -> bool {
        let event = self.network.poll_event(SERVER);
        if let Some(event) = &event {
            self.node.handle_event(self.now, &mut self.network.port(SERVER), event);
        }
        self.running.extend(std::iter::from_fn(|| self.node.poll_operation()));
        let coded = self.node.poll_codec_job().map(|job| job.perform(&mut Coder::default()));
        let codes = coded.is_some();
        if let Some(result) = coded {
            self.node.handle_codec(self.now, &mut self.network.port(SERVER), result);
        }
        let works = !self.running.is_empty() && !self.disk_stands_still;
        if works {
            let errand = self.running.swap_remove(self.dice.below(self.running.len()));
            self.syncs += usize::from(errand.operations()[0].action == DiskAction::Sync);
            for result in errand.perform(|operation| operation.perform_on(&mut self.store)) {
                self.node.handle_disk(self.now, &mut self.network.port(SERVER), result);
            }
        }
        self.most_memory = self.most_memory.max(self.node.memory_used());
        event.is_some() || works || codes
    }

    /// The client's side of a call takes a step; says whether anything happened.
    fn serve(&mut self, call: &mut Call) -> bool {
        let mut port = self.network.port(CLIENT);
        if !call.finished {
            let Ok(taken) = port.write(self.now, call.stream, &call.unsent) else { return false };
            call.unsent = call.unsent.slice(taken..);
            if call.unsent.is_empty() {
                call.finished = port.finish(self.now, call.stream).is_ok();
            }
        }
        match port.read(self.now, call.stream, 700) {
            Ok(Read::Data { mut bytes, .. }) => {
                if call.header.is_none() {
                    let message = call.assembler.push(&mut bytes).expect("a right reply");
                    call.header = message.map(|message| Reply::parse(&message).expect("a right reply"));
                }
                call.payload.extend_from_slice(&bytes);
                true
            }
            Ok(Read::Finished) => !std::mem::replace(&mut call.ended, true),
            Ok(Read::Blocked | Read::Lost { .. }) | Err(_) => false,
        }
    }

    fn run(&mut self, calls: &mut [Call]) {
        loop {
            let mut busy = false;
            for call in calls.iter_mut() {
                busy |= self.serve(call);
            }
            busy |= self.step();
            if !busy {
                return;
            }
        }
    }

    fn finish(&mut self, mut call: Call) -> (Reply, Vec<u8>) {
        self.run(std::slice::from_mut(&mut call));
        assert!(call.ended, "the reply ends");
        (call.header.expect("a reply"), call.payload)
    }

    fn call(&mut self, kind: RequestKind) -> Result<u64, RemoteError> {
        let call = self.begin(kind, false, &[]);
        let (reply, payload) = self.finish(call);
        assert!(payload.is_empty());
        reply.result.map(|()| reply.size)
    }

    fn write(&mut self, runs: RunTable, payload: &[u8]) -> Result<u64, RemoteError> {
        let call = self.begin(RequestKind::Write { path: path("a"), runs }, false, payload);
        let reply = self.finish(call).0;
        reply.result.map(|()| reply.size)
    }

    fn read(&mut self, runs: RunTable) -> Vec<u8> {
        let call = self.begin(RequestKind::Read { path: path("a"), runs, from_disk: false }, false, &[]);
        let (reply, payload) = self.finish(call);
        assert_eq!((reply.result, reply.payload), (Ok(()), payload.len() as u64));
        payload
    }

    fn create(&mut self) {
        self.call(RequestKind::Create { path: path("a"), truncate: true, claim: false, exclusive: false })
            .expect("possible");
    }

    /// What must hold whenever all is done.
    fn assert_quiet(&self) {
        assert_eq!((self.node.memory_used(), self.node.transfer_count()), (0, 0));
        assert_eq!(self.network.stream_count(), 0);
    }
}

fn path(text: &str) -> SubfilePath {
    SubfilePath::new(text).expect("a right path")
}

fn runs(extents: &[(u64, u64)]) -> RunTable {
    let mut builder = RunTableBuilder::default();
    extents.iter().for_each(|(start, length)| builder.push(Extent::between(*start, start + length)));
    builder.finish().expect("not empty")
}

fn open_to_all() -> IoNodeConfig {
    IoNodeConfig { access: AccessRules::everyone(Right::ReadWrite), ..IoNodeConfig::default() }
}

fn small() -> IoNodeConfig {
    IoNodeConfig {
        memory_bytes: 64 << 10,
        request_bytes: 1 << 20,
        piece_bytes: 1_000,
        operations_per_transfer: 3,
        transfers_per_member: 40,
        disk_operations: 8,
        idle_timeout: Duration::from_secs(30),
        access: AccessRules::everyone(Right::ReadWrite),
        reclaim_after: Duration::from_secs(3_600),
        ..IoNodeConfig::default()
    }
}

fn pattern(length: u64, seed: u64) -> Vec<u8> {
    (0..length).map(|i| ((i + seed) * 131 % 251) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_in_runs_is_read_back_in_others(
        seed: u64, steps in prop::collection::vec((1_u64..400, 1_u64..3_000), 1..40), cuts in prop::collection::vec((1_u64..3_000, 1_u64..3_000), 1..40),
    ) {
        let mut bench = Bench::new(small(), seed);
        bench.create();
        let place = |steps: Vec<(u64, u64)>| {
            let mut at = 0;
            steps.into_iter().map(|(gap, length)| { at += gap + length; (at - length, length) }).collect::<Vec<_>>()
        };
        let (written, read) = (place(steps), place(cuts));
        let total = written.iter().map(|(_, length)| length).sum();
        let (payload, mut expected, mut from) = (pattern(total, seed % 100), Vec::new(), 0);
        for (start, length) in &written {
            expected.resize(*start as usize, 0);
            expected.extend_from_slice(&payload[from..from + *length as usize]);
            from += *length as usize;
        }
        prop_assert_eq!(bench.write(runs(&written), &payload), Ok(0));
        let content = bench.store.inner().content("a");
        prop_assert_eq!(content.as_ref(), Some(&expected));
        let slice = |(start, length): &(u64, u64)| {
            let end = expected.len().min((start + length) as usize);
            expected[(*start as usize).min(end)..end].to_vec()
        };
        prop_assert_eq!(bench.read(runs(&read)), read.iter().flat_map(slice).collect::<Vec<u8>>());
        bench.assert_quiet();
    }

    #[test]
    fn many_at_once_share_a_bounded_memory_and_all_end(seed: u64, count in 1_u64..30, length in 1_u64..40_000) {
        let mut bench = Bench::new(small(), seed);
        bench.create();
        let begin = |bench: &mut Bench, i: u64| {
            let kind = RequestKind::Write { path: path("a"), runs: runs(&[(i * length, length)]) };
            bench.begin(kind, false, &pattern(length, i))
        };
        let mut calls: Vec<Call> = (0..count).map(|i| begin(&mut bench, i)).collect();
        bench.run(&mut calls);
        let read = |bench: &mut Bench, i: u64| {
            bench.begin(RequestKind::Read { path: path("a"), runs: runs(&[(i * length, length)]), from_disk: false }, false, &[])
        };
        let mut reads: Vec<Call> = (0..count).map(|i| read(&mut bench, i)).collect();
        bench.run(&mut reads);
        for (i, (write, read)) in calls.iter().zip(&reads).enumerate() {
            prop_assert!(write.ended && write.header.as_ref().is_some_and(|reply| reply.result.is_ok()));
            prop_assert!(read.ended);
            prop_assert_eq!(&read.payload, &pattern(length, i as u64));
        }
        // A request may bring some payload with it before its transfer asks for memory.
        prop_assert!(bench.most_memory <= (64 << 10) + count * 2_000);
        bench.assert_quiet();
    }

    #[test]
    fn garbage_gets_an_answer_and_leaves_nothing_behind(seed: u64, bytes in prop::collection::vec(any::<u8>(), 0..200), magic: bool) {
        let mut bytes = bytes;
        if magic && bytes.len() >= 4 {
            bytes[..4].copy_from_slice(b"SF\x03\x02");
        }
        let mut bench = Bench::new(small(), seed);
        let call = bench.begin_bytes(bytes.into());
        let (reply, _) = bench.finish(call);
        prop_assert!(reply.result.is_err());
        bench.assert_quiet();
    }
}

#[test]
fn every_kind_of_request_does_what_it_says() {
    let mut bench = Bench::new(open_to_all(), 1);
    let missing = bench.call(RequestKind::Stat { path: path("a") }).expect_err("nothing there");
    assert_eq!(missing.kind, ErrorKind::NotFound);
    bench.create();
    assert_eq!(bench.write(runs(&[(3, 4)]), b"data"), Ok(0));
    assert_eq!(bench.call(RequestKind::Stat { path: path("a") }), Ok(7));
    assert_eq!(
        bench.call(RequestKind::Create { path: path("a"), truncate: false, claim: false, exclusive: false }),
        Ok(7)
    );
    assert_eq!(bench.call(RequestKind::Grow { path: path("a"), length: 5 }), Ok(7));
    assert_eq!(bench.call(RequestKind::Grow { path: path("a"), length: 9 }), Ok(7));
    assert_eq!(bench.call(RequestKind::SetLength { path: path("a"), length: 5 }), Ok(9));
    assert_eq!(bench.call(RequestKind::Sync { path: path("a") }), Ok(5));
    assert_eq!(bench.read(runs(&[(0, 100)])), b"\0\0\0da");
    let rename = |replace| RequestKind::Rename { path: path("a"), target: path("b"), replace };
    assert_eq!(bench.call(rename(false)), Ok(5));
    bench.create();
    assert_eq!(bench.call(rename(false)).expect_err("occupied").kind, ErrorKind::AlreadyExists);
    assert_eq!(bench.call(rename(true)), Ok(0));
    assert_eq!(bench.call(RequestKind::Remove { path: path("b") }), Ok(0));
    assert_eq!(bench.store.inner().paths().count(), 0);
    bench.assert_quiet();
}

#[test]
fn a_durable_write_is_answered_when_it_would_survive() {
    let mut bench = Bench::new(open_to_all(), 1);
    bench.create();
    let write = RequestKind::Write { path: path("a"), runs: runs(&[(0, 5)]) };
    let call = bench.begin(write, true, b"bytes");
    assert_eq!(bench.finish(call).0, Reply::done(0));
    bench.store.inner_mut().crash(|| false);
    assert_eq!(bench.store.inner().content("a"), Some(b"bytes".to_vec()));
}

#[test]
fn one_sync_serves_all_who_waited_for_the_disk() {
    let mut bench = Bench::new(open_to_all(), 1);
    bench.create();
    bench.disk_stands_still = true;
    let sync = || RequestKind::Sync { path: path("a") };
    let mut calls: Vec<Call> = (0..8).map(|_| bench.begin(sync(), false, &[])).collect();
    bench.run(&mut calls);
    bench.disk_stands_still = false;
    bench.run(&mut calls);
    assert!(calls.into_iter().all(|call| call.header == Some(Reply::done(0))));
    assert_eq!(bench.syncs, 2, "the first, and one for the seven that came after it had begun");
}

#[test]
fn a_failed_sync_is_never_made_good_by_a_later_one() {
    let mut bench = Bench::new(open_to_all(), 1);
    bench.create();
    bench.write(runs(&[(0, 5)]), b"bytes").expect("possible");
    bench.store.inject(Fault::FailedSync);
    let sync = || RequestKind::Sync { path: path("a") };
    let mut calls: Vec<Call> = (0..3).map(|_| bench.begin(sync(), false, &[])).collect();
    bench.run(&mut calls);
    let kinds: Vec<ErrorKind> = calls
        .iter()
        .map(|call| call.header.clone().expect("a reply").result.expect_err("failed").kind)
        .collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == ErrorKind::Disk).count(), 1);
    assert_eq!(kinds.iter().filter(|kind| **kind == ErrorKind::SyncLost).count(), 2);
    assert_eq!(bench.call(sync()).expect_err("for good").kind, ErrorKind::SyncLost);
    assert_eq!(bench.node.error_counters().get(SystemCall::Write), 1);
    bench.create();
    assert_eq!(bench.call(sync()), Ok(0));
}

#[test]
fn a_full_disk_is_told_to_the_right_caller_and_counted() {
    let mut bench = Bench::new(small(), 3);
    bench.create();
    bench
        .call(RequestKind::Create { path: path("b"), truncate: true, claim: false, exclusive: false })
        .expect("possible");
    bench.store.inner_mut().set_capacity(5 * 4_096);
    let begin = |bench: &mut Bench, name: &str, length: u64| {
        let kind = RequestKind::Write { path: path(name), runs: runs(&[(0, length)]) };
        bench.begin(kind, false, &pattern(length, 0))
    };
    let mut calls = vec![begin(&mut bench, "a", 100_000), begin(&mut bench, "b", 900)];
    bench.run(&mut calls);
    let errors: Vec<Option<ErrorKind>> = calls
        .iter()
        .map(|call| call.header.as_ref().and_then(|reply| Some(reply.result.as_ref().err()?.kind)))
        .collect();
    assert_eq!(errors, [Some(ErrorKind::NoSpace), None]);
    assert!(calls.iter().all(|call| call.ended), "what still came was discarded");
    assert!(bench.node.error_counters().get(SystemCall::Write) > 0);
    let kind = RequestKind::ErrorCounters { reset: true };
    let call = bench.begin(kind, false, &[]);
    let (_, payload) = bench.finish(call);
    let counters = ErrorCounters::from_bytes(payload.as_slice().try_into().expect("all counters"));
    assert!(counters.get(SystemCall::Write) > 0);
    assert_eq!(bench.node.error_counters(), ErrorCounters::default());
    bench.assert_quiet();
}

#[test]
fn a_payload_that_is_too_short_is_refused() {
    let mut bench = Bench::new(small(), 1);
    bench.create();
    let error = bench.write(runs(&[(0, 5_000)]), &[7; 3_000]).expect_err("2,000 bytes are missing");
    assert_eq!(error.kind, ErrorKind::BadRequest);
    assert_eq!(error.text, "the payload ends 2000 bytes too early");
    bench.assert_quiet();
}

#[test]
fn a_subfile_that_shrinks_during_a_read_resets_the_stream() {
    let mut bench = Bench::new(small(), 1);
    bench.create();
    bench.write(runs(&[(0, 20_000)]), &[7; 20_000]).expect("possible");
    let mut call = bench.begin(
        RequestKind::Read { path: path("a"), runs: runs(&[(0, 20_000)]), from_disk: false },
        false,
        &[],
    );
    while call.payload.len() < 500 {
        bench.serve(&mut call);
        bench.step();
    }
    bench.store.inner_mut().perform(&path("a"), &DiskAction::SetLength { length: 0 }).expect("possible");
    bench.run(std::slice::from_mut(&mut call));
    assert!(!call.ended);
    let reset = std::iter::from_fn(|| bench.network.poll_event(CLIENT))
        .find_map(|event| if let Event::StreamReset { code, .. } = event { Some(code) } else { None });
    assert_eq!(RemoteError::from_reset_code(reset.expect("a reset")).kind, ErrorKind::Changed);
    bench.assert_quiet();
}

#[test]
fn transfers_beyond_the_limit_are_refused_and_idle_ones_given_up() {
    let mut bench = Bench::new(small(), 1);
    let calls: Vec<Call> = (0..41).map(|_| bench.begin_bytes(Bytes::new())).collect();
    while bench.step() {}
    assert_eq!((bench.node.transfer_count(), bench.network.stream_count()), (40, 40));
    while let Some(due) = bench.node.next_timeout() {
        bench.now = due;
        bench.node.handle_timeout(bench.now, &mut bench.network.port(SERVER));
    }
    let waited = bench.now.since(Time::ZERO);
    assert!((Duration::from_secs(30)..Duration::from_secs(40)).contains(&waited), "{waited:?}");
    drop(calls);
    bench.assert_quiet();
}

#[test]
fn a_session_that_ends_leaves_no_memory_behind_though_the_disk_is_still_busy() {
    let mut bench = Bench::new(small(), 1);
    bench.create();
    bench.disk_stands_still = true;
    let kind = RequestKind::Write { path: path("a"), runs: runs(&[(0, 30_000)]) };
    let mut call = bench.begin(kind, false, &[7; 30_000]);
    bench.run(std::slice::from_mut(&mut call));
    assert!(bench.node.memory_used() > 0);
    let session = call.stream.session;
    let reason = fec_transport::CloseReason::Silent { time: Duration::from_secs(5), probes: 0, paths: 1 };
    let closed = Event::SessionClosed { session, member: CLIENT, reason };
    bench.node.handle_event(bench.now, &mut bench.network.port(SERVER), &closed);
    assert_eq!(bench.node.transfer_count(), 0);
    bench.disk_stands_still = false;
    while bench.step() {}
    assert_eq!(bench.node.memory_used(), 0);
}

#[test]
fn a_request_that_comes_twice_is_carried_out_once() {
    let mut bench = Bench::new(small(), 1);
    let create = |path_text: &str| RequestKind::Create {
        path: path(path_text),
        truncate: false,
        claim: false,
        exclusive: false,
    };
    bench.call(create("a")).expect("possible");
    let remove = || RequestKind::Remove { path: path("a") };
    // The second comes while the disk works on the first.
    bench.disk_stands_still = true;
    let mut calls = [bench.begin_as(77, remove(), false, &[]), bench.begin_as(77, remove(), false, &[])];
    bench.run(&mut calls);
    bench.disk_stands_still = false;
    bench.run(&mut calls);
    for call in calls {
        assert_eq!(call.header.expect("a reply").result, Ok(()));
    }
    // The third when it is done, and somebody has made a new one: that one stays.
    bench.call(create("a")).expect("possible");
    let call = bench.begin_as(77, remove(), false, &[]);
    assert_eq!(bench.finish(call).0.result, Ok(()));
    assert_eq!(bench.store.inner().content("a"), Some(Vec::new()));
    assert_eq!(bench.node.error_counters(), ErrorCounters::default());
}

#[test]
fn a_member_may_do_what_its_rights_say() {
    let access = AccessRules::default().with("client", Rights::everywhere(Right::Read));
    let mut bench = Bench::new(IoNodeConfig { access, ..small() }, 1);
    let create = DiskAction::Create { truncate: true, exclusive: false, durable: true, owner: None };
    bench.store.perform(&path("a"), &create).expect("possible");
    assert_eq!(bench.call(RequestKind::Stat { path: path("a") }), Ok(0));
    let error = bench.call(RequestKind::SetLength { path: path("a"), length: 5 }).expect_err("read-only");
    assert_eq!((error.kind, error.text.as_str()), (ErrorKind::ReadOnly, "for member client"));
    assert_eq!(bench.write(runs(&[(0, 3)]), b"abc").expect_err("read-only").kind, ErrorKind::ReadOnly);
}

const RUN_PATHS: [&str; 3] = ["d/objects/", "d/journals/", "d/staged/"];

fn dataset() -> DatasetPath {
    DatasetPath::new(path("d")).expect("a free folder")
}

impl Bench {
    fn create_once(&mut self, path: SubfilePath) -> Result<u64, RemoteError> {
        self.call(RequestKind::Create { path, truncate: false, claim: false, exclusive: true })
    }

    fn write_once(&mut self, path: SubfilePath, offset: u64, bytes: &[u8]) -> Result<u64, RemoteError> {
        let runs = runs(&[(offset, bytes.len() as u64)]);
        let call = self.begin(RequestKind::Write { path, runs }, true, bytes);
        self.finish(call).0.result.map(|()| 0)
    }

    /// Stages a record as run 7, whose object exists, too.
    fn stage(&mut self, record: &SignedRecord) {
        let objects = record.objects.iter().map(|entry| dataset().object(entry.run));
        for object in objects.collect::<Vec<_>>() {
            let created = self.create_once(object);
            assert!(created.is_ok() || created.is_err_and(|error| error.kind == ErrorKind::AlreadyExists));
        }
        // What was staged and not published is the same run's to remove.
        let _ = self.call(RequestKind::Remove { path: dataset().staged(run(7)) });
        self.create_once(dataset().staged(run(7))).expect("free");
        self.write_once(dataset().staged(run(7)), 0, record.bytes()).expect("our own");
    }

    fn publish(&mut self, number: u64) -> Result<u64, ErrorKind> {
        let kind = RequestKind::Publish { dataset: dataset(), staged: run(7), number };
        self.call(kind).map_err(|error| error.kind)
    }

    fn reclaim(&mut self, number: u64) -> Result<u64, ErrorKind> {
        let kind = RequestKind::Reclaim { dataset: dataset(), run: run(1), number };
        self.call(kind).map_err(|error| error.kind)
    }

    /// The names in a folder, and whether a live session writes each.
    fn list(&mut self, folder: &str) -> Vec<(String, bool)> {
        let call = self.begin(RequestKind::List { folder: path(folder), after: None }, false, &[]);
        let (reply, payload) = self.finish(call);
        assert_eq!(reply.result, Ok(()));
        let entries = parse_listing(&payload).expect("a right listing").entries;
        entries.into_iter().map(|entry| (entry.name.to_string(), entry.is_being_written)).collect()
    }

    /// The session ends, as that of a client that was silent for too long; the next request comes in another one.
    fn end_session(&mut self) {
        self.network.kill(CLIENT);
        while self.step() {}
    }
}

#[test]
fn what_is_written_once_is_written_by_the_session_that_created_it_and_by_nobody_else() {
    let mut bench = Bench::new(open_to_all(), 1);
    for folder in RUN_PATHS {
        let subfile = path(&format!("{folder}{}", run(1)));
        bench.create_once(subfile.clone()).expect("free");
        assert_eq!(bench.create_once(subfile.clone()).expect_err("there").kind, ErrorKind::AlreadyExists);
        bench.write_once(subfile.clone(), 0, b"first").expect("our own");
        assert_eq!(bench.write_once(subfile.clone(), 4, b"t").expect_err("there").kind, ErrorKind::WriteOnce);
        bench.write_once(subfile.clone(), 10, b"last").expect("our own");
        bench.call(RequestKind::Grow { path: subfile.clone(), length: 20 }).expect("our own");
        assert_eq!(bench.list(folder), [(run(1).to_string(), true)]);
    }
    bench.end_session();
    for folder in RUN_PATHS {
        let subfile = path(&format!("{folder}{}", run(1)));
        let refused = bench.write_once(subfile.clone(), 14, b"more").expect_err("another session");
        assert_eq!(refused.kind, ErrorKind::WriteOnce);
        // What the first session wrote and did not sync may be lost: nobody is told that it is safe.
        let refused = bench.call(RequestKind::Sync { path: subfile.clone() }).expect_err("another session");
        assert_eq!(refused.kind, ErrorKind::WriteOnce);
        assert_eq!(bench.list(folder), [(run(1).to_string(), false)]);
        assert_eq!(
            &bench.store.inner().content(subfile.as_str()).expect("there")[..14],
            b"first\0\0\0\0\0last"
        );
    }
    assert_eq!(bench.list("nowhere"), []);
    bench.assert_quiet();
}

#[test]
fn a_chain_of_records_is_published_and_survives_a_power_loss() {
    let mut bench = Bench::new(open_to_all(), 3);
    let one = signed(&first("d", "client"));
    let two = signed(&next(&one, 2, "client"));
    bench.stage(&two);
    assert_eq!(bench.publish(2), Err(ErrorKind::Stale), "there is no record 1");
    bench.stage(&one);
    assert_eq!(bench.publish(1), Ok(0));
    assert_eq!(
        bench.publish(1),
        Err(ErrorKind::Taken),
        "staged as 7, published as run 1's: who asks must look"
    );
    bench.stage(&two);
    assert_eq!(bench.publish(2), Ok(0));
    bench.stage(&two);
    assert_eq!(bench.publish(2), Ok(0), "the same again is no failure");
    bench.stage(&signed(&next(&one, 3, "client")));
    assert_eq!(bench.publish(2), Err(ErrorKind::Taken));
    // Its objects are written to no more, by their own session either.
    let refused = bench.write_once(dataset().object(run(2)), 0, b"x").expect_err("published");
    assert_eq!(refused.kind, ErrorKind::WriteOnce);
    bench.store.inner_mut().crash(|| false);
    for (number, record) in [(1, &one), (2, &two)] {
        let content = bench.store.inner().content(dataset().commit(number).as_str());
        assert_eq!(content.as_deref(), Some(&record.bytes()[..]));
    }
    bench.assert_quiet();
}

#[test]
fn a_record_whose_object_is_not_here_is_not_published() {
    let mut bench = Bench::new(open_to_all(), 1);
    let one = signed(&first("d", "client"));
    bench.stage(&one);
    bench.store.perform(&dataset().object(run(1)), &DiskAction::Remove { durable: true }).expect("there");
    assert_eq!(bench.publish(1), Err(ErrorKind::BadRecord));
    assert_eq!(bench.list("d/commits"), []);
}

#[test]
fn of_many_who_publish_the_same_number_at_once_one_does() {
    for seed in 0..20 {
        let mut bench = Bench::new(open_to_all(), seed);
        let one = signed(&first("d", "client"));
        bench.stage(&one);
        assert_eq!(bench.publish(1), Ok(0));
        let rivals = [2, 3, 4].map(|number| signed(&next(&one, number, "client")));
        let mut calls: Vec<Call> = Vec::new();
        for (number, rival) in [2, 3, 4].into_iter().zip(&rivals) {
            bench.create_once(dataset().object(run(number))).expect("free");
            bench.create_once(dataset().staged(run(number))).expect("free");
            bench.write_once(dataset().staged(run(number)), 0, rival.bytes()).expect("our own");
        }
        for number in [2, 3, 4] {
            let kind = RequestKind::Publish { dataset: dataset(), staged: run(number), number: 2 };
            calls.push(bench.begin(kind, false, &[]));
        }
        bench.run(&mut calls);
        let results = calls.iter().map(|call| call.header.clone().expect("a reply").result);
        let kinds: Vec<_> = results.map(|result| result.map_err(|error| error.kind)).collect();
        assert_eq!(kinds.iter().filter(|kind| kind.is_ok()).count(), 1, "seed {seed}: {kinds:?}");
        assert_eq!(kinds.iter().filter(|kind| **kind == Err(ErrorKind::Taken)).count(), 2);
        let winner = kinds.iter().position(Result::is_ok).expect("one");
        let content = bench.store.inner().content(dataset().commit(2).as_str());
        assert_eq!(content.as_deref(), Some(&rivals[winner].bytes()[..]));
        bench.assert_quiet();
    }
}

#[test]
fn a_full_disk_publishes_nothing_and_leaves_everything_as_it_was() {
    let mut bench = Bench::new(open_to_all(), 1);
    let one = signed(&first("d", "client"));
    bench.stage(&one);
    let error = RemoteError { kind: ErrorKind::NoSpace, os_error: Some(28), text: "commits".to_owned() };
    bench.store.inject(Fault::Fail { call: SystemCall::Create, error });
    assert_eq!(bench.publish(1), Err(ErrorKind::NoSpace));
    assert_eq!(bench.publish(1), Ok(0));
    bench.assert_quiet();
}

#[test]
fn a_condemned_run_is_reclaimed_when_its_grace_is_over() {
    let mut bench = Bench::new(open_to_all(), 1);
    let one = signed(&first("d", "client"));
    let two = signed(&next(&one, 2, "client"));
    let three = signed(&forgetting(&two, "client"));
    bench.create_once(dataset().journal(run(1))).expect("free");
    for (number, record) in [(1, &one), (2, &two)] {
        bench.stage(record);
        assert_eq!(bench.publish(number), Ok(0));
    }
    assert_eq!(bench.reclaim(2), Err(ErrorKind::BadRecord), "it is not condemned");
    bench.now += Duration::from_secs(4_000);
    bench.stage(&three);
    assert_eq!(bench.publish(3), Ok(0));
    assert_eq!(bench.reclaim(2), Err(ErrorKind::Stale));
    assert_eq!(bench.reclaim(4), Err(ErrorKind::Stale));
    assert_eq!(bench.reclaim(3), Err(ErrorKind::TooEarly));
    bench.now += Duration::from_secs(3_000);
    bench.call(RequestKind::Mark { dataset: dataset() }).expect("anybody who reads");
    bench.now += Duration::from_secs(3_599);
    let error = bench.call(RequestKind::Reclaim { dataset: dataset(), run: run(1), number: 3 });
    let error = error.expect_err("a second too early");
    assert_eq!((error.kind, error.text.ends_with("for 1 s yet")), (ErrorKind::TooEarly, true), "{error}");
    bench.now += Duration::from_secs(1);
    assert_eq!(bench.reclaim(3), Ok(0));
    assert_eq!(bench.reclaim(3), Ok(0), "again is no failure");
    assert_eq!(
        (bench.list("d/objects"), bench.list("d/journals")),
        (vec![(run(2).to_string(), false)], vec![])
    );
    bench.store.inner_mut().crash(|| false);
    assert_eq!(bench.store.inner().content(dataset().object(run(1)).as_str()), None);
    bench.assert_quiet();
}

/// What comes of a write of 300,000 bytes whose payload is this.
fn framed_write(frames: &[u8]) -> Result<u64, RemoteError> {
    let mut bench = Bench::new(open_to_all(), 1);
    bench.create();
    let kind = RequestKind::Write { path: path("a"), runs: runs(&[(0, 300_000)]) };
    let id = RequestId { operation: 9, transfer: 1 };
    let packing = Packing::ByRule { lz4: true, zstd: false };
    let mut bytes = Request { id, durable: false, packing, kind }.emit();
    bytes.extend_from_slice(frames);
    let call = bench.begin_bytes(bytes.into());
    let reply = bench.finish(call).0;
    assert!(bench.most_memory < 2 << 20, "{} bytes", bench.most_memory);
    bench.assert_quiet();
    reply.result.map(|()| reply.size)
}

fn frame(plain: u32, format: Format, body: &[u8]) -> Vec<u8> {
    let header = FrameHeader { plain, packed: body.len() as u32, format };
    [&header.emit()[..], body].concat()
}

#[test]
fn a_frame_that_cannot_be_is_named_and_nothing_is_allocated_for_it() {
    let packed = Coder::default().pack(Codec::Lz4, &[7; 200_000]).expect("it shrinks");
    let right = [frame(200_000, Format::Lz4, &packed), frame(100_000, Format::Plain, &[8; 100_000])].concat();
    assert_eq!(framed_write(&right), Ok(0));
    let fault = |frames: &[u8]| {
        let error = framed_write(frames).expect_err("a wrong frame");
        assert_eq!(error.kind, ErrorKind::BadRequest);
        error.text
    };
    assert!(fault(&frame(u32::MAX, Format::Lz4, b"bomb")).contains("has 4294967295 plain bytes"));
    assert!(fault(&frame(262_145, Format::Lz4, b"bomb")).contains("expected 1 to 262144"));
    let more = [right.clone(), frame(1, Format::Plain, b"x")].concat();
    assert_eq!(framed_write(&more), Ok(0), "what follows the payload is ignored");
    assert!(fault(&frame(100, Format::Zstd, b"unasked")).contains("which the request does not name"));
    let damaged = [frame(200_000, Format::Lz4, b"no LZ4"), frame(100_000, Format::Plain, &[8; 100_000])];
    assert!(fault(&damaged.concat()).contains("do not unpack to 200000 bytes"));
    assert!(fault(&right[..1_000]).contains("ends within its frames"));
}

#[test]
fn a_client_of_another_version_is_told_both_versions() {
    let mut bench = Bench::new(open_to_all(), 1);
    let stat = Request {
        id: RequestId { operation: 1, transfer: 1 },
        durable: false,
        packing: Packing::Raw,
        kind: RequestKind::Stat { path: path("a") },
    };
    let mut bytes = stat.emit();
    bytes[2] = 2;
    let call = bench.begin_bytes(bytes.into());
    let error = bench.finish(call).0.result.expect_err("an older client");
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.text.contains("the peer speaks version 2 of the protocol, this side 3"), "{error}");
}
