//! What the tests in virtual time have in common: applications that send and receive a known sequence of bytes.

#![allow(unreachable_pub, dead_code, reason = "each test binary uses a part of it")]

use std::collections::BTreeMap;
use std::time::Duration;

use fec_transport::node::Node;
use fec_transport::overlay::{MemberId, Overlay};
use fec_transport::sim::{LinkSpec, Scene, World};
use fec_transport::{Application, CloseReason, Config, Event, Read, SessionId, StreamId, Time};

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);

/// The byte at a place of every test stream.
pub fn byte_at(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Sends streams of a known content to a member; as the receiver checks them and answers with their length.
#[derive(Debug, Default)]
pub struct Transfer {
    sessions: BTreeMap<SessionId, ()>,
    sending: BTreeMap<StreamId, Sending>,
    receiving: BTreeMap<StreamId, u64>,
    pub confirmed: Vec<u64>,
    pub received_bytes: u64,
    pub closed: Vec<CloseReason>,
    /// Whether each news about silence was that it began.
    pub silences: Vec<bool>,
    pub opened: Vec<SessionId>,
    pub wrong_bytes: u64,
    pub by_blocks: bool,
    waiting: Vec<(SessionId, u64)>,
}

#[derive(Debug)]
struct Sending {
    length: u64,
    written: u64,
    answer: Vec<u8>,
}

/// Send a stream of `length` bytes to `to`.
pub struct Send {
    pub to: MemberId,
    pub length: u64,
}

impl Transfer {
    /// Begins anew after a session was closed.
    pub fn forget(&mut self) {
        self.sending.clear();
        self.waiting.clear();
        self.confirmed.clear();
        self.closed.clear();
    }

    pub fn start(&mut self, now: Time, node: &mut Node, session: SessionId, length: u64) {
        let stream = node.open_stream(session).expect("the session is open and has room");
        self.sending.insert(stream, Sending { length, written: 0, answer: Vec::new() });
        self.write(now, node, stream);
    }

    fn write(&mut self, now: Time, node: &mut Node, stream: StreamId) {
        let Some(sending) = self.sending.get_mut(&stream) else { return };
        while sending.written < sending.length {
            let end = (sending.written + 65_536).min(sending.length);
            let piece: Vec<u8> = (sending.written..end).map(byte_at).collect();
            let taken = node.write(now, stream, &piece).expect("the stream is open");
            sending.written += taken as u64;
            if taken < piece.len() {
                return;
            }
        }
        // Room may be offered again after the last byte was taken.
        let _ = node.finish(now, stream);
    }

    fn read(&mut self, now: Time, node: &mut Node, stream: StreamId) {
        loop {
            let read = if self.by_blocks && self.receiving.contains_key(&stream) {
                node.read_block(now, stream)
            } else {
                node.read(now, stream, 10_000)
            };
            match read {
                Ok(Read::Data { offset, bytes }) => self.take(stream, offset, &bytes),
                Ok(Read::Finished) => return self.end(now, node, stream),
                Ok(Read::Blocked | Read::Lost { .. }) | Err(_) => return,
            }
        }
    }

    fn take(&mut self, stream: StreamId, offset: u64, bytes: &[u8]) {
        if let Some(sending) = self.sending.get_mut(&stream) {
            sending.answer.extend_from_slice(bytes);
            return;
        }
        let wrong = bytes.iter().zip(offset..).filter(|(byte, at)| **byte != byte_at(*at)).count();
        self.wrong_bytes += wrong as u64;
        self.received_bytes += bytes.len() as u64;
        *self.receiving.entry(stream).or_default() += bytes.len() as u64;
    }

    fn end(&mut self, now: Time, node: &mut Node, stream: StreamId) {
        if let Some(sending) = self.sending.remove(&stream) {
            let answer: [u8; 8] = sending.answer.try_into().expect("the answer is a length");
            assert_eq!(u64::from_be_bytes(answer), sending.length);
            self.confirmed.push(sending.length);
        } else {
            let length = self.receiving.remove(&stream).unwrap_or(0);
            node.write(now, stream, &length.to_be_bytes()).expect("the stream is open");
            node.finish(now, stream).expect("the stream is open");
        }
    }
}

impl Application for Transfer {
    type Command = Send;
    type Outcome = ();

    fn handle_event(&mut self, now: Time, node: &mut Node, event: Event) {
        match event {
            Event::SessionOpened { session, .. } => {
                self.opened.push(session);
                self.sessions.insert(session, ());
                let (ready, rest) = self.waiting.drain(..).partition(|(waiting, _)| *waiting == session);
                self.waiting = rest;
                let ready: Vec<(SessionId, u64)> = ready;
                ready.into_iter().for_each(|(session, length)| self.start(now, node, session, length));
            }
            Event::SessionClosed { session, reason, .. } => {
                self.sessions.remove(&session);
                self.closed.push(reason);
            }
            Event::SessionSilent { .. } => self.silences.push(true),
            Event::SessionHeard { .. } => self.silences.push(false),
            Event::StreamOpened { stream } => drop(self.receiving.insert(stream, 0)),
            Event::Readable { stream } => self.read(now, node, stream),
            Event::Writable { stream } => self.write(now, node, stream),
            _ => {}
        }
    }

    fn handle_command(&mut self, now: Time, node: &mut Node, Send { to, length }: Send) {
        let session = node.connect(now, to).expect("there is a path");
        if self.sessions.contains_key(&session) {
            self.start(now, node, session, length);
        } else {
            self.waiting.push((session, length));
        }
    }

    fn handle_timeout(&mut self, _: Time, _: &mut Node) {}
    fn next_timeout(&self) -> Option<Time> {
        None
    }
    fn poll_outcome(&mut self) -> Option<()> {
        None
    }
}

/// A client and a server joined by `paths` disjoint routes over one relay each.
pub fn parallel_paths(paths: usize, link: &LinkSpec) -> Scene {
    let mut scene = Scene::new().client("client").server("server");
    for number in 1..=paths {
        let relay = format!("r{number}");
        scene = scene.relay(&relay).link("client", &relay, link).link(&relay, "server", link);
    }
    scene
}

pub fn world(scene: &Scene, seed: u64) -> World<Transfer> {
    World::new(scene, Config::default(), seed, |_: &Overlay, _| Transfer::default())
}

/// Runs one transfer from the client to the server; gives how long it took.
pub fn transfer(world: &mut World<Transfer>, length: u64, limit: Duration) -> Option<Duration> {
    let (client, server) = (world.member("client"), world.member("server"));
    let start = world.now();
    let confirmed = world.application(client).confirmed.len();
    world.command(client, Send { to: server, length });
    let done = world.run_until(limit, |world| world.application(client).confirmed.len() > confirmed);
    assert_eq!(world.application(server).wrong_bytes, 0);
    done.then(|| world.now().since(start))
}
