//! The routes of the sessions that this node opens: which circuit each has, and when to try again.
//!
//! ```text
//!            ┌────────────── refused, no answer, path lost ─────────────┐
//!            ▼                                                          │
//! Idle ──retry time──▶ SettingUp ──answered──▶ Open ──four fifths of its lifetime──▶ SettingUp, the old one kept
//! ```
//! Beside the planned routes there are *detours*: routes around links that seem dead, given up when all planned ones
//! have carried data again for a while.
//!
//! The first circuit of a session carries the handshake. While a session is being opened its routes are tried one after
//! the other, each of them beside those that were not answered [in time](super::opening); the others join afterwards.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use super::detour::{Health, Suspects};
use super::job::{Plan, PlanJob, Purpose};
use super::opening::{Handshake, Opening};
use super::plan::PlannedRoute;
use super::route::DialledRoute;
use crate::config::{Config, Liveness, Routing};
use crate::event::{CloseReason, SessionId};
use crate::overlay::{LinkId, MemberId, Overlay, Route};
use crate::session::PathId;
use crate::time::Time;
use crate::wire::circuit::CircuitId;

/// For how long a replaced circuit still takes what is on the way.
const RETIREMENT: Duration = Duration::from_secs(2);
/// For how long a path that gets nothing new may end what it has begun: some blocks, and a round trip.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The routes of all sessions that this node opens.
#[derive(Debug, Default)]
pub(crate) struct Dialler {
    outgoing: OutgoingSessions,
    by_circuit: BTreeMap<CircuitId, (SessionId, RouteId)>,
    /// What is to become of circuits that were replaced or given up, and when.
    scheduled: Vec<(Time, Action)>,
    /// Plans that nobody has begun to compute.
    wanted_plans: VecDeque<PlanJob>,
    /// How many plans were asked for so far.
    asked_plans: u64,
}

/// The sessions that this node opens. The node asks with every packet when the first of them wants something done, so
/// the answer is kept until somebody may have changed one.
#[derive(Debug, Default)]
struct OutgoingSessions {
    by_id: BTreeMap<SessionId, Outgoing>,
    /// None if it is to be found anew.
    next: Cell<Option<Option<Time>>>,
}

/// Names a route of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RouteId(u32);

/// The routes of one session.
#[derive(Debug)]
struct Outgoing {
    member: MemberId,
    routes: BTreeMap<RouteId, DialledRoute>,
    next_route: u32,
    next_path: u32,
    opening: Option<Opening>,
    /// The links around which the detours lead.
    suspects: Suspects,
    /// Since when all planned routes have carried data.
    whole_since: Option<Time>,
    /// The numbers of the latest plans that were asked for: of all its routes, and of routes around dead links.
    latest_plan: u64,
    latest_detour: u64,
}

/// What the node is to do.
#[derive(Debug)]
pub(crate) enum Action {
    /// Set up a circuit along a route.
    SetUp(Attempt),
    /// Give up a session that could not be opened.
    GiveUp { session: SessionId, reason: CloseReason },
    /// Put nothing more on the path of a circuit that was replaced.
    Retire(CircuitId),
    /// Tear down a circuit whose path has ended what it had begun.
    End(CircuitId),
}

/// A circuit to set up.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(crate) session: SessionId,
    pub(crate) route: RouteId,
    pub(crate) member: MemberId,
    pub(crate) planned: PlannedRoute,
    pub(crate) path: PathId,
    /// Whether it is to carry the handshake.
    pub(crate) opens: bool,
}

/// What the end of a circuit tells.
#[derive(Debug)]
pub(crate) struct Loss {
    /// Why it was refused, for the application that wanted the session.
    pub(crate) refusal: Option<CloseReason>,
    /// What it says of the route's links, and since when.
    pub(crate) health: Health,
    pub(crate) since: Time,
}

impl Loss {
    /// A loss that says nothing of links.
    pub(crate) fn silent(now: Time) -> Loss {
        Loss { refusal: None, health: Health::Unknown, since: now }
    }
}

/// A circuit that was answered.
#[derive(Debug)]
pub(crate) struct Established {
    pub(crate) session: SessionId,
    pub(crate) member: MemberId,
    pub(crate) path: PathId,
    pub(crate) planned: PlannedRoute,
    /// The handshake that it carries, if it opens the session.
    pub(crate) handshake: Option<Handshake>,
}

