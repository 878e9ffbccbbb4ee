//! Several links between the same two members, in virtual time: each is a path of its own and fails by itself.

mod common;

use std::time::Duration;

use common::*;
use fec_transport::overlay::{LinkId, Overlay};
use fec_transport::sim::{LinkSpec, Scene, World};
use fec_transport::{Config, PathState, PathStatus};

const MIB: u64 = 1 << 20;
const NAMES: [&str; 3] = ["dsl", "lte", "fibre"];
const ROUND_TRIPS_MS: [u32; 3] = [50, 80, 30];
const RATE_MBIT: u64 = 100;
const LOSS: f64 = 0.02;

/// Two members with three links between them: 100 Mbit/s each, 2 % loss each way.
fn two_members(seed: u64) -> World<Transfer> {
    let mut scene = Scene::new().client("client").server("server");
    for (name, round_trip) in NAMES.into_iter().zip(ROUND_TRIPS_MS) {
        let spec = LinkSpec::new(RATE_MBIT, MS * round_trip / 2).with_loss(LOSS);
        scene = scene.parallel_link("client", "server", name, &spec);
    }
    World::new(&scene, Config::default(), seed, |_: &Overlay, _| Transfer::default())
}

fn link(world: &World<Transfer>, name: &str) -> LinkId {
    let ends = ["client", "server"].map(|end| world.member(end));
    world.overlay().link_named(ends[0], ends[1], name).expect("listed")
}

fn paths(world: &World<Transfer>) -> Vec<PathStatus> {
    let node = world.node(world.member("client"));
    let sessions = node.sessions().filter_map(|session| node.session_status(session));
    sessions.flat_map(|status| status.paths).collect()
}

/// The names of the links over which paths carry data.
fn live(world: &World<Transfer>) -> Vec<String> {
    let live = paths(world).into_iter().filter(|path| path.state == PathState::Live);
    let mut names: Vec<String> = live.map(|path| world.overlay().link_names(&path.links).concat()).collect();
    names.sort();
    names
}

/// What a link has delivered from the client to the server, in bytes.
fn delivered(world: &World<Transfer>, name: &str) -> u64 {
    let from = world.simulator_node(world.member("client"));
    let link = world.simulator_links()[usize::from(link(world, name).0)];
    world.simulator().counters(link, from).delivered_bytes
}

#[test]
fn two_members_with_three_links_and_no_relay_use_all_of_them() {
    for seed in 1..=3 {
        let mut world = two_members(seed);
        let (client, server) = (world.member("client"), world.member("server"));
        world.command(client, Send { to: server, length: 200 * MIB });
        world.run_for(3 * SECOND);
        assert_eq!(live(&world), ["dsl", "fibre", "lte"]);
        let before = (world.application(server).received_bytes, NAMES.map(|name| delivered(&world, name)));
        world.run_for(2 * SECOND);
        let bytes = world.application(server).received_bytes - before.0;
        // Of 1,496 bytes of a packet with its headers 1,408 are a symbol's, and a share of them is lost.
        let limit = 3.0 * RATE_MBIT as f64 * 1e6 / 8.0 * 1_408.0 / 1_496.0 * (1.0 - LOSS) * 2.0;
        println!("seed {seed}: {:.3} of the limit after headers and losses", bytes as f64 / limit);
        assert!(bytes as f64 >= 0.93 * limit, "seed {seed}: {bytes} bytes of {limit}");
        for (name, before) in NAMES.into_iter().zip(before.1) {
            let share = (delivered(&world, name) - before) as f64 / (RATE_MBIT as f64 * 2e6 / 8.0);
            assert!(share > 0.8, "seed {seed}: {name} carries {share} of its rate");
        }
        assert_eq!(world.application(server).wrong_bytes, 0);
    }
}

