//! A sender, a receiver and somebody who connects to it, on loopback.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context as _;
use fec_transport::keys::{Identity, encode_key};
use fec_transport::overlay::Overlay;

/// Bytes of a full packet: symbol, headers and tag.
pub(crate) const PACKET_BYTES: usize = 1_408 + fec_transport::SYMBOL_OVERHEAD;

/// Where the receiver listens.
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    control: u16,
    data: u16,
}

impl Ports {
    /// Ports that were free a moment ago.
    pub(crate) fn free() -> anyhow::Result<Ports> {
        let sockets =
            [UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?];
        let [control, data] =
            sockets.each_ref().map(|socket| socket.local_addr().map(|address| address.port()));
        Ok(Ports { control: control?, data: data? })
    }

    pub(crate) fn data(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.data).into()
    }

    pub(crate) fn control(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.control).into()
    }

    pub(crate) fn overlay(&self) -> anyhow::Result<Arc<Overlay>> {
        let member = |name: &str| {
            let keys = identity(name).public();
            let (ed25519, x25519) = (encode_key(&keys.ed25519), encode_key(&keys.x25519));
            format!("[[member]]\nname = \"{name}\"\ned25519 = \"{ed25519}\"\nx25519 = \"{x25519}\"\n")
        };
        let addresses =
            format!("control = \"127.0.0.1:{}\"\ndata = \"127.0.0.1:{}\"\n", self.control, self.data);
        let link = |a: &str| format!("[[link]]\na = \"{a}\"\nb = \"receiver\"\n");
        let members = member("sender") + &member("joiner") + &member("receiver") + &addresses;
        Ok(Arc::new(Overlay::parse(&(members + &link("sender") + &link("joiner")))?))
    }
}

/// The keys of a member of this scene: nobody else's.
pub(crate) fn identity(name: &str) -> Identity {
    Identity::from_seed(*blake3::hash(name.as_bytes()).as_bytes())
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.control, self.data)
    }
}

impl FromStr for Ports {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Ports> {
        let (control, data) = text.split_once(',').context("two ports")?;
        Ok(Ports { control: control.parse()?, data: data.parse()? })
    }
}
