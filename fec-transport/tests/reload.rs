//! A newer overlay file in running nodes: members that are not listed any more are cut off, all others notice nothing.

mod common;

use common::*;
use fec_transport::overlay::{MemberId, Overlay, SuccessionError};
use fec_transport::sim::{LinkSpec, Scene, World};
use fec_transport::{CloseReason, Config, ConnectError, PathId, PathState};

const MIB: u64 = 1 << 20;

/// Two clients, each with a way of its own and one over r2, to the server.
fn scene() -> Scene {
    let link = LinkSpec::new(20, 10 * MS).with_loss(0.01);
    let members = Scene::new().client("client").client("other").server("server");
    let relays = ["r1", "r2", "r3"].into_iter().fold(members, Scene::relay);
    [("client", "r1"), ("client", "r2"), ("other", "r2"), ("other", "r3")]
        .into_iter()
        .chain(["r1", "r2", "r3"].map(|relay| (relay, "server")))
        .fold(relays, |scene, (a, b)| scene.link(a, b, &link))
}

/// Both clients send more than they can within the test.
fn flowing(seed: u64) -> World<Transfer> {
    let mut config = Config::default();
    config.routing.restore_after = 2 * SECOND;
    let mut world = World::new(&scene(), config, seed, |_: &Overlay, _| Transfer::default());
    let server = world.member("server");
    for name in ["client", "other"] {
        world.command(world.member(name), Send { to: server, length: 400 * MIB });
    }
    world.run_for(3 * SECOND);
    assert!(["client", "other"].iter().all(|name| paths(&world, name).len() == 2), "both use two paths");
    world
}

/// The paths of a client's session that carry data: number and relay.
fn paths(world: &World<Transfer>, client: &str) -> Vec<(PathId, String)> {
    let node = world.node(world.member(client));
    let status = node.sessions().next().and_then(|session| node.session_status(session));
    let live = status.into_iter().flat_map(|status| status.paths);
    let live = live.filter(|path| path.state == PathState::Live);
    live.map(|path| (path.id, world.overlay().name(path.route[1]))).collect()
}

/// What a member's peers have acknowledged of its only session.
fn acknowledged(world: &World<Transfer>, name: &str) -> u64 {
    let node = world.node(world.member(name));
    let status = node.sessions().next().and_then(|session| node.session_status(session));
    status.map_or(0, |status| status.acknowledged.bytes)
}

/// What the server has received from a client's session.
fn received(world: &World<Transfer>, client: MemberId) -> Option<u64> {
    let node = world.node(world.member("server"));
    let statuses = node.sessions().filter_map(|session| node.session_status(session));
    statuses.into_iter().find(|status| status.peer.member == client).map(|status| status.delivery.bytes)
}

fn reload(world: &mut World<Transfer>, names: &[&str], gone: &[&str]) {
    let (newer, _) = scene().next_without(gone).overlay();
    for name in names {
        world.reload(world.member(name), &newer).expect("it is newer");
    }
}

#[test]
fn a_removed_members_flow_stops_at_once_and_another_goes_on() {
    let mut world = flowing(51);
    let (client, other, server) = (world.member("client"), world.member("other"), world.member("server"));
    let kept = paths(&world, "other");
    reload(&mut world, &["server", "r1", "r2", "r3", "other"], &["client"]);
    assert!(received(&world, client).is_none(), "its session at the server is gone");
    let at_reload = received(&world, other).expect("the other one's is there");
    let forwarded = |world: &World<Transfer>| world.node(world.member("r1")).datagram_counters().forwarded;
    let (before, dropped) = (forwarded(&world), world.node(world.member("r1")).datagram_counters());
    world.run_for(SECOND);
    assert_eq!(forwarded(&world), before, "the relay that only it used forwards nothing any more");
    let after = world.node(world.member("r1")).datagram_counters();
    assert!(after.unknown_label > dropped.unknown_label, "what was on its way is dropped");
    assert_eq!(world.node(world.member("r1")).table_sizes().0, 0);
    assert_eq!(paths(&world, "other"), kept, "the same paths, which were never set up anew");
    assert!(received(&world, other).expect("it is there") > at_reload + MIB);
    assert_eq!(world.application(other).closed, []);
    assert_eq!(world.application(server).closed, [CloseReason::Revoked(2)]);
    // It hears nothing any more, and has patience.
    world.run_for(70 * SECOND);
    assert_eq!(world.application(other).closed, []);
    assert!(!world.application(client).closed.is_empty(), "it learns that it is over");
    assert!(received(&world, client).is_none(), "and does not get in again");
}

