//! The control plane: one QUIC connection per link, seen as ordered messages.
//!
//! Both sides are authenticated by the keys of the overlay file, and the acceptor answers the first packet of an
//! address that it has not validated with a Retry and nothing else (design §6). What QUIC itself demands stays: a
//! Version Negotiation for a version that it does not speak (RFC 9000 §6.1). Tasks: one
//! [`listener`](listener::Listener) per socket, one [`dialler`](dialler::Dialler) per link whose neighbour this member
//! dials, and one per connection. The first two end with the [`ControlPlane`]; a connection ends when its outlet is
//! dropped, after it has said what it had to say.

mod back_off;
mod connection;
mod dialler;
mod doorstep;
mod listener;
mod message;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use quinn::{EndpointConfig, IdleTimeout, TokioRuntime, TransportConfig, VarInt};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use self::back_off::BackOff;
use self::connection::{ConnectionId, Farewell, Outlet, Shared, Signal};
use self::dialler::Dialler;
use self::listener::Listener;
use super::sockets::{Local, locals};
use super::tls::{self, PinnedKeys, TlsError};
use crate::keys::Identity;
use crate::neighbour::Unreached;
use crate::overlay::{Adjacency, InstanceId, LinkId, MemberId, Overlay, Peer};
use crate::shares::has_place;

/// A connection over which nothing came for so long is broken, and with it the link (design §6).
const IDLE_LIMIT_MS: u32 = 3_000;

/// The interval of keep-alives: two of three may be lost before a living connection counts as broken.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// What is taken for the round trip until one is measured. A first packet is repeated after three times this, so that a
/// neighbour that has just come back is found soon (RFC 9002 §6.2.2 has 333 ms).
const INITIAL_ROUND_TRIP: Duration = Duration::from_millis(100);

/// What a neighbour may send before the node has taken it: a few dozen messages of the usual few hundred bytes.
const RECEIVE_WINDOW: u32 = 64 * 1024;

/// First packets of strangers that wait for the listener, which answers each in microseconds; more are ignored.
const MAX_WAITING_INITIALS: usize = 256;

/// What may follow a first packet before the listener has looked at it: nothing that matters without 0-RTT.
const INITIAL_BUFFER: u64 = 4 * 1024;

/// Messages of all neighbours that wait for the node.
const MAX_WAITING_SIGNALS: usize = 256;

/// Processes that may be connected at a time; members share the places.
const MAX_NEIGHBOURS: usize = 2_048;

/// How long all connections may take to end.
const SHUTDOWN_LIMIT: Duration = Duration::from_millis(1_500);

/// How long the tasks of the endpoints get to send the last packets. Nobody waits until these have arrived: a peer that
/// has read the end of our stream knows that we are gone.
const LAST_PACKETS: Duration = Duration::from_millis(10);

/// What a control plane is made of.
pub(super) struct ControlConfig {
    /// The members, their keys and their links.
    pub(super) overlay: Arc<Overlay>,
    /// This process: the member, and the instance.
    pub(super) own: Peer,
    /// The member's keys.
    pub(super) identity: Identity,
    /// Random, for the pauses between attempts.
    pub(super) seed: [u8; 32],
}

/// Why a control plane cannot start.
#[derive(Debug, thiserror::Error)]
pub(super) enum ControlError {
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The socket refuses to be used.
    #[error("the control socket cannot be used")]
    Socket(#[from] std::io::Error),
}

/// What the control plane tells its owner.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ControlEvent {
    /// Messages can be exchanged with this neighbour over this link.
    Up(Adjacency),
    /// The next message of a neighbour that is up.
    Message(Adjacency, Vec<u8>),
    /// The pipe to this neighbour broke; what it still held is lost.
    Down(Adjacency),
    /// The neighbour that this member dials over this link cannot be reached: who, where, and why.
    Unreached(LinkId, Unreached),
}

