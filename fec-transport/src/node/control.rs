//! The node's control plane: messages from and to neighbours.

use super::Node;
use crate::neighbour::Gone;
use crate::overlay::Peer;
use crate::time::Time;
use crate::wire::circuit::CircuitMessage;
use crate::wire::link::GreetingKey;
use crate::wire::{Malformed, control_type};

/// Control messages that wait for their connection at most; a neighbour that is further behind misses some, and what
/// they were about times out.
const MAX_CONTROL_OUT: usize = 4_096;

impl Node {
    /// A control connection to a process of a neighbour is up; its identity is proven.
    pub fn neighbour_up(&mut self, now: Time, peer: Peer) {
        self.now = now;
        if self.overlay.link_between(self.me.member, peer.member).is_none() {
            return;
        }
        let is_known = self.neighbours.greets_with(peer).is_some();
        if !is_known && self.neighbours.count() >= self.config.limits.neighbours {
            tracing::warn!(member = %self.overlay.name(peer.member), "too many neighbours are connected");
            return;
        }
        let gone = self.neighbours.up(now, &self.overlay, peer);
        self.give_up(&gone);
        self.offer_greeting(peer);
        self.handle_circuit_events();
        self.dialler.hurry(now, peer.member);
        self.handle_dialler_timeout();
    }

    /// The control connection to a process of a neighbour broke.
    pub fn neighbour_down(&mut self, now: Time, peer: Peer) {
        self.now = now;
        self.neighbours.down(now, peer);
    }

    /// Takes a control message of a neighbour. One that is malformed is dropped: it can only be a fault of the
    /// neighbour's, and what it was about times out. A message from a process that is not [up](Self::neighbour_up) is
    /// dropped, too.
    pub fn handle_control(&mut self, now: Time, from: Peer, message: &[u8]) {
        self.now = now;
        if !self.neighbours.is_up(from) {
            return;
        }
        if let Err(malformed) = self.take_control(now, from, message) {
            self.malformed_control += 1;
            // The first ones, and ever fewer of those that follow: a neighbour must not fill the log.
            if self.malformed_control.is_power_of_two() {
                let (from, so_far) = (self.overlay.name(from.member), self.malformed_control);
                tracing::warn!(%from, %malformed, so_far, "control message dropped");
            }
        }
        self.handle_circuit_events();
    }

    /// The next control message to send, and to whom.
    pub fn poll_control(&mut self) -> Option<(Peer, Vec<u8>)> {
        while let Some((to, message)) = self.circuits.poll_message() {
            self.send_control(to, message.emit());
        }
        self.control_out.pop_front()
    }

    fn take_control(&mut self, now: Time, from: Peer, message: &[u8]) -> Result<(), Malformed> {
        let (message_type, body) = message.split_first().ok_or(Malformed::new("control message"))?;
        match *message_type {
            control_type::GREETING_KEY => {
                let key = GreetingKey::parse(body)?;
                self.neighbours.on_greeting_key(now, from, &key);
            }
            control_type::GREETED => self.neighbours.on_greeted(now, from),
            other => {
                let message = CircuitMessage::parse(other, body)?;
                let neighbours = &self.neighbours;
                self.circuits.handle(now, from, message, |member| neighbours.process_of(member));
            }
        }
        Ok(())
    }

    /// As the acceptor of the connection, tells the dialler with what to greet us.
    fn offer_greeting(&mut self, peer: Peer) {
        let Some(link) = self.overlay.link_between(self.me.member, peer.member) else { return };
        if self.overlay.dialler(link) == self.me.member {
            return;
        }
        if let Some(old) = self.neighbours.greets_with(peer) {
            self.circuits.labels_mut().remove(old);
        }
        let hop = self.circuits.labels_mut().greeting(peer);
        self.neighbours.set_greets_with(peer, hop.label);
        self.send_control(peer, GreetingKey { label: hop.label, hop_key: hop.key }.emit());
    }

    /// Gives up what went over processes that are gone.
    pub(super) fn give_up(&mut self, gone: &[Gone]) {
        for Gone { peer, label } in gone {
            label.iter().for_each(|label| self.circuits.labels_mut().remove(*label));
            self.circuits.on_neighbour_gone(*peer);
        }
    }

    pub(super) fn confirm_greeting(&mut self, peer: Peer) {
        self.send_control(peer, vec![control_type::GREETED]);
    }

    fn send_control(&mut self, to: Peer, message: Vec<u8>) {
        if self.neighbours.is_up(to) && self.control_out.len() < MAX_CONTROL_OUT {
            self.control_out.push_back((to, message));
        }
    }
}
