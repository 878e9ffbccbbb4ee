//! Which message a receive gets: of each sender and tag the first receive gets the first message.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::budget::{Held, kept};
use super::operation::{AddressId, OperationId, Tag};

/// Receives that wait for messages, and messages that wait for receives. Of one sender and tag there are never both.
///
/// Each step costs the logarithm of how many wait.
#[derive(Debug, Default)]
pub(super) struct Matching {
    receives: BTreeSet<(AddressId, Tag, OperationId)>,
    arrivals: BTreeMap<Place, Arrival>,
    last_arrival: u64,
}

/// Where a message waits.
pub(super) type Place = (AddressId, Tag, u64);

/// A message that waits for a receive.
#[derive(Debug)]
pub(super) enum Arrival {
    /// All of it is here.
    Whole(Vec<Bytes>, Held),
    /// The sender has it.
    Offered { message: u64, length: u64, held: Held },
}

/// What becomes of a message.
#[derive(Debug)]
pub(super) enum Pairing {
    /// It belongs to this receive.
    With(OperationId, Arrival),
    /// It waits there.
    Waits(Place),
}

impl Matching {
    /// A receive was posted; gives the message that it gets, if one is here.
    pub(super) fn post(&mut self, from: AddressId, tag: Tag, receive: OperationId) -> Option<Arrival> {
        if let Some(place) = self.first_arrival(from, tag) {
            return self.arrivals.remove(&place);
        }
        self.receives.insert((from, tag, receive));
        None
    }

    /// Whether a message of that sender and tag is here.
    pub(super) fn has_arrival(&self, from: AddressId, tag: Tag) -> bool {
        self.first_arrival(from, tag).is_some()
    }

    /// A message has come.
    pub(super) fn arrive(&mut self, from: AddressId, tag: Tag, arrival: Arrival) -> Pairing {
        let first = self.receives.range((from, tag, OperationId(0))..).next().copied();
        if let Some(receive) = first.filter(|receive| (receive.0, receive.1) == (from, tag)) {
            self.receives.remove(&receive);
            return Pairing::With(receive.2, arrival);
        }
        self.last_arrival += 1;
        let place = (from, tag, self.last_arrival);
        self.arrivals.insert(place, arrival);
        Pairing::Waits(place)
    }

    /// A message that waits is to [keep](kept).
    pub(super) fn keep(&mut self, place: Place) {
        if let Some(Arrival::Whole(pieces, _)) = self.arrivals.get_mut(&place) {
            *pieces = vec![kept(pieces)];
        }
    }

    /// A receive waits no more.
    pub(super) fn cancel(&mut self, from: AddressId, tag: Tag, receive: OperationId) {
        self.receives.remove(&(from, tag, receive));
    }

    /// A message waits no more.
    pub(super) fn withdraw(&mut self, place: Place) -> Option<Arrival> {
        self.arrivals.remove(&place)
    }

    /// The receives that wait for messages of one sender.
    pub(super) fn receives_of(&self, from: AddressId) -> Vec<OperationId> {
        let all = self.receives.range((from, Tag(0), OperationId(0))..);
        all.take_while(|receive| receive.0 == from).map(|receive| receive.2).collect()
    }

    /// Whether a receive or a message of one sender waits.
    pub(super) fn knows(&self, from: AddressId) -> bool {
        let receive = self.receives.range((from, Tag(0), OperationId(0))..).next();
        let arrival = self.arrivals.range((from, Tag(0), 0)..).next();
        receive.is_some_and(|receive| receive.0 == from) || arrival.is_some_and(|(place, _)| place.0 == from)
    }

    /// Takes all messages of one sender that wait.
    pub(super) fn take_arrivals_of(&mut self, from: AddressId) -> Vec<Arrival> {
        let mut later = self.arrivals.split_off(&(from, Tag(0), 0));
        let mut others = later.split_off(&(AddressId(from.0 + 1), Tag(0), 0));
        self.arrivals.append(&mut others);
        later.into_values().collect()
    }

    /// How many receives and messages wait.
    pub(super) fn len(&self) -> usize {
        self.receives.len() + self.arrivals.len()
    }

