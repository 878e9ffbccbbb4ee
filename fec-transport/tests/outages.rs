//! Outages of everything, in virtual time: the session keeps its streams and goes on, and sends little in vain.

mod common;

use std::time::Duration;

use common::*;
use fec_transport::overlay::{MemberId, Overlay};
use fec_transport::sim::{LinkSpec, Scene, World};
use fec_transport::{Config, SessionStatus, payload_share};

const MIB: u64 = 1 << 20;
const RATE_MBIT: u64 = 50;
const ROUND_TRIPS_MS: [u64; 3] = [50, 80, 30];
const SYMBOL_BYTES: usize = 1_384;

/// Three paths of 50 Mbit/s, 2 % loss on each of their two links.
fn three_paths(config: Config, seed: u64) -> World<Transfer> {
    let mut scene = Scene::new().client("client").server("server");
    for (index, round_trip) in ROUND_TRIPS_MS.into_iter().enumerate() {
        let relay = format!("r{}", index + 1);
        let link = LinkSpec::new(RATE_MBIT, MS * round_trip as u32 / 4).with_loss(0.02);
        scene = scene.relay(&relay).link("client", &relay, &link).link(&relay, "server", &link);
    }
    World::new(&scene, config, seed, |_: &Overlay, _| Transfer::default())
}

fn relays(world: &World<Transfer>) -> [MemberId; 3] {
    ["r1", "r2", "r3"].map(|name| world.member(name))
}

fn status(world: &World<Transfer>) -> SessionStatus {
    let node = world.node(world.member("client"));
    let session = node.sessions().next().expect("one is open");
    node.session_status(session).expect("it is open")
}

/// How long a transfer takes whose links are all out for so long after two seconds, and how many symbols it sends.
fn transfer_through(outage: Duration, seed: u64) -> (Duration, u64) {
    let mut world = three_paths(Config::default(), seed);
    let client = world.member("client");
    world.run_for(100 * MS);
    if outage > Duration::ZERO {
        for relay in relays(&world) {
            world.cut(2 * SECOND, client, relay);
            world.restore(2 * SECOND + outage, client, relay);
        }
    }
    let took = transfer(&mut world, 60 * MIB, outage + 30 * SECOND).expect("it ends");
    let application = world.application(client);
    assert_eq!((&application.closed[..], application.opened.len()), (&[][..], 1), "one session carries all");
    let sent = status(&world).sent;
    (took, sent.source_symbols + sent.redundancy_symbols + sent.repair_symbols)
}

/// What the paths hold, in symbols.
fn delay_product() -> f64 {
    let bits: u64 = ROUND_TRIPS_MS.iter().map(|round_trip| RATE_MBIT * 1_000 * round_trip).sum();
    bits as f64 / 8.0 / SYMBOL_BYTES as f64
}

#[test]
fn a_transfer_goes_on_by_itself_after_outages_of_all_links_and_sends_little_twice() {
    for seed in 1..=4 {
        let (undisturbed, symbols) = transfer_through(Duration::ZERO, seed);
        for outage in [300 * MS, SECOND, 5 * SECOND, 30 * SECOND, 59 * SECOND] {
            let (took, sent) = transfer_through(outage, seed);
            let late = took.saturating_sub(undisturbed + outage);
            let more = (sent as f64 - 1.02 * symbols as f64) / delay_product();
            println!("seed {seed}, {outage:?}: {late:?} late, beyond 2 % {more:.2} of what the paths hold");
            assert!(late <= 2 * SECOND, "{outage:?}: {late:?}");
            assert!(more <= 2.0, "{outage:?}: {sent} symbols, {symbols} without an outage");
        }
    }
}

