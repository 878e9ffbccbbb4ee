//! Messages for programs: a [`Messenger`] whose calls wait, from any thread, and futures for tasks.
//!
//! ```
//! use std::time::Duration;
//! use fec_transport::io::message::{Messenger, MessengerConfig};
//! use fec_transport::message::memory::Exchange;
//! use fec_transport::message::{Posted, Room, Tag};
//!
//! let exchange = Exchange::new();
//! let start = |name| Messenger::start(MessengerConfig::new().memory(&exchange, name));
//! let (client, server) = (start("client")?, start("server")?);
//!
//! let serving = std::thread::spawn(move || {
//!     let context = server.open_context();
//!     let request = server.test_unexpected(1, Duration::MAX).remove(0);
//!     let reply = [&request.bytes[..], b", too"].concat();
//!     let caller = server.caller(context);
//!     let posted = server.post_send(request.from, request.tag, vec![reply.into()], caller);
//!     server.wait(posted.expect("the client is there")).expect("nobody else takes it").result
//! });
//!
//! let context = client.open_context();
//! let to = client.look_up("memory://server")?;
//! let reply = client.post_receive(to, Tag(7), Room::of([64]), client.caller(context))?;
//! let sent = client.post_send_unexpected(to, Tag(7), vec!["hello".into()], client.caller(context))?;
//! client.wait(sent)?.result?;
//! let reply = client.wait(reply)?;
//! assert_eq!(reply.result, Ok(10));
//! assert_eq!(&reply.room.expect("a receive has room").into_pieces()[0][..10], b"hello, too");
//! # serving.join().expect("no panic")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bell;
mod helm;
mod quic;
mod sessions;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;

use super::clock::Clock;
use super::endpoint::{EndpointConfig, EndpointError};
use super::tls::TlsError;
use crate::message::memory::{Exchange, JoinError, Port};
use crate::message::{
    AddressError, AddressId, Bounds, Caller, Completion, ContextId, Limits, NoOperation, OperationId,
    PostError, Posted, Room, Shared, Tag, Unexpected,
};
use bell::Bell;
use helm::Helm;
use quic::Quic;
pub use quic::QuicConfig;
use sessions::Sessions;

/// How long what is complete may take to arrive when a messenger ends.
const FINISH_LIMIT: Duration = Duration::from_secs(1);

/// What a [`Messenger`] is made of: the networks that it uses.
#[derive(Debug, Default)]
pub struct MessengerConfig {
    limits: Limits,
    memory: Option<(Exchange, String)>,
    sessions: Option<EndpointConfig>,
    quic: Option<QuicConfig>,
}

impl MessengerConfig {
    /// Without any network.
    pub fn new() -> MessengerConfig {
        MessengerConfig::default()
    }

    /// With these bounds on the memory that peers have here.
    pub fn limits(self, limits: Limits) -> MessengerConfig {
        MessengerConfig { limits, ..self }
    }

    /// With other messengers of this process that use the same exchange, under that name.
    pub fn memory(self, exchange: &Exchange, name: &str) -> MessengerConfig {
        MessengerConfig { memory: Some((exchange.clone(), name.to_owned())), ..self }
    }

    /// With the other members of an overlay, as one of them: `fec://MEMBER`.
    pub fn sessions(self, endpoint: EndpointConfig) -> MessengerConfig {
        MessengerConfig { sessions: Some(endpoint), ..self }
    }

    /// With processes whose keys and addresses are known, each over one QUIC connection: `quic://KEY@HOST:PORT`.
    pub fn quic(self, config: QuicConfig) -> MessengerConfig {
        MessengerConfig { quic: Some(config), ..self }
    }
}

