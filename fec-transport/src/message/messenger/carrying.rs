//! The messenger: what those do who carry its messages.

use bytes::Bytes;

use super::Messenger;
use crate::message::address::Route;
use crate::message::budget::{Held, charge, kept};
use crate::message::incoming::{Breach, Incoming, Offer};
use crate::message::link::{Link, LinkId};
use crate::message::matching::{Arrival, Pairing};
use crate::message::module::Output;
use crate::message::operation::{AddressId, OperationError, OperationId, Tag, Unexpected};
use crate::message::outgoing::{Departure, Outgoing};
use crate::wire::message::{Frame, FrameReader, Kind, Refusal};

impl Messenger {
    // --- what is wanted of a module ----------------------------------------------------------------------------

    /// The next thing that is wanted of a module.
    pub(crate) fn next_output(&mut self, module: usize) -> Option<Output> {
        self.modules[module].next_output()
    }

    /// Whether anything is wanted of a module.
    pub(crate) fn has_output(&self, module: usize) -> bool {
        self.modules[module].has_output()
    }

    /// Says something over a link.
    pub(super) fn say(&mut self, id: LinkId, frame: Frame) {
        let Some(link) = self.links.get(&id) else { return };
        self.modules[link.module()].ask(Output::Frame { link: id, frame, taken: link.taken() });
    }

    /// Sends what a link's window lets go.
    pub(super) fn drive(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(&id).filter(|link| link.is_up()) else { return };
        let (taken, module) = (link.taken(), link.module());
        let eager = self.modules[module].module().eager();
        while let Some(departure) = link.outgoing().next(eager) {
            let frame = match departure {
                Departure::Whole(operation, length, frame) => {
                    self.contexts.complete(operation, Ok(length));
                    frame
                }
                Departure::Offer(frame) => frame,
            };
            self.modules[module].ask(Output::Frame { link: id, frame, taken });
        }
    }

    // --- how links come and go ---------------------------------------------------------------------------------

    /// Somebody has come over a module from that place; gives the link, which is the one that there is if it was being
    /// opened from here at the same time. `is_new` says whether it is another process than the one that was there
    /// before: what that one may not have had is of no interest to this one.
    ///
    /// # Errors
    /// If there is no memory left for what the peer may send.
    pub(crate) fn link_incoming(
        &mut self,
        module: usize,
        place: &str,
        is_new: bool,
    ) -> Result<LinkId, OperationError> {
        let route = Route { module, place: place.to_owned() };
        let address = self.address_of(&route);
        if is_new {
            self.addresses.take_lost(address);
        }
        let id = match self.addresses.link(address) {
            Some(link) if self.links[&link].goes_along(&route) => link,
            // It was tried along another route. That one may still come up, and is told to stop.
            Some(other) => self.move_link(other, route),
            None => self.new_link(address, route, Outgoing::new()),
        };
        self.link_up(id)?;
        Ok(id)
    }

    fn address_of(&mut self, route: &Route) -> AddressId {
        // Where a link is being opened to the place, or is there, the peer has come over its other half.
        let linked = self.addresses.along(route).find(|address| self.link_along(*address, route).is_some());
        if let Some(address) = linked {
            return address;
        }
        let text = format!("{}://{}", self.modules[route.module].module().scheme(), route.place);
        match self.addresses.find(route) {
            None => self.addresses.add(text, vec![route.clone()]),
            // Whoever is connected along one route already, and comes along another one, has two addresses.
            Some(address) if self.is_connected(address) => {
                self.addresses.add_apart(format!("{text}#again"), route.clone())
            }
            Some(address) => address,
        }
    }

    fn is_connected(&self, address: AddressId) -> bool {
        let link = self.addresses.link(address).and_then(|link| self.links.get(&link));
        link.is_some_and(Link::is_up)
    }

    /// What waits for a link that is not up goes along another route.
    fn move_link(&mut self, old: LinkId, route: Route) -> LinkId {
        let Some(link) = self.links.remove(&old) else { return old };
        self.modules[link.module()].ask(Output::Disconnect { link: old });
        self.new_link(link.address(), route, link.into_halves().0)
    }

    /// Whether somebody waits for a link, or has it.
    #[cfg(feature = "io")]
    pub(crate) fn is_wanted(&self, id: LinkId) -> bool {
        self.links.contains_key(&id)
    }

