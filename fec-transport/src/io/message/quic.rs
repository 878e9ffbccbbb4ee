//! What carries messages over QUIC connections: the module `quic`.
//!
//! Whoever dials opens one bidirectional stream for the frames of both sides. The bytes of each large message travel on
//! a bidirectional stream of their own; its receiver answers one byte when it has all of them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use quinn::{
    Connection, IdleTimeout, Incoming, RecvStream, SendStream, TokioRuntime, TransportConfig, VarInt,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, Semaphore, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::bell::Bell;
use super::helm::Helm;
use super::{FINISH_LIMIT, StartError};
use crate::io::endpoint::random;
use crate::io::tls::{PinnedKeys, SERVER_NAME, client_config_for, peer_key, server_config_for};
use crate::keys::{Identity, encode_key};
use crate::message::quic::{AddressBook, QuicModule};
use crate::message::wire::{
    BULK_HEAD, FRAMES, FRAMES_HEAD, FrameReader, MESSAGE_VERSION, bulk_head, parse_bulk_head,
};
use crate::message::{Breach, LinkId, Messenger, Output, Pieces, Shared, Urgency};

/// Names the protocol in ALPN, with its version.
const PROTOCOL: &str = "fec-messages/1";
/// What tells processes under one key apart, behind the head of a stream of frames.
const INSTANCE: usize = 8;
/// A peer that is silent for so long is lost; one that has nothing to say says so four times in that time.
const IDLE_LIMIT_MS: u32 = 10_000;
/// Large messages on their way at once in each direction, urgent ones and others.
const MAX_BULKS: u32 = 256;
/// Streams that a peer may have open: of urgent messages and of others, and of those that it has taken until both ends
/// know. If senders had to wait for a stream, quinn would wake all of them for each one that becomes free.
const MAX_STREAMS: u32 = 4 * MAX_BULKS;
/// Bytes that a peer may have here of what is not read, on all streams: it could leave the first byte of each out.
const RECEIVE_WINDOW: u32 = 64 << 20;
/// What goes first on a connection: frames, then urgent messages, then answers, which have quinn's priority of 0, then
/// the other messages.
const FRAMES_PRIORITY: i32 = 2;
const URGENT_PRIORITY: i32 = 1;
/// Chunks of a stream, each of a packet at most, for which the messenger is locked once.
const CHUNKS: usize = 32;
/// How long a handshake may take.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(8);
/// How long farewells may take.
const SHUTDOWN_LIMIT: Duration = Duration::from_millis(500);
/// The receiver's word that it has all of a message.
const TAKEN: u8 = 1;

/// What a messenger needs for QUIC connections.
#[derive(Debug)]
pub struct QuicConfig {
    /// The keys of this process.
    pub identity: Identity,
    /// Where it dials from, and is reached.
    pub socket: UdpSocket,
    /// The Ed25519 keys of those who may connect to it.
    pub peers: Vec<[u8; 32]>,
}

/// All connections.
pub(super) struct Quic {
    module: usize,
    wanted: Arc<Notify>,
}

struct Carrier {
    messenger: Shared,
    module: usize,
    bell: Arc<Bell>,
    wanted: Arc<Notify>,
    told: AtomicU64,
    endpoint: quinn::Endpoint,
    identity: Identity,
    book: AddressBook,
    instance: [u8; INSTANCE],
    ways: Mutex<Ways>,
}

/// Which link goes over which connections. There are two if both sides have dialled at once; each side says everything
/// over the one that it had first.
#[derive(Default)]
struct Ways {
    ways: BTreeMap<LinkId, Way>,
    /// Who came last under each key.
    last: BTreeMap<String, Visitor>,
    /// Messages that go, and those that come. The task of each stops when its entry is dropped.
    sending: BTreeMap<(LinkId, u64), oneshot::Sender<()>>,
    receiving: BTreeMap<(LinkId, u64), oneshot::Sender<()>>,
}

/// A process that has come by itself.
struct Visitor {
    instance: [u8; INSTANCE],
    /// The link that it has got.
    link: LinkId,
}

struct Way {
    connections: Vec<Connection>,
    /// What writes frames, until it is to end behind the last of them.
    writer: Option<Writer>,
    /// A permit for each large message that may be on its way to the peer, and for each urgent one.
    bulks: Arc<Semaphore>,
    urgent: Arc<Semaphore>,
}

struct Writer {
    frames: UnboundedSender<Vec<Bytes>>,
    task: JoinHandle<()>,
}

