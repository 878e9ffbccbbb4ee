//! Links: between which members they are, from where and to where, and what is known of them.

use core::fmt;
use core::net::{IpAddr, SocketAddr};

use serde::Deserialize;

use super::MemberId;

/// A link between two members, usable in both directions. Several links may join the same two members; then each of
/// them has a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// One end.
    pub a: MemberId,
    /// The other end.
    pub b: MemberId,
    /// Tells the links between the same two members apart; empty if it is the only one and has none.
    pub name: String,
    /// What people here call it: its name, and behind it the uplink where this process's config says over which it
    /// goes.
    pub label: String,
    /// Capacity in Mbit/s, if known.
    pub capacity_mbit: Option<f64>,
    /// Propagation delay in ms, if known.
    pub delay_ms: Option<f64>,
    /// Share of packets that it loses, if known.
    pub loss: Option<f64>,
    /// Over which uplink `a` sends; none for whichever its routes say.
    pub a_from: Option<Uplink>,
    /// Over which uplink `b` sends.
    pub b_from: Option<Uplink>,
    /// Where `a` is reached over this link, if not at its own addresses.
    pub a_at: Option<Reach>,
    /// Where `b` is reached over this link, if not at its own addresses.
    pub b_at: Option<Reach>,
}

/// The pair of addresses at which one member reaches another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reach {
    /// For the control plane.
    pub control: SocketAddr,
    /// For the data plane.
    pub data: SocketAddr,
}

/// One of the ways by which a member's machine is joined to the network.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Uplink {
    /// What is sent over it bears this address.
    Address(IpAddr),
    /// What is sent over it leaves by this interface, with the address that the interface has.
    Interface(String),
}

/// The longest name of an interface in bytes (IFNAMSIZ of Linux, less the final zero).
const MAX_INTERFACE: usize = 15;

impl Link {
    /// Over which uplink `from`, one of its ends, sends.
    pub fn uplink(&self, from: MemberId) -> Option<&Uplink> {
        if self.a == from { self.a_from.as_ref() } else { self.b_from.as_ref() }
    }

    /// The other end of the link, if `one` is one of its ends.
    pub fn other_end(&self, one: MemberId) -> Option<MemberId> {
        match (self.a == one, self.b == one) {
            (true, _) => Some(self.b),
            (_, true) => Some(self.a),
            _ => None,
        }
    }
}

impl Uplink {
    /// Reads an address, or the name of an interface; none if it can be neither.
    ///
    /// ```
    /// use fec_transport::overlay::Uplink;
    ///
    /// assert_eq!(Uplink::parse("wwan0"), Some(Uplink::Interface("wwan0".to_owned())));
    /// assert_eq!(Uplink::parse("::1"), Some(Uplink::Address("::1".parse().expect("an address"))));
    /// assert_eq!(Uplink::parse("10.0.0.1:7000"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Uplink> {
        if let Ok(address) = text.parse() {
            return Some(Uplink::Address(address));
        }
        let fits = |byte: u8| byte.is_ascii_graphic() && byte != b'/' && byte != b':';
        let is_name = (1..=MAX_INTERFACE).contains(&text.len()) && text.bytes().all(fits);
        is_name.then(|| Uplink::Interface(text.to_owned()))
    }
}

impl fmt::Display for Uplink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Uplink::Address(address) => write!(f, "{address}"),
            Uplink::Interface(name) => f.write_str(name),
        }
    }
}
