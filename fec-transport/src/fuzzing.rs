//! The decoders of everything that comes off the wire or out of a file, for the fuzz targets in fec-transport/fuzz. No
//! bytes may make one panic, and what parses must be written and parse as the same again.

use crate::wire::circuit::{CircuitMessage, SetUpBody};
use crate::wire::hop::HopHeader;
use crate::wire::link::{ChallengeAnswer, GreetingKey};
use crate::wire::message::FrameReader;
use crate::wire::packet::{Kind, Probe, Renewal, emit_close, parse_close};
use crate::wire::report::Report;
use crate::wire::session::{Opening, SetUpPayload, Welcome, emit_join, parse_join};
use crate::wire::stream_control::StreamControl;
use crate::wire::symbol::SymbolHeader;

/// A control message, its type byte first.
pub fn control_message(bytes: &[u8]) {
    let Some((message_type, body)) = bytes.split_first() else { return };
    if let Ok(message) = CircuitMessage::parse(*message_type, body) {
        let again = message.emit();
        assert_eq!(CircuitMessage::parse(again[0], &again[1..]), Ok(message));
    }
    if let Ok(answer) = ChallengeAnswer::parse(body) {
        assert_eq!(ChallengeAnswer::parse(&answer.emit()[1..]), Ok(answer));
    }
    if let Ok(key) = GreetingKey::parse(body) {
        assert_eq!(GreetingKey::parse(&key.emit()[1..]), Ok(key));
    }
}

/// The signed part of a set-up.
pub fn set_up(bytes: &[u8]) {
    let circuit = SetUpBody::circuit_of(bytes);
    if let Ok(body) = SetUpBody::parse(bytes) {
        assert_eq!(circuit, Some(body.circuit));
        assert_eq!(body.emit(), bytes);
    }
}

/// The payload of a set-up, and what the handshake and a request to join carry.
pub fn payload(bytes: &[u8]) {
    if let Ok(payload) = SetUpPayload::parse(bytes) {
        assert_eq!(payload.emit(), bytes);
    }
    if let Ok(opening) = Opening::parse(bytes) {
        assert_eq!(opening.emit(), bytes);
    }
    if let Ok(welcome) = Welcome::parse(bytes) {
        assert_eq!(welcome.emit(), bytes);
    }
    if let Ok(share) = parse_join(bytes) {
        assert_eq!(emit_join(share), bytes);
    }
}

/// A datagram's hop header.
pub fn hop_header(bytes: &[u8]) {
    if let Ok(header) = HopHeader::parse(bytes) {
        let mut again = Vec::new();
        header.emit(&mut again);
        assert_eq!(again[..16], bytes[..16]);
    }
}

/// A body that was opened.
pub fn body(bytes: &[u8]) {
    let Ok(kind) = Kind::of(bytes) else { return };
    let mut again = Vec::new();
    match kind {
        Kind::Symbol => {
            if let Ok((header, symbol)) = SymbolHeader::parse(bytes) {
                header.emit(&mut again);
                again.extend_from_slice(symbol);
                assert_eq!(SymbolHeader::parse(&again), Ok((header, symbol)));
            }
        }
        Kind::Report => {
            if let Ok(report) = Report::parse(bytes) {
                report.emit(&mut again);
                assert_eq!(Report::parse(&again), Ok(report));
            }
        }
        Kind::Probe | Kind::ProbeReply => {
            if let Ok(probe) = Probe::parse(bytes) {
                probe.emit(kind, &mut again);
                assert_eq!(Probe::parse(&again), Ok(probe));
            }
        }
        Kind::Close => {
            if let Ok(reason) = parse_close(bytes) {
                emit_close(reason, &mut again);
                assert_eq!(parse_close(&again), Ok(reason));
            }
        }
        Kind::Renewal | Kind::RenewalAnswer => {
            if let Ok(renewal) = Renewal::parse(bytes) {
                renewal.emit(kind, &mut again);
                assert_eq!(Renewal::parse(&again), Ok(renewal));
            }
        }
    }
}

