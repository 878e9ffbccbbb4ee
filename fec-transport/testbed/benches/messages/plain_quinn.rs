//! A stream of quinn, used by a thread.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fec_testbed::processes::tls;
use quinn::{Connection, Endpoint};
use tokio::runtime::Runtime;

use super::now;

/// The two ends of a connection; each has a thread of its own.
pub(super) struct Quinn {
    client: Runtime,
    _server: Runtime,
    connection: Connection,
    _endpoints: [Endpoint; 2],
}

impl Quinn {
    pub(super) fn open() -> Result<Quinn> {
        let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let (server_runtime, client) = (runtime()?, runtime()?);
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let config = quinn::ServerConfig::with_crypto(Arc::new(tls::server()?));
        let server = server_runtime.block_on(async { Endpoint::server(config, anywhere) })?;
        let address = server.local_addr()?;
        server_runtime.spawn(serve(server.clone()));
        let mut dialling = client.block_on(async { Endpoint::client(anywhere) })?;
        dialling.set_default_client_config(quinn::ClientConfig::new(Arc::new(tls::client()?)));
        let connection =
            client.block_on(async { anyhow::Ok(dialling.connect(address, "server.invalid")?.await?) })?;
        Ok(Quinn { client, _server: server_runtime, connection, _endpoints: [server, dialling] })
    }

    pub(super) fn round_trips(&self, bytes: usize, rounds: u32) -> Result<Vec<Duration>> {
        let (mut send, mut receive) = self.client.block_on(self.connection.open_bi())?;
        let (message, mut answer) = (vec![7; bytes], vec![0; bytes]);
        let mut times = Vec::new();
        for round in 0..=rounds {
            let began = now();
            self.client.block_on(async {
                send.write_all(&message).await?;
                receive.read_exact(&mut answer).await?;
                anyhow::Ok(())
            })?;
            if round > 0 {
                times.push(began.elapsed());
            }
        }
        Ok(times)
    }

    pub(super) fn transfer(&self, bytes: usize) -> Result<Duration> {
        let began = now();
        self.client.block_on(async {
            let mut send = self.connection.open_uni().await?;
            let piece = vec![7; 256 << 10];
            let mut left = bytes;
            while left > 0 {
                let now = left.min(piece.len());
                send.write_all(&piece[..now]).await?;
                left -= now;
            }
            send.finish()?;
            send.stopped().await?;
            anyhow::Ok(())
        })?;
        Ok(began.elapsed())
    }
}

/// Sends back what comes on bidirectional streams, and drops what comes on others.
async fn serve(endpoint: Endpoint) -> Result<()> {
    let connection = endpoint.accept().await.context("a client")?.await?;
    let other = connection.clone();
    tokio::spawn(async move {
        while let Ok(mut receive) = other.accept_uni().await {
            tokio::spawn(
                async move { while let Ok(Some(_)) = receive.read_chunk(usize::MAX, false).await {} },
            );
        }
    });
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        tokio::spawn(async move {
            while let Ok(Some(chunk)) = receive.read_chunk(usize::MAX, true).await {
                if send.write_all(&chunk.bytes).await.is_err() {
                    return;
                }
            }
        });
    }
    Ok(())
}