    /// A link is there.
    ///
    /// # Errors
    /// If the link is not wanted any more, or there is no memory left for what the peer may send: then it is closed.
    pub(crate) fn link_up(&mut self, id: LinkId) -> Result<(), OperationError> {
        let link = self.links.get_mut(&id).ok_or(OperationError::Cancelled)?;
        if link.is_up() {
            return Ok(());
        }
        let holder = self.addresses.holder(link.address()).ok_or(OperationError::Cancelled)?;
        let windows = [Kind::Unexpected, Kind::Expected].map(|kind| self.budget.reserve(&holder, kind));
        if let [Some(unexpected), Some(expected)] = windows {
            link.come_up(Incoming::new(unexpected, expected));
            self.tell_windows(id);
            self.drive(id);
            return Ok(());
        }
        for (kind, window) in [Kind::Unexpected, Kind::Expected].into_iter().zip(windows) {
            self.budget.give_back(&holder, kind, window.unwrap_or(0));
        }
        let reason = "too many of its messages wait here already".to_owned();
        let error = OperationError::PeerLost { address: holder.to_string(), reason };
        self.end_link(id, &error);
        Err(error)
    }

    /// A link has ended, or could not be opened. What is pending there fails, unless the link never was up and there is
    /// another way to the peer.
    pub(crate) fn link_closed(&mut self, id: LinkId, reason: &str) {
        let Some(link) = self.links.get(&id) else { return };
        let (address, was_up) = (link.address(), link.is_up());
        if !was_up && self.addresses.try_next(address) {
            if let Some(link) = self.links.remove(&id) {
                self.connect(address, link.into_halves().0);
            }
            return;
        }
        self.lose_link(id, address, reason);
    }

    /// Fails all that is pending with a link's peer, which is lost; whoever posts to it again tries its first route.
    pub(super) fn lose_link(&mut self, id: LinkId, address: AddressId, reason: &str) {
        self.addresses.start_over(address);
        let text = self.addresses.text(address).unwrap_or_default().to_owned();
        self.end_link(id, &OperationError::PeerLost { address: text, reason: reason.to_owned() });
    }

    /// Fails all that is pending with a link's peer.
    pub(super) fn end_link(&mut self, id: LinkId, error: &OperationError) {
        let Some(link) = self.links.remove(&id) else { return };
        let address = link.address();
        self.addresses.set_link(address, None);
        let (outgoing, incoming) = link.into_halves();
        let mut failed = outgoing.operations();
        failed.extend(self.matching.receives_of(address));
        if let Some(incoming) = incoming {
            failed.extend(self.end_incoming(address, incoming));
        }
        for operation in &failed {
            if let Some(receive) =
                self.contexts.transfer(*operation).and_then(|transfer| transfer.as_receive())
            {
                self.matching.cancel(address, receive.tag(), *operation);
            }
            self.contexts.complete(*operation, Err(error.clone()));
        }
        if failed.is_empty() && outgoing.unconfirmed() > 0 {
            self.addresses.note_lost(address, outgoing.unconfirmed());
        }
    }

    /// What was on offer is gone, what has come whole stays; gives the receives that fail.
    fn end_incoming(&mut self, address: AddressId, mut incoming: Incoming) -> Vec<OperationId> {
        let mut failed = Vec::new();
        for offer in incoming.take_offers() {
            match offer {
                Offer::Granted(operation) => failed.push(operation),
                Offer::Waits(place) => {
                    if let Some(Arrival::Offered { held, .. }) = self.matching.withdraw(place) {
                        incoming.release(held.kind, held.charge);
                    }
                }
            }
        }
        if let Some(holder) = self.addresses.holder(address) {
            for kind in [Kind::Unexpected, Kind::Expected] {
                self.budget.give_back(&holder, kind, incoming.free(kind));
            }
        }
        failed
    }

    // --- what comes --------------------------------------------------------------------------------------------

    /// The peer sends `bytes`, which are the next ones for `reader`.
    ///
    /// # Errors
    /// [`Breach`] if they are no frames, or if it must not say what they say; the carrier closes the link.
    pub(crate) fn handle_frames(
        &mut self,
        id: LinkId,
        reader: &mut FrameReader,
        bytes: &Bytes,
    ) -> Result<(), Breach> {
        reader.push(bytes);
        while let Some((frame, taken)) =
            reader.next().map_err(|error| Breach::Malformed(error.to_string()))?
        {
            self.handle_frame(id, frame, taken)?;
        }
        Ok(())
    }

