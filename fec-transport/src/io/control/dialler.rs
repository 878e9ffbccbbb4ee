//! Keeps one neighbour connected.

use std::error::Error as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::back_off::BackOff;
use super::connection::{Established, HANDSHAKE_LIMIT, HandshakeError, Shared};
use crate::circuit::PROTOCOL_VERSION as VERSION;
use crate::io::tls::{PROTOCOL, SERVER_NAME};
use crate::overlay::MemberId;

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
        let mut failures = 0_u32;
        loop {
            match timeout(HANDSHAKE_LIMIT, self.dial(failures)).await.unwrap_or(Err(HandshakeError::TooSlow))
            {
                Ok(established) => {
                    failures = 0;
                    self.back_off.reset();
                    self.run(established).await;
                }
                Err(error) => {
                    self.log(&error, failures);
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

    /// The first failure is worth a warning, its repetitions every two seconds are not.
    fn log(&self, error: &HandshakeError, failures: u32) {
        let (neighbour, address, cause) = (&self.name, self.address, error.source());
        let link = Some(self.link.as_str()).filter(|link| !link.is_empty());
        if error.is_for_the_key() && failures <= 1 {
            tracing::warn!(
                neighbour,
                link,
                %address,
                "a neighbour does not know this member's key: its overlay file is another one"
            );
        } else if error.is_for_the_protocol() && failures == 0 {
            tracing::warn!(
                neighbour,
                link,
                %address,
                "a neighbour does not speak {PROTOCOL}{VERSION} or older: one of the two members needs \
                 another version of this program; trying again"
            );
        } else if failures == 0 {
            tracing::warn!(neighbour, link, %address, cause, "cannot reach a neighbour ({error}); trying again");
        } else {
            tracing::debug!(neighbour, link, %address, cause, failures, "still cannot reach a neighbour ({error})");
        }
    }
}
