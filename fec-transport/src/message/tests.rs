//! Two messengers in one process, by the module `memory`.

use bytes::Bytes;
use std::time::Duration;

use super::memory::{Exchange, JoinError, Port};
use super::*;
use crate::keys::encode_key;
use crate::time::Time;
use crate::wire::message::{Frame, FrameReader, Kind};

const NOW: Time = Time::ZERO;

/// A messenger with a context and the other one's address.
struct End {
    messenger: Shared,
    port: Option<Port>,
    context: ContextId,
    peer: AddressId,
}

fn pair_with(limits: Limits) -> [End; 2] {
    let exchange = Exchange::new();
    let end = |name: &str, other: &str| {
        let messenger = Shared::new(limits);
        let port = Some(exchange.join(name, &messenger, || {}).expect("a free name"));
        let (context, peer) = {
            let mut messenger = messenger.lock();
            (messenger.open_context(), messenger.look_up(&format!("memory://{other}")).expect("an address"))
        };
        End { messenger, port, context, peer }
    };
    [end("a", "b"), end("b", "a")]
}

fn pair() -> [End; 2] {
    pair_with(Limits::default())
}

/// Carries until nothing moves.
fn carry(ends: &[End]) {
    let ports = || ends.iter().filter_map(|end| end.port.as_ref());
    while ports().any(|port| !port.is_idle()) {
        ports().for_each(Port::carry);
    }
}

fn bytes(length: usize, seed: u8) -> Bytes {
    (0..length).map(|at| (at * 7) as u8 ^ seed).collect::<Vec<_>>().into()
}

impl End {
    fn caller(&self) -> Caller {
        Caller::new(self.context)
    }

    fn send(&self, tag: u32, message: &Bytes) -> Posted {
        let pieces = vec![message.clone()];
        let posted = self.messenger.lock().post_send(NOW, self.peer, Tag(tag), pieces, self.caller());
        posted.expect("posted")
    }

    fn send_unexpected(&self, tag: u32, message: &Bytes) -> Posted {
        let pieces = vec![message.clone()];
        let mut messenger = self.messenger.lock();
        messenger.post_send_unexpected(NOW, self.peer, Tag(tag), pieces, self.caller()).expect("posted")
    }

    fn receive(&self, tag: u32, room: Room) -> Posted {
        let posted = self.messenger.lock().post_receive(NOW, self.peer, Tag(tag), room, self.caller());
        posted.expect("posted")
    }

    fn completions(&self) -> Vec<Completion> {
        self.messenger.lock().test_context(self.context, usize::MAX)
    }

    /// The one completion that there must be.
    fn completion(&self) -> Completion {
        let mut all = self.completions();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }
}

fn received(completion: Completion) -> Vec<u8> {
    let length = completion.result.expect("it has come") as usize;
    let mut bytes = completion.room.expect("a receive has room").into_pieces().concat();
    bytes.truncate(length);
    bytes
}

fn done(posted: Posted) -> Completion {
    match posted {
        Posted::Done(completion) => completion,
        Posted::Pending(operation) => panic!("{operation:?} is pending"),
    }
}

#[test]
fn messages_of_any_length_come_whole_in_lists_of_any_shape() {
    for length in [0, 1, 24, 16 << 10, (16 << 10) + 1, 300_000] {
        let ends = pair();
        let message = bytes(length, 3);
        let third = length / 3;
        let pieces = vec![message.slice(..third), Bytes::new(), message.slice(third..)];
        let posted = ends[0].messenger.lock().post_send(NOW, ends[0].peer, Tag(9), pieces, ends[0].caller());
        let receive = ends[1].receive(9, Room::of([length / 2, 0, length - length / 2, 5])).operation();
        carry(&ends);
        let completion = ends[1].completion();
        assert_eq!((completion.operation, completion.user), (receive, 0));
        assert_eq!(received(completion), message);
        assert_eq!(ends[0].completion().operation, posted.expect("posted").operation());
    }
}

#[test]
fn small_messages_complete_when_they_are_posted_once_there_is_a_link() {
    let ends = pair();
    let Posted::Pending(_) = ends[0].send(1, &bytes(10, 0)) else { panic!("there was no link yet") };
    carry(&ends);
    assert_eq!(ends[0].completion().result, Ok(10));
    assert_eq!(done(ends[0].send(2, &bytes(20, 0))).result, Ok(20));
    carry(&ends);
    // What is here already is received by the post itself.
    let completion = done(ends[1].receive(2, Room::of([20])));
    assert_eq!(received(completion), bytes(20, 0));
}