    /// The peer says something, and how many messages it has taken.
    ///
    /// # Errors
    /// [`Breach`] if it must not; the carrier closes the link.
    pub(crate) fn handle_frame(&mut self, id: LinkId, frame: Frame, taken: u32) -> Result<(), Breach> {
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        link.outgoing().confirm(taken);
        match frame {
            Frame::Window { unexpected, expected } => {
                link.outgoing().allow(unexpected, expected);
                self.drive(id);
            }
            Frame::Eager { kind, tag, pieces } => {
                let length = pieces.iter().map(Bytes::len).sum();
                let held = self.admit(id, kind, charge(length))?;
                self.arrive(id, Tag(tag), pieces, held);
            }
            Frame::Offer { message, tag, length } => self.on_offer(id, message, Tag(tag), length)?,
            Frame::Grant { message } => {
                let Some((pieces, urgency)) = link.outgoing().grant(OperationId(message)) else {
                    return Ok(());
                };
                let module = link.module();
                self.modules[module].ask(Output::Bulk { link: id, message, pieces, urgency });
            }
            Frame::Refusal { message, reason } => self.on_refusal(id, message, reason),
            Frame::Withdrawal { message } => self.on_withdrawal(id, message),
        }
        Ok(())
    }

    fn admit(&mut self, id: LinkId, kind: Kind, charge: u64) -> Result<Held, Breach> {
        let nobody = || Breach::Malformed("a message before its link is up".to_owned());
        let link = self.links.get_mut(&id).ok_or_else(nobody)?;
        let holder = self.addresses.holder(link.address()).ok_or_else(nobody)?;
        link.incoming().ok_or_else(nobody)?.admit(kind, charge)?;
        Ok(Held { link: id, holder, kind, charge })
    }

    fn arrive(&mut self, id: LinkId, tag: Tag, pieces: Vec<Bytes>, held: Held) {
        let (from, module) = (self.links[&id].address(), self.links[&id].module());
        if held.kind == Kind::Unexpected {
            self.arrived += 1;
            self.unexpected.push_back((Unexpected { from, tag, bytes: kept(&pieces) }, held));
            return;
        }
        match self.matching.arrive(from, tag, Arrival::Whole(pieces, held)) {
            Pairing::With(receive, arrival) => self.pair(receive, arrival),
            Pairing::Waits(_) if self.modules[module].module().shares_memory() => {}
            Pairing::Waits(place) => self.matching.keep(place),
        }
    }

    fn on_offer(&mut self, id: LinkId, message: u64, tag: Tag, length: u64) -> Result<(), Breach> {
        let held = self.admit(id, Kind::Expected, charge(0))?;
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        let from = link.address();
        if link.incoming().is_some_and(|incoming| incoming.has_offer(message)) {
            return Err(Breach::OfferedTwice(message));
        }
        match self.matching.arrive(from, tag, Arrival::Offered { message, length, held }) {
            Pairing::With(receive, arrival) => self.pair(receive, arrival),
            Pairing::Waits(place) => {
                if let Some(incoming) = link.incoming() {
                    incoming.note(message, Offer::Waits(place));
                }
            }
        }
        Ok(())
    }

    /// A receive gets its message.
    pub(super) fn pair(&mut self, operation: OperationId, arrival: Arrival) {
        match arrival {
            Arrival::Whole(pieces, held) => {
                self.release(&held);
                let length = pieces.iter().map(|piece| piece.len() as u64).sum();
                let Some(receive) = self.receive(operation) else { return };
                let room = receive.room();
                let result = match length <= room {
                    true => {
                        receive.fill(&pieces);
                        Ok(length)
                    }
                    false => Err(OperationError::TooLong { length, room }),
                };
                self.contexts.complete(operation, result);
            }
            Arrival::Offered { message, length, held } => {
                self.release(&held);
                self.grant(operation, held.link, message, length);
            }
        }
    }

    fn grant(&mut self, operation: OperationId, id: LinkId, message: u64, length: u64) {
        let Some(receive) = self.receive(operation) else { return };
        let room = receive.room();
        if length <= room {
            receive.expect(message, length);
        }
        let Some(incoming) = self.links.get_mut(&id).and_then(Link::incoming) else { return };
        if length > room {
            incoming.forget(message);
            self.say(id, Frame::Refusal { message, reason: Refusal::NoRoom });
            self.contexts.complete(operation, Err(OperationError::TooLong { length, room }));
            return;
        }
        incoming.note(message, Offer::Granted(operation));
        self.say(id, Frame::Grant { message });
        if length == 0 {
            self.finish_receive(id, message, operation, 0);
        }
    }

