//! A stream of a session, used by a thread: what messages are compared with.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use fec_testbed::processes::overlay::{OverlayText, identity};
use fec_transport::io::{Endpoint, EndpointConfig, Handle};
use fec_transport::overlay::Overlay;
use fec_transport::{Application, Class, Event, Node, Read, StreamId, Time};
use tokio::runtime::Runtime;

use super::{PATIENCE, now};

/// Bytes that are written at once.
const PIECE: usize = 256 << 10;
/// The number of the first stream that the initiator of a session opens: it is the interactive one.
const FIRST: u32 = 2;

/// The two ends of a session; each has a thread of its own.
pub(super) struct Stream {
    handle: Handle<End>,
    outcomes: mpsc::Receiver<Outcome>,
    _runtimes: [Runtime; 2],
    _endpoints: [Endpoint<End>; 2],
}

/// Who answers what comes on the interactive stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers {
    /// The server's end of the session, where the bytes arrive.
    AtOnce,
    /// A thread of the server, as one that waits for a message would.
    ByThread,
}

/// What an end is to do.
pub(super) enum Order {
    Connect,
    /// Send so many bytes on the interactive stream, and tell when as many have come back.
    Ping(usize),
    /// Send so many bytes on a bulk stream, and tell when the server has all of them.
    Transfer(usize),
    /// Send this on a stream that is open.
    Answer(StreamId, Bytes),
}

/// What has come.
pub(super) enum Outcome {
    /// What was ordered is done.
    Done,
    /// The server's thread is to answer that.
    Asked(StreamId, Bytes),
}

/// Sends back what comes on interactive streams, and counts what comes on bulk ones.
struct End {
    answers: Answers,
    opened: BTreeSet<StreamId>,
    ping: Option<StreamId>,
    /// Of a ping, what is to come back.
    expected: usize,
    bulk: Option<(StreamId, usize)>,
    outcomes: VecDeque<Outcome>,
}

impl Stream {
    pub(super) fn open(answers: Answers) -> Result<Stream> {
        let mut text = OverlayText::default();
        text.client("client");
        text.listener("server")?;
        text.link("client", "server", "");
        let overlay = Arc::new(Overlay::parse(&text.0)?);
        let (server_runtime, server, asked) = start(&overlay, "server", answers)?;
        let (client_runtime, client, outcomes) = start(&overlay, "client", answers)?;
        let its = server.handle().clone();
        std::thread::spawn(move || {
            // Only what the server is to answer comes here, until its end is gone.
            while let Ok(Outcome::Asked(stream, bytes)) = asked.recv() {
                if its.command_blocking(Order::Answer(stream, bytes)).is_err() {
                    return;
                }
            }
        });
        let handle = client.handle().clone();
        handle.command_blocking(Order::Connect)?;
        outcomes.recv_timeout(PATIENCE).context("no session")?;
        Ok(Stream {
            handle,
            outcomes,
            _runtimes: [server_runtime, client_runtime],
            _endpoints: [server, client],
        })
    }

    pub(super) fn round_trips(&mut self, bytes: usize, rounds: u32) -> Result<Vec<Duration>> {
        let mut times = Vec::new();
        for round in 0..=rounds {
            let took = self.order(Order::Ping(bytes))?;
            if round > 0 {
                times.push(took);
            }
        }
        Ok(times)
    }

    pub(super) fn transfer(&mut self, bytes: usize) -> Result<Duration> {
        self.order(Order::Transfer(bytes))
    }

    fn order(&mut self, order: Order) -> Result<Duration> {
        let began = now();
        self.handle.command_blocking(order)?;
        self.outcomes.recv_timeout(PATIENCE).context("nothing came back")?;
        Ok(began.elapsed())
    }
}

