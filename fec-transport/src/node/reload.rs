//! A newer overlay file in a running node: members that are not listed any more are cut off, everything else goes on
//! (design §6).

use std::sync::Arc;

use super::Node;
use crate::event::{CloseReason, SessionId};
use crate::overlay::{Overlay, OverlayChange, SuccessionError};
use crate::routes::job::Purpose;
use crate::routes::plan::PlannedRoute;
use crate::time::Time;

impl Node {
    /// Goes on with a newer overlay file, whose signature the caller has checked.
    ///
    /// Members that are not listed any more lose their sessions, circuits and control connections at once, and so do
    /// circuits over links that are not listed, or through members that do not relay for their originator any more.
    /// Sessions and circuits of others stay. The sessions that this node opened are planned anew: their new routes are
    /// set up before the old ones are given up.
    ///
    /// # Errors
    /// [`SuccessionError`] if the serial has not risen, or the file does not list this member with the keys that it
    /// has; then nothing changes.
    pub fn reload(&mut self, now: Time, newer: &Overlay) -> Result<OverlayChange, SuccessionError> {
        self.now = now;
        let merged = self.overlay.succeeded_by(newer)?;
        if !merged.contains(self.me.member) {
            return Err(SuccessionError::NotListed(self.overlay.name(self.me.member)));
        }
        let change = self.overlay.change_to(&merged);
        self.overlay = Arc::new(merged);
        self.end_revoked_sessions();
        self.replan_sessions();
        self.circuits.succeed(Arc::clone(&self.overlay));
        self.handle_circuit_events();
        let (overlay, me) = (&self.overlay, self.me.member);
        let gone = self.neighbours.revoke(|member| overlay.link_between(me, member).is_some());
        self.give_up(&gone);
        self.handle_circuit_events();
        self.sessions.values_mut().for_each(|session| session.paths_mut().recount_links(&self.overlay));
        self.handle_dialler_timeout();
        Ok(change)
    }

    fn end_revoked_sessions(&mut self) {
        let revoked =
            self.sessions.values().filter(|session| !self.overlay.contains(session.name().peer.member));
        let revoked: Vec<SessionId> = revoked.map(|session| session.name().id).collect();
        revoked.into_iter().for_each(|session| self.revoke(session));
    }

    /// Gives the sessions that this node opened, or is opening, the routes of the new plan.
    fn replan_sessions(&mut self) {
        let sessions: Vec<SessionId> = self.dialler.sessions().collect();
        for session in sessions {
            let Some(member) = self.dialler.member_of(session) else { continue };
            if self.overlay.contains(member) {
                let overlay = &self.overlay;
                self.dialler.drop_routes(session, |route| overlay.allows_route(route));
                self.ask_for_plan(session, Purpose::Reload);
            } else {
                self.follow_plan(session, Vec::new());
            }
        }
    }

    /// Gives a session the routes of a newer overlay file's plan. Without any it lives on with those that are still
    /// allowed, and ends if there are none.
    pub(super) fn follow_plan(&mut self, session: SessionId, plan: Vec<PlannedRoute>) {
        let overlay = &self.overlay;
        let is_allowed = |route: &[_]| overlay.allows_route(route);
        if !self.dialler.replan(self.now, session, plan, is_allowed) {
            self.revoke(session);
        }
    }

    fn revoke(&mut self, session: SessionId) {
        let reason = CloseReason::Revoked(self.overlay.serial);
        if self.dialler.is_opening(session) {
            let member = self.dialler.member_of(session).unwrap_or(self.me.member);
            self.give_up_opening(session, member, reason);
        } else {
            self.with_session(session, |session| session.drop_dead(reason));
        }
    }
}
