//! The library's beginning and end.

use std::ffi::{c_char, c_int};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use fec_transport::io::message::{Messenger, MessengerConfig, QuicConfig, StartError, process_exchange};
use fec_transport::io::{BindError, EndpointConfig, EndpointError};
use fec_transport::message::memory::JoinError;

use crate::addresses::Addresses;
use crate::config::Membership;
use crate::error::{Code, Failure, Outcome, call};
use crate::leftover::Leftover;
use crate::library::{Library, shared, text};
use crate::operations::Operations;

const INIT_SERVER: c_int = 1;
const TCP_BIND_SPECIFIC: c_int = 2;
const AUTO_REF_COUNT: c_int = 4;

/// The networks that there are, as BMI names its modules.
const MODULES: [&str; 3] = ["bmi_memory", "bmi_fec", "bmi_quic"];

/// What the process is called within itself if it does not listen there: whoever looks up another address that it
/// listens at comes to it by this one.
const ITSELF: &str = "bmi";

/// What a program wants of the library when it begins.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wishes<'a> {
    /// The networks by their schemes.
    networks: Vec<&'a str>,
    /// Where to listen: scheme and place.
    listen: Vec<(&'a str, &'a str)>,
}

impl<'a> Wishes<'a> {
    /// `is_member` tells whether the process has what a member needs; without it a client does without such networks.
    fn new(
        methods: Option<&'a str>,
        addresses: Option<&'a str>,
        flags: c_int,
        is_member: bool,
    ) -> Outcome<Wishes<'a>> {
        if flags & !(INIT_SERVER | TCP_BIND_SPECIFIC | AUTO_REF_COUNT) != 0 {
            return Err(Failure::argument(format!("the flags {flags:#x} are not all known")));
        }
        let listen = addresses.map(listed).into_iter().flatten().map(|address| {
            let bad = || Failure::argument(format!("\"{address}\" is no address; expected SCHEME://PLACE"));
            address.split_once("://").ok_or_else(bad)
        });
        let listen: Vec<(&str, &str)> = listen.collect::<Outcome<_>>()?;
        if (flags & INIT_SERVER != 0) == listen.is_empty() {
            let words = "BMI_INIT_SERVER and addresses to listen at are given together, or neither of them";
            return Err(Failure::argument(words));
        }
        let networks = match methods {
            Some(methods) => listed(methods).map(scheme).collect::<Outcome<_>>()?,
            None if listen.is_empty() && is_member => {
                MODULES.into_iter().map(scheme).collect::<Outcome<_>>()?
            }
            None if listen.is_empty() => vec!["memory"],
            None => listen.iter().map(|(scheme, _)| *scheme).collect(),
        };
        let wishes = Wishes { networks, listen };
        wishes.check()?;
        Ok(wishes)
    }

    fn check(&self) -> Outcome<()> {
        for scheme in &self.networks {
            if !MODULES.iter().any(|module| module.strip_prefix("bmi_") == Some(scheme)) {
                return Err(no_module(&format!("{scheme}://")));
            }
        }
        for (index, (scheme, place)) in self.listen.iter().enumerate() {
            if !self.networks.contains(scheme) {
                let words =
                    format!("{scheme}://{place} is to be listened at, but bmi_{scheme} is not in the list");
                return Err(Failure::argument(words));
            }
            if self.listen[..index].iter().any(|(other, _)| other == scheme) {
                return Err(Failure::argument(format!("two addresses of {scheme}:// to listen at")));
            }
        }
        Ok(())
    }

    fn listen(&self, scheme: &str) -> Option<&'a str> {
        self.listen.iter().find(|(other, _)| *other == scheme).map(|(_, place)| *place)
    }
}

/// The parts of a list that is separated by commas.
fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

fn scheme(module: &str) -> Outcome<&str> {
    module.strip_prefix("bmi_").ok_or_else(|| no_module(module))
}

fn no_module(name: &str) -> Failure {
    Failure::new(Code::ENOPROTOOPT, format!("there is no network {name}; there are {}", MODULES.join(", ")))
}

impl Library {
    fn start(wishes: &Wishes<'_>, membership: Option<Membership>, counts_senders: bool) -> Outcome<Library> {
        let within = wishes.listen("memory").unwrap_or(ITSELF);
        let mut config = MessengerConfig::new().memory(process_exchange(), within);
        let overlay = membership.as_ref().map(|membership| Arc::clone(&membership.overlay));
        if wishes.networks.contains(&"fec") {
            config = config.sessions(sessions(wishes, membership.as_ref())?);
        }
        if wishes.networks.contains(&"quic") {
            config = config.quic(connections(wishes, membership.as_ref())?);
        }
        Ok(Library {
            messenger: Messenger::start(config)?,
            operations: Operations::default(),
            addresses: Addresses::default(),
            leftover: Leftover::default(),
            overlay,
            listens_at: wishes.listen.iter().map(|(scheme, place)| format!("{scheme}://{place}")).collect(),
            within: format!("memory://{within}"),
            counts_senders,
        })
    }

    /// Gives up what is pending, waits until the network has let go of the callers' memory, and parts from peers.
    fn end(&self) {
        for context in self.operations.contexts() {
            self.messenger.close_context(context);
            self.operations.close(context);
        }
        self.messenger.clone().shutdown();
    }
}