impl Dialler {
    /// The sessions to `member`: one that is open or being opened, and those that still say goodbye.
    pub(crate) fn sessions_to(&self, member: MemberId) -> impl Iterator<Item = SessionId> + '_ {
        self.outgoing.iter().filter(move |(_, outgoing)| outgoing.member == member).map(|(id, _)| *id)
    }

    pub(crate) fn is_opening(&self, session: SessionId) -> bool {
        self.outgoing.get(&session).is_some_and(|outgoing| outgoing.opening.is_some())
    }

    pub(crate) fn member_of(&self, session: SessionId) -> Option<MemberId> {
        self.outgoing.get(&session).map(|outgoing| outgoing.member)
    }

    /// The sessions that are being opened.
    pub(crate) fn opening(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.outgoing.iter().filter(|(_, outgoing)| outgoing.opening.is_some()).map(|(id, _)| *id)
    }

    /// Begins to open a session, whose routes are [asked for](Self::ask) and come [later](Self::add_planned).
    pub(crate) fn open(&mut self, now: Time, session: SessionId, member: MemberId, liveness: &Liveness) {
        let outgoing = Outgoing {
            member,
            routes: BTreeMap::new(),
            next_route: 0,
            next_path: 1,
            opening: Some(Opening::new(now, liveness)),
            suspects: Suspects::default(),
            whole_since: None,
            latest_plan: 0,
            latest_detour: 0,
        };
        self.outgoing.insert(session, outgoing);
    }

    // --- plans ------------------------------------------------------------------------------------------------------

    /// Asks for a plan of a session's routes from `from`.
    pub(crate) fn ask(
        &mut self,
        session: SessionId,
        purpose: Purpose,
        from: MemberId,
        overlay: &Arc<Overlay>,
        config: &Arc<Config>,
    ) {
        let Some(outgoing) = self.outgoing.get_mut(&session) else { return };
        self.asked_plans += 1;
        let number = self.asked_plans;
        match purpose {
            Purpose::Open | Purpose::Reload => outgoing.latest_plan = number,
            Purpose::Detour(_) => outgoing.latest_detour = number,
        }
        let (overlay, config, to) = (Arc::clone(overlay), Arc::clone(config), outgoing.member);
        self.wanted_plans.push_back(PlanJob { session, number, purpose, overlay, config, from, to });
    }

    /// The next plan to compute.
    pub(crate) fn poll_plan(&mut self) -> Option<PlanJob> {
        self.wanted_plans.pop_front()
    }

    /// Whether a plan is still what its session waits for. One of an older overlay file is not, and neither is one
    /// around links that were taken for dead before others were.
    pub(crate) fn is_wanted(&self, plan: &Plan) -> bool {
        let is_latest = |outgoing: &Outgoing| match plan.purpose {
            Purpose::Open | Purpose::Reload => plan.number == outgoing.latest_plan,
            Purpose::Detour(_) => plan.number == outgoing.latest_detour && plan.number > outgoing.latest_plan,
        };
        self.outgoing.get(&plan.session).is_some_and(is_latest)
    }

    /// The planned routes of a session that is being opened.
    pub(crate) fn add_planned(&mut self, now: Time, session: SessionId, routes: Vec<PlannedRoute>) {
        if let Some(outgoing) = self.outgoing.get_mut(&session) {
            routes.into_iter().for_each(|planned| outgoing.add(now, planned, false));
        }
    }

    /// Drops the routes of a session that are not allowed any more.
    pub(crate) fn drop_routes(&mut self, session: SessionId, is_allowed: impl Fn(&Route) -> bool) {
        if let Some(outgoing) = self.outgoing.get_mut(&session) {
            outgoing.routes.retain(|_, route| is_allowed(route.route()));
        }
    }

    // --- what is to be done ------------------------------------------------------------------------------------------

    /// A neighbour has come over a link: what waits for that is tried at once.
    pub(crate) fn hurry(&mut self, now: Time, link: LinkId) {
        for route in self.outgoing.values_mut().flat_map(|outgoing| outgoing.routes.values_mut()) {
            route.hurry(now, link);
        }
    }

    /// Forgets a session; gives its circuits that are being set up, which nobody else knows of.
    pub(crate) fn forget(&mut self, session: SessionId) -> Vec<CircuitId> {
        self.outgoing.remove(&session);
        let circuits: Vec<CircuitId> =
            self.by_circuit.iter().filter(|(_, (owner, _))| *owner == session).map(|(id, _)| *id).collect();
        self.by_circuit.retain(|_, (owner, _)| *owner != session);
        circuits
    }

    /// What is to be done now; called until it gives nothing. Every [`Attempt`] must be followed by
    /// [`started`](Self::started) or [`failed`](Self::failed).
    pub(crate) fn next_action(&mut self, now: Time) -> Option<Action> {
        if let Some(place) = self.scheduled.iter().position(|(at, _)| *at <= now) {
            return Some(self.scheduled.swap_remove(place).1);
        }
        self.outgoing.next_timeout().filter(|at| *at <= now)?;
        self.outgoing.iter_mut().find_map(|(session, outgoing)| outgoing.next_action(now, *session))
    }

    /// A circuit is to be torn down once its path has ended what it has begun.
    pub(crate) fn end_soon(&mut self, now: Time, circuit: CircuitId) {
        self.scheduled.push((now + LAST_WORDS, Action::End(circuit)));
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let scheduled = self.scheduled.iter().map(|(at, _)| *at);
        scheduled.chain(self.outgoing.next_timeout()).min()
    }

    /// The set-up of an attempt was sent.
    pub(crate) fn started(
        &mut self,
        now: Time,
        circuit: CircuitId,
        attempt: &Attempt,
        handshake: Option<Handshake>,
    ) {
        let Some(outgoing) = self.outgoing.get_mut(&attempt.session) else { return };
        if let (Some(opening), Some(handshake)) = (&mut outgoing.opening, handshake) {
            opening.sent(now, circuit, handshake);
        }
        let Some(route) = outgoing.routes.get_mut(&attempt.route) else { return };
        route.started(attempt.path);
        self.by_circuit.insert(circuit, (attempt.session, attempt.route));
    }

    /// An attempt could not even be sent; `health` says what that tells of the route.
    pub(crate) fn failed(&mut self, now: Time, attempt: &Attempt, health: Health, routing: &Routing) {
        let outgoing = self.outgoing.get_mut(&attempt.session);
        if let Some(route) = outgoing.and_then(|outgoing| outgoing.routes.get_mut(&attempt.route)) {
            route.fail(now, (now, health), routing);
        }
    }

    /// A circuit of ours was answered. Gives what to make of it; `None` if nobody waits for it any more.
    pub(crate) fn answered(
        &mut self,
        now: Time,
        circuit: CircuitId,
        routing: &Routing,
    ) -> Option<Established> {
        let (session, route) = self.by_circuit.get(&circuit).copied()?;
        let outgoing = self.outgoing.get_mut(&session)?;
        let route = outgoing.routes.get_mut(&route)?;
        let Some((path, replaces)) = route.answered(now, circuit, routing) else {
            self.by_circuit.remove(&circuit);
            return None;
        };
        let planned = route.as_shared();
        if let Some(old) = replaces {
            self.scheduled.push((now + RETIREMENT, Action::Retire(old)));
        }
        let member = outgoing.member;
        let opening = outgoing.opening.take();
        let (handshake, others) = opening.map_or((None, Vec::new()), |opening| opening.answered(circuit));
        others.into_iter().for_each(|other| self.withdraw(now, other));
        Some(Established { session, member, path, planned, handshake })
    }

    /// A circuit whose handshake came too late is torn down, and its route joins the session at once.
    fn withdraw(&mut self, now: Time, circuit: CircuitId) {
        self.scheduled.push((now, Action::End(circuit)));
        let Some((session, route)) = self.by_circuit.remove(&circuit) else { return };
        let outgoing = self.outgoing.get_mut(&session);
        if let Some(route) = outgoing.and_then(|outgoing| outgoing.routes.get_mut(&route)) {
            route.begin_anew(now);
        }
    }

    /// A circuit of ours was refused, has ended, or was given up.
    pub(crate) fn lost(&mut self, now: Time, circuit: CircuitId, loss: Loss, routing: &Routing) {
        let Some((session, route)) = self.by_circuit.remove(&circuit) else { return };
        let Some(outgoing) = self.outgoing.get_mut(&session) else { return };
        if let Some(opening) = &mut outgoing.opening {
            opening.lost(circuit, loss.refusal);
        }
        let Some(route) = outgoing.routes.get_mut(&route) else { return };
        route.lost(now, circuit, (loss.since, loss.health), routing);
    }

    /// The session that a circuit of ours is for.
    pub(crate) fn session_of(&self, circuit: CircuitId) -> Option<SessionId> {
        self.by_circuit.get(&circuit).map(|(session, _)| *session)
    }

    /// Has another circuit set up in the place of one that may be of no use any more. It is kept until then, and
    /// afterwards too if it comes back.
    pub(crate) fn doubt(&mut self, now: Time, circuit: CircuitId) {
        let Some((session, route)) = self.by_circuit.get(&circuit) else { return };
        let outgoing = self.outgoing.get_mut(session);
        if let Some(route) = outgoing.and_then(|outgoing| outgoing.routes.get_mut(route)) {
            route.doubt(now, circuit);
        }
    }

    /// Circuits of a session that were doubted, and whose paths carry data again, are not replaced.
    pub(crate) fn trust(&mut self, session: SessionId, paths: impl Fn(PathId) -> Health) {
        let routes =
            self.outgoing.get_mut(&session).into_iter().flat_map(|outgoing| outgoing.routes.values_mut());
        routes.for_each(|route| route.trust(&paths));
    }

    /// Where the route of a circuit leads.
    pub(crate) fn route_of(&self, circuit: CircuitId) -> Option<&Route> {
        let (session, route) = self.by_circuit.get(&circuit)?;
        self.outgoing.get(session)?.routes.get(route).map(DialledRoute::route)
    }

    /// A newer overlay file: `plan` takes the place of a session's planned routes. Routes that are still allowed and
    /// not planned any more are detours from now on, given up when the plan carries data. Says whether any route is
    /// left.
    pub(crate) fn replan(
        &mut self,
        now: Time,
        session: SessionId,
        plan: Vec<PlannedRoute>,
        is_allowed: impl Fn(&Route) -> bool,
    ) -> bool {
        let Some(outgoing) = self.outgoing.get_mut(&session) else { return false };
        outgoing.routes.retain(|_, route| is_allowed(route.route()));
        outgoing.routes.values_mut().for_each(|route| route.replan(&plan));
        for planned in plan {
            if outgoing.routes.values().all(|route| *route.route() != planned.route) {
                outgoing.add(now, planned, false);
            }
        }
        outgoing.suspects = Suspects::default();
        outgoing.whole_since = None;
        !outgoing.routes.is_empty()
    }

    // --- detours ----------------------------------------------------------------------------------------------------

    /// The sessions with routes.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.outgoing.keys().copied()
    }

    /// Looks at how the routes of a session are; `paths` tells how a path is. Gives the links to plan around if the
    /// pattern has changed.
    pub(crate) fn watch(
        &mut self,
        now: Time,
        session: SessionId,
        overlay: &Overlay,
        routing: &Routing,
        paths: impl Fn(PathId) -> Health,
    ) -> Option<Suspects> {
        let outgoing = self.outgoing.get_mut(&session)?;
        let ripe = now - routing.replan_after;
        let health: Vec<(&Route, Health)> =
            outgoing.routes.values().map(|route| (route.route(), route.health(ripe, &paths))).collect();
        let suspects = Suspects::find(overlay, health.iter().copied());
        let planned = outgoing.routes.values().zip(&health).filter(|(route, _)| !route.is_detour());
        let is_whole = planned.clone().count() > 0
            && planned.map(|(_, (_, health))| health).all(|it| *it == Health::Live);
        outgoing.whole_since = if is_whole { outgoing.whole_since.or(Some(now)) } else { None };
        if suspects == outgoing.suspects {
            return None;
        }
        outgoing.suspects = suspects.clone();
        (!suspects.is_empty()).then_some(suspects)
    }

    /// Adds the routes of a plan around dead links that are not there yet as detours, and shares the flow by it. Gives
    /// the circuits of older detours, which are given up unless they carry data. No more routes carry data than a plan
    /// may have: each of them probes for its rate, and those over one link crowd each other out.
    pub(crate) fn detour(
        &mut self,
        now: Time,
        session: SessionId,
        plan: &[PlannedRoute],
        config: &Config,
        carries: impl Fn(PathId) -> bool,
    ) -> Vec<CircuitId> {
        let Some(outgoing) = self.outgoing.get_mut(&session) else { return Vec::new() };
        let most_carrying = config.routing.max_paths;
        let is_crowded = outgoing.carrying(&carries) > most_carrying;
        let is_wanted = |route: &DialledRoute| {
            let carries_data = || route.path().is_some_and(&carries);
            route.is_in(plan) || route.is_setting_up() || !is_crowded && carries_data()
        };
        let given_up = outgoing.drop_detours(is_wanted);
        outgoing.routes.values_mut().for_each(|route| route.share_by(plan));
        let carrying = outgoing.carrying(&carries);
        let is_known =
            |planned: &&PlannedRoute| outgoing.routes.values().any(|route| *route.route() == planned.route);
        let room = config.limits.paths.saturating_sub(outgoing.routes.len());
        let new = plan.iter().filter(|planned| !is_known(planned));
        let new: Vec<PlannedRoute> =
            new.take(room.min(most_carrying.saturating_sub(carrying))).cloned().collect();
        new.into_iter().for_each(|planned| outgoing.add(now, planned, true));
        given_up
    }

    /// If all planned routes of a session have carried data for `patience`, its detours are over and its first plan
    /// holds again; gives their circuits.
    pub(crate) fn restore(&mut self, now: Time, session: SessionId, patience: Duration) -> Vec<CircuitId> {
        match self.outgoing.get_mut(&session) {
            Some(outgoing) if outgoing.whole_since.is_some_and(|since| now.since(since) >= patience) => {
                outgoing.routes.values_mut().for_each(DialledRoute::restore_share);
                outgoing.drop_detours(|_| false)
            }
            _ => Vec::new(),
        }
    }

    /// The shares of the flow of a session's paths.
    pub(crate) fn shares(&self, session: SessionId) -> impl Iterator<Item = (PathId, f64)> + '_ {
        let routes = self.outgoing.get(&session).into_iter().flat_map(|outgoing| outgoing.routes.values());
        routes.filter_map(|route| Some((route.path()?, route.share())))
    }
}

