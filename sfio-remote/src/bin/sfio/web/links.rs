//! What is known of links: what somebody counts on them, or what the paths over them tell.

use std::collections::BTreeMap;

use fec_transport::overlay::link_title;

use super::meter::{Counts, Meter};
use super::picture::{Flow, Life, Link, Path, rounded};
use super::sessions::MBIT;
use super::watcher::LinkCounts;
use crate::operations::{MappedLink, Observation, OverlayMap};

/// The counters of links that somebody counts on.
pub(super) fn count(overlay: &OverlayMap, links: &[LinkCounts], counts: &mut Counts) {
    for (link, of_link) in overlay.links.iter().zip(links) {
        let LinkCounts { forward_bytes, backward_bytes, offered, lost, .. } = *of_link;
        counts.insert(link_key(link), [forward_bytes, backward_bytes, offered, lost]);
    }
}

fn link_key(link: &MappedLink) -> String {
    format!("link {}", link_title(&link.a, &link.b, &link.name))
}

/// What tells about links.
pub(super) struct Evidence<'a> {
    pub(super) overlay: &'a OverlayMap,
    pub(super) observation: Option<&'a Observation>,
    pub(super) paths: Vec<&'a Path>,
    /// By link of the overlay, if somebody counts on them.
    pub(super) counted: &'a [LinkCounts],
    pub(super) meter: &'a Meter,
}

/// A path over a link, and whether it leaves the link's first end by it.
#[derive(Debug, Clone, Copy)]
struct Crossing<'a> {
    path: &'a Path,
    is_forward: bool,
}

impl Evidence<'_> {
    /// The links as a page shows them, in the order of the overlay file. How often each died is not known here.
    pub(super) fn links(&self) -> Vec<Link> {
        let crossings = self.crossings();
        let none = Vec::new();
        let all = self.overlay.links.iter().enumerate();
        all.map(|(index, link)| {
            let over = crossings.get(&index).unwrap_or(&none);
            self.link(link, self.counted.get(index), over)
        })
        .collect()
    }

    fn crossings(&self) -> BTreeMap<usize, Vec<Crossing<'_>>> {
        let ends: BTreeMap<(&str, &str, &str), usize> = self
            .overlay
            .links
            .iter()
            .enumerate()
            .map(|(index, link)| ((link.a.as_str(), link.b.as_str(), link.name.as_str()), index))
            .collect();
        let mut crossings: BTreeMap<usize, Vec<Crossing<'_>>> = BTreeMap::new();
        for &path in &self.paths {
            for (place, hop) in path.route.windows(2).enumerate() {
                let (from, to) = (hop[0].as_str(), hop[1].as_str());
                let name = path.links.get(place).map_or("", String::as_str);
                let forward = ends.get(&(from, to, name)).map(|index| (index, true));
                let found = forward.or_else(|| ends.get(&(to, from, name)).map(|index| (index, false)));
                if let Some((index, is_forward)) = found {
                    crossings.entry(*index).or_default().push(Crossing { path, is_forward });
                }
            }
        }
        crossings
    }

    fn link(&self, link: &MappedLink, counted: Option<&LinkCounts>, over: &[Crossing<'_>]) -> Link {
        let key = link_key(link);
        let live_paths = over.iter().filter(|crossing| crossing.path.life == Life::Live).count();
        let life = match counted {
            Some(counts) if counts.is_up => Life::Live,
            Some(_) => Life::Dead,
            None => self.life(link, over, live_paths),
        };
        let flow = match counted {
            Some(_) => Flow { queue_ms: least_queue(over), ..self.counted_flow(&key) },
            None => inferred_flow(over),
        };
        Link {
            key,
            a: link.a.clone(),
            b: link.b.clone(),
            name: link.name.clone(),
            life,
            capacity_mbit: link.capacity_mbit,
            delay_ms: link.delay_ms,
            is_measured: counted.is_some(),
            flow,
            deaths: 0,
            paths: over.len(),
            live_paths,
        }
    }

    /// A link over which a path lives is alive; one over which only dead paths run is taken for dead, and so is one of
    /// the member's own to somebody who should be connected and is not.
    fn life(&self, link: &MappedLink, over: &[Crossing<'_>], live_paths: usize) -> Life {
        let is_dead = over.iter().any(|crossing| crossing.path.life == Life::Dead);
        match self.is_connected(link) {
            _ if live_paths > 0 => Life::Live,
            _ if is_dead => Life::Dead,
            Some(true) => Life::Live,
            Some(false) => Life::Dead,
            None => Life::Unknown,
        }
    }

    /// Whether the member has a control connection over one of its own links, if it should have one.
    fn is_connected(&self, link: &MappedLink) -> Option<bool> {
        let observation = self.observation?;
        let other = match observation.member.as_str() {
            own if own == link.a => &link.b,
            own if own == link.b => &link.a,
            _ => return None,
        };
        let connected = observation.members.iter().find(|member| member.name == *other)?.connected > 0;
        let listens = self.overlay.members.iter().any(|member| member.name == *other && member.listens);
        // A client comes and goes as it likes.
        (connected || listens).then_some(connected)
    }

    fn counted_flow(&self, key: &str) -> Flow {
        let [forward, backward, ..] = self.meter.per_second(key).map(|bytes| bytes * MBIT);
        let [_, _, offered, lost] = self.meter.growth(key);
        Flow {
            out_mbit: rounded(forward, 2),
            in_mbit: rounded(backward, 2),
            loss: (offered > 0).then(|| rounded((lost as f64 / offered as f64).min(1.0), 4)),
            queue_ms: None,
        }
    }
}

/// What the paths over a link carry there, and the least that one of them loses: the link loses no more.
fn inferred_flow(over: &[Crossing<'_>]) -> Flow {
    let (mut out_mbit, mut in_mbit) = (0.0, 0.0);
    for Crossing { path, is_forward } in over {
        let (forward, backward) = match is_forward {
            true => (path.flow.out_mbit, path.flow.in_mbit),
            false => (path.flow.in_mbit, path.flow.out_mbit),
        };
        out_mbit += forward;
        in_mbit += backward;
    }
    let live = over.iter().filter(|crossing| crossing.path.life == Life::Live);
    let loss = live.filter_map(|crossing| crossing.path.flow.loss).reduce(f64::min);
    Flow { out_mbit: rounded(out_mbit, 2), in_mbit: rounded(in_mbit, 2), loss, queue_ms: least_queue(over) }
}

fn least_queue(over: &[Crossing<'_>]) -> Option<f64> {
    let live = over.iter().filter(|crossing| crossing.path.life == Life::Live);
    live.filter_map(|crossing| crossing.path.flow.queue_ms).reduce(f64::min)
}
