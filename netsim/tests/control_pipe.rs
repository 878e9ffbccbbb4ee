//! The control pipe under random failures: whatever happens, what its two ends see makes sense, and once all is healed
//! it works.

use std::time::Duration;

use netsim::{Change, Event, LinkId, LinkModel, NodeId, Rate, Simulator};
use proptest::prelude::*;

/// The failures happen within this time; then everything is healed.
const STORM: Duration = Duration::from_secs(20);
const HEALED_BY: Duration = Duration::from_secs(40);

#[derive(Debug, Clone, Copy)]
enum Failure {
    Link,
    NodeA,
    NodeB,
}

/// Failures with their beginning and their length in ms, so that some are shorter than a pipe's patience.
fn storms() -> impl Strategy<Value = Vec<(Failure, u64, u64)>> {
    let kind = prop_oneof![Just(Failure::Link), Just(Failure::NodeA), Just(Failure::NodeB)];
    prop::collection::vec((kind, 0..20_000_u64, 1..6_000_u64), 0..12)
}

/// What one end has seen of its pipe.
#[derive(Default)]
struct Seen {
    is_up: bool,
    /// How often the pipe has come up, which its messages carry.
    ups: u64,
    sent: u64,
    /// The last message from the other end: (its ups, its number).
    last: Option<(u64, u64)>,
}

struct Scene {
    simulator: Simulator,
    nodes: [NodeId; 2],
    link: LinkId,
    seen: [Seen; 2],
}

impl Scene {
    /// Two nodes whose link has these one-way delays in ms, each waking every 100 ms to send a message.
    fn new(delays_ms: [u64; 2]) -> Self {
        let mut simulator = Simulator::new(1);
        let nodes = ["a", "b"].map(|name| simulator.add_node(name));
        let [a_to_b, b_to_a] =
            delays_ms.map(|ms| LinkModel::new(Rate::from_mbit(10), Duration::from_millis(ms)));
        let link = simulator.add_link(nodes[0], nodes[1], a_to_b, b_to_a);
        nodes.into_iter().for_each(|node| simulator.wake_at(node, Duration::ZERO));
        Self { simulator, nodes, link, seen: Default::default() }
    }

    fn schedule(&mut self, storm: &[(Failure, u64, u64)]) {
        let [a, b] = self.nodes;
        for (failure, start_ms, length_ms) in storm {
            let (down, up) = match failure {
                Failure::Link => (Change::LinkDown(self.link), Change::LinkUp(self.link)),
                Failure::NodeA => (Change::NodeDown(a), Change::NodeUp(a)),
                Failure::NodeB => (Change::NodeDown(b), Change::NodeUp(b)),
            };
            self.simulator.schedule(Duration::from_millis(*start_ms), down);
            self.simulator.schedule(Duration::from_millis(start_ms + length_ms), up);
        }
        for healed in [Change::LinkUp(self.link), Change::NodeUp(a), Change::NodeUp(b)] {
            self.simulator.schedule(STORM + Duration::from_secs(6), healed);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::ControlUp { node, .. } => {
                let seen = &mut self.seen[node.index()];
                assert!(!seen.is_up, "a second pipe beside the first");
                *seen = Seen { is_up: true, ups: seen.ups + 1, ..Seen::default() };
            }
            Event::ControlDown { node, .. } => {
                let seen = &mut self.seen[node.index()];
                assert!(std::mem::replace(&mut seen.is_up, false), "the end of a pipe that was not up");
            }
            Event::NodeDown { node } => self.seen[node.index()].is_up = false,
            Event::NodeUp { node } => self.simulator.wake_at(node, Duration::ZERO),
            Event::Wake { node } => self.speak(node),
            Event::ControlMessage { node, message, .. } => self.hear(node, &message),
            Event::Packet { .. } | Event::LinkDown { .. } | Event::LinkUp { .. } => {}
        }
    }

    fn speak(&mut self, node: NodeId) {
        let seen = &mut self.seen[node.index()];
        if seen.is_up {
            let message = [seen.ups, seen.sent].map(u64::to_le_bytes).concat();
            seen.sent += 1;
            self.simulator.send_control(node, self.link, message);
        }
        self.simulator.wake_at(node, self.simulator.now() + Duration::from_millis(100));
    }

    fn hear(&mut self, node: NodeId, message: &[u8]) {
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let (ups, sent) = (number(&message[..8]), number(&message[8..]));
        let seen = &mut self.seen[node.index()];
        assert!(seen.is_up, "a message without a pipe");
        let expected = seen.last.map_or((ups, 0), |(ups, sent)| (ups, sent + 1));
        assert_eq!((ups, sent), expected, "every message of one pipe, from its first, in order");
        seen.last = Some((ups, sent));
    }

    fn run(&mut self, until: Duration) {
        while let Some(event) = self.simulator.step_until(until) {
            self.handle(event);
        }
    }
}

proptest! {
    #[test]
    fn a_pipe_is_in_order_without_gaps_and_works_after_every_storm(
        storm in storms(),
        delays_ms in [0..300_u64, 0..300_u64],
    ) {
        let mut scene = Scene::new(delays_ms);
        scene.schedule(&storm);
        scene.run(HEALED_BY);
        for (seen, other) in [(0, 1), (1, 0)].map(|(one, other)| (&scene.seen[one], &scene.seen[other])) {
            prop_assert!(seen.is_up);
            let in_flight_and_next = 5;
            let (ups, last) = seen.last.expect("messages after the storm");
            prop_assert_eq!(ups, other.ups);
            prop_assert!(last + in_flight_and_next > other.sent);
        }
    }
}
