//! Floods a data socket.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Bytes of a full packet: symbol, headers and tag.
const PACKET_BYTES: usize = 1_468;
/// Packets at once, between looks at the clock.
const BURST: u64 = 50;

/// With what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attack {
    /// Random bytes with a right first one: no label is known.
    Garbage,
    /// Packets of the transfer, as they were.
    Replay,
    /// Headers of such packets, with fresh numbers, over other bodies.
    OtherBody,
}

impl Attack {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Attack::Garbage => "garbage",
            Attack::Replay => "replayed packets",
            Attack::OtherBody => "labels over other bodies",
        }
    }
}

pub(crate) struct Attacker {
    socket: UdpSocket,
    captured: Vec<Vec<u8>>,
    per_second: u64,
}

impl Attacker {
    pub(crate) fn new(to: SocketAddr, captured: Vec<Vec<u8>>, per_second: u64) -> anyhow::Result<Attacker> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(to)?;
        Ok(Attacker { socket, captured, per_second })
    }

    /// Floods, or is quiet, for that long; gives how many packets it sent.
    pub(crate) fn attack(&mut self, attack: Option<Attack>, span: Duration) -> anyhow::Result<u64> {
        let Some(attack) = attack else {
            std::thread::sleep(span);
            return Ok(0);
        };
        let packets = self.packets(attack);
        let (started, mut sent) = (Instant::now(), 0);
        while started.elapsed() < span {
            let due = (started.elapsed().as_secs_f64() * self.per_second as f64) as u64;
            while sent < due.min(sent + BURST) {
                let packet = &packets[sent as usize % packets.len()];
                // A full socket buffer loses it, as a network would.
                let _ = self.socket.send(packet);
                sent += 1;
            }
            if sent >= due {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        Ok(sent)
    }

    fn packets(&self, attack: Attack) -> Vec<Vec<u8>> {
        let noise = |index: usize| {
            let mut bytes = vec![0; PACKET_BYTES];
            blake3::Hasher::new().update(&index.to_be_bytes()).finalize_xof().fill(&mut bytes);
            bytes
        };
        let changed = |(index, packet): (usize, &Vec<u8>)| match attack {
            Attack::Replay => packet.clone(),
            Attack::Garbage => {
                let mut garbage = noise(index);
                garbage[0] = 1;
                garbage
            }
            Attack::OtherBody => {
                let mut forged = noise(index);
                forged[..24].copy_from_slice(&packet[..24]);
                // A packet number that is still to come.
                forged[4] = forged[4].wrapping_add(1);
                forged
            }
        };
        self.captured.iter().enumerate().map(changed).collect()
    }
}
