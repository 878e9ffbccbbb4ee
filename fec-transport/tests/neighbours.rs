//! The worst neighbour: for each table, queue and memory of a node that members share, one that takes all of it that it
//! can get, while another one connects, keeps its fair share of the rate and is answered quickly.

mod common;

use std::time::Duration;

use common::*;
use fec_transport::config::Limits;
use fec_transport::overlay::{MemberId, Overlay};
use fec_transport::sim::{LinkSpec, Scene, World};
use fec_transport::{Application, Config, Event, Node, Time};

const LENGTH: u64 = 32 << 20;
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a process of the hog lives: a control connection, and a set-up over two links, take some round trips.
const LIFE: Duration = Duration::from_millis(250);

/// Members that a flood of one member goes to, over a session of its own to each.
const SINKS: usize = 8;
/// More than anybody sends in a test.
const ENDLESS: u64 = 1 << 40;

/// What runs at a member.
#[derive(Debug)]
enum Actor {
    Honest(Transfer),
    /// Reads nothing, ever.
    Sponge,
    /// Opens a session as soon as it can, again and again, and ends without a word.
    Hog {
        to: MemberId,
        next: Time,
    },
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
        if let Actor::Honest(transfer) = self {
            transfer.handle_event(now, node, event);
        }
    }

    fn handle_command(&mut self, now: Time, node: &mut Node, command: Send) {
        if let Actor::Honest(transfer) = self {
            transfer.handle_command(now, node, command);
        }
    }

    fn handle_timeout(&mut self, now: Time, node: &mut Node) {
        if let Actor::Hog { to, next } = self {
            let _ = node.connect(now, *to);
            *next = now + 20 * MS;
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        match self {
            Actor::Honest(_) | Actor::Sponge => None,
            Actor::Hog { next, .. } => Some(*next),
        }
    }

    fn poll_outcome(&mut self) -> Option<()> {
        None
    }
}

/// How an honest member fares: the time that it takes to connect, a transfer, and an exchange of some bytes.
#[derive(Debug)]
struct Fare {
    connect: Duration,
    transfer: Duration,
    ping: Duration,
}

/// Two honest members that exchange something, and those that are in their way.
struct Scenery {
    world: World<Actor>,
    from: MemberId,
    to: MemberId,
    /// Their processes live for a moment, again and again.
    hogs: Vec<MemberId>,
}

impl Scenery {
    /// An honest member and two hogs, 20 ms from a relay and 40 ms from the server.
    fn of_places(limits: Limits, is_attacked: bool) -> Scenery {
        let link = LinkSpec::new(50, 20 * MS);
        let mut scene =
            Scene::new().client("honest").client("hog1").client("hog2").relay("r1").server("server");
        scene = scene.link("r1", "server", &link);
        for name in ["honest", "hog1", "hog2"] {
            scene = scene.link(name, "r1", &link);
        }
        let mut scenery = Scenery::new(&scene, limits, ["honest", "server"]);
        if is_attacked {
            scenery.hogs = ["hog1", "hog2"].map(|name| scenery.world.member(name)).into();
        }
        scenery
    }

    /// An honest member and a flooder, 20 ms from a relay whose socket takes 50 Mbit/s for a server and the sinks,
    /// which are 20 ms away, too. The links have more.
    fn of_a_relay(is_attacked: bool) -> Scenery {
        let link = LinkSpec::new(1_000, 20 * MS);
        let mut scene = Scene::new().client("honest").client("flooder").relay("r1").server("server");
        for name in ["honest", "flooder", "server"] {
            scene = scene.link(name, "r1", &link);
        }
        let sinks: Vec<String> = (1..=SINKS).map(|number| format!("sink{number}")).collect();
        for sink in &sinks {
            scene = scene.server(sink).link("r1", sink, &link);
        }
        let mut scenery = Scenery::new(&scene, Limits::default(), ["honest", "server"]);
        scenery.world.limit_socket(scenery.world.member("r1"), 50_000_000 / 8);
        if is_attacked {
            for sink in &sinks {
                scenery.send_without_end("flooder", sink);
            }
        }
        scenery
    }

    /// A server with 8 MiB for what others have not read, an honest member that it sends to, and a sponge.
    fn of_send_memory(is_attacked: bool) -> Scenery {
        let link = LinkSpec::new(50, 20 * MS);
        let scene = Scene::new().server("server").server("honest").server("sponge");
        let scene = scene.link("server", "honest", &link).link("server", "sponge", &link);
        let limits = Limits { send_memory: 8 << 20, node_send_memory: 8 << 20, ..Limits::default() };
        let mut scenery = Scenery::new(&scene, limits, ["server", "honest"]);
        if is_attacked {
            scenery.send_without_end("server", "sponge");
        }
        scenery
    }

