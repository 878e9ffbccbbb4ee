//! What the application does with the streams of a session, and what the two ends tell one another about them.

mod control;
mod numbers;

use std::collections::VecDeque;

use bytes::Bytes;

pub(crate) use numbers::{Role, TooManyStreams};

use super::misbehaviour::Misbehaviour;
use super::outgoing::Outgoing;
use super::receiver::{Progress, Receiver};
use super::sender::Sender;
use super::stream::{Class, Read, SendStream};
use crate::config::Limits;
use crate::event::{Event, SessionId, StreamError, StreamId};
use crate::time::Time;
use crate::wire::stream_control::{CONTROL_STREAM, StreamControl};
use crate::wire::symbol::{BlockHeader, Codec};
use control::Control;
use numbers::Numbers;

/// So many streams of a session may have full buffers at once: what fills links, if their streams take turns.
const FULL_BUFFERS: usize = 8;
/// Bytes that a stream may have in its buffer however full those of others are: some blocks of messages.
const LEAST_BUFFER: usize = 64 << 10;

/// What each side tells the other in the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeerLimits {
    /// Bytes that may be sent on a new stream.
    pub(crate) initial_window: u32,
    /// Streams that may be open at once.
    pub(crate) streams: u32,
}

/// The streams of a session: which are open, and what waits to be said about them.
#[derive(Debug)]
pub(crate) struct StreamsState {
    session: SessionId,
    numbers: Numbers,
    control: Control,
    /// Bytes that may be sent on a new stream.
    initial_window: u32,
    /// Bytes that a stream takes from its writer.
    send_buffer: usize,
    /// What the node has for what was written.
    outgoing: Outgoing,
    /// Whether an open was refused for the peer's limit.
    opener_waits: bool,
}

impl StreamsState {
    /// The streams of a session whose peer has told its limits; `ours` are this node's, `outgoing` is the memory for
    /// what is written.
    pub(crate) fn new(
        session: SessionId,
        role: Role,
        ours: &Limits,
        peer: PeerLimits,
        outgoing: Outgoing,
    ) -> StreamsState {
        let mut numbers = Numbers::new(role, ours.streams);
        numbers.allow(peer.streams);
        StreamsState {
            session,
            numbers,
            control: Control::default(),
            initial_window: peer.initial_window,
            send_buffer: ours.send_buffer,
            outgoing,
            opener_waits: false,
        }
    }

    /// Streams that are open in either direction.
    pub(crate) fn count(&self) -> usize {
        self.numbers.count()
    }

    /// The streams together with the two directions that carry them.
    pub(super) fn with<'a>(
        &'a mut self,
        sender: &'a mut Sender,
        receiver: &'a mut Receiver,
        events: &'a mut VecDeque<Event>,
    ) -> Streams<'a> {
        Streams { state: self, sender, receiver, events }
    }
}

/// The streams of a session, and the two directions that carry them.
#[derive(Debug)]
pub(crate) struct Streams<'a> {
    state: &'a mut StreamsState,
    sender: &'a mut Sender,
    receiver: &'a mut Receiver,
    events: &'a mut VecDeque<Event>,
}

