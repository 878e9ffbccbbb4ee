//! Sessions and their paths, from what a member says of them.

use super::meter::{Counts, Meter};
use super::picture::{Flow, Life, Path, Session, rounded};
use crate::operations::{self, Observation};

/// Sessions that a page shows, and paths of each.
const MAX_SESSIONS: usize = 32;
const MAX_PATHS: usize = 32;

/// Bits of a byte, in Mbit.
pub(super) const MBIT: f64 = 8e-6;

/// The counters of all sessions and paths. Another `process` of the member counts anew.
pub(super) fn count(observation: &Observation, process: &str, counts: &mut Counts) {
    for session in &observation.sessions {
        let bytes = [session.acknowledged_bytes, session.received_bytes, 0, 0];
        counts.insert(session_key(process, session.id), bytes);
        for path in &session.paths {
            let packets = [path.packets_sent, path.packets_received, path.packets_lost, 0];
            counts.insert(path_key(process, session.id, path.id), packets);
        }
    }
}

/// The sessions as a page shows them, and how many there is no room for.
pub(super) fn sessions(observation: &Observation, process: &str, meter: &Meter) -> (Vec<Session>, usize) {
    let shown = observation.sessions.iter().take(MAX_SESSIONS);
    let left_out = observation.sessions.len().saturating_sub(MAX_SESSIONS);
    (shown.map(|session| picture_of(session, process, meter)).collect(), left_out)
}

/// All sessions together.
pub(super) fn all(sessions: &[Session], meter: &Meter) -> Flow {
    let paths = || sessions.iter().flat_map(|session| &session.paths);
    let (mut sent, mut lost) = (0, 0);
    for [path_sent, _, path_lost, _] in paths().map(|path| meter.growth(&path.key)) {
        sent += path_sent;
        lost += path_lost;
    }
    let queues = paths().filter(|path| path.life == Life::Live).filter_map(|path| path.flow.queue_ms);
    Flow {
        out_mbit: rounded(sessions.iter().map(|session| session.out_mbit).sum(), 2),
        in_mbit: rounded(sessions.iter().map(|session| session.in_mbit).sum(), 2),
        loss: (sent > 0).then(|| rounded((lost as f64 / sent as f64).min(1.0), 4)),
        queue_ms: queues.reduce(f64::max),
    }
}

fn session_key(process: &str, session: u64) -> String {
    format!("session {process}/{session}")
}

fn path_key(process: &str, session: u64, path: u32) -> String {
    format!("path {process}/{session}/{path}")
}

fn picture_of(session: &operations::Session, process: &str, meter: &Meter) -> Session {
    let key = session_key(process, session.id);
    let [out, inward, ..] = meter.per_second(&key).map(|bytes| bytes * MBIT);
    let grown = |path: &operations::Path| meter.growth(&path_key(process, session.id, path.id));
    let packets = session.paths.iter().map(grown);
    let [sent, received] =
        packets.fold([0, 0], |[sent, received], [more, most, ..]| [sent + more, received + most]);
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let path = |path: &operations::Path| {
        let [path_sent, path_received, ..] = grown(path);
        let flow = Flow {
            out_mbit: rounded(out * share(path_sent, sent), 2),
            in_mbit: rounded(inward * share(path_received, received), 2),
            loss: Some(rounded(path.loss, 4)),
            queue_ms: Some(rounded(path.queue_ms, 1)),
        };
        path_picture(path, path_key(process, session.id, path.id), flow)
    };
    Session {
        key,
        id: session.id,
        peer: session.peer.clone(),
        incoming: session.incoming,
        out_mbit: rounded(out, 2),
        in_mbit: rounded(inward, 2),
        queued_bytes: session.queued_bytes,
        streams: session.streams,
        paths: session.paths.iter().take(MAX_PATHS).map(path).collect(),
    }
}

fn path_picture(path: &operations::Path, key: String, flow: Flow) -> Path {
    Path {
        key,
        id: path.id,
        route: path.route.clone(),
        links: path.links.clone(),
        life: match path.state.as_str() {
            "live" => Life::Live,
            "dead" => Life::Dead,
            _ => Life::Unknown,
        },
        flow,
        paced_mbit: rounded(path.rate_mbit, 2),
        round_trip_ms: rounded(path.round_trip_ms, 1),
        share: rounded(path.share, 4),
        planned_share: rounded(path.planned_share, 4),
        redundancy: rounded(path.redundancy, 4),
        deaths: path.deaths,
    }
}
