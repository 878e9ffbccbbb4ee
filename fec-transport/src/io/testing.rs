//! Small overlays on loopback for the tests of this module.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;

use crate::keys::{Identity, encode_key};
use crate::overlay::{MemberId, Overlay, Reach};

/// An overlay whose listening members have sockets that are bound already, so that no port is guessed.
pub(super) struct Scene {
    /// As each of its members knows it.
    pub(super) overlay: Arc<Overlay>,
    pub(super) text: String,
    pub(super) sockets: Vec<(UdpSocket, UdpSocket)>,
}

impl Scene {
    /// `listening` members have addresses and relay for everybody, `clients` have none.
    pub(super) fn new(listening: &[&str], clients: &[&str], links: &[(&str, &str)]) -> Scene {
        let (mut text, mut sockets) = (String::new(), Vec::new());
        for name in listening {
            let (control, data) = (loopback(), loopback());
            let addresses = [&control, &data].map(|socket| socket.local_addr().expect("bound"));
            let rest =
                format!("control = \"{}\"\ndata = \"{}\"\nrelay_for = [\"*\"]\n", addresses[0], addresses[1]);
            text.push_str(&(entry(name) + &rest));
            sockets.push((control, data));
        }
        for name in clients {
            text.push_str(&entry(name));
            sockets.push((loopback(), loopback()));
        }
        for (a, b) in links {
            write!(text, "[[link]]\na = \"{a}\"\nb = \"{b}\"\n").expect("into a string");
        }
        Scene { overlay: parse(&text), text, sockets }
    }

    /// The same, but `a` reaches `b` at other addresses than `b`'s own.
    pub(super) fn with_reach(mut self, a: &str, b: &str, reach: Reach) -> Scene {
        let link = format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\n");
        let Reach { control, data } = reach;
        let way = format!("{link}a_to_b = {{ control = \"{control}\", data = \"{data}\" }}\n");
        self.text = self.text.replace(&link, &way);
        self.overlay = parse(&self.text);
        self
    }

    /// The next overlay file, with the same members and these links, as a process takes it that runs with this one.
    pub(super) fn next(&self, links: &[(&str, &str)]) -> (Arc<Overlay>, String) {
        let members = self.text.split("[[link]]").next().unwrap_or_default();
        let mut text = format!("serial = {}\n{members}", self.overlay.serial + 1);
        for (a, b) in links {
            write!(text, "[[link]]\na = \"{a}\"\nb = \"{b}\"\n").expect("into a string");
        }
        let merged = self.overlay.succeeded_by(&parse(&text)).expect("it is newer");
        (Arc::new(merged), text)
    }

    /// The member of that name.
    pub(super) fn member(&self, name: &str) -> MemberId {
        self.overlay.find(name).expect("a member of the scene")
    }

    /// A second handle on the control socket of a member.
    pub(super) fn control_socket(&self, name: &str) -> UdpSocket {
        self.sockets[usize::from(self.member(name).0)].0.try_clone().expect("a socket")
    }
}

/// The keys of the member of that name.
pub(super) fn identity(name: &str) -> Identity {
    Identity::from_seed(*blake3::hash(name.as_bytes()).as_bytes())
}

/// A socket on a free port.
pub(super) fn loopback() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port on loopback")
}

fn parse(text: &str) -> Arc<Overlay> {
    Arc::new(Overlay::parse(text).expect("a right overlay"))
}

fn entry(name: &str) -> String {
    let keys = identity(name).public();
    let (ed25519, x25519) = (encode_key(&keys.ed25519), encode_key(&keys.x25519));
    format!("[[member]]\nname = \"{name}\"\ned25519 = \"{ed25519}\"\nx25519 = \"{x25519}\"\n")
}
