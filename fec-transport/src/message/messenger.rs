//! The messenger: what its callers do.

mod carrying;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use super::address::{AddressError, Addresses, Route};
use super::budget::{Budget, Held, Limits};
use super::contexts::Contexts;
use super::link::{Link, LinkId};
use super::matching::{Arrival, Matching};
use super::module::{Module, Output, Slot};
use super::operation::{
    AddressId, Completion, ContextId, Deadline, Hints, NoOperation, OperationError, OperationId, PostError,
    Posted, Tag, Unexpected, Urgency,
};
use super::outgoing::{Message, Outgoing, Progress};
use super::room::Room;
use super::transfer::{Receive, Transfer};
use crate::time::Time;
use crate::wire::message::{Frame, Kind, Refusal};

/// Who posts an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// Where the operation completes.
    pub context: ContextId,
    /// Comes back with the completion: what the caller finds its own business by.
    pub user: u64,
    /// What the network may know.
    pub hints: Hints,
}

impl Caller {
    /// A caller in a context, with the user pointer 0 and without hints.
    pub fn new(context: ContextId) -> Caller {
        Caller { context, user: 0, hints: Hints::default() }
    }

    /// With this user pointer.
    pub fn user(self, user: u64) -> Caller {
        Caller { user, ..self }
    }

    /// Somebody waits for the message.
    pub fn urgent(self) -> Caller {
        Caller { hints: Hints { urgency: Urgency::Interactive, ..self.hints }, ..self }
    }

    /// The pieces of the message are used for something else once it is complete; see [`Hints::lent`].
    pub fn lent(self) -> Caller {
        Caller { hints: Hints { lent: true, ..self.hints }, ..self }
    }

    /// The operation fails if it is not complete so long after its post.
    pub fn within(self, timeout: Duration) -> Caller {
        Caller { hints: Hints { timeout: Some(timeout), ..self.hints }, ..self }
    }
}

/// What all networks of a messenger have room for, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Each of them carries messages of this length.
    pub largest: u64,
    /// Each of them carries unexpected messages of this length.
    pub largest_unexpected: usize,
}

/// Messages between this process and others, as a state machine; see the [module](super).
#[derive(Debug)]
pub struct Messenger {
    modules: Vec<Slot>,
    addresses: Addresses,
    links: BTreeMap<LinkId, Link>,
    matching: Matching,
    contexts: Contexts,
    unexpected: VecDeque<(Unexpected, Held)>,
    budget: Budget,
    /// How many unexpected messages have come so far.
    arrived: u64,
    /// How many operations were complete when they were posted.
    done_at_once: u64,
    last_link: u64,
}

impl Messenger {
    /// A messenger without any network yet.
    pub fn new(limits: Limits) -> Messenger {
        Messenger {
            modules: Vec::new(),
            addresses: Addresses::default(),
            links: BTreeMap::new(),
            matching: Matching::default(),
            contexts: Contexts::default(),
            unexpected: VecDeque::new(),
            budget: Budget::new(limits),
            arrived: 0,
            done_at_once: 0,
            last_link: 0,
        }
    }

    /// From now on it uses this network, too; the number is what its carrier calls it by.
    pub(crate) fn add_module(&mut self, module: Box<dyn Module>) -> usize {
        self.modules.push(Slot::new(module));
        self.modules.len() - 1
    }

    // --- contexts and addresses --------------------------------------------------------------------------------

    /// A new context: operations that are posted in it complete in it, and are seen by nobody who tests another one.
    pub fn open_context(&mut self) -> ContextId {
        self.contexts.open()
    }

    /// Ends a context. What is pending there is given up; completions that nobody has taken are gone.
    pub fn close_context(&mut self, context: ContextId) {
        for operation in self.contexts.pending(context) {
            self.give_up(operation, OperationError::Cancelled);
        }
        self.contexts.close(context);
    }

    /// The peer of that address: `SCHEME://PLACE`, or several of them separated by commas, the preferred one first. Of
    /// those whose scheme this process uses, the first that can be reached is used. Nothing is connected before it is
    /// needed. Looking up the same text twice gives the same peer.
    ///
    /// # Errors
    /// [`AddressError`] if no part is an address of a network that this process uses.
    pub fn look_up(&mut self, text: &str) -> Result<AddressId, AddressError> {
        let mut routes = Vec::new();
        for part in text.split(',').map(str::trim) {
            let (scheme, place) =
                part.split_once("://").ok_or_else(|| AddressError::NoScheme(text.to_owned()))?;
            let Some(module) = self.modules.iter().position(|slot| slot.module().scheme() == scheme) else {
                continue;
            };
            let bad = |reason| AddressError::BadPlace { part: part.to_owned(), reason };
            let place = self.modules[module].module().resolve(place).map_err(bad)?;
            routes.push(Route { module, place });
        }
        if routes.is_empty() {
            return Err(AddressError::NoModule { text: text.to_owned(), schemes: self.schemes() });
        }
        Ok(self.addresses.add(text.to_owned(), routes))
    }

