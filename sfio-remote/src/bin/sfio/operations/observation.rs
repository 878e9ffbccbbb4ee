//! How a member is at one moment, as people and programs see it.

use std::collections::BTreeMap;

use fec_transport::io::{DataCounts, EndpointEnded};
use fec_transport::overlay::{LinkId, MemberId, Peer};
use fec_transport::{CircuitPart, Node, PathState, PathStatus, SessionStatus};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sfio_remote::application::SfioApplication;
use sfio_remote::compression::Explanation;
use sfio_remote::io_node::MemberUse;

use super::{Observer, OverlayMap};

/// How a member is. Rates are in Mbit/s, times in what their names end with, shares in [0, 1].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Observation {
    pub(crate) member: String,
    pub(crate) version: String,
    pub(crate) process: u32,
    pub(crate) up_s: f64,
    pub(crate) control: String,
    pub(crate) data: String,
    pub(crate) overlay_serial: u64,
    pub(crate) shutting_down: bool,
    pub(crate) members: Vec<Member>,
    pub(crate) circuits: Vec<Circuit>,
    pub(crate) sessions: Vec<Session>,
    /// Datagrams by what became of them at the socket, and at the labels.
    pub(crate) socket: BTreeMap<String, u64>,
    pub(crate) datagrams: BTreeMap<String, u64>,
    pub(crate) circuit_counts: BTreeMap<String, u64>,
    pub(crate) io_node: Option<IoNode>,
    /// How what was sent in frames was compressed, by member.
    #[serde(default)]
    pub(crate) compression: Vec<Compressed>,
    /// The bounds on memory and tables, and on what others may ask: those of the config file's `[limits]` and
    /// `[policing]`, with the defaults for what that does not say.
    #[serde(default)]
    pub(crate) limits: Value,
    #[serde(default)]
    pub(crate) policing: Value,
}

/// How what was sent to one member was compressed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Compressed {
    pub(crate) peer: String,
    /// `written` to its subfiles, or `read` by it of ours.
    pub(crate) what: String,
    /// How the last frame was packed: `plain`, `lz4`, `zstd:LEVEL`.
    pub(crate) codec: String,
    pub(crate) plain_bytes: u64,
    pub(crate) packed_bytes: u64,
    /// What is left of each byte.
    pub(crate) ratio: f64,
    /// Why it was packed so, in words.
    pub(crate) why: String,
}

/// A member of the overlay.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) is_neighbour: bool,
    /// Its processes whose control connection is up.
    pub(crate) connected: usize,
    /// For how long the latest of them has been connected.
    pub(crate) connected_s: Option<f64>,
    /// The links to it that have a name.
    #[serde(default)]
    pub(crate) links: Vec<NamedLink>,
}

/// One of several links to a neighbour.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct NamedLink {
    pub(crate) name: String,
    /// Whether any process is connected over it.
    pub(crate) is_connected: bool,
}

/// A circuit that the member knows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Circuit {
    /// `originator`, `relay` or `responder`.
    pub(crate) part: String,
    pub(crate) route: Vec<String>,
    /// The names of the links between them, one less; empty for a link without a name.
    #[serde(default)]
    pub(crate) links: Vec<String>,
    pub(crate) answered: bool,
    pub(crate) expires_s: f64,
}

/// A session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) peer: String,
    /// Which of the peer's processes it is.
    pub(crate) instance: String,
    /// Whether the peer opened it.
    pub(crate) incoming: bool,
    pub(crate) epoch: u32,
    pub(crate) streams: usize,
    pub(crate) received_bytes: u64,
    pub(crate) acknowledged_bytes: u64,
    /// Bytes on their way in and out.
    pub(crate) queued_bytes: usize,
    pub(crate) source_symbols: u64,
    /// Symbols beyond the source, sent at first and as repairs, over source symbols.
    pub(crate) overhead: f64,
    pub(crate) repaired_blocks: u64,
    pub(crate) blocks: u64,
    /// Packets that came over a right label and did not open.
    pub(crate) not_opened: u64,
    pub(crate) paths: Vec<Path>,
}

/// A path of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Path {
    pub(crate) id: u32,
    pub(crate) route: Vec<String>,
    /// The names of the links between them, one less; empty for a link without a name.
    #[serde(default)]
    pub(crate) links: Vec<String>,
    /// `unconfirmed`, `live` or `dead`.
    pub(crate) state: String,
    /// The rate at which it is paced.
    pub(crate) rate_mbit: f64,
    pub(crate) round_trip_ms: f64,
    /// How long the latest packet stood in queues.
    pub(crate) queue_ms: f64,
    pub(crate) loss: f64,
    pub(crate) planned_share: f64,
    /// The share of the symbols that this side has sent.
    pub(crate) share: f64,
    /// Repair symbols over source symbols sent on it.
    pub(crate) redundancy: f64,
    pub(crate) packets_sent: u64,
    pub(crate) packets_received: u64,
    pub(crate) packets_lost: u64,
    pub(crate) deaths: u64,
}