/// Why a messenger does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The name within the process cannot be used.
    #[error(transparent)]
    Memory(#[from] JoinError),
    /// The member's process does not start.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The thread that carries messages cannot be started.
    #[error("the thread that carries messages cannot be started")]
    Thread(#[source] std::io::Error),
}

/// The exchange of this process, for whoever has no other one to share.
pub fn process_exchange() -> &'static Exchange {
    static EXCHANGE: OnceLock<Exchange> = OnceLock::new();
    EXCHANGE.get_or_init(Exchange::new)
}

/// Messages from and to this process. Clones are the same messenger, and may be used from any thread at once.
#[derive(Debug, Clone)]
pub struct Messenger {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Shared,
    bell: Arc<Bell>,
    clock: Clock,
    memory: Option<Port>,
    sessions: Option<Sessions>,
    quic: Option<Quic>,
    /// Runs sessions and QUIC, if there are any.
    helm: Option<Helm>,
}

impl Messenger {
    /// Begins to use its networks.
    ///
    /// # Errors
    /// [`StartError`] if one of them cannot be used.
    pub fn start(config: MessengerConfig) -> Result<Messenger, StartError> {
        let (shared, bell) = (Shared::new(config.limits), Arc::new(Bell::default()));
        let join = |(exchange, name): (Exchange, String)| {
            let bell = Arc::clone(&bell);
            exchange.join(&name, &shared, move || bell.ring())
        };
        let memory = config.memory.map(join).transpose()?;
        let (mut helm, mut sessions, mut quic) = (None, None, None);
        if config.sessions.is_some() || config.quic.is_some() {
            let helm = &*helm.insert(Helm::start().map_err(StartError::Thread)?);
            let start = |endpoint| Sessions::start(endpoint, &shared, &bell, helm);
            sessions = config.sessions.map(start).transpose()?;
            quic = config.quic.map(|config| Quic::start(config, &shared, &bell, helm)).transpose()?;
        }
        let clock = Clock::start();
        Ok(Messenger { inner: Arc::new(Inner { shared, bell, clock, memory, sessions, quic, helm }) })
    }

    /// Ends the connections in order, which takes two seconds at most. Short sends that are complete arrive first, if
    /// that takes no longer than one second; what is pending fails with the other sides. The last clone that is dropped
    /// does the same without waiting.
    pub fn shutdown(self) {
        if let Some(helm) = &self.inner.helm {
            helm.end();
        }
    }

    // --- contexts and addresses --------------------------------------------------------------------------------

    /// A new context; see [`message::Messenger::open_context`](crate::message::Messenger::open_context).
    pub fn open_context(&self) -> ContextId {
        self.inner.shared.lock().open_context()
    }

    /// Ends a context: what is pending in it is given up, completions that nobody has taken are gone.
    pub fn close_context(&self, context: ContextId) {
        self.act(|messenger| messenger.close_context(context));
    }

    /// Who posts in a context, without user pointer and hints.
    pub fn caller(&self, context: ContextId) -> Caller {
        Caller::new(context)
    }

    /// The peer of an address; see [`message::Messenger::look_up`](crate::message::Messenger::look_up).
    ///
    /// # Errors
    /// [`AddressError`] if no part is an address of a network that this messenger uses.
    pub fn look_up(&self, address: &str) -> Result<AddressId, AddressError> {
        self.inner.shared.lock().look_up(address)
    }

    /// What a peer is called.
    pub fn reverse_look_up(&self, address: AddressId) -> Option<String> {
        self.inner.shared.lock().reverse_look_up(address).map(str::to_owned)
    }

    /// Forgets a peer: what is pending there fails, its messages that nobody has taken are dropped.
    pub fn drop_address(&self, address: AddressId) {
        self.act(|messenger| messenger.drop_address(address));
    }

    /// Forgets a peer for which there is nothing here; see
    /// [`message::Messenger::drop_idle_address`](crate::message::Messenger::drop_idle_address).
    pub fn drop_idle_address(&self, address: AddressId) -> bool {
        self.inner.shared.lock().drop_idle_address(address)
    }