impl Way {
    /// Nothing more is said; what it gives is over once the peer has everything.
    fn finish(&mut self) -> Option<JoinHandle<()>> {
        self.writer.take().map(|writer| writer.task)
    }
}

impl Quic {
    /// Begins to listen and, when it is wanted, to dial; `bell` rings when there may be something to take.
    ///
    /// # Errors
    /// If TLS or the socket is not to be had.
    pub(super) fn start(
        config: QuicConfig,
        messenger: &Shared,
        bell: &Arc<Bell>,
        helm: &Helm,
    ) -> Result<Quic, StartError> {
        let QuicConfig { identity, socket, peers } = config;
        let tls = server_config_for(&identity, PinnedKeys::of_keys(peers), PROTOCOL)?;
        let mut server = quinn::ServerConfig::with_crypto(Arc::new(tls));
        server.transport_config(Arc::new(transport_config()));
        let endpoint = {
            let _within = helm.enter();
            let quic = quinn::EndpointConfig::default();
            quinn::Endpoint::new(quic, Some(server), socket, Arc::new(TokioRuntime))
                .map_err(StartError::Thread)?
        };
        let book = AddressBook::default();
        let module = messenger.lock().add_module(Box::new(QuicModule(book.clone())));
        let wanted = Arc::new(Notify::new());
        let carrier = Arc::new(Carrier {
            messenger: messenger.clone(),
            module,
            bell: Arc::clone(bell),
            wanted: Arc::clone(&wanted),
            told: AtomicU64::new(0),
            endpoint,
            identity,
            book,
            instance: random()?,
            ways: Mutex::default(),
        });
        helm.add(|stopped| carrier.run(stopped));
        Ok(Quic { module, wanted })
    }

    /// Has carried what was posted.
    pub(super) fn carry(&self, messenger: &Shared) {
        if messenger.lock().has_output(self.module) {
            self.wanted.notify_one();
        }
    }
}

impl Carrier {
    async fn run(self: Arc<Carrier>, mut stopped: watch::Receiver<()>) {
        let listening = tokio::spawn(Arc::clone(&self).listen());
        let carrying = async {
            loop {
                self.wanted.notified().await;
                self.obey();
            }
        };
        tokio::select! {
            _ = stopped.changed() => {}
            () = carrying => {}
        }
        listening.abort();
        self.obey();
        let _ = timeout(FINISH_LIMIT, self.finish()).await;
        self.endpoint.close(VarInt::from_u32(0), b"shutting down");
        let _ = timeout(SHUTDOWN_LIMIT, self.endpoint.wait_idle()).await;
    }

    /// Ends what is said to each peer; over once they have all of it.
    async fn finish(&self) {
        let writers: Vec<_> = self.ways().ways.values_mut().filter_map(Way::finish).collect();
        for writer in writers {
            // A writer that panics has shown it.
            let _ = writer.await;
        }
    }

    fn ways(&self) -> MutexGuard<'_, Ways> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was brought to the messenger: others may want to look, and it may want something.
    fn tell(&self) {
        let (news, has_output) = {
            let messenger = self.messenger.lock();
            (messenger.news(), messenger.has_output(self.module))
        };
        if self.told.swap(news, Ordering::Relaxed) != news {
            self.bell.ring();
        }
        if has_output {
            self.wanted.notify_one();
        }
    }

    /// Does what the messenger wants.
    fn obey(self: &Arc<Carrier>) {
        let mut frames: BTreeMap<LinkId, Pieces> = BTreeMap::new();
        loop {
            let output = self.messenger.lock().next_output(self.module);
            let Some(output) = output else { break };
            match output {
                Output::Frame { link, frame, taken } => frame.emit(taken, frames.entry(link).or_default()),
                Output::Connect { link, place } => drop(tokio::spawn(Arc::clone(self).connect(link, place))),
                Output::Bulk { link, message, pieces, urgency } => {
                    let (wanted, unwanted) = oneshot::channel();
                    self.ways().sending.insert((link, message), wanted);
                    let sending = Arc::clone(self).send_bulk(link, message, pieces, urgency);
                    tokio::spawn(async move {
                        tokio::select! {
                            () = sending => {}
                            _ = unwanted => {}
                        }
                    });
                }
                Output::StopSending { link, message } => {
                    self.ways().sending.remove(&(link, message));
                }
                Output::StopReceiving { link, message } => {
                    self.ways().receiving.remove(&(link, message));
                }
                Output::Disconnect { link } => self.part(link, "its address was dropped"),
            }
        }
        let ways = self.ways();
        for (link, mut frames) in frames {
            if let Some(writer) = ways.ways.get(&link).and_then(|way| way.writer.as_ref()) {
                // If it has ended, so has the connection.
                let _ = writer.frames.send(frames.take(frames.len()));
            }
        }
    }

