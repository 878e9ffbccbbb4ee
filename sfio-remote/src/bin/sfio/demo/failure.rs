//! The link that dies half-way: which one, when, and what it did to delivery.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant, SystemTime};

use fec_transport::io::Handle;
use fec_transport::{Node, PathId, SessionId, Time};
use netsim::emulator::LinkHandle;
use sfio_remote::application::SfioApplication;

use super::network::Network;
use super::report::{KillReport, links_of};
use crate::progress::Progress;

/// How often the paths' counters are read.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);
/// The time before the failure over which a link's share is taken.
const SHARE_WINDOW: Duration = Duration::from_secs(1);
/// For how long before the failure, and for how long after it, gaps in delivery count.
const GAP_WINDOW: Duration = Duration::from_secs(2);

/// A link that was killed.
pub(super) struct Killed {
    pub(super) link: LinkHandle,
    pub(super) share: f64,
    at: Time,
    gap_before: Duration,
}

/// Symbols that each path had carried at some time, and the links of each path.
struct Sample {
    taken: Instant,
    symbols: BTreeMap<(SessionId, PathId), (u64, Vec<String>)>,
}

/// Waits until `progress` is half-way and kills the link that carried the most symbols in the last second; the caller
/// ends it, if replication was over before.
pub(super) async fn kill_busiest_half_way(
    client: Handle<SfioApplication>,
    network: &Network,
    progress: &Progress,
) -> Option<Killed> {
    let mut samples: VecDeque<Sample> = VecDeque::new();
    loop {
        samples.push_back(Sample {
            taken: Instant::now(),
            symbols: client.inspect(|node, _| symbols(node)).await.ok()?,
        });
        while samples.len() > 2 && samples[1].taken.elapsed() >= SHARE_WINDOW {
            samples.pop_front();
        }
        if progress.is_half_way()
            && let Some((name, share)) = busiest(&samples)
        {
            let link = network.link(&name)?;
            let at = now();
            let gap_before =
                client.inspect(move |node, _| longest_gap(node, at - GAP_WINDOW, at)).await.ok()?;
            link.kill();
            return Some(Killed { link, share, at: now(), gap_before });
        }
        tokio::time::sleep(SAMPLE_INTERVAL).await;
    }
}

impl Killed {
    /// What the report says of it; asks the client for the pauses in delivery.
    pub(super) async fn report(&self, client: &Handle<SfioApplication>) -> KillReport {
        let (from, to) = (self.at, self.at + GAP_WINDOW);
        let longest = client.inspect(move |node, _| longest_gap(node, from, to)).await.unwrap_or_default();
        let [longest_gap_ms, gap_before_ms] = [longest, self.gap_before].map(|gap| gap.as_secs_f64() * 1e3);
        KillReport { link: self.link.name().to_owned(), share: self.share, longest_gap_ms, gap_before_ms }
    }
}

fn symbols(node: &Node) -> BTreeMap<(SessionId, PathId), (u64, Vec<String>)> {
    let mut symbols = BTreeMap::new();
    for session in node.sessions() {
        for path in node.session_status(session).into_iter().flat_map(|status| status.paths) {
            let count = path.counters.source_symbols + path.counters.repair_symbols;
            symbols.insert((session, path.id), (count, links_of(node.overlay(), &path)));
        }
    }
    symbols
}

/// The link that carried the most symbols between the first sample and the last, and its share of all.
fn busiest(samples: &VecDeque<Sample>) -> Option<(String, f64)> {
    let (first, last) = (samples.front()?, samples.back()?);
    let mut by_link: BTreeMap<&String, u64> = BTreeMap::new();
    let mut all = 0;
    for (path, (count, links)) in &last.symbols {
        let carried = count - first.symbols.get(path).map_or(0, |(before, _)| *before);
        all += carried;
        links.iter().for_each(|link| *by_link.entry(link).or_default() += carried);
    }
    let (link, carried) = by_link.into_iter().max_by_key(|(_, carried)| *carried)?;
    (carried > 0).then(|| (link.clone(), carried as f64 / all as f64))
}

fn longest_gap(node: &Node, from: Time, to: Time) -> Duration {
    let sessions = node.sessions().filter_map(|session| node.session_status(session));
    sessions.map(|status| status.acknowledged.longest_gap(from, to)).max().unwrap_or_default()
}

/// The time as endpoints tell it to their nodes.
fn now() -> Time {
    Time::from_epoch(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_link_is_that_of_the_paths_together() {
        let path = |number, links: &[&str]| {
            let links = links.iter().map(|link| (*link).to_owned()).collect::<Vec<_>>();
            ((SessionId(1), PathId(number)), links)
        };
        let paths =
            [path(1, &["c – r", "r – x"]), path(2, &["c – r", "r – y"]), path(3, &["c – s", "s – x"])];
        let sample = |counts: [u64; 3]| Sample {
            taken: Instant::now(),
            symbols: paths
                .iter()
                .zip(counts)
                .map(|((id, links), count)| (*id, (count, links.clone())))
                .collect(),
        };
        let samples = VecDeque::from([sample([100, 0, 500]), sample([130, 30, 540])]);
        assert_eq!(busiest(&samples), Some(("c – r".to_owned(), 0.6)));
        assert_eq!(busiest(&VecDeque::from([sample([1, 1, 1])])), None);
    }
}