#[test]
fn the_user_pointer_and_the_room_come_back() {
    let ends = pair();
    let caller = ends[1].caller().user(77);
    let posted = ends[1].messenger.lock().post_receive(NOW, ends[1].peer, Tag(1), Room::of([4]), caller);
    let Posted::Pending(operation) = posted.expect("posted") else { panic!("nothing was sent") };
    assert!(ends[1].messenger.lock().test(operation).expect("it is known").is_none());
    let _ = ends[0].send(1, &bytes(3, 0));
    carry(&ends);
    let completion = ends[1].messenger.lock().test(operation).expect("it is known").expect("complete");
    assert_eq!((completion.user, completion.room.map(|room| room.size())), (77, Some(4)));
    assert_eq!(ends[1].messenger.lock().test(operation).err(), Some(NoOperation(operation)));
}

#[test]
fn messages_of_one_tag_keep_their_order_whatever_their_lengths() {
    let ends = pair();
    let lengths = [10, 300_000, 3, 400_000, 262_144, 0, 262_145];
    for length in lengths {
        let _ = ends[0].send(5, &bytes(length, length as u8));
    }
    carry(&ends);
    let mut expected = Vec::new();
    for length in lengths {
        match ends[1].receive(5, Room::of([400_000])) {
            Posted::Done(completion) => assert_eq!(received(completion), bytes(length, length as u8)),
            Posted::Pending(operation) => expected.push((operation, length)),
        }
    }
    carry(&ends);
    for (operation, length) in expected {
        let completion = ends[1].messenger.lock().test(operation).expect("known").expect("complete");
        assert_eq!(received(completion), bytes(length, length as u8));
    }
}

#[test]
fn contexts_see_their_own_operations_only() {
    let ends = pair();
    let other = ends[1].messenger.lock().open_context();
    let _ = ends[1].receive(1, Room::of([4]));
    let posted =
        ends[1].messenger.lock().post_receive(NOW, ends[1].peer, Tag(2), Room::of([4]), Caller::new(other));
    let second = posted.expect("posted").operation();
    let _ = ends[0].send(2, &bytes(4, 0));
    carry(&ends);
    assert!(ends[1].completions().is_empty());
    let all = ends[1].messenger.lock().test_context(other, 9);
    assert_eq!(all.iter().map(|completion| completion.operation).collect::<Vec<_>>(), [second]);
    // A context that is closed gives up what is pending in it, and cannot be posted in.
    ends[1].messenger.lock().close_context(ends[1].context);
    assert_eq!(ends[1].messenger.lock().operation_count(), 0);
    let posted =
        ends[1].messenger.lock().post_receive(NOW, ends[1].peer, Tag(1), Room::of([4]), ends[1].caller());
    assert_eq!(posted.err(), Some(PostError::NoContext(ends[1].context)));
}

#[test]
fn unexpected_messages_need_no_receive_and_name_their_sender() {
    let ends = pair();
    let _ = ends[0].send_unexpected(4, &bytes(25, 0));
    let _ = ends[0].send_unexpected(5, &bytes(26, 0));
    carry(&ends);
    let taken = ends[1].messenger.lock().test_unexpected(1);
    assert_eq!((taken[0].from, taken[0].tag, taken[0].bytes.clone()), (ends[1].peer, Tag(4), bytes(25, 0)));
    assert_eq!(ends[1].messenger.lock().test_unexpected(9).len(), 1);
    let too_long = ends[0].messenger.lock().post_send_unexpected(
        NOW,
        ends[0].peer,
        Tag(1),
        vec![bytes(16_385, 0)],
        ends[0].caller(),
    );
    assert_eq!(too_long.err(), Some(PostError::TooLong { length: 16_385, largest: 16_384 }));
}

