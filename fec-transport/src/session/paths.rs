//! The paths of a session: how they come and go, and what is told of them.

use std::time::Duration;

use super::Session;
use super::path::{Path, PathCounters, PathId, PathState};
use crate::overlay::{MemberId, Overlay};
use crate::time::Time;

/// A path of a session, as people and programs see it.
#[derive(Debug, Clone, PartialEq)]
pub struct PathStatus {
    /// Its number.
    pub id: PathId,
    /// The members from this end to the other.
    pub route: Vec<MemberId>,
    /// Whether it carries data.
    pub state: PathState,
    /// The share of the flow that the plan gives it, in [0, 1]; those of a session sum to no more than 1.
    pub planned_share: f64,
    /// The rate at which it is paced, in bit/s, IP headers included.
    pub rate_bps: f64,
    /// Its smoothed round trip.
    pub round_trip: Duration,
    /// The share of packets that it loses, as measured lately.
    pub loss: f64,
    /// For how long the latest packet that was reported had stood in queues on the way.
    pub queue: Duration,
    /// Its counters.
    pub counters: PathCounters,
}

impl Session {
    /// Adds a path; it carries data once a probe has come back over it. Gives false, and adds nothing, if its number was
    /// used before or there are too many paths.
    pub(crate) fn add_path(&mut self, mut path: Path) -> bool {
        // Twice the limit: a path that is replaced lives on for a while.
        if self.paths.len() < 2 * self.config.limits.paths && self.used_paths.mark(path.id.0.into()) {
            self.living_at = None;
            path.span = tracing::info_span!(parent: &self.span, "path", id = path.id.0);
            path.rate.set_fair(self.config.pace.fair);
            self.paths.push(path);
            return true;
        }
        false
    }

    /// The paths that have been dead, or never confirmed, for at least `patience`.
    pub(crate) fn hopeless_paths(&self, now: Time, patience: Duration) -> Vec<PathId> {
        let hopeless = |path: &&Path| now.since(path.received.last_heard) >= patience && !path.is_live();
        self.paths.iter().filter(hopeless).map(|path| path.id).collect()
    }

    /// Whether a path carries data, and when something was heard on it last.
    pub(crate) fn path_state(&self, id: PathId) -> Option<(PathState, Time)> {
        let path = self.paths.iter().find(|path| path.id == id)?;
        Some((path.state, path.received.last_heard))
    }

    /// Gives paths the shares of the flow that the present plan has for them.
    pub(crate) fn share_by_plan(&mut self, shares: &[(PathId, f64)]) {
        self.living_at = None;
        for (id, share) in shares {
            if let Some(path) = self.paths.iter_mut().find(|path| path.id == *id) {
                path.planned_share = *share;
            }
        }
    }

    /// Gives a path no new blocks from now on: its circuit is about to be torn down. It ends what it has begun, so that
    /// nothing on the way is lost with it; gives false if there is nothing to end.
    pub(crate) fn retire_path(&mut self, id: PathId) -> bool {
        self.living_at = None;
        let path = self.paths.iter_mut().find(|path| path.id == id && path.is_live());
        path.map(|path| path.is_retiring = true).is_some()
    }

    /// Removes a path whose circuit is gone.
    pub(crate) fn remove_path(&mut self, id: PathId) {
        self.living_at = None;
        self.sender.on_path_death(id);
        self.paths.retain(|path| path.id != id);
    }

    /// A newer overlay file may have given links other capacities.
    pub(crate) fn recount_links(&mut self, overlay: &Overlay) {
        for path in &mut self.paths {
            path.links = overlay.route_links(&path.route);
        }
        self.living_at = None;
    }

    pub(crate) fn path_statuses(&self) -> Vec<PathStatus> {
        // While a path that was planned around comes back, the weights of both plans are in use.
        let planned: f64 = self.paths.iter().map(|path| path.planned_share).sum();
        let status = |path: &Path| PathStatus {
            id: path.id,
            route: path.route.clone(),
            state: path.state,
            planned_share: path.planned_share / planned.max(1.0),
            rate_bps: path.rate.mean_rate(),
            round_trip: path.round_trip.smoothed(),
            loss: path.loss_share(),
            queue: path.rate.queue(),
            counters: path.counters,
        };
        self.paths.iter().map(status).collect()
    }
}
