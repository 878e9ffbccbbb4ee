//! The outcomes of requests that must not be carried out twice, for clients that lost the reply and ask again.

use std::collections::{BTreeMap, VecDeque};

use fec_transport::StreamId;
use fec_transport::overlay::{InstanceId, MemberId, Peer};

use crate::store::{DiskError, DiskReply};
use crate::wire::{RequestId, RequestKind};

/// The most outcomes that are remembered of one member's requests; the oldest are forgotten first.
const MAX_REMEMBERED: usize = 1_024;

/// The most streams that wait for one outcome: who asks again has given up the streams before.
const MAX_REPETITIONS: usize = 16;

/// One request of one client's process.
pub(super) type PastId = (Peer, RequestId);

/// What came of past requests, and which streams wait for those that are not done.
#[derive(Debug, Default)]
pub(super) struct Past {
    requests: BTreeMap<PastId, Entry>,
    /// Those of each member in the order of their arrival.
    order: BTreeMap<MemberId, VecDeque<RequestOf>>,
}

/// A request of some process of a member.
type RequestOf = (InstanceId, RequestId);

#[derive(Debug)]
struct Entry {
    kind: RequestKind,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The disk works on it; repetitions wait.
    Running(Vec<StreamId>),
    Done(Result<DiskReply, DiskError>),
}

/// What is known of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Nothing; it is remembered from now on.
    New,
    /// It is being carried out; the stream will be told.
    Running,
    /// It was carried out.
    Done(Result<DiskReply, DiskError>),
}
impl Past {
    /// A request that must not be carried out twice has arrived on `stream`.
    pub(super) fn look_up(&mut self, id: PastId, kind: &RequestKind, stream: StreamId) -> Seen {
        match self.requests.get_mut(&id).filter(|entry| entry.kind == *kind) {
            Some(Entry { state: State::Done(outcome), .. }) => Seen::Done(outcome.clone()),
            Some(Entry { state: State::Running(waiting), .. }) => {
                if waiting.len() >= MAX_REPETITIONS {
                    waiting.remove(0);
                }
                waiting.push(stream);
                Seen::Running
            }
            None => {
                self.remember(id, kind.clone());
                Seen::New
            }
        }
    }

    /// A request was carried out. Gives the streams on which it was repeated meanwhile.
    pub(super) fn done(&mut self, id: PastId, outcome: &Result<DiskReply, DiskError>) -> Vec<StreamId> {
        let Some(entry) = self.requests.get_mut(&id) else { return Vec::new() };
        match std::mem::replace(&mut entry.state, State::Done(outcome.clone())) {
            State::Running(waiting) => waiting,
            State::Done(_) => Vec::new(),
        }
    }

    /// The stream on which the request came is given up, and the disk has not begun with it. Gives a stream on which it
    /// was repeated, which waits for it instead; without any it is as if it had not come.
    pub(super) fn give_up(&mut self, id: PastId) -> Option<StreamId> {
        match &mut self.requests.get_mut(&id)?.state {
            State::Running(waiting) if !waiting.is_empty() => Some(waiting.remove(0)),
            _ => {
                self.requests.remove(&id);
                let (peer, request) = id;
                let order = self.order.entry(peer.member).or_default();
                order.retain(|one| *one != (peer.instance, request));
                None
            }
        }
    }

