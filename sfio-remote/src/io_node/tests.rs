//! The I/O node against clients that speak the protocol by hand.

use std::time::Duration;

use bytes::Bytes;
use fec_transport::Read;
use fec_transport::overlay::MemberId;
use proptest::prelude::*;

use super::*;
use crate::distribution::Extent;
use crate::name::SubfilePath;
use crate::store::{DiskAction, Fault, FaultyStore, MemoryStore, Store as _, SystemCall};
use crate::testing::{Dice, Network};
use crate::wire::{Assembler, Reply, Request, RequestId, RequestKind, RunTable, RunTableBuilder};

const CLIENT: MemberId = MemberId(0);
const SERVER: MemberId = MemberId(1);

/// A client, an I/O node, and its disk.
struct Bench {
    network: Network,
    node: IoNode,
    store: FaultyStore<MemoryStore>,
    /// Disk operations under way; any may end next.
    running: Vec<DiskOperation>,
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
        let mut bytes = Request { id, durable, kind }.emit();
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
        let works = !self.running.is_empty() && !self.disk_stands_still;
        if works {
            let operation = self.running.swap_remove(self.dice.below(self.running.len()));
            self.syncs += usize::from(operation.action == DiskAction::Sync);
            let result = operation.perform_on(&mut self.store);
            self.node.handle_disk(self.now, &mut self.network.port(SERVER), result);
        }
        self.most_memory = self.most_memory.max(self.node.memory_used());
        event.is_some() || works
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
        let call = self.begin(RequestKind::Read { path: path("a"), runs }, false, &[]);
        let (reply, payload) = self.finish(call);
        assert_eq!((reply.result, reply.payload), (Ok(()), payload.len() as u64));
        payload
    }

    fn create(&mut self) {
        self.call(RequestKind::Create { path: path("a"), truncate: true, claim: false }).expect("possible");
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

fn small() -> IoNodeConfig {
    IoNodeConfig {
        memory_bytes: 64 << 10,
        session_memory_bytes: 48 << 10,
        piece_bytes: 1_000,
        operations_per_transfer: 3,
        transfers_per_session: 40,
        idle_timeout: Duration::from_secs(30),
        access: AccessRules::default(),
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
            bench.begin(RequestKind::Read { path: path("a"), runs: runs(&[(i * length, length)]) }, false, &[])
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
            bytes[..4].copy_from_slice(b"SF\x01\x02");
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
    let mut bench = Bench::new(IoNodeConfig::default(), 1);
    let missing = bench.call(RequestKind::Stat { path: path("a") }).expect_err("nothing there");
    assert_eq!(missing.kind, ErrorKind::NotFound);
    bench.create();
    assert_eq!(bench.write(runs(&[(3, 4)]), b"data"), Ok(0));
    assert_eq!(bench.call(RequestKind::Stat { path: path("a") }), Ok(7));
    assert_eq!(bench.call(RequestKind::Create { path: path("a"), truncate: false, claim: false }), Ok(7));
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
    let mut bench = Bench::new(IoNodeConfig::default(), 1);
    bench.create();
    let write = RequestKind::Write { path: path("a"), runs: runs(&[(0, 5)]) };
    let call = bench.begin(write, true, b"bytes");
    assert_eq!(bench.finish(call).0, Reply::done(0));
    bench.store.inner_mut().crash(|| false);
    assert_eq!(bench.store.inner().content("a"), Some(b"bytes".to_vec()));
}

#[test]
fn one_sync_serves_all_who_waited_for_the_disk() {
    let mut bench = Bench::new(IoNodeConfig::default(), 1);
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
    let mut bench = Bench::new(IoNodeConfig::default(), 1);
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
    bench.call(RequestKind::Create { path: path("b"), truncate: true, claim: false }).expect("possible");
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
    let mut call = bench.begin(RequestKind::Read { path: path("a"), runs: runs(&[(0, 20_000)]) }, false, &[]);
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
    let reason = fec_transport::CloseReason::Silent(Duration::from_secs(5));
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
    let create =
        |path_text: &str| RequestKind::Create { path: path(path_text), truncate: false, claim: false };
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
    let access = AccessRules {
        members: BTreeMap::from([("client".to_owned(), Right::ReadOnly)]),
        others: Right::None,
    };
    let mut bench = Bench::new(IoNodeConfig { access, ..small() }, 1);
    let create = DiskAction::Create { truncate: true, durable: true, owner: None };
    bench.store.perform(&path("a"), &create).expect("possible");
    assert_eq!(bench.call(RequestKind::Stat { path: path("a") }), Ok(0));
    let error = bench.call(RequestKind::SetLength { path: path("a"), length: 5 }).expect_err("read-only");
    assert_eq!((error.kind, error.text.as_str()), (ErrorKind::ReadOnly, "for member client"));
    assert_eq!(bench.write(runs(&[(0, 3)]), b"abc").expect_err("read-only").kind, ErrorKind::ReadOnly);
}
