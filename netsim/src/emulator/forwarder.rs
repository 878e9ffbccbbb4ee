//! The task of one link: its sockets and its clock.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::MissedTickBehavior;

use super::port::{Exit, Port};
use super::shaper::Shaper;
use super::socket::{Burst, FREE_PORT, Inbox, present};
use super::traffic::{Departure, SharedTraffic};
use super::{Direction, EmulatedLink, EmulatorError, Endpoint, LinkHandle, LinkPorts};
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
        let (mut inbox, mut burst) = (Inbox::new(), Burst::default());
        loop {
            tick.tick().await;
            self.turn(&mut inbox, &mut burst);
        }
    }

    /// Takes in what has come, lets out what is due. A packet is on the link from when it came, not from when the turn
    /// does: a late turn takes nothing of what the link can carry. It came since the turn before, whatever the system's
    /// clock says.
    fn turn(&mut self, inbox: &mut Inbox, burst: &mut Burst) {
        let mut traffic = self.traffic.lock();
        let started = self.started;
        let now = present().duration_since(started);
        let last_turn = traffic.begin_turn(now);
        for port in &mut self.ports {
            port.receive(now, inbox, |direction, packet, exit| {
                let departure = Departure { exit, ecn: packet.ecn };
                let came = packet.came.saturating_duration_since(started).max(last_turn);
                traffic.shapers[direction as usize].offer(came, packet.payload, || departure);
            });
        }
        for shaper in &mut traffic.shapers {
            release(&self.name, now, shaper, burst);
        }
    }
}

/// Lets out what is due of one direction, neighbouring packets for one receiver together.
fn release(link: &str, now: Duration, shaper: &mut Shaper<Departure>, burst: &mut Burst) {
    let send = |burst: &mut Burst, exit: Option<&Exit>| {
        if let Some(Err(error)) = exit.filter(|_| !burst.is_empty()).map(|exit| exit.send(burst)) {
            tracing::debug!(%link, %error, "packets got lost on the way out");
        }
        burst.clear();
    };
    let mut last: Option<Exit> = None;
    while let Some((packet, Departure { exit, ecn })) = shaper.take_arrived(now) {
        let goes_along = last.as_ref().is_some_and(|last| last.is(&exit));
        if !(goes_along && burst.takes(&packet, ecn, exit.most_packets())) {
            send(burst, last.as_ref());
        }
        burst.push(&packet, ecn);
        last = Some(exit);
    }
    send(burst, last.as_ref());
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
                let address = wanted.unwrap_or(FREE_PORT);
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
