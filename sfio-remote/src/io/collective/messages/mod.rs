//! Groups whose ranks reach one another by messages: over an overlay or a LAN, between machines.
//!
//! What a rank says travels as a word of up to 16 KiB, and what is longer in pieces behind it. Each rank has a thread
//! that takes what comes, and shows the others twice a second that this rank lives, while the program does something
//! else.

mod listener;
#[cfg(test)]
mod tests;
mod word;

use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fec_transport::io::message::Messenger;
use fec_transport::message::{AddressId, Caller, ContextId, Tag};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use super::join::JoinError;
use super::member::{GroupMember, Link};
use crate::collective::{Arrival, Group, Rank};
use listener::{Heard, Listener, PIECE};
use word::{HEAD, LONGEST, Word};

/// Joins a group over a messenger: `ranks` are the addresses of all ranks in their order, as
/// [`Messenger::look_up`] takes them, and this process is number `rank` of them. All ranks say the same `tag`; it and
/// the two tags that follow it are the group's, between these processes, for as long as it lasts.
///
/// A rank that ends is lost to the others at once if its [`GroupMember`] is dropped, and within five seconds if its
/// process is killed or stopped, or its machine or network fails.
///
/// # Errors
/// If the rank is not one of the group's, an address is wrong, or the others have not been heard within `patience`.
pub async fn join_group_over(
    messenger: &Messenger,
    ranks: &[String],
    rank: u32,
    tag: Tag,
    patience: Duration,
) -> Result<GroupMember, JoinError> {
    let mut link = MessageLink::new(messenger, ranks, Rank(rank), Tags(tag))?;
    let mut missing: BTreeSet<u32> = (0..ranks.len() as u32).filter(|other| *other != rank).collect();
    if timeout(patience, link.meet(&mut missing)).await.is_err() {
        return Err(JoinError::Silent { missing: missing.into_iter().collect(), after: patience });
    }
    Ok(GroupMember::new(Box::new(link)))
}

/// The tags of a group's messages, of which this is the first.
#[derive(Debug, Clone, Copy)]
struct Tags(Tag);

impl Tags {
    fn word(self) -> Tag {
        self.0
    }

    fn piece(self) -> Tag {
        Tag(self.0.0.wrapping_add(1))
    }

    fn beat(self) -> Tag {
        Tag(self.0.0.wrapping_add(2))
    }
}

/// Says a word, and what belongs to it.
fn say(messenger: &Messenger, to: AddressId, tags: Tags, caller: Caller, word: Word, mut message: Bytes) {
    let first = message.split_to(message.len().min(LONGEST - HEAD));
    let head = Bytes::copy_from_slice(&word.to_bytes());
    // If it fails the peer is lost, which the listener hears.
    let _ = messenger.post_send(to, tags.word(), vec![head, first], caller);
    while !message.is_empty() {
        let piece = message.split_to(message.len().min(PIECE));
        let _ = messenger.post_send(to, tags.piece(), vec![piece], caller);
    }
}

struct MessageLink {
    messenger: Messenger,
    context: ContextId,
    tags: Tags,
    rank: Rank,
    addresses: Vec<AddressId>,
    heard: UnboundedReceiver<Heard>,
    /// What was taken from the channel by waiting for it.
    arrived: VecDeque<Arrival>,
    lost: BTreeSet<Rank>,
    /// How often the others were asked for answers.
    asked: u64,
    is_ending: Arc<AtomicBool>,
}

impl MessageLink {
    fn new(
        messenger: &Messenger,
        ranks: &[String],
        rank: Rank,
        tags: Tags,
    ) -> Result<MessageLink, JoinError> {
        if rank.index() >= ranks.len() {
            return Err(JoinError::NoSuchRank { rank: rank.0, size: ranks.len() as u32 });
        }
        let look_up = |address: &String| {
            let wrong = |error| JoinError::Address { address: address.clone(), error };
            messenger.look_up(address).map_err(wrong)
        };
        let addresses = ranks.iter().map(look_up).collect::<Result<Vec<_>, _>>()?;
        let (context, is_ending) = (messenger.open_context(), Arc::new(AtomicBool::new(false)));
        let (tell, heard) = unbounded_channel();
        let listener = Listener::new(messenger.clone(), context, tags, (rank, &addresses), tell);
        let its_end = Arc::clone(&is_ending);
        let listen = move || listener.run(&its_end);
        let thread: io::Result<_> = std::thread::Builder::new().name("group".to_owned()).spawn(listen);
        thread.map_err(JoinError::Thread)?;
        let (messenger, arrived, lost) = (messenger.clone(), VecDeque::new(), BTreeSet::new());
        Ok(MessageLink {
            messenger,
            context,
            tags,
            rank,
            addresses,
            heard,
            arrived,
            lost,
            asked: 0,
            is_ending,
        })
    }

    /// Waits until all `missing` ranks have been heard.
    async fn meet(&mut self, missing: &mut BTreeSet<u32>) {
        while !missing.is_empty() {
            match self.heard.recv().await {
                Some(Heard::Met(rank)) => drop(missing.remove(&rank.0)),
                Some(heard) => self.keep(heard),
                None => std::future::pending().await,
            }
        }
    }

    fn keep(&mut self, heard: Heard) {
        if let Heard::Arrival(arrival) = heard {
            if let Arrival::Lost(rank) = arrival {
                self.lost.insert(rank);
            }
            self.arrived.push_back(arrival);
        }
    }

    fn others(&self) -> impl Iterator<Item = Rank> + use<'_> {
        let all = (0..self.addresses.len() as u32).map(Rank);
        all.filter(|rank| *rank != self.rank && !self.lost.contains(rank))
    }

    fn say(&self, to: Rank, word: Word, message: Bytes) {
        let caller = self.messenger.caller(self.context);
        say(&self.messenger, self.addresses[to.index()], self.tags, caller, word, message);
    }
}

impl Group for MessageLink {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> usize {
        self.addresses.len()
    }

    fn send(&mut self, to: Rank, message: Bytes) {
        if !self.lost.contains(&to) {
            self.say(to, Word::Message { length: message.len() as u64 }, message);
        }
    }

    fn poll(&mut self) -> Option<Arrival> {
        while self.arrived.is_empty() {
            let heard = self.heard.try_recv().ok()?;
            self.keep(heard);
        }
        self.arrived.pop_front()
    }
}

impl Link for MessageLink {
    fn arrival(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            while self.arrived.is_empty() {
                match self.heard.recv().await {
                    Some(heard) => self.keep(heard),
                    None => std::future::pending().await,
                }
            }
        })
    }

    /// The others have what was said when each has answered.
    fn flush(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            self.asked += 1;
            let mut answers: BTreeSet<Rank> = self.others().collect();
            answers.iter().for_each(|rank| self.say(*rank, Word::Ask(self.asked), Bytes::new()));
            while !answers.is_empty() {
                match self.heard.recv().await {
                    Some(Heard::Answer(rank, number)) if number == self.asked => drop(answers.remove(&rank)),
                    Some(heard) => self.keep(heard),
                    None => return,
                }
                answers.retain(|rank| !self.lost.contains(rank));
            }
        })
    }
}

impl Drop for MessageLink {
    fn drop(&mut self) {
        self.others().for_each(|rank| self.say(rank, Word::Farewell, Bytes::new()));
        self.is_ending.store(true, Ordering::Relaxed);
    }
}
