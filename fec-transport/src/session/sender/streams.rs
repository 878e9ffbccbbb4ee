//! The sending directions of a session's streams, and what they have together.
//!
//! A session may have hundreds of streams with nothing to send. What is asked with each packet (how much waits, whether
//! anybody does, whose turn it is) is kept up to date, so that nobody has to go through all of them.

use std::collections::{BTreeMap, BTreeSet};

use super::turns::Turns;
use crate::session::stream::SendStream;
use crate::wire::stream_control::CONTROL_STREAM;

/// The sending directions of all open streams.
#[derive(Debug)]
pub(super) struct SendStreams {
    by_number: BTreeMap<u32, Box<SendStream>>,
    /// Those that have something which is to become an urgent block, or one of bulk. They take turns.
    filled_urgent: Turns,
    filled_bulk: Turns,
    /// Those whose writers were told to wait.
    awaited: BTreeSet<u32>,
    /// Bytes that wait to become blocks.
    buffered: usize,
}

impl SendStreams {
    /// With the control stream and no other.
    pub(super) fn new(control: SendStream) -> SendStreams {
        SendStreams {
            by_number: BTreeMap::from([(CONTROL_STREAM, Box::new(control))]),
            filled_urgent: Turns::default(),
            filled_bulk: Turns::default(),
            awaited: BTreeSet::new(),
            buffered: 0,
        }
    }

    pub(super) fn open(&mut self, number: u32, stream: SendStream) {
        self.by_number.insert(number, Box::new(stream));
    }

    pub(super) fn close(&mut self, number: u32) {
        if let Some(closed) = self.by_number.remove(&number) {
            self.buffered -= closed.buffered();
            self.filled_urgent.remove(number);
            self.filled_bulk.remove(number);
            self.awaited.remove(&number);
        }
    }

    pub(super) fn get(&self, number: u32) -> Option<&SendStream> {
        self.by_number.get(&number).map(Box::as_ref)
    }

    /// Changes a stream; gives what `change` does, or nothing if there is no such stream.
    pub(super) fn change<T>(&mut self, number: u32, change: impl FnOnce(&mut SendStream) -> T) -> Option<T> {
        let stream = self.by_number.get_mut(&number)?;
        self.buffered -= stream.buffered();
        let result = change(stream);
        self.buffered += stream.buffered();
        let is_urgent = stream.class().is_urgent();
        let (has_more, is_awaited) = (stream.has_more(), stream.is_waited_for());
        self.filled_urgent.set(number, has_more && is_urgent);
        self.filled_bulk.set(number, has_more && !is_urgent);
        match is_awaited {
            true => self.awaited.insert(number),
            false => self.awaited.remove(&number),
        };
        Some(result)
    }

    /// Bytes of all streams that wait to become blocks.
    pub(super) fn buffered(&self) -> usize {
        self.buffered
    }

    /// Whether any writer was told to wait.
    pub(super) fn are_awaited(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// The streams whose writers wait although their buffers are filled to less than `level`; they wait no more.
    pub(super) fn take_relieved(&mut self, level: usize) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.awaited.iter().copied().collect();
        numbers.retain(|number| self.change(*number, |stream| stream.is_relieved(level)) == Some(true));
        numbers
    }

    /// The streams that have something which is to become a block.
    pub(super) fn filled(&self) -> impl Iterator<Item = &SendStream> {
        self.filled_urgent.iter().chain(self.filled_bulk.iter()).filter_map(|number| self.get(number))
    }

    /// The stream of that urgency whose turn it is of those that can form a block: control first, then the one that has
    /// waited longest.
    pub(super) fn next(&self, urgent: bool, can_form: impl Fn(&SendStream) -> bool) -> Option<u32> {
        let filled = if urgent { &self.filled_urgent } else { &self.filled_bulk };
        let control = filled.contains(CONTROL_STREAM).then_some(CONTROL_STREAM);
        control.into_iter().chain(filled.iter()).find(|number| self.get(*number).is_some_and(&can_form))
    }

