//! The two sockets of a process, and where they are bound.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

use crate::overlay::{MemberId, Overlay};

/// The bound sockets of the two planes.
#[derive(Debug)]
pub struct Sockets {
    /// The socket of the control plane.
    pub control: UdpSocket,
    /// The socket of the data plane.
    pub data: UdpSocket,
}

/// One of the two planes (design §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plane {
    /// Circuits are set up and torn down here.
    Control,
    /// Packets travel here.
    Data,
}

/// Why a socket cannot be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody else has the port.
    #[error("the {plane} address {address} is in use by another process")]
    InUse {
        /// The plane.
        plane: Plane,
        /// The address.
        address: SocketAddr,
    },
    /// The machine does not have the address.
    #[error("the {plane} address {address} belongs to no interface of this machine")]
    NotHere {
        /// The plane.
        plane: Plane,
        /// The address.
        address: SocketAddr,
    },
    /// Anything else.
    #[error("cannot bind the {plane} address {address}")]
    Failed {
        /// The plane.
        plane: Plane,
        /// The address.
        address: SocketAddr,
        /// What the system says.
        #[source]
        cause: io::Error,
    },
}

impl Sockets {
    /// Binds the addresses that the overlay file gives to `member`. Where it gives none, any free port from which the
    /// member's neighbours can be reached.
    ///
    /// # Errors
    /// Names the address that cannot be bound.
    pub fn for_member(overlay: &Overlay, member: MemberId) -> Result<Sockets, BindError> {
        let entry = overlay.member(member);
        let neighbours: Vec<_> =
            overlay.links_of(member).map(|(link, _)| overlay.reach(link, member)).collect();
        let control = entry.control.unwrap_or_else(|| any_port(neighbours.iter().filter_map(|way| way.0)));
        let data = entry.data.unwrap_or_else(|| any_port(neighbours.iter().filter_map(|way| way.1)));
        Sockets::bind(control, data)
    }

    /// Binds the given addresses: for a member that is reached at other addresses than its own, behind a port
    /// forwarding for instance.
    ///
    /// # Errors
    /// Names the address that cannot be bound.
    pub fn bind(control: SocketAddr, data: SocketAddr) -> Result<Sockets, BindError> {
        Ok(Sockets { control: bind(Plane::Control, control)?, data: bind(Plane::Data, data)? })
    }
}

impl fmt::Display for Plane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Plane::Control => "control",
            Plane::Data => "data",
        })
    }
}

fn bind(plane: Plane, address: SocketAddr) -> Result<UdpSocket, BindError> {
    open(address).map_err(|cause| match cause.kind() {
        ErrorKind::AddrInUse => BindError::InUse { plane, address },
        ErrorKind::AddrNotAvailable => BindError::NotHere { plane, address },
        _ => BindError::Failed { plane, address, cause },
    })
}

fn open(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        // Systems differ in their default; neighbours may have addresses of both families.
        socket.set_only_v6(false)?;
    }
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// The address to bind for a member that only has to reach `neighbours`: not reachable from outside if they are all on
/// this machine, and of IPv6, which reaches both families, only if one of them needs it.
fn any_port(neighbours: impl Iterator<Item = SocketAddr> + Clone) -> SocketAddr {
    let all = |fits: fn(IpAddr) -> bool| neighbours.clone().all(|neighbour| fits(neighbour.ip()));
    let ip = match (all(|ip| ip.is_ipv4()), all(|ip| ip.is_loopback()), all(|ip| ip.is_ipv6())) {
        (true, true, _) => Ipv4Addr::LOCALHOST.into(),
        (true, false, _) => Ipv4Addr::UNSPECIFIED.into(),
        (false, true, true) => Ipv6Addr::LOCALHOST.into(),
        (false, _, _) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    SocketAddr::new(ip, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::testing::Scene;

    #[test]
    fn a_free_port_is_taken_where_the_neighbours_can_be_reached() {
        let chosen = |neighbours: &[&str]| {
            let neighbours = neighbours.iter().map(|text| text.parse().expect("an address"));
            any_port(neighbours).ip().to_string()
        };
        assert_eq!(chosen(&["127.0.0.1:1", "127.0.0.2:1"]), "127.0.0.1");
        assert_eq!(chosen(&["127.0.0.1:1", "192.0.2.1:1"]), "0.0.0.0");
        assert_eq!(chosen(&["[::1]:1"]), "::1");
        assert_eq!(chosen(&["[::1]:1", "127.0.0.1:1"]), "::");
        assert_eq!(chosen(&["[2001:db8::1]:1", "192.0.2.1:1"]), "::");
        assert_eq!(chosen(&[]), "127.0.0.1");
    }

    #[test]
    fn an_address_in_use_is_named_with_its_plane() {
        let scene = Scene::new(&["relay"], &["client"], &[("client", "relay")]);
        let error = Sockets::for_member(&scene.overlay, scene.member("relay")).expect_err("the scene has it");
        let address = scene.overlay.member(scene.member("relay")).control.expect("it listens");
        assert_eq!(error.to_string(), format!("the control address {address} is in use by another process"));
        let client = Sockets::for_member(&scene.overlay, scene.member("client")).expect("any port");
        assert!(client.data.local_addr().expect("bound").ip().is_loopback());
    }

    #[test]
    fn an_address_of_another_machine_is_named() {
        let (here, elsewhere) = ("127.0.0.1:0", "192.0.2.1:0");
        let error = Sockets::bind(here.parse().expect("an address"), elsewhere.parse().expect("an address"));
        let error = error.expect_err("192.0.2.0/24 is for documentation only");
        assert!(matches!(error, BindError::NotHere { plane: Plane::Data, .. }), "{error:?}");
    }
}
