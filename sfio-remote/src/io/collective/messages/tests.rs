//! Groups over messenger modules: the same group by the addresses alone.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;

use fec_transport::io::message::MessengerConfig;
use fec_transport::io::{EndpointConfig, Sockets};
use fec_transport::keys::{Identity, encode_key};
use fec_transport::message::memory::Exchange;
use fec_transport::overlay::Overlay;

use super::*;
use crate::collective::CollectiveError;

/// Longer than anything here takes on a busy machine; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(30);
const TAG: Tag = Tag(70);
const NAMES: [&str; 3] = ["x", "y", "z"];

/// Messengers of one process, and their addresses.
type Messengers = (Vec<Messenger>, Vec<String>);

fn within_the_process() -> Messengers {
    let exchange = Exchange::new();
    let start = |name| Messenger::start(MessengerConfig::new().memory(&exchange, name)).expect("it starts");
    (NAMES.map(start).into(), NAMES.map(|name| format!("memory://{name}")).into())
}

/// Members of an overlay that reach one another over sessions.
fn over_sessions() -> Messengers {
    let identity = |name: &str| Identity::from_seed(*blake3::hash(name.as_bytes()).as_bytes());
    let socket = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port on loopback");
    let sockets = NAMES.map(|_| Sockets { control: socket(), data: socket() });
    let mut text = String::new();
    for (name, Sockets { control, data }) in NAMES.iter().zip(&sockets) {
        let keys = identity(name).public();
        let (ed25519, x25519) = (encode_key(&keys.ed25519), encode_key(&keys.x25519));
        let [control, data] = [control, data].map(|socket| socket.local_addr().expect("bound"));
        text += &format!("[[member]]\nname = \"{name}\"\ned25519 = \"{ed25519}\"\nx25519 = \"{x25519}\"\n");
        text += &format!("control = \"{control}\"\ndata = \"{data}\"\n");
    }
    for (a, b) in [("x", "y"), ("x", "z"), ("y", "z")] {
        text += &format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\n");
    }
    let overlay = Arc::new(Overlay::parse(&text).expect("a right overlay"));
    let start = |(name, sockets): (&&str, Sockets)| {
        let config = EndpointConfig::new(Arc::clone(&overlay), identity(name));
        let endpoint = EndpointConfig { sockets: Some(sockets), ..config };
        Messenger::start(MessengerConfig::new().sessions(endpoint)).expect("it starts")
    };
    let messengers = NAMES.iter().zip(sockets).map(start).collect();
    (messengers, NAMES.map(|name| format!("fec://{name}")).into())
}

