//! A member's process on the network.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::{mpsc, oneshot};

use super::carrier::Carrier;
use super::control::ControlError;
use super::data::DataCounts;
use super::driver::{Driver, Request};
use super::sockets::{BindError, Sockets};
use super::tls::TlsError;
use crate::application::Application;
use crate::config::{Config, ConfigError};
use crate::crypto::random::RandomSource;
use crate::keys::{Identity, encode_key};
use crate::node::Node;
use crate::overlay::{InstanceId, MemberId, Overlay, OverlayChange, Peer, Reach, SuccessionError, Uplink};

/// Commands and questions that may wait for the driver. Callers with further ones wait until there is room.
const MAX_WAITING_REQUESTS: usize = 256;

/// What an endpoint is made of.
#[derive(Debug)]
pub struct EndpointConfig {
    /// The members, their keys and their links.
    pub overlay: Arc<Overlay>,
    /// Which of the members this is.
    pub identity: Identity,
    /// The node's limits and policies.
    pub config: Config,
    /// Sockets that are bound already, for the links that name no uplink of this member. By default (none) those of
    /// [`Sockets::for_member`].
    pub sockets: Option<Sockets>,
    /// The same for uplinks that links name. By default (none) those of [`Sockets::for_uplink`].
    pub uplinks: BTreeMap<Uplink, Sockets>,
    /// The share of arriving datagrams that is thrown away, in [0, 1]: for experiments on a network without loss.
    /// Default 0.
    pub arrival_loss: f64,
}

/// Why an endpoint does not start.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The overlay file does not list the key.
    #[error("no member of the overlay has this process's key (Ed25519 {key})")]
    UnknownKey {
        /// The public key, in base64 as the overlay file would have it.
        key: String,
    },
    /// The overlay file lists one half of the identity only.
    #[error(
        "member \"{member}\" has this process's Ed25519 key, but another X25519 key; it should be {expected}"
    )]
    WrongX25519 {
        /// The member.
        member: String,
        /// The public key that belongs to the identity, in base64.
        expected: String,
    },
    /// A value of the config is out of its range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An address cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A socket is bound but cannot be used.
    #[error("a socket cannot be used")]
    Socket(#[from] io::Error),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The operating system has no random numbers.
    #[error("the operating system gives no random numbers")]
    NoRandomness,
}

