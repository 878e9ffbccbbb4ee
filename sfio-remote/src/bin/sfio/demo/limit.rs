//! What the emulated links allow: the largest equal rate to all I/O nodes at once.

use fec_transport::{Config, payload_share};
use good_lp::{Expression, ProblemVariables, Solution as _, SolverModel as _, Variable, microlp, variable};

use super::scene::Scene;

/// Application bit/s from the client to all I/O nodes together when each gets the same rate; `None` if one of them is
/// out of reach.
///
/// A linear program over what each link carries for each I/O node: a link delivers its flow times (1 − loss), a relay
/// passes on what arrives, a link carries at most its rate. Only relays pass anything on.
pub(super) fn limit_bps(scene: &Scene) -> Option<f64> {
    let mut program = ProblemVariables::new();
    let rate = program.add(variable().min(0.0));
    let flows: Vec<Vec<[Variable; 2]>> = scene
        .io_nodes
        .iter()
        .map(|_| scene.links.iter().map(|_| [0, 1].map(|_| program.add(variable().min(0.0)))).collect())
        .collect();
    let mut model = program.maximise(rate).using(microlp);
    for (index, link) in scene.links.iter().enumerate() {
        for direction in 0..2 {
            let carried: Expression = flows.iter().map(|of_node| of_node[index][direction]).sum();
            model = model.with(carried.leq(link.rate_mbit));
        }
    }
    for (io_node, of_node) in scene.io_nodes.iter().zip(&flows) {
        for relay in &scene.relays {
            let balance = arriving(scene, of_node, relay) - leaving(scene, of_node, relay);
            model = model.with(balance.eq(0.0));
        }
        for other in scene.io_nodes.iter().filter(|other| *other != io_node) {
            model = model.with(leaving(scene, of_node, other).eq(0.0));
        }
        let gained = arriving(scene, of_node, io_node) - leaving(scene, of_node, io_node);
        model = model.with((gained - rate).geq(0.0));
    }
    let equal_rate = model.solve().ok()?.value(rate);
    let all = equal_rate * 1e6 * scene.io_nodes.len() as f64;
    (all > 1.0).then_some(all * payload_share(Config::default().coding.symbol_size))
}

/// What reaches a member, losses subtracted.
fn arriving(scene: &Scene, flows: &[[Variable; 2]], member: &str) -> Expression {
    let ends = scene.links.iter().zip(flows);
    let terms = ends.flat_map(|(link, [forward, backward])| {
        let kept = 1.0 - link.loss;
        [(link.b == member).then(|| kept * *forward), (link.a == member).then(|| kept * *backward)]
    });
    terms.flatten().sum()
}

/// What a member sends.
fn leaving(scene: &Scene, flows: &[[Variable; 2]], member: &str) -> Expression {
    let ends = scene.links.iter().zip(flows);
    let terms = ends.flat_map(|(link, [forward, backward])| {
        [(link.a == member).then_some(*forward), (link.b == member).then_some(*backward)]
    });
    terms.flatten().sum()
}

#[cfg(test)]
mod tests {
    use super::super::scene::SceneLink;
    use super::*;

    fn link(a: &str, b: &str, rate_mbit: f64, loss: f64) -> SceneLink {
        let (name, from) = (String::new(), None);
        SceneLink {
            a: a.into(),
            b: b.into(),
            name,
            a_from: from,
            b_from: from,
            rate_mbit,
            delay_ms: 1.0,
            loss,
        }
    }

    fn scene(links: Vec<SceneLink>) -> Scene {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Scene { client: "c".into(), relays: names(&["r", "s"]), io_nodes: names(&["x", "y"]), links }
    }

    #[test]
    fn the_limit_of_two_nodes_behind_one_link_is_that_link_shared() {
        let links = vec![link("c", "r", 10.0, 0.1), link("r", "x", 50.0, 0.2), link("r", "y", 50.0, 0.2)];
        let expected = 10e6 * 0.9 * 0.8 * 1384.0 / 1476.0;
        let limit = limit_bps(&scene(links)).expect("both are in reach");
        assert!((limit - expected).abs() < 1.0, "{limit}");
    }

    #[test]
    fn the_slower_node_sets_the_pace() {
        let links = vec![link("c", "r", 100.0, 0.0), link("r", "x", 3.0, 0.0), link("r", "y", 50.0, 0.0)];
        let limit = limit_bps(&scene(links)).expect("both are in reach");
        assert!((limit - 6e6 * 1384.0 / 1476.0).abs() < 1.0, "{limit}");
    }

    #[test]
    fn a_node_out_of_reach_leaves_no_limit() {
        assert_eq!(limit_bps(&scene(vec![link("c", "r", 10.0, 0.0), link("r", "x", 10.0, 0.0)])), None);
    }
}