#[test]
fn messages_that_wait_keep_no_more_memory_than_they_have() {
    let mut messenger = Messenger::new(Limits::default());
    let module = messenger.add_module(Box::new(quic::QuicModule(quic::AddressBook::default())));
    let context = messenger.open_context();
    let link =
        messenger.link_incoming(module, &encode_key(&[7; 32]), true).expect("there is room for its messages");
    let mut block = Vec::new();
    for kind in [Kind::Expected, Kind::Unexpected] {
        Frame::Eager { kind, tag: 1, pieces: vec![bytes(8_000, 1)] }.emit(0, &mut block);
    }
    let length = block.len();
    // What they come with is as large as their sender likes.
    block.resize(1 << 20, 0);
    let block = Bytes::from(block);
    messenger.handle_frames(link, &mut FrameReader::default(), &block.slice(..length)).expect("two messages");
    assert!(block.is_unique());
    let taken = messenger.test_unexpected(9).pop().expect("it has come");
    assert_eq!(taken.bytes, bytes(8_000, 1));
    let posted = messenger
        .post_receive(NOW, taken.from, Tag(1), Room::of([8_000]), Caller::new(context))
        .expect("posted");
    assert_eq!(received(done(posted)), bytes(8_000, 1));
}

#[test]
fn a_peer_that_floods_has_a_mebibyte_here_and_goes_on_when_it_is_taken() {
    let ends = pair();
    let message = bytes(1_000, 1);
    for _ in 0..5_000 {
        let _ = ends[0].send_unexpected(1, &message);
    }
    carry(&ends);
    let held = ends[1].messenger.lock().unexpected_bytes();
    assert!((900_000..=1 << 20).contains(&held), "{held}");
    assert!(ends[0].completions().len() < 1_000);
    // Expected messages pass those that wait.
    let _ = ends[0].send(7, &message);
    carry(&ends);
    assert_eq!(received(done(ends[1].receive(7, Room::of([1_000])))), message);
    let mut taken = 0;
    while taken < 5_000 {
        let some = ends[1].messenger.lock().test_unexpected(100);
        assert!(!some.is_empty(), "{taken} have come");
        assert!(some.iter().all(|unexpected| unexpected.bytes == message));
        taken += some.len();
        carry(&ends);
        assert!(ends[1].messenger.lock().unexpected_bytes() <= 1 << 20);
    }
}

#[test]
fn messages_without_receives_stop_at_the_window_too_and_none_is_lost() {
    let ends = pair();
    for number in 0..20_000_u32 {
        let _ = ends[0].send(1, &Bytes::copy_from_slice(&number.to_be_bytes()));
    }
    carry(&ends);
    let waiting = ends[1].messenger.lock().waiting_count();
    assert!((5_000..10_000).contains(&waiting), "{waiting}");
    let mut pending = Vec::new();
    for number in 0..20_000_u32 {
        match ends[1].receive(1, Room::of([4])) {
            Posted::Done(completion) => assert_eq!(received(completion), number.to_be_bytes()),
            Posted::Pending(operation) => pending.push((operation, number)),
        }
    }
    carry(&ends);
    for (operation, number) in pending {
        let completion = ends[1].messenger.lock().test(operation).expect("known").expect("complete");
        assert_eq!(received(completion), number.to_be_bytes());
    }
}

#[test]
fn a_peer_beyond_the_bound_for_all_is_not_let_in() {
    let ends = pair_with(Limits { per_peer: 1 << 20, in_all: 50 << 10 });
    let _ = ends[0].send(1, &bytes(1, 0));
    carry(&ends);
    let error = ends[0].completion().result.expect_err("there is no memory for it");
    assert!(matches!(&error, OperationError::PeerLost { .. }), "{error}");
    assert_eq!(ends[1].messenger.lock().set_aside(), 0);
}

#[test]
fn a_message_that_does_not_fit_fails_on_both_sides() {
    let ends = pair();
    let _ = ends[1].receive(1, Room::of([99, 999]));
    let _ = ends[0].send(1, &bytes(400_000, 0));
    carry(&ends);
    let too_long = Err(OperationError::TooLong { length: 400_000, room: 1_098 });
    assert_eq!(ends[1].completion().result, too_long);
    assert_eq!(ends[0].completion().result, Err(OperationError::DoesNotFit { length: 400_000 }));
    // One that came with its envelope was complete before.
    let _ = ends[1].receive(1, Room::of([9]));
    assert_eq!(done(ends[0].send(1, &bytes(10, 0))).result, Ok(10));
    carry(&ends);
    assert_eq!(ends[1].completion().result, Err(OperationError::TooLong { length: 10, room: 9 }));
}