    fn remember(&mut self, id: PastId, kind: RequestKind) {
        let entry = Entry { kind, state: State::Running(Vec::new()) };
        let (peer, request) = id;
        let order = self.order.entry(peer.member).or_default();
        if self.requests.insert(id, entry).is_none() {
            order.push_back((peer.instance, request));
        }
        while order.len() > MAX_REMEMBERED {
            if let Some((instance, request)) = order.pop_front() {
                self.requests.remove(&(Peer { instance, ..peer }, request));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::SubfilePath;
    use fec_transport::SessionId;
    use fec_transport::overlay::{InstanceId, MemberId};

    fn id(operation: u64) -> PastId {
        let peer = Peer { member: MemberId(1), instance: InstanceId(7) };
        (peer, RequestId { operation, transfer: 0 })
    }

    fn remove(path: &str) -> RequestKind {
        RequestKind::Remove { path: SubfilePath::new(path).expect("a right path") }
    }

    fn stream(number: u32) -> StreamId {
        StreamId { session: SessionId(1), number }
    }

    #[test]
    fn a_repetition_gets_the_outcome_of_the_first() {
        let mut past = Past::default();
        let outcome = Ok(DiskReply { size_before: 9, ..DiskReply::default() });
        assert_eq!(past.look_up(id(1), &remove("a"), stream(2)), Seen::New);
        assert_eq!(past.look_up(id(1), &remove("a"), stream(4)), Seen::Running);
        assert_eq!(past.done(id(1), &outcome), [stream(4)]);
        assert_eq!(past.look_up(id(1), &remove("a"), stream(6)), Seen::Done(outcome));
        // The same number for something else is no repetition.
        assert_eq!(past.look_up(id(1), &remove("b"), stream(8)), Seen::New);
    }

    #[test]
    fn what_was_not_begun_and_is_given_up_goes_to_who_asked_again_or_is_forgotten() {
        let mut past = Past::default();
        assert_eq!(past.look_up(id(1), &remove("a"), stream(2)), Seen::New);
        assert_eq!(past.look_up(id(1), &remove("a"), stream(4)), Seen::Running);
        assert_eq!(past.give_up(id(1)), Some(stream(4)));
        assert_eq!(past.give_up(id(1)), None);
        assert_eq!(past.look_up(id(1), &remove("a"), stream(6)), Seen::New);
    }

    /// One member's flood of requests once made the I/O node forget the outcomes of all others.
    #[test]
    fn each_member_has_a_memory_of_its_own() {
        let mut past = Past::default();
        let ((mut peer, request), outcome) = (id(1), Ok(DiskReply::default()));
        peer.member = MemberId(2);
        assert_eq!(past.look_up((peer, request), &remove("a"), stream(2)), Seen::New);
        past.done((peer, request), &outcome);
        for operation in 0..5 * MAX_REMEMBERED as u64 {
            past.look_up(id(operation), &remove("a"), stream(2));
        }
        assert_eq!(past.look_up((peer, request), &remove("a"), stream(4)), Seen::Done(outcome));
    }

    #[test]
    fn the_memory_is_bounded_and_the_oldest_is_forgotten_first() {
        let mut past = Past::default();
        for operation in 0..=MAX_REMEMBERED as u64 {
            assert_eq!(past.look_up(id(operation), &remove("a"), stream(2)), Seen::New);
            past.done(id(operation), &Ok(DiskReply::default()));
        }
        let remembered = past.order.values().map(VecDeque::len).sum::<usize>();
        assert_eq!((past.requests.len(), remembered), (MAX_REMEMBERED, MAX_REMEMBERED));
        assert!(matches!(past.look_up(id(1), &remove("a"), stream(2)), Seen::Done(_)));
        assert_eq!(past.look_up(id(0), &remove("a"), stream(2)), Seen::New);
    }

    /// It stood in the queue twice, and the first one took the second one with it.
    #[test]
    fn a_request_that_is_asked_again_after_it_was_given_up_is_remembered_as_long_as_others() {
        let mut past = Past::default();
        let ask = |past: &mut Past, operation| past.look_up(id(operation), &remove("x"), stream(1));
        assert_eq!(ask(&mut past, 0), Seen::New);
        assert_eq!(past.give_up(id(0)), None);
        assert_eq!(ask(&mut past, 0), Seen::New);
        (1..MAX_REMEMBERED as u64).for_each(|operation| drop(ask(&mut past, operation)));
        assert_eq!(ask(&mut past, 0), Seen::Running);
    }
}
