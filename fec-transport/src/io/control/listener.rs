//! Takes connections from neighbours, and nothing from anybody else.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use quinn::{ConnectionError, Incoming};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::timeout;

use super::connection::{Established, HANDSHAKE_LIMIT, HandshakeError, Shared};
use super::doorstep::Doorstep;
use crate::circuit::PROTOCOL_VERSION as VERSION;
use crate::io::tls::{PROTOCOL, PinnedKeys};

/// How long a ClientHello may take to be whole: a second part that was lost is sent again after one second (RFC 9002
/// §6.2.2). Whoever sends half of one has shown no more than an address.
const CLIENT_HELLO_LIMIT: Duration = Duration::from_secs(2);

/// Addresses of strangers that the log remembers, so that it names each once.
const MAX_REMEMBERED_STRANGERS: usize = 1024;

/// Accepts the connections that neighbours dial.
pub(super) struct Listener {
    /// The QUIC endpoint of this member.
    endpoint: quinn::Endpoint,
    /// The neighbours; none for a member that dials all of them itself: it answers nobody.
    neighbours: PinnedKeys,
    /// What all connections share.
    shared: Arc<Shared>,
    /// The addresses of strangers that were refused.
    strangers: Strangers,
    doorstep: Doorstep<AbortHandle>,
}

type Handshake = Result<(), (IpAddr, HandshakeError)>;

impl Listener {
    /// A listener that answers `neighbours` on `endpoint`.
    pub(super) fn new(endpoint: quinn::Endpoint, neighbours: PinnedKeys, shared: Arc<Shared>) -> Listener {
        Listener {
            endpoint,
            neighbours,
            shared,
            strangers: Strangers::default(),
            doorstep: Doorstep::default(),
        }
    }

    /// Runs until it is aborted.
    pub(super) async fn listen(mut self) {
        let mut handshakes = JoinSet::new();
        loop {
            tokio::select! {
                incoming = self.endpoint.accept() => match incoming {
                    Some(incoming) => self.admit(incoming, &mut handshakes),
                    None => return,
                },
                Some(ended) = handshakes.join_next() => {
                    self.doorstep.leave(AbortHandle::is_finished);
                    self.note(ended);
                }
            }
        }
    }

    fn admit(&mut self, incoming: Incoming, handshakes: &mut JoinSet<Handshake>) {
        if self.neighbours.is_empty() {
            incoming.ignore();
        } else if !incoming.remote_address_validated() {
            // It cannot fail for an address that is not validated.
            let _ = incoming.retry();
        } else {
            // A socket for both families gives IPv4 addresses in the form of IPv6.
            let from = incoming.remote_address().ip().to_canonical();
            let handshake = welcome(incoming, self.neighbours.clone(), Arc::clone(&self.shared));
            let handshake = handshakes.spawn(async move {
                let limited = timeout(HANDSHAKE_LIMIT, handshake).await;
                limited.unwrap_or(Err(HandshakeError::TooSlow)).map_err(|error| (from, error))
            });
            if let Some(displaced) = self.doorstep.come(from, handshake, &self.neighbours.hosts()) {
                tracing::debug!("too many handshakes are under way: the most expendable one is given up");
                displaced.abort();
            }
        }
    }

    fn note(&mut self, ended: Result<Handshake, JoinError>) {
        match ended {
            Ok(Ok(())) => {}
            Ok(Err((from, error))) if error.is_for_the_version() => {
                if self.strangers.is_new(from) {
                    tracing::warn!(%from, cause = error.source(), "a neighbour cannot connect ({error})");
                }
            }
            Ok(Err((from, error))) if error.is_for_the_protocol() => {
                if self.strangers.is_new(from) {
                    tracing::warn!(
                        %from,
                        "refused somebody on the control plane who does not speak {PROTOCOL}{VERSION} or older"
                    );
                }
            }
            Ok(Err((from, HandshakeError::Refused(error @ ConnectionError::TransportError(_))))) => {
                if self.strangers.is_new(from) {
                    tracing::warn!(%from, %error, "refused a stranger on the control plane");
                }
            }
            Ok(Err((from, error))) => {
                tracing::debug!(%from, cause = error.source(), "a control connection failed ({error})");
            }
            // It was displaced.
            Err(error) if error.is_cancelled() => {}
            Err(error) => tracing::error!(%error, "the task of a control handshake failed"),
        }
    }
}

async fn welcome(
    incoming: Incoming,
    neighbours: PinnedKeys,
    shared: Arc<Shared>,
) -> Result<(), HandshakeError> {
    let mut connecting = incoming.accept()?;
    timeout(CLIENT_HELLO_LIMIT, connecting.handshake_data()).await.map_err(|_| HandshakeError::TooSlow)??;
    let connection = connecting.await?;
    let member = neighbours.member_at(&connection).ok_or(HandshakeError::Stranger)?;
    let established = Established::accept(connection, member, &shared).await?;
    tokio::spawn(async move { established.run(&shared).await });
    Ok(())
}

/// The addresses from which strangers were refused: by host, since each attempt comes from another port.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    seen: BTreeSet<IpAddr>,
}

impl Strangers {
    /// Whether this is the first refusal of that address that is remembered.
    fn is_new(&mut self, address: IpAddr) -> bool {
        if self.seen.len() >= MAX_REMEMBERED_STRANGERS {
            self.seen.clear();
        }
        self.seen.insert(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_is_named_once_and_the_memory_is_bounded() {
        let mut strangers = Strangers::default();
        let address = |number: usize| IpAddr::from((number as u128).to_be_bytes());
        assert!(strangers.is_new(address(1)));
        assert!(!strangers.is_new(address(1)));
        for number in 2..3 * MAX_REMEMBERED_STRANGERS {
            assert!(strangers.is_new(address(number)));
            assert!(strangers.seen.len() <= MAX_REMEMBERED_STRANGERS);
        }
    }
}
