//! The sockets of a process, and where they are bound: a pair for the links that name no uplink, and one for each
//! uplink that a link names.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

#[cfg(target_os = "linux")]
use nix::net::if_::{if_nameindex, if_nametoindex};
#[cfg(target_os = "linux")]
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};

use super::uplinks::Incarnation;
use crate::overlay::{LinkId, MemberId, Overlay, Uplink};

/// The bound sockets of the two planes.
#[derive(Debug)]
pub struct Sockets {
    /// The socket of the control plane.
    pub control: UdpSocket,
    /// The socket of the data plane.
    pub data: UdpSocket,
}

/// Which pair of a process's sockets: that of an uplink, or the one for links that name none.
pub(super) type Local = Option<Uplink>;

/// The pair of sockets that each link of a member uses.
///
/// An uplink that is the member's own address is no uplink of its own: the socket that is bound there serves both.
pub(super) fn locals(overlay: &Overlay, member: MemberId) -> BTreeMap<LinkId, Local> {
    let entry = overlay.member(member);
    let own = |ip: IpAddr| {
        let is_it = |address: Option<SocketAddr>| address.is_some_and(|address| address.ip() == ip);
        is_it(entry.control) && is_it(entry.data)
    };
    let local = |link: LinkId| match overlay.link(link).uplink(member) {
        Some(Uplink::Address(ip)) if own(*ip) => None,
        uplink => uplink.cloned(),
    };
    overlay.links_of(member).map(|(link, _)| (link, local(link))).collect()
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
    #[error("the {plane} address {} belongs to no interface of this machine", address.ip())]
    NotHere {
        /// The plane.
        plane: Plane,
        /// The address.
        address: SocketAddr,
    },
    /// The machine does not have the interface.
    #[error("this machine has no interface \"{interface}\"; it has {there}")]
    NoInterface {
        /// The interface's name.
        interface: String,
        /// The names of those that it has.
        there: String,
    },
    /// The system does not bind a socket to the interface.
    #[error("cannot bind a socket of the {plane} plane to interface {interface}")]
    Interface {
        /// The plane.
        plane: Plane,
        /// The interface's name.
        interface: String,
        /// What the system says.
        #[source]
        cause: io::Error,
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

impl BindError {
    /// Whether what is missing may come: an address or an interface that the machine does not have now.
    pub(super) fn is_absence(&self) -> bool {
        matches!(self, BindError::NotHere { .. } | BindError::NoInterface { .. })
    }
}

/// Whether the machine has an uplink now.
pub(super) fn find(uplink: &Uplink) -> Option<Incarnation> {
    match uplink {
        // Not all of a machine's addresses are listed anywhere: of loopback's it has 2²⁴.
        Uplink::Address(ip) => UdpSocket::bind((*ip, 0)).ok().map(|_| Incarnation(0)),
        Uplink::Interface(name) => index_of(name).map(Incarnation),
    }
}

impl Sockets {
    /// Binds the addresses that the overlay file gives to `member`. Where it gives none, any free port from which the
    /// member's neighbours can be reached.
    ///
    /// # Errors
    /// Names the address that cannot be bound.
    pub fn for_member(overlay: &Overlay, member: MemberId) -> Result<Sockets, BindError> {
        let entry = overlay.member(member);
        let without_uplink =
            overlay.links_of(member).filter(|(link, _)| overlay.link(*link).uplink(member).is_none());
        let neighbours: Vec<_> = without_uplink.map(|(link, _)| overlay.reach(link, member)).collect();
        let control = entry.control.unwrap_or_else(|| any_port(neighbours.iter().filter_map(|way| way.0)));
        let data = entry.data.unwrap_or_else(|| any_port(neighbours.iter().filter_map(|way| way.1)));
        Sockets::bind(control, data)
    }

    /// Binds the sockets that links of `member` use which name `local`.
    pub(super) fn for_local(
        overlay: &Overlay,
        member: MemberId,
        local: &Local,
    ) -> Result<Sockets, BindError> {
        match local {
            None => Sockets::for_member(overlay, member),
            Some(uplink) => Sockets::for_uplink(overlay, member, uplink),
        }
    }

    /// Binds the sockets of an uplink of `member`, at the ports that its own addresses in the overlay file have; at any
    /// free ports if it has none.
    ///
    /// # Errors
    /// Names the address or the interface that cannot be bound. Of Linux's interfaces any may be; other systems refuse.
    pub fn for_uplink(overlay: &Overlay, member: MemberId, uplink: &Uplink) -> Result<Sockets, BindError> {
        let entry = overlay.member(member);
        let [control, data] = [entry.control, entry.data].map(|own| own.map_or(0, |own| own.port()));
        let interface = match uplink {
            Uplink::Address(ip) => {
                return Sockets::bind(SocketAddr::new(*ip, control), SocketAddr::new(*ip, data));
            }
            Uplink::Interface(name) => name,
        };
        let over = |link: &LinkId| overlay.link(*link).uplink(member) == Some(uplink);
        let links: Vec<LinkId> = overlay.links_of(member).map(|(link, _)| link).filter(over).collect();
        let there = links.iter().filter_map(|link| overlay.reach(*link, member).1);
        let ip = match there.chain(entry.data).all(|address| address.is_ipv4()) {
            true => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            false => Ipv6Addr::UNSPECIFIED.into(),
        };
        Ok(Sockets {
            control: bind_to(Plane::Control, SocketAddr::new(ip, control), Some(interface))?,
            data: bind_to(Plane::Data, SocketAddr::new(ip, data), Some(interface))?,
        })
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
    bind_to(plane, address, None)
}

fn bind_to(plane: Plane, address: SocketAddr, interface: Option<&str>) -> Result<UdpSocket, BindError> {
    let failed = |cause| BindError::Failed { plane, address, cause };
    let socket =
        Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP)).map_err(failed)?;
    if let Some(interface) = interface {
        bind_to_device(&socket, interface).map_err(|cause| refused(plane, interface, cause))?;
    }
    open(&socket, address).map_err(|cause| match cause.kind() {
        ErrorKind::AddrInUse => BindError::InUse { plane, address },
        ErrorKind::AddrNotAvailable => BindError::NotHere { plane, address },
        _ => BindError::Failed { plane, address, cause },
    })?;
    Ok(socket.into())
}

fn refused(plane: Plane, interface: &str, cause: io::Error) -> BindError {
    let interface = interface.to_owned();
    match index_of(&interface) {
        None => BindError::NoInterface { interface, there: interfaces().join(", ") },
        Some(_) => BindError::Interface { plane, interface, cause },
    }
}

/// The number of an interface, if the machine has one of that name. One that was removed and made again has another.
#[cfg(target_os = "linux")]
fn index_of(interface: &str) -> Option<u32> {
    if_nametoindex(interface).ok()
}

#[cfg(target_os = "linux")]
fn interfaces() -> Vec<String> {
    let names = if_nameindex()
        .map(|all| all.iter().map(|interface| interface.name().to_string_lossy().into_owned()).collect());
    names.unwrap_or_default()
}

/// Elsewhere no socket is bound to an interface; that is told when it is tried.
#[cfg(not(target_os = "linux"))]
fn index_of(_: &str) -> Option<u32> {
    Some(0)
}

#[cfg(not(target_os = "linux"))]
fn interfaces() -> Vec<String> {
    Vec::new()
}

/// What is sent leaves by that interface, and what comes by another one is not received.
#[cfg(target_os = "linux")]
fn bind_to_device(socket: &Socket, interface: &str) -> io::Result<()> {
    Ok(setsockopt(socket, sockopt::BindToDevice, &interface.into())?)
}

#[cfg(not(target_os = "linux"))]
fn bind_to_device(_: &Socket, _: &str) -> io::Result<()> {
    let words =
        "this system binds no sockets to interfaces; name the address of the interface in the overlay file";
    Err(io::Error::new(ErrorKind::Unsupported, words))
}

fn open(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    if address.is_ipv6() && address.ip().is_unspecified() {
        // Systems differ in their default; neighbours may have addresses of both families.
        socket.set_only_v6(false)?;
    }
    socket.bind(&address.into())
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

/// The form of `address` that a socket takes which is bound to IPv6: IPv4 addresses are mapped (RFC 4291 §2.5.5.2).
pub(super) fn mapped(address: SocketAddr, socket_is_ipv6: bool) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if socket_is_ipv6 => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        _ => address,
    }
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

    #[test]
    fn only_ipv4_addresses_on_an_ipv6_socket_are_mapped() {
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        assert_eq!(mapped(at("192.0.2.1:9"), true), at("[::ffff:192.0.2.1]:9"));
        assert_eq!(mapped(at("192.0.2.1:9"), false), at("192.0.2.1:9"));
        assert_eq!(mapped(at("[2001:db8::1]:9"), true), at("[2001:db8::1]:9"));
    }
}
