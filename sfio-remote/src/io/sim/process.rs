//! A process of a client: what it is in the middle of stops with it, and ends with it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use fec_transport::overlay::Peer;
use tokio::task::{JoinHandle, spawn_local};

use crate::io::SfioClient;

/// A process of a member that is a client.
#[derive(Debug, Clone)]
pub struct Process {
    pub(super) peer: Peer,
    pub(super) client: SfioClient,
    pub(super) gate: Gate,
}

/// Whether a process goes on, which its futures ask before they do.
#[derive(Debug, Clone, Default)]
pub(super) struct Gate(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    state: State,
    waiting: Vec<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    #[default]
    Running,
    Stopped,
    Dead,
}

impl Process {
    /// Which process of which member.
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Opens files from this process.
    pub fn client(&self) -> &SfioClient {
        &self.client
    }

    /// Runs `work` in this process: it stands still while the process is stopped. None if the process was killed before
    /// it ended.
    pub fn spawn<T: 'static>(&self, work: impl Future<Output = T> + 'static) -> JoinHandle<Option<T>> {
        spawn_local(Gated { work: Some(Box::pin(work)), gate: self.gate.clone() })
    }
}

impl Gate {
    pub(super) fn set(&self, state: State) {
        let mut inner = self.inner();
        inner.state = state;
        inner.waiting.drain(..).for_each(Waker::wake);
    }

    pub(super) fn state(&self) -> State {
        self.inner().state
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether to go on now; else wakes the task when that has changed.
    fn poll(&self, context: &Context<'_>) -> State {
        let mut inner = self.inner();
        // A process that is killed while its future waits for something else must not wait for that.
        inner.waiting.retain(|waker| !waker.will_wake(context.waker()));
        inner.waiting.push(context.waker().clone());
        inner.state
    }
}

struct Gated<T> {
    work: Option<Pin<Box<dyn Future<Output = T>>>>,
    gate: Gate,
}

impl<T> Future for Gated<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        match self.gate.poll(context) {
            State::Running => {}
            State::Stopped => return Poll::Pending,
            State::Dead => {
                self.work = None;
                return Poll::Ready(None);
            }
        }
        let Some(work) = &mut self.work else { return Poll::Ready(None) };
        let done = std::task::ready!(work.as_mut().poll(context));
        self.work = None;
        Poll::Ready(Some(done))
    }
}
