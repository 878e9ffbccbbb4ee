//! Free ports on loopback for the members of a local overlay.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use ring::rand::{SecureRandom as _, SystemRandom};

use crate::exit::{Exit, Failure};

/// Ports below those that the system gives to whoever asks for any (32768 on Linux, 49152 elsewhere), so that nobody
/// gets one of ours by chance while its member is down.
const FIRST: u16 = 10_000;
const LAST: u16 = 31_999;

/// Finds free ports; holds them, so that it gives none twice.
pub(super) struct Ports {
    next: u16,
    tries: u16,
    held: Vec<UdpSocket>,
}

impl Ports {
    /// Begins at a random port, so that overlays that are not running seldom share one.
    pub(super) fn new() -> Ports {
        let mut random = [0; 2];
        // Without randomness any other beginning does as well.
        let _ = SystemRandom::new().fill(&mut random);
        let range = LAST - FIRST + 1;
        Ports { next: FIRST + u16::from_be_bytes(random) % range, tries: range, held: Vec::new() }
    }

    /// The next free port of 127.0.0.1.
    pub(super) fn take(&mut self) -> Result<SocketAddr, Failure> {
        while self.tries > 0 {
            self.tries -= 1;
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.next));
            self.next = if self.next == LAST { FIRST } else { self.next + 1 };
            if let Ok(socket) = UdpSocket::bind(address) {
                self.held.push(socket);
                return Ok(address);
            }
        }
        let held = self.held.len();
        let message = format!("no free UDP port on 127.0.0.1 from {FIRST} to {LAST} after {held} were taken");
        Err(Failure::new(Exit::Failed, message))
    }
}
