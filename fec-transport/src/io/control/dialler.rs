//! Keeps one neighbour connected.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::back_off::BackOff;
use super::connection::{Established, HANDSHAKE_LIMIT, HandshakeError, Shared};
use crate::io::tls::SERVER_NAME;
use crate::neighbour::Unreached;
use crate::overlay::{LinkId, MemberId};

/// Dials one neighbour, and again whenever the connection has ended.
pub(super) struct Dialler {
    /// The QUIC endpoint of this member at the link's uplink.
    pub(super) endpoint: quinn::Endpoint,
    /// Accepts the neighbour's key only.
    pub(super) config: quinn::ClientConfig,
    /// Whom to dial.
    pub(super) neighbour: MemberId,
    /// The neighbour's name, for the log.
    pub(super) name: String,
    /// The link over which it is dialled.
    pub(super) link_id: LinkId,
    /// The name of the link over which it is dialled; empty for one without.
    pub(super) link: String,
    /// Where it is.
    pub(super) address: SocketAddr,
    /// What all connections share.
    pub(super) shared: Arc<Shared>,
    /// The pauses between attempts.
    pub(super) back_off: BackOff,
}

/// How long the other side's first word may take: that is two round trips, of 500 ms or, at every fourth attempt, more.
/// An attempt to reach a dead neighbour must not last, since what it has sent does not come again when the neighbour
/// does.
const FIRST_WORD: Duration = Duration::from_secs(1);
const FIRST_WORD_FROM_AFAR: Duration = Duration::from_millis(2_500);

impl Dialler {
    /// Runs until it is aborted.
    pub(super) async fn keep_connected(mut self) {
        let (mut failures, mut told) = (0_u32, String::new());
        loop {
            match timeout(HANDSHAKE_LIMIT, self.dial(failures)).await.unwrap_or(Err(HandshakeError::TooSlow))
            {
                Ok(established) => {
                    failures = 0;
                    told.clear();
                    self.back_off.reset();
                    self.run(established).await;
                }
                Err(error) => {
                    self.tell(&error, failures, &mut told).await;
                    failures = failures.saturating_add(1);
                }
            }
            sleep(self.back_off.pause()).await;
        }
    }

    async fn dial(&self, failures: u32) -> Result<Established, HandshakeError> {
        let mut connecting = self.endpoint.connect_with(self.config.clone(), self.address, SERVER_NAME)?;
        let patience = if failures % 4 == 3 { FIRST_WORD_FROM_AFAR } else { FIRST_WORD };
        match timeout(patience, connecting.handshake_data()).await {
            Ok(word) => drop(word?),
            Err(_) => return Err(HandshakeError::Silent),
        }
        Established::open(connecting.await?, self.neighbour, &self.link, &self.shared).await
    }

    /// A task of its own, so that the connection may say farewell after this dialler was aborted.
    async fn run(&self, established: Established) {
        let shared = Arc::clone(&self.shared);
        let connection = tokio::spawn(async move { established.run(&shared).await });
        if connection.await.is_err() {
            tracing::error!(neighbour = self.name, "the task of a control connection panicked");
        }
    }

    /// A reason is worth a warning and a word to the node when it is new, its repetitions every two seconds are not.
    async fn tell(&self, error: &HandshakeError, failures: u32, told: &mut String) {
        let why = error.explain();
        let (neighbour, address) = (&self.name, self.address);
        let link = Some(self.link.as_str()).filter(|link| !link.is_empty());
        if *told == why {
            tracing::debug!(neighbour, link, %address, failures, "still cannot reach a neighbour: {why}");
            return;
        }
        tracing::warn!(neighbour, link, %address, "cannot reach a neighbour: {why}; trying again");
        let unreached = Unreached {
            why: format!("{neighbour} at {address}: {why}"),
            is_for_the_key: error.is_for_the_key(),
        };
        self.shared.tell_unreached(self.link_id, unreached).await;
        *told = why;
    }
}