impl OutgoingSessions {
    /// When the first of them wants something done.
    fn next_timeout(&self) -> Option<Time> {
        let ask = || self.by_id.values().filter_map(Outgoing::next_timeout).min();
        let next = self.next.get().unwrap_or_else(ask);
        self.next.set(Some(next));
        next
    }
}

impl Deref for OutgoingSessions {
    type Target = BTreeMap<SessionId, Outgoing>;

    fn deref(&self) -> &Self::Target {
        &self.by_id
    }
}

impl DerefMut for OutgoingSessions {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.next.set(None);
        &mut self.by_id
    }
}

impl Outgoing {
    fn add(&mut self, now: Time, planned: PlannedRoute, is_detour: bool) {
        let id = RouteId(self.next_route);
        self.next_route += 1;
        self.routes.insert(id, DialledRoute::new(now, planned, is_detour));
    }

    /// How many routes carry data.
    fn carrying(&self, carries: impl Fn(PathId) -> bool) -> usize {
        self.routes.values().filter(|route| route.path().is_some_and(&carries)).count()
    }

    /// Drops the detours that are not to be kept; gives their circuits. One that is being set up is torn down when it
    /// is answered.
    fn drop_detours(&mut self, keep: impl Fn(&DialledRoute) -> bool) -> Vec<CircuitId> {
        let dropped = |route: &DialledRoute| route.is_detour() && !keep(route);
        let circuits =
            self.routes.values().filter(|route| dropped(route)).filter_map(DialledRoute::circuit).collect();
        self.routes.retain(|_, route| !dropped(route));
        circuits
    }

