//! A route of a session: which circuit it has, and when to try again.

use std::time::Duration;

use super::detour::Health;
use super::plan::PlannedRoute;
use crate::config::Routing;
use crate::session::path::PathId;
use crate::time::Time;
use crate::wire::circuit::CircuitId;

/// The longest pause between two tries of a route.
const MAX_RETRY: Duration = Duration::from_secs(10);

/// One route, with or without a circuit.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) planned: PlannedRoute,
    /// Its share of the flow in the latest plan that has it: the one around a dead link, while there is one.
    pub(super) share: f64,
    /// Whether it leads around a dead link and is given up later.
    pub(super) is_detour: bool,
    pub(super) state: RouteState,
    pub(super) failures: u32,
    /// What its last set-up says of its links, and since when; none once one was answered.
    pub(super) trouble: Option<(Time, Health)>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum RouteState {
    Idle { retry_at: Time },
    SettingUp { path: PathId, replaces: Option<(CircuitId, PathId)> },
    Open { circuit: CircuitId, path: PathId, refresh_at: Time },
}

impl Route {
    /// When to set up a circuit along it.
    pub(super) fn due(&self) -> Option<Time> {
        match self.state {
            RouteState::Idle { retry_at } => Some(retry_at),
            RouteState::Open { refresh_at, .. } => Some(refresh_at),
            RouteState::SettingUp { .. } => None,
        }
    }

    /// The route with its present share.
    pub(super) fn as_shared(&self) -> PlannedRoute {
        PlannedRoute { share: self.share, members: self.planned.members.clone() }
    }

    /// The circuit and the path that it has now, if any.
    pub(super) fn open(&self) -> Option<(CircuitId, PathId)> {
        match self.state {
            RouteState::Open { circuit, path, .. } => Some((circuit, path)),
            RouteState::SettingUp { replaces, .. } => replaces,
            RouteState::Idle { .. } => None,
        }
    }

    pub(super) fn circuit(&self) -> Option<CircuitId> {
        self.open().map(|(circuit, _)| circuit)
    }

    pub(super) fn path(&self) -> Option<PathId> {
        self.open().map(|(_, path)| path)
    }

    /// How it is; trouble that came after `ripe` says nothing yet.
    pub(super) fn health(&self, ripe: Time, paths: impl Fn(PathId) -> Health) -> Health {
        match (self.path(), self.trouble) {
            (Some(path), _) => paths(path),
            (None, Some((since, health))) if since <= ripe => health,
            _ => Health::Unknown,
        }
    }

    pub(super) fn fail(&mut self, now: Time, (since, health): (Time, Health), routing: &Routing) {
        self.trouble = match (self.trouble, health) {
            (_, Health::Live | Health::Unknown) => None,
            (Some((earlier, _)), _) => Some((earlier.min(since), health)),
            (None, _) => Some((since, health)),
        };
        let pause = (routing.retry * (1 << self.failures.min(8))).min(MAX_RETRY);
        self.failures += 1;
        self.state = match self.state {
            RouteState::SettingUp { replaces: Some((circuit, path)), .. } => {
                RouteState::Open { circuit, path, refresh_at: now + pause }
            }
            RouteState::Open { circuit, path, refresh_at } if refresh_at <= now => {
                RouteState::Open { circuit, path, refresh_at: now + pause }
            }
            _ => RouteState::Idle { retry_at: now + pause },
        };
    }
}