    // --- how links come and go ---------------------------------------------------------------------------------

    async fn connect(self: Arc<Carrier>, link: LinkId, place: String) {
        match timeout(HANDSHAKE_LIMIT, self.dial(link, &place)).await {
            Ok(Ok((connection, send, receive))) => {
                if self.messenger.lock().link_up(link).is_ok() {
                    self.attach(link, connection, send, receive);
                }
            }
            Ok(Err(reason)) => self.fail(link, &reason),
            Err(_) => self.fail(link, &format!("nothing answered within {HANDSHAKE_LIMIT:?}")),
        }
        self.tell();
    }

    /// A link could not be dialled, unless the peer has come by itself meanwhile.
    fn fail(&self, link: LinkId, reason: &str) {
        if !self.ways().ways.contains_key(&link) {
            self.messenger.lock().link_closed(link, reason);
        }
    }

    async fn dial(&self, link: LinkId, place: &str) -> Result<(Connection, SendStream, RecvStream), String> {
        let address = self.book.find(place).ok_or("nobody knows its address")?;
        let key = crate::keys::decode_key(place).map_err(|error| error.to_string())?;
        let tls = client_config_for(&self.identity, PinnedKeys::of_keys([key]), PROTOCOL);
        let mut config = quinn::ClientConfig::new(Arc::new(tls.map_err(|error| error.to_string())?));
        config.transport_config(Arc::new(transport_config()));
        let connecting = self.endpoint.connect_with(config, address, SERVER_NAME);
        let connection = connecting.map_err(|error| error.to_string())?.await;
        let connection = connection.map_err(|error| error.to_string())?;
        if !self.messenger.lock().is_wanted(link) {
            return Err("nobody wants it any more".to_owned());
        }
        let (mut send, receive) = connection.open_bi().await.map_err(|error| error.to_string())?;
        let head = [&[FRAMES, MESSAGE_VERSION][..], &self.instance].concat();
        send.write_all(&head).await.map_err(|error| error.to_string())?;
        Ok((connection, send, receive))
    }

    async fn listen(self: Arc<Carrier>) {
        while let Some(incoming) = self.endpoint.accept().await {
            let carrier = Arc::clone(&self);
            tokio::spawn(async move {
                // Whoever is not let in, or does not say what he wants, is not heard of again.
                let _ = timeout(HANDSHAKE_LIMIT, Arc::clone(&carrier).welcome(incoming)).await;
                carrier.tell();
            });
        }
    }

    async fn welcome(self: Arc<Carrier>, incoming: Incoming) -> Option<()> {
        let connection = incoming.await.ok()?;
        let place = encode_key(&peer_key(&connection)?);
        let (send, mut receive) = connection.accept_bi().await.ok()?;
        let mut head = [0; FRAMES_HEAD + INSTANCE];
        receive.read_exact(&mut head).await.ok()?;
        if head[..FRAMES_HEAD] != [FRAMES, MESSAGE_VERSION] {
            connection.close(VarInt::from_u32(1), b"another version of messages");
            return None;
        }
        let instance = *head.last_chunk()?;
        let before = self.ways().last.remove(&place);
        let is_new = before.as_ref().is_none_or(|before| before.instance != instance);
        // A process dials once for as long as that lasts. Whoever comes again has lost the connection that he came over
        // before, though nobody here has noticed yet, or is another process.
        if let Some(before) = before {
            self.lose(before.link, "its process has connected anew");
        }
        let link = self.messenger.lock().link_incoming(self.module, &place, is_new);
        match link {
            Ok(link) => {
                self.ways().last.insert(place, Visitor { instance, link });
                self.attach(link, connection, send, receive);
            }
            Err(error) => connection.close(VarInt::from_u32(1), error.to_string().as_bytes()),
        }
        Some(())
    }

