//! A circuit comes into being: the set-up on its way to the responder, and the answer on its way back.

use std::time::Duration;

use super::admission::{Admitted, Rejection, admit};
use super::{Circuit, CircuitEvent, CircuitHash, Circuits, Egress, LEAVING};
use crate::overlay::{Adjacency, LinkId};
use crate::time::Time;
use crate::wire::circuit::{Cause, CircuitId, CircuitMessage, Hop, SetUp, SetUpBody};
use crate::wire::hop::Label;

/// How long a relay waits for the answer to a set-up that it passed on.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

impl Circuits {
    pub(super) fn on_set_up(
        &mut self,
        now: Time,
        from: Adjacency,
        set_up: SetUp,
        next_hop: impl Fn(LinkId) -> Option<Adjacency>,
    ) {
        let admitted = match self.admit(now, from, &set_up) {
            Ok(admitted) => admitted,
            Err(rejection) => return self.reject(from, &set_up, &rejection),
        };
        let id = admitted.body.circuit;
        let next = admitted.next.map(|(_, link)| next_hop(link));
        if next == Some(None) {
            let missing = admitted.next.map(|(member, _)| self.overlay.name(member)).unwrap_or_default();
            let notice = self.notice(Cause::LinkDown, &format!("{missing} is not connected to me"));
            return self.send_refusal(Some(from), id, notice);
        }
        if self.is_draining && next.is_some() {
            return self.send_refusal(Some(from), id, self.notice(Cause::LinkDown, LEAVING));
        }
        if let Err(rejection) = self.register(now, from, &admitted, next.flatten()) {
            return self.reject(from, &set_up, &rejection);
        }
        let Some(circuit) = self.circuits.get(&id) else { return };
        let egress = circuit.egress(from, &set_up.backward);
        match next.flatten() {
            Some(next) => self.pass_on_set_up(next, id, egress, set_up),
            None => self.events.push_back(CircuitEvent::Offered {
                circuit: id,
                originator: admitted.originator,
                route: admitted.route,
                payload: admitted.body.payload,
                egress,
            }),
        }
    }

    fn pass_on_set_up(&mut self, next: Adjacency, id: CircuitId, egress: Egress, set_up: SetUp) {
        let Some(circuit) = self.circuits.get(&id) else { return };
        let backward = self.labels.relay(next, egress, circuit.originator, circuit.body_hash.get());
        self.own_label(id, backward.label);
        self.outbox.push_back((next, CircuitMessage::SetUp(SetUp { backward, ..set_up })));
    }

    /// Checks a set-up against the rules and the rates. A neighbour that sends too many does not even get their
    /// signatures checked.
    fn admit(&mut self, now: Time, from: Adjacency, set_up: &SetUp) -> Result<Admitted, Rejection> {
        let (policing, neighbour) = (&self.config.policing, from.peer.member);
        let too_fast = |member, rate: Option<f64>| {
            Err(Rejection::TooFast(self.overlay.name(member), rate.unwrap_or_default()))
        };
        if !self.set_ups_by_neighbour.take(now, neighbour, 1.0) {
            return too_fast(neighbour, policing.set_ups_per_neighbour);
        }
        let clock_s = self.calendar.seconds(now);
        let admitted = admit(&self.overlay, self.me, &self.config, from, set_up, clock_s)?;
        if !self.set_ups_by_originator.take(now, admitted.originator, 1.0) {
            return too_fast(admitted.originator, policing.set_ups_per_originator);
        }
        let (made_s, circuit) = (admitted.body.time_s, admitted.body.circuit);
        let validity_s = self.config.routing.clock_skew.as_secs();
        if !self.past.note(clock_s, validity_s, admitted.originator, made_s, circuit) {
            return Err(Rejection::Replayed);
        }
        Ok(admitted)
    }

    /// Enters a set-up into the table until it is answered.
    fn register(
        &mut self,
        now: Time,
        from: Adjacency,
        admitted: &Admitted,
        next: Option<Adjacency>,
    ) -> Result<(), Rejection> {
        let id = admitted.body.circuit;
        // Another member may draw the same number, on purpose.
        if self.circuits.contains_key(&id) {
            return Err(Rejection::Replayed);
        }
        self.quotas.charge(&self.overlay, &self.config, admitted.originator, from.peer.member)?;
        self.counters.admitted += 1;
        let asked = Duration::from_secs(admitted.body.lifetime_s.into());
        let entry = Circuit {
            route: admitted.route.clone(),
            originator: admitted.originator,
            body_hash: CircuitHash::new(admitted.body.body_key),
            previous: Some(from),
            next,
            labels: Vec::new(),
            lifetime: asked.min(self.config.routing.circuit_lifetime),
            expires: now + ANSWER_PATIENCE,
            answered: false,
        };
        self.insert(id, entry);
        Ok(())
    }

    fn reject(&mut self, from: Adjacency, set_up: &SetUp, rejection: &Rejection) {
        tracing::debug!(from = %self.overlay.name(from.peer.member), %rejection, "set-up refused");
        self.counters.refused += 1;
        if let Some(circuit) = SetUpBody::circuit_of(&set_up.signed) {
            self.send_refusal(Some(from), circuit, self.notice(Cause::Other, &rejection.to_string()));
        }
    }

    pub(super) fn on_answer(
        &mut self,
        now: Time,
        from: Adjacency,
        id: CircuitId,
        payload: Vec<u8>,
        forward: Hop,
    ) {
        let Some(circuit) = self.circuits.get(&id) else {
            // Our patience was over first. The member that answered must not keep the circuit for its lifetime.
            let notice = self.notice(Cause::Other, "the answer came too late");
            return self.send_tear_down(Some(from), id, &notice);
        };
        if circuit.answered || !self.is_neighbour_of(id, from, |circuit| circuit.next) {
            return;
        }
        let egress = circuit.egress(from, &forward);
        let Some(previous) = circuit.previous else {
            self.prolong(now, id);
            self.events.push_back(CircuitEvent::Answered { circuit: id, payload, egress });
            return;
        };
        let forward = self.labels.relay(previous, egress, circuit.originator, circuit.body_hash.get());
        if let Some(previous) = self.extend(now, id, forward.label) {
            self.outbox.push_back((previous, CircuitMessage::Answer { circuit: id, payload, forward }));
        }
    }

    /// Notes that a circuit was answered with a further label of ours; gives the neighbour towards the originator.
    pub(super) fn extend(&mut self, now: Time, id: CircuitId, label: Label) -> Option<Adjacency> {
        let previous = self.circuits.get(&id)?.previous?;
        self.own_label(id, label);
        self.prolong(now, id);
        Some(previous)
    }
}
