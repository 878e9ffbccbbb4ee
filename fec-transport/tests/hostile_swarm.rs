//! Honest members beside hostile ones: what the honest ones send arrives, whole and in time, whatever the others do.
//!
//! One seed draws what the hostile members do: sessions that are opened and closed, streams that are reset, bytes sent
//! one by one, credit that is withheld, processes that connect, set up circuits and die without end, garbage on both
//! planes. The tables and memories that they share with the honest ones are small, so that they are full all the time.
//! `HOSTILE_SEEDS=0..10000` plays that many; a failure names its seed.

mod common;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use common::*;
use fec_transport::config::Limits;
use fec_transport::overlay::{Adjacency, InstanceId, MemberId, Overlay, Peer};
use fec_transport::sim::{LinkSpec, Scene, World};
use fec_transport::{Application, Config, Event, NeighbourStatus, Node, SessionId, StreamId, Time};

const LENGTH: u64 = 1 << 20;
const HONEST: [&str; 2] = ["honest1", "honest2"];
const HOSTILE: [&str; 2] = ["hostile1", "hostile2"];
/// What the hostile members are sent, of which they read nothing.
const WITHHELD: u64 = 3 << 20;
/// How long the attack has gone on when they begin.
const ROUNDS_BEFORE: usize = 60;
/// What two honest members need alone is less than a second; four share the server's links, and there are set-ups.
const PATIENCE_ROUNDS: usize = 600;

/// A sequence of numbers that a seed decides (S. Vigna's splitmix64).
#[derive(Debug, Clone)]
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        if all.is_empty() { None } else { Some(all[self.below(all.len() as u64) as usize]) }
    }
}

/// A member that does what harms. It reads nothing, so what it is sent stays in the buffers of others.
#[derive(Debug)]
struct Hostile {
    dice: Dice,
    next: Time,
    members: u64,
    sessions: Vec<SessionId>,
    /// Its streams, with the bytes that it has written; they are those of every test, so that the reader can check
    /// them.
    streams: BTreeMap<StreamId, u64>,
    /// How many streams all hostile processes have opened.
    opened: Rc<Cell<usize>>,
}

impl Hostile {
    fn act(&mut self, now: Time, node: &mut Node) {
        let stream = self.dice.pick(&self.streams.keys().copied().collect::<Vec<_>>());
        let session = self.dice.pick(&self.sessions);
        match (self.dice.below(16), session, stream) {
            (0..=1, ..) => drop(node.connect(now, MemberId(self.dice.below(self.members) as u16))),
            (2, Some(session), _) if self.dice.below(8) == 0 => node.close(now, session, "as I like"),
            (2..=6, Some(session), _) => {
                if let Ok(stream) = node.open_stream(session) {
                    self.streams.insert(stream, 0);
                    self.opened.set(self.opened.get() + 1);
                    let length = self.dice.below(200_000);
                    self.write(now, node, stream, length);
                }
            }
            (7..=11, _, Some(stream)) => {
                self.write(now, node, stream, 1);
                let _ = node.flush(now, stream);
            }
            (12..=14, _, Some(stream)) => {
                self.streams.remove(&stream);
                node.reset(now, stream, 7);
            }
            (_, _, Some(stream)) => drop(node.finish(now, stream)),
            _ => {}
        }
    }

    fn write(&mut self, now: Time, node: &mut Node, stream: StreamId, length: u64) {
        let start = self.streams.get(&stream).copied().unwrap_or(0);
        let bytes: Vec<u8> = (start..start + length).map(byte_at).collect();
        let taken = node.write(now, stream, &bytes).unwrap_or(0);
        self.streams.insert(stream, start + taken as u64);
    }
}

#[derive(Debug)]
enum Actor {
    Honest(Transfer),
    Hostile(Hostile),
}

impl Actor {
    fn honest(&self) -> &Transfer {
        let Actor::Honest(transfer) = self else { panic!("an honest member") };
        transfer
    }
}

impl Application for Actor {
    type Command = Send;
    type Outcome = ();

    fn handle_event(&mut self, now: Time, node: &mut Node, event: Event) {
        match (self, event) {
            (Actor::Honest(transfer), event) => transfer.handle_event(now, node, event),
            (Actor::Hostile(hostile), Event::SessionOpened { session, .. }) => hostile.sessions.push(session),
            (Actor::Hostile(hostile), Event::SessionClosed { session, .. }) => {
                hostile.sessions.retain(|other| *other != session);
                hostile.streams.retain(|stream, _| stream.session != session);
            }
            _ => {}
        }
    }

    fn handle_command(&mut self, now: Time, node: &mut Node, command: Send) {
        if let Actor::Honest(transfer) = self {
            transfer.handle_command(now, node, command);
        }
    }

