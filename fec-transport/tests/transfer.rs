//! Whole transfers in virtual time: over lossy paths, a link that dies, a relay that crashes.

mod common;

use common::*;
use fec_transport::overlay::MemberId;
use fec_transport::sim::{LinkSpec, Scene, World};
use fec_transport::{CloseReason, PathState, Time, payload_share};
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// Application bytes per second over what the links of all paths allow: rate × (1 − loss)² × T/(T + H).
fn share_of_limit(bytes: u64, took: Duration, paths: f64, rate_mbit: f64, loss: f64) -> f64 {
    let limit = paths * rate_mbit * 1e6 * (1.0 - loss) * (1.0 - loss) * payload_share(1_384);
    bytes as f64 * 8.0 / took.as_secs_f64() / limit
}

#[test]
fn streams_arrive_whole_at_a_good_part_of_the_links_rate_whatever_the_loss() {
    for (paths, loss, at_least) in
        [(1, 0.0, 0.7), (3, 0.02, 0.7), (3, 0.1, 0.6), (8, 0.05, 0.6), (2, 0.2, 0.4)]
    {
        let link = LinkSpec::new(20, 15 * MS).with_loss(loss);
        let mut world = world(&parallel_paths(paths, &link), 7);
        let bytes = paths as u64 * 12 * MIB;
        let took = transfer(&mut world, bytes, 120 * SECOND).expect("it ends");
        let share = share_of_limit(bytes, took, paths as f64, 20.0, loss);
        println!("{paths} paths, loss {loss}: {took:?}, {share:.2} of the limit");
        assert!(share >= at_least, "{share} with {paths} paths at loss {loss}");
    }
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    let run = |seed| {
        let link = LinkSpec::new(30, 10 * MS).with_loss(0.03);
        let mut world = world(&parallel_paths(3, &link), seed);
        let relay = world.member("r2");
        world.crash(SECOND, relay);
        world.restart(2 * SECOND, relay);
        transfer(&mut world, 10 * MIB, 60 * SECOND).expect("it ends");
        world.trace_hash()
    };
    assert_eq!(run(11), run(11));
    assert_ne!(run(11), run(12));
}

#[test]
fn a_link_that_dies_is_not_felt_for_long_and_carries_again_when_it_returns() {
    let link = LinkSpec::new(20, 10 * MS).with_loss(0.01);
    let mut world = world(&parallel_paths(4, &link), 3);
    let (client, server, relay) = (world.member("client"), world.member("server"), world.member("r2"));
    world.command(client, Send { to: server, length: 60 * MIB });
    world.run_for(2 * SECOND);
    let from = world.now();
    world.cut(Duration::ZERO, client, relay);
    world.run_for(2 * SECOND);
    let gap = longest_gap(&world, server, from);
    println!("longest gap {gap:?}");
    // A round trip of 40 ms and its queues, 60 ms of silence, a block's 100 ms at three quarters of the rate.
    assert!(gap <= 250 * MS, "{gap:?}");
    let path_over_relay = |world: &World<Transfer>| {
        let session = world.node(client).sessions().next().expect("one is open");
        let paths = world.node(client).session_status(session).expect("it is open").paths;
        paths.into_iter().find(|path| path.route.contains(&relay)).expect("the path is kept")
    };
    assert!(matches!(path_over_relay(&world).state, PathState::Dead { .. }));
    let before = path_over_relay(&world).counters.source_symbols;
    world.restore(Duration::ZERO, client, relay);
    world.run_for(SECOND);
    assert_eq!(path_over_relay(&world).state, PathState::Live);
    assert!(path_over_relay(&world).counters.source_symbols > before + 500, "it carries data again");
    assert!(world.run_until(60 * SECOND, |world| !world.application(client).confirmed.is_empty()));
    assert_eq!(world.application(server).wrong_bytes, 0);
}

fn longest_gap(world: &World<Transfer>, member: MemberId, from: Time) -> Duration {
    let node = world.node(member);
    let sessions = node.sessions().filter_map(|session| node.session_status(session));
    sessions.map(|status| status.delivery.longest_gap(from, world.now())).max().unwrap_or_default()
}

