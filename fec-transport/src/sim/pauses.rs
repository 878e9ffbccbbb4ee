//! Processes that do not run for some milliseconds now and then, because others have the machine.
//!
//! Meanwhile a process's packets wait in its socket, as many as that holds, what its neighbours say on control
//! connections waits too, and its timers are late. Then it sees everything at once.

use std::time::Duration;

use netsim::{Event, IPV4_UDP_HEADER_BYTES, NodeId, Simulator};
use rand_core::RngCore;

/// Bytes of packets that wait in a socket at most, headers counted.
const SOCKET: u64 = 4 << 20;

/// When a process does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pauses {
    /// For how long it runs between two pauses, on average; the times are exponentially distributed.
    pub every: Duration,
    /// The shortest pause.
    pub shortest: Duration,
    /// The longest one; all between are equally likely.
    pub longest: Duration,
}

/// All processes that pause.
#[derive(Default)]
pub(super) struct Pausing {
    all: Vec<Process>,
    /// What those whose pause has just ended have to see, oldest first.
    released: std::vec::IntoIter<Event>,
}

struct Process {
    node: NodeId,
    /// The node of the simulator that wakes when a pause begins or ends.
    clock: NodeId,
    pauses: Pauses,
    random: Box<dyn RngCore>,
    is_paused: bool,
    waiting: Vec<Event>,
    socket_bytes: u64,
}

impl Pausing {
    pub(super) fn add(&mut self, simulator: &mut Simulator, node: NodeId, pauses: Pauses) {
        let name = ["pauses", simulator.node_name(node), &self.all.len().to_string()];
        let random = Box::new(netsim::random_stream(simulator.seed(), &name));
        let clock = simulator.add_node(name.join(" "));
        let (waiting, socket_bytes, is_paused) = (Vec::new(), 0, false);
        let mut process = Process { node, clock, pauses, random, is_paused, waiting, socket_bytes };
        process.wind(simulator);
        self.all.push(process);
    }

    /// Deals with the event if a pause begins, goes on or ends with it; gives it back if its process runs.
    pub(super) fn take(&mut self, simulator: &mut Simulator, event: Event) -> Option<Event> {
        let Some(node) = node_of(&event).filter(|_| !self.all.is_empty()) else { return Some(event) };
        if let Some(process) = self.all.iter_mut().find(|process| process.clock == node) {
            self.released = process.turn(simulator).into_iter();
            return None;
        }
        match self.all.iter_mut().find(|process| process.node == node && process.is_paused) {
            Some(process) => process.hold(event),
            None => Some(event),
        }
    }

    /// The next thing that a process has to see whose pause has just ended.
    pub(super) fn next_released(&mut self) -> Option<Event> {
        self.released.next()
    }
}

impl Process {
    /// A pause begins or ends; gives what has waited.
    fn turn(&mut self, simulator: &mut Simulator) -> Vec<Event> {
        self.is_paused = !self.is_paused;
        self.wind(simulator);
        self.socket_bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    /// Sets the clock for the end of the pause, or for the beginning of the next one.
    fn wind(&mut self, simulator: &mut Simulator) {
        let draw = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let Pauses { every, shortest, longest } = self.pauses;
        let span = match self.is_paused {
            true => shortest + longest.saturating_sub(shortest).mul_f64(draw),
            false => every.mul_f64(-(1.0 - draw).ln()),
        };
        simulator.wake_at(self.clock, simulator.now() + span);
    }

    /// Lets the event wait, if there is room for it. A crash waits for nobody.
    fn hold(&mut self, event: Event) -> Option<Event> {
        match &event {
            Event::NodeDown { .. } => {
                (self.waiting, self.socket_bytes) = (Vec::new(), 0);
                return Some(event);
            }
            Event::Packet { packet, .. } => {
                let bytes = packet.len() as u64 + u64::from(IPV4_UDP_HEADER_BYTES);
                if self.socket_bytes + bytes > SOCKET {
                    return None;
                }
                self.socket_bytes += bytes;
            }
            _ => {}
        }
        self.waiting.push(event);
        None
    }
}

/// Whom the event concerns.
fn node_of(event: &Event) -> Option<NodeId> {
    match event {
        Event::Packet { node, .. }
        | Event::ControlMessage { node, .. }
        | Event::ControlUp { node, .. }
        | Event::ControlDown { node, .. }
        | Event::Wake { node }
        | Event::NodeDown { node }
        | Event::NodeUp { node } => Some(*node),
        Event::LinkDown { .. } | Event::LinkUp { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netsim::{LinkModel, Rate};

    const PACKET: usize = 1_472;

    /// When packets are seen that arrive every `gap` for a `span`, by a process that runs for 50 ms and pauses for 10.
    fn seen(gap: Duration, span: Duration) -> Vec<Duration> {
        let mut simulator = Simulator::new(1);
        let [from, to] = ["from", "to"].map(|name| simulator.add_node(name));
        let model = LinkModel::new(Rate::from_mbit(100_000), Duration::ZERO);
        let link = simulator.add_link(from, to, model.clone(), model);
        let mut pausing = Pausing::default();
        let (every, length) = (Duration::from_millis(50), Duration::from_millis(10));
        pausing.add(&mut simulator, to, Pauses { every, shortest: length, longest: length });
        let mut seen = Vec::new();
        simulator.wake_at(from, Duration::ZERO);
        while let Some(event) = simulator.step_until(span) {
            if event == (Event::Wake { node: from }) {
                simulator.send(from, link, vec![0; PACKET]);
                simulator.wake_at(from, simulator.now() + gap);
            }
            let running = pausing.take(&mut simulator, event);
            let mut see = |event| {
                seen.extend(matches!(event, Event::Packet { .. }).then_some(simulator.now()));
            };
            running.into_iter().for_each(&mut see);
            while let Some(event) = pausing.next_released() {
                see(event);
            }
        }
        seen
    }

    #[test]
    fn what_arrives_in_a_pause_is_seen_at_its_end() {
        let seen = seen(Duration::from_millis(1), Duration::from_secs(10));
        assert!((9_980..=10_000).contains(&seen.len()), "{}", seen.len());
        assert!(seen.is_sorted());
        let at_once = seen.windows(2).filter(|pair| pair[0] == pair[1]).count() as f64;
        // It pauses for a sixth of the time; the first packet of each pause is at no time of another one.
        assert!((0.11..0.19).contains(&(at_once / 10_000.0)), "{at_once}");
        let longest = seen.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(longest.is_some_and(|gap| gap <= Duration::from_millis(11)), "{longest:?}");
    }

    #[test]
    fn a_socket_holds_no_more_than_its_bytes() {
        // 10 ms of 1,500 bytes every 2 µs are 7.5 MB: the socket holds 2,796 of 5,000 packets.
        let seen = seen(Duration::from_micros(2), Duration::from_secs(1));
        let mut times = std::collections::BTreeMap::new();
        seen.iter().for_each(|at| *times.entry(*at).or_insert(0) += 1);
        let most = times.into_values().max();
        assert_eq!(most, Some(SOCKET / (PACKET as u64 + u64::from(IPV4_UDP_HEADER_BYTES))));
    }
}