    /// What all networks that it uses have room for.
    pub fn bounds(&self) -> Bounds {
        self.inner.shared.lock().bounds()
    }

    /// Bytes that a message to that peer may have: an expected one, and an unexpected one.
    pub fn largest(&self, address: AddressId) -> Option<(u64, usize)> {
        self.inner.shared.lock().largest(address)
    }

    // --- posts -------------------------------------------------------------------------------------------------

    /// Sends a message for which the peer posts a receive; see
    /// [`message::Messenger::post_send`](crate::message::Messenger::post_send).
    ///
    /// # Errors
    /// [`PostError`]; then nothing is sent.
    pub fn post_send(
        &self,
        to: AddressId,
        tag: Tag,
        pieces: Vec<Bytes>,
        caller: Caller,
    ) -> Result<Posted, PostError> {
        self.act(|messenger| messenger.post_send(self.inner.clock.now(), to, tag, pieces, caller))
    }

    /// Sends a message that the peer takes without a receive.
    ///
    /// # Errors
    /// [`PostError`]; then nothing is sent.
    pub fn post_send_unexpected(
        &self,
        to: AddressId,
        tag: Tag,
        pieces: Vec<Bytes>,
        caller: Caller,
    ) -> Result<Posted, PostError> {
        self.act(|messenger| messenger.post_send_unexpected(self.inner.clock.now(), to, tag, pieces, caller))
    }

    /// Receives the next message with that tag from that peer.
    ///
    /// # Errors
    /// [`PostError`]; then nothing is received.
    pub fn post_receive(
        &self,
        from: AddressId,
        tag: Tag,
        room: Room,
        caller: Caller,
    ) -> Result<Posted, PostError> {
        self.act(|messenger| messenger.post_receive(self.inner.clock.now(), from, tag, room, caller))
    }

    /// Gives an operation up; see [`message::Messenger::cancel`](crate::message::Messenger::cancel).
    ///
    /// # Errors
    /// [`NoOperation`] if its completion was taken before, or it never was.
    pub fn cancel(&self, operation: OperationId) -> Result<(), NoOperation> {
        self.act(|messenger| messenger.cancel(operation))
    }

    // --- tests -------------------------------------------------------------------------------------------------

    /// Takes the completion of an operation; waits for it as long as `wait`, which may be zero or [`Duration::MAX`].
    ///
    /// # Errors
    /// [`NoOperation`] if it was taken before, or never was.
    pub fn test(&self, operation: OperationId, wait: Duration) -> Result<Option<Completion>, NoOperation> {
        self.wait_for(wait, |messenger| messenger.test(operation).transpose()).transpose()
    }

    /// Waits until an operation is complete.
    ///
    /// # Errors
    /// [`NoOperation`] if somebody else has taken its completion.
    pub fn wait(&self, posted: Posted) -> Result<Completion, NoOperation> {
        let operation = match posted {
            Posted::Done(completion) => return Ok(completion),
            Posted::Pending(operation) => operation,
        };
        self.test(operation, Duration::MAX)?.ok_or(NoOperation(operation))
    }

    /// Takes those completions of `operations` that are there, at most `most`; waits for the first as long as `wait`.
    pub fn test_some(&self, operations: &[OperationId], most: usize, wait: Duration) -> Vec<Completion> {
        let found = self.wait_for(wait, |messenger| some(messenger.test_some(operations, most)));
        found.unwrap_or_default()
    }

    /// Takes completions of a context, at most `most`; waits for the first as long as `wait`.
    pub fn test_context(&self, context: ContextId, most: usize, wait: Duration) -> Vec<Completion> {
        self.wait_for(wait, |messenger| some(messenger.test_context(context, most))).unwrap_or_default()
    }

    /// Takes unexpected messages, at most `most`; waits for the first as long as `wait`.
    pub fn test_unexpected(&self, most: usize, wait: Duration) -> Vec<Unexpected> {
        self.wait_for(wait, |messenger| some(messenger.test_unexpected(most))).unwrap_or_default()
    }