    /// A stream has formed a block: the next turn is that of the others.
    pub(super) fn note_served(&mut self, number: u32) {
        self.filled_urgent.go_to_the_end(number);
        self.filled_bulk.go_to_the_end(number);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::session::stream::Class;
    use crate::time::Time;

    fn stream() -> SendStream {
        SendStream::new(u64::MAX, Class::Bulk)
    }

    fn streams(count: u32) -> SendStreams {
        let mut streams = SendStreams::new(stream());
        (1..=count).for_each(|number| streams.open(number, stream()));
        streams
    }

    fn write(streams: &mut SendStreams, number: u32, bytes: usize, limit: usize) {
        streams.change(number, |stream| stream.write(Time::ZERO, &vec![7; bytes], limit));
    }

    #[test]
    fn streams_with_something_to_send_take_turns_and_control_comes_first() {
        let mut streams = streams(4);
        assert_eq!(streams.next(false, |_| true), None);
        [2, 4].into_iter().for_each(|number| write(&mut streams, number, 10, 100));
        assert_eq!(streams.next(false, |_| true), Some(2));
        streams.note_served(2);
        assert_eq!(streams.next(false, |_| true), Some(4));
        streams.note_served(4);
        assert_eq!(streams.next(false, |_| true), Some(2));
        write(&mut streams, CONTROL_STREAM, 10, 100);
        assert_eq!(streams.next(false, |_| true), Some(CONTROL_STREAM));
        // A stream that ends without another byte has its end to send.
        streams.change(3, SendStream::finish);
        streams.note_served(2);
        assert_eq!(streams.next(false, |stream| stream.buffered() == 0), Some(3));
    }

    #[test]
    fn a_stream_that_waits_has_its_turn_although_new_ones_are_opened_all_the_time() {
        let mut streams = streams(3);
        (1..=3).for_each(|number| write(&mut streams, number, 50, 100));
        let mut served = Vec::new();
        for opened in 4..10 {
            // Only stream 1 has more to send after its turn. Every other stream ends, and a new one is opened.
            let number = streams.next(false, |_| true).expect("some wait");
            if number != 1 {
                streams.close(number);
            }
            streams.note_served(number);
            streams.open(opened, stream());
            write(&mut streams, opened, 50, 100);
            served.push(number);
        }
        assert_eq!(served, [1, 2, 3, 1, 4, 5]);
    }

    #[test]
    fn a_stream_whose_class_changes_has_its_turn_among_the_others_of_that_urgency() {
        let mut streams = streams(2);
        [1, 2].into_iter().for_each(|number| write(&mut streams, number, 10, 100));
        assert_eq!(streams.next(true, |_| true), None);
        streams.change(2, |stream| stream.set_class(Class::Interactive));
        assert_eq!((streams.next(true, |_| true), streams.next(false, |_| true)), (Some(2), Some(1)));
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_going_through_all_streams_gives(
            acts in prop::collection::vec((1..5_u32, 0..5_u8, 0..50_usize), 0..60)
        ) {
            let mut streams = streams(4);
            for (number, act, bytes) in acts {
                match act {
                    0 => write(&mut streams, number, bytes, 40),
                    1 => drop(streams.change(number, SendStream::abandon)),
                    2 => streams.close(number),
                    3 if streams.get(number).is_none() => streams.open(number, stream()),
                    _ => drop(streams.take_relieved(bytes)),
                }
                let all = || streams.by_number.values();
                prop_assert_eq!(streams.buffered(), all().map(|stream| stream.buffered()).sum::<usize>());
                prop_assert_eq!(streams.are_awaited(), all().any(|stream| stream.is_waited_for()));
                prop_assert_eq!(streams.filled().count(), all().filter(|stream| stream.has_more()).count());
            }
        }
    }
}
