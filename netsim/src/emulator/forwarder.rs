//! The task of one link: its sockets and its clock.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::MissedTickBehavior;

use super::port::{MAX_PAYLOAD_BYTES, Port};
use super::shaper::Shaper;
use super::traffic::SharedTraffic;
use super::{Direction, EmulatedLink, EmulatorError, Endpoint, LinkHandle, LinkPorts, socket};
use crate::stream::random_stream;

/// How often a link looks at its sockets, the granularity of tokio's timers.
pub const TICK: Duration = Duration::from_millis(1);

/// Moves the packets of one link between its sockets and its model.
pub(super) struct Forwarder {
    name: Arc<str>,
    ports: Vec<Port>,
    traffic: SharedTraffic,
    started: Instant,
}

impl Forwarder {
    /// Binds the ports of a link.
    pub(super) fn bind(link: EmulatedLink, seed: u64) -> Result<(Self, LinkHandle), EmulatorError> {
        let mut ports = Vec::new();
        let LinkPorts { a_to_b, b_to_a } = link.bind;
        let bound = LinkPorts {
            a_to_b: bind_planes(&link.name, Direction::AToB, a_to_b, link.b, &mut ports)?,
            b_to_a: bind_planes(&link.name, Direction::BToA, b_to_a, link.a, &mut ports)?,
        };
        let shaper = |model, direction| Shaper::new(model, random_stream(seed, &[&link.name, direction]));
        let shapers = [shaper(link.a_to_b, "a to b"), shaper(link.b_to_a, "b to a")];
        let (name, traffic) = (Arc::from(link.name), SharedTraffic::new(shapers));
        let handle = LinkHandle { name: Arc::clone(&name), ports: bound, traffic: traffic.clone() };
        Ok((Self { name, ports, traffic, started: present() }, handle))
    }

    /// The smallest receive buffer of its ports, in bytes.
    pub(super) fn receive_buffer_bytes(&self) -> usize {
        self.ports.iter().filter_map(|port| port.receive_buffer_bytes().ok()).min().unwrap_or(usize::MAX)
    }

    /// Forwards until it is aborted.
    pub(super) async fn run(mut self) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut scratch = vec![0; MAX_PAYLOAD_BYTES];
        loop {
            tick.tick().await;
            self.turn(&mut scratch);
        }
    }

    /// Takes in what has come, lets out what is due.
    fn turn(&mut self, scratch: &mut [u8]) {
        let mut traffic = self.traffic.lock();
        let now = present().duration_since(self.started);
        traffic.begin_turn(now);
        for port in &mut self.ports {
            port.receive(now, scratch, |direction, packet, exit| {
                traffic.shapers[direction as usize].offer(now, packet, || exit);
            });
        }
        for shaper in &mut traffic.shapers {
            while let Some((packet, exit)) = shaper.take_arrived(now) {
                if let Err(error) = exit.send(&packet) {
                    tracing::debug!(link = %self.name, %error, "a packet got lost on the way out");
                }
            }
        }
    }
}

/// Binds the ports of one direction, one per address of the end behind them.
fn bind_planes(
    link: &str,
    direction: Direction,
    wanted: Endpoint,
    target: Endpoint,
    ports: &mut Vec<Port>,
) -> Result<Endpoint, EmulatorError> {
    let mut plane = |wanted: Option<SocketAddr>, target: Option<SocketAddr>| {
        [wanted, target].into_iter().flatten().try_for_each(|address| check_loopback(link, address))?;
        match (wanted, target) {
            (None, None) => Ok(None),
            (Some(address), None) => Err(EmulatorError::NothingBehind { link: link.into(), address }),
            (_, Some(target)) => {
                let address = wanted.unwrap_or(socket::FREE_PORT);
                let failed = |source| EmulatorError::Bind { link: link.into(), address, source };
                let port = Port::bind(direction, address, target).map_err(failed)?;
                let bound = port.address().map_err(failed)?;
                ports.push(port);
                Ok(Some(bound))
            }
        }
    };
    Ok(Endpoint { control: plane(wanted.control, target.control)?, data: plane(wanted.data, target.data)? })
}

fn check_loopback(link: &str, address: SocketAddr) -> Result<(), EmulatorError> {
    if address.is_ipv4() && address.ip().is_loopback() {
        Ok(())
    } else {
        Err(EmulatorError::NotLoopback { link: link.into(), address })
    }
}

/// The real time, which the emulator is about.
#[allow(clippy::disallowed_methods, reason = "it emulates links in real time")]
fn present() -> Instant {
    Instant::now()
}