impl Streams<'_> {
    // --- what the application does ------------------------------------------------------------------------------

    pub(crate) fn open(&mut self) -> Result<StreamId, StreamError> {
        let Some(number) = self.state.numbers.open() else {
            self.state.opener_waits = true;
            return Err(StreamError::TooMany);
        };
        self.begin(number);
        Ok(self.id(number))
    }

    pub(crate) fn write(&mut self, now: Time, number: u32, data: &[u8]) -> Result<usize, StreamError> {
        let limit = self.buffer_limit(number);
        self.write_with(number, |stream| stream.write(now, data, limit))
    }

    pub(crate) fn write_bytes(&mut self, now: Time, number: u32, data: &Bytes) -> Result<usize, StreamError> {
        let limit = self.buffer_limit(number);
        self.write_with(number, |stream| stream.write_bytes(now, data, limit))
    }

    pub(crate) fn set_class(&mut self, number: u32, class: Class) -> Result<(), StreamError> {
        self.change(number, |stream| stream.set_class(class))
    }

    pub(crate) fn flush(&mut self, number: u32) -> Result<(), StreamError> {
        self.change(number, SendStream::flush)
    }

    pub(crate) fn finish(&mut self, number: u32) -> Result<(), StreamError> {
        self.change(number, SendStream::finish)
    }

    pub(crate) fn read(&mut self, now: Time, number: u32, max: usize) -> Result<Read, StreamError> {
        self.read_with(now, number, |receiver| receiver.read(number, max))
    }

    pub(crate) fn read_block(&mut self, now: Time, number: u32) -> Result<Read, StreamError> {
        self.read_with(now, number, |receiver| receiver.read_block(number))
    }

    /// Gives up both directions of a stream and tells the peer. Nothing looks at what was written to it any more, even
    /// if the peer is out of reach.
    pub(crate) fn reset(&mut self, now: Time, number: u32, code: u32) {
        if self.state.numbers.is_open(number) {
            self.state.control.say_reset(number, code);
            self.sender.detach(number);
            self.give_up(now, number);
        }
    }

    /// Bytes that a stream may have in its buffer now. A peer that reads none of many streams fills the buffers of all
    /// of them, so a stream may have as much as all together leave free, and [`LEAST_BUFFER`] in any case.
    /// What the node has for the peer's sessions bounds it in turn.
    fn buffer_limit(&mut self, number: u32) -> usize {
        let own = self.sender.stream(number).map_or(0, |stream| stream.buffered());
        let held = self.sender.held();
        self.session_limit().min(own + self.state.outgoing.available(held))
    }

    fn session_limit(&self) -> usize {
        let whole = self.state.send_buffer.saturating_mul(FULL_BUFFERS);
        let left = whole.saturating_sub(self.sender.buffered());
        left.max(LEAST_BUFFER).min(self.state.send_buffer)
    }

    /// Changes our direction of a stream that the application has opened.
    fn change<T>(
        &mut self,
        number: u32,
        change: impl FnOnce(&mut SendStream) -> T,
    ) -> Result<T, StreamError> {
        if number == CONTROL_STREAM || !self.state.numbers.is_open(number) {
            return Err(StreamError::NoStream);
        }
        self.sender.change(number, change).ok_or(StreamError::NoStream)
    }

    fn write_with(
        &mut self,
        number: u32,
        write: impl FnOnce(&mut SendStream) -> usize,
    ) -> Result<usize, StreamError> {
        let write = |stream: &mut SendStream| (!stream.is_finished()).then(|| write(stream));
        self.change(number, write)?.ok_or(StreamError::Finished)
    }

    fn read_with(
        &mut self,
        now: Time,
        number: u32,
        read: impl FnOnce(&mut Receiver) -> Option<Read>,
    ) -> Result<Read, StreamError> {
        if number == CONTROL_STREAM || !self.state.numbers.is_open(number) {
            return Err(StreamError::NoStream);
        }
        let read = read(self.receiver).ok_or(StreamError::NoStream)?;
        match &read {
            Read::Data { .. } | Read::Lost { .. } => {
                self.state.control.say_credit(number);
                self.write_control(now);
            }
            Read::Finished => self.receiving_over(now, number),
            Read::Blocked => {}
        }
        Ok(read)
    }

    // --- how streams begin and end --------------------------------------------------------------------------------

    fn begin(&mut self, number: u32) {
        self.sender.open(number, u64::from(self.state.initial_window));
        self.receiver.open(number);
    }

    /// The peer used this stream number: it and those of the peer's below it are open now.
    pub(super) fn on_peer_stream(&mut self, number: u32) -> Result<(), TooManyStreams> {
        for number in self.state.numbers.on_peer_stream(number)? {
            self.begin(number);
            let stream = self.id(number);
            self.events.push_back(Event::StreamOpened { stream });
        }
        Ok(())
    }

    /// The peer has all of our direction of a stream.
    pub(super) fn sending_over(&mut self, now: Time, number: u32) {
        let stream = self.id(number);
        self.events.push_back(Event::Delivered { stream });
        if self.state.numbers.sending_over(number) {
            self.forget(now, number);
        }
    }

    fn receiving_over(&mut self, now: Time, number: u32) {
        if self.state.numbers.receiving_over(number) {
            self.forget(now, number);
        }
    }

    /// Forgets a stream that one side gave up. Blocks that are on the way are still completed on both sides, so that no
    /// hole stays in their numbering.
    fn give_up(&mut self, now: Time, number: u32) {
        self.sender.change(number, SendStream::abandon);
        self.state.numbers.sending_over(number);
        self.state.numbers.receiving_over(number);
        self.forget(now, number);
    }

    fn forget(&mut self, now: Time, number: u32) {
        self.sender.close(number);
        self.receiver.close(number);
        self.state.control.forget(number);
        self.state.outgoing.settle(self.sender.held());
        self.write_control(now);
    }

    /// Gives up the real-time blocks whose deadline has passed.
    pub(super) fn abandon_expired(&mut self, now: Time) {
        while let Some((message, finished)) = self.sender.abandon_next(now) {
            self.state.control.say_abandoned(message);
            if let Some(number) = finished {
                self.sending_over(now, number);
            }
        }
        self.write_control(now);
    }

    fn id(&self, number: u32) -> StreamId {
        StreamId { session: self.state.session, number }
    }

    // --- what is told ---------------------------------------------------------------------------------------------

    /// Tells the reader of a stream that there is more.
    pub(super) fn tell_reader(&mut self, progress: Progress) {
        if let Progress::Complete(number) = progress {
            let stream = self.id(number);
            self.events.push_back(Event::Readable { stream });
        }
    }

    /// Tells waiting writers that there is room, once half of their buffer is free, and the node has memory.
    pub(super) fn offer_room(&mut self) {
        let held = self.sender.held();
        self.state.outgoing.settle(held);
        if !self.sender.has_waiting_writers() || self.state.outgoing.available(held) < LEAST_BUFFER {
            return;
        }
        for number in self.sender.take_relieved(self.session_limit() / 2) {
            let stream = self.id(number);
            self.events.push_back(Event::Writable { stream });
        }
    }

    /// Writes what is due to the control stream, unless much of it is still on the way.
    pub(super) fn write_control(&mut self, now: Time) {
        while self.sender.control_backlog() < control::BACKLOG {
            let Some(message) = self.next_control() else { break };
            let mut bytes = Vec::new();
            message.emit(&mut bytes);
            self.sender.change(CONTROL_STREAM, |control| {
                control.write(now, &bytes, usize::MAX);
                control.flush();
            });
        }
    }

    fn next_control(&mut self) -> Option<StreamControl> {
        let StreamsState { control, numbers, .. } = &mut *self.state;
        let said = control.next(|stream| self.receiver.next_credit(stream));
        said.or_else(|| numbers.next_limit().map(|count| StreamControl::StreamLimit { count }))
    }

    /// More of the control stream can be read.
    pub(super) fn read_control(&mut self, now: Time) -> Result<(), Misbehaviour> {
        while let Some(Read::Data { bytes, .. }) = self.receiver.read(CONTROL_STREAM, usize::MAX) {
            self.state.control.heard(&bytes);
        }
        self.receiver.next_credit(CONTROL_STREAM);
        while let Some(message) = self.state.control.take()? {
            self.on_control(now, message)?;
        }
        Ok(())
    }

    fn on_control(&mut self, now: Time, message: StreamControl) -> Result<(), Misbehaviour> {
        match message {
            StreamControl::Credit { stream, limit } => {
                self.sender.change(stream, |stream| stream.grant(limit));
            }
            StreamControl::Reset { stream: number, code } => {
                self.on_peer_stream(number)?;
                if self.state.numbers.is_open(number) {
                    let stream = self.id(number);
                    self.events.push_back(Event::StreamReset { stream, code });
                    self.give_up(now, number);
                }
            }
            StreamControl::Abandon { block: id, stream, offset, length, last } => {
                self.on_peer_stream(stream)?;
                // The codec does not matter any more.
                let header = BlockHeader { id, stream, offset, length, last, codec: Codec::ReedSolomon };
                let progress = self.receiver.abandon(&header)?;
                self.tell_reader(progress);
            }
            StreamControl::StreamLimit { count } => {
                self.state.numbers.allow(count);
                if std::mem::take(&mut self.state.opener_waits) {
                    self.events.push_back(Event::StreamsAvailable { session: self.state.session });
                }
            }
        }
        Ok(())
    }
}