#[test]
fn a_cancelled_receive_leaves_its_message_to_the_next_one() {
    let ends = pair();
    let first = ends[1].receive(1, Room::of([10])).operation();
    let second = ends[1].receive(1, Room::of([10])).operation();
    ends[1].messenger.lock().cancel(first).expect("it is pending");
    let completion = ends[1].completion();
    assert_eq!((completion.operation, completion.result), (first, Err(OperationError::Cancelled)));
    assert!(completion.room.is_some(), "the memory comes back");
    let _ = ends[0].send(1, &bytes(10, 0));
    carry(&ends);
    assert_eq!(ends[1].completion().operation, second);
    assert_eq!(ends[1].messenger.lock().cancel(second), Err(NoOperation(second)));
}

/// Its caller would write over it as soon as it is complete.
#[test]
fn a_lent_message_is_complete_only_once_nobody_looks_at_its_pieces() {
    let ends = pair();
    let (expected, unexpected) = (bytes(10, 1), bytes(10, 2));
    let caller = ends[0].caller().lent();
    let post = |to, tag, pieces| ends[0].messenger.lock().post_send(NOW, to, tag, pieces, caller);
    let _ = post(ends[0].peer, Tag(1), vec![expected.clone()]).expect("posted");
    let post = |to, tag, pieces| ends[0].messenger.lock().post_send_unexpected(NOW, to, tag, pieces, caller);
    let told = post(ends[0].peer, Tag(1), vec![unexpected.clone()]).expect("posted").operation();
    carry(&ends);
    assert_eq!(ends[0].completion().operation, told);
    assert!(unexpected.is_unique(), "what is complete is not looked at");
    assert!(ends[0].completions().is_empty());
    let _ = ends[1].receive(1, Room::of([10]));
    carry(&ends);
    assert_eq!(ends[0].completion().result, Ok(10));
    assert!(expected.is_unique(), "what is complete is not looked at");
    assert_eq!(received(ends[1].completion()), expected);
}

#[test]
fn a_send_that_is_cancelled_before_its_receive_was_never_there() {
    let ends = pair();
    let first = ends[0].send(1, &bytes(300_000, 1)).operation();
    carry(&ends);
    ends[0].messenger.lock().cancel(first).expect("it is pending");
    carry(&ends);
    let _ = ends[0].send(1, &bytes(300_000, 2));
    let _ = ends[1].receive(1, Room::of([300_000]));
    carry(&ends);
    assert_eq!(received(ends[1].completion()), bytes(300_000, 2));
    let results: Vec<_> = ends[0].completions().into_iter().map(|completion| completion.result).collect();
    assert_eq!(results, [Err(OperationError::Cancelled), Ok(300_000)]);
    assert_eq!(ends[1].messenger.lock().waiting_count(), 0);
}

#[test]
fn a_pair_that_one_side_cancels_fails_on_both() {
    for by_the_sender in [true, false] {
        let ends = pair();
        let send = ends[0].send(1, &bytes(300_000, 1)).operation();
        carry(&ends);
        let receive = ends[1].receive(1, Room::of([300_000])).operation();
        // The grant is on its way, and so is what gives the message up.
        let (canceller, operation, other) =
            if by_the_sender { (&ends[0], send, &ends[1]) } else { (&ends[1], receive, &ends[0]) };
        canceller.messenger.lock().cancel(operation).expect("it is pending");
        carry(&ends);
        assert_eq!(canceller.completion().result, Err(OperationError::Cancelled));
        assert_eq!(other.completion().result, Err(OperationError::GivenUp));
    }
}

#[test]
fn what_runs_out_of_time_fails_with_the_time_that_it_had() {
    let ends = pair();
    let second = Duration::from_secs(1);
    let caller = ends[1].caller().within(second);
    let posted = ends[1].messenger.lock().post_receive(NOW, ends[1].peer, Tag(1), Room::of([4]), caller);
    let _ = ends[1].receive(1, Room::of([4]));
    assert_eq!(ends[1].messenger.lock().next_timeout(), Some(NOW + second));
    ends[1].messenger.lock().handle_timeout(NOW + second / 2);
    assert!(ends[1].completions().is_empty());
    ends[1].messenger.lock().handle_timeout(NOW + second);
    let completion = ends[1].completion();
    assert_eq!(completion.operation, posted.expect("posted").operation());
    assert_eq!(completion.result, Err(OperationError::TimedOut(second)));
    assert_eq!(ends[1].messenger.lock().next_timeout(), None);
}