/// Why a newer overlay file is not in use.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// It cannot take the place of the one in use, which stays.
    #[error(transparent)]
    Overlay(#[from] SuccessionError),
    /// The control plane cannot dial the new neighbours.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The endpoint has ended.
    #[error(transparent)]
    Ended(#[from] EndpointEnded),
}

/// The endpoint has ended: it was shut down or dropped, or its application panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the endpoint has ended")]
pub struct EndpointEnded;

/// A member's process: a [`Node`] and an [`Application`] on real sockets and in real time.
///
/// It ends when it is dropped. The control connections say farewell even then; only
/// [`shutdown`](Self::shutdown) closes the sessions, too.
pub struct Endpoint<A: Application> {
    handle: Handle<A>,
    stop: oneshot::Sender<()>,
    driver: Carrier<A>,
    own: Peer,
    addresses: Reach,
    uplinks: BTreeMap<Uplink, Reach>,
}

/// Reaches the application of an [`Endpoint`] from anywhere.
pub struct Handle<A: Application> {
    requests: mpsc::Sender<Request<A>>,
}

/// The commands that come through the handles of an application that a simulation carries.
#[cfg(feature = "sim")]
pub struct Commands<A: Application> {
    requests: mpsc::Receiver<Request<A>>,
}

impl EndpointConfig {
    /// The member of `overlay` that `identity` is, at its addresses, with the default limits and policies.
    pub fn new(overlay: Arc<Overlay>, identity: Identity) -> EndpointConfig {
        let (config, uplinks) = (Config::default(), BTreeMap::new());
        EndpointConfig { overlay, identity, config, sockets: None, uplinks, arrival_loss: 0.0 }
    }
}

impl<A: Application + Send + 'static> Endpoint<A> {
    /// Binds the sockets, starts to listen and to dial the neighbours, and runs `app` on a thread of its own; within a
    /// tokio runtime of a single thread, as a task of that.
    ///
    /// `host` is told every outcome of the application. It is called where the application runs, so it must not block;
    /// usually it hands the outcome to a task, which answers with a [`command`](Handle::command).
    ///
    /// # Errors
    /// If the key is not the overlay's, an address cannot be bound, or there is no thread.
    ///
    /// # Panics
    /// Within a tokio runtime of a single thread without I/O and time.
    pub async fn start(
        config: EndpointConfig,
        app: A,
        host: impl FnMut(A::Outcome) + Send + 'static,
    ) -> Result<Endpoint<A>, EndpointError> {
        let member = own_member(&config.overlay, &config.identity)?;
        let own = Peer { member, instance: InstanceId(u64::from_be_bytes(random()?)) };
        let (requests, waiting) = mpsc::channel(MAX_WAITING_REQUESTS);
        let (stop, stopped) = oneshot::channel();
        let make = move || {
            let driver = Driver::new(config, own, app, host, waiting, stopped)?;
            let addresses = driver.local_addresses()?;
            Ok((driver, addresses))
        };
        let (driver, (addresses, uplinks)) = Carrier::start(make).await?;
        Ok(Endpoint { handle: Handle { requests }, stop, driver, own, addresses, uplinks })
    }

    /// Closes the sessions and the control connections, lets the farewells out, and gives the application back. Takes
    /// two seconds at most.
    ///
    /// # Errors
    /// If the application has panicked before.
    pub async fn shutdown(self) -> Result<A, EndpointEnded> {
        // If the driver is gone, joining it tells.
        let _ = self.stop.send(());
        self.driver.join().await.ok_or(EndpointEnded)
    }
}

impl<A: Application> Endpoint<A> {
    /// Reaches the application; to be cloned.
    pub fn handle(&self) -> &Handle<A> {
        &self.handle
    }

    /// This process: the member, and the number that tells it from others under the same key.
    pub fn own(&self) -> Peer {
        self.own
    }

    /// Where the sockets are bound: those for links that name no uplink; if all do, those of the first one.
    pub fn addresses(&self) -> Reach {
        self.addresses
    }

    /// Where the sockets of the uplinks are bound, those that there were when the endpoint started.
    pub fn uplinks(&self) -> &BTreeMap<Uplink, Reach> {
        &self.uplinks
    }
}

impl<A: Application> Clone for Handle<A> {
    fn clone(&self) -> Handle<A> {
        Handle { requests: self.requests.clone() }
    }
}

