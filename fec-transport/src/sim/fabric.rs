//! Switches and cables beneath the links of an overlay: the packets of many links share them.
//!
//! ```text
//! member ══ cable ══ switch ══ cable ══ switch ══ cable ══ member
//!    └──────────────── a link of the overlay ────────────────┘
//! ```
//!
//! A switch is no member: nobody in the overlay knows of it, and it passes packets on as they come. What neighbours say
//! to each other on their control connection does not go over the cables, but has their delay.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use netsim::{Event, LinkId, NodeId, Simulator};

use super::Scene;
use crate::overlay::{self, MemberId, Overlay};

/// The ways over cables, laid in a simulator.
#[derive(Debug, Default)]
pub(super) struct Fabric {
    cables: BTreeSet<LinkId>,
    /// Of each direction of a link that goes over cables.
    ways: BTreeMap<(MemberId, overlay::LinkId), Arc<[LinkId]>>,
}

impl Fabric {
    /// Lays the cables of a scene; `nodes` are the members in the simulator, in the order of the overlay.
    pub(super) fn lay(
        scene: &Scene,
        overlay: &Overlay,
        simulator: &mut Simulator,
        nodes: &[NodeId],
    ) -> Fabric {
        let mut places: BTreeMap<String, NodeId> =
            overlay.members().iter().map(|member| member.name.clone()).zip(nodes.iter().copied()).collect();
        for name in scene.switches() {
            places.insert(name.to_owned(), simulator.add_node(name));
        }
        let mut between = BTreeMap::new();
        for (a, b, spec) in scene.cables() {
            let link = simulator.add_link(places[a], places[b], spec.a_to_b.clone(), spec.b_to_a.clone());
            between.extend([((a, b), link), ((b, a), link)]);
        }
        let mut ways = BTreeMap::new();
        for (link, names) in scene.ways() {
            let way: Vec<LinkId> = names.windows(2).map(|pair| between[&(pair[0], pair[1])]).collect();
            let back: Vec<LinkId> = way.iter().rev().copied().collect();
            let [from, to] = [names[0], names[names.len() - 1]]
                .map(|name| overlay.find(name).expect("ways are between members"));
            ways.extend([((from, link), way.into()), ((to, link), back.into())]);
        }
        Fabric { cables: between.into_values().collect(), ways }
    }

    /// The cables over which a link leads from one of its ends, if it goes over some.
    pub(super) fn way(&self, from: MemberId, link: overlay::LinkId) -> Option<&Arc<[LinkId]>> {
        self.ways.get(&(from, link))
    }

    /// Whether an event concerns nothing but a cable: the simulator gives each link a control pipe, and nobody uses
    /// those of cables.
    pub(super) fn is_of(&self, event: &Event) -> bool {
        match event {
            Event::ControlUp { link, .. } | Event::ControlDown { link, .. } => self.cables.contains(link),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use netsim::{LinkModel, Rate};

    use super::*;
    use crate::sim::LinkSpec;

    #[test]
    fn links_over_a_cable_share_it_and_take_its_delay() {
        let cable = LinkSpec::new(10, Duration::from_millis(1));
        let wide = LinkSpec::new(1_000, Duration::from_millis(1));
        let scene = Scene::new().client("a").client("b").server("x").switch("s1").switch("s2");
        let scene = scene.cable("a", "s1", &wide).cable("b", "s1", &wide).cable("s1", "s2", &cable);
        let scene = scene.cable("s2", "x", &wide);
        let scene = scene.link_over("a", "x", &["s1", "s2"]).link_over("b", "x", &["s1", "s2"]);
        let (overlay, _) = scene.overlay();
        let mut simulator = Simulator::new(1);
        let nodes: Vec<NodeId> =
            overlay.members().iter().map(|member| simulator.add_node(member.name.clone())).collect();
        let fabric = Fabric::lay(&scene, &overlay, &mut simulator, &nodes);
        let [a, b, x] = ["a", "b", "x"].map(|name| overlay.find(name).expect("a member"));
        for (from, count) in [(a, 20), (b, 20)] {
            for _ in 0..count {
                let way = fabric.way(from, overlay.links_between(from, x)[0]).expect("it goes over cables");
                simulator.send_along(nodes[usize::from(from.0)], way, vec![0; 1_222]);
            }
        }
        let mut arrivals = Vec::new();
        while let Some(event) = simulator.step() {
            match event {
                Event::Packet { node, .. } => arrivals.push((node, simulator.now())),
                event => assert!(fabric.is_of(&event), "{event:?}"),
            }
        }
        // 40 packets of 1,250 bytes take 40 ms at 10 Mbit/s, and the queue holds 50 ms of them.
        assert!(arrivals.iter().all(|(node, _)| *node == nodes[usize::from(x.0)]));
        let last = arrivals.last().expect("some").1;
        let first = LinkModel::new(Rate::from_mbit(1_000), Duration::ZERO).rate.time_for(2 * 1_250);
        assert_eq!((arrivals.len(), last), (40, Duration::from_millis(43) + first));
    }
}
