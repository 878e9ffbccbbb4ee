//! Circuits that are replaced before they expire, in virtual time.

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use common::*;
use fec_transport::overlay::Overlay;
use fec_transport::sim::{LinkSpec, World};
use fec_transport::{Config, PathId, PathState};

const LIFETIME: Duration = Duration::from_secs(10);
const MIB: u64 = 1 << 20;

fn world_of(lifetime: Duration, seed: u64) -> World<Transfer> {
    let mut config = Config::default();
    config.routing.circuit_lifetime = lifetime;
    let link = LinkSpec::new(5, 15 * MS).with_loss(0.01);
    World::new(&parallel_paths(2, &link), config, seed, |_: &Overlay, _| Transfer::default())
}

/// The numbers of the client's paths that carry data.
fn live_paths(world: &World<Transfer>) -> BTreeSet<PathId> {
    let node = world.node(world.member("client"));
    let status = node.sessions().next().and_then(|session| node.session_status(session));
    let paths = status.into_iter().flat_map(|status| status.paths);
    paths.filter(|path| path.state == PathState::Live).map(|path| path.id).collect()
}

/// How many circuits each relay keeps.
fn circuits(world: &World<Transfer>) -> [usize; 2] {
    ["r1", "r2"].map(|relay| world.node(world.member(relay)).table_sizes().0)
}

#[test]
fn circuits_are_replaced_before_they_expire_while_data_flows() {
    let mut world = world_of(LIFETIME, 51);
    let (client, server) = (world.member("client"), world.member("server"));
    world.command(client, Send { to: server, length: 60 * MIB });
    world.run_for(2 * SECOND);
    let mut seen = live_paths(&world);
    for second in 0..5 * LIFETIME.as_secs() {
        let before = world.application(server).received_bytes;
        world.run_for(SECOND);
        assert!(world.application(server).received_bytes > before, "nothing arrives in second {second}");
        let live = live_paths(&world);
        assert!(live.len() >= 2, "{} paths after {second} s", live.len());
        seen.extend(live);
        assert!(circuits(&world).iter().all(|kept| (1..=2).contains(kept)), "{:?}", circuits(&world));
    }
    // Each of the two is replaced at four fifths of its life: six times in five lives.
    assert!((12..=16).contains(&seen.len()), "{seen:?}");
    assert_eq!(world.application(client).opened.len(), 1);
    assert_eq!((world.application(server).wrong_bytes, &world.application(client).closed[..]), (0, &[][..]));
}

#[test]
fn an_idle_session_keeps_its_circuits_alive() {
    let mut world = world_of(LIFETIME, 52);
    transfer(&mut world, MIB, 10 * SECOND).expect("it ends");
    let before = live_paths(&world);
    world.run_for(5 * LIFETIME);
    let after = live_paths(&world);
    assert!(after.len() == 2 && after.is_disjoint(&before), "{before:?} and {after:?}");
    assert_eq!(circuits(&world), [1, 1]);
    transfer(&mut world, MIB, 10 * SECOND).expect("the session goes on");
    assert_eq!(world.application(world.member("client")).opened.len(), 1);
}

#[test]
fn a_route_whose_refresh_fails_goes_on_with_its_old_circuit_and_tries_again() {
    let mut world = world_of(4 * LIFETIME, 53);
    let (client, server) = (world.member("client"), world.member("server"));
    world.command(client, Send { to: server, length: 60 * MIB });
    world.run_for(2 * SECOND);
    let before = live_paths(&world);
    // The refresh is due at 32 s; the link is away at that time, for less than the session's patience.
    let relay = world.member("r1");
    world.cut(29 * SECOND, relay, server);
    world.restore(33 * SECOND, relay, server);
    world.run_for(44 * SECOND);
    let after = live_paths(&world);
    assert!(after.len() == 2 && after.is_disjoint(&before), "{before:?} and {after:?}");
    assert_eq!(circuits(&world), [1, 1]);
    assert_eq!((world.application(server).wrong_bytes, &world.application(client).closed[..]), (0, &[][..]));
}
