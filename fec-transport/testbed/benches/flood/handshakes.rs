//! Begins handshakes at a control port, from addresses that answer, and lets them hang.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::scene::STRANGER;

/// Handshakes that are begun at the same time.
const AT_ONCE: usize = 16;
/// Protocol names that make a ClientHello too long for one datagram.
const NAMES: usize = 100;
/// For an answer; one that was displaced gets none.
const PATIENCE: Duration = Duration::from_millis(200);

/// Begins as many handshakes as it can for that long, with so many packets per second at most; gives how many packets
/// it sent.
pub(crate) fn begin(to: SocketAddr, per_second: u64, span: Duration) -> anyhow::Result<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (sent, started) = (Arc::new(AtomicU64::new(0)), Instant::now());
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..AT_ONCE {
            let sent = Arc::clone(&sent);
            tasks.spawn(async move {
                let client = Client::new(to)?;
                while started.elapsed() < span {
                    if sent.load(Ordering::Relaxed) as f64
                        > started.elapsed().as_secs_f64() * per_second as f64
                    {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        continue;
                    }
                    client.begin(&sent).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        anyhow::Ok(())
    })?;
    Ok(sent.load(Ordering::Relaxed))
}

/// A QUIC client with a long ClientHello.
struct Client {
    endpoint: quinn::Endpoint,
    config: quinn::ClientConfig,
    to: SocketAddr,
}

impl Client {
    fn new(to: SocketAddr) -> anyhow::Result<Client> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        tls.alpn_protocols =
            (0..NAMES).map(|name| format!("a long protocol name {name}").into_bytes()).collect();
        let tls = quinn::crypto::rustls::QuicClientConfig::try_from(tls)?;
        let endpoint = quinn::Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(Client { endpoint, config: quinn::ClientConfig::new(Arc::new(tls)), to })
    }

    /// Lets the beginning of a handshake through: the first datagram, the Retry, and one more with the first part of
    /// the ClientHello.
    async fn begin(&self, sent: &AtomicU64) -> anyhow::Result<()> {
        let way = UdpSocket::bind((STRANGER, 0)).await?;
        let connecting =
            self.endpoint.connect_with(self.config.clone(), way.local_addr()?, "fec-transport")?;
        let (mut buffer, mut has_retry, mut client) = ([0; 2_048], false, None);
        while let Ok(received) = timeout(PATIENCE, way.recv_from(&mut buffer)).await {
            let (length, from) = received?;
            let to = match client.filter(|_| from == self.to) {
                Some(client) => {
                    has_retry = true;
                    client
                }
                // The second datagram of the first flight is kept back, too.
                None if client.is_some() && !has_retry => continue,
                None => {
                    client = Some(from);
                    sent.fetch_add(1, Ordering::Relaxed);
                    self.to
                }
            };
            way.send_to(&buffer[..length], to).await?;
            if has_retry && to == self.to {
                break;
            }
        }
        drop(connecting);
        Ok(())
    }
}
