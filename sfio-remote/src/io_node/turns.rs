//! Whatever reads and changes the records of data sets does so one after the other.

use std::collections::VecDeque;

use fec_transport::StreamId;

/// Whose turn it is. Records are read whole, so that one at a time also bounds the memory that they take.
#[derive(Debug, Default)]
pub(super) struct Turns {
    holder: Option<StreamId>,
    waiting: VecDeque<StreamId>,
}

impl Turns {
    /// Whether it is the turn of `stream`; if not, it waits from now on.
    pub(super) fn take(&mut self, stream: StreamId) -> bool {
        match self.holder {
            None => self.holder = Some(stream),
            Some(holder) if holder == stream => {}
            Some(_) => {
                if !self.waiting.contains(&stream) {
                    self.waiting.push_back(stream);
                }
                return false;
            }
        }
        true
    }

    /// `stream` needs no turn, or no more.
    pub(super) fn release(&mut self, stream: StreamId) {
        self.holder = self.holder.filter(|holder| *holder != stream);
        self.waiting.retain(|waiting| *waiting != stream);
    }

    /// The stream that may try again, if none has the turn.
    pub(super) fn next(&mut self) -> Option<StreamId> {
        if self.holder.is_none() { self.waiting.pop_front() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fec_transport::SessionId;

    #[test]
    fn turns_go_round_in_the_order_of_asking() {
        let stream = |number| StreamId { session: SessionId(1), number };
        let mut turns = Turns::default();
        assert_eq!(
            [1, 2, 3, 2, 4, 1].map(|number| turns.take(stream(number))),
            [true, false, false, false, false, true]
        );
        assert_eq!(turns.next(), None);
        turns.release(stream(3));
        turns.release(stream(1));
        assert_eq!(turns.next(), Some(stream(2)));
        assert!(turns.take(stream(2)));
        turns.release(stream(2));
        assert_eq!((turns.next(), turns.next()), (Some(stream(4)), None));
    }
}
