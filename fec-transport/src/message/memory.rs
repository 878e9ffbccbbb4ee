//! Messages within one process: the module `memory`.
//!
//! Messengers that have joined an [`Exchange`] reach each other as `memory://NAME`. What one of them wants is put into
//! the other one's inbox as it is, nothing is written as bytes, and a long message is copied once, from where it is to
//! where it goes. Whoever puts something into an inbox has it taken out on its own thread, so a messenger goes on while
//! its own threads do something else. A messenger may look itself up, too: servers and clients that share one reach
//! each other so.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;

use super::Messenger;
use super::link::LinkId;
use super::module::{Module, Output};
use super::shared::Shared;
use crate::wire::message::Frame;

/// Names are no longer than those of members.
const LONGEST_NAME: usize = 64;

/// Bytes up to which messages travel with their envelope. An offer and its grant take as long as copying a twentieth of
/// this, so a message that is a little longer is not much slower.
const EAGER: usize = 256 << 10;

/// Where messengers of one process find each other; clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Exchange {
    inboxes: Arc<Mutex<BTreeMap<String, Arc<Inbox>>>>,
}

/// A messenger's place in an [`Exchange`]. Dropping it ends its links; nobody reaches it any more.
#[derive(Debug)]
pub struct Port {
    exchange: Exchange,
    line: Arc<Line>,
}

/// What carries between a messenger and its inbox, on the thread of whoever has put something into either.
struct Line {
    exchange: Exchange,
    name: Arc<str>,
    module: usize,
    messenger: Shared,
    inbox: Arc<Inbox>,
    /// The other end of each link, and the link by the other end.
    links: Mutex<Links>,
    /// How often somebody wanted to carry since somebody does; 0 while nobody does.
    turns: AtomicU64,
    /// Called when there may be something to take.
    bell: Bell,
    /// What the messenger's news were when it was called last.
    told: AtomicU64,
}

/// Why a name cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// It is somebody else's.
    #[error("there is a messenger \"memory://{0}\" already")]
    Taken(String),
    /// It is none.
    #[error("\"memory://{name}\": {reason}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}

#[derive(Debug, Default)]
struct Links {
    peers: BTreeMap<LinkId, Peer>,
    by_name: BTreeMap<Arc<str>, LinkId>,
}

/// Who is at the other end of a link.
#[derive(Debug)]
struct Peer {
    name: Arc<str>,
    inbox: Arc<Inbox>,
    /// What this end is called there.
    own_name: Arc<str>,
}

/// What a messenger that looked itself up is called at the end that it comes to: a peer of its own, with memory of its
/// own.
const ITSELF: &str = "~itself";

type Bell = Box<dyn Fn() + Send + Sync>;

/// Those whose inboxes have something new. They lock their messengers, so they wait until ours is free.
type Alarms = Vec<Arc<Line>>;

#[derive(Default)]
struct Inbox {
    parcels: Mutex<VecDeque<Parcel>>,
    /// Who takes them.
    line: Mutex<Weak<Line>>,
}

/// What comes from another messenger, whose name is first.
#[derive(Debug)]
struct Parcel {
    from: Arc<str>,
    news: News,
}

#[derive(Debug)]
enum News {
    /// It wants a link; here is where its own parcels go.
    Hello(Arc<Inbox>),
    Frame(Frame, u32),
    Bulk(u64, Vec<Bytes>),
    /// It has all bytes of a message.
    Taken(u64),
    Farewell,
}

/// The module, as the messenger knows it.
#[derive(Debug)]
struct MemoryModule;

impl Module for MemoryModule {
    fn scheme(&self) -> &'static str {
        "memory"
    }

    fn resolve(&self, place: &str) -> Result<String, String> {
        match place.len() {
            0 => Err("the name is missing".to_owned()),
            1..=LONGEST_NAME => Ok(place.to_owned()),
            length => Err(format!("a name has at most {LONGEST_NAME} bytes, this one has {length}")),
        }
    }

    fn eager(&self) -> usize {
        EAGER
    }

    fn shares_memory(&self) -> bool {
        true
    }
}

