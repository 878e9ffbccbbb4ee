//! The thread of a rank that hears the others.
//!
//! Each rank watches its two neighbours, the last rank and the first one being neighbours, too: beats between all ranks
//! would be too many. Whoever finds a neighbour silent tells all others.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fec_transport::io::message::Messenger;
use fec_transport::message::{AddressId, Completion, ContextId, Posted, Room};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use super::word::{LONGEST, TO_FAREWELL, Word};
use super::{Tags, say};
use crate::collective::{Arrival, Rank};

/// How often a rank shows its neighbours that it lives, and those that it has not met.
const BEAT: Duration = Duration::from_millis(500);
/// A neighbour of which nothing has come in so many beats is lost.
const SILENT_BEATS: u32 = 7;
/// Bytes that are received at once: a length alone takes no more memory than that.
pub(super) const PIECE: usize = 4 << 20;
/// What a beat says: whether its sender has heard of the other rank.
pub(super) const BEAT_BYTES: usize = 1;

/// What the thread tells the rank.
#[derive(Debug)]
pub(super) enum Heard {
    /// A rank has heard of this one, and this one of it.
    Met(Rank),
    /// As the group hears it.
    Arrival(Arrival),
    /// The rank has all that was said before [`Word::Ask`] with that number.
    Answer(Rank, u64),
}

/// What a completed operation was posted for; with a rank it is the user pointer of the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Word,
    Piece,
    Beat,
    /// To show the other rank that this one lives.
    OwnBeat,
}

impl Purpose {
    const ALL: [Purpose; 4] = [Purpose::Word, Purpose::Piece, Purpose::Beat, Purpose::OwnBeat];

    fn with(self, rank: usize) -> u64 {
        (rank * Self::ALL.len() + self as usize) as u64
    }

    fn of(user: u64) -> (Purpose, usize) {
        let user = user as usize;
        (Self::ALL[user % Self::ALL.len()], user / Self::ALL.len())
    }
}

/// Another rank, as this one hears it.
struct Peer {
    address: AddressId,
    state: State,
    /// Whether receives are posted. Of a rank that has not come yet they fail, and are posted again with the next beat.
    hears_words: bool,
    hears_beats: bool,
    /// A message of which not all has come, and how many bytes are to come.
    message: Vec<u8>,
    left: u64,
    /// A beat of this rank that is still on its way.
    beat_goes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It may not have heard of this rank yet. While that is so, links may come and go.
    Awaited {
        is_heard: bool,
    },
    /// It was there so many beats ago.
    Here {
        beats_ago: u32,
    },
    Lost,
}

/// Hears the other ranks, shows them that this one lives, and brings what they say.
pub(super) struct Listener {
    messenger: Messenger,
    context: ContextId,
    tags: Tags,
    rank: Rank,
    /// By rank; the own one is lost from the beginning.
    peers: Vec<Peer>,
    heard: UnboundedSender<Heard>,
    /// Receives that were complete when they were posted. They wait here, and not on the stack: thousands may come.
    done: VecDeque<Completion>,
}

impl Listener {
    pub(super) fn new(
        messenger: Messenger,
        context: ContextId,
        tags: Tags,
        (rank, addresses): (Rank, &[AddressId]),
        heard: UnboundedSender<Heard>,
    ) -> Listener {
        let peer = |(other, address): (usize, &AddressId)| Peer {
            address: *address,
            state: match other == rank.index() {
                true => State::Lost,
                false => State::Awaited { is_heard: false },
            },
            hears_words: false,
            hears_beats: false,
            message: Vec::new(),
            left: 0,
            beat_goes: false,
        };
        let peers = addresses.iter().enumerate().map(peer).collect();
        Listener { messenger, context, tags, rank, peers, heard, done: VecDeque::new() }
    }

    /// Hears until it is to end, which takes a beat at most.
    pub(super) fn run(mut self, is_ending: &AtomicBool) {
        let mut next_beat = Instant::now();
        while !is_ending.load(Ordering::Relaxed) {
            let now = Instant::now();
            if now >= next_beat {
                // A process that was stopped, and goes on, has missed one beat and not many: others may have been
                // stopped with it.
                next_beat = now + BEAT;
                self.beat();
            }
            if let Some(completion) = self.done.pop_front() {
                self.complete(completion);
            } else {
                let wait = next_beat.saturating_duration_since(now);
                self.done.extend(self.messenger.test_context(self.context, usize::MAX, wait));
            }
        }
    }

