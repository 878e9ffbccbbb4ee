//! What a seed of the swarm draws: an overlay, its links, limits, faults, traffic.

use std::time::Duration;

use netsim::{GilbertElliott, LinkModel, LossModel, Probability, Rate, random_stream};
use rand_core::RngCore;

use fec_transport::Class;
use fec_transport::config::Config;
use fec_transport::sim::{LinkSpec, Scene};

/// A stream of draws, all from one seed.
pub(super) struct Draw(Box<dyn RngCore>);

/// Everything about one seed.
pub(super) struct Plan {
    pub(super) scene: Scene,
    pub(super) config: Config,
    pub(super) relays: Vec<String>,
    pub(super) links: Vec<(String, String, LinkSpec)>,
    pub(super) faults: Vec<Fault>,
    /// When all faults are over.
    pub(super) healed_at: Duration,
    /// When a parcel is sent, by which client, and how long it is.
    pub(super) parcels: Vec<(Duration, String, u64, Class)>,
    pub(super) by_blocks: bool,
}

/// A fault and when it begins and ends.
pub(super) struct Fault {
    pub(super) from: Duration,
    pub(super) to: Duration,
    pub(super) kind: FaultKind,
}

pub(super) enum FaultKind {
    /// The link, by its position, is cut.
    Cut(usize),
    /// The member crashes, and is started again.
    Crash(String),
    /// The link is another one in the meantime.
    Reshape(usize, Box<LinkSpec>),
}

impl Draw {
    pub(super) fn new(seed: u64) -> Draw {
        Draw(Box::new(random_stream(seed, &["swarm"])))
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound.max(1)
    }

    fn one_in(&mut self, cases: u64) -> bool {
        self.below(cases) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    pub(super) fn ms(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }

    fn probability(&mut self, choices: &[f64]) -> Probability {
        Probability::new(self.pick(choices)).expect("the choices are probabilities")
    }
}

impl Plan {
    pub(super) fn draw(draw: &mut Draw) -> Plan {
        let clients: Vec<String> = (0..1 + draw.below(2)).map(|number| format!("client{number}")).collect();
        let relays: Vec<String> = (0..1 + draw.below(6)).map(|number| format!("r{number}")).collect();
        let links = links(draw, &clients, &relays);
        let mut scene = clients.iter().fold(Scene::new().server("server"), |scene, name| scene.client(name));
        scene = relays.iter().fold(scene, |scene, name| scene.relay(name));
        scene = links.iter().fold(scene, |scene, (a, b, spec)| scene.link(a, b, spec));
        if draw.one_in(3) {
            scene = scene.with_known_capacities();
        }
        let healed_at = draw.ms(500, 9_000);
        let faults = (0..draw.below(10)).map(|_| fault(draw, healed_at, &links, &relays)).collect();
        let parcels = (0..1 + draw.below(7)).map(|_| {
            let client = clients[draw.below(clients.len() as u64) as usize].clone();
            let magnitude = draw.below(22);
            (draw.ms(0, 10_000), client, draw.below(3 << magnitude), class(draw))
        });
        let mut parcels: Vec<_> = parcels.collect();
        parcels.sort();
        Plan {
            scene,
            config: config(draw),
            relays,
            links,
            faults,
            healed_at,
            parcels,
            by_blocks: draw.one_in(2),
        }
    }
}

fn class(draw: &mut Draw) -> Class {
    match draw.below(4) {
        0 | 1 => Class::Bulk,
        2 => Class::Interactive,
        _ => Class::RealTime { deadline: draw.ms(20, 2_000) },
    }
}

/// Every client has a path over each of some relays, relays are joined by some rungs, and a client perhaps directly to
/// the server.
fn links(draw: &mut Draw, clients: &[String], relays: &[String]) -> Vec<(String, String, LinkSpec)> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for client in clients {
        for (number, relay) in relays.iter().enumerate() {
            if number == 0 || !draw.one_in(4) {
                pairs.push((client.clone(), relay.clone()));
            }
        }
        if draw.one_in(5) {
            pairs.push((client.clone(), "server".to_owned()));
        }
    }
    for (number, relay) in relays.iter().enumerate() {
        if number == 0 || !draw.one_in(4) {
            pairs.push((relay.clone(), "server".to_owned()));
        }
        if number > 0 && draw.one_in(2) {
            pairs.push((relays[number - 1].clone(), relay.clone()));
        }
    }
    pairs.into_iter().map(|(a, b)| (a, b, link(draw, &[0.0, 0.01, 0.05]))).collect()
}

