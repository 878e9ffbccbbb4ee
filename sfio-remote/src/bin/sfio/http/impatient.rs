//! Connections whose other end must go on reading.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A connection that fails when nothing could be written for some time: a reader who stands still must not hold one of
/// the few places for ever.
pub(super) struct Impatient<S> {
    stream: S,
    limit: Duration,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Impatient<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Impatient<S> {
        Impatient { stream, limit, stalled: None }
    }

    /// What becomes of a write: one that waits for too long is an error.
    fn judge(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        stalled.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_reader_who_stands_still_is_given_up_and_a_slow_one_is_not() {
        let (ours, mut theirs) = tokio::io::duplex(4);
        let mut ours = Impatient::new(ours, LIMIT);
        let reading = async {
            for _ in 0..3 {
                tokio::time::sleep(LIMIT - Duration::from_secs(1)).await;
                theirs.read_exact(&mut [0; 4]).await.expect("it is written");
            }
            theirs
        };
        let (written, theirs) = tokio::join!(ours.write_all(&[1; 16]), reading);
        assert!(written.is_ok(), "{written:?}");
        let stalled = ours.write_all(&[2; 16]).await;
        assert_eq!(stalled.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
        drop(theirs);
    }
}
