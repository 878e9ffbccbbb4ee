//! What applications do with streams.

use bytes::Bytes;

use super::Node;
use crate::event::{SessionId, StreamError, StreamId};
use crate::session::{Class, Read, Session};
use crate::time::Time;

impl Node {
    /// Opens a stream on an open session.
    ///
    /// # Errors
    /// [`StreamError::NoSession`], [`StreamError::NotOpen`], [`StreamError::TooMany`].
    pub fn open_stream(&mut self, session: SessionId) -> Result<StreamId, StreamError> {
        if self.dialler.is_opening(session) {
            return Err(StreamError::NotOpen);
        }
        self.with_session(session, Session::open_stream).unwrap_or(Err(StreamError::NoSession))
    }

    /// Takes as much of `data` as the stream's buffer has room for and says how much. After less than all of it,
    /// [`Event::Writable`](crate::Event::Writable) follows.
    ///
    /// # Errors
    /// [`StreamError::NoSession`], [`StreamError::NoStream`], [`StreamError::Finished`].
    pub fn write(&mut self, now: Time, stream: StreamId, data: &[u8]) -> Result<usize, StreamError> {
        self.on_stream(now, stream, |session| session.streams().write(now, stream.number, data))
    }

    /// The same without a copy: what is taken is kept until the peer has it.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_bytes(&mut self, now: Time, stream: StreamId, data: &Bytes) -> Result<usize, StreamError> {
        self.on_stream(now, stream, |session| session.streams().write_bytes(now, stream.number, data))
    }

    /// Says what our direction of a stream is for, from its next block on. Streams begin as [`Class::Bulk`].
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn set_class(&mut self, now: Time, stream: StreamId, class: Class) -> Result<(), StreamError> {
        self.on_stream(now, stream, |session| session.streams().set_class(stream.number, class))
    }

    /// Sends what was written without waiting for a full block.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn flush(&mut self, now: Time, stream: StreamId) -> Result<(), StreamError> {
        self.on_stream(now, stream, |session| session.streams().flush(stream.number))
    }

    /// Ends our direction after what was written, and sends it.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn finish(&mut self, now: Time, stream: StreamId) -> Result<(), StreamError> {
        self.on_stream(now, stream, |session| session.streams().finish(stream.number))
    }

    /// Gives up both directions of a stream; the peer is told `code`.
    pub fn reset(&mut self, now: Time, stream: StreamId, code: u32) {
        self.with_session(stream.session, |session| session.streams().reset(now, stream.number, code));
    }

    /// The next bytes of a stream in order, at most `max`.
    ///
    /// # Errors
    /// [`StreamError::NoSession`], [`StreamError::NoStream`].
    pub fn read(&mut self, now: Time, stream: StreamId, max: usize) -> Result<Read, StreamError> {
        self.on_stream(now, stream, |session| session.streams().read(now, stream.number, max))
    }

    /// Any block of a stream that has been decoded, with its offset. A stream is read either in order or by blocks.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_block(&mut self, now: Time, stream: StreamId) -> Result<Read, StreamError> {
        self.on_stream(now, stream, |session| session.streams().read_block(now, stream.number))
    }

    fn on_stream<T>(
        &mut self,
        now: Time,
        stream: StreamId,
        act: impl FnOnce(&mut Session) -> Result<T, StreamError>,
    ) -> Result<T, StreamError> {
        self.now = now;
        self.with_session(stream.session, act).unwrap_or(Err(StreamError::NoSession))
    }
}
