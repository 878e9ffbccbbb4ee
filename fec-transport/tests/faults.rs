//! Random overlays with random faults: nothing that arrives is wrong while they last, and everything arrives after them.
//!
//! A failing seed is replayed with `FAULTS_SEED=n cargo test -p fec-transport --test faults -- --nocapture`; more seeds
//! are run with `FAULTS_SEEDS=n`.

mod common;

use common::*;
use fec_transport::overlay::MemberId;
use fec_transport::sim::{LinkSpec, Scene, World};
use netsim::random_stream;
use rand_core::RngCore as _;
use std::time::Duration;

const SEEDS: u64 = 40;

struct Draw(Box<dyn FnMut() -> u64>);

impl Draw {
    fn new(seed: u64) -> Draw {
        let mut stream = random_stream(seed, &["faults"]);
        Draw(Box::new(move || stream.next_u64()))
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.0)() % bound
    }

    fn span(&mut self, from: u64, to: u64) -> Duration {
        MS * u32::try_from(from + self.below(to - from)).expect("short spans")
    }
}

fn link(draw: &mut Draw) -> LinkSpec {
    let loss = [0.0, 0.01, 0.05, 0.15][draw.below(4) as usize];
    LinkSpec::new(5 + draw.below(45), draw.span(1, 40)).with_loss(loss)
}

/// A client and a server joined by a ladder of relays with some rungs.
fn scene(draw: &mut Draw) -> (Scene, Vec<(String, String)>) {
    let mut scene = Scene::new().client("client").server("server");
    let mut links = Vec::new();
    let relays = 2 + draw.below(4);
    for number in 0..relays {
        scene = scene.relay(&format!("r{number}"));
        links.push(("client".to_owned(), format!("r{number}")));
        links.push((format!("r{number}"), "server".to_owned()));
        if number > 0 && draw.below(2) == 0 {
            links.push((format!("r{}", number - 1), format!("r{number}")));
        }
    }
    let scene = links.iter().fold(scene, |scene, (a, b)| scene.link(a, b, &link(draw)));
    (scene, links)
}

fn trouble(draw: &mut Draw, world: &mut World<Transfer>, links: &[(String, String)]) {
    for _ in 0..draw.below(6) {
        let (at, length) = (draw.span(0, 6000), draw.span(50, 6000));
        if draw.below(3) == 0 {
            let relay = world.member(&format!("r{}", draw.below(2)));
            world.crash(at, relay);
            world.restart(at + length, relay);
        } else {
            let (a, b) = &links[draw.below(links.len() as u64) as usize];
            let (a, b) = (world.member(a), world.member(b));
            world.cut(at, a, b);
            world.restore(at + length, a, b);
        }
    }
}

fn run(seed: u64) -> String {
    let mut draw = Draw::new(seed);
    let (scene, links) = scene(&mut draw);
    let mut world = world(&scene, seed);
    let (client, server) = (world.member("client"), world.member("server"));
    let by_blocks = draw.below(2) == 0;
    world.act(server, |_, _, application| application.by_blocks = by_blocks);
    trouble(&mut draw, &mut world, &links);
    let lengths: Vec<u64> = (0..1 + draw.below(6))
        .map(|_| {
            let magnitude = draw.below(22);
            draw.below(3 << magnitude)
        })
        .collect();
    for length in &lengths {
        world.run_for(draw.span(0, 1500));
        send(&mut world, client, server, *length);
    }
    let all_confirmed = |world: &World<Transfer>| world.application(client).confirmed.len() >= lengths.len();
    let mut tries = 0;
    while !world.run_until(120 * SECOND, |world| all_confirmed(world) || has_closed(world, client))
        || !all_confirmed(&world)
    {
        // A session may end when all of its paths were gone for long; the application then begins anew.
        assert!(has_closed(&world, client) && tries < 5, "seed {seed}: stuck");
        tries += 1;
        world.act(client, |_, _, application| application.forget());
        world.run_for(8 * SECOND);
        lengths.iter().for_each(|length| send(&mut world, client, server, *length));
    }
    assert_eq!(world.application(server).wrong_bytes, 0, "seed {seed}");
    world.trace_hash()
}

fn send(world: &mut World<Transfer>, client: MemberId, server: MemberId, length: u64) {
    if !has_closed(world, client) {
        world.command(client, Send { to: server, length });
    }
}

fn has_closed(world: &World<Transfer>, client: MemberId) -> bool {
    !world.application(client).closed.is_empty()
}

#[test]
fn whatever_fails_for_a_while_nothing_wrong_arrives_and_in_the_end_everything_does() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("FAULTS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FAULTS_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        run(seed);
    }
}