/// Starts an end on a thread of its own.
fn start(
    overlay: &Arc<Overlay>,
    name: &str,
    answers: Answers,
) -> Result<(Runtime, Endpoint<End>, mpsc::Receiver<Outcome>)> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let config = EndpointConfig::new(Arc::clone(overlay), identity(name));
    let (tell, outcomes) = mpsc::channel();
    let host = move |outcome| {
        let _ = tell.send(outcome);
    };
    let endpoint = runtime.block_on(Endpoint::start(config, End::new(answers), host))?;
    Ok((runtime, endpoint, outcomes))
}

impl End {
    fn new(answers: Answers) -> End {
        End {
            answers,
            opened: BTreeSet::new(),
            ping: None,
            expected: 0,
            bulk: None,
            outcomes: VecDeque::new(),
        }
    }

    fn read(&mut self, now: Time, node: &mut Node, stream: StreamId) {
        let is_ours = self.opened.contains(&stream);
        loop {
            match node.read(now, stream, usize::MAX) {
                Ok(Read::Data { bytes, .. }) if is_ours => {
                    self.expected = self.expected.saturating_sub(bytes.len());
                    if self.expected == 0 {
                        self.outcomes.push_back(Outcome::Done);
                    }
                }
                Ok(Read::Data { bytes, .. }) if stream.number == FIRST => match self.answers {
                    Answers::AtOnce => answer(now, node, stream, &bytes),
                    Answers::ByThread => self.outcomes.push_back(Outcome::Asked(stream, bytes)),
                },
                Ok(Read::Data { .. }) => {}
                Ok(Read::Finished) if !is_ours => {
                    let _ = node.write(now, stream, &[1]);
                    let _ = node.finish(now, stream);
                    return;
                }
                _ => return,
            }
        }
    }

    fn write(&mut self, now: Time, node: &mut Node) {
        let Some((stream, left)) = &mut self.bulk else { return };
        let piece = Bytes::from_static(&[7; PIECE]);
        while *left > 0 {
            let wanted = piece.slice(..PIECE.min(*left));
            let Ok(taken) = node.write_bytes(now, *stream, &wanted) else { return };
            *left -= taken;
            if taken < wanted.len() {
                return;
            }
        }
        let _ = node.finish(now, *stream);
        self.bulk = None;
    }

    fn open(&mut self, node: &mut Node) -> Option<StreamId> {
        let session = node.sessions().next()?;
        let stream = node.open_stream(session).ok()?;
        self.opened.insert(stream);
        Some(stream)
    }
}

fn answer(now: Time, node: &mut Node, stream: StreamId, bytes: &[u8]) {
    let _ = node.set_class(now, stream, Class::Interactive);
    let _ = node.write(now, stream, bytes);
    let _ = node.flush(now, stream);
}

impl Application for End {
    type Command = Order;
    type Outcome = Outcome;

    fn handle_event(&mut self, now: Time, node: &mut Node, event: Event) {
        match event {
            Event::SessionOpened { incoming: false, .. } => {
                self.ping = self.open(node);
                if let Some(stream) = self.ping {
                    let _ = node.set_class(now, stream, Class::Interactive);
                }
                self.outcomes.push_back(Outcome::Done);
            }
            Event::Readable { stream } => self.read(now, node, stream),
            Event::Writable { .. } => self.write(now, node),
            _ => {}
        }
    }

    fn handle_command(&mut self, now: Time, node: &mut Node, order: Order) {
        match order {
            Order::Connect => {
                let server = node.overlay().find("server").expect("it is in the overlay");
                let _ = node.connect(now, server);
            }
            Order::Ping(bytes) => {
                let Some(stream) = self.ping else { return };
                self.expected = bytes;
                let _ = node.write(now, stream, &vec![7; bytes]);
                let _ = node.flush(now, stream);
            }
            Order::Transfer(bytes) => {
                self.expected = 1;
                self.bulk = self.open(node).map(|stream| (stream, bytes));
                self.write(now, node);
            }
            Order::Answer(stream, bytes) => answer(now, node, stream, &bytes),
        }
    }

    fn handle_timeout(&mut self, _: Time, _: &mut Node) {}

    fn next_timeout(&self) -> Option<Time> {
        None
    }

    fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }
}
