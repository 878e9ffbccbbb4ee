//! Keys that are renewed while data flows, in virtual time.

mod common;

use common::*;
use fec_transport::overlay::Overlay;
use fec_transport::sim::{LinkSpec, World};
use fec_transport::{Config, PathState};
use std::time::Duration;

const MIB: u64 = 1 << 20;

fn world_with(epoch: Duration, epoch_packets: u64, paths: usize, link: &LinkSpec) -> World<Transfer> {
    let mut config = Config::default();
    config.sealing.epoch = epoch;
    config.sealing.epoch_packets = epoch_packets;
    World::new(&parallel_paths(paths, link), config, 21, |_: &Overlay, _| Transfer::default())
}

fn epochs(world: &World<Transfer>) -> [u32; 2] {
    ["client", "server"].map(|name| {
        let node = world.node(world.member(name));
        let session = node.sessions().next().expect("one is open");
        node.session_status(session).expect("it is open").epoch
    })
}

#[test]
fn new_keys_do_not_interrupt_the_flow_whatever_is_lost() {
    for loss in [0.0, 0.05, 0.2] {
        let link = LinkSpec::new(20, 15 * MS).with_loss(loss);
        let took = [3600 * SECOND, 300 * MS].map(|epoch| {
            let mut world = world_with(epoch, 1 << 27, 3, &link);
            let took = transfer(&mut world, 24 * MIB, 60 * SECOND).expect("it ends");
            let [client, server] = epochs(&world);
            let expected = (took.as_secs_f64() / epoch.as_secs_f64()) as u32;
            assert!(client.abs_diff(server) <= 1, "{client} and {server}");
            // A handshake takes a round trip or two, more where its packets are lost, and the next epoch waits until
            // the one before is forgotten.
            let least = if loss < 0.1 { expected / 2 } else { expected / 3 };
            assert!(client <= expected && client >= least, "{client} epochs, {expected} expected");
            took
        });
        let ratio = took[1].as_secs_f64() / took[0].as_secs_f64();
        println!("loss {loss}: {took:?}, {ratio:.3}");
        // At 20 % loss the rate itself varies by some per cent from run to run.
        assert!(ratio < 1.15, "loss {loss}: with new keys every 300 ms it takes {ratio} times as long");
    }
}

#[test]
fn so_many_packets_of_either_direction_use_a_key_up() {
    let link = LinkSpec::new(20, 10 * MS).with_loss(0.02);
    let mut world = world_with(3600 * SECOND, 2_000, 2, &link);
    transfer(&mut world, 20 * MIB, 60 * SECOND).expect("it ends");
    let [up, _] = epochs(&world);
    assert!(up >= 5, "{up}");
    // The server as the sender: it seals the packets, the client counts them and asks.
    let (client, server) = (world.member("client"), world.member("server"));
    world.act(server, |now, node, application| {
        let session = node.sessions().next().expect("one is open");
        application.start(now, node, session, 20 * MIB);
    });
    assert!(world.run_until(60 * SECOND, |world| !world.application(server).confirmed.is_empty()));
    assert_eq!(world.application(client).wrong_bytes, 0);
    let [down, _] = epochs(&world);
    assert!(down >= up + 5, "{up}, then {down}");
}

#[test]
fn a_handshake_outlives_the_path_that_carries_it() {
    let link = LinkSpec::new(20, 20 * MS).with_loss(0.01);
    let mut world = world_with(400 * MS, 1 << 27, 2, &link);
    let (client, server) = (world.member("client"), world.member("server"));
    world.command(client, Send { to: server, length: 40 * MIB });
    // Relays crash in turn, at ever other places of an epoch.
    for round in 0..12u32 {
        let relay = world.member(if round % 2 == 0 { "r1" } else { "r2" });
        let live = |world: &World<Transfer>| {
            let node = world.node(client);
            let status = node.sessions().next().and_then(|session| node.session_status(session));
            status.map_or(0, |status| status.paths.iter().filter(|p| p.state == PathState::Live).count())
        };
        assert!(world.run_until(20 * SECOND, |world| live(world) == 2), "round {round}");
        world.run_for(MS * (17 * round));
        let before = epochs(&world)[0];
        world.crash(Duration::ZERO, relay);
        world.run_for(1500 * MS);
        assert!(epochs(&world)[0] > before, "round {round}: the other path carries the handshake");
        world.restart(Duration::ZERO, relay);
    }
    assert!(world.run_until(60 * SECOND, |world| !world.application(client).confirmed.is_empty()));
    assert_eq!(world.application(client).closed, []);
    assert_eq!(world.application(server).wrong_bytes, 0);
}

#[test]
fn replayed_packets_of_older_epochs_change_nothing() {
    let link = LinkSpec::new(20, 10 * MS);
    let mut world = world_with(200 * MS, 1 << 27, 1, &link);
    let (client, server, relay) = (world.member("client"), world.member("server"), world.member("r1"));
    world.command(client, Send { to: server, length: 10 * MIB });
    world.run_for(500 * MS);
    world.tap(relay, server);
    world.run_for(600 * MS);
    let captured = world.take_tapped();
    let before = epochs(&world);
    for datagram in captured {
        world.inject(relay, server, datagram);
    }
    assert!(world.run_until(60 * SECOND, |world| !world.application(client).confirmed.is_empty()));
    assert!(epochs(&world)[1] > before[1]);
    assert_eq!(world.application(client).closed, []);
    assert_eq!(world.application(server).wrong_bytes, 0);
}

#[test]
fn an_idle_session_gets_new_keys_too() {
    let mut world = world_with(SECOND, 1 << 27, 1, &LinkSpec::new(20, 10 * MS));
    transfer(&mut world, 1000, 10 * SECOND).expect("it ends");
    world.run_for(20 * SECOND);
    let [client, server] = epochs(&world);
    // Idle, only the probe of each second shows the responder that its answer has arrived.
    assert!(client >= 7 && client.abs_diff(server) <= 1, "{client} and {server}");
    transfer(&mut world, MIB, 10 * SECOND).expect("the session goes on");
    assert_eq!(world.application(world.member("client")).opened.len(), 1);
}