#[test]
fn a_lost_peer_fails_what_is_pending_with_it_and_is_found_again_when_it_is_back() {
    let mut ends = pair();
    let _ = ends[0].send(1, &bytes(300_000, 1));
    let _ = ends[0].receive(2, Room::of([4]));
    let _ = ends[0].send_unexpected(3, &bytes(4, 0));
    carry(&ends);
    ends[1].port = None;
    carry(&ends);
    let failed = ends[0].completions();
    assert_eq!(failed.len(), 3, "the unexpected message had left: {failed:?}");
    let lost = failed.iter().filter(|completion| {
        matches!(&completion.result, Err(OperationError::PeerLost { address, .. }) if address == "memory://b")
    });
    assert_eq!(lost.count(), 2);
    // Nobody is there to connect to.
    let _ = ends[0].send(1, &bytes(4, 0));
    carry(&ends);
    assert!(matches!(ends[0].completion().result, Err(OperationError::PeerLost { .. })));
}

#[test]
fn messages_that_may_be_lost_without_a_sign_are_told_with_the_next_post() {
    let mut ends = pair();
    let _ = ends[0].send(1, &bytes(4, 1));
    carry(&ends);
    assert_eq!(ends[0].completion().result, Ok(4));
    assert_eq!(done(ends[0].send(1, &bytes(4, 2))).result, Ok(4));
    ends[1].port = None;
    carry(&ends);
    let post =
        |end: &End| end.messenger.lock().post_receive(NOW, end.peer, Tag(1), Room::of([4]), end.caller());
    let lost = PostError::Lost { address: "memory://b".to_owned(), messages: 2 };
    assert_eq!(post(&ends[0]).err(), Some(lost));
    assert!(matches!(post(&ends[0]), Ok(Posted::Pending(_))), "it is told once");
}

/// A thread that ends after its answer has nobody who would carry it afterwards.
#[test]
fn a_send_that_is_complete_arrives_though_its_messenger_ends_before_anybody_has_carried() {
    let mut ends = pair();
    let _ = ends[0].send(1, &bytes(10, 0));
    carry(&ends);
    assert_eq!(done(ends[0].send(2, &bytes(20, 0))).result, Ok(20));
    ends[0].port = None;
    carry(&ends);
    assert_eq!(received(done(ends[1].receive(2, Room::of([20])))), bytes(20, 0));
}

#[test]
fn what_has_come_of_a_lost_peer_can_still_be_taken() {
    let mut ends = pair();
    let _ = ends[0].send(1, &bytes(4, 1));
    let _ = ends[0].send_unexpected(2, &bytes(5, 1));
    let _ = ends[0].send(1, &bytes(300_000, 1));
    carry(&ends);
    ends[0].port = None;
    carry(&ends);
    let set_aside = ends[1].messenger.lock().set_aside();
    assert_eq!(set_aside, 2 * 128 + 9, "what is here, and nothing else");
    assert_eq!(received(done(ends[1].receive(1, Room::of([4])))), bytes(4, 1));
    assert_eq!(ends[1].messenger.lock().test_unexpected(9).len(), 1);
    let messenger = ends[1].messenger.lock();
    assert_eq!((messenger.set_aside(), messenger.waiting_count()), (0, 0), "the offer is gone");
}

#[test]
fn a_dropped_address_leaves_nothing() {
    let ends = pair();
    let _ = ends[1].receive(8, Room::of([4]));
    let _ = ends[0].send(1, &bytes(4, 1));
    let _ = ends[0].send(1, &bytes(40_000, 1));
    let _ = ends[0].send_unexpected(2, &bytes(5, 1));
    carry(&ends);
    ends[1].messenger.lock().drop_address(ends[1].peer);
    carry(&ends);
    assert_eq!(ends[1].completion().result, Err(OperationError::Cancelled));
    let messenger = ends[1].messenger.lock();
    let left = (messenger.set_aside(), messenger.waiting_count(), messenger.operation_count());
    assert_eq!((left, messenger.reverse_look_up(ends[1].peer)), ((0, 0, 0), None));
}

