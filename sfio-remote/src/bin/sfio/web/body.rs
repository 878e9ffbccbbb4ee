//! What answers carry.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};

use super::hub::Viewer;

/// The body of an answer: all of it, or events for as long as there are some.
#[derive(Debug)]
pub(super) enum PageBody {
    Whole(Bytes),
    Events(Viewer),
}

impl Body for PageBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            PageBody::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            PageBody::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            PageBody::Events(viewer) => viewer.poll_event(context).map(|event| Some(Ok(Frame::data(event?)))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            PageBody::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            PageBody::Events(_) => SizeHint::default(),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, PageBody::Whole(bytes) if bytes.is_empty())
    }
}