/// All control connections of a process.
pub(super) struct ControlPlane {
    config: ControlConfig,
    shared: Arc<Shared>,
    /// One for each pair of sockets, with the task that listens there.
    endpoints: BTreeMap<Local, (quinn::Endpoint, AbortHandle)>,
    /// Whose connections are accepted; the listeners look at the same.
    accepted: PinnedKeys,
    tasks: JoinSet<()>,
    /// The tasks that dial, with where from and where to.
    diallers: BTreeMap<LinkId, (Dialled, AbortHandle)>,
    signals: mpsc::Receiver<Signal>,
    outlets: BTreeMap<Adjacency, Outlet>,
    neighbours: BTreeMap<ConnectionId, Adjacency>,
    ready: VecDeque<ControlEvent>,
}

/// Whom a member dials over a link: the member, from which socket, and where to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Dialled {
    neighbour: MemberId,
    local: Local,
    address: SocketAddr,
}

impl ControlPlane {
    /// A control plane without any sockets yet.
    pub(super) fn new(config: ControlConfig) -> Result<ControlPlane, ControlError> {
        let (sender, signals) = mpsc::channel(MAX_WAITING_SIGNALS);
        let shared = Arc::new(Shared::new(config.own.instance, sender));
        let accepted = PinnedKeys::of(&config.overlay, accepted(&config.overlay, config.own.member));
        Ok(ControlPlane {
            config,
            shared,
            endpoints: BTreeMap::new(),
            accepted,
            tasks: JoinSet::new(),
            diallers: BTreeMap::new(),
            signals,
            outlets: BTreeMap::new(),
            neighbours: BTreeMap::new(),
            ready: VecDeque::new(),
        })
    }

