//! The routes of the sessions that this node opens: which circuit each has, and when to try again.
//!
//! ```text
//!            ┌────────────── refused, no answer, path lost ─────────────┐
//!            ▼                                                          │
//! Idle ──retry time──▶ SettingUp ──answered──▶ Open ──four fifths of its lifetime──▶ SettingUp, the old one kept
//! ```
//! The first circuit of a session carries the handshake, so while a session is being opened only one of its routes is
//! tried at a time; the others join afterwards.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::{Liveness, Routing};
use crate::crypto::handshake::Initiator;
use crate::event::{CloseReason, SessionId};
use crate::overlay::MemberId;
use crate::plan::PlannedRoute;
use crate::session::path::PathId;
use crate::time::Time;
use crate::wire::circuit::CircuitId;

/// The longest pause between two tries of a route.
const MAX_RETRY: Duration = Duration::from_secs(10);
/// For how long a replaced circuit still takes what is on the way.
const RETIREMENT: Duration = Duration::from_secs(2);

/// The routes of all sessions that this node opens.
#[derive(Debug, Default)]
pub(super) struct Dialler {
    outgoing: BTreeMap<SessionId, Outgoing>,
    by_circuit: BTreeMap<CircuitId, (SessionId, usize)>,
    retiring: Vec<(Time, CircuitId)>,
}

/// The routes of one session.
#[derive(Debug)]
struct Outgoing {
    member: MemberId,
    routes: Vec<Route>,
    next_path: u32,
    opening: Option<Opening>,
}

/// A session that is being opened.
#[derive(Debug)]
struct Opening {
    deadline: Time,
    patience: Duration,
    handshake: Option<(Initiator, u64)>,
    last_refusal: Option<CloseReason>,
}

#[derive(Debug)]
struct Route {
    planned: PlannedRoute,
    state: RouteState,
    failures: u32,
}

#[derive(Debug, Clone, Copy)]
enum RouteState {
    Idle { retry_at: Time },
    SettingUp { path: PathId, replaces: Option<(CircuitId, PathId)> },
    Open { circuit: CircuitId, path: PathId, refresh_at: Time },
}

/// What the node is to do.
#[derive(Debug)]
pub(super) enum Action {
    /// Set up a circuit along a route.
    SetUp(Attempt),
    /// Give up a session that could not be opened.
    GiveUp { session: SessionId, member: MemberId, reason: CloseReason },
    /// Tear down a circuit that was replaced.
    Retire(CircuitId),
}

/// A circuit to set up.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    pub(super) session: SessionId,
    pub(super) route: usize,
    pub(super) member: MemberId,
    pub(super) planned: PlannedRoute,
    pub(super) path: PathId,
    /// Whether it is to carry the handshake.
    pub(super) opens: bool,
}

/// A circuit that was answered.
#[derive(Debug)]
pub(super) struct Established {
    pub(super) session: SessionId,
    pub(super) member: MemberId,
    pub(super) path: PathId,
    pub(super) planned: PlannedRoute,
    /// The handshake that it carries, and the session's token.
    pub(super) handshake: Option<(Initiator, u64)>,
}

impl Dialler {
    /// The session to `member` that is open or being opened.
    pub(super) fn session_to(&self, member: MemberId) -> Option<SessionId> {
        self.outgoing.iter().find(|(_, outgoing)| outgoing.member == member).map(|(id, _)| *id)
    }

    pub(super) fn is_opening(&self, session: SessionId) -> bool {
        self.outgoing.get(&session).is_some_and(|outgoing| outgoing.opening.is_some())
    }

    pub(super) fn member_of(&self, session: SessionId) -> Option<MemberId> {
        self.outgoing.get(&session).map(|outgoing| outgoing.member)
    }

    /// The sessions that are being opened.
    pub(super) fn opening(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.outgoing.iter().filter(|(_, outgoing)| outgoing.opening.is_some()).map(|(id, _)| *id)
    }

    /// Begins to open a session over `routes`.
    pub(super) fn open(
        &mut self,
        now: Time,
        session: SessionId,
        member: MemberId,
        routes: Vec<PlannedRoute>,
        liveness: &Liveness,
    ) {
        let idle = |planned| Route { planned, state: RouteState::Idle { retry_at: now }, failures: 0 };
        let patience = liveness.connect;
        let opening = Opening { deadline: now + patience, patience, handshake: None, last_refusal: None };
        let routes = routes.into_iter().map(idle).collect();
        self.outgoing.insert(session, Outgoing { member, routes, next_path: 1, opening: Some(opening) });
    }

    /// A neighbour has come: what waits for it is tried at once.
    pub(super) fn hurry(&mut self, now: Time, neighbour: MemberId) {
        for route in self.outgoing.values_mut().flat_map(|outgoing| &mut outgoing.routes) {
            if let RouteState::Idle { retry_at } = &mut route.state
                && route.planned.members.get(1) == Some(&neighbour)
            {
                *retry_at = now;
            }
        }
    }

    /// Forgets a session; gives its circuits that are being set up, which nobody else knows of.
    pub(super) fn forget(&mut self, session: SessionId) -> Vec<CircuitId> {
        self.outgoing.remove(&session);
        let circuits: Vec<CircuitId> =
            self.by_circuit.iter().filter(|(_, (owner, _))| *owner == session).map(|(id, _)| *id).collect();
        self.by_circuit.retain(|_, (owner, _)| *owner != session);
        circuits
    }

