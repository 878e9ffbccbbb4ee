//! One control connection between two members, from its Hello to its end.
//!
//! ```text
//!  QUIC handshake ──> hellos ──> Up ──> messages both ways ──> Down
//!     (keys)         (instances)          │
//!                                         ├ the outlet is dropped: send what is queued, finish, close
//!                                         ├ the peer finishes, breaks the rules, or falls silent for 3 s
//!                                         └ the same peer connects anew: this one is replaced
//! ```

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quinn::{Connection, ConnectionError, ReadError, RecvStream, SendStream, VarInt, WriteError};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::message::{Hello, MessageError, read_message, write_message};
use crate::circuit::PROTOCOL_VERSION as VERSION;
use crate::io::tls::{self, PROTOCOL};
use crate::neighbour::Unreached;
use crate::overlay::{InstanceId, LinkId, MemberId, Peer};

/// Messages that may wait for one neighbour's connection. The node sends a handful per second and circuit; a
/// neighbour that lets so many pile up within the 3 s after which a dead link breaks is as good as gone.
pub(super) const MAX_QUEUED_MESSAGES: usize = 1024;

/// How long the last messages may take to arrive when this side ends a connection: a few round trips.
const FAREWELL_LIMIT: Duration = Duration::from_secs(1);

/// How long the QUIC handshake and the hellos may take together.
pub(super) const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// What connections tell the control plane.
pub(super) enum Signal {
    /// The hellos are exchanged; the link has this name.
    Up(Peer, String, Outlet),
    /// The next message of a connection.
    Message(ConnectionId, Vec<u8>),
    /// The connection is over.
    Down(ConnectionId),
    /// Nobody could be connected over the link that this member dials, for this reason.
    Unreached(LinkId, Unreached),
}

/// Numbers the connections of one control plane, so that what a replaced one still had to say can be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ConnectionId(u64);

/// What every connection of a control plane needs to know of it.
#[derive(Debug)]
pub(super) struct Shared {
    /// Which of its member's processes this is.
    instance: InstanceId,
    /// Leads to the control plane.
    signals: mpsc::Sender<Signal>,
    /// The next connection's number.
    next_id: AtomicU64,
}

/// Why a connection ended on this side, as its peer is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Farewell {
    /// Nothing is wrong.
    Done = 0,
    /// The same process has connected again.
    Replaced = 1,
    /// The peer did not take messages as fast as they came.
    Overrun = 2,
    /// The peer broke the rules of the stream.
    BadMessage = 3,
    /// There are too many neighbours.
    Crowded = 4,
    /// A newer overlay file joins the two by no link.
    Revoked = 5,
    /// The peer speaks an older version of the protocol.
    Outdated = 6,
    /// It connects over a link that is not there.
    UnknownLink = 7,
}

impl Farewell {
    /// The code with which it closes the connection.
    pub(super) fn code(self) -> VarInt {
        VarInt::from_u32(self as u32)
    }
}

