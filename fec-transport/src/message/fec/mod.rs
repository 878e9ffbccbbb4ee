//! Messages over sessions: the module `fec`.
//!
//! A peer is `fec://MEMBER`. Whoever opens the session opens one interactive stream on it, whose two directions carry
//! the frames of both sides; the bytes of each large message travel on a stream of their own, once they were granted,
//! and go to their place in whatever order they arrive. The receiver ends that stream when it has all of them.
//!
//! [`MessageApplication`] is what runs on a node: in production `io::message` drives it, in tests `sim::World`.

mod streams;
mod ways;

use std::collections::VecDeque;

use bytes::Bytes;

use super::incoming::Breach;
use super::link::LinkId;
use super::module::{Module, Output};
use super::shared::Shared;
use crate::application::Application;
use crate::event::{Event, SessionId, StreamId};
use crate::node::Node;
use crate::overlay::Peer;
use crate::session::Read;
use crate::time::Time;
use crate::wire::message::FrameReader;
use streams::{Bulk, Head, Streams, Use, read_head};
use ways::Ways;

/// Codes with which streams are reset.
mod code {
    /// The receiver has all of a message.
    pub(super) const TAKEN: u32 = 0;
    /// One of the two sides has given the message up.
    pub(super) const GIVEN_UP: u32 = 1;
}

/// The module, as the messenger knows it.
#[derive(Debug)]
struct FecModule;

impl Module for FecModule {
    fn scheme(&self) -> &'static str {
        "fec"
    }

    fn resolve(&self, place: &str) -> Result<String, String> {
        match place {
            "" => Err("the member's name is missing".to_owned()),
            place if place.contains('#') => {
                Err("this is one process of a member; it cannot be looked up".to_owned())
            }
            place => Ok(place.to_owned()),
        }
    }
}

/// Carries the messages of a messenger over the sessions of a node.
#[derive(Debug)]
pub struct MessageApplication {
    messenger: Shared,
    module: usize,
    ways: Ways,
    streams: Streams,
    /// What the messenger's [`news`](super::Messenger::news) were when the world outside was told last.
    told: u64,
    outcomes: VecDeque<Outcome>,
}

/// What a [`MessageApplication`] is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Carry what was posted.
    Carry,
    /// Carry what was posted and nothing that is posted later, and tell when the peers have all short messages.
    Finish,
}

/// What a [`MessageApplication`] tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// There may be something to take.
    News,
    /// The peers have all short messages that were posted before [`Command::Finish`].
    Finished,
}

impl MessageApplication {
    /// Lets a messenger use the sessions of the node that this runs on.
    pub fn new(messenger: &Shared) -> MessageApplication {
        let module = messenger.lock().add_module(Box::new(FecModule));
        MessageApplication {
            messenger: messenger.clone(),
            module,
            ways: Ways::default(),
            streams: Streams::default(),
            told: 0,
            outcomes: VecDeque::new(),
        }
    }

    /// Whose messages it carries.
    pub fn messenger(&self) -> &Shared {
        &self.messenger
    }

    /// What the messenger calls the module.
    #[cfg(feature = "io")]
    pub(crate) fn module(&self) -> usize {
        self.module
    }

    /// Does what the messenger wants, and tells if there is something to take.
    fn carry(&mut self, now: Time, node: &mut Node) {
        loop {
            let output = self.messenger.lock().next_output(self.module);
            let Some(output) = output else { break };
            self.obey(now, node, output);
        }
        self.ways.flush(now, node);
        let news = self.messenger.lock().news();
        if news != self.told {
            self.told = news;
            self.outcomes.push_back(Outcome::News);
        }
        if self.ways.take_finished() {
            self.outcomes.push_back(Outcome::Finished);
        }
    }