/// As the member at which the process listens, or which it is anyway.
fn sessions(wishes: &Wishes<'_>, membership: Option<&Membership>) -> Outcome<EndpointConfig> {
    let membership = membership.ok_or_else(|| Membership::missing("fec"))?;
    if let Some(place) = wishes.listen("fec") {
        membership.check_name(place)?;
    }
    Ok(EndpointConfig::new(Arc::clone(&membership.overlay), membership.identity.clone()))
}

/// With everybody in the overlay, from where the process listens, `MEMBER@HOST:PORT` or `HOST:PORT`, or from anywhere.
fn connections(wishes: &Wishes<'_>, membership: Option<&Membership>) -> Outcome<QuicConfig> {
    let membership = membership.ok_or_else(|| Membership::missing("quic"))?;
    let socket = match wishes.listen("quic") {
        None => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))
            .or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))),
        Some(place) => {
            let address = match place.split_once('@') {
                None => place,
                Some((name, address)) => {
                    membership.check_name(name)?;
                    address
                }
            };
            let bad = |_| {
                Failure::argument(format!("\"{address}\" is no address and port, such as 192.0.2.7:7100"))
            };
            UdpSocket::bind(address.parse::<SocketAddr>().map_err(bad)?)
        }
    };
    let socket = socket.map_err(|error| {
        let code = match error.kind() {
            ErrorKind::AddrInUse => Code::EADDRINUSE,
            ErrorKind::AddrNotAvailable => Code::EADDRNOTAVAIL,
            _ => Code::EDEVINIT,
        };
        Failure::new(code, format!("quic://{}: {error}", wishes.listen("quic").unwrap_or("any address")))
    })?;
    let peers = membership.overlay.members().iter().map(|member| member.keys.ed25519).collect();
    Ok(QuicConfig { identity: membership.identity.clone(), socket, peers })
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Failure {
        let code = match &error {
            StartError::Memory(JoinError::Taken(_))
            | StartError::Endpoint(EndpointError::Bind(BindError::InUse { .. })) => Code::EADDRINUSE,
            StartError::Endpoint(EndpointError::Bind(BindError::NotHere { .. })) => Code::EADDRNOTAVAIL,
            StartError::Memory(JoinError::BadName { .. }) => Code::EINVAL,
            StartError::Endpoint(_) | StartError::Tls(_) | StartError::Thread(_) => Code::EDEVINIT,
        };
        Failure::new(code, with_causes(&error))
    }
}

/// An error with what is behind it.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !words.ends_with(&text) {
            words += &format!(": {text}");
        }
        cause = error.source();
    }
    words
}

/// # Safety
/// `method_list` and `listen_addr` are null, or end with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_initialize(
    method_list: *const c_char,
    listen_addr: *const c_char,
    flags: c_int,
) -> c_int {
    call(|| {
        let mut shared = shared();
        if shared.library.is_none() {
            // SAFETY: as this function's.
            let (methods, addresses) =
                unsafe { (text(method_list, "the list of networks")?, text(listen_addr, "the address")?) };
            let membership = Membership::load()?;
            let wishes = Wishes::new(methods, addresses, flags, membership.is_some())?;
            let library = Library::start(&wishes, membership, flags & AUTO_REF_COUNT != 0)?;
            shared.library = Some(Arc::new(library));
        }
        shared.users += 1;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn BMI_finalize() -> c_int {
    call(|| {
        let mut shared = shared();
        let ended = match shared.users {
            0 => return Err(Failure::new(Code::ENETDOWN, "BMI_initialize was not called")),
            1 => shared.library.take(),
            _ => None,
        };
        shared.users -= 1;
        if let Some(library) = ended {
            library.end();
        }
        Ok(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_those_of_the_list_else_of_the_addresses_else_all() {
        let networks = |methods, addresses, flags| {
            Wishes::new(methods, addresses, flags, false).map(|wishes| wishes.networks)
        };
        assert_eq!(networks(None, None, 0).expect("right"), ["memory"]);
        let all: Vec<_> = MODULES.iter().map(|module| &module[4..]).collect();
        assert_eq!(Wishes::new(None, None, 0, true).expect("right").networks, all);
        assert_eq!(
            networks(None, Some("fec://a, memory://b"), INIT_SERVER).expect("right"),
            ["fec", "memory"]
        );
        assert_eq!(networks(Some("bmi_memory"), None, 0).expect("right"), ["memory"]);
        assert_eq!(networks(None, Some("memory://a"), INIT_SERVER).expect("right"), ["memory"]);
        for (methods, addresses, flags) in [
            (None, None, INIT_SERVER),
            (None, Some("memory://a"), 0),
            (None, Some("a"), INIT_SERVER),
            (None, Some("memory://a,memory://b"), INIT_SERVER),
            (Some("bmi_tcp"), None, 0),
            (Some("memory"), None, 0),
            (Some("bmi_tcp"), Some("memory://a"), INIT_SERVER),
            (None, None, 8),
        ] {
            assert!(networks(methods, addresses, flags).is_err(), "{methods:?} {addresses:?} {flags}");
        }
    }
}