/// The part that serves subfiles.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct IoNode {
    pub(crate) transfers: usize,
    pub(crate) memory_bytes: u64,
    /// Failed system calls by kind.
    pub(crate) errors: BTreeMap<String, u64>,
    /// What there is of what all clients share.
    #[serde(default)]
    pub(crate) limits: IoNodeLimits,
    /// What each member has of it.
    #[serde(default)]
    pub(crate) members: BTreeMap<String, Use>,
}

/// Of the I/O node's limits those that the config file's `[io_node]` sets.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct IoNodeLimits {
    pub(crate) memory_bytes: u64,
    pub(crate) request_bytes: u64,
    pub(crate) transfers_per_member: usize,
    pub(crate) disk_operations: usize,
}

/// What one member has of what an I/O node's clients share.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Use {
    pub(crate) transfers: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) request_bytes: u64,
    pub(crate) claims: usize,
}

impl Observer {
    /// Looks at the member.
    pub(crate) async fn observe(&self) -> Result<Observation, EndpointEnded> {
        let mut observation = self.handle.inspect(look).await?;
        observation.socket = socket_counts(self.handle.data_counts().await?);
        observation.member.clone_from(&self.name);
        observation.up_s = self.started.elapsed().as_secs_f64();
        let [control, data] = &self.addresses;
        observation.control.clone_from(control);
        observation.data.clone_from(data);
        Ok(observation)
    }

    /// The overlay file that the member uses.
    pub(crate) async fn overlay_map(&self) -> Result<OverlayMap, EndpointEnded> {
        self.handle.inspect(|node, _| OverlayMap::of(node.overlay())).await
    }
}

/// What can be seen from within the endpoint; the rest is filled in by the caller.
fn look(node: &Node, application: &SfioApplication) -> Observation {
    let sessions = node.sessions().filter_map(|id| Some((id.0, node.session_status(id)?)));
    Observation {
        member: String::new(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        process: std::process::id(),
        up_s: 0.0,
        control: String::new(),
        data: String::new(),
        overlay_serial: node.overlay().serial,
        shutting_down: node.is_draining(),
        members: members(node),
        circuits: circuits(node),
        sessions: sessions.map(|(id, status)| session(node, id, &status)).collect(),
        socket: BTreeMap::new(),
        datagrams: datagram_counts(node),
        circuit_counts: circuit_counts(node),
        io_node: application.io_node().map(|own| io_node(node, own)),
        compression: compression(node, application),
        limits: serde_json::to_value(&node.config().limits).unwrap_or_default(),
        policing: serde_json::to_value(&node.config().policing).unwrap_or_default(),
    }
}

fn io_node(node: &Node, io_node: &sfio_remote::io_node::IoNode) -> IoNode {
    let (config, errors) = (io_node.config(), io_node.error_counters());
    let of_member = |(member, used): (MemberId, MemberUse)| {
        let MemberUse { transfers, memory_bytes, request_bytes, claims } = used;
        (node.overlay().name(member), Use { transfers, memory_bytes, request_bytes, claims })
    };
    IoNode {
        transfers: io_node.transfer_count(),
        memory_bytes: io_node.memory_used(),
        errors: errors.iter().map(|(call, count)| (format!("{call:?}").to_lowercase(), count)).collect(),
        limits: IoNodeLimits {
            memory_bytes: config.memory_bytes,
            request_bytes: config.request_bytes,
            transfers_per_member: config.transfers_per_member,
            disk_operations: config.disk_operations,
        },
        members: io_node.use_by_member().into_iter().map(of_member).collect(),
    }
}

fn compression(node: &Node, application: &SfioApplication) -> Vec<Compressed> {
    let of = |what: &'static str| {
        move |(member, explanation): (MemberId, Explanation)| Compressed {
            peer: node.overlay().name(member),
            what: what.to_owned(),
            codec: explanation.codec.to_string(),
            plain_bytes: explanation.plain_bytes,
            packed_bytes: explanation.packed_bytes,
            ratio: explanation.ratio(),
            why: explanation.why.to_string(),
        }
    };
    let read = application.io_node().into_iter().flat_map(|io_node| io_node.compression()).map(of("read"));
    application.as_client().compression().map(of("written")).chain(read).collect()
}

fn members(node: &Node) -> Vec<Member> {
    let overlay = node.overlay();
    let member = |(id, member): (MemberId, &fec_transport::overlay::Member)| {
        let over_links = node.neighbours().filter(|neighbour| neighbour.peer.member == id && neighbour.is_up);
        // A process that is connected over several links is one process, connected since the first of them was.
        let mut connected: BTreeMap<Peer, f64> = BTreeMap::new();
        for neighbour in over_links {
            let since = node.now().since(neighbour.since).as_secs_f64();
            connected
                .entry(neighbour.peer)
                .and_modify(|longest| *longest = since.max(*longest))
                .or_insert(since);
        }
        Member {
            name: member.name.clone(),
            links: links_to(node, id),
            is_neighbour: overlay.are_neighbours(node.member(), id),
            connected: connected.len(),
            connected_s: connected.into_values().reduce(f64::min),
        }
    };
    overlay.listed_members().filter(|(id, _)| *id != node.member()).map(member).collect()
}