impl<A: Application + 'static> Handle<A> {
    /// Gives the application a command; waits while too many are under way.
    ///
    /// # Errors
    /// If the endpoint has ended.
    pub async fn command(&self, command: A::Command) -> Result<(), EndpointEnded> {
        self.requests.send(Request::Command(command)).await.map_err(|_| EndpointEnded)
    }

    /// The same from a thread outside of the runtime, such as one that does disk operations.
    ///
    /// # Errors
    /// If the endpoint has ended.
    ///
    /// # Panics
    /// Within an asynchronous task.
    pub fn command_blocking(&self, command: A::Command) -> Result<(), EndpointEnded> {
        self.requests.blocking_send(Request::Command(command)).map_err(|_| EndpointEnded)
    }

    /// Gives the application a command from a place that cannot wait. While too many are under way, or if the endpoint
    /// has ended, the command is dropped.
    pub(super) fn try_command(&self, command: A::Command) {
        let _ = self.requests.try_send(Request::Command(command));
    }

    /// Looks at the node and the application, and gives what `look` gives. The endpoint stands still meanwhile.
    ///
    /// # Errors
    /// If the endpoint has ended.
    pub async fn inspect<R: Send + 'static>(
        &self,
        look: impl FnOnce(&Node, &A) -> R + Send + 'static,
    ) -> Result<R, EndpointEnded> {
        let (answer, answered) = oneshot::channel();
        let look = Box::new(move |node: &Node, app: &A| drop(answer.send(look(node, app))));
        self.ask(Request::Inspect(look), answered).await
    }

    /// What has passed the data plane's socket so far.
    ///
    /// # Errors
    /// If the endpoint has ended.
    pub async fn data_counts(&self) -> Result<DataCounts, EndpointEnded> {
        let (answer, answered) = oneshot::channel();
        self.ask(Request::Count(answer), answered).await
    }

    /// Goes on with a newer overlay file, whose signature was checked; see [`Node::reload`]. The sockets stay where
    /// they are bound, whatever the file says of this member's own addresses.
    ///
    /// # Errors
    /// If the file cannot take the place of the one in use, which stays.
    pub async fn reload(&self, newer: Arc<Overlay>) -> Result<OverlayChange, ReloadError> {
        let (answer, answered) = oneshot::channel();
        self.ask(Request::Reload(newer, answer), answered).await?
    }

    /// Takes nothing new from now on, so that the process can end without harm; see [`Node::drain`].
    ///
    /// # Errors
    /// If the endpoint has ended.
    pub async fn drain(&self) -> Result<(), EndpointEnded> {
        self.requests.send(Request::Drain).await.map_err(|_| EndpointEnded)
    }

    /// A handle without an endpoint: a simulation takes the commands. Whoever asks for anything else is told that the
    /// endpoint has ended.
    #[cfg(feature = "sim")]
    pub fn simulated() -> (Handle<A>, Commands<A>) {
        let (sender, requests) = mpsc::channel(MAX_WAITING_REQUESTS);
        (Handle { requests: sender }, Commands { requests })
    }

    async fn ask<R>(&self, request: Request<A>, answered: oneshot::Receiver<R>) -> Result<R, EndpointEnded> {
        self.requests.send(request).await.map_err(|_| EndpointEnded)?;
        answered.await.map_err(|_| EndpointEnded)
    }
}

#[cfg(feature = "sim")]
impl<A: Application> Commands<A> {
    /// The next command; none once all handles are gone.
    pub async fn next(&mut self) -> Option<A::Command> {
        loop {
            if let Request::Command(command) = self.requests.recv().await? {
                return Some(command);
            }
        }
    }
}

#[cfg(feature = "sim")]
impl<A: Application> fmt::Debug for Commands<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commands").finish_non_exhaustive()
    }
}

impl<A: Application> fmt::Debug for Endpoint<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("own", &self.own)
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

impl<A: Application> fmt::Debug for Handle<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl From<ControlError> for EndpointError {
    fn from(error: ControlError) -> EndpointError {
        match error {
            ControlError::Tls(error) => EndpointError::Tls(error),
            ControlError::Socket(error) => EndpointError::Socket(error),
        }
    }
}

fn own_member(overlay: &Overlay, identity: &Identity) -> Result<MemberId, EndpointError> {
    let keys = identity.public();
    let unknown = || EndpointError::UnknownKey { key: encode_key(&keys.ed25519) };
    let member = overlay.find_by_ed25519(&keys.ed25519).ok_or_else(unknown)?;
    if overlay.member(member).keys.x25519 != keys.x25519 {
        let expected = encode_key(&keys.x25519);
        return Err(EndpointError::WrongX25519 { member: overlay.name(member), expected });
    }
    Ok(member)
}

/// The random numbers of the operating system.
pub(super) struct OperatingSystem(SystemRandom);

impl OperatingSystem {
    /// Draws once, so that it is known to have numbers.
    pub(super) fn new() -> Result<OperatingSystem, EndpointError> {
        random::<1>()?;
        Ok(OperatingSystem(SystemRandom::new()))
    }
}

impl RandomSource for OperatingSystem {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.fill(bytes).expect("the operating system had random numbers when the process began");
    }
}

pub(super) fn random<const N: usize>() -> Result<[u8; N], EndpointError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| EndpointError::NoRandomness)?;
    Ok(bytes)
}