    fn first_arrival(&self, from: AddressId, tag: Tag) -> Option<Place> {
        let (place, _) = self.arrivals.range((from, tag, 0)..).next()?;
        Some(*place).filter(|place| (place.0, place.1) == (from, tag))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use proptest::prelude::*;

    /// The plain model: two queues for each pair.
    #[derive(Default)]
    struct Model {
        pairs: BTreeMap<(AddressId, Tag), (VecDeque<OperationId>, VecDeque<u64>)>,
    }

    impl Model {
        fn pair(&mut self, from: AddressId, tag: Tag) -> &mut (VecDeque<OperationId>, VecDeque<u64>) {
            self.pairs.entry((from, tag)).or_default()
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Post(u64, u32),
        Arrive(u64, u32),
        /// Of the receives posted so far, one.
        Cancel(usize),
        /// Of the messages that waited when they came, one.
        Withdraw(usize),
        Lose(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0u64..3, 0u32..3).prop_map(|(from, tag)| Step::Post(from, tag)),
            6 => (0u64..3, 0u32..3).prop_map(|(from, tag)| Step::Arrive(from, tag)),
            2 => any::<usize>().prop_map(Step::Cancel),
            2 => any::<usize>().prop_map(Step::Withdraw),
            1 => (0u64..3).prop_map(Step::Lose),
        ]
    }

    fn offered(message: u64) -> Arrival {
        Arrival::Offered { message, length: 0, held: Held::for_tests() }
    }

    fn number(arrival: Arrival) -> u64 {
        match arrival {
            Arrival::Offered { message, .. } => message,
            Arrival::Whole(..) => unreachable!("all are offered here"),
        }
    }

    proptest! {
        #[test]
        fn it_pairs_as_two_queues_for_each_pair_do(steps in proptest::collection::vec(step(), 0..120)) {
            let (mut matching, mut model) = (Matching::default(), Model::default());
            let (mut posted, mut waiting) = (Vec::new(), Vec::new());
            for (at, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Post(from, tag) => {
                        let (from, tag, receive) = (AddressId(from), Tag(tag), OperationId(at as u64));
                        let (receives, messages) = model.pair(from, tag);
                        let expected = messages.pop_front();
                        if expected.is_none() {
                            receives.push_back(receive);
                        }
                        posted.push((from, tag, receive));
                        prop_assert_eq!(matching.has_arrival(from, tag), expected.is_some());
                        prop_assert_eq!(matching.post(from, tag, receive).map(number), expected);
                    }
                    Step::Arrive(from, tag) => {
                        let (from, tag) = (AddressId(from), Tag(tag));
                        let (receives, messages) = model.pair(from, tag);
                        let expected = receives.pop_front();
                        if expected.is_none() {
                            messages.push_back(at as u64);
                        }
                        match matching.arrive(from, tag, offered(at as u64)) {
                            Pairing::With(receive, arrival) => {
                                prop_assert_eq!((Some(receive), number(arrival)), (expected, at as u64));
                            }
                            Pairing::Waits(place) => {
                                prop_assert_eq!(expected, None);
                                waiting.push((place, at as u64));
                            }
                        }
                    }
                    Step::Cancel(index) if !posted.is_empty() => {
                        let (from, tag, receive) = posted[index % posted.len()];
                        model.pair(from, tag).0.retain(|other| *other != receive);
                        matching.cancel(from, tag, receive);
                    }
                    Step::Withdraw(index) if !waiting.is_empty() => {
                        let (place, message) = waiting[index % waiting.len()];
                        let messages = &mut model.pair(place.0, place.1).1;
                        let was_there = messages.contains(&message);
                        messages.retain(|other| *other != message);
                        prop_assert_eq!(matching.withdraw(place).is_some(), was_there);
                    }
                    Step::Cancel(_) | Step::Withdraw(_) => {}
                    Step::Lose(from) => {
                        let from = AddressId(from);
                        let pairs = model.pairs.iter_mut().filter(|((sender, _), _)| *sender == from);
                        let (mut receives, mut messages) = (Vec::new(), Vec::new());
                        for (_, pair) in pairs {
                            receives.extend(pair.0.iter().copied());
                            messages.extend(pair.1.drain(..));
                        }
                        prop_assert_eq!(matching.receives_of(from), receives);
                        let taken = matching.take_arrivals_of(from);
                        prop_assert_eq!(taken.into_iter().map(number).collect::<Vec<_>>(), messages);
                    }
                }
                let waits: usize = model.pairs.values().map(|pair| pair.0.len() + pair.1.len()).sum();
                prop_assert_eq!(matching.len(), waits);
            }
        }
    }
}
