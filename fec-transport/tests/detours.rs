//! Links and relays that die under every planned path, while another way exists.

mod common;

use common::*;
use fec_transport::overlay::{MemberId, Overlay};
use fec_transport::plan::plan;
use fec_transport::sim::{LinkSpec, Scene, World};
use fec_transport::{CloseReason, Config, PathState};
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// Two wide paths over the relay r (by b and y, by d and w), and a narrower way over z that the plan leaves out.
fn around() -> Scene {
    let link = LinkSpec::new(20, 10 * MS).with_loss(0.01);
    let relays = ["a", "b", "d", "r", "w", "x", "y", "z"];
    let scene = relays.into_iter().fold(Scene::new().client("client").server("server"), Scene::relay);
    let ends = ["a", "b", "d"].map(|relay| ("client", relay)).into_iter();
    let ends = ends.chain(["w", "x", "y"].map(|relay| (relay, "server")));
    let inner =
        [("a", "r"), ("b", "r"), ("d", "r"), ("a", "z"), ("z", "x"), ("r", "w"), ("r", "x"), ("r", "y")];
    ends.chain(inner).fold(scene, |scene, (a, b)| scene.link(a, b, &link))
}

fn config() -> Config {
    let mut config = Config::default();
    config.routing.max_paths = 2;
    config
}

fn world_with(config: Config, seed: u64) -> World<Transfer> {
    let world = World::new(&around(), config, seed, |_: &Overlay, _| Transfer::default());
    let (client, server, relay) = (world.member("client"), world.member("server"), world.member("r"));
    let planned =
        plan(world.overlay(), client, server, world.node(client).config()).expect("there are routes");
    assert!(planned.len() == 2 && planned.iter().all(|route| route.route.members().contains(&relay)));
    world
}

/// The routes of the client's session that carry data.
fn live_routes(world: &World<Transfer>) -> Vec<Vec<MemberId>> {
    let node = world.node(world.member("client"));
    let status = node.sessions().next().and_then(|session| node.session_status(session));
    let paths = status.map(|status| status.paths).unwrap_or_default();
    paths.into_iter().filter(|path| path.state == PathState::Live).map(|path| path.route).collect()
}

fn is_around(world: &World<Transfer>) -> bool {
    let routes = live_routes(world);
    !routes.is_empty() && routes.iter().all(|route| route.contains(&world.member("z")))
}

#[test]
fn a_relay_under_all_paths_crashes_and_the_transfer_ends_over_another_way() {
    let mut world = world_with(config(), 31);
    let (client, server, relay) = (world.member("client"), world.member("server"), world.member("r"));
    world.command(client, Send { to: server, length: 30 * MIB });
    world.run_for(2 * SECOND);
    world.crash(Duration::ZERO, relay);
    let crashed = world.now();
    let has_detour =
        |world: &World<Transfer>| live_routes(world).iter().any(|route| route.contains(&world.member("z")));
    assert!(world.run_until(2 * SECOND, has_detour));
    println!("another way is there {:?} after the crash", world.now().since(crashed));
    assert!(world.run_until(60 * SECOND, |world| !world.application(client).confirmed.is_empty()));
    assert_eq!(world.application(client).closed, []);
    assert_eq!(world.application(server).wrong_bytes, 0);
}

#[test]
fn when_the_relay_is_back_the_plan_is_restored_and_nothing_is_left_of_the_detour() {
    let mut world = world_with(config(), 32);
    let (client, server, relay) = (world.member("client"), world.member("server"), world.member("r"));
    world.command(client, Send { to: server, length: 200 * MIB });
    world.run_for(2 * SECOND);
    world.crash(Duration::ZERO, relay);
    world.restart(3 * SECOND, relay);
    assert!(world.run_until(4 * SECOND, is_around));
    let over_relay =
        |world: &World<Transfer>| live_routes(world).iter().filter(|route| route.contains(&relay)).count();
    assert!(
        world.run_until(30 * SECOND, |world| over_relay(world) >= 2),
        "the planned routes are set up again"
    );
    assert!(live_routes(&world).iter().any(|route| route.contains(&world.member("z"))), "the detour stays");
    world.run_for(30 * SECOND);
    assert_eq!((over_relay(&world), live_routes(&world).len()), (2, 2));
    for name in ["a", "z"] {
        assert_eq!(world.node(world.member(name)).table_sizes().0, 0, "{name} has no circuit any more");
    }
    assert_eq!(world.application(client).closed, []);
}

#[test]
fn a_link_that_flaps_leaves_no_circuits_behind() {
    let mut world = world_with(config(), 33);
    let (client, server) = (world.member("client"), world.member("server"));
    let (b, r) = (world.member("b"), world.member("r"));
    world.command(client, Send { to: server, length: 200 * MIB });
    for round in 0..6 {
        world.cut(SECOND * (2 + 4 * round), b, r);
        world.restore(SECOND * (4 + 4 * round), b, r);
    }
    world.run_for(60 * SECOND);
    assert_eq!(world.application(client).closed, []);
    for name in ["a", "b", "d", "r", "w", "x", "y", "z", "server"] {
        let (circuits, _) = world.node(world.member(name)).table_sizes();
        assert!(circuits <= 2, "{name} keeps {circuits} circuits");
    }
}

#[test]
fn a_session_opens_around_a_relay_that_is_dead_from_the_start() {
    let mut world = world_with(config(), 34);
    let (client, server, relay) = (world.member("client"), world.member("server"), world.member("r"));
    world.run_for(SECOND);
    world.crash(Duration::ZERO, relay);
    for wait in [0, 10] {
        world.run_for(wait * SECOND);
        world.command(client, Send { to: server, length: MIB });
        let before = world.application(client).confirmed.len();
        assert!(world.run_until(8 * SECOND, |world| world.application(client).confirmed.len() > before));
    }
    assert_eq!(world.application(client).closed, []);
}

#[test]
fn it_can_be_switched_off() {
    let mut config = config();
    config.routing.replan = false;
    config.liveness.patience = 4 * SECOND;
    let mut world = world_with(config, 35);
    let (client, server, relay) = (world.member("client"), world.member("server"), world.member("r"));
    world.command(client, Send { to: server, length: 30 * MIB });
    world.run_for(2 * SECOND);
    world.crash(Duration::ZERO, relay);
    world.run_for(7 * SECOND);
    assert_eq!(world.application(client).closed.iter().map(CloseReason::silence).max(), Some(4 * SECOND));
}
