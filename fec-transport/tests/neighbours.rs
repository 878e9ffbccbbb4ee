//! The worst neighbour: for each table of a node that members share, one that takes all places that it can get, while
//! another one connects, keeps its rate and is answered quickly.

mod common;

use std::time::Duration;

use common::*;
use fec_transport::config::Limits;
use fec_transport::overlay::{MemberId, Overlay};
use fec_transport::sim::{LinkSpec, Scene, World};
use fec_transport::{Application, Config, Event, Node, Time};

const LENGTH: u64 = 8 << 20;
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a process of the hog lives: a control connection, and a set-up over two links, take some round trips.
const LIFE: Duration = Duration::from_millis(250);

/// What runs at a member.
#[derive(Debug)]
enum Actor {
    Honest(Transfer),
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
            Actor::Honest(_) => None,
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

struct Scenery {
    world: World<Actor>,
    honest: MemberId,
    server: MemberId,
    hogs: Vec<MemberId>,
}

impl Scenery {
    /// An honest member and two hogs, 20 ms from a relay and 40 ms from the server.
    fn new(limits: Limits) -> Scenery {
        let link = LinkSpec::new(50, 20 * MS);
        let mut scene =
            Scene::new().client("honest").client("hog1").client("hog2").relay("r1").server("server");
        scene = scene.link("r1", "server", &link);
        for name in ["honest", "hog1", "hog2"] {
            scene = scene.link(name, "r1", &link);
        }
        let config = Config { limits, ..Config::default() };
        let world = World::new(&scene, config, 1, |overlay: &Overlay, member| {
            let to = overlay.find("server").expect("it is in the scene");
            match overlay.name(member).starts_with("hog") {
                true => Actor::Hog { to, next: Time::ZERO },
                false => Actor::Honest(Transfer::default()),
            }
        });
        let [honest, server, hog1, hog2] =
            ["honest", "server", "hog1", "hog2"].map(|name| world.member(name));
        Scenery { world, honest, server, hogs: vec![hog1, hog2] }
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

    fn exchange(&mut self, length: u64, is_attacked: bool) -> Duration {
        let (start, to) = (self.world.now(), self.server);
        let before = self.world.application(self.honest).honest().confirmed.len();
        self.world.command(self.honest, Send { to, length });
        while self.world.application(self.honest).honest().confirmed.len() == before {
            let honest = self.honest;
            let passed = self.world.now().since(start);
            let closed = &self.world.application(honest).honest().closed;
            assert!(passed < PATIENCE && closed.is_empty(), "after {passed:?}: {closed:?}");
            if is_attacked {
                self.respawn();
            }
            self.world.run_until(LIFE, |world| world.application(honest).honest().confirmed.len() > before);
        }
        self.world.now().since(start)
    }

    /// An honest process that starts now, while the hogs go on or not.
    fn fare(&mut self, is_attacked: bool) -> Fare {
        self.world.crash(Duration::ZERO, self.honest);
        self.world.restart(MS, self.honest);
        self.world.run_for(2 * MS);
        let connect = self.exchange(8, is_attacked);
        // The path finds its rate.
        self.exchange(LENGTH, is_attacked);
        let transfer = self.exchange(LENGTH, is_attacked);
        let ping = (0..10).map(|_| self.exchange(8, is_attacked)).max().expect("there are some");
        Fare { connect, transfer, ping }
    }
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
        let mut quiet = Scenery::new(limits.clone());
        let alone = {
            quiet.hogs.clear();
            quiet.fare(false)
        };
        let mut attacked = Scenery::new(limits);
        attacked.attack(40 * SECOND);
        let beside = attacked.fare(true);
        let part = alone.transfer.as_secs_f64() / beside.transfer.as_secs_f64();
        println!("{table}: {part:.2} of the rate; alone {alone:?}, beside hogs {beside:?}");
        assert!(beside.connect <= alone.connect + alone.connect / 2, "{table}: {beside:?}");
        assert!(part >= 0.8, "{table}: {part:.2} of the rate");
        assert!(beside.ping <= 3 * alone.ping, "{table}: {beside:?}");
    }
}
