//! Groups whose ranks reach one another by messages: over an overlay or a LAN, between machines.
//!
//! What a rank says travels as a word of up to 16 KiB, and what is longer in pieces behind it. Each rank has a thread
//! that takes what comes, and shows its neighbours that it lives, while the program does something else.

mod listener;
#[cfg(test)]
mod tests;
mod word;

use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fec_transport::io::message::Messenger;
use fec_transport::message::{AddressId, Caller, ContextId, Limits, PostError, Tag};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use super::join::{JoinError, check_rank};
use super::member::{GroupMember, Link};
use crate::collective::{Arrival, Group, Rank};
use listener::{Heard, Listener, PIECE};
use word::{HEAD, LONGEST, TO_FAREWELL, Word};

/// What a messenger must have room for, so that a group of `size` ranks can meet over it: the default is for some fifty
/// peers.
pub fn limits_for_group(size: u32) -> Limits {
    // A messenger gives no peer more than a sixteenth of what is left.
    const PARTS: u64 = 16;
    let per_peer = 256 << 10;
    Limits { per_peer, in_all: (2 * u64::from(size) + PARTS) * per_peer }
}

/// Joins a group over a messenger: `ranks` are the addresses of all ranks in their order, as [`Messenger::look_up`]
/// takes them, and this process is number `rank` of them. All ranks say the same `tag`. It and the two tags that follow
/// are for this group alone: between the same messengers no other group has them later, because what was said in the
/// first one may still wait there. The messenger has room for so many peers ([`limits_for_group`]).
///
/// A rank that [leaves](GroupMember::leave) is lost to the others at once, and one whose process ends without that, is
/// killed or stopped, or whose machine or network fails, within five seconds.
///
/// # Errors
/// If the rank is not one of the group's, an address is wrong or there twice, or the others have not been heard within
/// `patience`.
pub async fn join_group_over(
    messenger: &Messenger,
    ranks: &[String],
    rank: u32,
    tag: Tag,
    patience: Duration,
) -> Result<GroupMember, JoinError> {
    let mut link = MessageLink::new(messenger, ranks, Rank(rank), Tags(tag))?;
    if timeout(patience, link.meet()).await.is_err() {
        let missing = link.others().filter(|other| !link.met.contains(other)).map(|other| other.0);
        return Err(JoinError::Silent { missing: missing.collect(), after: patience });
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
fn say(
    messenger: &Messenger,
    to: AddressId,
    tags: Tags,
    caller: Caller,
    word: Word,
    mut message: Bytes,
) -> Result<(), PostError> {
    let first = message.split_to(message.len().min(LONGEST - HEAD));
    let head = Bytes::copy_from_slice(&word.to_bytes());
    let _ = messenger.post_send(to, tags.word(), vec![head, first], caller)?;
    while !message.is_empty() {
        let piece = message.split_to(message.len().min(PIECE));
        let _ = messenger.post_send(to, tags.piece(), vec![piece], caller)?;
    }
    Ok(())
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
    met: BTreeSet<Rank>,
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
        check_rank(rank.0, ranks.len() as u32)?;
        let look_up = |address: &String| {
            let wrong = |error| JoinError::Address { address: address.clone(), error };
            messenger.look_up(address).map_err(wrong)
        };
        let addresses = ranks.iter().map(look_up).collect::<Result<Vec<_>, _>>()?;
        if let Some(twice) = (1..ranks.len()).find(|rank| addresses[..*rank].contains(&addresses[*rank])) {
            return Err(JoinError::Twice { address: ranks[twice].clone() });
        }
        let (context, is_ending) = (messenger.open_context(), Arc::new(AtomicBool::new(false)));
        let (tell, heard) = unbounded_channel();
        let listener = Listener::new(messenger.clone(), context, tags, (rank, &addresses), tell);
        let its_end = Arc::clone(&is_ending);
        let listen = move || listener.run(&its_end);
        std::thread::Builder::new().name("group".to_owned()).spawn(listen).map_err(JoinError::Thread)?;
        Ok(MessageLink {
            messenger: messenger.clone(),
            context,
            tags,
            rank,
            addresses,
            heard,
            arrived: VecDeque::new(),
            met: BTreeSet::new(),
            lost: BTreeSet::new(),
            asked: 0,
            is_ending,
        })
    }

    /// Waits until all other ranks have been heard, and have heard of this one.
    async fn meet(&mut self) {
        while self.met.len() + 1 < self.addresses.len() {
            let heard = self.next().await;
            self.keep(heard);
        }
    }

    /// What comes next. If nobody hears the others any more they are lost.
    async fn next(&mut self) -> Heard {
        if let Some(heard) = self.heard.recv().await {
            return heard;
        }
        match self.others().next() {
            Some(rank) => Heard::Arrival(Arrival::Lost(rank)),
            None => std::future::pending().await,
        }
    }

    fn keep(&mut self, heard: Heard) {
        match heard {
            Heard::Met(rank) => drop(self.met.insert(rank)),
            Heard::Answer(..) => {}
            Heard::Arrival(arrival) => {
                if let Arrival::Lost(rank) = arrival
                    && !self.lost.insert(rank)
                {
                    return;
                }
                self.arrived.push_back(arrival);
            }
        }
    }

    /// Waits until each other rank has given that answer, or is lost.
    async fn answers(&mut self, number: u64) {
        let mut awaited: BTreeSet<Rank> = self.others().collect();
        while !awaited.is_empty() {
            match self.next().await {
                Heard::Answer(rank, answer) if answer == number => drop(awaited.remove(&rank)),
                heard => self.keep(heard),
            }
            awaited.retain(|rank| !self.lost.contains(rank));
        }
    }

    fn others(&self) -> impl Iterator<Item = Rank> + use<'_> {
        let all = (0..self.addresses.len() as u32).map(Rank);
        all.filter(|rank| *rank != self.rank && !self.lost.contains(rank))
    }

    fn say(&mut self, to: Rank, word: Word, message: Bytes) {
        let caller = self.messenger.caller(self.context);
        let address = self.addresses[to.index()];
        if say(&self.messenger, address, self.tags, caller, word, message).is_err() {
            self.keep(Heard::Arrival(Arrival::Lost(to)));
        }
    }

    fn say_to_all(&mut self, word: Word) {
        let others: Vec<Rank> = self.others().filter(|rank| self.met.contains(rank)).collect();
        others.into_iter().for_each(|rank| self.say(rank, word, Bytes::new()));
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
                let heard = self.next().await;
                self.keep(heard);
            }
        })
    }

    /// The others have what was said when each has answered.
    fn flush(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            self.asked += 1;
            self.say_to_all(Word::Ask(self.asked));
            self.answers(self.asked).await;
        })
    }

    fn leave(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            self.say_to_all(Word::Farewell);
            self.answers(TO_FAREWELL).await;
            let left: Vec<Rank> = self.others().collect();
            self.lost.extend(left);
        })
    }
}

impl Drop for MessageLink {
    fn drop(&mut self) {
        self.say_to_all(Word::Farewell);
        self.is_ending.store(true, Ordering::Relaxed);
    }
}