    fn beat(&mut self) {
        for rank in 0..self.peers.len() {
            let is_neighbour = self.is_neighbour(rank);
            let peer = &mut self.peers[rank];
            let shows_life = match &mut peer.state {
                State::Lost => continue,
                State::Here { beats_ago } if is_neighbour && *beats_ago >= SILENT_BEATS => {
                    self.miss(rank);
                    continue;
                }
                State::Here { beats_ago } => {
                    *beats_ago += 1;
                    is_neighbour
                }
                // Of two that have not met, the higher one makes the connection.
                State::Awaited { is_heard } => *is_heard || rank < self.rank.index(),
            };
            if !std::mem::replace(&mut peer.hears_words, true) {
                self.receive(rank, Purpose::Word, vec![0; LONGEST]);
            }
            if !std::mem::replace(&mut self.peers[rank].hears_beats, true) {
                self.receive(rank, Purpose::Beat, vec![0; BEAT_BYTES]);
            }
            if shows_life {
                self.show_life(rank);
            }
        }
    }

    fn is_neighbour(&self, rank: usize) -> bool {
        let (size, own) = (self.peers.len(), self.rank.index());
        (own + 1) % size == rank || (rank + 1) % size == own
    }

    /// One beat is on its way at a time: what a rank that takes nothing may hold here is bounded.
    fn show_life(&mut self, rank: usize) {
        let peer = &mut self.peers[rank];
        if peer.state == State::Lost || std::mem::replace(&mut peer.beat_goes, true) {
            return;
        }
        let is_heard = peer.state != State::Awaited { is_heard: false };
        let caller = self.messenger.caller(self.context).user(Purpose::OwnBeat.with(rank)).urgent();
        let beat = vec![vec![u8::from(is_heard)].into()];
        let posted = self.messenger.post_send(peer.address, self.tags.beat(), beat, caller);
        peer.beat_goes = matches!(posted, Ok(Posted::Pending(_)));
        if posted.is_err() && matches!(peer.state, State::Here { .. }) {
            self.miss(rank);
        }
    }

    fn receive(&mut self, rank: usize, purpose: Purpose, piece: Vec<u8>) {
        let tag = match purpose {
            Purpose::Word => self.tags.word(),
            Purpose::Piece => self.tags.piece(),
            Purpose::Beat | Purpose::OwnBeat => self.tags.beat(),
        };
        let caller = self.messenger.caller(self.context).user(purpose.with(rank));
        let room = Room::from_iter([piece]);
        match self.messenger.post_receive(self.peers[rank].address, tag, room, caller) {
            Ok(Posted::Pending(_)) => {}
            Ok(Posted::Done(completion)) => self.done.push_back(completion),
            Err(_) => self.fail(rank, purpose),
        }
    }

    fn complete(&mut self, completion: Completion) {
        let (purpose, rank) = Purpose::of(completion.user);
        let piece = completion.room.and_then(|room| room.into_pieces().pop());
        match (purpose, completion.result, piece) {
            (Purpose::OwnBeat, ..) => self.peers[rank].beat_goes = false,
            (_, Ok(length), Some(piece)) => self.take(rank, purpose, piece, length as usize),
            // A word of this rank's, of which nobody waits for the end.
            (_, _, None) => {}
            (_, Err(_), Some(_)) => self.fail(rank, purpose),
        }
    }

    /// Something has come of a rank, which shows whether it has heard of this one.
    fn note_life(&mut self, rank: usize, has_heard: bool) {
        let peer = &mut self.peers[rank];
        match peer.state {
            State::Awaited { .. } if has_heard => {
                peer.state = State::Here { beats_ago: 0 };
                self.tell(Heard::Met(Rank(rank as u32)));
                // The other one waits for that.
                self.show_life(rank);
            }
            State::Awaited { ref mut is_heard } => {
                if !std::mem::replace(is_heard, true) {
                    self.show_life(rank);
                }
            }
            State::Here { ref mut beats_ago } => {
                *beats_ago = 0;
                if !has_heard {
                    self.show_life(rank);
                }
            }
            State::Lost => {}
        }
    }