impl Exchange {
    /// One that nobody has joined yet.
    pub fn new() -> Exchange {
        Exchange::default()
    }

    /// Lets the others reach a messenger under that name. `bell` is called when there may be something to take from
    /// it, on the thread of whoever has sent it and while no messenger is locked.
    ///
    /// # Errors
    /// [`JoinError`] if the name is none, or somebody else's.
    pub fn join(
        &self,
        name: &str,
        messenger: &Shared,
        bell: impl Fn() + Send + Sync + 'static,
    ) -> Result<Port, JoinError> {
        let bad = |reason| JoinError::BadName { name: name.to_owned(), reason };
        MemoryModule.resolve(name).map_err(bad)?;
        let inbox = Arc::new(Inbox::default());
        let mut inboxes = locked(&self.inboxes);
        if inboxes.contains_key(name) {
            return Err(JoinError::Taken(name.to_owned()));
        }
        inboxes.insert(name.to_owned(), Arc::clone(&inbox));
        let module = messenger.lock().add_module(Box::new(MemoryModule));
        let line = Arc::new(Line {
            exchange: self.clone(),
            name: name.into(),
            module,
            messenger: messenger.clone(),
            inbox: Arc::clone(&inbox),
            links: Mutex::default(),
            turns: AtomicU64::new(0),
            bell: Box::new(bell),
            told: AtomicU64::new(0),
        });
        *locked(&inbox.line) = Arc::downgrade(&line);
        Ok(Port { exchange: self.clone(), line })
    }

    fn find(&self, name: &str) -> Option<Arc<Inbox>> {
        locked(&self.inboxes).get(name).cloned()
    }
}

impl Port {
    /// Carries what was posted, and what comes of it, in the messengers of others, too. To be called after each post.
    pub fn carry(&self) {
        self.line.carry();
    }

    /// Whether nothing waits to be carried.
    pub fn is_idle(&self) -> bool {
        locked(&self.line.inbox.parcels).is_empty()
            && !self.line.messenger.lock().has_output(self.line.module)
    }
}

impl Line {
    /// Carries until nothing moves. If somebody does already, that one sees to it that nothing is left.
    fn carry(&self) {
        if self.turns.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        let mut turns = 1;
        loop {
            let mut alarms = Alarms::new();
            let (has_moved, news) = self.carry_once(&mut alarms);
            alarms.iter().for_each(|line| line.carry());
            if self.told.swap(news, Ordering::AcqRel) != news {
                (self.bell)();
            }
            if has_moved {
                continue;
            }
            match self.turns.compare_exchange(turns, 0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(more) => turns = more,
            }
        }
    }

    /// Carries what is in the inbox by now, and what the messenger wants before and after that; gives whether there was
    /// something in the inbox, and the messenger's news.
    fn carry_once(&self, alarms: &mut Alarms) -> (bool, u64) {
        let mut messenger = self.messenger.lock();
        let mut links = locked(&self.links);
        let parcels = std::mem::take(&mut *locked(&self.inbox.parcels));
        let has_moved = !parcels.is_empty();
        self.obey(&mut messenger, &mut links, alarms);
        for parcel in parcels {
            self.take(&mut messenger, &mut links, parcel, alarms);
        }
        self.obey(&mut messenger, &mut links, alarms);
        (has_moved, messenger.news())
    }

    /// Does what the messenger wants.
    fn obey(&self, messenger: &mut Messenger, links: &mut Links, alarms: &mut Alarms) {
        while let Some(output) = messenger.next_output(self.module) {
            match output {
                Output::Connect { link, place } => self.connect(messenger, links, (link, place), alarms),
                Output::Frame { link, frame, taken } => links.tell(link, News::Frame(frame, taken), alarms),
                Output::Bulk { link, message, pieces, .. } => {
                    links.tell(link, News::Bulk(message, pieces), alarms);
                }
                // What was put into an inbox is there; the other side drops what it does not want.
                Output::StopSending { .. } | Output::StopReceiving { .. } => {}
                Output::Disconnect { link } => links.part(link, alarms),
            }
        }
    }

