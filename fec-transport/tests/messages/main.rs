//! Messages over sessions in virtual time: loss, links that die, processes that crash, and a swarm of all of it.
//!
//! `MESSAGE_SEEDS=10000 cargo test --release --workspace --test messages -- --nocapture` runs as many seeds;
//! `MESSAGE_SEEDS=3000..6000` those, `MESSAGE_SEED=7` that one.

#[path = "../common/mod.rs"]
mod common;
mod crowd;
mod party;
#[cfg(feature = "io")]
mod sockets;
mod swarm;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fec_transport::message::memory::Exchange;
use fec_transport::message::{Limits, Messenger, OperationError, Posted, Room, Shared, Tag};
use fec_transport::sim::{LinkSpec, Scene};

use party::{Party, SECOND, content, two_servers};

const MS: Duration = Duration::from_millis(1);

#[test]
fn messages_of_all_lengths_come_over_a_session() {
    let mut party = Party::new(&two_servers(1, &LinkSpec::new(100, 5 * MS)), 1);
    let lengths = [0, 1, 400, 16 << 10, (16 << 10) + 1, 1 << 20, 5_000_001];
    for (tag, length) in lengths.into_iter().enumerate() {
        let _ = party.receive("b", "a", tag as u32, Room::of([length / 3, length - length / 3]));
        let _ = party.send("a", "b", tag as u32, content(length, 1));
    }
    party.run_for(5 * SECOND);
    let received = party.completions("b");
    assert_eq!(received.len(), lengths.len());
    for (completion, length) in received.into_iter().zip(lengths) {
        assert_eq!(completion.result, Ok(length as u64));
        assert!(completion.room.expect("a receive").into_pieces().concat() == content(length, 1), "{length}");
    }
    assert!(party.completions("a").iter().all(|completion| completion.result.is_ok()));
}

#[test]
fn with_loss_and_a_link_that_dies_nothing_is_lost_doubled_or_out_of_order() {
    let link = LinkSpec::new(30, 10 * MS).with_loss(0.02);
    let mut party = Party::new(&two_servers(3, &link), 5);
    party.cut(SECOND, "a", "r2");
    let lengths = [25, 400, 70_000, 16_000, 20_000, 3, 256 << 10];
    let rounds = 60;
    for round in 0..rounds {
        for (from, to) in [("a", "b"), ("b", "a")] {
            for (index, length) in lengths.into_iter().enumerate() {
                let number = (round * lengths.len() + index) as u8;
                let _ = party.receive(to, from, 1, Room::of([256 << 10]));
                let _ = party.send(from, to, 1, content(length, number));
            }
        }
        party.run_for(50 * MS);
    }
    party.run_for(20 * SECOND);
    for name in ["a", "b"] {
        let (received, sent): (Vec<_>, Vec<_>) =
            party.completions(name).into_iter().partition(|completion| completion.room.is_some());
        assert_eq!(received.len(), rounds * lengths.len());
        let mut in_order = received;
        in_order.sort_by_key(|completion| completion.operation);
        for (number, completion) in in_order.into_iter().enumerate() {
            let length = lengths[number % lengths.len()];
            assert_eq!(completion.result, Ok(length as u64), "message {number} to {name}");
            let bytes = completion.room.expect("a receive").into_pieces().concat();
            assert!(bytes[..length] == content(length, number as u8), "message {number} to {name}");
        }
        assert!(sent.iter().all(|completion| completion.result.is_ok()));
        assert_eq!(
            party.with(name, |messenger| (messenger.operation_count(), messenger.waiting_count())),
            (0, 0)
        );
    }
}

/// A program that ends right after its last send waits for this.
#[test]
fn a_member_that_has_finished_has_had_all_its_short_messages_delivered_though_a_link_dies() {
    let link = LinkSpec::new(30, 10 * MS).with_loss(0.02);
    let mut party = Party::new(&two_servers(3, &link), 5);
    let _ = party.send_unexpected("a", "b", 0, content(25, 0));
    party.run_for(3 * SECOND);
    for number in 1..100 {
        let posted = party.send_unexpected("a", "b", 0, content(8_000, number));
        assert!(matches!(posted, Posted::Done(_)), "{posted:?}");
    }
    party.cut(10 * MS, "a", "r2");
    assert!(party.finish("a", SECOND));
    let arrived = party.with("b", |messenger| messenger.test_unexpected(usize::MAX));
    assert_eq!(arrived.len(), 100);
    assert!((1..).zip(&arrived[1..]).all(|(number, message)| message.bytes == content(8_000, number)));
}