#[test]
fn a_relay_that_crashes_takes_its_path_along_until_it_is_back() {
    let link = LinkSpec::new(20, 10 * MS).with_loss(0.01);
    let mut world = world(&parallel_paths(3, &link), 4);
    let (client, server, relay) = (world.member("client"), world.member("server"), world.member("r3"));
    world.command(client, Send { to: server, length: 60 * MIB });
    world.run_for(2 * SECOND);
    world.crash(Duration::ZERO, relay);
    world.restart(3 * SECOND, relay);
    assert!(world.run_until(120 * SECOND, |world| !world.application(client).confirmed.is_empty()));
    assert_eq!(world.application(server).wrong_bytes, 0);
    let session = world.node(client).sessions().next().expect("one is open");
    let paths = world.node(client).session_status(session).expect("it is open").paths;
    let again = paths.iter().find(|path| path.route.contains(&relay)).expect("a new circuit was set up");
    assert!(again.state == PathState::Live && again.counters.source_symbols > 1000, "{again:?}");
}

#[test]
fn all_links_may_fail_for_a_while() {
    let link = LinkSpec::new(20, 10 * MS).with_loss(0.01);
    let mut world = world(&parallel_paths(2, &link), 5);
    let (client, server) = (world.member("client"), world.member("server"));
    world.command(client, Send { to: server, length: 20 * MIB });
    for relay in ["r1", "r2"].map(|name| world.member(name)) {
        world.cut(SECOND, client, relay);
        world.restore(4 * SECOND, client, relay);
    }
    assert!(world.run_until(60 * SECOND, |world| !world.application(client).confirmed.is_empty()));
    assert_eq!(world.application(client).closed, []);
}

#[test]
fn streams_may_be_read_by_blocks_and_many_run_at_once() {
    let link = LinkSpec::new(30, 5 * MS).with_loss(0.05);
    let mut world = world(&parallel_paths(2, &link), 6);
    let (client, server) = (world.member("client"), world.member("server"));
    world.act(server, |_, _, application| application.by_blocks = true);
    transfer(&mut world, 1000, 10 * SECOND).expect("it ends");
    let lengths = (0..40).map(|number| number * number * 500);
    lengths.for_each(|length| world.command(client, Send { to: server, length }));
    assert!(world.run_until(60 * SECOND, |world| world.application(client).confirmed.len() == 41));
    assert_eq!(world.application(server).wrong_bytes, 0);
}

#[test]
fn a_server_that_crashes_is_missed_within_seconds_and_when_it_is_back_the_session_ends_and_a_new_one_opens() {
    let link = LinkSpec::new(20, 10 * MS);
    let mut world = world(&parallel_paths(2, &link), 8);
    let (client, server) = (world.member("client"), world.member("server"));
    world.command(client, Send { to: server, length: 100 * MIB });
    world.run_for(2 * SECOND);
    world.crash(Duration::ZERO, server);
    assert!(world.run_until(5 * SECOND, |world| world.application(client).silences == [true]));
    world.run_for(3 * SECOND);
    assert_eq!(world.application(client).closed, []);
    world.restart(Duration::ZERO, server);
    assert!(world.run_until(3 * SECOND, |world| !world.application(client).closed.is_empty()));
    assert_eq!(world.application(client).closed, [CloseReason::Forgotten]);
    transfer(&mut world, MIB, 10 * SECOND).expect("a new session works");
}

#[test]
fn a_member_that_does_not_answer_is_given_up_with_a_reason() {
    let link = LinkSpec::new(20, 10 * MS);
    let mut world = world(&parallel_paths(2, &link), 9);
    let (client, server) = (world.member("client"), world.member("server"));
    world.crash(Duration::ZERO, server);
    world.run_for(4 * SECOND);
    world.command(client, Send { to: server, length: 1 });
    assert!(world.run_until(10 * SECOND, |world| !world.application(client).closed.is_empty()));
    let reason = world.application(client).closed[0].to_string();
    assert!(reason.ends_with(": server is not connected to me"), "{reason}");
}

#[test]
fn shared_links_and_long_routes_work_too() {
    let link = LinkSpec::new(20, 5 * MS).with_loss(0.02);
    let scene =
        Scene::new().client("client").relay("r1").relay("r2").relay("r3").relay("r4").server("server");
    let links = [("client", "r1"), ("client", "r2"), ("r1", "r3"), ("r2", "r3"), ("r3", "r4"), ("r2", "r4")];
    let ends = [("r3", "server"), ("r4", "server")];
    let scene = links.into_iter().chain(ends).fold(scene, |scene, (a, b)| scene.link(a, b, &link));
    let mut world = world(&scene, 10);
    transfer(&mut world, 10 * MIB, 60 * SECOND).expect("it ends");
}
