//! Two sessions, joined by two paths without delay or loss unless a test takes packets out.

use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::circuit::Egress;
use crate::config::Limits;
use crate::crypto::handshake::{Initiator, Occasion, Responder};
use crate::crypto::hop_tag::HopKey;
use crate::event::SessionId;
use crate::keys::Identity;
use crate::overlay::{Adjacency, InstanceId, LinkId, MemberId, Peer, Route};
use crate::wire::hop::{HopHeader, Label};
use crate::wire::report::Report;

struct Pair {
    bottlenecks: [Bottlenecks; 2],
    /// What the sockets of each end hold.
    intakes: [SharedIntake; 2],
    now: Time,
    ends: [Session; 2],
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

fn peer(number: u16) -> Peer {
    Peer { member: MemberId(number), instance: InstanceId(1) }
}

fn over(link: u16, number: u16) -> Adjacency {
    Adjacency { peer: peer(number), link: LinkId(link.into()) }
}

fn pair(config: Config) -> Pair {
    let (client, server) = (Identity::from_seed([1; 32]), Identity::from_seed([2; 32]));
    let random = |seed| Random::from_seed([seed; 32]);
    let (initiator, first) =
        Initiator::start(&client, &server.public().x25519, b"", random(3), Occasion::Opening);
    let responder = Responder::read(&server, &first, random(4), Occasion::Opening).expect("it opens");
    let (second, server_keys) = responder.finish(b"");
    let (_, client_keys) = initiator.finish(&second).expect("it opens");
    let config = Arc::new(config);
    let keys = [client.public().x25519, server.public().x25519];
    let identities = [Arc::new(client), Arc::new(server)];
    let intakes = [SharedIntake::default(), SharedIntake::default()];
    let session = |number: usize, role, session_keys| {
        let limits =
            PeerLimits { initial_window: config.limits.initial_window, streams: config.limits.streams };
        let set_up = SessionSetUp {
            name: Name { id: SessionId(number as u64), token: 9, peer: peer(1 - number as u16), role },
            keys: session_keys,
            identity: Arc::clone(&identities[number]),
            peer_key: keys[1 - number],
            peer_limits: limits,
            random: random(5 + number as u8),
            span: Span::none(),
            pool: SharedPool::new(1 << 30),
            send_pool: SendPool::new(config.limits.node_send_memory),
            intake: intakes[number].clone(),
        };
        let mut session = Session::new(set_up, Arc::clone(&config), Time::ZERO);
        for id in [1, 2] {
            let egress = Egress {
                neighbour: over(0, 1 - number as u16),
                label: Label(id),
                key: HopKey::new([id as u8; 16]),
            };
            assert!(session.add_path(Path::new(
                PathId(id as u32),
                Route::new(vec![MemberId(0)], Vec::new()),
                Vec::new(),
                0.5,
                egress,
                Time::ZERO
            )));
        }
        session
    };
    Pair {
        now: Time::ZERO,
        bottlenecks: Default::default(),
        ends: [session(CLIENT, Role::Initiator, client_keys), session(SERVER, Role::Responder, server_keys)],
        intakes,
    }
}

impl Pair {
    /// Lets `span` pass in steps of 1 ms; `passes` decides about each packet by its sender and its length.
    fn run(&mut self, span: Duration, mut passes: impl FnMut(usize, usize) -> bool) {
        let end = self.now + span;
        while self.now < end {
            self.now += Duration::from_millis(1);
            for from in [CLIENT, SERVER] {
                self.ends[from].handle_timeout(self.now);
                let mut datagram = Vec::new();
                while let Some(transmit) = self.ends[from].poll_transmit(self.now, &mut datagram) {
                    for segment in datagram.chunks_mut(transmit.segment_size) {
                        if passes(from, segment.len()) {
                            self.deliver(1 - from, segment);
                        }
                    }
                    datagram.clear();
                }
                while let Some(job) = self.ends[from].poll_job() {
                    self.ends[from].on_job_done(self.now, job.run().done);
                }
            }
        }
    }

    fn deliver(&mut self, to: usize, datagram: &mut [u8]) {
        let header = HopHeader::parse(datagram).expect("sessions send right packets");
        let (path, bottlenecks) = (PathId(header.label.0 as u32), &mut self.bottlenecks[to]);
        self.ends[to].on_datagram(self.now, path, &header, datagram, bottlenecks);
    }

