//! An application that sends, or takes and counts, as fast as it can.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use fec_transport::overlay::MemberId;
use fec_transport::{Application, CloseReason, Event, Node, Read, SessionId, StreamId, Time};

/// The bytes of every stream: a pattern of this length again and again.
const PATTERN: usize = 1 << 20;
/// The pattern, twice. All nodes of a process send from the same memory.
static TWICE: LazyLock<Bytes> =
    LazyLock::new(|| (0..2 * PATTERN as u64).map(byte_at).collect::<Vec<u8>>().into());

/// The byte at an offset of a stream.
pub(crate) fn byte_at(offset: u64) -> u8 {
    let word = (offset % PATTERN as u64 / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word.to_be_bytes()[(offset % 8) as usize]
}

/// Sends to those that it is told to, and takes what comes.
pub(crate) struct Bulk {
    /// What is sent on each stream that we opened, and how much of it is left.
    sending: BTreeMap<StreamId, Sending>,
    opening: Vec<SessionId>,
    left: Option<u64>,
    /// What is received is copied here, if there are any bytes of it.
    memory: Vec<u8>,
    tally: Arc<Tally>,
    outcomes: VecDeque<CloseReason>,
}

/// What the nodes of a process have received together.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) bytes: AtomicU64,
    /// Blocks that were not what they should have been.
    pub(crate) wrong_blocks: AtomicU64,
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
    /// On each stream it sends `bytes`, or without end. What it receives it copies into `memory` bytes and counts in
    /// `tally`.
    pub(crate) fn new(bytes: Option<u64>, memory: usize, tally: Arc<Tally>) -> Bulk {
        Bulk {
            sending: BTreeMap::new(),
            opening: Vec::new(),
            left: bytes,
            memory: vec![0; memory],
            tally,
            outcomes: VecDeque::new(),
        }
    }

    fn pump(&mut self, now: Time, node: &mut Node, id: StreamId) {
        let Some(sending) = self.sending.get_mut(&id) else { return };
        loop {
            let start = (sending.offset % PATTERN as u64) as usize;
            let most = sending.left.map_or(PATTERN, |left| left.min(PATTERN as u64) as usize);
            let data = TWICE.slice(start..start + most);
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
            if !(is_right(0) && is_right(last / 2) && is_right(last)) {
                self.tally.wrong_blocks.fetch_add(1, Ordering::Relaxed);
            }
            let received = self.tally.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            self.keep(received as usize, &bytes);
        }
    }

    /// Copies what comes after `received` bytes.
    fn keep(&mut self, received: usize, bytes: &[u8]) {
        if self.memory.is_empty() {
            return;
        }
        for part in bytes.chunks(self.memory.len()) {
            let start = received % (self.memory.len() - part.len() + 1);
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
