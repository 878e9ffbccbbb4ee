//! Overlays on loopback.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};
use fec_transport::keys::{Identity, encode_key};
use netsim::emulator::Endpoint;

/// The text of an overlay file that grows.
#[derive(Debug, Clone, Default)]
pub struct OverlayText(pub String);

impl OverlayText {
    /// Adds a member that listens on free ports; gives them.
    pub fn listener(&mut self, name: &str) -> Result<Endpoint> {
        let (control, data) = (free_address()?, free_address()?);
        self.member(name);
        writeln!(self.0, "control = \"{control}\"\ndata = \"{data}\"\nrelay_for = [\"*\"]")?;
        Ok(Endpoint { control: Some(control), data: Some(data) })
    }

    /// Adds a member that only dials.
    pub fn client(&mut self, name: &str) {
        self.member(name);
    }

    fn member(&mut self, name: &str) {
        let keys = identity(name).public();
        let (ed25519, x25519) = (encode_key(&keys.ed25519), encode_key(&keys.x25519));
        self.0 += &format!("[[member]]\nname = \"{name}\"\ned25519 = \"{ed25519}\"\nx25519 = \"{x25519}\"\n");
    }

    /// Adds a link; `rest` are further lines of its entry.
    pub fn link(&mut self, a: &str, b: &str, rest: &str) {
        self.0 += &format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\n{rest}");
    }

    /// client – r1 – … – server with so many relays. The names of the relays come with it.
    pub fn chain(relays: usize) -> Result<(OverlayText, Vec<String>)> {
        let mut text = OverlayText::default();
        let relays: Vec<String> = (1..=relays).map(|number| format!("r{number}")).collect();
        text.client("client");
        for name in relays.iter().map(String::as_str).chain(["server"]) {
            text.listener(name)?;
        }
        let mut links = OverlayText::default();
        let mut before = "client";
        for name in relays.iter().map(String::as_str).chain(["server"]) {
            links.link(before, name, "");
            before = name;
        }
        text.0 += &links.0;
        Ok((text, relays))
    }
}

/// The keys of the member of that name.
pub fn identity(name: &str) -> Identity {
    Identity::from_seed(*blake3::hash(name.as_bytes()).as_bytes())
}

/// Ports below those that the kernel gives to sockets that ask for any port: they begin at 32,768 (Linux) or later.
const PORTS: std::ops::Range<u32> = 10_000..32_000;

/// An address on loopback that is free, and stays so until a member uses it: its port is from 10,000 to 31,999, which
/// the kernel gives to nobody by itself. The emulator binds sockets before the members do, and the kernel could give
/// them a port that was only free a moment ago.
///
/// # Errors
/// All ports are in use.
pub fn free_address() -> Result<SocketAddr> {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let count = PORTS.end - PORTS.start;
    // Processes that run at once begin elsewhere.
    let first = std::process::id().wrapping_mul(61);
    let ports = (0..count).map(|_| first.wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed)) % count);
    let mut addresses =
        ports.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, (PORTS.start + port) as u16)));
    addresses.find(|address| UdpSocket::bind(address).is_ok()).context("no port is free on loopback")
}