    /// A receive has failed: that rank is lost, or has not come yet.
    fn fail(&mut self, rank: usize, purpose: Purpose) {
        let peer = &mut self.peers[rank];
        match peer.state {
            State::Lost => {}
            State::Here { .. } => self.miss(rank),
            State::Awaited { .. } if purpose == Purpose::Word => peer.hears_words = false,
            State::Awaited { .. } => peer.hears_beats = false,
        }
    }

    fn take(&mut self, rank: usize, purpose: Purpose, piece: Vec<u8>, length: usize) {
        if self.peers[rank].state == State::Lost {
            return;
        }
        self.note_life(rank, purpose != Purpose::Beat || piece[..length] != [0; BEAT_BYTES]);
        match purpose {
            Purpose::Beat | Purpose::OwnBeat => self.receive(rank, Purpose::Beat, piece),
            Purpose::Word => match Word::parse(&piece[..length]) {
                Some((word, rest)) => {
                    let rest = rest.to_vec();
                    self.hear(rank, word, rest, piece);
                }
                None => self.miss(rank),
            },
            Purpose::Piece => {
                let peer = &mut self.peers[rank];
                peer.message.extend_from_slice(&piece[..length]);
                peer.left = peer.left.saturating_sub(length as u64);
                self.go_on(rank, piece);
            }
        }
    }

    /// A rank has said something, which `rest` follows; `piece` is free again.
    fn hear(&mut self, rank: usize, word: Word, rest: Vec<u8>, piece: Vec<u8>) {
        match word {
            Word::Message { length } => {
                let peer = &mut self.peers[rank];
                (peer.left, peer.message) = (length - rest.len() as u64, rest);
                return self.go_on(rank, piece);
            }
            Word::Ask(number) => self.say(rank, Word::Answer(number)),
            Word::Answer(number) => self.tell(Heard::Answer(Rank(rank as u32), number)),
            // Whoever takes this rank for lost hears nothing of it any more.
            Word::Lost(lost) if lost == self.rank.0 => return self.lose(rank),
            Word::Lost(lost) if self.peers.get(lost as usize).is_none() => return self.miss(rank),
            Word::Lost(lost) => self.lose(lost as usize),
            Word::Farewell => {
                self.say(rank, Word::Answer(TO_FAREWELL));
                return self.lose(rank);
            }
        }
        self.receive(rank, Purpose::Word, piece);
    }

    /// A rank to which nothing can be said is lost. The loss of a peer may be told to this post only.
    fn say(&mut self, rank: usize, word: Word) {
        let caller = self.messenger.caller(self.context).user(Purpose::Word.with(rank));
        if say(&self.messenger, self.peers[rank].address, self.tags, caller, word, Bytes::new()).is_err() {
            self.lose(rank);
        }
    }

    /// Has more of a message come, or tells it if it is whole.
    fn go_on(&mut self, rank: usize, mut piece: Vec<u8>) {
        let peer = &mut self.peers[rank];
        let next = peer.left.min(PIECE as u64) as usize;
        if next > 0 {
            piece.resize(next, 0);
            return self.receive(rank, Purpose::Piece, piece);
        }
        let message = Bytes::from(std::mem::take(&mut peer.message));
        self.tell(Heard::Arrival(Arrival::From(Rank(rank as u32), message)));
        piece.resize(LONGEST, 0);
        piece.shrink_to(LONGEST);
        self.receive(rank, Purpose::Word, piece);
    }

    /// A rank is lost, as only this one may know.
    fn miss(&mut self, rank: usize) {
        self.lose(rank);
        for other in 0..self.peers.len() {
            if matches!(self.peers[other].state, State::Here { .. }) {
                self.say(other, Word::Lost(rank as u32));
            }
        }
    }

    fn lose(&mut self, rank: usize) {
        let peer = &mut self.peers[rank];
        if peer.state != State::Lost {
            (peer.state, peer.message) = (State::Lost, Vec::new());
            self.tell(Heard::Arrival(Arrival::Lost(Rank(rank as u32))));
        }
    }

    fn tell(&self, heard: Heard) {
        // A rank whose link was dropped hears nothing more.
        let _ = self.heard.send(heard);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.messenger.close_context(self.context);
    }
}
