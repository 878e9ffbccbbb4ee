//! An application that asks and repeats.

use std::collections::{BTreeMap, VecDeque};

use fec_transport::overlay::MemberId;
use fec_transport::{Application, CloseReason, Event, Node, Read, SessionId, StreamId, Time};

/// Asks with a message, and repeats what others ask: both on streams of their own.
#[derive(Debug, Default)]
pub(crate) struct Parrot {
    waiting: Vec<(SessionId, Vec<u8>)>,
    streams: BTreeMap<StreamId, Stream>,
    outcomes: VecDeque<Outcome>,
}

#[derive(Debug, Default)]
struct Stream {
    unsent: Vec<u8>,
    /// What has come back so far on a stream that we opened; none on a stream of the peer's.
    answer: Option<Vec<u8>>,
    finished: bool,
}

#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) whom: MemberId,
    pub(crate) message: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Answer(Vec<u8>),
    Closed(CloseReason),
}

impl Parrot {
    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.streams.is_empty()
    }

    fn ask(&mut self, now: Time, node: &mut Node, session: SessionId) {
        let (ready, waiting) = self.waiting.drain(..).partition(|(waits_for, _)| *waits_for == session);
        self.waiting = waiting;
        let ready: Vec<(SessionId, Vec<u8>)> = ready;
        for (_, message) in ready {
            let stream = node.open_stream(session).expect("the session is open");
            self.streams.insert(stream, Stream { unsent: message, answer: Some(vec![]), finished: false });
            self.pump(now, node, stream);
        }
    }

    /// Moves bytes until reading or writing gets stuck.
    fn pump(&mut self, now: Time, node: &mut Node, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        loop {
            stream.write(now, node, id);
            if stream.answer.is_none() && !stream.unsent.is_empty() {
                return;
            }
            match node.read(now, id, 64 * 1024) {
                Ok(Read::Data { bytes, .. }) => {
                    stream.answer.as_mut().unwrap_or(&mut stream.unsent).extend_from_slice(&bytes);
                }
                Ok(Read::Finished) => break,
                Ok(Read::Blocked | Read::Lost { .. }) | Err(_) => return,
            }
        }
        if stream.answer.is_none() {
            node.finish(now, id).expect("our direction is open");
        }
        let stream = self.streams.remove(&id).expect("it was just there");
        self.outcomes.extend(stream.answer.map(Outcome::Answer));
    }
}

impl Stream {
    fn write(&mut self, now: Time, node: &mut Node, id: StreamId) {
        let taken = node.write(now, id, &self.unsent).unwrap_or(0);
        self.unsent.drain(..taken);
        if self.unsent.is_empty() && self.answer.is_some() && !self.finished {
            node.finish(now, id).expect("our direction is open");
            self.finished = true;
        } else if !self.unsent.is_empty() || self.answer.is_none() {
            node.flush(now, id).expect("our direction is open");
        }
    }
}

impl Application for Parrot {
    type Command = Ask;
    type Outcome = Outcome;

    fn handle_event(&mut self, now: Time, node: &mut Node, event: Event) {
        match event {
            Event::SessionOpened { session, .. } => self.ask(now, node, session),
            Event::SessionClosed { reason, .. } => self.outcomes.push_back(Outcome::Closed(reason)),
            Event::StreamOpened { stream } => drop(self.streams.insert(stream, Stream::default())),
            Event::Readable { stream } | Event::Writable { stream } => self.pump(now, node, stream),
            _ => {}
        }
    }

    fn handle_command(&mut self, now: Time, node: &mut Node, Ask { whom, message }: Ask) {
        let session = node.connect(now, whom).expect("there is a path");
        self.waiting.push((session, message));
        if node.peer(session).is_some() {
            self.ask(now, node, session);
        }
    }

    fn handle_timeout(&mut self, _now: Time, _node: &mut Node) {}

    fn next_timeout(&self) -> Option<Time> {
        None
    }

    fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }
}