    fn new(scene: &Scene, limits: Limits, [from, to]: [&str; 2]) -> Scenery {
        let config = Config { limits, ..Config::default() };
        let world =
            World::new(scene, config, 1, |overlay: &Overlay, member| match overlay.name(member).as_str() {
                "sponge" => Actor::Sponge,
                name if name.starts_with("hog") => {
                    Actor::Hog { to: overlay.find("server").expect("it is in the scene"), next: Time::ZERO }
                }
                _ => Actor::Honest(Transfer::default()),
            });
        Scenery { from: world.member(from), to: world.member(to), world, hogs: Vec::new() }
    }

    fn send_without_end(&mut self, from: &str, to: &str) {
        let to = self.world.member(to);
        self.world.run_for(SECOND);
        self.world.command(self.world.member(from), Send { to, length: ENDLESS });
    }

    /// Goes on for `span`, in which each process of the hogs lives for a moment.
    fn attack(&mut self, span: Duration) {
        let end = self.world.now() + span;
        while self.world.now() < end {
            self.respawn();
            self.world.run_for(LIFE);
        }
    }

    fn respawn(&mut self) {
        for hog in self.hogs.clone() {
            self.world.crash(Duration::ZERO, hog);
            self.world.restart(MS, hog);
        }
    }

    fn exchange(&mut self, length: u64) -> Duration {
        let (start, from, to) = (self.world.now(), self.from, self.to);
        let confirmed = |world: &World<Actor>| world.application(from).honest().confirmed.len();
        let before = confirmed(&self.world);
        self.world.command(from, Send { to, length });
        while confirmed(&self.world) == before {
            let passed = self.world.now().since(start);
            let closed = &self.world.application(from).honest().closed;
            assert!(passed < PATIENCE && closed.is_empty(), "after {passed:?}: {closed:?}");
            self.respawn();
            self.world.run_until(LIFE, |world| confirmed(world) > before);
        }
        self.world.now().since(start)
    }

    /// How those fare that begin now.
    fn fare(&mut self) -> Fare {
        let connect = self.exchange(8);
        // The path finds its rate.
        self.exchange(LENGTH);
        let transfer = self.exchange(LENGTH);
        let ping = (0..10).map(|_| self.exchange(8)).max().expect("there are some");
        Fare { connect, transfer, ping }
    }

    /// A process of the sender that starts now.
    fn restart(&mut self) {
        self.world.crash(Duration::ZERO, self.from);
        self.world.restart(MS, self.from);
        self.world.run_for(2 * MS);
    }
}

/// What the one of `beside` has of the rate that it has alone; it waits no longer than may be.
fn compare(what: &str, alone: &Fare, beside: &Fare) -> f64 {
    let part = alone.transfer.as_secs_f64() / beside.transfer.as_secs_f64();
    println!("{what}: {part:.2} of the rate; alone {alone:?}, beside others {beside:?}");
    assert!(beside.connect <= alone.connect + alone.connect / 2, "{what}: {beside:?}");
    assert!(beside.ping <= 3 * alone.ping, "{what}: {beside:?}");
    part
}

/// One member could take all places: then nobody else connected, set up a circuit or opened a session.
#[test]
fn who_takes_all_places_that_it_can_leaves_others_theirs() {
    let tables = [
        ("sessions", Limits { sessions: 12, ..Limits::default() }),
        ("processes", Limits { neighbours: 48, ..Limits::default() }),
        ("circuits", Limits { circuits: 12, ..Limits::default() }),
    ];
    for (table, limits) in tables {
        let [alone, beside] = [false, true].map(|is_attacked| {
            let mut scenery = Scenery::of_places(limits.clone(), is_attacked);
            scenery.attack(if is_attacked { 40 * SECOND } else { MS });
            scenery.restart();
            scenery.fare()
        });
        assert!(compare(table, &alone, &beside) >= 0.8, "{table}");
    }
}

/// What waits at a relay for its socket was one line for all: whoever had most packets in it had most of the socket,
/// and everybody waited for all of them.
#[test]
fn who_floods_a_relay_leaves_others_their_half_of_its_socket() {
    let [alone, beside] = [false, true].map(|is_attacked| {
        let mut scenery = Scenery::of_a_relay(is_attacked);
        scenery.world.run_for(5 * SECOND);
        scenery.fare()
    });
    assert!(compare("relay", &alone, &beside) >= 0.8 / 2.0);
}

/// What one member did not read could take all memory that a node has for what it sends.
#[test]
fn who_reads_nothing_leaves_others_memory_to_be_sent_from() {
    let [alone, beside] = [false, true].map(|is_attacked| {
        let mut scenery = Scenery::of_send_memory(is_attacked);
        scenery.world.run_for(5 * SECOND);
        scenery.fare()
    });
    assert!(compare("send memory", &alone, &beside) >= 0.8);
}
