//! What runs on the members of a swarm: it sends parcels until each has been confirmed, and takes and checks those of
//! others.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::content;
use fec_transport::Application;
use fec_transport::Node;
use fec_transport::Time;
use fec_transport::overlay::MemberId;
use fec_transport::{Class, Read};
use fec_transport::{Event, SessionId, StreamId};

/// After how long a parcel whose session ended, or could not be opened, is sent again.
const AGAIN: Duration = Duration::from_millis(700);
/// Streams begin at different places of the common content, so that one is not taken for another.
const STREAM_STRIDE: u64 = 7_919;

/// A stream to send.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parcel {
    pub(super) to: MemberId,
    pub(super) length: u64,
    pub(super) class: Class,
}

/// The application of every member of a swarm.
#[derive(Debug, Default)]
pub(super) struct Courier {
    parcels: Vec<(Parcel, Progress)>,
    receiving: BTreeMap<StreamId, u64>,
    /// Whether parcels of others are read by blocks.
    by_blocks: bool,
    pub(super) wrong_bytes: u64,
    pub(super) sessions_lost: u32,
}

#[derive(Debug, Clone, PartialEq)]
enum Progress {
    Waiting(Time),
    Connecting(SessionId),
    Sending { stream: StreamId, written: u64, answer: Vec<u8> },
    Confirmed,
}

impl Courier {
    pub(super) fn new(by_blocks: bool) -> Courier {
        Courier { by_blocks, ..Courier::default() }
    }

    /// Whether everything has been confirmed.
    pub(super) fn is_done(&self) -> bool {
        self.parcels.iter().all(|(_, progress)| *progress == Progress::Confirmed)
    }

    /// What waits, for somebody who looks for the reason.
    pub(super) fn waiting(&self) -> String {
        let waits = self.parcels.iter().filter(|(_, progress)| *progress != Progress::Confirmed);
        waits.map(|(parcel, progress)| format!("{parcel:?} {progress:?}")).collect::<Vec<_>>().join("; ")
    }

    fn connect(&mut self, now: Time, node: &mut Node, index: usize) {
        let (parcel, progress) = &mut self.parcels[index];
        match node.connect(now, parcel.to) {
            Ok(session) => {
                *progress = Progress::Connecting(session);
                self.open(now, node, index, session);
            }
            Err(_) => *progress = Progress::Waiting(now + AGAIN),
        }
    }

    fn open(&mut self, now: Time, node: &mut Node, index: usize, session: SessionId) {
        // While the session is being opened, or has no room, an event follows.
        let Ok(stream) = node.open_stream(session) else { return };
        let _ = node.set_class(now, stream, self.parcels[index].0.class);
        self.parcels[index].1 = Progress::Sending { stream, written: 0, answer: Vec::new() };
        self.write(now, node, stream);
    }

    fn open_waiting(&mut self, now: Time, node: &mut Node, session: SessionId) {
        for index in 0..self.parcels.len() {
            if self.parcels[index].1 == Progress::Connecting(session) {
                self.open(now, node, index, session);
            }
        }
    }

    fn find(&mut self, of: StreamId) -> Option<(&Parcel, &mut u64, &mut Vec<u8>)> {
        self.parcels.iter_mut().find_map(|(parcel, progress)| match progress {
            Progress::Sending { stream, written, answer } if *stream == of => {
                Some((&*parcel, written, answer))
            }
            _ => None,
        })
    }

    fn write(&mut self, now: Time, node: &mut Node, stream: StreamId) {
        let Some((parcel, written, _)) = self.find(stream) else { return };
        while *written < parcel.length {
            let wanted = (parcel.length - *written).min(content::PIECE as u64) as usize;
            let piece = content::piece(base(stream) + *written, wanted);
            let Ok(taken) = node.write(now, stream, piece) else { return };
            *written += taken as u64;
            if taken < piece.len() {
                return;
            }
        }
        let _ = node.finish(now, stream);
    }

    fn read(&mut self, now: Time, node: &mut Node, stream: StreamId) {
        loop {
            let read = if self.by_blocks && self.receiving.contains_key(&stream) {
                node.read_block(now, stream)
            } else {
                node.read(now, stream, 10_000)
            };
            match read {
                Ok(Read::Data { offset, bytes }) => self.take(stream, offset, &bytes),
                // Late data of a real-time parcel counts as dealt with.
                Ok(Read::Lost { length, .. }) => *self.receiving.entry(stream).or_default() += length,
                Ok(Read::Finished) => return self.end(now, node, stream),
                _ => return,
            }
        }
    }

    fn take(&mut self, stream: StreamId, offset: u64, bytes: &[u8]) {
        if let Some((_, _, answer)) = self.find(stream) {
            answer.extend_from_slice(bytes);
            return;
        }
        self.wrong_bytes += content::wrong_bytes(base(stream) + offset, bytes);
        *self.receiving.entry(stream).or_default() += bytes.len() as u64;
    }

    /// A stream was read to its end: a parcel is answered with its length, an answer is compared with it.
    fn end(&mut self, now: Time, node: &mut Node, stream: StreamId) {
        if let Some(length) = self.receiving.remove(&stream) {
            let _ = node.write(now, stream, &length.to_be_bytes());
            let _ = node.finish(now, stream);
            return;
        }
        let Some((parcel, _, answer)) = self.find(stream) else { return };
        let is_right = *answer == parcel.length.to_be_bytes();
        self.wrong_bytes += u64::from(!is_right);
        for (_, progress) in &mut self.parcels {
            if matches!(progress, Progress::Sending { stream: of, .. } if *of == stream) {
                *progress = Progress::Confirmed;
            }
        }
    }

    fn lost(&mut self, now: Time, session: SessionId) {
        self.sessions_lost += 1;
        for (_, progress) in &mut self.parcels {
            let is_its = match progress {
                Progress::Connecting(of) => *of == session,
                Progress::Sending { stream, .. } => stream.session == session,
                _ => false,
            };
            if is_its {
                *progress = Progress::Waiting(now + AGAIN);
            }
        }
        self.receiving.retain(|stream, _| stream.session != session);
    }
}

fn base(stream: StreamId) -> u64 {
    u64::from(stream.number) * STREAM_STRIDE
}

impl Application for Courier {
    type Command = Parcel;
    type Outcome = ();

    fn handle_event(&mut self, now: Time, node: &mut Node, event: Event) {
        match event {
            Event::SessionOpened { session, .. } | Event::StreamsAvailable { session } => {
                self.open_waiting(now, node, session);
            }
            Event::SessionClosed { session, .. } => self.lost(now, session),
            Event::StreamOpened { stream } => drop(self.receiving.insert(stream, 0)),
            Event::Readable { stream } => self.read(now, node, stream),
            Event::Writable { stream } => self.write(now, node, stream),
            _ => {}
        }
    }

    fn handle_command(&mut self, now: Time, node: &mut Node, parcel: Parcel) {
        self.parcels.push((parcel, Progress::Waiting(now)));
        self.connect(now, node, self.parcels.len() - 1);
    }

    fn handle_timeout(&mut self, now: Time, node: &mut Node) {
        for index in 0..self.parcels.len() {
            if matches!(self.parcels[index].1, Progress::Waiting(at) if at <= now) {
                self.connect(now, node, index);
            }
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        let at = |(_, progress): &(Parcel, Progress)| match progress {
            Progress::Waiting(at) => Some(*at),
            _ => None,
        };
        self.parcels.iter().filter_map(at).min()
    }

    fn poll_outcome(&mut self) -> Option<()> {
        None
    }
}