    /// Listens on a socket, if any neighbour dials this member. [`dial_neighbours`](Self::dial_neighbours) dials from
    /// it.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(super) fn open(&mut self, local: Local, socket: UdpSocket) -> Result<(), ControlError> {
        let endpoint = quinn::Endpoint::new(
            EndpointConfig::default(),
            Some(server_config(&self.config.identity, self.accepted.clone())?),
            socket,
            Arc::new(TokioRuntime),
        )?;
        let listener = Listener::new(endpoint.clone(), self.accepted.clone(), Arc::clone(&self.shared));
        let listening = self.tasks.spawn(listener.listen());
        self.endpoints.insert(local, (endpoint, listening));
        Ok(())
    }

    /// Closes the socket of an uplink, with the connections over it; nobody is dialled from there any more.
    pub(super) fn close(&mut self, local: &Local) {
        if let Some((endpoint, listening)) = self.endpoints.remove(local) {
            listening.abort();
            endpoint.close(Farewell::Done.code(), b"");
        }
        self.keep_dialling(|_, dialled| dialled.local != *local);
    }

    /// Goes on with a newer overlay file. Connections over links that are not listed any more end, and all others
    /// notice nothing. Whoever calls this has new neighbours [dialled](Self::dial_neighbours) once the sockets are
    /// open.
    pub(super) fn reload(&mut self, overlay: Arc<Overlay>) {
        self.accepted.replace(&overlay, accepted(&overlay, self.config.own.member));
        self.config.overlay = overlay;
        let is_listed = |neighbour: &&Adjacency| self.config.overlay.contains_link(neighbour.link);
        let revoked: Vec<Adjacency> =
            self.outlets.keys().filter(|neighbour| !is_listed(neighbour)).copied().collect();
        for neighbour in revoked {
            if let Some(outlet) = self.outlets.remove(&neighbour) {
                outlet.close(Farewell::Revoked);
                self.neighbours.remove(&outlet.id);
                self.ready.push_back(ControlEvent::Down(neighbour));
            }
        }
    }

    /// Keeps one task for each link whose neighbour is this member's to dial, from the link's socket at the neighbour's
    /// address; other tasks end.
    pub(super) fn dial_neighbours(&mut self) -> Result<(), ControlError> {
        let mut wanted = dialled(&self.config.overlay, self.config.own.member);
        wanted.retain(|_, dialled| self.endpoints.contains_key(&dialled.local));
        // Those that have ended are not remembered for ever.
        while self.tasks.try_join_next().is_some() {}
        self.keep_dialling(|link, dialled| wanted.get(&link) == Some(dialled));
        for (link, dialled) in wanted {
            if !self.diallers.contains_key(&link) {
                let (endpoint, _) = &self.endpoints[&dialled.local];
                let dialler = dialler(&self.config, endpoint, &self.shared, link, &dialled)?;
                let task = self.tasks.spawn(dialler.keep_connected());
                self.diallers.insert(link, (dialled, task));
            }
        }
        Ok(())
    }

    /// Ends the tasks that dial anything else.
    fn keep_dialling(&mut self, stays: impl Fn(LinkId, &Dialled) -> bool) {
        self.diallers.retain(|link, (dialled, task)| {
            let stays = stays(*link, dialled);
            if !stays {
                task.abort();
            }
            stays
        });
    }

    /// Where the sockets are bound.
    pub(super) fn local_addresses(&self) -> std::io::Result<Vec<(Local, SocketAddr)>> {
        let endpoints = self.endpoints.iter();
        endpoints.map(|(local, (endpoint, _))| Ok((local.clone(), endpoint.local_addr()?))).collect()
    }

    /// The next event; waits for one. Nothing is lost if the future is dropped.
    pub(super) async fn next_event(&mut self) -> ControlEvent {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return event;
            }
            match self.signals.recv().await {
                Some(signal) => self.note(signal),
                // This member neither listens nor dials, so there will never be an event.
                None => pending().await,
            }
        }
    }

    /// The next event, if there is one.
    pub(super) fn try_next_event(&mut self) -> Option<ControlEvent> {
        while self.ready.is_empty() {
            let signal = self.signals.try_recv().ok()?;
            self.note(signal);
        }
        self.ready.pop_front()
    }

    /// Sends a message to a neighbour that is up. To one that is not it is lost, as what a broken pipe held.
    pub(super) fn send(&self, to: Adjacency, message: Vec<u8>) {
        if let Some(outlet) = self.outlets.get(&to) {
            outlet.send(message);
        }
    }

    /// Lets the queued messages out and waits until all connections have ended, up to a limit.
    pub(super) async fn shutdown(mut self) {
        let endpoints: Vec<quinn::Endpoint> =
            self.endpoints.values().map(|(endpoint, _)| endpoint.clone()).collect();
        endpoints.iter().for_each(|endpoint| endpoint.set_server_config(None));
        self.tasks.shutdown().await;
        self.outlets.clear();
        // Connections must not wait for a full queue of signals while they end. When all have ended nobody is left who
        // could send one.
        drop(self.shared);
        let ended = async { while self.signals.recv().await.is_some() {} };
        if tokio::time::timeout(SHUTDOWN_LIMIT, ended).await.is_err() {
            tracing::debug!("some control connections did not end in time");
        }
        let idle = async {
            for endpoint in &endpoints {
                endpoint.wait_idle().await;
            }
        };
        let _ = tokio::time::timeout(LAST_PACKETS, idle).await;
        endpoints.iter().for_each(|endpoint| endpoint.close(Farewell::Done.code(), b""));
    }

    fn note(&mut self, signal: Signal) {
        match signal {
            Signal::Up(peer, link, outlet) => self.connected(peer, &link, outlet),
            Signal::Unreached(link, why) => self.ready.push_back(ControlEvent::Unreached(link, why)),
            Signal::Message(id, message) => {
                let neighbour = self.neighbours.get(&id);
                self.ready.extend(neighbour.map(|neighbour| ControlEvent::Message(*neighbour, message)));
            }
            Signal::Down(id) => {
                if let Some(neighbour) = self.neighbours.remove(&id) {
                    self.outlets.remove(&neighbour);
                    self.ready.push_back(ControlEvent::Down(neighbour));
                }
            }
        }
    }

    /// The newer connection of a process over a link replaces the older: its dialler only dials again when it has given
    /// up the older one, which this side may not have noticed yet.
    fn connected(&mut self, peer: Peer, link: &str, outlet: Outlet) {
        let (overlay, me) = (&self.config.overlay, self.config.own.member);
        // Its handshake may have begun under an older overlay file.
        if !overlay.are_neighbours(me, peer.member) {
            return outlet.close(Farewell::Revoked);
        }
        let Some(link) = overlay.link_named(me, peer.member, link) else {
            let neighbour = overlay.name(peer.member);
            tracing::warn!(
                neighbour,
                link,
                "a neighbour connects over a link that my overlay file does not list"
            );
            return outlet.close(Farewell::UnknownLink);
        };
        let neighbour = Adjacency { peer, link };
        if let Some(old) = self.outlets.remove(&neighbour) {
            old.close(Farewell::Replaced);
            self.neighbours.remove(&old.id);
            self.ready.push_back(ControlEvent::Down(neighbour));
        }
        let process = |instance, link| Adjacency {
            peer: Peer { member: peer.member, instance: InstanceId(instance) },
            link,
        };
        let of_member =
            self.outlets.range(process(0, LinkId(0))..=process(u64::MAX, LinkId(u32::MAX))).count();
        if !has_place(MAX_NEIGHBOURS, self.outlets.len(), of_member) {
            return outlet.close(Farewell::Crowded);
        }
        self.neighbours.insert(outlet.id, neighbour);
        self.outlets.insert(neighbour, outlet);
        self.ready.push_back(ControlEvent::Up(neighbour));
    }
}

