//! Messages between ranks that take their time.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use sfio_remote::collective::{Arrival, Group, Rank};
use sfio_remote::io::collective::{GroupMember, Link};
use sfio_remote::sim::Dice;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until};

/// A group whose messages are on their way for so many ms.
pub(crate) fn delayed_group(size: usize, delay_ms: Range<usize>, seed: u64) -> Vec<GroupMember> {
    let (to, from): (Vec<_>, Vec<_>) = (0..size).map(|_| unbounded_channel()).unzip();
    let link = |(rank, from)| DelayedLink {
        rank: Rank(rank as u32),
        to: to.clone(),
        last: vec![Instant::now(); size],
        from,
        arriving: BTreeMap::new(),
        number: 0,
        dice: Dice::new(seed * 1_000 + rank as u64),
        delay_ms: delay_ms.clone(),
    };
    from.into_iter().enumerate().map(|each| GroupMember::new(Box::new(link(each)))).collect()
}

struct DelayedLink {
    rank: Rank,
    to: Vec<UnboundedSender<(Instant, Arrival)>>,
    /// When the last message to each rank arrives there: the next one is not earlier.
    last: Vec<Instant>,
    from: UnboundedReceiver<(Instant, Arrival)>,
    arriving: BTreeMap<(Instant, u64), Arrival>,
    number: u64,
    dice: Dice,
    delay_ms: Range<usize>,
}

impl DelayedLink {
    fn due(&mut self, to: usize) -> Instant {
        let delay = self.delay_ms.start + self.dice.below(self.delay_ms.len().max(1));
        let due = (Instant::now() + Duration::from_millis(delay as u64)).max(self.last[to]);
        self.last[to] = due;
        due
    }

    fn note(&mut self, (due, arrival): (Instant, Arrival)) {
        self.number += 1;
        self.arriving.insert((due, self.number), arrival);
    }
}

impl Group for DelayedLink {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn send(&mut self, to: Rank, message: Bytes) {
        let due = self.due(to.index());
        let _ = self.to[to.index()].send((due, Arrival::From(self.rank, message)));
    }

    fn poll(&mut self) -> Option<Arrival> {
        while let Ok(arrival) = self.from.try_recv() {
            self.note(arrival);
        }
        let first = self.arriving.first_entry()?;
        (first.key().0 <= Instant::now()).then(|| first.remove())
    }
}

impl Link for DelayedLink {
    fn arrival(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            loop {
                let next = self.arriving.first_key_value().map(|((due, _), _)| *due);
                if next.is_some_and(|due| due <= Instant::now()) {
                    return;
                }
                tokio::select! {
                    Some(arrival) = self.from.recv() => self.note(arrival),
                    () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
                }
            }
        })
    }
}

impl Drop for DelayedLink {
    fn drop(&mut self) {
        let me = self.rank.index();
        for to in (0..self.to.len()).filter(|to| *to != me) {
            let due = self.due(to);
            let _ = self.to[to].send((due, Arrival::Lost(self.rank)));
        }
    }
}