    fn obey(&mut self, now: Time, node: &mut Node, output: Output) {
        match output {
            Output::Connect { link, place } => self.connect(now, node, link, &place),
            Output::Frame { link, frame, taken } => self.ways.say(link, &frame, taken),
            Output::Bulk { link, message, pieces, urgency } => {
                self.streams.add(Bulk::new(link, message, pieces, urgency));
                self.start_bulks(now, node, link);
            }
            Output::StopSending { link, message } => {
                if let Some(stream) = self.streams.stop_sending(link, message) {
                    node.reset(now, stream, code::GIVEN_UP);
                }
            }
            Output::StopReceiving { link, message } => {
                if let Some(stream) = self.streams.stop_receiving(link, message) {
                    node.reset(now, stream, code::GIVEN_UP);
                }
            }
            Output::Disconnect { link } => self.part(now, node, link, "its address was dropped"),
        }
    }

    // --- how links come and go ---------------------------------------------------------------------------------

    fn connect(&mut self, now: Time, node: &mut Node, link: LinkId, place: &str) {
        let Some(member) = node.overlay().find(place) else {
            let reason = format!("the overlay has no member \"{place}\"");
            return self.messenger.lock().link_closed(link, &reason);
        };
        let session = match node.connect(now, member) {
            Ok(session) => session,
            Err(error) => return self.messenger.lock().link_closed(link, &error.to_string()),
        };
        self.ways.dial(session, link);
        if let Some(peer) = node.peer(session) {
            self.session_opened(now, node, session, peer, false);
        }
    }

    fn session_opened(&mut self, now: Time, node: &mut Node, session: SessionId, peer: Peer, incoming: bool) {
        // A process opens one session for as long as that lasts. If another one comes, the older of the two has ended
        // there, and nobody here has noticed yet.
        if incoming && let Some((link, before)) = self.ways.visit(peer) {
            if session < before {
                return node.close(now, session, "its process has opened a later one");
            }
            self.lose(now, node, link, "its process has opened another session");
        }
        let link = match incoming {
            true => self.welcome(node, peer),
            false => self.dialled(now, node, session, peer),
        };
        let link = match link {
            Ok(link) => link,
            Err(reason) => return node.close(now, session, &reason),
        };
        self.ways.attach(link, session, peer, incoming);
        if !incoming && let Some(stream) = self.ways.open(now, node, link, session) {
            self.streams.know(stream, Use::Frames(link, FrameReader::default()));
        }
    }

    fn dialled(
        &mut self,
        now: Time,
        node: &mut Node,
        session: SessionId,
        peer: Peer,
    ) -> Result<LinkId, String> {
        let link = self.ways.dialled(session).ok_or("nobody waits for it any more")?;
        // Only one process can be dialled, so the one that had come by itself is no more. The two count their messages
        // each for itself.
        if self.ways.leads_to_other(link, peer) {
            let reason = "another process is in its place";
            self.lose(now, node, link, reason);
            return Err(reason.to_owned());
        }
        let up = self.messenger.lock().link_up(link).map_err(|error| error.to_string());
        if let Err(reason) = &up {
            self.part(now, node, link, reason);
        }
        up.map(|()| link)
    }

    /// Somebody opened a session to us.
    fn welcome(&mut self, node: &Node, peer: Peer) -> Result<LinkId, String> {
        let name = node.overlay().name(peer.member);
        let place = match self.ways.other_process(peer) {
            false => name,
            true => format!("{name}#{:016x}", peer.instance.0),
        };
        let is_new = !self.ways.is_last(peer);
        let link = self.messenger.lock().link_incoming(self.module, &place, is_new);
        link.map_err(|error| error.to_string())
    }

    fn session_closed(&mut self, now: Time, node: &mut Node, session: SessionId, reason: &str) {
        if let Some(link) = self.ways.dialled(session)
            && !self.ways.is_up(link)
        {
            self.lose(now, node, link, reason);
        }
        if let Some(link) = self.ways.link_of(session) {
            self.lose(now, node, link, reason);
        }
        self.streams.forget_session(session);
    }