    fn events(&mut self, end: usize) -> Vec<Event> {
        std::iter::from_fn(|| self.ends[end].poll_event()).collect()
    }

    fn opened(config: Config) -> Pair {
        let mut pair = pair(config);
        pair.run(Duration::from_millis(20), |_, _| true);
        assert!(pair.ends.iter().all(Session::is_open));
        pair.events(CLIENT);
        pair.events(SERVER);
        pair
    }
}

const WHILE: Duration = Duration::from_millis(100);

#[test]
fn the_first_packet_that_opens_opens_the_session() {
    let mut pair = pair(Config::default());
    assert!(matches!(pair.ends[SERVER].open_stream(), Err(StreamError::NotOpen)));
    pair.run(WHILE, |_, _| true);
    let opened = |incoming, number| Event::SessionOpened {
        session: SessionId(number),
        peer: peer(1 - number as u16),
        incoming,
    };
    assert_eq!(pair.events(CLIENT), [opened(false, 0)]);
    assert_eq!(pair.events(SERVER), [opened(true, 1)]);
}

#[test]
fn a_session_that_never_hears_a_packet_is_given_up() {
    let mut pair = pair(Config::default());
    pair.run(Duration::from_secs(9), |_, _| false);
    assert!(pair.ends.iter().all(Session::is_over));
}

#[test]
fn streams_run_in_both_directions_and_end() {
    let mut pair = Pair::opened(Config::default());
    let stream = pair.ends[CLIENT].open_stream().expect("there is room");
    pair.ends[CLIENT].streams().write(pair.now, stream.number, b"question").expect("open");
    pair.ends[CLIENT].streams().finish(stream.number).expect("open");
    pair.run(WHILE, |_, _| true);
    let number = stream.number;
    let at_server = StreamId { session: SessionId(1), number };
    assert_eq!(
        pair.events(SERVER),
        [Event::StreamOpened { stream: at_server }, Event::Readable { stream: at_server }]
    );
    let read = pair.ends[SERVER].streams().read(pair.now, number, 100).expect("open");
    assert!(matches!(read, Read::Data { offset: 0, bytes } if &bytes[..] == b"question"));
    assert_eq!(pair.ends[SERVER].streams().read(pair.now, number, 100), Ok(Read::Finished));
    pair.ends[SERVER].streams().finish(number).expect("open");
    pair.run(WHILE, |_, _| true);
    assert_eq!(pair.ends[CLIENT].streams().read(pair.now, number, 100), Ok(Read::Finished));
    assert_eq!(pair.ends[CLIENT].streams().read(pair.now, number, 100), Err(StreamError::NoStream));
    assert_eq!(pair.ends[SERVER].streams().write(pair.now, number, b"x"), Err(StreamError::NoStream));
}

#[test]
fn a_reset_ends_both_directions_on_both_sides_and_leaves_no_hole() {
    let mut pair = Pair::opened(Config::default());
    let stream = pair.ends[CLIENT].open_stream().expect("there is room");
    pair.ends[CLIENT].streams().write(pair.now, stream.number, &[7; 500_000]).expect("open");
    pair.run(Duration::from_millis(3), |_, _| true);
    pair.ends[SERVER].streams().reset(pair.now, stream.number, 42);
    pair.run(WHILE, |_, _| true);
    assert!(pair.events(CLIENT).contains(&Event::StreamReset { stream, code: 42 }));
    assert_eq!(pair.ends[CLIENT].streams().write(pair.now, stream.number, b"x"), Err(StreamError::NoStream));
    assert_eq!(pair.ends[SERVER].receiver.report(1).1.ranks, [], "all blocks are complete");
    assert_eq!(pair.ends[CLIENT].sender.control_backlog(), 0);
}

#[test]
fn the_reader_holds_the_writer_back_and_lets_it_go_on() {
    let mut pair = Pair::opened(Config::default());
    let window = u64::from(Config::default().limits.initial_window);
    let stream = pair.ends[CLIENT].open_stream().expect("there is room");
    let data = vec![1; 900_000];
    assert_eq!(pair.ends[CLIENT].streams().write(pair.now, stream.number, &data), Ok(data.len()));
    pair.ends[CLIENT].streams().finish(stream.number).expect("open");
    pair.run(Duration::from_secs(2), |_, _| true);
    assert_eq!(pair.ends[SERVER].status().delivery.bytes, window, "what was granted, and no more");
    let mut read = 0;
    for _ in 0..100 {
        while let Ok(Read::Data { bytes, .. }) =
            pair.ends[SERVER].streams().read(pair.now, stream.number, usize::MAX)
        {
            read += bytes.len();
        }
        pair.run(WHILE, |_, _| true);
    }
    assert_eq!(read, data.len());
}

#[test]
fn the_paths_share_what_the_peers_sockets_hold_and_each_may_send_a_run() {
    let mut pair = Pair::opened(Config::default());
    let stream = pair.ends[CLIENT].open_stream().expect("there is room");
    let mut told = |bytes| {
        pair.intakes[SERVER].set_bytes(bytes);
        pair.ends[CLIENT].streams().write(pair.now, stream.number, &[1; 9_000]).expect("open");
        pair.run(WHILE, |_, _| true);
        pair.ends[CLIENT].paths.rooms()
    };
    // The two paths have the same rate.
    let near = |rooms: Vec<u64>, bytes: u64| rooms.iter().all(|room| room.abs_diff(bytes) < bytes / 10);
    let rooms = [400 << 10, 1 << 30, 10].map(&mut told);
    assert!(near(rooms[0].clone(), 200 << 10), "{rooms:?}");
    assert!(near(rooms[1].clone(), 2 << 20), "no more than 4 MiB: {rooms:?}");
    assert_eq!(rooms[2], [64 << 10; 2]);
}

#[test]
fn the_peers_limit_of_streams_holds_and_moves_on() {
    let mut config = Config::default();
    config.limits.streams = 2;
    let mut pair = Pair::opened(config);
    let streams: Vec<StreamId> =
        (0..2).map(|_| pair.ends[CLIENT].open_stream().expect("there is room")).collect();
    assert!(matches!(pair.ends[CLIENT].open_stream(), Err(StreamError::TooMany)));
    for stream in streams {
        pair.ends[CLIENT].streams().finish(stream.number).expect("open");
        pair.run(WHILE, |_, _| true);
        assert_eq!(pair.ends[SERVER].streams().read(pair.now, stream.number, 9), Ok(Read::Finished));
        pair.ends[SERVER].streams().finish(stream.number).expect("open");
        pair.run(WHILE, |_, _| true);
        assert_eq!(pair.ends[CLIENT].streams().read(pair.now, stream.number, 9), Ok(Read::Finished));
    }
    pair.run(WHILE, |_, _| true);
    assert!(pair.events(CLIENT).contains(&Event::StreamsAvailable { session: SessionId(0) }));
    assert!(pair.ends[CLIENT].open_stream().is_ok());
}

#[test]
fn lost_reports_do_not_hang_a_transfer() {
    let mut pair = Pair::opened(Config::default());
    let stream = pair.ends[CLIENT].open_stream().expect("there is room");
    pair.ends[CLIENT].streams().write(pair.now, stream.number, &[3; 100_000]).expect("open");
    pair.ends[CLIENT].streams().finish(stream.number).expect("open");
    // Every packet of the server's but one in four is lost, and every other one of the client's.
    let mut count = 0;
    pair.run(Duration::from_secs(4), |from, _| {
        count += 1;
        if from == SERVER { count % 4 == 0 } else { count % 2 == 0 }
    });
    assert!(pair.events(CLIENT).contains(&Event::Delivered { stream }));
}

#[test]
fn a_session_ends_when_its_key_or_its_numbers_are_used_up() {
    let use_up: [fn(&mut Session); 3] = [
        |session| session.epochs.use_up(),
        |session| session.sender.use_up(),
        |session| session.reporting.use_up(),
    ];
    for use_up in use_up {
        let mut pair = Pair::opened(Config::default());
        use_up(&mut pair.ends[CLIENT]);
        pair.run(WHILE, |_, _| true);
        let reason = CloseReason::UsedUp;
        assert_eq!(
            pair.events(CLIENT),
            [Event::SessionClosed { session: SessionId(0), member: MemberId(1), reason }]
        );
    }
}

#[test]
fn a_peer_that_acknowledges_what_was_never_sent_is_cut_off() {
    let mut pair = Pair::opened(Config::default());
    let claim = wire_report(1_000_000, 0);
    pair.ends[SERVER].reporting.send(claim, VecDeque::from([PathId(1)]));
    pair.run(Duration::from_millis(5), |_, _| true);
    let closed = pair.events(CLIENT);
    let misbehaved =
        |event: &Event| matches!(event, Event::SessionClosed { reason: CloseReason::Misbehaved(_), .. });
    assert!(closed.iter().any(misbehaved), "{closed:?}");
    let told = pair.events(SERVER);
    assert!(
        told.iter().any(|event| matches!(event, Event::SessionClosed { reason: CloseReason::ByPeer(_), .. })),
        "{told:?}"
    );
}

/// Claims that all packets of which a report tells have arrived.
fn claim_everything(report: &mut Report) {
    for path in &mut report.paths {
        path.arrived.words.fill(u64::MAX);
        *path.arrived.words.last_mut().expect("one at least") = u64::MAX >> (63 - path.highest % 64);
    }
}

/// A transfer for two seconds over paths that carry 20 Mbit/s together and lose the rest; gives how it has ended, and
/// how many bit/s the client has sent.
fn narrow_transfer(lie: Option<fn(&mut Report)>) -> (Vec<Event>, f64) {
    let mut config = Config::default();
    config.limits.initial_window = 64 << 20;
    let mut pair = Pair::opened(config);
    if let Some(lie) = lie {
        pair.ends[SERVER].reporting.falsify(lie);
    }
    let stream = pair.ends[CLIENT].open_stream().expect("there is room").number;
    let (mut room, mut sent) = (0, 0);
    for _ in 0..2_000 {
        let _ = pair.ends[CLIENT].streams().write(pair.now, stream, &[7; 1 << 16]);
        room = (room + 2_500).min(25_000);
        pair.run(Duration::from_millis(1), |from, length| {
            sent += if from == CLIENT { length } else { 0 };
            let passes = from == SERVER || length <= room;
            room -= if from == CLIENT && passes { length } else { 0 };
            passes
        });
    }
    (pair.events(CLIENT), sent as f64 * 8.0 / 2.0)
}

#[test]
fn a_receiver_that_claims_what_did_not_arrive_is_cut_off() {
    // Its claims were once believed: it was sent 82.8 Mbit/s where an honest one got 18.2.
    let closed = |events: &[Event]| {
        events.iter().find_map(|event| match event {
            Event::SessionClosed { reason, .. } => Some(reason.to_string()),
            _ => None,
        })
    };
    let (events, honest) = narrow_transfer(None);
    assert_eq!(closed(&events), None);
    assert!(honest > 10e6, "{honest} bit/s");
    let (events, liar) = narrow_transfer(Some(claim_everything));
    let reason = closed(&events).expect("it is cut off");
    assert!(reason.contains("did not arrive: their receipts are wrong"), "{reason}");
    assert!(liar < honest, "{liar} bit/s");
}

fn wire_report(highest: u64, floor: u32) -> Report {
    let arrived = crate::wire::report::Arrived { words: vec![1 << (highest % 64)], proof: 0 };
    let path = crate::wire::report::PathReport { path: 1, highest, arrival_us: 0, arrived };
    Report { sequence: 1000, sent_us: 0, intake: None, paths: vec![path], floor, blocks: Default::default() }
}

#[test]
fn a_peer_that_reports_blocks_that_were_never_formed_is_cut_off() {
    let mut pair = Pair::opened(Config::default());
    let mut claim = wire_report(0, 77);
    claim.paths.clear();
    pair.ends[SERVER].reporting.send(claim, VecDeque::from([PathId(1)]));
    pair.run(Duration::from_millis(5), |_, _| true);
    assert!(!pair.ends[CLIENT].is_open());
}

/// Detours were once taken out with what was on the way over them: five at a time, which no mask bears, and what had
/// been sent was repaired although it arrived.
#[test]
fn a_path_that_retires_ends_what_it_has_begun_and_gets_nothing_new() {
    let mut config = Config::default();
    config.limits.initial_window = 1 << 20;
    let mut pair = Pair::opened(config);
    let stream = pair.ends[CLIENT].open_stream().expect("open");
    let write = |pair: &mut Pair| {
        pair.ends[CLIENT].streams().write(pair.now, stream.number, &[7; 300_000]).expect("it is open");
    };
    write(&mut pair);
    pair.run(Duration::from_millis(30), |_, _| true);
    assert!(pair.ends[CLIENT].paths.retire(PathId(1)));
    let sent = |pair: &Pair, path: usize| pair.ends[CLIENT].paths.statuses()[path].counters.packets_sent;
    pair.run(Duration::from_secs(1), |_, _| true);
    let before = [sent(&pair, 0), sent(&pair, 1)];
    write(&mut pair);
    pair.run(Duration::from_secs(1), |_, _| true);
    // Probes and reports may still travel on it.
    assert!(sent(&pair, 0) - before[0] < 10, "{} more", sent(&pair, 0) - before[0]);
    assert!(sent(&pair, 1) - before[1] > 100, "{} more", sent(&pair, 1) - before[1]);
    pair.ends[CLIENT].remove_path(PathId(1));
    pair.run(Duration::from_secs(1), |_, _| true);
    assert_eq!(pair.ends[CLIENT].sender.counters().repair_rounds, 0);
}

/// `sfio ping` once told of four paths with a third, a third, a third and a quarter of the flow.
#[test]
fn shares_that_people_see_sum_to_one_while_a_path_comes_back() {
    let mut pair = Pair::opened(Config::default());
    pair.ends[CLIENT].paths.share_by_plan(&[(PathId(1), 1.0), (PathId(2), 0.25)]);
    let shares = pair.ends[CLIENT].paths.statuses().into_iter().map(|path| path.planned_share);
    assert_eq!(shares.collect::<Vec<_>>(), [0.8, 0.2]);
}

#[test]
fn a_path_id_is_never_used_twice() {
    let mut pair = Pair::opened(Config::default());
    let egress = Egress { neighbour: over(0, 1), label: Label(1), key: HopKey::new([1; 16]) };
    pair.ends[CLIENT].remove_path(PathId(1));
    assert!(!pair.ends[CLIENT].add_path(Path::new(
        PathId(1),
        Route::new(vec![MemberId(0)], Vec::new()),
        Vec::new(),
        0.5,
        egress,
        pair.now
    )));
}

#[test]
fn closing_tells_the_peer_why() {
    let mut pair = Pair::opened(Config::default());
    pair.ends[CLIENT].close("done for today");
    pair.run(Duration::from_millis(5), |_, _| true);
    assert!(
        !pair.ends[CLIENT].is_over(),
        "or its circuits would be torn down before the close packets are through"
    );
    let reason = CloseReason::ByPeer("done for today".into());
    assert_eq!(
        pair.events(SERVER),
        [Event::SessionClosed { session: SessionId(1), member: MemberId(0), reason }]
    );
    pair.run(Duration::from_millis(30), |_, _| true);
    assert!(pair.ends[CLIENT].is_over());
}

/// Bytes of a packet that asks for new keys, and of the answer: hop header, receipt, kind and epoch, Noise message,
/// AEAD tag.
const QUESTION: usize = 24 + 4 + 5 + 96 + 16;
const ANSWER: usize = 24 + 4 + 5 + 48 + 16;

fn short_epochs() -> Pair {
    let mut config = Config::default();
    config.sealing.epoch = Duration::from_secs(1);
    Pair::opened(config)
}

#[test]
fn a_question_is_repeated_until_it_is_answered_and_gets_the_same_answer() {
    let mut pair = short_epochs();
    let (mut questions, mut answers) = (0, 0);
    pair.run(Duration::from_millis(1900), |from, length| {
        questions += usize::from(from == CLIENT && length == QUESTION);
        answers += usize::from(from == SERVER && length == ANSWER);
        // The first two questions and the first two answers are lost.
        match (from, length) {
            (CLIENT, QUESTION) => questions > 2,
            (SERVER, ANSWER) => answers > 2,
            _ => true,
        }
    });
    assert_eq!((questions, answers), (5, 3));
    assert_eq!(pair.ends[CLIENT].epochs.number(), 1);
}

#[test]
fn a_packet_of_the_epoch_before_opens_for_a_while() {
    let mut pair = short_epochs();
    let late: Vec<Vec<u8>> = (0..2).map(|_| sealed_probe(&mut pair.ends[CLIENT], Time::ZERO)).collect();
    while pair.ends[SERVER].epochs.number() == 0 {
        pair.run(Duration::from_millis(1), |_, _| true);
    }
    let heard = |pair: &Pair| pair.ends[SERVER].paths.statuses()[0].counters.packets_received;
    let before = heard(&pair);
    pair.deliver(SERVER, &mut late[0].clone());
    assert_eq!(heard(&pair), before + 1);
    pair.run(Duration::from_millis(500), |_, _| true);
    let before = heard(&pair);
    pair.deliver(SERVER, &mut late[1].clone());
    assert_eq!(heard(&pair), before, "its key is forgotten");
}

/// A packet that the end's first path sends, and that is still on the way.
fn sealed_probe(end: &mut Session, now: Time) -> Vec<u8> {
    let mut out = Vec::new();
    let probe = crate::wire::packet::Probe { token: 1 };
    let body = |out: &mut Vec<u8>| probe.emit(crate::wire::packet::Kind::Probe, out);
    end.paths.seal(now, PathId(1), end.epochs.seal(), &mut out, body);
    out
}

#[test]
fn handshakes_from_the_wrong_side_or_before_their_time_end_the_session() {
    use crate::wire::packet::Renewal;
    use epochs::BadRenewal;
    let mut pair = Pair::opened(Config::default());
    let [client, server] = &mut pair.ends;
    let renewal = |epoch| Renewal { epoch, message: &[7; 96] };
    assert_eq!(client.epochs.on_question(PathId(1), &renewal(1)), Err(BadRenewal::WrongSide(1)));
    assert_eq!(server.epochs.on_answer(Time::ZERO, &renewal(1)), Err(BadRenewal::WrongSide(1)));
    assert_eq!(client.epochs.on_answer(Time::ZERO, &renewal(1)), Err(BadRenewal::Early(1)));
    assert_eq!(server.epochs.on_question(PathId(1), &renewal(2)), Err(BadRenewal::Early(2)));
    assert_eq!(server.epochs.on_question(PathId(1), &renewal(1)), Err(BadRenewal::Broken(1)));
    assert_eq!(server.epochs.on_question(PathId(1), &renewal(0)), Ok(()), "an old one comes late");
}

/// What a peer that reads nothing had written to it stayed within each session's bounds only: 32 MiB for each of them.
#[test]
fn what_peers_do_not_read_is_bounded_by_member_and_writers_go_on_when_it_is_read() {
    let config =
        Config { limits: Limits { node_send_memory: 4 << 20, ..Limits::default() }, ..Config::default() };
    let mut pair = pair(config);
    pair.run(Duration::from_millis(200), |_, _| true);
    let piece = Bytes::from(vec![7; 1 << 20]);
    let now = pair.now;
    let streams: Vec<StreamId> =
        (0..100).map(|_| pair.ends[CLIENT].open_stream().expect("a stream")).collect();
    let mut written: u64 = 0;
    for stream in streams.iter().cycle().take(300) {
        written += pair.ends[CLIENT].streams().write_bytes(now, stream.number, &piece).expect("open") as u64;
    }
    assert!((2 << 20..(2 << 20) + (512 << 10)).contains(&written), "half of it: {written}");
    while pair.ends[CLIENT].poll_event().is_some() {}
    // The peer takes what its credit allows, and the writers of the streams go on.
    pair.run(Duration::from_secs(1), |_, _| true);
    let is_writable = |event| matches!(event, Event::Writable { .. });
    assert!(std::iter::from_fn(|| pair.ends[CLIENT].poll_event()).any(is_writable));
    pair.ends[CLIENT].streams().reset(pair.now, streams[0].number, 1);
    let status = pair.ends[CLIENT].status();
    assert!(status.memory <= 3 << 20, "{}", status.memory);
}
