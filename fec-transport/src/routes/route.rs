//! A route of a session: which circuit it has, and when to try again.

use std::time::Duration;

use super::detour::Health;
use super::plan::PlannedRoute;
use crate::config::Routing;
use crate::overlay::{LinkId, Route};
use crate::session::PathId;
use crate::time::Time;
use crate::wire::circuit::CircuitId;

/// The longest pause between two tries of a route: what an outage takes longer than it lasts, and a set-up of some
/// hundred bytes costs nothing.
const MAX_RETRY: Duration = Duration::from_secs(2);

/// One route, with or without a circuit.
#[derive(Debug)]
pub(super) struct DialledRoute {
    planned: PlannedRoute,
    /// Its share of the flow in the latest plan that has it: the one around a dead link, while there is one.
    share: f64,
    /// Whether it leads around a dead link and is given up later.
    is_detour: bool,
    state: RouteState,
    failures: u32,
    /// What its last set-up says of its links, and since when; none once one was answered.
    trouble: Option<(Time, Health)>,
    /// Whether its circuit is doubted, which another one is tried for.
    doubt: Option<Doubt>,
}

/// A circuit is doubted of which nothing is heard in an outage of everything.
#[derive(Debug, Clone, Copy)]
struct Doubt {
    /// When it would be replaced otherwise.
    refresh_at: Time,
    /// Whether it has come back while another one was being set up.
    is_over: bool,
}

#[derive(Debug, Clone, Copy)]
enum RouteState {
    Idle { retry_at: Time },
    SettingUp { path: PathId, replaces: Option<(CircuitId, PathId)> },
    Open { circuit: CircuitId, path: PathId, refresh_at: Time },
}

impl DialledRoute {
    /// A route that is to be set up now.
    pub(super) fn new(now: Time, planned: PlannedRoute, is_detour: bool) -> DialledRoute {
        let share = planned.share;
        DialledRoute {
            planned,
            share,
            is_detour,
            state: RouteState::Idle { retry_at: now },
            failures: 0,
            trouble: None,
            doubt: None,
        }
    }

    /// Where it leads.
    pub(super) fn route(&self) -> &Route {
        &self.planned.route
    }

    pub(super) fn share(&self) -> f64 {
        self.share
    }

    pub(super) fn is_detour(&self) -> bool {
        self.is_detour
    }

    pub(super) fn is_setting_up(&self) -> bool {
        matches!(self.state, RouteState::SettingUp { .. })
    }

    // --- its place in a plan ----------------------------------------------------------------------------------------

