//! The competitors: one QUIC connection by quinn, a stream or datagrams; and bare packets, the ceiling.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use quinn::congestion::{BbrConfig, CubicConfig};
use quinn::{Connection, Endpoint, EndpointConfig, TokioRuntime, TransportConfig, VarInt};
use socket2::{Domain, Protocol, Socket, Type};

use super::bare;
use super::child::{is_asked, say, say_ready};
use super::job::{CompetitorJob, Congestion, End, Payload, Quic};
use super::snapshot::Snapshot;
use super::tls;

/// The same socket buffers as ours, and windows that are never the limit: 32 MiB hold 1 s at 250 Mbit/s and 26 ms at
/// 10 Gbit/s.
pub(crate) const SOCKET_BUFFER: usize = 8 << 20;
const WINDOW: u32 = 32 << 20;
/// What is written at once.
const WRITE: usize = 1 << 20;

/// Does the job until the parent has heard enough.
pub(crate) async fn run(job: CompetitorJob) -> Result<()> {
    let received = Arc::new(AtomicU64::new(0));
    match job.payload {
        Payload::Bare => start_bare(job.end, Arc::clone(&received)),
        Payload::Quic(quic) => start_quic(&job, quic, Arc::clone(&received))?,
    }
    say_ready();
    while is_asked().await? {
        say(&Snapshot::of_process(received.load(Ordering::Relaxed)))?;
    }
    Ok(())
}

/// Its threads end with the process.
fn start_bare(end: End, received: Arc<AtomicU64>) {
    std::thread::spawn(move || {
        tell(match end {
            End::SendsTo(address) => bare::send(address),
            End::ReceivesAt(address) => bare::receive(address, &received),
        });
    });
}

/// Tells of a failure, which would look like a rate of 0 otherwise.
fn tell(result: Result<()>) {
    if let Err(error) = result {
        eprintln!("the competitor failed: {error:#}");
    }
}

fn start_quic(job: &CompetitorJob, quic: Quic, received: Arc<AtomicU64>) -> Result<()> {
    let (end, endpoint) = (job.end, endpoint(job)?);
    tokio::spawn(async move { tell(work(end, quic, endpoint, received).await) });
    Ok(())
}

async fn work(end: End, quic: Quic, endpoint: Endpoint, received: Arc<AtomicU64>) -> Result<()> {
    match end {
        End::SendsTo(address) => {
            let connection = endpoint.connect(address, "competitor.invalid")?.await?;
            match quic {
                Quic::Stream => send_stream(&connection).await,
                Quic::Datagrams => send_datagrams(&connection).await,
            }
        }
        End::ReceivesAt(_) => {
            let connection = endpoint.accept().await.context("the endpoint was closed")?.await?;
            match quic {
                Quic::Stream => receive_stream(&connection, &received).await,
                Quic::Datagrams => receive_datagrams(&connection, &received).await,
            }
        }
    }
}

async fn send_stream(connection: &Connection) -> Result<()> {
    let mut stream = connection.open_uni().await?;
    let data = Bytes::from(vec![7; WRITE]);
    loop {
        stream.write_chunk(data.clone()).await?;
    }
}

/// Unordered: ordered reads die of their own gaps.
async fn receive_stream(connection: &Connection, received: &AtomicU64) -> Result<()> {
    let mut stream = connection.accept_uni().await?;
    while let Some(chunk) = stream.read_chunk(usize::MAX, false).await? {
        received.fetch_add(chunk.bytes.len() as u64, Ordering::Relaxed);
    }
    Ok(())
}

async fn send_datagrams(connection: &Connection) -> Result<()> {
    loop {
        let size = connection.max_datagram_size().context("the peer takes no datagrams")?;
        connection.send_datagram_wait(Bytes::from(vec![7; size])).await?;
    }
}

async fn receive_datagrams(connection: &Connection, received: &AtomicU64) -> Result<()> {
    loop {
        let datagram = connection.read_datagram().await?;
        received.fetch_add(datagram.len() as u64, Ordering::Relaxed);
    }
}

fn endpoint(job: &CompetitorJob) -> Result<Endpoint> {
    let (server, local) = match job.end {
        End::SendsTo(_) => (None, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        End::ReceivesAt(address) => {
            let mut config = quinn::ServerConfig::with_crypto(Arc::new(tls::server()?));
            config.transport_config(Arc::new(transport(job.congestion)));
            (Some(config), address)
        }
    };
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(SOCKET_BUFFER)?;
    socket.set_send_buffer_size(SOCKET_BUFFER)?;
    socket.bind(&local.into())?;
    let mut endpoint =
        Endpoint::new(EndpointConfig::default(), server, socket.into(), Arc::new(TokioRuntime))?;
    let mut client = quinn::ClientConfig::new(Arc::new(tls::client()?));
    client.transport_config(Arc::new(transport(job.congestion)));
    endpoint.set_default_client_config(client);
    Ok(endpoint)
}

fn transport(congestion: Congestion) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(u64::from(WINDOW))
        .datagram_receive_buffer_size(Some(WINDOW as usize))
        .datagram_send_buffer_size(WINDOW as usize);
    match congestion {
        Congestion::Cubic => transport.congestion_controller_factory(Arc::new(CubicConfig::default())),
        Congestion::Bbr => transport.congestion_controller_factory(Arc::new(BbrConfig::default())),
    };
    transport
}
