//! Groups within a process: tasks or threads.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::inbox::Inbox;
use super::member::{GroupMember, Link};
use crate::collective::{Arrival, Group, Rank};

/// A group of `size` ranks within this process, by rank: each is for a task or a thread of its own. A rank that is
/// dropped, as when its thread panics, is lost to the others.
///
/// # Panics
/// If `size` is 0, or 2³² and more.
pub fn local_group(size: usize) -> Vec<GroupMember> {
    assert!(size > 0 && u32::try_from(size).is_ok(), "a group of {size} ranks");
    let (to, from): (Vec<_>, Vec<_>) = (0..size).map(|_| unbounded_channel()).unzip();
    let link = |(rank, from): (usize, UnboundedReceiver<Arrival>)| LocalLink {
        rank: Rank(rank as u32),
        to: to.clone(),
        inbox: Inbox::new(from),
    };
    from.into_iter().enumerate().map(|each| GroupMember::new(Box::new(link(each)))).collect()
}

struct LocalLink {
    rank: Rank,
    to: Vec<UnboundedSender<Arrival>>,
    inbox: Inbox,
}

impl Group for LocalLink {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn send(&mut self, to: Rank, message: Bytes) {
        // A rank that has ended needs no messages.
        let _ = self.to[to.index()].send(Arrival::From(self.rank, message));
    }

    fn poll(&mut self) -> Option<Arrival> {
        self.inbox.poll()
    }
}

impl Link for LocalLink {
    fn arrival(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.inbox.arrival()
    }
}

impl Drop for LocalLink {
    fn drop(&mut self) {
        for (_, to) in self.to.iter().enumerate().filter(|(rank, _)| *rank != self.rank.index()) {
            let _ = to.send(Arrival::Lost(self.rank));
        }
    }
}