#[test]
fn a_link_that_dies_takes_its_own_path_along_and_nothing_else() {
    let mut world = two_members(7);
    let (client, server) = (world.member("client"), world.member("server"));
    world.command(client, Send { to: server, length: 400 * MIB });
    world.run_for(3 * SECOND);
    let dead = link(&world, "lte");
    world.cut_link(Duration::ZERO, dead);
    world.run_for(500 * MS);
    assert_eq!(live(&world), ["dsl", "fibre"]);
    let before = [delivered(&world, "dsl"), delivered(&world, "fibre")];
    world.run_for(4 * SECOND);
    let rates = [delivered(&world, "dsl") - before[0], delivered(&world, "fibre") - before[1]];
    let least = (0.8 * RATE_MBIT as f64 * 4e6 / 8.0) as u64;
    assert!(rates.iter().all(|bytes| *bytes > least), "{rates:?}");
    // The control connections of the other two links stand, and the process is not taken for gone.
    let connected: Vec<(LinkId, bool)> =
        world.node(client).neighbours().map(|neighbour| (neighbour.link, neighbour.is_up)).collect();
    assert_eq!(connected, NAMES.map(|name| (link(&world, name), name != "lte")));
    world.restore_link(Duration::ZERO, dead);
    world.run_for(SECOND);
    let before = delivered(&world, "lte");
    world.run_for(SECOND);
    let share = (delivered(&world, "lte") - before) as f64 / (RATE_MBIT as f64 * 1e6 / 8.0);
    assert!(share > 0.8, "the link that came back carries {share} of its rate");
    assert_eq!((&world.application(client).closed[..], world.application(client).opened.len()), (&[][..], 1));
}

/// The handshake goes over one link, and it may be that one which is dead.
#[test]
fn whichever_link_is_dead_at_the_start_the_session_opens_over_the_others() {
    for dead in NAMES {
        let mut world = two_members(11);
        let dead_link = link(&world, dead);
        world.cut_link(Duration::ZERO, dead_link);
        let took = transfer(&mut world, MIB, 10 * SECOND).expect("it ends");
        println!("{dead} is dead: {took:?}");
        assert!(!live(&world).contains(&dead.to_owned()));
        assert_eq!(live(&world).len(), 2);
    }
}

/// Between client and relay there are two links, and two between relay and server: the plan keeps them apart.
#[test]
fn parallel_links_on_both_sides_of_a_relay_are_crossed_by_separate_paths() {
    let spec = LinkSpec::new(20, 5 * MS);
    let scene = Scene::new().client("client").relay("relay").server("server");
    let scene = ["a", "b"].into_iter().fold(scene, |scene, name| {
        let scene = scene.parallel_link("client", "relay", name, &spec);
        scene.parallel_link("relay", "server", name, &spec)
    });
    let mut world = World::new(&scene, Config::default(), 3, |_: &Overlay, _| Transfer::default());
    transfer(&mut world, 4 * MIB, 10 * SECOND).expect("it ends");
    let mut crossed: Vec<String> =
        paths(&world).iter().map(|path| world.overlay().link_names(&path.links).join(" ")).collect();
    crossed.sort();
    assert_eq!(crossed.len(), 2, "{crossed:?}");
    let mut firsts: Vec<&str> = crossed.iter().filter_map(|names| names.split(' ').next()).collect();
    let mut lasts: Vec<&str> = crossed.iter().filter_map(|names| names.split(' ').next_back()).collect();
    firsts.sort_unstable();
    lasts.sort_unstable();
    assert_eq!((firsts, lasts), (vec!["a", "b"], vec!["a", "b"]), "{crossed:?}");
    // One of the relay's links to the server dies: its path goes, the other one stays.
    let [relay, server] = ["relay", "server"].map(|name| world.member(name));
    let dead = world.overlay().link_named(relay, server, "a").expect("listed");
    world.cut_link(Duration::ZERO, dead);
    world.run_for(2 * SECOND);
    transfer(&mut world, 4 * MIB, 10 * SECOND).expect("it ends over the other one");
    let carrying = paths(&world).into_iter().filter(|path| path.state == PathState::Live);
    assert!(carrying.map(|path| path.links).all(|links| !links.contains(&dead)));
    assert_eq!(world.application(world.member("client")).closed, []);
}