#[test]
fn requests_are_answered_within_a_round_trip_and_5_ms_though_a_link_dies() {
    let link = LinkSpec::new(50, 10 * MS).with_loss(0.02);
    let mut party = Party::new(&two_servers(3, &link), 9);
    let _ = party.send_unexpected("a", "b", 0, content(25, 0));
    party.run_for(3 * SECOND);
    assert_eq!(party.with("b", |messenger| messenger.test_unexpected(9)).len(), 1);
    party.completions("a");
    party.cut(SECOND, "a", "r1");
    let (mut late, requests) = (0, 2_000);
    // Two links of 10 ms each way.
    let allowed = 4 * 10 * MS + 5 * MS;
    for _ in 0..requests {
        let began = party.now();
        let _ = party.receive("a", "b", 7, Room::of([400]));
        let _ = party.send_unexpected("a", "b", 7, content(25, 1));
        let asked = party.run_until(SECOND, "b", |messenger| messenger.waiting_count() > 0);
        assert!(asked, "the request has come");
        let request = party.with("b", |messenger| messenger.test_unexpected(1)).remove(0);
        assert_eq!(request.tag, Tag(7));
        let _ = party.send("b", "a", 7, content(400, 2));
        let operations = |messenger: &Messenger| messenger.waiting_count() == 0;
        assert!(party.run_until(SECOND, "a", operations), "the reply has come");
        late += u32::from(party.now().since(began) > allowed);
        party.completions("a");
        party.run_for(2 * MS);
    }
    println!("{late} of {requests} replies took longer than {allowed:?}");
    assert!(late <= requests / 1_000, "{late} of {requests} were late");
}

#[test]
fn a_process_that_crashes_fails_what_is_pending_on_the_other_side_and_is_found_again() {
    let mut party = Party::new(&two_servers(2, &LinkSpec::new(50, 5 * MS)), 3);
    let _ = party.send("a", "b", 1, content(100_000, 0));
    let _ = party.receive("a", "b", 2, Room::of([100]));
    party.run_for(SECOND);
    assert!(party.completions("a").is_empty());
    party.crash("b");
    party.run_for(100 * SECOND);
    let failed = party.completions("a");
    assert_eq!(failed.len(), 2);
    for completion in failed {
        assert!(matches!(completion.result, Err(OperationError::PeerLost { .. })), "{completion:?}");
    }
    party.restart("b");
    party.run_for(SECOND);
    let _ = party.receive("b", "a", 1, Room::of([100_000]));
    let _ = party.send("a", "b", 1, content(100_000, 4));
    party.run_for(5 * SECOND);
    assert_eq!(party.completions("b").remove(0).result, Ok(100_000));
}

/// The first session to the member has not said goodbye yet when the second one is wanted.
#[test]
fn a_peer_that_is_dropped_is_reached_again_at_once() {
    let mut party = Party::new(&two_servers(2, &LinkSpec::new(50, 5 * MS)), 3);
    let _ = party.send_unexpected("a", "b", 1, content(400, 0));
    party.run_for(SECOND);
    let address = party.address("a", "b");
    party.with("a", |messenger| messenger.drop_address(address));
    let _ = party.send_unexpected("a", "b", 2, content(400, 1));
    let _ = party.send("a", "b", 3, content(100_000, 2));
    party.run_for(SECOND);
    let _ = party.receive("b", "a", 3, Room::of([100_000]));
    party.run_for(5 * SECOND);
    let arrived = party.with("b", |messenger| messenger.test_unexpected(9));
    assert_eq!(arrived.iter().map(|message| message.tag.0).collect::<Vec<_>>(), [1, 2]);
    assert!(arrived[1].bytes == content(400, 1));
    assert_eq!(party.completions("a").last().expect("the long send").result, Ok(100_000));
}