    fn handle_timeout(&mut self, now: Time, node: &mut Node) {
        if let Actor::Hostile(hostile) = self {
            hostile.act(now, node);
            hostile.next = now + MS * (1 + hostile.dice.below(20) as u32);
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        match self {
            Actor::Honest(_) => None,
            Actor::Hostile(hostile) => Some(hostile.next),
        }
    }

    fn poll_outcome(&mut self) -> Option<()> {
        None
    }
}

fn scene() -> Scene {
    let link = LinkSpec::new(20, 5 * MS);
    let mut scene = Scene::new().client(HONEST[0]).client(HONEST[1]).client(HOSTILE[0]).client(HOSTILE[1]);
    scene = scene.server("server").relay("r1").relay("r2");
    for relay in ["r1", "r2"] {
        scene = scene.link(relay, "server", &link);
        for client in HONEST.into_iter().chain(HOSTILE) {
            scene = scene.link(client, relay, &link);
        }
    }
    scene
}

/// What hostile members do that their own nodes would not do for them.
fn garbage(world: &mut World<Actor>, dice: &mut Dice) {
    let from = world.member(HOSTILE[dice.below(2) as usize]);
    let relay = world.member(["r1", "r2"][dice.below(2) as usize]);
    for _ in 0..dice.below(30) {
        let mut datagram: Vec<u8> = (0..dice.below(1_500)).map(|at| byte_at(at + dice.0)).collect();
        if let Some(kind) = datagram.first_mut() {
            *kind = dice.below(4) as u8;
        }
        world.inject(from, relay, datagram);
    }
    let (kind, length, process) = (dice.below(9) as u8, dice.below(400), dice.below(1 << 40));
    world.act(relay, |now, node, _| {
        let mut message = vec![kind];
        message.extend((0..length).map(byte_at));
        let of_member = |neighbour: &NeighbourStatus| neighbour.is_up && neighbour.peer.member == from;
        let connected = node.neighbours().find(of_member);
        if let Some(NeighbourStatus { peer, link, .. }) = connected {
            node.handle_control(now, Adjacency { peer, link }, &message);
        }
        let another = Peer { member: from, instance: InstanceId(process + 2) };
        let another = node.overlay().adjacency(relay, another).expect("they are neighbours");
        node.neighbour_up(now, another);
    });
}

/// Hostile processes die, and others come in their place, which open sessions at once.
fn die(world: &mut World<Actor>, dice: &mut Dice) {
    let name = HOSTILE[dice.below(2) as usize];
    let member = world.member(name);
    world.crash(Duration::ZERO, member);
    world.restart(MS * (1 + dice.below(50) as u32), member);
}

/// The server sends to hostile members what they do not read.
fn feed(world: &mut World<Actor>, dice: &mut Dice) {
    let (server, to) = (world.member("server"), world.member(HOSTILE[dice.below(2) as usize]));
    world.act(server, |now, node, actor| {
        let Ok(session) = node.connect(now, to) else { return };
        let Actor::Honest(_) = actor else { return };
        let Ok(stream) = node.open_stream(session) else { return };
        let bytes: Vec<u8> = (0..WITHHELD).map(byte_at).collect();
        let _ = node.write(now, stream, &bytes);
    });
}

/// No table holds more than its limit, however full others would have it.
fn check_bounds(world: &World<Actor>, limits: &Limits, seed: u64) {
    for name in ["server", "r1", "r2"] {
        let node = world.node(world.member(name));
        assert!(
            node.sessions().count() <= limits.sessions + HOSTILE.len(),
            "seed {seed}: sessions of {name}"
        );
        assert!(node.neighbours().count() <= limits.neighbours, "seed {seed}: processes at {name}");
        assert!(
            node.circuits().count() <= limits.circuits + 8 * limits.sessions,
            "seed {seed}: circuits of {name}"
        );
    }
}

fn play(seed: u64) {
    let mut dice = Dice(seed);
    let hostile_seed = dice.below(u64::MAX);
    let opened = Rc::new(Cell::new(0));
    let opened_by_all = Rc::clone(&opened);
    let limits = Limits {
        sessions: 24,
        neighbours: 48,
        circuits: 64,
        node_send_memory: 4 << 20,
        node_receive_memory: 4 << 20,
        ..Limits::default()
    };
    let config = Config { limits: limits.clone(), ..Config::default() };
    let mut world = World::new(&scene(), config, seed, move |overlay: &Overlay, member| {
        if !overlay.name(member).starts_with("hostile") {
            return Actor::Honest(Transfer::default());
        }
        let dice = Dice(hostile_seed ^ u64::from(member.0));
        let (sessions, streams) = (Vec::new(), BTreeMap::new());
        Actor::Hostile(Hostile {
            dice,
            next: Time::ZERO + MS,
            members: 5,
            sessions,
            streams,
            opened: Rc::clone(&opened_by_all),
        })
    });
    let server = world.member("server");
    let honest = HONEST.map(|name| world.member(name));
    world.run_for(SECOND);
    let is_done = |world: &World<Actor>| {
        honest.iter().all(|member| world.application(*member).honest().confirmed == [LENGTH])
    };
    for round in 0..PATIENCE_ROUNDS {
        if is_done(&world) {
            break;
        }
        if round == ROUNDS_BEFORE {
            honest.into_iter().for_each(|member| world.command(member, Send { to: server, length: LENGTH }));
        }
        garbage(&mut world, &mut dice);
        match dice.below(12) {
            0..=1 => die(&mut world, &mut dice),
            2..=4 => feed(&mut world, &mut dice),
            _ => {}
        }
        world.run_for(50 * MS);
        check_bounds(&world, &limits, seed);
        assert_eq!(world.application(server).honest().wrong_bytes, 0, "seed {seed}: safety");
    }
    assert!(opened.get() > 10, "seed {seed}: the hostile members did nothing");
    let garbage: u64 =
        ["r1", "r2"].into_iter().map(|relay| world.node(world.member(relay)).malformed_control()).sum();
    assert!(garbage > 0, "seed {seed}: there was no garbage");
    assert!(is_done(&world), "seed {seed}: liveness; replay it with HOSTILE_SEEDS={seed}..{}", seed + 1);
}

/// The seeds that the environment asks for, as `0..10000`, or a few.
fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("HOSTILE_SEEDS") else { return 0..3 };
    let bounds = text.split_once("..").and_then(|(start, end)| Some(start.parse().ok()?..end.parse().ok()?));
    bounds.unwrap_or_else(|| panic!("HOSTILE_SEEDS is {text}; expected a range such as 0..100"))
}

#[test]
fn honest_members_get_through_whatever_hostile_ones_do() {
    for seed in seeds() {
        play(seed);
        if seed % 100 == 99 {
            println!("seeds up to {seed} are over");
        }
    }
}