fn link(draw: &mut Draw, losses: &[f64]) -> LinkSpec {
    LinkSpec { a_to_b: model(draw, losses), b_to_a: model(draw, losses) }
}

fn model(draw: &mut Draw, losses: &[f64]) -> LinkModel {
    let rate = Rate::from_mbit(3 + draw.below(50));
    let mut model = LinkModel::new(rate, draw.ms(1, 60)).with_loss(draw.probability(losses));
    if draw.one_in(4) {
        model = model.with_queue_bytes(rate.bytes_in(draw.ms(3, 150)).max(6_000));
    }
    if draw.one_in(4) {
        let bursts = GilbertElliott::bursts(draw.probability(&[0.01, 0.03]), draw.pick(&[3.0, 8.0, 20.0]));
        model = model.with_loss_model(LossModel::GilbertElliott(bursts.expect("such chains exist")));
    }
    if draw.one_in(4) {
        model = model.with_jitter(draw.ms(1, 10));
    }
    if draw.one_in(4) {
        model = model.with_hold_back(draw.probability(&[0.01, 0.1]), draw.ms(1, 40));
    }
    if draw.one_in(4) {
        model = model.with_duplication(draw.probability(&[0.01, 0.2]));
    }
    if draw.one_in(4) {
        model = model.with_corruption(draw.probability(&[0.001, 0.03]));
    }
    model
}

fn fault(
    draw: &mut Draw,
    healed_at: Duration,
    links: &[(String, String, LinkSpec)],
    relays: &[String],
) -> Fault {
    let from = draw.ms(0, healed_at.as_millis() as u64);
    let to = (from + draw.ms(20, 6_000)).min(healed_at);
    let index = draw.below(links.len() as u64) as usize;
    let kind = match draw.below(7) {
        0..3 => FaultKind::Cut(index),
        3 => FaultKind::Crash(relays[draw.below(relays.len() as u64) as usize].clone()),
        4 if draw.one_in(3) => FaultKind::Crash("server".to_owned()),
        _ => FaultKind::Reshape(index, Box::new(link(draw, &[0.0, 0.02, 0.1, 0.3, 0.7]))),
    };
    Fault { from, to, kind }
}

/// Limits from comfortable to tight.
fn config(draw: &mut Draw) -> Config {
    let mut config = Config::default();
    config.coding.symbol_size = draw.pick(&[256, 712, 1_168, 1_408]);
    config.limits.send_buffer = draw.pick(&[64 << 10, 256 << 10, 1 << 20]);
    config.limits.streams = draw.pick(&[4, 16, 128]);
    config.limits.initial_window = draw.pick(&[64 << 10, 128 << 10]);
    // The least that a config allows.
    let aside = 2 * config.limits.streams as usize * config.limits.initial_window as usize;
    config.limits.receive_memory = aside + draw.pick(&[256 << 10, 4 << 20, 64 << 20]);
    config.limits.max_window = draw.pick(&[256 << 10, 1 << 20, 8 << 20]);
    config.limits.open_blocks = draw.pick(&[32, 256, 2_048]);
    config.limits.relay_queue = draw.pick(&[256 << 10, 16 << 20]);
    config.routing.max_paths = draw.pick(&[1, 2, 4, 8]);
    config
}
