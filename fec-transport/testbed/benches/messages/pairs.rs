//! Messengers that talk to each other over one module.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use fec_testbed::processes::overlay::{OverlayText, identity};
use fec_transport::io::EndpointConfig;
use fec_transport::io::message::{Messenger, MessengerConfig, QuicConfig};
use fec_transport::keys::encode_key;
use fec_transport::message::memory::Exchange;
use fec_transport::message::{AddressId, Tag};
use fec_transport::overlay::Overlay;

use super::PATIENCE;

/// A client and a server.
pub(super) struct Pair {
    pub(super) client: Messenger,
    pub(super) server: Messenger,
    /// The server, as the client calls it.
    pub(super) to: AddressId,
}

/// A server, and where clients find it.
pub(super) struct Server {
    pub(super) messenger: Messenger,
    pub(super) address: String,
}

impl Pair {
    pub(super) fn new(module: &str) -> Result<Pair> {
        let (mut servers, mut clients) = crowd(module, 1)?;
        let (server, client) = (servers.pop().context("a server")?, clients.pop().context("a client")?);
        let to = client.look_up(&server.address)?;
        Ok(Pair { client, server: server.messenger, to })
    }

    /// Connects; gives the client, as the server calls it.
    pub(super) fn greet(&self) -> Result<AddressId> {
        let context = self.client.open_context();
        let caller = self.client.caller(context);
        let sent = self.client.post_send_unexpected(self.to, Tag(0), vec!["hello".into()], caller)?;
        self.client.wait(sent)?.result?;
        Ok(self.server.test_unexpected(1, PATIENCE).pop().context("no greeting came")?.from)
    }

    pub(super) fn end(self) {
        self.client.shutdown();
        self.server.shutdown();
    }
}

/// So many servers and clients.
pub(super) fn crowd(module: &str, count: usize) -> Result<(Vec<Server>, Vec<Messenger>)> {
    let name = |kind: &str, number: usize| format!("{kind}{number}");
    let servers: Vec<String> = (1..=count).map(|number| name("server", number)).collect();
    let clients: Vec<String> = (1..=count).map(|number| name("client", number)).collect();
    match module {
        "memory" => within_the_process(&servers, &clients),
        "fec" => over_sessions(&servers, &clients),
        _ => over_quic(&servers, &clients),
    }
}

fn within_the_process(servers: &[String], clients: &[String]) -> Result<(Vec<Server>, Vec<Messenger>)> {
    let exchange = Exchange::new();
    let start = |name: &String| Ok(Messenger::start(MessengerConfig::new().memory(&exchange, name))?);
    let server = |name| Ok(Server { messenger: start(name)?, address: format!("memory://{name}") });
    Ok((
        servers.iter().map(server).collect::<Result<_>>()?,
        clients.iter().map(start).collect::<Result<_>>()?,
    ))
}

fn over_sessions(servers: &[String], clients: &[String]) -> Result<(Vec<Server>, Vec<Messenger>)> {
    let mut text = OverlayText::default();
    for name in servers {
        text.listener(name)?;
    }
    clients.iter().for_each(|name| text.client(name));
    for client in clients {
        servers.iter().for_each(|server| text.link(client, server, ""));
    }
    let overlay = Arc::new(Overlay::parse(&text.0)?);
    let start = |name: &String| {
        let endpoint = EndpointConfig::new(Arc::clone(&overlay), identity(name));
        Ok(Messenger::start(MessengerConfig::new().sessions(endpoint))?)
    };
    let server = |name| Ok(Server { messenger: start(name)?, address: format!("fec://{name}") });
    Ok((
        servers.iter().map(server).collect::<Result<_>>()?,
        clients.iter().map(start).collect::<Result<_>>()?,
    ))
}

fn over_quic(servers: &[String], clients: &[String]) -> Result<(Vec<Server>, Vec<Messenger>)> {
    let key = |name: &String| identity(name).public().ed25519;
    let start = |name: &String, peers: Vec<[u8; 32]>| {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = format!("quic://{}@{}", encode_key(&key(name)), socket.local_addr()?);
        let config = QuicConfig { identity: identity(name), socket, peers };
        anyhow::Ok((Messenger::start(MessengerConfig::new().quic(config))?, address))
    };
    let server = |name: &String| {
        let (messenger, address) = start(name, clients.iter().map(key).collect())?;
        Ok(Server { messenger, address })
    };
    let client = |name: &String| Ok(start(name, Vec::new())?.0);
    Ok((
        servers.iter().map(server).collect::<Result<_>>()?,
        clients.iter().map(client).collect::<Result<_>>()?,
    ))
}