    fn connect(
        &self,
        messenger: &mut Messenger,
        links: &mut Links,
        (link, place): (LinkId, String),
        alarms: &mut Alarms,
    ) {
        let Some(inbox) = self.exchange.find(&place) else {
            messenger.link_closed(link, "nobody of that name is in this process");
            return;
        };
        let own_name = match place == *self.name {
            true => format!("{place}{ITSELF}").into(),
            false => Arc::clone(&self.name),
        };
        links.add(link, Peer { name: place.into(), inbox, own_name });
        links.tell(link, News::Hello(Arc::clone(&self.inbox)), alarms);
        if messenger.link_up(link).is_err() {
            links.part(link, alarms);
        }
    }

    fn take(
        &self,
        messenger: &mut Messenger,
        links: &mut Links,
        Parcel { from, news }: Parcel,
        alarms: &mut Alarms,
    ) {
        if let News::Hello(inbox) = news {
            match messenger.link_incoming(self.module, &from, true) {
                Ok(link) => links.add(link, Peer { name: from, inbox, own_name: Arc::clone(&self.name) }),
                Err(_) => inbox.put(Parcel { from: Arc::clone(&self.name), news: News::Farewell }, alarms),
            }
            return;
        }
        // A parcel of a link that has ended meanwhile.
        let Some(link) = links.by_name.get(&from).copied() else { return };
        match news {
            News::Hello(_) => {}
            News::Frame(frame, taken) => {
                if let Err(breach) = messenger.handle_frame(link, frame, taken) {
                    links.part(link, alarms);
                    messenger.link_closed(link, &breach.to_string());
                }
            }
            News::Bulk(message, pieces) => {
                let mut offset = 0;
                for piece in &pieces {
                    // It was granted with its length, and a messenger of this process sends no other.
                    let _ = messenger.handle_bulk(link, message, offset, piece);
                    offset += piece.len() as u64;
                }
                drop(pieces);
                links.tell(link, News::Taken(message), alarms);
            }
            News::Taken(message) => messenger.bulk_sent(link, message),
            News::Farewell => {
                links.remove(link);
                messenger.link_closed(link, "its messenger has ended");
            }
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let Line { name, links, inbox, .. } = &*self.line;
        locked(&self.exchange.inboxes).remove(&**name);
        // Whoever still puts something into the inbox finds nobody.
        *locked(&inbox.line) = Weak::new();
        let mut alarms = Alarms::new();
        // A short send is complete when it is posted, and whoever carries just now may not have come to it yet.
        while self.line.carry_once(&mut alarms).0 {}
        for peer in locked(links).peers.values() {
            peer.tell(News::Farewell, &mut alarms);
        }
        alarms.iter().for_each(|line| line.carry());
    }
}

impl Links {
    fn add(&mut self, link: LinkId, peer: Peer) {
        self.by_name.insert(Arc::clone(&peer.name), link);
        self.peers.insert(link, peer);
    }

    fn tell(&self, link: LinkId, news: News, alarms: &mut Alarms) {
        if let Some(peer) = self.peers.get(&link) {
            peer.tell(news, alarms);
        }
    }

    /// Says a last thing over a link.
    fn part(&mut self, link: LinkId, alarms: &mut Alarms) {
        self.tell(link, News::Farewell, alarms);
        self.remove(link);
    }

    fn remove(&mut self, link: LinkId) {
        if let Some(peer) = self.peers.remove(&link) {
            self.by_name.remove(&peer.name);
        }
    }
}

impl Peer {
    fn tell(&self, news: News, alarms: &mut Alarms) {
        self.inbox.put(Parcel { from: Arc::clone(&self.own_name), news }, alarms);
    }
}

impl Inbox {
    fn put(&self, parcel: Parcel, alarms: &mut Alarms) {
        let mut parcels = locked(&self.parcels);
        // Whoever has been rung for takes all that is there.
        let is_first = parcels.is_empty();
        parcels.push_back(parcel);
        if is_first {
            alarms.extend(locked(&self.line).upgrade());
        }
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("parcels", &locked(&self.parcels).len()).finish_non_exhaustive()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
