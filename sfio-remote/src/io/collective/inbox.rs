//! What has come for a rank over a channel.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::collective::Arrival;

/// The receiving end of a channel that can be asked, and waited for without losing what comes meanwhile.
pub(super) struct Inbox {
    from: UnboundedReceiver<Arrival>,
    /// What was taken from the channel by waiting for it.
    arrived: VecDeque<Arrival>,
}

impl Inbox {
    pub(super) fn new(from: UnboundedReceiver<Arrival>) -> Inbox {
        Inbox { from, arrived: VecDeque::new() }
    }

    /// What has arrived, if anything has.
    pub(super) fn poll(&mut self) -> Option<Arrival> {
        self.arrived.pop_front().or_else(|| self.from.try_recv().ok())
    }

    /// Ends when [`poll`](Self::poll) has something. It may be dropped before.
    pub(super) fn arrival(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            if self.arrived.is_empty() {
                match self.from.recv().await {
                    Some(arrival) => self.arrived.push_back(arrival),
                    // All others are lost, and that has been told: there is nothing left to come.
                    None => std::future::pending().await,
                }
            }
        })
    }
}