#[test]
fn a_cancelled_message_stops_on_both_sides() {
    for by_the_sender in [true, false] {
        let mut party = Party::new(&two_servers(1, &LinkSpec::new(20, 5 * MS)), 3);
        let receive = party.receive("b", "a", 1, Room::of([20 << 20])).operation();
        let send = party.send("a", "b", 1, content(20 << 20, 0)).operation();
        party.run_for(2 * SECOND);
        let (canceller, operation, other) =
            if by_the_sender { ("a", send, "b") } else { ("b", receive, "a") };
        party.with(canceller, |messenger| messenger.cancel(operation)).expect("it is pending");
        party.run_for(SECOND);
        assert_eq!(party.completions(canceller).remove(0).result, Err(OperationError::Cancelled));
        assert_eq!(party.completions(other).remove(0).result, Err(OperationError::GivenUp));
        // The link goes on.
        let _ = party.receive("b", "a", 1, Room::of([50_000]));
        let _ = party.send("a", "b", 1, content(50_000, 0));
        party.run_for(SECOND);
        assert_eq!(party.completions("b").remove(0).result, Ok(50_000));
    }
}

/// What is counted is memory and operations, not time: each completion is found without looking at the others.
#[test]
fn a_hundred_thousand_pending_operations_leave_nothing_once_they_are_complete_or_cancelled() {
    let mut party = Party::new(&two_servers(1, &LinkSpec::new(200, MS)), 3);
    let count = 100_000_u32;
    let mut cancelled = Vec::new();
    for number in 0..count {
        let posted = party.receive("b", "a", number / 10, Room::of([8]));
        if number % 10 == 3 {
            cancelled.push(posted.operation());
        }
    }
    assert_eq!(party.with("b", |messenger| messenger.operation_count()), count as usize);
    party.with("b", |messenger| {
        cancelled.iter().for_each(|operation| messenger.cancel(*operation).expect("it is pending"));
    });
    for number in 0..count - count / 10 {
        let _ = party.send("a", "b", number / 9, vec![number as u8; 8]);
    }
    party.run_for(30 * SECOND);
    let completions = party.completions("b");
    let failed = completions.iter().filter(|completion| completion.result.is_err()).count();
    assert_eq!((completions.len(), failed), (count as usize, cancelled.len()));
    party.completions("a");
    for name in ["a", "b"] {
        let left = party.with(name, |messenger| (messenger.operation_count(), messenger.waiting_count()));
        assert_eq!(left, (0, 0), "{name}");
    }
}

#[test]
fn a_member_that_is_not_in_the_overlay_is_named() {
    let mut party = Party::new(&two_servers(1, &LinkSpec::new(20, 5 * MS)), 3);
    let posted = party.send("a", "c", 1, content(4, 0));
    assert!(matches!(posted, Posted::Pending(_)));
    party.run_for(SECOND);
    let error = party.completions("a").remove(0).result.expect_err("there is no c");
    assert_eq!(error.to_string(), "the peer fec://c was lost: the overlay has no member \"c\"");
}

#[test]
fn a_client_that_floods_holds_a_mebibyte_of_the_server() {
    let scene = Scene::new().client("a").server("b").link("a", "b", &LinkSpec::new(200, 5 * MS));
    let mut party = Party::new(&scene, 3);
    for _ in 0..4_000 {
        let _ = party.send_unexpected("a", "b", 1, content(1_000, 0));
    }
    party.run_for(10 * SECOND);
    let held = party.with("b", |messenger| messenger.unexpected_bytes());
    assert!((900_000..=1 << 20).contains(&held), "{held}");
    let mut taken = 0;
    while taken < 4_000 {
        let some = party.with("b", |messenger| messenger.test_unexpected(500)).len();
        assert!(some > 0, "{taken} have come");
        taken += some;
        party.run_for(SECOND);
    }
}

/// A sender that gives a message up wants its memory back, and once had it only when the session was over: a minute
/// after the last word of a peer that was out of reach.
#[test]
fn what_is_given_up_is_not_looked_at_any_more_though_the_peer_is_out_of_reach() {
    let mut party = Party::new(&two_servers(2, &LinkSpec::new(20, 5 * MS)), 3);
    let memory = Arc::new(content(4 << 20, 0));
    let lent = Bytes::from_owner(Lent(Arc::clone(&memory)));
    let _ = party.receive("b", "a", 1, Room::of([4 << 20]));
    let (now, to, caller) = (party.now(), party.address("a", "b"), party.caller("a").lent());
    let posted = party.with("a", |messenger| messenger.post_send(now, to, Tag(1), vec![lent], caller));
    let operation = posted.expect("posted").operation();
    party.run_for(SECOND);
    ["r1", "r2"].into_iter().for_each(|relay| party.cut(Duration::ZERO, "a", relay));
    party.run_for(100 * MS);
    party.with("a", |messenger| messenger.cancel(operation)).expect("it is pending");
    party.run_for(100 * MS);
    assert_eq!(party.completions("a").remove(0).result, Err(OperationError::Cancelled));
    assert_eq!(Arc::strong_count(&memory), 1, "somebody has it still");
}