    // --- for tasks ---------------------------------------------------------------------------------------------

    /// Waits, as a task, until an operation is complete.
    ///
    /// # Errors
    /// [`NoOperation`] if somebody else has taken its completion.
    pub async fn complete(&self, posted: Posted) -> Result<Completion, NoOperation> {
        match posted {
            Posted::Done(completion) => Ok(completion),
            Posted::Pending(operation) => self.until(|messenger| messenger.test(operation).transpose()).await,
        }
    }

    /// Waits, as a task, for the next completion of a context.
    pub async fn next_completion(&self, context: ContextId) -> Completion {
        self.until(|messenger| messenger.test_context(context, 1).pop()).await
    }

    /// Waits, as a task, for the next unexpected message.
    pub async fn next_unexpected(&self) -> Unexpected {
        self.until(|messenger| messenger.test_unexpected(1).pop()).await
    }

    async fn until<T>(&self, mut look: impl FnMut(&mut crate::message::Messenger) -> Option<T>) -> T {
        let _waiting = self.inner.helm.as_ref().map(Helm::waiting);
        loop {
            let rung = self.inner.bell.count();
            if let Some(found) = self.look(&mut look) {
                return found;
            }
            let next_ring = self.inner.bell.after(rung);
            let timeout = self.inner.shared.lock().next_timeout();
            match timeout {
                None => next_ring.await,
                Some(time) => {
                    // If it does not ring in time, the next look finds what has timed out.
                    let _ = tokio::time::timeout_at(self.inner.clock.instant(time), next_ring).await;
                }
            }
        }
    }

    // --- how they work -----------------------------------------------------------------------------------------

    /// Does something, has it carried, and tells others who wait.
    fn act<T>(&self, act: impl FnOnce(&mut crate::message::Messenger) -> T) -> T {
        let (result, is_new) = {
            let mut messenger = self.inner.shared.lock();
            let news = messenger.news();
            let result = act(&mut messenger);
            (result, messenger.news() != news)
        };
        self.carry();
        if is_new {
            self.inner.bell.ring();
        }
        result
    }

    fn carry(&self) {
        if let Some(memory) = &self.inner.memory {
            memory.carry();
        }
        if let Some(sessions) = &self.inner.sessions {
            sessions.carry(&self.inner.shared);
        }
        if let Some(quic) = &self.inner.quic {
            quic.carry(&self.inner.shared);
        }
    }

    /// Looks once.
    fn look<T>(&self, look: &mut impl FnMut(&mut crate::message::Messenger) -> Option<T>) -> Option<T> {
        self.carry();
        let found = {
            let mut messenger = self.inner.shared.lock();
            messenger.handle_timeout(self.inner.clock.now());
            look(&mut messenger)
        };
        // What was taken gives the peer room, of which it is to hear.
        self.carry();
        found
    }

    /// Looks until there is something, at most for `wait`.
    fn wait_for<T>(
        &self,
        wait: Duration,
        mut look: impl FnMut(&mut crate::message::Messenger) -> Option<T>,
    ) -> Option<T> {
        let began = self.inner.clock.now();
        loop {
            let rung = self.inner.bell.count();
            if let Some(found) = self.look(&mut look) {
                return Some(found);
            }
            let now = self.inner.clock.now();
            let left = wait.saturating_sub(now.since(began));
            if left.is_zero() {
                return None;
            }
            let timeout = self.inner.shared.lock().next_timeout();
            let wait = left.min(timeout.map_or(Duration::MAX, |time| time.since(now)));
            match &self.inner.helm {
                Some(helm) => helm.wait(&self.inner.bell, rung, wait),
                None => self.inner.bell.wait(rung, wait),
            }
        }
    }
}

/// Nothing if it is empty.
fn some<T>(found: Vec<T>) -> Option<Vec<T>> {
    (!found.is_empty()).then_some(found)
}