#[test]
fn a_relay_alone_cuts_off_what_its_file_does_not_list() {
    let mut world = flowing(52);
    reload(&mut world, &["r1"], &["client"]);
    let relay = world.node(world.member("r1"));
    assert_eq!((relay.table_sizes().0, relay.neighbour_count()), (0, 1));
    world.run_for(SECOND);
    assert!(paths(&world, "client").iter().all(|(_, relay)| relay == "r2"), "{:?}", paths(&world, "client"));
    assert_eq!(world.application(world.member("client")).closed, [], "the way over r2 still carries it");
}

#[test]
fn a_removed_relay_is_left_and_one_that_is_added_is_used_without_a_new_session() {
    let mut world = flowing(53);
    let everybody = ["client", "other", "server", "r1", "r3"];
    let (before, acknowledged_before) = (paths(&world, "client"), acknowledged(&world, "client"));
    reload(&mut world, &everybody, &["r2"]);
    world.run_for(2 * SECOND);
    let left: Vec<_> = before.iter().filter(|(_, relay)| relay == "r1").cloned().collect();
    assert_eq!(paths(&world, "client"), left, "the path over r1 is the same as before");
    assert!(acknowledged(&world, "client") > acknowledged_before + MIB);

    let (third, _) = scene().next_without(&[]).next_without(&[]).overlay();
    for name in everybody {
        let change = world.reload(world.member(name), &third).expect("it is newer");
        assert_eq!((change.serial, change.added, change.links_added), (3, vec!["r2".to_owned()], 3));
    }
    // r2 was never told and still runs; its links are up again when its neighbours say so.
    for (a, b) in [("client", "r2"), ("other", "r2"), ("r2", "server")] {
        let (a, b) = (world.member(a), world.member(b));
        world.cut(100 * MS, a, b);
        world.restore(4 * SECOND, a, b);
    }
    let both =
        |world: &World<Transfer>| paths(world, "client").len() == 2 && paths(world, "other").len() == 2;
    assert!(world.run_until(20 * SECOND, both), "{:?}", paths(&world, "client"));
    assert!(paths(&world, "client").contains(&left[0]), "the path over r1 is still the same");
    for name in ["client", "other", "server"] {
        assert_eq!(world.application(world.member(name)).closed, []);
    }
}

#[test]
fn a_session_to_a_removed_member_ends_with_the_reason_and_none_is_opened_again() {
    let mut world = flowing(54);
    let (client, server) = (world.member("client"), world.member("server"));
    reload(&mut world, &["client"], &["server"]);
    assert_eq!(world.application(client).closed, [CloseReason::Revoked(2)]);
    assert_eq!(world.node(client).table_sizes().0, 0);
    let refused = world.act(client, |now, node, _| node.connect(now, server));
    assert_eq!(refused, Err(ConnectError::NoMember(server.0)));
}

#[test]
fn a_member_that_was_removed_is_not_heard_when_it_connects_again() {
    let mut world = flowing(55);
    let (client, relay) = (world.member("client"), world.member("r1"));
    reload(&mut world, &["r1"], &["client"]);
    world.cut(100 * MS, client, relay);
    world.restore(4 * SECOND, client, relay);
    world.run_for(10 * SECOND);
    let node = world.node(relay);
    assert_eq!((node.table_sizes(), node.neighbour_count()), ((0, 0), 1), "the server alone is there");
}

#[test]
fn an_old_file_and_one_without_this_member_are_refused_and_change_nothing() {
    let mut world = flowing(56);
    let relay = world.member("r1");
    let sizes = world.node(relay).table_sizes();
    let same = scene().overlay().0;
    assert_eq!(world.reload(relay, &same), Err(SuccessionError::NotNewer { offered: 1, in_use: 1 }));
    let without = scene().next_without(&["r1"]).overlay().0;
    assert_eq!(world.reload(relay, &without), Err(SuccessionError::NotListed("r1".to_owned())));
    assert_eq!((world.node(relay).overlay().serial, world.node(relay).table_sizes()), (1, sizes));
}
