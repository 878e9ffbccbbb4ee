//! Where a page is served.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use program::output;

/// Where a page is served; by default at a free port of this machine that nobody else reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WebAddress(SocketAddr);

/// What the option is when it stands alone.
pub(crate) const LOOPBACK: &str = "127.0.0.1:0";

impl WebAddress {
    /// The address that was typed: with a port, or a port alone, which is one of loopback.
    pub(crate) fn parse(text: &str) -> Result<WebAddress, String> {
        let local = text.strip_prefix("localhost:").unwrap_or(text);
        if let Ok(port) = local.parse() {
            return Ok(WebAddress(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
        }
        let typed = text.parse().map(WebAddress);
        typed
            .map_err(|_| "expected an address such as 127.0.0.1:8080; other operands stand before".to_owned())
    }

    pub(super) fn socket(self) -> SocketAddr {
        self.0
    }

    /// Whether others than this machine may reach it.
    fn is_open(self) -> bool {
        match self.0.ip() {
            IpAddr::V6(ip) => !ip.to_ipv4_mapped().map_or(ip.is_loopback(), |ip| ip.is_loopback()),
            IpAddr::V4(ip) => !ip.is_loopback(),
        }
    }

    /// Says what it means that others may reach it.
    pub(super) fn warn_if_open(self) {
        if self.is_open() {
            output::note(format_args!(
                "warning: {} is reached from other machines, and what travels there is not encrypted: whoever sees \
                 the page's address in passing sees names, routes and rates. An SSH tunnel to a page on loopback does \
                 without that",
                self.0
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_port_and_is_loopback_unless_another_is_named() {
        let parsed = |text| WebAddress::parse(text).map(|address| address.0.to_string());
        assert_eq!(parsed(LOOPBACK).as_deref(), Ok("127.0.0.1:0"));
        assert_eq!(parsed("8080").as_deref(), Ok("127.0.0.1:8080"));
        assert_eq!(parsed("localhost:8080").as_deref(), Ok("127.0.0.1:8080"));
        assert_eq!(parsed("[::1]:80").as_deref(), Ok("[::1]:80"));
        assert_eq!(parsed("192.0.2.1:80").as_deref(), Ok("192.0.2.1:80"));
        for wrong in ["", "127.0.0.1", "photos", "/tmp/photos", "example.org:80", "70000"] {
            assert!(parsed(wrong).unwrap_err().contains("127.0.0.1:8080"), "{wrong}");
        }
    }

    #[test]
    fn what_others_reach_is_warned_of() {
        let open = |text| WebAddress::parse(text).expect("an address").is_open();
        assert!(open("0.0.0.0:0") && open("[::]:0") && open("192.0.2.1:1") && open("[::ffff:192.0.2.1]:1"));
        assert!(
            !open("127.0.0.1:0") && !open("127.9.9.9:0") && !open("[::1]:0") && !open("[::ffff:127.0.0.1]:0")
        );
    }
}