    fn receive(&mut self, operation: OperationId) -> Option<&mut crate::message::transfer::Receive> {
        self.contexts.transfer(operation)?.as_receive()
    }

    /// A message was taken from where it waited; the peer may send as much again.
    pub(super) fn release(&mut self, held: &Held) {
        match self.links.get_mut(&held.link).and_then(Link::incoming) {
            Some(incoming) => {
                incoming.release(held.kind, held.charge);
                self.tell_windows(held.link);
            }
            None => self.budget.give_back(&held.holder, held.kind, held.charge),
        }
    }

    fn tell_windows(&mut self, id: LinkId) {
        if let Some(frame) = self.links.get_mut(&id).and_then(Link::next_window) {
            self.say(id, frame);
        }
    }

    fn on_refusal(&mut self, id: LinkId, message: u64, reason: Refusal) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let module = link.module();
        let Some((length, _)) = link.outgoing().remove(OperationId(message)) else { return };
        self.modules[module].ask(Output::StopSending { link: id, message });
        let error = match reason {
            Refusal::Cancelled => OperationError::GivenUp,
            Refusal::NoRoom => OperationError::DoesNotFit { length },
        };
        self.contexts.complete(OperationId(message), Err(error));
    }

    fn on_withdrawal(&mut self, id: LinkId, message: u64) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let module = link.module();
        match link.incoming().and_then(|incoming| incoming.forget(message)) {
            None => {}
            Some(Offer::Waits(place)) => {
                if let Some(Arrival::Offered { held, .. }) = self.matching.withdraw(place) {
                    self.release(&held);
                }
            }
            Some(Offer::Granted(operation)) => {
                self.modules[module].ask(Output::StopReceiving { link: id, message });
                self.contexts.complete(operation, Err(OperationError::GivenUp));
            }
        }
    }

    /// Whether the bytes of a message are wanted.
    pub(crate) fn is_granted(&mut self, id: LinkId, message: u64) -> bool {
        let incoming = self.links.get_mut(&id).and_then(Link::incoming);
        incoming.is_some_and(|incoming| incoming.granted(message).is_some())
    }

    /// Bytes of a granted message, which begin at `offset` in it. Each byte comes once; those of a message that was
    /// given up are dropped. Gives whether its receive is complete by them.
    ///
    /// # Errors
    /// [`Breach`] if they are not of the message.
    pub(crate) fn handle_bulk(
        &mut self,
        id: LinkId,
        message: u64,
        offset: u64,
        bytes: &[u8],
    ) -> Result<bool, Breach> {
        let incoming = self.links.get_mut(&id).and_then(Link::incoming);
        let Some(operation) = incoming.and_then(|incoming| incoming.granted(message)) else {
            return Ok(false);
        };
        let Some(receive) = self.receive(operation) else { return Ok(false) };
        let whole = receive.take(offset, bytes).map_err(|_| Breach::BeyondEnd(message))?;
        if let Some(length) = whole {
            self.finish_receive(id, message, operation, length);
        }
        Ok(whole.is_some())
    }

    fn finish_receive(&mut self, id: LinkId, message: u64, operation: OperationId, length: u64) {
        if let Some(incoming) = self.links.get_mut(&id).and_then(Link::incoming) {
            incoming.forget(message);
        }
        self.contexts.complete(operation, Ok(length));
    }

    /// No more bytes of a message of the peer's come.
    pub(crate) fn bulk_ended(&mut self, id: LinkId, message: u64) {
        let incoming = self.links.get_mut(&id).and_then(Link::incoming);
        let Some(Offer::Granted(operation)) = incoming.and_then(|incoming| incoming.forget(message)) else {
            return;
        };
        self.contexts.complete(operation, Err(OperationError::GivenUp));
    }

    /// The peer has all bytes of a message of ours; its pieces are not needed any more.
    pub(crate) fn bulk_sent(&mut self, id: LinkId, message: u64) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if let Some((length, _)) = link.outgoing().remove(OperationId(message)) {
            self.contexts.complete(OperationId(message), Ok(length));
        }
    }

    /// The peer takes no bytes of a message of ours any more.
    pub(crate) fn bulk_refused(&mut self, id: LinkId, message: u64) {
        self.on_refusal(id, message, Refusal::Cancelled);
    }
}
