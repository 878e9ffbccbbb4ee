//! `--paths`: what each way through the network does, below the progress of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fec_transport::{Node, PathState, PathStatus};
use sfio_remote::io::SfioClient;
use tokio::task::JoinHandle;

/// How often the member's process is asked.
const LOOK: Duration = Duration::from_secs(1);

/// A line for each way, kept up to date by a task that ends with this.
#[derive(Debug)]
pub(super) struct PathLines {
    lines: Arc<Mutex<String>>,
    looking: JoinHandle<()>,
}

/// All paths that cross the same relays, to whatever I/O node.
#[derive(Debug, Default)]
struct Way {
    paths: usize,
    live: usize,
    rate_bps: f64,
    packets: u64,
    lost: u64,
    round_trip: Duration,
}

impl PathLines {
    pub(super) fn of(client: &SfioClient) -> PathLines {
        let (lines, handle) = (Arc::<Mutex<String>>::default(), client.handle().clone());
        let written = Arc::clone(&lines);
        let looking = tokio::spawn(async move {
            // Without a member's process there is nothing to see.
            while let Ok(seen) = handle.inspect(|node, _| describe(node)).await {
                *written.lock().unwrap_or_else(PoisonError::into_inner) = seen;
                tokio::time::sleep(LOOK).await;
            }
        });
        PathLines { lines, looking }
    }

    /// The lines, each with a line break before it.
    pub(super) fn text(&self) -> String {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for PathLines {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

fn describe(node: &Node) -> String {
    let mut ways: BTreeMap<String, Way> = BTreeMap::new();
    let sessions = node.sessions().filter_map(|session| node.session_status(session));
    for path in sessions.flat_map(|session| session.paths) {
        ways.entry(title(node, &path)).or_default().add(&path);
    }
    ways.iter().map(|(title, way)| format!("\n  {title}: {way}")).collect()
}

/// By which relays a path leads, and over which links as far as they have names.
fn title(node: &Node, path: &PathStatus) -> String {
    let relays = path.route.get(1..path.route.len().saturating_sub(1)).unwrap_or_default();
    let relays: Vec<String> = relays.iter().map(|relay| node.overlay().name(*relay)).collect();
    let via = if relays.is_empty() { "direct".to_owned() } else { format!("via {}", relays.join(", ")) };
    let names = node.overlay().link_names(&path.links);
    let names: Vec<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
    if names.is_empty() { via } else { format!("{via} ({})", names.join(", ")) }
}

impl Way {
    fn add(&mut self, path: &PathStatus) {
        self.paths += 1;
        self.live += usize::from(path.state == PathState::Live);
        self.rate_bps += path.rate_bps;
        self.packets += path.counters.packets_sent;
        self.lost += path.counters.packets_lost;
        self.round_trip = self.round_trip.max(path.round_trip);
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loss = 100.0 * self.lost as f64 / self.packets.max(1) as f64;
        write!(
            f,
            "{}/{} live, up to {:.1} Mbit/s, {} packets, {loss:.1} % lost, {} ms",
            self.live,
            self.paths,
            self.rate_bps / 1e6,
            self.packets,
            self.round_trip.as_millis()
        )
    }
}
