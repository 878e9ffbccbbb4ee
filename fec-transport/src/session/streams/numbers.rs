//! Which streams are open: numbers, limits, and when a stream is over in both directions.

use std::collections::BTreeMap;

/// Which end of a session this is. The initiator's streams have even numbers from 2 on, the responder's odd ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Initiator,
    Responder,
}

/// The numbers of the streams of a session that are open, and how many more may be opened.
#[derive(Debug)]
pub(crate) struct Numbers {
    role: Role,
    open: BTreeMap<u32, Directions>,
    /// How many streams we have opened, and may open, over the session's life.
    opened: u32,
    may_open: u32,
    /// The same for the peer; `announced` is what it was told.
    peer_opened: u32,
    peer_may_open: u32,
    announced: u32,
    at_once: u32,
}

/// Which directions of a stream are over.
#[derive(Debug, Clone, Copy, Default)]
struct Directions {
    sending: bool,
    receiving: bool,
}

/// The peer opened more streams than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stream {0} is beyond the number that it may open")]
pub(crate) struct TooManyStreams(u32);

impl Numbers {
    /// `at_once` is how many streams the peer may have open.
    pub(crate) fn new(role: Role, at_once: u32) -> Numbers {
        Numbers {
            role,
            open: BTreeMap::new(),
            opened: 0,
            may_open: 0,
            peer_opened: 0,
            peer_may_open: at_once,
            announced: at_once,
            at_once,
        }
    }

    /// The peer lets us open `count` streams over the session's life.
    pub(crate) fn allow(&mut self, count: u32) {
        self.may_open = self.may_open.max(count);
    }

    /// Opens a stream of ours; `None` if the peer allows no more for now.
    pub(crate) fn open(&mut self) -> Option<u32> {
        if self.opened >= self.may_open {
            return None;
        }
        let number = number_of(self.role, self.opened);
        self.opened += 1;
        self.open.insert(number, Directions::default());
        Some(number)
    }

    /// How many are open in either direction.
    pub(crate) fn count(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn is_open(&self, number: u32) -> bool {
        self.open.contains_key(&number)
    }

    /// The peer used this stream number: gives the streams that it thereby opens.
    pub(crate) fn on_peer_stream(&mut self, number: u32) -> Result<Vec<u32>, TooManyStreams> {
        let (owner, index) = owner_of(number).ok_or(TooManyStreams(number))?;
        if owner == self.role {
            return if index < self.opened { Ok(Vec::new()) } else { Err(TooManyStreams(number)) };
        }
        // What it was not told it cannot know. If it could open a stream for each one that is over, and took nothing of
        // what is said to it, what there is to say of these streams would have no bound.
        if index >= self.announced {
            return Err(TooManyStreams(number));
        }
        let new: Vec<u32> = (self.peer_opened..=index).map(|index| number_of(owner, index)).collect();
        self.peer_opened = self.peer_opened.max(index + 1);
        self.open.extend(new.iter().map(|number| (*number, Directions::default())));
        Ok(new)
    }

    /// Our direction has been delivered or given up; gives whether the stream is over.
    pub(crate) fn sending_over(&mut self, number: u32) -> bool {
        self.over(number, |directions| directions.sending = true)
    }

    /// The peer's direction has been read or given up; gives whether the stream is over.
    pub(crate) fn receiving_over(&mut self, number: u32) -> bool {
        self.over(number, |directions| directions.receiving = true)
    }

    /// The number of streams to tell the peer that it may open, if it is worth a message.
    pub(crate) fn next_limit(&mut self) -> Option<u32> {
        if self.peer_may_open - self.announced < (self.at_once / 4).max(1) {
            return None;
        }
        self.announced = self.peer_may_open;
        Some(self.announced)
    }

    fn over(&mut self, number: u32, note: impl FnOnce(&mut Directions)) -> bool {
        let Some(directions) = self.open.get_mut(&number) else { return false };
        note(directions);
        if !(directions.sending && directions.receiving) {
            return false;
        }
        self.open.remove(&number);
        if owner_of(number).is_some_and(|(owner, _)| owner != self.role) {
            self.peer_may_open = self.peer_may_open.saturating_add(1);
        }
        true
    }
}

fn number_of(owner: Role, index: u32) -> u32 {
    match owner {
        Role::Initiator => index * 2 + 2,
        Role::Responder => index * 2 + 1,
    }
}

/// Which end opens the stream of this number, and as which of its streams; neither opens the control stream, 0.
fn owner_of(number: u32) -> Option<(Role, u32)> {
    match number {
        0 => None,
        even if even.is_multiple_of(2) => Some((Role::Initiator, even / 2 - 1)),
        odd => Some((Role::Responder, odd / 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_opens_those_below_it_and_ends_with_both_directions() {
        let mut numbers = Numbers::new(Role::Responder, 3);
        assert_eq!(numbers.on_peer_stream(4), Ok(vec![2, 4]));
        assert_eq!(numbers.on_peer_stream(2), Ok(vec![]));
        assert_eq!(numbers.on_peer_stream(8), Err(TooManyStreams(8)));
        assert!(!numbers.sending_over(2));
        assert!(numbers.receiving_over(2));
        assert!(!numbers.is_open(2));
        assert_eq!(numbers.next_limit(), Some(4));
        assert_eq!(numbers.on_peer_stream(8), Ok(vec![6, 8]));
    }

    /// A peer that acknowledged nothing could have one stream after the other refused: each left a word of that here.
    #[test]
    fn a_peer_opens_no_more_than_it_was_told_however_many_are_over() {
        let mut numbers = Numbers::new(Role::Responder, 4);
        for number in [2, 4, 6, 8] {
            numbers.on_peer_stream(number).expect("within the limit");
            numbers.sending_over(number);
            assert!(numbers.receiving_over(number));
        }
        assert_eq!(numbers.on_peer_stream(10), Err(TooManyStreams(10)));
        assert_eq!(numbers.next_limit(), Some(8));
        assert_eq!(numbers.on_peer_stream(10), Ok(vec![10]));
    }

    #[test]
    fn we_open_what_the_peer_allows() {
        let mut numbers = Numbers::new(Role::Responder, 3);
        assert_eq!(numbers.open(), None);
        numbers.allow(2);
        assert_eq!((numbers.open(), numbers.open(), numbers.open()), (Some(1), Some(3), None));
        assert_eq!(numbers.on_peer_stream(1), Ok(vec![]));
        assert!(numbers.on_peer_stream(5).is_err());
    }
}