    fn attach(
        self: &Arc<Carrier>,
        link: LinkId,
        connection: Connection,
        send: SendStream,
        receive: RecvStream,
    ) {
        tokio::spawn(Arc::clone(self).read_frames(link, connection.clone(), receive));
        tokio::spawn(Arc::clone(self).accept_bulks(link, connection.clone()));
        match self.ways().ways.entry(link) {
            std::collections::btree_map::Entry::Occupied(mut way) => {
                way.get_mut().connections.push(connection);
                // Nothing is said over it, and it stays open as long as the other one.
                tokio::spawn(async move { send.stopped().await });
            }
            std::collections::btree_map::Entry::Vacant(way) => {
                // It fails only where nothing is to be sent any more.
                let _ = send.set_priority(FRAMES_PRIORITY);
                let (frames, waiting) = unbounded_channel();
                let task = tokio::spawn(write_frames(send, waiting));
                way.insert(Way {
                    connections: vec![connection],
                    writer: Some(Writer { frames, task }),
                    bulks: Arc::new(Semaphore::new(MAX_BULKS as usize)),
                    urgent: Arc::new(Semaphore::new(MAX_BULKS as usize)),
                });
            }
        }
    }

    fn lose(&self, link: LinkId, reason: &str) {
        self.part(link, reason);
        self.messenger.lock().link_closed(link, reason);
        self.tell();
    }

    fn part(&self, link: LinkId, reason: &str) {
        let mut ways = self.ways();
        let Ways { ways, sending, receiving, .. } = &mut *ways;
        for connection in ways.remove(&link).into_iter().flat_map(|way| way.connections) {
            connection.close(VarInt::from_u32(0), reason.as_bytes());
        }
        receiving.retain(|(other, _), _| *other != link);
        sending.retain(|(other, _), _| *other != link);
    }

    // --- what comes --------------------------------------------------------------------------------------------

    /// Brings the messenger what a stream has. Nothing of it stays here: a chunk keeps all of the memory that it came
    /// in.
    ///
    /// # Errors
    /// Why the link is to be closed, if the peer must not send that.
    fn bring(
        &self,
        chunks: &mut [Bytes],
        mut take: impl FnMut(&mut Messenger, &Bytes) -> Result<(), Breach>,
    ) -> Result<(), String> {
        let result = {
            let mut messenger = self.messenger.lock();
            chunks.iter_mut().try_for_each(|chunk| take(&mut messenger, &std::mem::take(chunk)))
        };
        result.map_err(|breach| format!("the peer broke the protocol of messages: {breach}"))?;
        self.tell();
        Ok(())
    }

    async fn read_frames(self: Arc<Carrier>, link: LinkId, connection: Connection, mut receive: RecvStream) {
        let mut reader = FrameReader::default();
        let mut chunks: [Bytes; CHUNKS] = Default::default();
        let reason = loop {
            match receive.read_chunks(&mut chunks).await {
                Ok(Some(count)) => {
                    let take = |messenger: &mut Messenger, bytes: &Bytes| {
                        messenger.handle_frames(link, &mut reader, bytes)
                    };
                    if let Err(reason) = self.bring(&mut chunks[..count], take) {
                        break reason;
                    }
                }
                // The peer says nothing more, and closes the connection once it knows that we have heard it.
                Ok(None) => break connection.closed().await.to_string(),
                Err(error) => {
                    break connection.close_reason().map_or(error.to_string(), |why| why.to_string());
                }
            }
        };
        self.lose(link, &reason);
    }

    async fn accept_bulks(self: Arc<Carrier>, link: LinkId, connection: Connection) {
        // When the connection ends, the stream of frames tells why.
        while let Ok((send, receive)) = connection.accept_bi().await {
            tokio::spawn(Arc::clone(&self).receive_bulk(link, send, receive));
        }
    }

    async fn receive_bulk(
        self: Arc<Carrier>,
        link: LinkId,
        mut send: SendStream,
        mut receive: RecvStream,
    ) -> Option<()> {
        let mut head = [0; BULK_HEAD];
        receive.read_exact(&mut head).await.ok()?;
        let Some(message) = parse_bulk_head(head) else {
            self.lose(link, "the peer broke the protocol of messages: a stream of no kind");
            return None;
        };
        if !self.messenger.lock().is_granted(link, message) {
            return None;
        }
        let (wanted, unwanted) = oneshot::channel();
        self.ways().receiving.insert((link, message), wanted);
        let is_whole = tokio::select! {
            is_whole = self.read_bulk(link, message, receive) => is_whole,
            _ = unwanted => false,
        };
        self.ways().receiving.remove(&(link, message));
        if is_whole {
            send.write_all(&[TAKEN]).await.ok()?;
        }
        Some(())
    }

