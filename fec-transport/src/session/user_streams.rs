//! What the application does with the streams of a session, and what the two ends tell one another about them.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;

use super::Session;
use super::receiver::Receiver;
use super::sender::CONTROL_STREAM;
use super::stream::{Class, Read, SendStream};
use crate::event::{Event, StreamError, StreamId};
use crate::time::Time;
use crate::wire::stream_control::StreamControl;

/// What waits to be written to the control stream.
#[derive(Debug, Default)]
pub(super) struct ControlQueue {
    /// Streams on which credit may be due.
    pub(super) credit: BTreeSet<u32>,
    pub(super) resets: VecDeque<(u32, u32)>,
    /// Blocks that were given up.
    pub(super) abandoned: VecDeque<StreamControl>,
}

/// Messages of the control stream wait while so many bytes of it are on the way.
const CONTROL_BACKLOG: u64 = 16 << 10;

impl Session {
    pub(crate) fn open_stream(&mut self) -> Result<StreamId, StreamError> {
        if !self.is_open() {
            return Err(StreamError::NotOpen);
        }
        let Some(number) = self.streams.open() else {
            self.opener_waits = true;
            return Err(StreamError::TooMany);
        };
        self.begin_stream(number);
        Ok(self.stream_id(number))
    }

    pub(super) fn begin_stream(&mut self, number: u32) {
        self.sender.open(number, u64::from(self.peer_limits.initial_window));
        self.receiver.open(number);
    }

    pub(crate) fn write(&mut self, now: Time, number: u32, data: &[u8]) -> Result<usize, StreamError> {
        let limit = self.config.limits.send_buffer;
        let stream = self.user_stream(number)?;
        if stream.is_finished() {
            return Err(StreamError::Finished);
        }
        Ok(stream.write(now, data, limit))
    }

    pub(crate) fn write_bytes(&mut self, now: Time, number: u32, data: &Bytes) -> Result<usize, StreamError> {
        let limit = self.config.limits.send_buffer;
        let stream = self.user_stream(number)?;
        if stream.is_finished() {
            return Err(StreamError::Finished);
        }
        Ok(stream.write_bytes(now, data, limit))
    }

    pub(crate) fn set_class(&mut self, number: u32, class: Class) -> Result<(), StreamError> {
        self.user_stream(number)?.class = class;
        Ok(())
    }

    pub(crate) fn flush(&mut self, number: u32) -> Result<(), StreamError> {
        self.user_stream(number)?.flush();
        Ok(())
    }

    pub(crate) fn finish(&mut self, number: u32) -> Result<(), StreamError> {
        self.user_stream(number)?.finish();
        Ok(())
    }

    fn user_stream(&mut self, number: u32) -> Result<&mut SendStream, StreamError> {
        if number == CONTROL_STREAM || !self.streams.is_open(number) {
            return Err(StreamError::NoStream);
        }
        self.sender.stream(number).ok_or(StreamError::NoStream)
    }

    pub(crate) fn read(&mut self, now: Time, number: u32, max: usize) -> Result<Read, StreamError> {
        self.read_with(now, number, |receiver| receiver.read(number, max))
    }

    pub(crate) fn read_block(&mut self, now: Time, number: u32) -> Result<Read, StreamError> {
        self.read_with(now, number, |receiver| receiver.read_block(number))
    }

    fn read_with(
        &mut self,
        now: Time,
        number: u32,
        read: impl FnOnce(&mut Receiver) -> Option<Read>,
    ) -> Result<Read, StreamError> {
        if number == CONTROL_STREAM || !self.streams.is_open(number) {
            return Err(StreamError::NoStream);
        }
        let read = read(&mut self.receiver).ok_or(StreamError::NoStream)?;
        match &read {
            Read::Data { .. } | Read::Lost { .. } => {
                self.control.credit.insert(number);
                self.write_control(now);
            }
            Read::Finished => self.receiving_over(now, number),
            Read::Blocked => {}
        }
        Ok(read)
    }

    /// Gives up both directions of a stream and tells the peer.
    pub(crate) fn reset(&mut self, now: Time, number: u32, code: u32) {
        if self.streams.is_open(number) {
            self.control.resets.push_back((number, code));
            self.drop_stream(now, number);
        }
    }

    /// Forgets a stream that one side gave up. Blocks that are on the way are still completed on both sides, so that no
    /// hole stays in their numbering.
    pub(super) fn drop_stream(&mut self, now: Time, number: u32) {
        if let Some(stream) = self.sender.stream(number) {
            stream.abandon();
        }
        self.streams.sending_over(number);
        self.streams.receiving_over(number);
        self.forget_stream(now, number);
    }

    pub(super) fn sending_over(&mut self, now: Time, number: u32) {
        self.events.push_back(Event::Delivered { stream: self.stream_id(number) });
        if self.streams.sending_over(number) {
            self.forget_stream(now, number);
        }
    }

    fn receiving_over(&mut self, now: Time, number: u32) {
        if self.streams.receiving_over(number) {
            self.forget_stream(now, number);
        }
    }

    fn forget_stream(&mut self, now: Time, number: u32) {
        self.sender.close(number);
        self.receiver.close(number);
        self.control.credit.remove(&number);
        self.write_control(now);
    }

    pub(super) fn stream_id(&self, number: u32) -> StreamId {
        StreamId { session: self.id, number }
    }

    /// Writes what is due to the control stream, unless much of it is still on the way.
    pub(super) fn write_control(&mut self, now: Time) {
        while self.sender.control_backlog() < CONTROL_BACKLOG {
            let Some(message) = self.next_control() else { break };
            let mut bytes = Vec::new();
            message.emit(&mut bytes);
            let Some(control) = self.sender.stream(CONTROL_STREAM) else { break };
            control.write(now, &bytes, usize::MAX);
            control.flush();
        }
    }

    fn next_control(&mut self) -> Option<StreamControl> {
        if let Some(message) = self.control.abandoned.pop_front() {
            return Some(message);
        }
        if let Some((stream, code)) = self.control.resets.pop_front() {
            return Some(StreamControl::Reset { stream, code });
        }
        while let Some(stream) = self.control.credit.pop_first() {
            if let Some(limit) = self.receiver.next_credit(stream) {
                return Some(StreamControl::Credit { stream, limit });
            }
        }
        self.streams.next_limit().map(|count| StreamControl::StreamLimit { count })
    }
}