    fn schemes(&self) -> String {
        let schemes: Vec<&str> = self.modules.iter().map(|slot| slot.module().scheme()).collect();
        if schemes.is_empty() { "none".to_owned() } else { schemes.join(", ") }
    }

    /// What a peer is called: as it was looked up, or as the network calls it that it came over.
    pub fn reverse_look_up(&self, address: AddressId) -> Option<&str> {
        self.addresses.text(address)
    }

    /// Forgets a peer: what is pending there is given up, its messages that nobody has taken are dropped, and its
    /// connection is closed. If it comes back it has another number.
    pub fn drop_address(&mut self, address: AddressId) {
        if let Some(link) = self.addresses.link(address) {
            let module = self.links[&link].module();
            self.modules[module].ask(Output::Disconnect { link });
            self.end_link(link, &OperationError::Cancelled);
        }
        for receive in self.matching.receives_of(address) {
            self.give_up(receive, OperationError::Cancelled);
        }
        for arrival in self.matching.take_arrivals_of(address) {
            let (Arrival::Whole(_, held) | Arrival::Offered { held, .. }) = arrival;
            self.release(&held);
        }
        let (its, others): (VecDeque<_>, _) = std::mem::take(&mut self.unexpected)
            .into_iter()
            .partition(|(message, _)| message.from == address);
        self.unexpected = others;
        its.iter().for_each(|(_, held)| self.release(held));
        self.addresses.remove(address);
    }

    /// Forgets a peer for which there is nothing here: no connection, no operation, no message. Gives whether there was
    /// nothing.
    pub fn drop_idle_address(&mut self, address: AddressId) -> bool {
        let is_idle = self.addresses.link(address).is_none()
            && !self.matching.knows(address)
            && !self.unexpected.iter().any(|(message, _)| message.from == address);
        if is_idle {
            self.drop_address(address);
        }
        is_idle
    }

    /// What all networks that are used have room for.
    pub fn bounds(&self) -> Bounds {
        let modules = || self.modules.iter().map(Slot::module);
        Bounds {
            largest: modules().map(Module::largest).min().unwrap_or(0),
            largest_unexpected: modules().map(Module::largest_unexpected).min().unwrap_or(0),
        }
    }

    /// Bytes that a message to that peer may have: an expected one, and an unexpected one.
    pub fn largest(&self, address: AddressId) -> Option<(u64, usize)> {
        let module = self.modules[self.addresses.route(address)?.module].module();
        Some((module.largest(), module.largest_unexpected()))
    }

    // --- posts -------------------------------------------------------------------------------------------------

    /// Sends a message for which the peer posts a receive. The pieces are one message, one after the other.
    ///
    /// *Complete* means that the pieces are not needed any more. A short message is complete as soon as the peer's
    /// window lets it go, when it may still be here; a longer one once the peer has all of it.
    ///
    /// # Errors
    /// [`PostError`]; then nothing is sent.
    pub fn post_send(
        &mut self,
        now: Time,
        to: AddressId,
        tag: Tag,
        pieces: Vec<Bytes>,
        caller: Caller,
    ) -> Result<Posted, PostError> {
        let message = Message::new(pieces, tag, caller.hints);
        self.send(now, to, Kind::Expected, message, caller)
    }

    /// Sends a message that the peer takes without a receive: a request to a server.
    ///
    /// # Errors
    /// [`PostError`]; then nothing is sent.
    pub fn post_send_unexpected(
        &mut self,
        now: Time,
        to: AddressId,
        tag: Tag,
        pieces: Vec<Bytes>,
        caller: Caller,
    ) -> Result<Posted, PostError> {
        let message = Message::new(pieces, tag, caller.hints);
        self.send(now, to, Kind::Unexpected, message, caller)
    }

    fn send(
        &mut self,
        now: Time,
        to: AddressId,
        kind: Kind,
        message: Message,
        caller: Caller,
    ) -> Result<Posted, PostError> {
        self.check(caller.context, to)?;
        let (largest, largest_unexpected) = self.largest(to).ok_or(PostError::NoAddress(to))?;
        let largest = if kind == Kind::Unexpected { largest_unexpected as u64 } else { largest };
        if message.length() > largest {
            return Err(PostError::TooLong { length: message.length(), largest });
        }
        let message = if kind == Kind::Unexpected { message.unlent() } else { message };
        self.tell_loss(to)?;
        let link = self.link_to(to).ok_or(PostError::NoAddress(to))?;
        let deadline = Deadline::of(now, caller.hints);
        let operation = self.contexts.begin(caller.context, caller.user, deadline, Transfer::Send { to });
        if let Some(link) = self.links.get_mut(&link) {
            link.outgoing().push(kind, operation, message);
        }
        self.drive(link);
        Ok(self.posted(operation))
    }