    /// What is to be done now; called until it gives nothing. Every [`Attempt`] must be followed by
    /// [`started`](Self::started) or [`failed`](Self::failed).
    pub(super) fn next_action(&mut self, now: Time) -> Option<Action> {
        if let Some(place) = self.retiring.iter().position(|(at, _)| *at <= now) {
            return Some(Action::Retire(self.retiring.swap_remove(place).1));
        }
        self.outgoing.iter_mut().find_map(|(session, outgoing)| outgoing.next_action(now, *session))
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        let retiring = self.retiring.iter().map(|(at, _)| *at);
        retiring.chain(self.outgoing.values().filter_map(Outgoing::next_timeout)).min()
    }

    /// The set-up of an attempt was sent.
    pub(super) fn started(
        &mut self,
        circuit: CircuitId,
        attempt: &Attempt,
        handshake: Option<(Initiator, u64)>,
    ) {
        let Some(outgoing) = self.outgoing.get_mut(&attempt.session) else { return };
        if let Some(opening) = &mut outgoing.opening {
            opening.handshake = handshake;
        }
        let route = &mut outgoing.routes[attempt.route];
        let replaces = match route.state {
            RouteState::Open { circuit, path, .. } => Some((circuit, path)),
            _ => None,
        };
        route.state = RouteState::SettingUp { path: attempt.path, replaces };
        self.by_circuit.insert(circuit, (attempt.session, attempt.route));
    }

    /// An attempt could not even be sent: its first hop is not connected.
    pub(super) fn failed(&mut self, now: Time, attempt: &Attempt, routing: &Routing) {
        if let Some(outgoing) = self.outgoing.get_mut(&attempt.session) {
            outgoing.routes[attempt.route].fail(now, routing);
        }
    }

    /// A circuit of ours was answered. Gives what to make of it; `None` if nobody waits for it any more.
    pub(super) fn answered(
        &mut self,
        now: Time,
        circuit: CircuitId,
        routing: &Routing,
    ) -> Option<Established> {
        let (session, index) = self.by_circuit.get(&circuit).copied()?;
        let outgoing = self.outgoing.get_mut(&session)?;
        let route = &mut outgoing.routes[index];
        let RouteState::SettingUp { path, replaces } = route.state else { return None };
        route.failures = 0;
        route.state = RouteState::Open { circuit, path, refresh_at: now + routing.circuit_lifetime * 4 / 5 };
        let planned = route.planned.clone();
        if let Some((old, _)) = replaces {
            self.retiring.push((now + RETIREMENT, old));
        }
        let handshake = outgoing.opening.take().and_then(|opening| opening.handshake);
        Some(Established { session, member: outgoing.member, path, planned, handshake })
    }

    /// A circuit of ours was refused, has ended, or was given up.
    pub(super) fn lost(
        &mut self,
        now: Time,
        circuit: CircuitId,
        refusal: Option<CloseReason>,
        routing: &Routing,
    ) {
        let Some((session, index)) = self.by_circuit.remove(&circuit) else { return };
        let Some(outgoing) = self.outgoing.get_mut(&session) else { return };
        if let Some(opening) = &mut outgoing.opening {
            opening.handshake = None;
            opening.last_refusal = refusal.or(opening.last_refusal.take());
        }
        let route = &mut outgoing.routes[index];
        let is_current = match route.state {
            RouteState::Open { circuit: current, .. } => current == circuit,
            RouteState::SettingUp { .. } => true,
            RouteState::Idle { .. } => false,
        };
        if is_current {
            route.fail(now, routing);
        }
    }
}

impl Outgoing {
    fn next_action(&mut self, now: Time, session: SessionId) -> Option<Action> {
        if let Some(opening) = &mut self.opening {
            if now >= opening.deadline {
                let reason = opening.last_refusal.take().unwrap_or(CloseReason::NoPath(opening.patience));
                return Some(Action::GiveUp { session, member: self.member, reason });
            }
            if opening.handshake.is_some() {
                return None;
            }
        }
        let route = self.routes.iter().position(|route| route.due().is_some_and(|due| due <= now))?;
        let path = PathId(self.next_path);
        self.next_path += 1;
        let planned = self.routes[route].planned.clone();
        let opens = self.opening.is_some();
        Some(Action::SetUp(Attempt { session, route, member: self.member, planned, path, opens }))
    }

    fn next_timeout(&self) -> Option<Time> {
        let due = self.routes.iter().filter_map(Route::due).min();
        match &self.opening {
            Some(opening) if opening.handshake.is_some() => Some(opening.deadline),
            Some(opening) => Some(due.map_or(opening.deadline, |due| due.min(opening.deadline))),
            None => due,
        }
    }
}

impl Route {
    /// When to set up a circuit along it.
    fn due(&self) -> Option<Time> {
        match self.state {
            RouteState::Idle { retry_at } => Some(retry_at),
            RouteState::Open { refresh_at, .. } => Some(refresh_at),
            RouteState::SettingUp { .. } => None,
        }
    }

    fn fail(&mut self, now: Time, routing: &Routing) {
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
