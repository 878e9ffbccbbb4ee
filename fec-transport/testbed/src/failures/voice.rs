//! What runs on the members: one speaks in blocks at a steady pace, the others listen.

use std::time::Duration;

use crate::content;
use fec_transport::Application;
use fec_transport::Node;
use fec_transport::Time;
use fec_transport::overlay::MemberId;
use fec_transport::{Class, Read};
use fec_transport::{Event, SessionId, StreamId};

/// What is said: blocks of so many bytes, one every so often.
#[derive(Debug, Clone, Copy)]
pub(super) struct Speech {
    pub(super) class: Class,
    pub(super) block_bytes: usize,
    pub(super) every: Duration,
}

/// Speaks to a member if it is told to, and listens in any case.
#[derive(Debug)]
pub(super) struct Voice {
    speech: Speech,
    session: Option<SessionId>,
    stream: Option<StreamId>,
    next: Option<Time>,
    /// When each block was written.
    pub(super) written: Vec<Time>,
    /// For each block whether it has arrived, as far as any has.
    pub(super) heard: Vec<bool>,
    pub(super) wrong_bytes: u64,
    /// Why the session ended, or what else went wrong.
    pub(super) trouble: Option<String>,
}

impl Voice {
    pub(super) fn new(speech: Speech) -> Voice {
        Voice {
            speech,
            session: None,
            stream: None,
            next: None,
            written: Vec::new(),
            heard: Vec::new(),
            wrong_bytes: 0,
            trouble: None,
        }
    }

    /// The session in which it speaks.
    pub(super) fn session(&self) -> Option<SessionId> {
        self.session
    }

    pub(super) fn speak_to(&mut self, now: Time, node: &mut Node, member: MemberId) {
        match node.connect(now, member) {
            Ok(session) => self.session = Some(session),
            Err(error) => self.trouble = Some(error.to_string()),
        }
    }

    pub(super) fn fall_silent(&mut self) {
        self.next = None;
    }

    fn begin(&mut self, now: Time, node: &mut Node, session: SessionId) {
        let Ok(stream) = node.open_stream(session) else { return };
        let _ = node.set_class(now, stream, self.speech.class);
        self.stream = Some(stream);
        self.next = Some(now);
    }

    /// Writes the next block. Speech does not wait: one that finds no room is the end.
    fn say(&mut self, now: Time, node: &mut Node, stream: StreamId) {
        let length = self.speech.block_bytes;
        let start = (self.written.len() * length) as u64;
        let mut taken = 0;
        while taken < length {
            match node.write(now, stream, content::piece(start + taken as u64, length - taken)) {
                Ok(bytes) if bytes > 0 => taken += bytes,
                _ => {
                    self.trouble = Some(format!("block {} found no room", self.written.len()));
                    return self.fall_silent();
                }
            }
        }
        let _ = node.flush(now, stream);
        self.written.push(now);
        self.next = Some(now + self.speech.every);
    }

    fn listen(&mut self, now: Time, node: &mut Node, stream: StreamId) {
        loop {
            match node.read_block(now, stream) {
                Ok(Read::Data { offset, bytes }) => {
                    self.wrong_bytes += content::wrong_bytes(offset, &bytes);
                    self.hear(offset as usize / self.speech.block_bytes);
                }
                Ok(Read::Lost { .. }) => {}
                _ => return,
            }
        }
    }

    fn hear(&mut self, block: usize) {
        if self.heard.len() <= block {
            self.heard.resize(block + 1, false);
        }
        self.heard[block] = true;
    }
}

impl Application for Voice {
    type Command = ();
    type Outcome = ();

    fn handle_event(&mut self, now: Time, node: &mut Node, event: Event) {
        match event {
            Event::SessionOpened { session, incoming: false, .. } => self.begin(now, node, session),
            Event::SessionClosed { reason, .. } => {
                self.trouble = Some(reason.to_string());
                self.fall_silent();
            }
            Event::Readable { stream } => self.listen(now, node, stream),
            _ => {}
        }
    }

    fn handle_command(&mut self, _: Time, _: &mut Node, (): ()) {}

    fn handle_timeout(&mut self, now: Time, node: &mut Node) {
        if let (Some(stream), Some(_)) = (self.stream, self.next.filter(|next| *next <= now)) {
            self.say(now, node, stream);
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        self.next
    }

    fn poll_outcome(&mut self) -> Option<()> {
        None
    }
}