    /// Receives the next message with that tag from that peer into `room`, whose size is the longest that fits.
    ///
    /// # Errors
    /// [`PostError`]; then nothing is received.
    pub fn post_receive(
        &mut self,
        now: Time,
        from: AddressId,
        tag: Tag,
        room: Room,
        caller: Caller,
    ) -> Result<Posted, PostError> {
        self.check(caller.context, from)?;
        if !self.matching.has_arrival(from, tag) {
            self.tell_loss(from)?;
        }
        let transfer = Transfer::Receive(Receive::new(from, tag, room));
        let deadline = Deadline::of(now, caller.hints);
        let operation = self.contexts.begin(caller.context, caller.user, deadline, transfer);
        if let Some(arrival) = self.matching.post(from, tag, operation) {
            self.pair(operation, arrival);
        }
        Ok(self.posted(operation))
    }

    fn check(&self, context: ContextId, address: AddressId) -> Result<(), PostError> {
        if !self.contexts.is_open(context) {
            return Err(PostError::NoContext(context));
        }
        match self.addresses.contains(address) {
            true => Ok(()),
            false => Err(PostError::NoAddress(address)),
        }
    }

    fn tell_loss(&mut self, address: AddressId) -> Result<(), PostError> {
        let Some(messages) = self.addresses.take_lost(address) else { return Ok(()) };
        let address = self.addresses.text(address).unwrap_or_default().to_owned();
        Err(PostError::Lost { address, messages })
    }

    fn posted(&mut self, operation: OperationId) -> Posted {
        match self.contexts.test(operation) {
            Ok(Some(completion)) => {
                self.done_at_once += 1;
                Posted::Done(completion)
            }
            _ => Posted::Pending(operation),
        }
    }

    /// The link to a peer: the one that there is, or a new one.
    fn link_to(&mut self, address: AddressId) -> Option<LinkId> {
        match self.addresses.link(address) {
            Some(link) => Some(link),
            None => self.connect(address, Outgoing::new()),
        }
    }

    /// Asks for a link along the current route of a peer.
    pub(super) fn connect(&mut self, address: AddressId, outgoing: Outgoing) -> Option<LinkId> {
        let route = self.addresses.route(address)?.clone();
        self.displace_others(address, &route);
        let Route { module, place } = route.clone();
        let link = self.new_link(address, route, outgoing);
        self.modules[module].ask(Output::Connect { link, place });
        Some(link)
    }

    /// Ends the link that another address of the same place has: the peer has one link to us, and would say everything
    /// over the session or connection that it had first, so that the other one of ours heard nothing for ever.
    fn displace_others(&mut self, address: AddressId, route: &Route) {
        let others = self.addresses.along(route).filter(|other| *other != address);
        let taken: Vec<AddressId> = others.filter(|other| self.link_along(*other, route).is_some()).collect();
        for other in taken {
            let Some(link) = self.link_along(other, route) else { continue };
            self.modules[route.module].ask(Output::Disconnect { link });
            self.lose_link(link, other, "the process is connected by another address of it");
        }
    }

    /// The link of an address, if it leads along that route.
    pub(super) fn link_along(&self, address: AddressId, route: &Route) -> Option<LinkId> {
        self.addresses.link(address).filter(|link| self.links[link].goes_along(route))
    }

    /// The link to a peer from now on, over which `outgoing` goes once it is up.
    pub(super) fn new_link(&mut self, address: AddressId, route: Route, outgoing: Outgoing) -> LinkId {
        self.last_link += 1;
        let link = LinkId(self.last_link);
        self.links.insert(link, Link::new(address, route, outgoing));
        self.addresses.set_link(address, Some(link));
        link
    }

    // --- tests -------------------------------------------------------------------------------------------------

    /// Takes the completion of an operation, if it is complete.
    ///
    /// # Errors
    /// [`NoOperation`] if it was taken before, or never was.
    pub fn test(&mut self, operation: OperationId) -> Result<Option<Completion>, NoOperation> {
        self.contexts.test(operation)
    }

    /// Takes those completions of `operations` that are there, at most `most`. Operations that are not known are left
    /// out.
    pub fn test_some(&mut self, operations: &[OperationId], most: usize) -> Vec<Completion> {
        let done = operations.iter().filter_map(|operation| self.contexts.test(*operation).ok().flatten());
        done.take(most).collect()
    }

