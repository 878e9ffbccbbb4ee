//! Whatever reads and changes the records of data sets does so one after the other.

use fec_transport::StreamId;
use fec_transport::overlay::MemberId;

use crate::fair::FairQueue;

/// Whose turn it is. Records are read whole, so that one at a time also bounds the memory that they take. Members take
/// turns, whatever number of requests each has.
#[derive(Debug, Default)]
pub(super) struct Turns {
    holder: Option<StreamId>,
    waiting: FairQueue<MemberId, StreamId>,
}

impl Turns {
    /// Whether it is the turn of `stream`, a member's; if not, it waits from now on.
    pub(super) fn take(&mut self, member: MemberId, stream: StreamId) -> bool {
        match self.holder {
            None => self.holder = Some(stream),
            Some(holder) if holder == stream => {}
            Some(_) => {
                self.waiting.push(member, stream);
                return false;
            }
        }
        true
    }

    /// `stream` needs no turn, or no more.
    pub(super) fn release(&mut self, member: MemberId, stream: StreamId) {
        self.holder = self.holder.filter(|holder| *holder != stream);
        self.waiting.remove(member, &stream);
    }

    /// The stream that may try again, if none has the turn.
    pub(super) fn next(&mut self) -> Option<StreamId> {
        if self.holder.is_some() {
            return None;
        }
        self.waiting.pop(|_| true, |_| 0).map(|(_, stream)| stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fec_transport::SessionId;

    #[test]
    fn turns_go_round_among_members_and_for_each_in_the_order_of_asking() {
        let stream = |number| StreamId { session: SessionId(1), number };
        let (one, two) = (MemberId(1), MemberId(2));
        let mut turns = Turns::default();
        assert_eq!(
            [1, 2, 3, 2, 4, 1].map(|number| turns.take(one, stream(number))),
            [true, false, false, false, false, true]
        );
        assert!(!turns.take(two, stream(9)));
        assert_eq!(turns.next(), None);
        turns.release(one, stream(3));
        turns.release(one, stream(1));
        assert_eq!(turns.next(), Some(stream(2)));
        assert!(turns.take(one, stream(2)));
        turns.release(one, stream(2));
        assert_eq!(turns.next(), Some(stream(9)), "the other member's only one");
        assert_eq!((turns.next(), turns.next()), (Some(stream(4)), None));
    }
}