struct Lent(Arc<Vec<u8>>);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The goodbye of the first session was lost. The other side went on saying everything over it until it was silent for
/// a minute, and then ended the second session with it.
#[test]
fn a_process_that_opens_another_session_is_answered_over_that_one() {
    let mut party = Party::new(&two_servers(2, &LinkSpec::new(50, 5 * MS)), 3);
    let _ = party.send_unexpected("a", "b", 1, content(400, 0));
    party.run_for(SECOND);
    assert_eq!(party.with("b", |messenger| messenger.test_unexpected(9)).len(), 1);
    party.completions("a");
    ["r1", "r2"].into_iter().for_each(|relay| party.cut(Duration::ZERO, "a", relay));
    party.run_for(MS);
    let address = party.address("a", "b");
    party.with("a", |messenger| messenger.drop_address(address));
    party.run_for(2 * SECOND);
    ["r1", "r2"].into_iter().for_each(|relay| party.restore(Duration::ZERO, "a", relay));
    party.run_for(5 * SECOND);
    let _ = party.receive("a", "b", 7, Room::of([50_000]));
    let _ = party.send_unexpected("a", "b", 2, content(400, 1));
    party.run_for(5 * SECOND);
    assert_eq!(party.with("b", |messenger| messenger.test_unexpected(9)).len(), 1);
    for length in [400, 50_000] {
        let _ = party.send("b", "a", 7, content(length, 2));
    }
    party.run_for(10 * SECOND);
    let completions = party.completions("a");
    let results: Vec<_> = completions.into_iter().map(|completion| completion.result).collect();
    assert_eq!(results, [Ok(400), Ok(400)], "the request, and its answer");
}

/// A receive that is given up at the last moment was acknowledged all the same: its sender was told that the peer has
/// the message, which nobody has.
#[test]
fn a_message_whose_receive_was_given_up_is_not_acknowledged() {
    let mut party = Party::new(&two_servers(1, &LinkSpec::new(20, 5 * MS)), 3);
    let (length, mut given_up) = (500_000, 0);
    for wait in 0..80 {
        let receive = party.receive("b", "a", 1, Room::of([length])).operation();
        let send = party.send("a", "b", 1, content(length, 0)).operation();
        party.run_for(wait * 5 * MS);
        // As another thread does it, before the one that carries has heard of it.
        let messenger = party.world.application(party.world.member("b")).messenger().clone();
        let is_pending = messenger.lock().test(receive).expect("known").is_none();
        if is_pending {
            messenger.lock().cancel(receive).expect("it is pending");
        }
        party.run_for(2 * SECOND);
        // A message that had not been offered yet waits for another receive.
        let _ = party.with("a", |messenger| messenger.cancel(send));
        party.run_for(SECOND);
        let sent = party.completions("a").remove(0).result;
        assert_eq!(sent.is_err(), is_pending, "after {} ms: {sent:?}", 5 * wait);
        given_up += u32::from(is_pending);
        party.completions("b");
    }
    assert!((20..80).contains(&given_up), "{given_up}");
}