    /// A link is over, whatever it went over.
    fn lose(&mut self, now: Time, node: &mut Node, link: LinkId, reason: &str) {
        self.part(now, node, link, reason);
        self.messenger.lock().link_closed(link, reason);
    }

    fn part(&mut self, now: Time, node: &mut Node, link: LinkId, reason: &str) {
        self.streams.forget(link);
        for session in self.ways.remove(link) {
            node.close(now, session, reason);
        }
    }

    // --- what comes --------------------------------------------------------------------------------------------

    fn read(&mut self, now: Time, node: &mut Node, stream: StreamId) {
        if let Some(Use::New(_)) = self.streams.get(stream) {
            self.read_head(now, node, stream);
        }
        match self.streams.get(stream) {
            Some(Use::Frames(..)) => {
                while let Ok(Read::Data { bytes, .. }) = node.read(now, stream, usize::MAX) {
                    self.take_frames(now, node, stream, &bytes);
                }
            }
            Some(Use::Receiving(link, message, _)) => {
                let (link, message) = (*link, *message);
                self.read_bulk(now, node, stream, link, message);
            }
            _ => {}
        }
    }

    fn take_frames(&mut self, now: Time, node: &mut Node, stream: StreamId, bytes: &Bytes) {
        let Some(Use::Frames(link, _)) = self.streams.get(stream) else { return };
        let link = *link;
        if !self.ways.hears(link, stream.session) {
            return self.begin_anew(now, node, link, stream, bytes);
        }
        let Some(Use::Frames(_, reader)) = self.streams.get(stream) else { return };
        let result = self.messenger.lock().handle_frames(link, reader, bytes);
        if let Err(breach) = result {
            self.lose(now, node, link, &breach_text(&breach));
        }
    }

    /// Frames have come over both sessions of a link. Who has two of them says everything over the one that he had
    /// first, so this process has forgotten the one that we opened. What it says over its own is the beginning of
    /// another link.
    fn begin_anew(&mut self, now: Time, node: &mut Node, link: LinkId, stream: StreamId, bytes: &Bytes) {
        let peer = self.ways.detach_visit(link, stream.session);
        self.lose(now, node, link, "its process has forgotten the session to it");
        // If frames of the forgotten session have come late, those of the other one are with the link that is over.
        let Some(peer) = peer else { return };
        self.session_opened(now, node, stream.session, peer, true);
        if let Some(link) = self.ways.link_of(stream.session) {
            self.ways.answer_on(link, stream);
            self.streams.know(stream, Use::Frames(link, FrameReader::default()));
            self.take_frames(now, node, stream, bytes);
        }
    }

    fn read_head(&mut self, now: Time, node: &mut Node, stream: StreamId) {
        let Some(Use::New(head)) = self.streams.get(stream) else { return };
        let Some(head) = read_head(now, node, stream, head) else { return };
        let Some(link) = self.ways.link_of(stream.session) else { return };
        match head {
            Ok(Head::Frames) => {
                self.ways.answer_on(link, stream);
                self.streams.know(stream, Use::Frames(link, FrameReader::default()));
            }
            Ok(Head::Bulk(message)) => {
                if self.messenger.lock().is_granted(link, message) {
                    self.streams.know(stream, Use::Receiving(link, message, false));
                } else {
                    self.streams.drop_stream(stream);
                    node.reset(now, stream, code::GIVEN_UP);
                }
            }
            Err(reason) => self.lose(now, node, link, &reason),
        }
    }

