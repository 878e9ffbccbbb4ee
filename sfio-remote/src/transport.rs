//! What client and I/O node need of a transport: streams over authenticated sessions.
//!
//! In production and in simulations this is a [`Node`] of fec-transport. Tests of the two state machines put an
//! in-memory one in its place, and another network module could stand here as well (design §9).

use std::time::Duration;

use fec_transport::node::Node;
use fec_transport::overlay::{MemberId, Peer};
use fec_transport::{Class, ConnectError, PathState, Read, SessionId, StreamError, StreamId, Time};

/// Streams over authenticated sessions; most methods are those of [`Node`] with the same name.
pub trait Transport {
    /// The session to `member`: the one that there is, or a new one.
    ///
    /// # Errors
    /// If there cannot be one.
    fn connect(&mut self, now: Time, member: MemberId) -> Result<SessionId, ConnectError>;

    /// Ends a session; the peer is told `reason`. [`Event::SessionClosed`](fec_transport::Event) follows.
    fn close(&mut self, now: Time, session: SessionId, reason: &str);

    /// Opens a bidirectional stream.
    ///
    /// # Errors
    /// If the session is gone, or has too many.
    fn open_stream(&mut self, session: SessionId) -> Result<StreamId, StreamError>;

    /// Our direction of a stream carries messages that somebody waits for, no bulk.
    fn set_interactive(&mut self, now: Time, stream: StreamId);

    /// Takes as much of `data` as there is room for, and says how much.
    ///
    /// # Errors
    /// If the stream is gone or finished.
    fn write(&mut self, now: Time, stream: StreamId, data: &[u8]) -> Result<usize, StreamError>;

    /// Ends our direction.
    ///
    /// # Errors
    /// If the stream is gone.
    fn finish(&mut self, now: Time, stream: StreamId) -> Result<(), StreamError>;

    /// Gives up both directions.
    fn reset(&mut self, now: Time, stream: StreamId, code: u32);

    /// The next bytes in order, at most `max`.
    ///
    /// # Errors
    /// If the stream is gone.
    fn read(&mut self, now: Time, stream: StreamId, max: usize) -> Result<Read, StreamError>;

    /// Any block that has arrived, whole, with its offset in the stream. Once a block was read that is not the next one
    /// in order, all later ones are read this way.
    ///
    /// # Errors
    /// If the stream is gone.
    fn read_block(&mut self, now: Time, stream: StreamId) -> Result<Read, StreamError>;

    /// A number that changes whenever the session carries data of its streams, in either direction.
    fn carried(&self, session: SessionId) -> u64;

    /// How much a session carries, and how far.
    fn flow(&self, session: SessionId) -> Flow;

    /// The process at the other end of a session; none if it has ended.
    fn peer(&self, session: SessionId) -> Option<Peer>;

    /// The member of that name.
    fn find_member(&self, name: &str) -> Option<MemberId>;

    /// The name of a member.
    fn member_name(&self, member: MemberId) -> String;

    /// The key by which a member signs.
    fn signing_key(&self, member: MemberId) -> [u8; 32];
}

/// How much a session carries, and how far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flow {
    /// What its paths may send, in bit/s.
    pub send_bps: f64,
    /// Whether one of them still doubles its rate, because nothing has shown a limit yet.
    pub is_starting: bool,
    /// The round trip of the slowest of these paths.
    pub round_trip: Duration,
    /// What has arrived of streams so far.
    pub received_bytes: u64,
    /// What the peer has acknowledged of streams so far.
    pub acknowledged_bytes: u64,
    /// What was written to streams and is not acknowledged.
    pub held_bytes: u64,
}

impl Transport for Node {
    fn connect(&mut self, now: Time, member: MemberId) -> Result<SessionId, ConnectError> {
        Node::connect(self, now, member)
    }

    fn close(&mut self, now: Time, session: SessionId, reason: &str) {
        Node::close(self, now, session, reason);
    }

    fn open_stream(&mut self, session: SessionId) -> Result<StreamId, StreamError> {
        Node::open_stream(self, session)
    }

    fn set_interactive(&mut self, now: Time, stream: StreamId) {
        // A stream that is gone tells so when it is written to.
        let _ = Node::set_class(self, now, stream, Class::Interactive);
    }

    fn write(&mut self, now: Time, stream: StreamId, data: &[u8]) -> Result<usize, StreamError> {
        Node::write(self, now, stream, data)
    }

    fn finish(&mut self, now: Time, stream: StreamId) -> Result<(), StreamError> {
        Node::finish(self, now, stream)
    }

    fn reset(&mut self, now: Time, stream: StreamId, code: u32) {
        Node::reset(self, now, stream, code);
    }

    fn read(&mut self, now: Time, stream: StreamId, max: usize) -> Result<Read, StreamError> {
        Node::read(self, now, stream, max)
    }

    fn read_block(&mut self, now: Time, stream: StreamId) -> Result<Read, StreamError> {
        Node::read_block(self, now, stream)
    }

    fn carried(&self, session: SessionId) -> u64 {
        let Some(status) = self.session_status(session) else { return 0 };
        let sent: u64 = status.paths.iter().map(|path| path.counters.source_symbols).sum();
        sent + status.delivery.bytes
    }

    fn flow(&self, session: SessionId) -> Flow {
        let Some(status) = self.session_status(session) else { return Flow::default() };
        let paths = || status.paths.iter().filter(|path| path.state == PathState::Live);
        Flow {
            send_bps: paths().map(|path| path.rate_bps).sum(),
            is_starting: paths().any(|path| path.is_starting),
            round_trip: paths().map(|path| path.round_trip).max().unwrap_or_default(),
            received_bytes: status.delivery.bytes,
            acknowledged_bytes: status.acknowledged.bytes,
            held_bytes: status.unacknowledged as u64,
        }
    }

    fn peer(&self, session: SessionId) -> Option<Peer> {
        Node::peer(self, session)
    }

    fn find_member(&self, name: &str) -> Option<MemberId> {
        self.overlay().find(name)
    }

    fn member_name(&self, member: MemberId) -> String {
        self.overlay().name(member)
    }

    fn signing_key(&self, member: MemberId) -> [u8; 32] {
        self.overlay().member(member).keys.ed25519
    }
}