    fn next_action(&mut self, now: Time, session: SessionId) -> Option<Action> {
        if let Some(opening) = self.opening.as_mut().filter(|opening| opening.deadline() <= now) {
            return Some(Action::GiveUp { session, reason: opening.take_reason() });
        }
        let (route, planned) = self.next_route(now)?;
        let path = PathId(self.next_path);
        self.next_path += 1;
        let opens = self.opening.is_some();
        Some(Action::SetUp(Attempt { session, route, member: self.member, planned, path, opens }))
    }

    /// The route that is to be set up now. While handshakes are on their way it is the one that shares the fewest links
    /// with theirs, because one of those links may be dead.
    fn next_route(&self, now: Time) -> Option<(RouteId, PlannedRoute)> {
        let free_at = self.opening.as_ref().and_then(Opening::free_at);
        if free_at.is_some_and(|at| now < at) {
            return None;
        }
        let under_way = self.routes.values().filter(|route| free_at.is_some() && route.is_setting_up());
        let doubtful: BTreeSet<LinkId> = under_way.flat_map(|it| it.route().links()).copied().collect();
        let shared = |route: &Route| route.links().iter().filter(|link| doubtful.contains(link)).count();
        let due = self.routes.iter().filter(|(_, route)| route.due().is_some_and(|due| due <= now));
        let (id, route) = due.min_by_key(|(_, route)| shared(route.route()))?;
        Some((*id, route.as_shared()))
    }

    fn next_timeout(&self) -> Option<Time> {
        let due = self.routes.values().filter_map(DialledRoute::due).min();
        let Some(opening) = &self.opening else { return due };
        let due = due.map(|due| opening.free_at().map_or(due, |free| due.max(free)));
        Some(due.map_or(opening.deadline(), |due| due.min(opening.deadline())))
    }
}