    fn read_bulk(&mut self, now: Time, node: &mut Node, stream: StreamId, link: LinkId, message: u64) {
        loop {
            match node.read_block(now, stream) {
                Ok(Read::Data { offset, bytes }) => {
                    let offset = streams::offset_in_message(offset);
                    let result = self.messenger.lock().handle_bulk(link, message, offset, &bytes);
                    match (result, self.streams.get(stream)) {
                        (Ok(true), Some(Use::Receiving(.., is_whole))) => *is_whole = true,
                        (Ok(_), _) => {}
                        (Err(breach), _) => return self.lose(now, node, link, &breach_text(&breach)),
                    }
                }
                Ok(Read::Finished) => {
                    self.messenger.lock().bulk_ended(link, message);
                    // The receive may have been given up just now, which is still to be told: nobody has it then.
                    let is_taken = matches!(self.streams.drop_stream(stream), Some(Use::Receiving(.., true)));
                    return node.reset(now, stream, if is_taken { code::TAKEN } else { code::GIVEN_UP });
                }
                // Nobody sends messages on real-time streams; one of which a part is lost ends short.
                Ok(Read::Lost { .. }) => {}
                Ok(Read::Blocked) | Err(_) => return,
            }
        }
    }

    fn stream_reset(&mut self, now: Time, node: &mut Node, stream: StreamId, reason: u32) {
        match self.streams.drop_stream(stream) {
            Some(Use::Sending(bulk)) => {
                let (link, message) = bulk.name();
                match reason {
                    code::TAKEN => self.messenger.lock().bulk_sent(link, message),
                    _ => self.messenger.lock().bulk_refused(link, message),
                }
                self.start_bulks(now, node, link);
            }
            Some(Use::Receiving(link, message, _)) => self.messenger.lock().bulk_ended(link, message),
            Some(Use::Frames(link, _)) => self.lose(now, node, link, "the peer gave up its frames"),
            Some(Use::New(_)) | None => {}
        }
    }

    // --- what goes ---------------------------------------------------------------------------------------------

    fn write(&mut self, now: Time, node: &mut Node, stream: StreamId) {
        match self.streams.get(stream) {
            Some(Use::Sending(bulk)) => bulk.write(now, node, stream),
            Some(Use::Frames(link, _)) => self.ways.unblock(*link),
            _ => {}
        }
    }

    /// Opens streams for granted messages, as many as the peer allows.
    fn start_bulks(&mut self, now: Time, node: &mut Node, link: LinkId) {
        let Some(session) = self.ways.session(link) else { return };
        self.streams.start(now, node, link, session);
    }
}

/// Why a link is closed whose peer does not keep to the rules.
fn breach_text(breach: &Breach) -> String {
    format!("the peer broke the protocol of messages: {breach}")
}

impl Application for MessageApplication {
    type Command = Command;
    type Outcome = Outcome;

    fn handle_event(&mut self, now: Time, node: &mut Node, event: Event) {
        match event {
            Event::SessionOpened { session, peer, incoming } => {
                self.session_opened(now, node, session, peer, incoming);
            }
            Event::SessionClosed { session, reason, .. } => {
                self.session_closed(now, node, session, &reason.to_string());
            }
            Event::StreamOpened { stream } => self.streams.know(stream, Use::New(Vec::new())),
            Event::StreamsAvailable { session } => {
                if let Some(link) = self.ways.link_of(session) {
                    self.start_bulks(now, node, link);
                }
            }
            Event::Readable { stream } => self.read(now, node, stream),
            Event::Writable { stream } => self.write(now, node, stream),
            Event::StreamReset { stream, code } => self.stream_reset(now, node, stream, code),
            // That one with a message was delivered does not tell whether its receiver had given it up before.
            Event::Delivered { stream } => self.ways.delivered(stream),
            Event::SessionSilent { .. } | Event::SessionHeard { .. } => {}
        }
        self.carry(now, node);
    }

    fn handle_command(&mut self, now: Time, node: &mut Node, command: Command) {
        if command == Command::Finish {
            self.ways.finish();
        }
        self.carry(now, node);
    }

    fn handle_timeout(&mut self, now: Time, node: &mut Node) {
        self.messenger.lock().handle_timeout(now);
        self.carry(now, node);
    }

    fn next_timeout(&self) -> Option<Time> {
        self.messenger.lock().next_timeout()
    }

    fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }
}