/// What stream 0 carries.
pub fn stream_control(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((message, length))) = StreamControl::take(rest) {
        let mut again = Vec::new();
        message.emit(&mut again);
        assert_eq!(StreamControl::take(&again), Ok(Some((message, length))));
        rest = &rest[length..];
    }
}

/// What a stream of messages' frames carries, in two pieces.
pub fn message_frames(bytes: &[u8]) {
    let (first, second) = bytes.split_at(bytes.len() / 3);
    let mut reader = FrameReader::default();
    for piece in [first, second] {
        reader.push(&bytes::Bytes::copy_from_slice(piece));
        loop {
            let (frame, taken) = match reader.next() {
                Ok(Some(next)) => next,
                Ok(None) => break,
                Err(_) => return,
            };
            let (mut again, mut other) = (Vec::new(), FrameReader::default());
            frame.emit(taken, &mut again);
            other.push(&again.clone().into());
            // The bytes of a message may come back in other pieces.
            let mut once_more = Vec::new();
            let (frame, taken) = other.next().expect("well-formed").expect("whole");
            frame.emit(taken, &mut once_more);
            assert_eq!(once_more, again);
        }
    }
}

/// An overlay file.
pub fn overlay(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = crate::overlay::Overlay::parse(text);
    }
}

/// Changes known inputs at random, as a fuzzer without a compiler's help does.
#[derive(Debug)]
pub struct Mutator {
    seeds: Vec<Vec<u8>>,
    state: u64,
    input: Vec<u8>,
}

/// Values at which lengths and counts often go wrong.
const EDGES: [u64; 8] = [0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0xffff_ffff, u64::MAX];
/// No input becomes longer than this.
const LONGEST: usize = 6_000;

impl Mutator {
    /// Inputs out of `seeds`, by a sequence of numbers that `state` decides.
    pub fn new(seeds: Vec<Vec<u8>>, state: u64) -> Mutator {
        Mutator { seeds, state, input: Vec::with_capacity(4 * LONGEST) }
    }

    /// The next input.
    pub fn next_input(&mut self) -> &[u8] {
        self.input.clear();
        match self.seeds.is_empty() || self.below(16) == 0 {
            true => (0..self.below(200)).for_each(|_| {
                let byte = self.below(256) as u8;
                self.input.push(byte);
            }),
            false => {
                let seed = self.below(self.seeds.len());
                self.input.extend_from_slice(&self.seeds[seed]);
            }
        }
        for _ in 0..=self.below(6) {
            self.change();
        }
        self.input.truncate(LONGEST);
        &self.input
    }

    fn change(&mut self) {
        let length = self.input.len();
        let (at, other) = (self.below(length + 1), self.below(length + 1));
        let (start, end) = (at.min(other), at.max(other));
        match self.below(7) {
            0 if at < length => self.input[at] ^= 1 << self.below(8),
            1 if at < length => self.input[at] = self.below(256) as u8,
            2 => self.input.truncate(at),
            3 => drop(self.input.drain(start..end)),
            4 => self.input.extend_from_within(start..end),
            5 if !self.seeds.is_empty() => {
                let seed = self.below(self.seeds.len());
                let from = self.below(self.seeds[seed].len() + 1);
                self.input.truncate(at);
                self.input.extend_from_slice(&self.seeds[seed][from..]);
            }
            _ => {
                let (edge, width) = (EDGES[self.below(EDGES.len())].to_be_bytes(), 1 << self.below(4));
                let width = width.min(length - at);
                self.input[at..at + width].copy_from_slice(&edge[8 - width..]);
            }
        }
    }

    /// S. Vigna's splitmix64.
    fn below(&mut self, end: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_decoder_takes_any_bytes(first in 0u8..10, rest in proptest::collection::vec(any::<u8>(), 0..120)) {
            let bytes = [&[first][..], &rest].concat();
            let decoders = [
                super::control_message, super::set_up, super::payload, super::hop_header, super::body,
                super::stream_control, super::message_frames, super::overlay,
            ];
            decoders.iter().for_each(|decode| decode(&bytes));
        }
    }
}