#[test]
fn an_outage_is_told_after_four_seconds_and_its_end_too() {
    let mut world = three_paths(Config::default(), 4);
    let (client, server) = (world.member("client"), world.member("server"));
    transfer(&mut world, MIB, 10 * SECOND).expect("it ends");
    for relay in relays(&world) {
        world.cut(Duration::ZERO, client, relay);
        world.restore(20 * SECOND, client, relay);
    }
    world.run_for(3_900 * MS);
    assert_eq!(world.application(client).silences, [false; 0]);
    world.run_for(1_200 * MS);
    assert_eq!(
        (&world.application(client).silences[..], &world.application(server).silences[..]),
        (&[true][..], &[true][..])
    );
    world.run_for(16 * SECOND);
    for end in [client, server] {
        assert_eq!(world.application(end).silences, [true, false]);
    }
}

#[test]
fn after_the_patience_the_session_ends_and_says_what_was_tried_and_for_how_long() {
    let mut world = three_paths(Config::default(), 5);
    let (client, server) = (world.member("client"), world.member("server"));
    world.command(client, Send { to: server, length: 40 * MIB });
    world.run_for(SECOND);
    relays(&world).into_iter().for_each(|relay| world.cut(Duration::ZERO, client, relay));
    world.run_for(59 * SECOND);
    assert_eq!(world.application(client).closed, []);
    world.run_for(2 * SECOND);
    let closed: Vec<String> = world.application(client).closed.iter().map(ToString::to_string).collect();
    assert!(closed[0].starts_with("nothing was heard from it for 60s; "), "{closed:?}");
    assert!(closed[0].ends_with(" probes over 3 paths were not answered"), "{closed:?}");
    let probes: u64 = closed[0].split(' ').find_map(|word| word.parse().ok()).expect("a number");
    assert!((400..1_000).contains(&probes), "{closed:?}");
    assert_eq!(world.application(server).closed.len(), 1, "its other end has gone, too");
}

/// Relays that forget circuits earlier than sessions end: they are set up anew, and the session goes on.
#[test]
fn a_session_goes_on_over_new_circuits_where_the_old_ones_were_forgotten() {
    let mut config = Config::default();
    config.routing.neighbour_patience = 10 * SECOND;
    let mut world = three_paths(config, 6);
    let (client, server) = (world.member("client"), world.member("server"));
    world.command(client, Send { to: server, length: 40 * MIB });
    for relay in relays(&world) {
        for end in [client, server] {
            world.cut(SECOND, end, relay);
            world.restore(41 * SECOND, end, relay);
        }
    }
    world.run_for(40 * SECOND);
    assert!(world.run_until(15 * SECOND, |world| !world.application(client).confirmed.is_empty()));
    assert_eq!((&world.application(client).closed[..], world.application(client).opened.len()), (&[][..], 1));
    assert_eq!(world.application(server).wrong_bytes, 0);
}

/// As long as anything is heard of the peer, nobody who only carries its messages ends a session.
#[test]
fn one_link_that_flaps_costs_a_session_nothing_but_its_share() {
    for period in [300 * MS, SECOND, 5 * SECOND] {
        let mut world = three_paths(Config::default(), 7);
        let (client, server, relay) = (world.member("client"), world.member("server"), world.member("r1"));
        world.command(client, Send { to: server, length: 1_000 * MIB });
        world.run_for(3 * SECOND);
        let (from, before) = (world.now(), world.application(server).received_bytes);
        for round in 0..(20_000 / period.as_millis() as u32 / 2) {
            world.cut(period * 2 * round, client, relay);
            world.restore(period * (2 * round + 1), client, relay);
        }
        world.run_for(20 * SECOND);
        let bytes = world.application(server).received_bytes - before;
        let mbit = bytes as f64 * 8e-6 / world.now().since(from).as_secs_f64();
        let others = 2.0 * RATE_MBIT as f64 * 0.98 * 0.98 * payload_share(SYMBOL_BYTES);
        println!("{period:?}: {mbit:.1} Mbit/s, the other two links carry {others:.1}");
        assert!(mbit >= 0.9 * others, "{period:?}: {mbit} Mbit/s of {others}");
        assert_eq!(world.application(client).silences, [false; 0]);
    }
}
