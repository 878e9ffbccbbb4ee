//! Floods a socket.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::handshakes;
use crate::scene::{PACKET_BYTES, Ports, STRANGER};

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
    /// First packets of QUIC whose body is random, at the control port.
    GarbageHandshakes,
    /// At the control port, from addresses that answer: half of a ClientHello.
    HalfHandshakes,
}

impl Attack {
    pub(crate) const ALL: [Attack; 5] = [
        Attack::Garbage,
        Attack::Replay,
        Attack::OtherBody,
        Attack::GarbageHandshakes,
        Attack::HalfHandshakes,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Attack::Garbage => "garbage",
            Attack::Replay => "replayed packets",
            Attack::OtherBody => "labels over other bodies",
            Attack::GarbageHandshakes => "garbage handshakes",
            Attack::HalfHandshakes => "half handshakes",
        }
    }
}

pub(crate) struct Attacker {
    ports: Ports,
    captured: Vec<Vec<u8>>,
    per_second: u64,
}

impl Attacker {
    pub(crate) fn new(ports: Ports, captured: Vec<Vec<u8>>, per_second: u64) -> Attacker {
        Attacker { ports, captured, per_second }
    }

    /// Floods, or is quiet, for that long; gives how many packets it sent.
    pub(crate) fn attack(&self, attack: Option<Attack>, span: Duration) -> anyhow::Result<u64> {
        match attack {
            None => {
                std::thread::sleep(span);
                Ok(0)
            }
            Some(Attack::HalfHandshakes) => handshakes::begin(self.ports.control(), self.per_second, span),
            Some(attack) => self.flood(attack, span),
        }
    }

    fn flood(&self, attack: Attack, span: Duration) -> anyhow::Result<u64> {
        let socket = UdpSocket::bind((STRANGER, 0))?;
        socket.connect(match attack {
            Attack::GarbageHandshakes => self.ports.control(),
            _ => self.ports.data(),
        })?;
        let packets = self.packets(attack);
        let (started, mut sent) = (Instant::now(), 0);
        while started.elapsed() < span {
            let due = (started.elapsed().as_secs_f64() * self.per_second as f64) as u64;
            while sent < due.min(sent + BURST) {
                let packet = &packets[sent as usize % packets.len()];
                // A full socket buffer loses it, as a network would.
                let _ = socket.send(packet);
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
        let beginning_with = |first: &[u8], index: usize| {
            let mut garbage = noise(index);
            garbage[..first.len()].copy_from_slice(first);
            garbage
        };
        let changed = |(index, packet): (usize, &Vec<u8>)| match attack {
            Attack::Replay => packet.clone(),
            // An Initial of version 1 with two identifiers of eight bytes (RFC 9000 §17.2.2), no token, and its length.
            Attack::GarbageHandshakes | Attack::HalfHandshakes => {
                let mut garbage = beginning_with(&[0xc3, 0, 0, 0, 1, 8], index);
                (garbage[14], garbage[23]) = (8, 0);
                let length = u16::try_from(PACKET_BYTES - 26).expect("a packet is short");
                garbage[24..26].copy_from_slice(&(0x4000 | length).to_be_bytes());
                garbage
            }
            Attack::Garbage => beginning_with(&[1], index),
            Attack::OtherBody => {
                let mut forged = beginning_with(&packet[..24], index);
                // A packet number that is still to come.
                forged[4] = forged[4].wrapping_add(1);
                forged
            }
        };
        self.captured.iter().enumerate().map(changed).collect()
    }
}
