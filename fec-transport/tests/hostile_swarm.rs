//! Honest members beside hostile ones: what the honest ones send arrives, whole and in time, whatever the others do.
//!
//! One seed draws what the hostile members do: sessions that are opened and closed, streams that are reset, bytes sent
//! one by one, answers that nobody reads, processes that connect, garbage on both planes. `HOSTILE_SEEDS=0..10000` plays
//! that many; a failure names its seed.

mod common;

use std::collections::BTreeMap;

use common::*;
use fec_transport::overlay::{InstanceId, MemberId, Overlay, Peer};
use fec_transport::sim::{LinkSpec, Scene, World};
use fec_transport::{Application, Config, Event, Node, SessionId, StreamId, Time};

const LENGTH: u64 = 1 << 20;
const HONEST: [&str; 2] = ["honest1", "honest2"];
const HOSTILE: [&str; 2] = ["hostile1", "hostile2"];
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
    /// Its streams, with the bytes that it has written; they are those of every test, so that the reader can check them.
    streams: BTreeMap<StreamId, u64>,
    /// How many streams it has opened in all.
    opened: usize,
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
                    self.opened += 1;
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
        node.handle_control(now, Peer { member: from, instance: InstanceId(1) }, &message);
        node.neighbour_up(now, Peer { member: from, instance: InstanceId(process + 2) });
    });
}

fn play(seed: u64) {
    let mut dice = Dice(seed);
    let hostile_seed = dice.below(u64::MAX);
    let mut world = World::new(&scene(), Config::default(), seed, move |overlay: &Overlay, member| {
        if !overlay.name(member).starts_with("hostile") {
            return Actor::Honest(Transfer::default());
        }
        let dice = Dice(hostile_seed ^ u64::from(member.0));
        let (sessions, streams) = (Vec::new(), BTreeMap::new());
        Actor::Hostile(Hostile { dice, next: Time::ZERO + MS, members: 5, sessions, streams, opened: 0 })
    });
    let server = world.member("server");
    let honest = HONEST.map(|name| world.member(name));
    world.run_for(SECOND);
    honest.into_iter().for_each(|member| world.command(member, Send { to: server, length: LENGTH }));
    let is_done = |world: &World<Actor>| {
        honest.iter().all(|member| world.application(*member).honest().confirmed == [LENGTH])
    };
    for _ in 0..PATIENCE_ROUNDS {
        if is_done(&world) {
            break;
        }
        garbage(&mut world, &mut dice);
        world.run_for(50 * MS);
        assert_eq!(world.application(server).honest().wrong_bytes, 0, "seed {seed}: safety");
    }
    let opened = HOSTILE.iter().map(|name| match world.application(world.member(name)) {
        Actor::Hostile(hostile) => hostile.opened,
        Actor::Honest(_) => 0,
    });
    assert!(opened.sum::<usize>() > 10, "seed {seed}: the hostile members did nothing");
    assert!(world.node(world.member("r1")).malformed_control() > 0, "seed {seed}: there was no garbage");
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
    seeds().for_each(play);
}