    /// Gives whether all of the stream has come, and the receive has all of the message: it may be given up meanwhile.
    async fn read_bulk(&self, link: LinkId, message: u64, mut receive: RecvStream) -> bool {
        let mut chunks: [Bytes; CHUNKS] = Default::default();
        let (mut offset, mut is_whole) = (0, false);
        loop {
            match receive.read_chunks(&mut chunks).await {
                Ok(Some(count)) => {
                    let take = |messenger: &mut Messenger, bytes: &Bytes| {
                        let at = offset;
                        offset += bytes.len() as u64;
                        is_whole |= messenger.handle_bulk(link, message, at, bytes)?;
                        Ok(())
                    };
                    if let Err(reason) = self.bring(&mut chunks[..count], take) {
                        self.lose(link, &reason);
                        return false;
                    }
                }
                end => {
                    self.messenger.lock().bulk_ended(link, message);
                    self.tell();
                    return end.is_ok() && is_whole;
                }
            }
        }
    }

    // --- what goes ---------------------------------------------------------------------------------------------

    async fn send_bulk(self: Arc<Carrier>, link: LinkId, message: u64, pieces: Vec<Bytes>, urgency: Urgency) {
        let is_urgent = urgency == Urgency::Interactive;
        let (connection, permits) = {
            let ways = self.ways();
            let Some(way) = ways.ways.get(&link) else { return };
            (way.connections[0].clone(), Arc::clone(if is_urgent { &way.urgent } else { &way.bulks }))
        };
        // Nobody closes it.
        let _permit = permits.acquire().await;
        let priority = if is_urgent { URGENT_PRIORITY } else { priority_of(message) };
        let is_taken = send_message(&connection, message, pieces, priority).await == Some(TAKEN);
        self.ways().sending.remove(&(link, message));
        match is_taken {
            true => self.messenger.lock().bulk_sent(link, message),
            // If the connection has ended, everything on it fails with the reason.
            false if connection.close_reason().is_some() => {}
            false => self.messenger.lock().bulk_refused(link, message),
        }
        self.tell();
    }
}

/// Messages go one after the other in the order of their numbers. If they had the same priority quinn would send a
/// packet of each in turn, and each packet would wake the reader of another message.
fn priority_of(message: u64) -> i32 {
    -1 - (message % i32::MAX as u64) as i32
}

/// Sends the bytes of a message; gives what the receiver says to it.
async fn send_message(
    connection: &Connection,
    message: u64,
    mut pieces: Vec<Bytes>,
    priority: i32,
) -> Option<u8> {
    let (send, mut receive) = connection.open_bi().await.ok()?;
    let mut send = Sending { stream: send, is_taken: false };
    send.stream.set_priority(priority).ok()?;
    pieces.insert(0, Bytes::copy_from_slice(&bulk_head(message)));
    send.stream.write_all_chunks(&mut pieces).await.ok()?;
    send.stream.finish().ok()?;
    let mut answer = [0];
    receive.read_exact(&mut answer).await.ok()?;
    send.is_taken = true;
    Some(answer[0])
}

/// The stream of a message. Of one that is given up quinn would still send, and keep, what was written.
struct Sending {
    stream: SendStream,
    is_taken: bool,
}

impl Drop for Sending {
    fn drop(&mut self) {
        if !self.is_taken {
            // It fails only where there is no stream any more.
            let _ = self.stream.reset(VarInt::from_u32(0));
        }
    }
}

async fn write_frames(mut send: SendStream, mut frames: UnboundedReceiver<Vec<Bytes>>) {
    while let Some(mut pieces) = frames.recv().await {
        // When the connection ends, its reader tells why.
        if send.write_all_chunks(&mut pieces).await.is_err() {
            return;
        }
    }
    let _ = send.finish();
    // Over once the peer has everything, or the connection has ended.
    let _ = send.stopped().await;
}

fn transport_config() -> TransportConfig {
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(MAX_STREAMS))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .receive_window(VarInt::from_u32(RECEIVE_WINDOW))
        // Each stream has at most what its receiver's window lets it. If all together had a bound, frames would wait
        // until quinn has sent of what was written before them.
        .send_window(u64::MAX)
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(IDLE_LIMIT_MS))))
        .keep_alive_interval(Some(Duration::from_millis(u64::from(IDLE_LIMIT_MS) / 4)));
    config
}

impl fmt::Debug for Quic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quic").field("module", &self.module).finish_non_exhaustive()
    }
}