    /// Takes the completions of a context in the order in which they came, at most `most`. What it costs depends on
    /// their number, not on how many operations are pending.
    pub fn test_context(&mut self, context: ContextId, most: usize) -> Vec<Completion> {
        (0..most).map_while(|_| self.contexts.test_context(context)).collect()
    }

    /// Takes unexpected messages in the order in which they came, at most `most`.
    pub fn test_unexpected(&mut self, most: usize) -> Vec<Unexpected> {
        let mut taken = Vec::new();
        while taken.len() < most {
            let Some((message, held)) = self.unexpected.pop_front() else { break };
            self.release(&held);
            taken.push(message);
        }
        taken
    }

    /// Gives an operation up. It completes with [`OperationError::Cancelled`], unless it has completed before; either
    /// way its completion is there to be taken, and its memory is not touched any more. What the peer does of it fails,
    /// too, if it has begun.
    ///
    /// # Errors
    /// [`NoOperation`] if its completion was taken before, or it never was.
    pub fn cancel(&mut self, operation: OperationId) -> Result<(), NoOperation> {
        if !self.contexts.contains(operation) {
            return Err(NoOperation(operation));
        }
        self.give_up(operation, OperationError::Cancelled);
        Ok(())
    }

    /// A pending operation is not carried on; the peer is told what it must know.
    pub(super) fn give_up(&mut self, operation: OperationId, error: OperationError) {
        let Some(transfer) = self.contexts.transfer(operation) else { return };
        match transfer {
            Transfer::Send { to } => {
                let to = *to;
                self.stop_sending(to, operation);
            }
            Transfer::Receive(receive) => {
                let (from, tag, message) = (receive.from(), receive.tag(), receive.message());
                match message {
                    None => self.matching.cancel(from, tag, operation),
                    Some(message) => self.stop_receiving(from, message),
                }
            }
        }
        self.contexts.complete(operation, Err(error));
    }

    fn stop_sending(&mut self, to: AddressId, operation: OperationId) {
        let Some(id) = self.addresses.link(to) else { return };
        let Some(link) = self.links.get_mut(&id) else { return };
        let progress = link.outgoing().remove(operation).map(|(_, progress)| progress);
        let module = link.module();
        if matches!(progress, Some(Progress::Offered | Progress::Granted)) {
            self.say(id, Frame::Withdrawal { message: operation.0 });
        }
        if progress == Some(Progress::Granted) {
            self.modules[module].ask(Output::StopSending { link: id, message: operation.0 });
        }
        // The one behind it may fit where it did not.
        self.drive(id);
    }

    fn stop_receiving(&mut self, from: AddressId, message: u64) {
        let Some(id) = self.addresses.link(from) else { return };
        let Some(link) = self.links.get_mut(&id) else { return };
        if let Some(incoming) = link.incoming() {
            incoming.forget(message);
        }
        let module = link.module();
        self.say(id, Frame::Refusal { message, reason: Refusal::Cancelled });
        self.modules[module].ask(Output::StopReceiving { link: id, message });
    }

    // --- time --------------------------------------------------------------------------------------------------

    /// The time that [`next_timeout`](Self::next_timeout) named has come.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(operation) = self.contexts.overdue(now) {
            let timeout =
                self.contexts.deadline(operation).map_or(Duration::ZERO, |deadline| deadline.timeout);
            self.give_up(operation, OperationError::TimedOut(timeout));
        }
    }

    /// When the next operation runs out of time.
    pub fn next_timeout(&self) -> Option<Time> {
        self.contexts.next_deadline()
    }

    // --- what it looks like from outside -----------------------------------------------------------------------

    /// A number that changes whenever there is something to take: a completion, or an unexpected message. What was
    /// complete at its post has been taken there.
    pub fn news(&self) -> u64 {
        self.contexts.completed() + self.arrived - self.done_at_once
    }

    /// How many operations there are, those included whose completion nobody has taken.
    pub fn operation_count(&self) -> usize {
        self.contexts.len()
    }

    /// How many receives wait for messages, and messages for receives or for somebody who takes unexpected ones.
    pub fn waiting_count(&self) -> usize {
        self.matching.len() + self.unexpected.len()
    }

    /// Bytes that are set aside for what peers may send before it is taken.
    pub fn set_aside(&self) -> u64 {
        self.budget.used()
    }

    /// Charged bytes of the unexpected messages that nobody has taken.
    pub fn unexpected_bytes(&self) -> u64 {
        self.unexpected.iter().map(|(_, held)| held.charge).sum()
    }
}