fn is_dialled(overlay: &Overlay, member: MemberId) -> bool {
    overlay.links_of(member).any(|(link, _)| overlay.dialler(link) != member)
}

/// The members that may dial this one: its neighbours, or nobody if this member dials all of them.
fn accepted(overlay: &Overlay, member: MemberId) -> Vec<MemberId> {
    let neighbours = overlay.links_of(member).map(|(_, neighbour)| neighbour);
    if is_dialled(overlay, member) { neighbours.collect() } else { Vec::new() }
}

/// Whom this member dials over each link.
fn dialled(overlay: &Overlay, member: MemberId) -> BTreeMap<LinkId, Dialled> {
    let mut locals = locals(overlay, member);
    let ours = overlay.links_of(member).filter(|(link, _)| overlay.dialler(*link) == member);
    ours.filter_map(|(link, neighbour)| {
        let (local, address) = (locals.remove(&link)?, overlay.reach(link, member).0?);
        Some((link, Dialled { neighbour, local, address }))
    })
    .collect()
}

fn dialler(
    config: &ControlConfig,
    endpoint: &quinn::Endpoint,
    shared: &Arc<Shared>,
    link: LinkId,
    dialled: &Dialled,
) -> Result<Dialler, ControlError> {
    let Dialled { neighbour, address, .. } = *dialled;
    let pinned = PinnedKeys::of(&config.overlay, [neighbour]);
    let tls = tls::client_config(&config.identity, pinned)?;
    let mut quic = quinn::ClientConfig::new(Arc::new(tls));
    quic.transport_config(Arc::new(transport_config(Streams::Open)));
    Ok(Dialler {
        endpoint: endpoint.clone(),
        config: quic,
        neighbour,
        name: config.overlay.name(neighbour),
        link_id: link,
        link: config.overlay.link_name(link),
        address,
        shared: Arc::clone(shared),
        back_off: BackOff::new(link_seed(config.seed, link)),
    })
}

fn link_seed(seed: [u8; 32], link: LinkId) -> [u8; 32] {
    *blake3::keyed_hash(&seed, &link.0.to_be_bytes()).as_bytes()
}

fn server_config(identity: &Identity, pinned: PinnedKeys) -> Result<quinn::ServerConfig, TlsError> {
    let tls = tls::server_config(identity, pinned)?;
    let mut quic = quinn::ServerConfig::with_crypto(Arc::new(tls));
    quic.transport_config(Arc::new(transport_config(Streams::Accept)))
        .max_incoming(MAX_WAITING_INITIALS)
        .incoming_buffer_size(INITIAL_BUFFER);
    Ok(quic)
}

/// Which side opens the one stream of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Streams {
    Open,
    Accept,
}

fn transport_config(streams: Streams) -> TransportConfig {
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(u32::from(streams == Streams::Accept)))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(IDLE_LIMIT_MS))))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .initial_rtt(INITIAL_ROUND_TRIP)
        .stream_receive_window(VarInt::from_u32(RECEIVE_WINDOW))
        .receive_window(VarInt::from_u32(RECEIVE_WINDOW));
    config
}