#[test]
fn addresses_are_looked_up_by_the_first_scheme_that_is_in_use() {
    let [end, _other] = pair();
    let mut messenger = end.messenger.lock();
    let list = "fec://io1, memory://b";
    let found = messenger.look_up(list).expect("one of the two is in use");
    assert_eq!(messenger.look_up(list), Ok(found));
    assert_eq!(messenger.look_up("memory://b"), Ok(found), "texts that share a way name the same peer");
    assert_eq!(messenger.look_up("memory://c,memory://b"), Ok(found));
    assert_ne!(messenger.look_up("memory://d"), Ok(found));
    assert_eq!(messenger.look_up("b"), Err(AddressError::NoScheme("b".to_owned())));
    let error = messenger.look_up("tcp://host:1").expect_err("there is no such module");
    assert_eq!(error.to_string(), "\"tcp://host:1\" names no network that this process uses; it uses memory");
    assert!(matches!(messenger.look_up("memory://"), Err(AddressError::BadPlace { .. })));
}

/// A transfer stood still when its sender had posted everything and tested nothing: nobody took the windows that the
/// receiver had sent it.
#[test]
fn a_sender_goes_on_without_being_asked() {
    let ends = pair();
    let count = 5_000;
    (0..count).for_each(|_| drop(ends[1].receive(1, Room::of([1_000]))));
    (0..count).for_each(|_| drop(ends[0].send(1, &bytes(1_000, 0))));
    let carry = |end: &End| end.port.as_ref().expect("it has one").carry();
    carry(&ends[0]);
    // Only the receiver does anything from here on.
    carry(&ends[1]);
    assert_eq!(ends[1].completions().len(), count);
}

#[test]
fn a_name_is_free_again_when_its_messenger_has_ended() {
    let exchange = Exchange::new();
    let messenger = Shared::new(Limits::default());
    let port = exchange.join("a", &messenger, || {}).expect("a free name");
    let taken = exchange.join("a", &messenger, || {}).err();
    assert_eq!(taken, Some(JoinError::Taken("a".to_owned())));
    drop(port);
    assert!(exchange.join("a", &messenger, || {}).is_ok());
}

#[test]
fn a_messenger_reaches_itself_and_its_two_ends_are_told_apart() {
    let exchange = Exchange::new();
    let messenger = Shared::new(Limits::default());
    let port = exchange.join("both", &messenger, || {}).expect("a free name");
    let (to, context) = {
        let mut messenger = messenger.lock();
        (messenger.look_up("memory://both").expect("an address"), messenger.open_context())
    };
    let caller = Caller::new(context);
    for length in [10, 400_000] {
        let message = bytes(length, 1);
        let post =
            |from, room| messenger.lock().post_receive(NOW, from, Tag(1), room, caller).expect("posted");
        // Each end receives with the same tag; what one sends must not come back to it.
        let reply = post(to, Room::of([length])).operation();
        let request = vec![bytes(5, 0)];
        drop(messenger.lock().post_send_unexpected(NOW, to, Tag(1), request, caller).expect("posted"));
        port.carry();
        let request = messenger.lock().test_unexpected(1).pop().expect("it has come");
        assert_ne!(request.from, to);
        let question = vec![bytes(7, 2)];
        drop(messenger.lock().post_send(NOW, to, Tag(1), question, caller).expect("posted"));
        port.carry();
        assert_eq!(received(done(post(request.from, Room::of([7])))), bytes(7, 2));
        drop(
            messenger
                .lock()
                .post_send(NOW, request.from, Tag(1), vec![message.clone()], caller)
                .expect("posted"),
        );
        port.carry();
        let completion = messenger.lock().test(reply).expect("nobody else takes it").expect("it is complete");
        assert_eq!(received(completion), message);
    }
}

#[test]
fn only_a_peer_for_which_there_is_nothing_is_idle() {
    let [a, b] = pair();
    let is_dropped = |end: &End| end.messenger.lock().drop_idle_address(end.peer);
    let receive = a.receive(1, Room::of([1])).operation();
    assert!(!is_dropped(&a), "a receive waits");
    a.messenger.lock().cancel(receive).expect("it is pending");
    drop(a.send(1, &bytes(1, 1)));
    let mut ends = [a, b];
    carry(&ends);
    assert!(!is_dropped(&ends[0]), "it is connected");
    ends[0].port = None;
    carry(&ends);
    assert!(!is_dropped(&ends[1]), "a message waits");
    received(done(ends[1].receive(1, Room::of([1]))));
    assert!(is_dropped(&ends[1]));
    assert_eq!(ends[1].messenger.lock().reverse_look_up(ends[1].peer), None);
}
