//! An application that sends, or takes and counts, as fast as it can.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use fec_transport::overlay::MemberId;
use fec_transport::{Application, CloseReason, Event, Node, Read, SessionId, StreamId, Time};

/// The bytes of every stream: this pattern again and again.
const PATTERN: usize = 1 << 20;

/// The byte at an offset of a stream.
pub(crate) fn byte_at(offset: u64) -> u8 {
    let word = (offset % PATTERN as u64 / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word.to_be_bytes()[(offset % 8) as usize]
}

/// Sends to those that it is told to, and takes what comes.
pub(crate) struct Bulk {
    pattern: Bytes,
    /// What is sent on each stream that we opened, and how much of it is left.
    sending: BTreeMap<StreamId, Sending>,
    opening: Vec<SessionId>,
    left: Option<u64>,
    /// What is received is copied here, if there are any bytes of it.
    memory: Vec<u8>,
    pub(crate) received: u64,
    /// Bytes that were not what they should have been.
    pub(crate) wrong: u64,
    outcomes: VecDeque<CloseReason>,
}

/// Whom to open a session to, and whether to send on it.
pub(crate) struct Call {
    pub(crate) whom: MemberId,
    pub(crate) sends: bool,
}

struct Sending {
    offset: u64,
    left: Option<u64>,
}

impl Bulk {
    /// On each stream it sends `bytes`, or without end. What it receives it copies into `memory` bytes.
    pub(crate) fn new(bytes: Option<u64>, memory: usize) -> Bulk {
        Bulk {
            pattern: (0..2 * PATTERN as u64).map(byte_at).collect::<Vec<u8>>().into(),
            sending: BTreeMap::new(),
            opening: Vec::new(),
            left: bytes,
            memory: vec![0; memory],
            received: 0,
            wrong: 0,
            outcomes: VecDeque::new(),
        }
    }

    fn pump(&mut self, now: Time, node: &mut Node, id: StreamId) {
        let Some(sending) = self.sending.get_mut(&id) else { return };
        loop {
            let start = (sending.offset % PATTERN as u64) as usize;
            let most = sending.left.map_or(PATTERN, |left| left.min(PATTERN as u64) as usize);
            let data = self.pattern.slice(start..start + most);
            let Ok(taken) = node.write_bytes(now, id, &data) else { return };
            sending.offset += taken as u64;
            sending.left = sending.left.map(|left| left - taken as u64);
            if sending.left == Some(0) {
                self.sending.remove(&id);
                return drop(node.finish(now, id));
            }
            if taken < most {
                return;
            }
        }
    }

    /// Takes every block that is there. Looking at both ends of each shows that it is where it belongs.
    fn take(&mut self, now: Time, node: &mut Node, stream: StreamId) {
        while let Ok(Read::Data { offset, bytes }) = node.read_block(now, stream) {
            let last = bytes.len() - 1;
            let is_right = |index: usize| bytes[index] == byte_at(offset + index as u64);
            self.wrong += u64::from(!(is_right(0) && is_right(last / 2) && is_right(last)));
            self.keep(&bytes);
            self.received += bytes.len() as u64;
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.memory.is_empty() {
            return;
        }
        for part in bytes.chunks(self.memory.len()) {
            let start = self.received as usize % (self.memory.len() - part.len() + 1);
            self.memory[start..start + part.len()].copy_from_slice(part);
        }
    }
}

impl Application for Bulk {
    type Command = Call;
    type Outcome = CloseReason;

    fn handle_event(&mut self, now: Time, node: &mut Node, event: Event) {
        match event {
            Event::SessionOpened { session, incoming: false, .. } if self.opening.contains(&session) => {
                if let Ok(stream) = node.open_stream(session) {
                    self.sending.insert(stream, Sending { offset: 0, left: self.left });
                    self.pump(now, node, stream);
                }
            }
            Event::SessionClosed { reason, .. } => self.outcomes.push_back(reason),
            Event::Readable { stream } => self.take(now, node, stream),
            Event::Writable { stream } => self.pump(now, node, stream),
            _ => {}
        }
    }

    fn handle_command(&mut self, now: Time, node: &mut Node, call: Call) {
        match (node.connect(now, call.whom), call.sends) {
            (Ok(session), true) => self.opening.push(session),
            // Who asked for it sees in the snapshots that there are fewer.
            (Ok(_), false) | (Err(_), _) => {}
        }
    }

    fn handle_timeout(&mut self, _: Time, _: &mut Node) {}

    fn next_timeout(&self) -> Option<Time> {
        None
    }

    fn poll_outcome(&mut self) -> Option<CloseReason> {
        self.outcomes.pop_front()
    }
}
