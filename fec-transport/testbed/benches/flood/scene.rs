//! A sender, a receiver and somebody who connects to it, on loopback, perhaps over a link that takes its time.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use fec_transport::keys::{Identity, encode_key};
use fec_transport::overlay::Overlay;
use netsim::emulator::{EmulatedLink, Emulator, Endpoint};
use netsim::{LinkModel, Rate};

/// Bytes of a full packet: symbol, headers and tag.
pub(crate) const PACKET_BYTES: usize = 1_408 + fec_transport::SYMBOL_OVERHEAD;

/// Where the stranger is: in another network than the members, as strangers are.
pub(crate) const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 77, 0, 1);

/// Where the receiver listens, and where the one who connects reaches it.
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    control: u16,
    data: u16,
    joins_control: u16,
    joins_data: u16,
}

/// The rate of the link over which somebody connects, whose queue a few packets of a handshake do not fill.
const RATE_MBIT: u64 = 100;

impl Ports {
    /// Ports that were free a moment ago.
    pub(crate) fn free() -> anyhow::Result<Ports> {
        let sockets =
            [UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?];
        let [control, data] =
            sockets.each_ref().map(|socket| socket.local_addr().map(|address| address.port()));
        let (control, data) = (control?, data?);
        Ok(Ports { control, data, joins_control: control, joins_data: data })
    }

    /// Puts the one who connects behind a link with that round trip, which ends with the emulator; its work is done by
    /// the runtime in which this is called.
    pub(crate) fn behind_link(self, round_trip: Duration) -> anyhow::Result<(Ports, Emulator)> {
        let receiver = Endpoint { control: Some(self.control()), data: Some(self.data()) };
        let model = LinkModel::new(Rate::from_mbit(RATE_MBIT), round_trip / 2);
        let link = EmulatedLink::new("joiner-receiver", Endpoint::default(), receiver, model.clone(), model);
        let emulator = Emulator::start(vec![link], 1)?;
        let ends = emulator.links()[0].ports().a_to_b;
        let (control, data) = ends.control.zip(ends.data).context("the link has two ports")?;
        Ok((Ports { joins_control: control.port(), joins_data: data.port(), ..self }, emulator))
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
        let way = format!(
            "a_to_b = {{ control = \"127.0.0.1:{}\", data = \"127.0.0.1:{}\" }}\n",
            self.joins_control, self.joins_data
        );
        let members = member("sender") + &member("joiner") + &member("receiver") + &addresses;
        Ok(Arc::new(Overlay::parse(&(members + &link("sender") + &link("joiner") + &way))?))
    }
}

/// The keys of a member of this scene: nobody else's.
pub(crate) fn identity(name: &str) -> Identity {
    Identity::from_seed(*blake3::hash(name.as_bytes()).as_bytes())
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{},{}", self.control, self.data, self.joins_control, self.joins_data)
    }
}

impl FromStr for Ports {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Ports> {
        let ports = text.split(',').map(str::parse).collect::<Result<Vec<u16>, _>>()?;
        let [control, data, joins_control, joins_data] = ports.try_into().ok().context("four ports")?;
        Ok(Ports { control, data, joins_control, joins_data })
    }
}