    fn find_in<'a>(&self, plan: &'a [PlannedRoute]) -> Option<&'a PlannedRoute> {
        plan.iter().find(|planned| planned.route == self.planned.route)
    }

    pub(super) fn is_in(&self, plan: &[PlannedRoute]) -> bool {
        self.find_in(plan).is_some()
    }

    /// Takes its share from a plan around dead links; if it is not in there, it keeps the one that it has.
    pub(super) fn share_by(&mut self, plan: &[PlannedRoute]) {
        self.share = self.find_in(plan).map_or(self.share, |planned| planned.share);
    }

    /// Takes the share that it has in the plan of all routes again.
    pub(super) fn restore_share(&mut self) {
        self.share = self.planned.share;
    }

    /// There is a newer plan of all routes: if this one is not in there, it is a detour from now on.
    pub(super) fn replan(&mut self, plan: &[PlannedRoute]) {
        let planned = self.find_in(plan);
        self.is_detour = planned.is_none();
        self.planned.share = planned.map_or(self.planned.share, |planned| planned.share);
    }

    // --- its circuit ------------------------------------------------------------------------------------------------

    /// The first neighbour of the route has come, over this link: what waits for it is tried at once. Its earlier
    /// failures count no more, because after an outage of everything the links behind that neighbour come back within
    /// moments, too, and the pauses that grew in the outage would then be what the session waits for.
    pub(super) fn hurry(&mut self, now: Time, link: LinkId) {
        if let RouteState::Idle { retry_at } = &mut self.state
            && self.planned.route.links().first() == Some(&link)
        {
            *retry_at = now;
            self.failures = 0;
            self.trouble = None;
        }
    }

    /// What was being set up is given up, through no fault of the route.
    pub(super) fn begin_anew(&mut self, now: Time) {
        self.state = RouteState::Idle { retry_at: now };
    }

    /// A circuit is being set up, as this path.
    pub(super) fn started(&mut self, path: PathId) {
        let replaces = match self.state {
            RouteState::Open { circuit, path, .. } => Some((circuit, path)),
            _ => None,
        };
        self.state = RouteState::SettingUp { path, replaces };
    }

    /// The circuit that was being set up was answered. Gives its path and the circuit that it replaces; `None` if none
    /// was being set up, or if it is not needed any more.
    pub(super) fn answered(
        &mut self,
        now: Time,
        circuit: CircuitId,
        routing: &Routing,
    ) -> Option<(PathId, Option<CircuitId>)> {
        let RouteState::SettingUp { path, replaces } = self.state else { return None };
        self.failures = 0;
        self.trouble = None;
        if let (Some(Doubt { refresh_at, is_over: true }), Some((circuit, path))) =
            (self.doubt.take(), replaces)
        {
            self.state = RouteState::Open { circuit, path, refresh_at };
            return None;
        }
        self.state = RouteState::Open { circuit, path, refresh_at: now + routing.circuit_lifetime * 4 / 5 };
        Some((path, replaces.map(|(circuit, _)| circuit)))
    }

    /// Another circuit is to be set up in the place of this one, which is kept until then, and if it comes back.
    pub(super) fn doubt(&mut self, now: Time, circuit: CircuitId) {
        if let RouteState::Open { circuit: current, refresh_at, .. } = &mut self.state
            && *current == circuit
            && self.doubt.is_none()
        {
            self.doubt = Some(Doubt { refresh_at: *refresh_at, is_over: false });
            *refresh_at = now;
        }
    }

    /// If its circuit was doubted and carries data again, as `paths` tells, no other one is needed.
    pub(super) fn trust(&mut self, paths: impl Fn(PathId) -> Health) {
        let is_back = self.path().is_some_and(|path| paths(path) == Health::Live);
        let (Some(doubt), true) = (&mut self.doubt, is_back) else { return };
        match &mut self.state {
            RouteState::Open { refresh_at, .. } => {
                *refresh_at = doubt.refresh_at;
                (self.doubt, self.failures, self.trouble) = (None, 0, None);
            }
            RouteState::SettingUp { .. } => doubt.is_over = true,
            RouteState::Idle { .. } => self.doubt = None,
        }
    }

    /// A circuit of this route is gone. If it is just being replaced, the new one is waited for all the same; if it was
    /// replaced before, the route does not depend on it any more.
    pub(super) fn lost(&mut self, now: Time, circuit: CircuitId, trouble: (Time, Health), routing: &Routing) {
        match &mut self.state {
            RouteState::SettingUp { replaces, .. } if replaces.is_some_and(|(old, _)| old == circuit) => {
                *replaces = None;
                self.note_trouble(trouble);
            }
            RouteState::Open { circuit: current, .. } if *current != circuit => {}
            RouteState::Idle { .. } => {}
            _ => self.fail(now, trouble, routing),
        }
    }

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
        PlannedRoute { share: self.share, route: self.planned.route.clone() }
    }

    /// The circuit and the path that it has now, if any.
    fn open(&self) -> Option<(CircuitId, PathId)> {
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

    /// It has no circuit, or no newer one: trouble of that kind, since then; it is tried again after a pause.
    pub(super) fn fail(&mut self, now: Time, trouble: (Time, Health), routing: &Routing) {
        self.note_trouble(trouble);
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

    fn note_trouble(&mut self, (since, health): (Time, Health)) {
        self.trouble = match (self.trouble, health) {
            (_, Health::Live | Health::Unknown) => None,
            (Some((earlier, _)), _) => Some((earlier.min(since), health)),
            (None, _) => Some((since, health)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::MemberId;

    const OLD: CircuitId = CircuitId([1; 16]);
    const NEW: CircuitId = CircuitId([2; 16]);

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    /// A route whose circuit, [`OLD`] and path 1, has been doubted after 20 s.
    fn doubted(routing: &Routing) -> DialledRoute {
        let route = Route::new(vec![MemberId(0), MemberId(1)], vec![LinkId(0)]);
        let mut route = DialledRoute::new(at(0), PlannedRoute { share: 1.0, route }, false);
        route.started(PathId(1));
        route.answered(at(0), OLD, routing).expect("it was being set up");
        route.doubt(at(20), OLD);
        assert_eq!(route.due(), Some(at(20)));
        route
    }

    /// After an outage of 30 s circuits that had come back were replaced by new ones, which had to find their rates
    /// anew.
    #[test]
    fn a_circuit_that_was_doubted_and_comes_back_is_kept() {
        let (routing, [old, new]) = (Routing::default(), [OLD, NEW]);
        let open = || doubted(&routing);
        let mut waiting = open();
        waiting.trust(|_| Health::Dead);
        assert_eq!(waiting.due(), Some(at(20)));
        waiting.trust(|_| Health::Live);
        assert_eq!((waiting.due(), waiting.circuit()), (Some(at(480)), Some(old)));
        let mut trying = open();
        trying.started(PathId(2));
        trying.trust(|_| Health::Live);
        assert_eq!(trying.answered(at(21), new, &routing), None);
        assert_eq!((trying.due(), trying.circuit()), (Some(at(480)), Some(old)));
        let mut gone = open();
        gone.started(PathId(2));
        assert_eq!(gone.answered(at(21), new, &routing), Some((PathId(2), Some(old))));
        assert_eq!(gone.circuit(), Some(new));
    }

    /// The answer of the new circuit was once thrown away, and the route waited for half a second with one that was
    /// gone.
    #[test]
    fn a_circuit_that_ends_while_another_one_is_set_up_in_its_place_is_replaced() {
        let (routing, dead) = (Routing::default(), (at(20), Health::Dead));
        let mut route = doubted(&routing);
        route.started(PathId(2));
        route.lost(at(20), OLD, dead, &routing);
        assert_eq!((route.circuit(), route.health(at(20), |_| Health::Live)), (None, Health::Dead));
        assert_eq!(route.answered(at(21), NEW, &routing), Some((PathId(2), None)));
        route.lost(at(22), OLD, dead, &routing);
        assert_eq!(route.circuit(), Some(NEW));
        let mut refused = doubted(&routing);
        refused.started(PathId(2));
        refused.lost(at(21), NEW, dead, &routing);
        assert_eq!(refused.circuit(), Some(OLD), "the new one was refused: the old one is kept");
    }

    #[test]
    fn when_the_first_neighbour_has_come_back_the_pauses_of_the_outage_are_forgotten() {
        let routing = Routing::default();
        let (near, far) = (LinkId(1), LinkId(2));
        let route = Route::new([0, 1, 2].map(MemberId).to_vec(), vec![near, far]);
        let planned = PlannedRoute { share: 1.0, route };
        let mut route = DialledRoute::new(Time::ZERO, planned, false);
        for _ in 0..8 {
            route.fail(Time::ZERO, (Time::ZERO, Health::Unknown), &routing);
        }
        assert_eq!(route.due(), Some(Time::ZERO + MAX_RETRY));
        let back = Time::ZERO + Duration::from_millis(100);
        route.hurry(back, far);
        assert_eq!(
            route.due(),
            Some(Time::ZERO + MAX_RETRY),
            "another one's coming says nothing of this route"
        );
        route.hurry(back, near);
        assert_eq!(route.due(), Some(back));
        route.fail(back, (back, Health::Unknown), &routing);
        assert_eq!(route.due(), Some(back + routing.retry));
    }
}