/// The links with a name to a member, those over uplinks that the overlay file does not know included.
fn links_to(node: &Node, member: MemberId) -> Vec<NamedLink> {
    let overlay = node.overlay();
    let mut links: BTreeMap<LinkId, bool> =
        overlay.links_between(node.member(), member).iter().map(|link| (*link, false)).collect();
    for neighbour in node.neighbours().filter(|neighbour| neighbour.peer.member == member) {
        *links.entry(neighbour.link).or_default() |= neighbour.is_up;
    }
    let named = links
        .into_iter()
        .map(|(link, is_connected)| NamedLink { name: overlay.link_label(link), is_connected });
    named.filter(|link| !link.name.is_empty()).collect()
}

fn names(node: &Node, route: &[MemberId]) -> Vec<String> {
    route.iter().map(|member| node.overlay().name(*member)).collect()
}

fn link_names(node: &Node, links: &[LinkId]) -> Vec<String> {
    node.overlay().link_names(links)
}

fn circuits(node: &Node) -> Vec<Circuit> {
    let part = |part| match part {
        CircuitPart::Originator => "originator",
        CircuitPart::Relay => "relay",
        CircuitPart::Responder => "responder",
    };
    let circuit = |status: fec_transport::CircuitStatus| Circuit {
        part: part(status.part).to_owned(),
        route: names(node, &status.route),
        links: link_names(node, &status.links),
        answered: status.answered,
        expires_s: status.expires.since(node.now()).as_secs_f64(),
    };
    node.circuits().map(circuit).collect()
}

fn session(node: &Node, id: u64, status: &SessionStatus) -> Session {
    let sent = &status.sent;
    let symbols = |path: &PathStatus| path.counters.source_symbols + path.counters.repair_symbols;
    let all: u64 = status.paths.iter().map(symbols).sum();
    Session {
        id,
        peer: node.overlay().name(status.peer.member),
        instance: format!("{:016x}", status.peer.instance.0),
        incoming: status.incoming,
        epoch: status.epoch,
        streams: status.streams,
        received_bytes: status.delivery.bytes,
        acknowledged_bytes: status.acknowledged.bytes,
        queued_bytes: status.memory,
        source_symbols: sent.source_symbols,
        overhead: ratio(sent.redundancy_symbols + sent.repair_symbols, sent.source_symbols),
        repaired_blocks: sent.repaired_blocks,
        blocks: sent.blocks,
        not_opened: status.dropped,
        paths: status.paths.iter().map(|path| describe(node, path, ratio(symbols(path), all))).collect(),
    }
}

fn describe(node: &Node, path: &PathStatus, share: f64) -> Path {
    let state = match path.state {
        PathState::Unconfirmed => "unconfirmed",
        PathState::Live => "live",
        PathState::Dead { .. } => "dead",
    };
    let counters = &path.counters;
    Path {
        id: path.id.0,
        route: names(node, &path.route),
        links: link_names(node, &path.links),
        state: state.to_owned(),
        rate_mbit: path.rate_bps / 1e6,
        round_trip_ms: path.round_trip.as_secs_f64() * 1e3,
        queue_ms: path.queue.as_secs_f64() * 1e3,
        loss: path.loss,
        planned_share: path.planned_share,
        share,
        redundancy: ratio(counters.repair_symbols, counters.source_symbols),
        packets_sent: counters.packets_sent,
        packets_received: counters.packets_received,
        packets_lost: counters.packets_lost,
        deaths: counters.deaths,
    }
}

/// One number over another; 0 over nothing is 0.
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn named<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

fn socket_counts(counts: DataCounts) -> BTreeMap<String, u64> {
    named([
        ("sent", counts.sent),
        ("received", counts.received),
        ("without_address", counts.without_address),
        ("refused", counts.refused),
    ])
}

fn datagram_counts(node: &Node) -> BTreeMap<String, u64> {
    let counters = node.datagram_counters();
    named([
        ("forwarded", counters.forwarded),
        ("delivered", counters.delivered),
        ("malformed", counters.malformed),
        ("unknown_label", counters.unknown_label),
        ("bad_tag", counters.bad_tag),
        ("replayed", counters.replayed),
        ("policed", counters.policed),
        ("queue_full", counters.queue_full),
    ])
}

fn circuit_counts(node: &Node) -> BTreeMap<String, u64> {
    let counters = node.circuit_counters();
    named([
        ("admitted", counters.admitted),
        ("refused", counters.refused),
        ("answered", counters.answered),
        ("torn_down", counters.torn_down),
        ("expired", counters.expired),
        ("unanswered", counters.unanswered),
        ("malformed_control", node.malformed_control()),
    ])
}