/// Why a connection was not established.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    /// It could not even be tried.
    #[error("cannot dial")]
    Dial(#[from] quinn::ConnectError),
    /// The other side refused, or was refused, or did not answer.
    #[error("no connection")]
    Refused(#[from] ConnectionError),
    /// The other side speaks an older version of the protocol.
    #[error("it speaks version {0} of the protocol and this member version {VERSION}: update the older one")]
    Outdated(u8),
    /// The Hello could not be sent.
    #[error("no Hello could be sent")]
    Unsent(#[from] WriteError),
    /// What came was no Hello.
    #[error("no Hello came")]
    NoHello(#[from] MessageError),
    /// The other side finished its stream before its Hello.
    #[error("the stream ended before the Hello")]
    Ended,
    /// Nobody is there, or far away.
    #[error("no answer")]
    Silent,
    /// Everything together took too long.
    #[error("the handshake, or its first message, took longer than it may")]
    TooSlow,
    /// The key belongs to no neighbour; the check within TLS makes this impossible.
    #[error("the key at the other end belongs to no neighbour")]
    Stranger,
}

/// What TLS says to a key that is not listed: the alert access_denied (RFC 8446 §6.2), as an error of QUIC (RFC 9001
/// §4.8).
const ACCESS_DENIED: u64 = 0x100 + 49;
/// What TLS says to a dialler that speaks no version of the control protocol that the acceptor speaks: the alert
/// no_application_protocol (RFC 7301 §3.2).
const NO_APPLICATION_PROTOCOL: u64 = 0x100 + 120;

impl HandshakeError {
    /// What is wrong with a neighbour that was dialled: the second half of a sentence that has named it.
    pub(super) fn explain(&self) -> String {
        match (self.code(), self.end_of_connection()) {
            (Some(ACCESS_DENIED), Some(ConnectionError::TransportError(_))) => {
                "its key is not the one in this member's overlay file".to_owned()
            }
            (Some(ACCESS_DENIED), _) => {
                "it does not know this member's key: its overlay file is another one".to_owned()
            }
            (Some(NO_APPLICATION_PROTOCOL), _) => format!(
                "it does not speak {PROTOCOL}{VERSION} or older: one of the two members needs another version of \
                 this program"
            ),
            _ => {
                let mut text = self.to_string();
                let mut cause = self.source();
                while let Some(error) = cause {
                    text = format!("{text}: {error}");
                    cause = error.source();
                }
                text
            }
        }
    }

    /// Whether one side does not take the other one's key, which stays so until somebody changes a file.
    pub(super) fn is_for_the_key(&self) -> bool {
        self.code() == Some(ACCESS_DENIED)
    }

    /// Whether the two sides have no name of the control protocol in common; both of them notice.
    pub(super) fn is_for_the_protocol(&self) -> bool {
        self.code() == Some(NO_APPLICATION_PROTOCOL)
    }

    /// Whether one side speaks an older version than the other, whichever of them found out; the error, or what it
    /// comes from, names both.
    pub(super) fn is_for_the_version(&self) -> bool {
        match self.end_of_connection() {
            Some(ConnectionError::ApplicationClosed(close)) => close.error_code == Farewell::Outdated.code(),
            _ => matches!(self, HandshakeError::Outdated(_)),
        }
    }

    /// The code with which one side ended the connection.
    fn code(&self) -> Option<u64> {
        match self.end_of_connection()? {
            ConnectionError::ConnectionClosed(close) => Some(close.error_code.into()),
            ConnectionError::TransportError(error) => Some(error.code.into()),
            _ => None,
        }
    }

    fn end_of_connection(&self) -> Option<&ConnectionError> {
        match self {
            HandshakeError::Refused(error)
            | HandshakeError::Unsent(WriteError::ConnectionLost(error))
            | HandshakeError::NoHello(MessageError::Broken(ReadError::ConnectionLost(error))) => Some(error),
            _ => None,
        }
    }
}

impl Shared {
    /// What the connections of a control plane share that listens to `signals`.
    pub(super) fn new(instance: InstanceId, signals: mpsc::Sender<Signal>) -> Shared {
        Shared { instance, signals, next_id: AtomicU64::new(0) }
    }

    /// Tells why nobody could be connected over a link.
    pub(super) async fn tell_unreached(&self, link: LinkId, why: Unreached) {
        // If nobody listens any more, nobody has to know.
        let _ = self.signals.send(Signal::Unreached(link, why)).await;
    }

    fn next_id(&self) -> ConnectionId {
        ConnectionId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }
}

/// A connection whose hellos are exchanged.
pub(super) struct Established {
    connection: Connection,
    sender: SendStream,
    receiver: RecvStream,
    peer: Peer,
    /// The name of the link, as the dialler said.
    link: String,
}

impl Established {
    /// The dialler's part: opens the stream over the link of that name.
    pub(super) async fn open(
        connection: Connection,
        member: MemberId,
        link: &str,
        shared: &Shared,
    ) -> Result<Established, HandshakeError> {
        check_version(&connection)?;
        let streams = connection.open_bi().await?;
        let established = Self::greet(connection, streams, (member, link), shared).await?;
        Ok(Established { link: link.to_owned(), ..established })
    }

    /// The acceptor's part: waits for the stream.
    pub(super) async fn accept(
        connection: Connection,
        member: MemberId,
        shared: &Shared,
    ) -> Result<Established, HandshakeError> {
        check_version(&connection)?;
        let streams = connection.accept_bi().await?;
        Self::greet(connection, streams, (member, ""), shared).await
    }

    async fn greet(
        connection: Connection,
        (mut sender, mut receiver): (SendStream, RecvStream),
        (member, link): (MemberId, &str),
        shared: &Shared,
    ) -> Result<Established, HandshakeError> {
        let own = Hello { instance: shared.instance, link: link.to_owned() };
        write_message(&mut sender, &own.emit()).await?;
        let answer = read_message(&mut receiver).await?.ok_or(HandshakeError::Ended)?;
        let Hello { instance, link } = Hello::parse(&answer)?;
        Ok(Established { connection, sender, receiver, peer: Peer { member, instance }, link })
    }

    /// Carries messages both ways until the connection ends or its outlet is dropped.
    pub(super) async fn run(self, shared: &Shared) {
        let Established { connection, sender, receiver, peer, link } = self;
        let id = shared.next_id();
        let (queue, queued) = mpsc::channel(MAX_QUEUED_MESSAGES);
        let outlet = Outlet { id, queue, connection: connection.clone() };
        if shared.signals.send(Signal::Up(peer, link, outlet)).await.is_err() {
            return;
        }
        let farewell = tokio::select! {
            farewell = deliver(receiver, id, &shared.signals) => farewell,
            () = send_queued(sender, queued) => Farewell::Done,
        };
        if let Some(reason) = connection.close_reason() {
            tracing::debug!(at = %connection.remote_address(), %reason, "a control connection has ended");
        }
        say_farewell(&connection, farewell);
        // If nobody listens any more, nobody needs to know.
        let _ = shared.signals.send(Signal::Down(id)).await;
    }
}

/// Refuses a peer of an older version, and tells it why: of the two sides only the newer one knows both versions.
fn check_version(connection: &Connection) -> Result<(), HandshakeError> {
    let version = tls::version_of(connection).unwrap_or_default();
    if version == VERSION {
        return Ok(());
    }
    let reason =
        format!("I speak version {VERSION} of the protocol and you version {version}: update the older one");
    connection.close(Farewell::Outdated.code(), reason.as_bytes());
    Err(HandshakeError::Outdated(version))
}

async fn deliver(mut stream: RecvStream, id: ConnectionId, signals: &mpsc::Sender<Signal>) -> Farewell {
    loop {
        match read_message(&mut stream).await {
            Ok(Some(message)) => {
                if signals.send(Signal::Message(id, message)).await.is_err() {
                    return Farewell::Done;
                }
            }
            Ok(None) | Err(MessageError::Broken(_)) => return Farewell::Done,
            Err(error) => {
                tracing::warn!(%error, "a neighbour broke the rules of the control stream");
                return Farewell::BadMessage;
            }
        }
    }
}

async fn send_queued(mut stream: SendStream, mut queued: mpsc::Receiver<Vec<u8>>) {
    while let Some(message) = queued.recv().await {
        if write_message(&mut stream, &message).await.is_err() {
            return;
        }
    }
    // Closing a QUIC connection discards what is under way, so wait until the peer has everything.
    if stream.finish().is_ok() {
        let _ = timeout(FAREWELL_LIMIT, stream.stopped()).await;
    }
}

fn say_farewell(connection: &Connection, farewell: Farewell) {
    let reason: &[u8] = match farewell {
        Farewell::Done => b"",
        Farewell::Replaced => b"a newer connection of this process replaces this one",
        Farewell::Overrun => b"messages pile up",
        Farewell::BadMessage => b"not a message",
        Farewell::Crowded => b"too many neighbours",
        Farewell::Revoked => b"my overlay file does not list you as a neighbour",
        Farewell::Outdated => b"you speak an older version of the protocol",
        Farewell::UnknownLink => b"my overlay file lists no link of that name between us",
    };
    connection.close(farewell.code(), reason);
}

/// Where messages to a neighbour go. When it is dropped, the connection sends what is queued and ends.
#[derive(Debug)]
pub(super) struct Outlet {
    /// The connection that it leads to.
    pub(super) id: ConnectionId,
    queue: mpsc::Sender<Vec<u8>>,
    connection: Connection,
}

impl Outlet {
    /// Queues a message. Messages are never skipped: if the queue is full, the connection ends.
    pub(super) fn send(&self, message: Vec<u8>) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.queue.try_send(message) {
            tracing::warn!(at = %self.connection.remote_address(), "a neighbour takes no messages");
            self.close(Farewell::Overrun);
        }
    }

    /// Ends the connection at once, without sending what is queued.
    pub(super) fn close(&self, farewell: Farewell) {
        say_farewell(&self.connection, farewell);
    }
}
