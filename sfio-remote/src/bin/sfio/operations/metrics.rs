//! The metrics page of a member: what `sfio status` shows, for Prometheus.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode, header};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use super::{Observation, Observer, Path, Session};
use crate::http::{self, Limits};

/// How many collectors may read the page at once; others wait.
const MAX_CONNECTIONS: usize = 16;
/// How long a connection may last.
const CONNECTION_LIMIT: Duration = Duration::from_secs(60);
/// What the page is, as its readers want to be told (OpenMetrics 1.0).
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) type Labels = Vec<(&'static str, String)>;

/// Serves the page of a member until it is aborted.
pub(super) async fn serve(listener: TcpListener, observer: Observer) {
    serve_page(listener, move || {
        let observer = observer.clone();
        async move { observer.observe().await.map_err(|_| fmt::Error).and_then(|seen| page(Page(seen))) }
    })
    .await;
}

/// Serves the page that `make` makes anew for each reader, until it is aborted.
pub(super) async fn serve_page<P>(listener: TcpListener, make: impl Fn() -> P + Clone + Send + 'static)
where
    P: Future<Output = Result<String, fmt::Error>> + Send + 'static,
{
    let limits = Limits { connections: MAX_CONNECTIONS, lasting: CONNECTION_LIMIT, keep_alive: true };
    let respond = move |request| respond(request, make.clone());
    http::serve(listener, limits, std::future::pending(), respond).await;
}

async fn respond<P>(request: Request<Incoming>, make: impl Fn() -> P) -> Response<Full<Bytes>>
where
    P: Future<Output = Result<String, fmt::Error>>,
{
    let (status, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => match make().await {
            Ok(page) => (StatusCode::OK, page),
            Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the member has ended\n".to_owned()),
        },
        (&Method::GET, _) => (StatusCode::NOT_FOUND, "the page is /metrics\n".to_owned()),
        _ => (StatusCode::METHOD_NOT_ALLOWED, "GET /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    if status == StatusCode::OK {
        let value = header::HeaderValue::from_static(CONTENT_TYPE);
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    response
}

/// A page with what is collected.
pub(super) fn page(collector: impl Collector) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("sfio");
    registry.register_collector(Box::new(collector));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

/// Which program it is, as each page tells.
pub(super) fn encode_build(to: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let labels = [("version", env!("CARGO_PKG_VERSION")), ("commit", program::COMMIT)]
        .map(|(name, value)| (name, value.to_owned()));
    gauge(
        to,
        "build_info",
        "The program's version and the commit it is built from",
        [(labels.into(), 1.0)].into_iter(),
    )
}

/// One look at the member, as metrics.
#[derive(Debug)]
struct Page(Observation);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        encode_build(&mut encoder)?;
        self.encode_member(&mut encoder)?;
        self.encode_sessions(&mut encoder)?;
        self.encode_paths(&mut encoder)?;
        self.encode_io_node(&mut encoder)
    }
}

impl Page {
    fn encode_member(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Page(member) = self;
        let one = |value: f64| [(Vec::new(), value)].into_iter();
        gauge(to, "up_seconds", "For how long the process has been up", one(member.up_s))?;
        let serial = member.overlay_serial as f64;
        gauge(to, "overlay_serial", "Serial of the overlay file in use", one(serial))?;
        let connected: usize = member.members.iter().map(|member| member.connected).sum();
        gauge(to, "neighbour_processes", "Neighbours' processes connected", one(connected as f64))?;
        let parts = ["originator", "relay", "responder"].map(|part| {
            let count = member.circuits.iter().filter(|circuit| circuit.part == part).count();
            (vec![("part", part.to_owned())], count as f64)
        });
        gauge(to, "circuits", "Circuits by the part that this member plays", parts.into_iter())?;
        let fates = by("fate", &member.circuit_counts);
        counter(to, "circuit_events", "Set-ups and circuits by what became of them", fates)?;
        let fates = by("fate", &member.datagrams);
        counter(to, "datagrams", "Datagrams that arrived, by what became of them", fates)?;
        let fates = by("fate", &member.socket);
        counter(to, "socket_datagrams", "Datagrams at the data socket, by what became of them", fates)?;
        gauge(to, "sessions", "Open sessions", one(member.sessions.len() as f64))
    }

    fn encode_sessions(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let bytes = |value: fn(&Session) -> u64| self.sessions(value);
        let received = bytes(|session| session.received_bytes);
        counter(to, "session_received_bytes", "Bytes received of whole blocks", received)?;
        let acknowledged = bytes(|session| session.acknowledged_bytes);
        counter(to, "session_acknowledged_bytes", "Bytes sent that the peer has", acknowledged)?;
        let not_opened = bytes(|session| session.not_opened);
        counter(to, "session_not_opened", "Packets over a right label that did not open", not_opened)?;
        let blocks = bytes(|session| session.blocks);
        counter(to, "session_blocks", "Source blocks sent", blocks)?;
        let repaired = bytes(|session| session.repaired_blocks);
        counter(to, "session_repaired_blocks", "Source blocks that needed a repair", repaired)?;
        let queued = self.sessions(|session| session.queued_bytes as f64);
        gauge(to, "session_queued_bytes", "Bytes on their way in and out", queued)?;
        let streams = self.sessions(|session| session.streams as f64);
        gauge(to, "session_streams", "Streams open", streams)?;
        let overhead = self.sessions(|session| session.overhead);
        gauge(to, "session_overhead", "Symbols beyond the source over source symbols", overhead)
    }

    fn encode_paths(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let live = self.paths(|path| f64::from(u8::from(path.state == "live")));
        gauge(to, "path_live", "Whether the path carries data", live)?;
        let rate = self.paths(|path| path.rate_mbit * 1e6);
        gauge(to, "path_rate_bps", "Rate at which the path is paced, bit/s", rate)?;
        let loss = self.paths(|path| path.loss);
        gauge(to, "path_loss", "Share of packets lost lately", loss)?;
        let share = self.paths(|path| path.share);
        gauge(to, "path_share", "Share of the session's symbols that the path has carried", share)?;
        let planned = self.paths(|path| path.planned_share);
        gauge(to, "path_planned_share", "Share that the plan gives it", planned)?;
        let redundancy = self.paths(|path| path.redundancy);
        gauge(to, "path_redundancy", "Repair symbols over source symbols", redundancy)?;
        let round_trip = self.paths(|path| path.round_trip_ms / 1e3);
        gauge(to, "path_round_trip_seconds", "Smoothed round trip", round_trip)?;
        let queue = self.paths(|path| path.queue_ms / 1e3);
        gauge(to, "path_queue_seconds", "Time of the latest packet in queues", queue)?;
        let sent = self.paths(|path| path.packets_sent);
        counter(to, "path_packets_sent", "Packets sent", sent)?;
        let received = self.paths(|path| path.packets_received);
        counter(to, "path_packets_received", "Packets received", received)?;
        let lost = self.paths(|path| path.packets_lost);
        counter(to, "path_packets_lost", "Packets sent that the peer's reports show to be lost", lost)?;
        let deaths = self.paths(|path| path.deaths);
        counter(to, "path_deaths", "How often the path left the schedule", deaths)
    }

    fn encode_io_node(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(io_node) = &self.0.io_node else { return Ok(()) };
        let one = |value: f64| [(Vec::new(), value)].into_iter();
        gauge(to, "io_node_transfers", "Transfers under way", one(io_node.transfers as f64))?;
        let memory = io_node.memory_bytes as f64;
        gauge(to, "io_node_memory_bytes", "Payload between network and disk", one(memory))?;
        let errors = by("call", &io_node.errors);
        counter(to, "io_node_errors", "Failed system calls by kind", errors)
    }

    fn sessions<T>(&self, value: impl Fn(&Session) -> T) -> impl Iterator<Item = (Labels, T)> {
        self.0.sessions.iter().map(move |session| (session_labels(session), value(session)))
    }

    fn paths<T>(&self, value: impl Fn(&Path) -> T) -> impl Iterator<Item = (Labels, T)> {
        let all =
            self.0.sessions.iter().flat_map(|session| session.paths.iter().map(move |path| (session, path)));
        all.map(move |(session, path)| {
            let mut labels = session_labels(session);
            labels.push(("path", path.id.to_string()));
            labels.push(("route", path.route.join(" ")));
            (labels, value(path))
        })
    }
}

fn session_labels(session: &Session) -> Labels {
    vec![("session", session.id.to_string()), ("peer", session.peer.clone())]
}

fn by(label: &'static str, counts: &BTreeMap<String, u64>) -> impl Iterator<Item = (Labels, u64)> {
    counts.iter().map(move |(name, count)| (vec![(label, name.clone())], *count))
}

pub(super) fn counter(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl Iterator<Item = (Labels, u64)>,
) -> fmt::Result {
    family(to, name, help, values.map(|(labels, value)| (labels, ConstCounter::new(value))))
}

pub(super) fn gauge(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl Iterator<Item = (Labels, f64)>,
) -> fmt::Result {
    family(to, name, help, values.map(|(labels, value)| (labels, ConstGauge::new(value))))
}

fn family<M: EncodeMetric>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl Iterator<Item = (Labels, M)>,
) -> fmt::Result {
    let mut values = values.peekable();
    let Some((_, first)) = values.peek() else { return Ok(()) };
    let mut metric = to.encode_descriptor(name, help, None, first.metric_type())?;
    for (labels, value) in values {
        if labels.is_empty() {
            value.encode(metric)?;
            return Ok(());
        }
        value.encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}