/// All ranks of a group, which join at the same time.
async fn join((messengers, addresses): Messengers) -> Vec<GroupMember> {
    let join = |(rank, messenger): (usize, Messenger)| {
        let addresses = addresses.clone();
        tokio::spawn(async move {
            join_group_over(&messenger, &addresses, rank as u32, TAG, PATIENCE).await.expect("all come")
        })
    };
    let mut members = Vec::new();
    for joining in messengers.into_iter().enumerate().map(join).collect::<Vec<_>>() {
        members.push(joining.await.expect("no panic"));
    }
    members
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_each_rank_says_reaches_all_whole_whatever_its_length() {
    let lengths = [0, 1, LONGEST - HEAD, LONGEST - HEAD + 1, 100_000, PIECE + LONGEST, 2 * PIECE + 3];
    for messengers in [within_the_process(), over_sessions()] {
        let tell = |member: GroupMember| {
            tokio::spawn(async move {
                for length in lengths {
                    let word = |rank: u32| -> Bytes { vec![rank as u8 + 1; length + rank as usize].into() };
                    let own = word(member.rank().0);
                    let told = member.perform(format!("tell {length}"), async { Ok(own) }).await;
                    assert_eq!(told.expect("all are there"), [0, 1, 2].map(word));
                }
                member.barrier().await.expect("all are there");
            })
        };
        let members = join(messengers).await;
        for telling in members.into_iter().map(tell).collect::<Vec<_>>() {
            telling.await.expect("no panic");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rank_that_is_dropped_is_lost_to_the_others() {
    for messengers in [within_the_process(), over_sessions()] {
        let mut members = join(messengers).await;
        drop(members.remove(1));
        let wait = |member: GroupMember| tokio::spawn(async move { member.barrier().await });
        for waiting in members.into_iter().map(wait).collect::<Vec<_>>() {
            // Of two that notice one may end first, and be the one that the other names.
            let result = waiting.await.expect("no panic");
            assert!(matches!(result, Err(CollectiveError::RankLost { .. })), "{result:?}");
        }
    }
}

/// As of a rank that has heard of the other one.
fn beat() -> Vec<Bytes> {
    vec![vec![1].into()]
}

#[tokio::test]
async fn a_rank_that_says_what_is_no_word_is_lost() {
    let (messengers, addresses) = within_the_process();
    let [honest, hostile] = [&messengers[0], &messengers[1]];
    let (to, context) = (hostile.look_up(&addresses[0]).expect("an address"), hostile.open_context());
    let caller = || hostile.caller(context);
    let tags = Tags(TAG);
    let _ = hostile.post_send(to, tags.beat(), beat(), caller()).expect("posted");
    let member = join_group_over(honest, &addresses[..2], 0, TAG, PATIENCE).await.expect("it was heard");
    // It claims to be endless, and brings a byte.
    let endless = Word::Message { length: u64::MAX }.to_bytes();
    let _ = hostile
        .post_send(to, tags.word(), vec![endless.to_vec().into(), "a".into()], caller())
        .expect("posted");
    assert_eq!(member.barrier().await, Err(CollectiveError::RankLost { rank: Rank(1) }));
}

/// A rank that neither says farewell nor shows that it lives: as a machine without power.
#[tokio::test]
async fn a_rank_that_falls_silent_is_lost() {
    let (messengers, addresses) = within_the_process();
    let silent = &messengers[1];
    let (to, context) = (silent.look_up(&addresses[0]).expect("an address"), silent.open_context());
    let _ = silent.post_send(to, Tags(TAG).beat(), beat(), silent.caller(context)).expect("posted");
    let member =
        join_group_over(&messengers[0], &addresses[..2], 0, TAG, PATIENCE).await.expect("it was heard");
    assert_eq!(member.barrier().await, Err(CollectiveError::RankLost { rank: Rank(1) }));
}

/// Rank 0 falls silent, and of the others only ranks 1 and 4 watch it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_that_a_rank_cannot_see_is_told_by_those_who_do() {
    const SIZE: u32 = 5;
    let exchange = Exchange::new();
    let start = |rank| {
        let config = MessengerConfig::new().memory(&exchange, &format!("r{rank}"));
        Messenger::start(config).expect("it starts")
    };
    let messengers: Vec<Messenger> = (0..SIZE).map(start).collect();
    let addresses: Vec<String> = (0..SIZE).map(|rank| format!("memory://r{rank}")).collect();
    // Rank 0 says no more than that it has heard of each other one.
    let (silent, tags) = (&messengers[0], Tags(TAG));
    let context = silent.open_context();
    for address in &addresses[1..] {
        let to = silent.look_up(address).expect("an address");
        let _ = silent.post_send(to, tags.beat(), beat(), silent.caller(context)).expect("posted");
    }
    let join = |rank: u32| {
        let (messenger, addresses) = (messengers[rank as usize].clone(), addresses.clone());
        tokio::spawn(async move {
            let member =
                join_group_over(&messenger, &addresses, rank, TAG, PATIENCE).await.expect("all come");
            member.barrier().await
        })
    };
    for waiting in (1..SIZE).map(join).collect::<Vec<_>>() {
        let result = waiting.await.expect("no panic");
        assert!(matches!(result, Err(CollectiveError::RankLost { .. })), "{result:?}");
    }
}

#[tokio::test]
async fn ranks_that_are_not_heard_and_addresses_that_are_none_are_named() {
    let (messengers, mut addresses) = within_the_process();
    let join = |rank, addresses: &[String]| {
        let (messenger, addresses) = (messengers[1].clone(), addresses.to_vec());
        async move { join_group_over(&messenger, &addresses, rank, TAG, Duration::from_millis(50)).await }
    };
    let alone = join(1, &addresses).await.expect_err("nobody comes").to_string();
    assert_eq!(alone, "after 50ms nothing has been heard of these ranks: [0, 2]");
    let none = join(3, &addresses).await.expect_err("ranks 0 to 2").to_string();
    assert_eq!(none, "rank 3 of a group of 3; ranks are counted from 0");
    addresses[2] = addresses[0].clone();
    let twice = join(1, &addresses).await.expect_err("two ranks in one place").to_string();
    assert_eq!(twice, "two ranks have the address \"memory://x\"; each has one of its own");
    addresses[2] = "tcp://z".to_owned();
    let wrong = join(1, &addresses).await.expect_err("no such network").to_string();
    assert!(wrong.starts_with("a rank's address \"tcp://z\": "), "{wrong}");
}

/// A rank may come much later than another one, whose messages wait for it meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_said_before_a_rank_listened_is_heard_in_the_order_in_which_it_was_said() {
    let (messengers, addresses) = within_the_process();
    let [early, late] = [&messengers[0], &messengers[1]];
    let (to, context, tags) =
        (early.look_up(&addresses[1]).expect("an address"), early.open_context(), Tags(TAG));
    let _ = early.post_send(to, tags.beat(), beat(), early.caller(context)).expect("posted");
    const COUNT: u64 = 5_000;
    for number in 0..COUNT {
        let message = number.to_be_bytes().to_vec();
        let word = Word::Message { length: message.len() as u64 };
        say(early, to, tags, early.caller(context), word, message.into()).expect("posted");
    }
    let mut link = MessageLink::new(late, &addresses[..2], Rank(1), tags).expect("right addresses");
    timeout(PATIENCE, link.meet()).await.expect("it was heard");
    for number in 0..COUNT {
        timeout(PATIENCE, link.arrival()).await.expect("all has been said");
        assert_eq!(link.poll(), Some(Arrival::From(Rank(0), number.to_be_bytes().to_vec().into())));
    }
}

#[tokio::test]
async fn a_rank_that_leaves_is_heard_and_nobody_waits_for_it_afterwards() {
    let (messengers, addresses) = within_the_process();
    let link = |rank: usize| {
        MessageLink::new(&messengers[rank], &addresses[..2], Rank(rank as u32), Tags(TAG)).expect("it begins")
    };
    let (mut first, mut second) = (link(0), link(1));
    timeout(PATIENCE, async { tokio::join!(first.meet(), second.meet()) }).await.expect("they meet");
    first.send(Rank(1), "last words".into());
    timeout(PATIENCE, first.leave()).await.expect("it is answered");
    for expected in [Arrival::From(Rank(0), "last words".into()), Arrival::Lost(Rank(0))] {
        timeout(PATIENCE, second.arrival()).await.expect("it comes");
        assert_eq!(second.poll(), Some(expected));
    }
    timeout(PATIENCE, second.flush()).await.expect("nobody is left to answer");
    timeout(PATIENCE, second.leave()).await.expect("nobody is left to answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_may_be_larger_than_the_peers_for_which_a_messenger_has_room_by_itself() {
    const SIZE: u32 = 70;
    let exchange = Exchange::new();
    let start = |rank| {
        let config = MessengerConfig::new().limits(limits_for_group(SIZE));
        Messenger::start(config.memory(&exchange, &format!("r{rank}"))).expect("it starts")
    };
    let messengers = (0..SIZE).map(start).collect();
    let addresses = (0..SIZE).map(|rank| format!("memory://r{rank}")).collect();
    let members = join((messengers, addresses)).await;
    let wait = |member: GroupMember| tokio::spawn(async move { member.barrier().await });
    for waiting in members.into_iter().map(wait).collect::<Vec<_>>() {
        waiting.await.expect("no panic").expect("all are there");
    }
}