/// A peer that is connected within the process and comes over a session, too, has two addresses. Once both connections
/// were gone and both addresses were posted to, one session was opened for the two, and the first link waited for ever.
#[test]
fn of_two_addresses_of_a_member_that_are_dialled_at_once_none_waits_for_ever() {
    let mut party = Party::new(&two_servers(2, &LinkSpec::new(50, 5 * MS)), 3);
    let (exchange, neighbour) = (Exchange::new(), Shared::new(Limits::default()));
    let messenger = party.world.application(party.world.member("a")).messenger().clone();
    let port = exchange.join("a", &messenger, || {}).expect("a free name");
    let other = exchange.join("b", &neighbour, || {}).expect("a free name");
    let looked_up = party.with("a", |messenger| messenger.look_up("memory://b,fec://b")).expect("an address");
    let caller = party.caller("a");
    let post = |party: &mut Party, to, tag| {
        let (now, pieces) = (party.now(), vec![vec![7; 40].into()]);
        let post = |messenger: &mut Messenger| {
            let mut post = || messenger.post_send_unexpected(now, to, Tag(tag), pieces.clone(), caller);
            // That the last one may have been lost is told once.
            post().or_else(|_| post())
        };
        let posted = party.with("a", post);
        port.carry();
        // What the other network does not reach goes over sessions.
        party.with("a", |_| {});
        posted.expect("posted")
    };
    let _ = post(&mut party, looked_up, 1);
    other.carry();
    let _ = party.send_unexpected("b", "a", 2, content(40, 0));
    party.run_for(SECOND);
    let come = party.with("a", |messenger| messenger.test_unexpected(9)).remove(0).from;
    assert!(come != looked_up && party.completions("a").len() == 1);

    drop(other);
    let at_b = party.address("b", "a");
    party.with("b", |messenger| messenger.drop_address(at_b));
    party.run_for(SECOND);
    let [first, second] = [looked_up, come].map(|to| post(&mut party, to, 3).operation());
    party.run_for(5 * SECOND);
    let completions = party.completions("a");
    let results = completions.into_iter().map(|completion| (completion.operation, completion.result));
    let results: std::collections::BTreeMap<_, _> = results.collect();
    assert!(matches!(results.get(&first), Some(Err(OperationError::PeerLost { .. }))), "{results:?}");
    assert_eq!(results.get(&second), Some(&Ok(40)));
    // Whichever of the two is posted to, the message arrives.
    for (count, to) in [(1, come), (2, looked_up), (3, come)] {
        party.run_for(SECOND);
        assert_eq!(party.with("b", |messenger| messenger.test_unexpected(9)).len(), 1, "before {count}");
        let _ = post(&mut party, to, 4);
    }
}

/// A process that had forgotten a session, and then opened one itself, was answered over the forgotten one until that
/// was silent, and then lost both.
#[test]
fn a_process_that_forgot_a_session_and_opens_one_is_answered_over_its_own() {
    let mut party = Party::new(&two_servers(2, &LinkSpec::new(50, 5 * MS)), 3);
    let _ = party.send_unexpected("a", "b", 1, content(400, 0));
    let _ = party.receive("a", "b", 9, Room::of([10]));
    party.run_for(SECOND);
    ["r1", "r2"].into_iter().for_each(|relay| party.cut(Duration::ZERO, "a", relay));
    party.run_for(MS);
    let at_b = party.address("b", "a");
    party.with("b", |messenger| messenger.drop_address(at_b));
    party.run_for(2 * SECOND);
    ["r1", "r2"].into_iter().for_each(|relay| party.restore(Duration::ZERO, "a", relay));
    party.completions("a");
    let _ = party.receive("b", "a", 7, Room::of([50_000]));
    let _ = party.send_unexpected("b", "a", 2, content(400, 1));
    party.run_for(1_500 * MS);
    assert_eq!(party.with("a", |messenger| messenger.test_unexpected(9)).len(), 1);
    // What waited for the forgotten session has failed.
    let lost = party.completions("a").remove(0).result;
    assert!(matches!(lost, Err(OperationError::PeerLost { .. })), "{lost:?}");
    let _ = party.send("a", "b", 7, content(50_000, 2));
    party.run_for(10 * SECOND);
    let results: Vec<_> = party.completions("b").into_iter().map(|completion| completion.result).collect();
    assert_eq!(results, [Ok(400), Ok(50_000)], "the request, and its answer");
}

/// A process that came by itself, and crashed, and its successor, which answered the dial, once had one link together:
/// what was said to the one was taken for what the other had heard, and what was sent waited for the first one's end.
#[test]
fn a_process_and_its_successor_that_answers_a_dial_have_no_link_together() {
    let mut party = Party::new(&two_servers(1, &LinkSpec::new(50, 50 * MS)), 3);
    party.run_for(SECOND);
    let _ = party.send_unexpected("b", "a", 1, content(400, 0));
    party.run_for(250 * MS);
    let _ = party.send("a", "b", 2, content(40, 0));
    let _ = party.receive("a", "b", 2, Room::of([40]));
    party.run_for(60 * MS);
    party.crash("b");
    party.run_for(10 * MS);
    party.restart("b");
    party.run_for(15 * SECOND);
    let lost = party.completions("a").pop().expect("the receive").result;
    assert!(matches!(lost, Err(OperationError::PeerLost { .. })), "{lost:?}");
    let _ = party.receive("b", "a", 3, Room::of([50_000]));
    let _ = party.send("a", "b", 3, content(50_000, 0));
    party.run_for(10 * SECOND);
    assert_eq!(party.completions("b").remove(0).result, Ok(50_000));
}
