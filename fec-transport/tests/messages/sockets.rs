//! The face for threads, over real sockets and within the process: the same program by the address alone.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fec_transport::io::message::{Messenger, MessengerConfig, QuicConfig};
use fec_transport::io::{EndpointConfig, Sockets};
use fec_transport::keys::{Identity, encode_key};
use fec_transport::message::memory::Exchange;
use fec_transport::message::{AddressId, ContextId, OperationError, Posted, Room, Tag};
use fec_transport::overlay::Overlay;

use crate::party::content;

/// Longer than anything here takes on a busy machine; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

fn identity(name: &str) -> Identity {
    Identity::from_seed(*blake3::hash(name.as_bytes()).as_bytes())
}

fn socket() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port on loopback")
}

fn member(name: &str, rest: &str) -> String {
    let keys = identity(name).public();
    let (ed25519, x25519) = (encode_key(&keys.ed25519), encode_key(&keys.x25519));
    format!("[[member]]\nname = \"{name}\"\ned25519 = \"{ed25519}\"\nx25519 = \"{x25519}\"\n{rest}\n")
}

/// A client and a server over sessions, and the server's address.
fn over_sessions() -> (Messenger, Messenger, String) {
    let sockets = Sockets { control: socket(), data: socket() };
    let [control, data] = [&sockets.control, &sockets.data].map(|socket| socket.local_addr().expect("bound"));
    let server = member("server", &format!("control = \"{control}\"\ndata = \"{data}\""));
    let text = member("client", "") + &server + "[[link]]\na = \"client\"\nb = \"server\"\n";
    let overlay = Arc::new(Overlay::parse(&text).expect("a right overlay"));
    let config = |name: &str| EndpointConfig::new(Arc::clone(&overlay), identity(name));
    let serving = EndpointConfig { sockets: Some(sockets), ..config("server") };
    let start = |endpoint| Messenger::start(MessengerConfig::new().sessions(endpoint)).expect("it starts");
    (start(config("client")), start(serving), "fec://server".to_owned())
}

fn over_quic() -> (Messenger, Messenger, String) {
    let key = |name: &str| identity(name).public().ed25519;
    let start = |name: &str, other: &str| {
        let socket = socket();
        let address = socket.local_addr().expect("bound");
        let config = QuicConfig { identity: identity(name), socket, peers: vec![key(other)] };
        let messenger = Messenger::start(MessengerConfig::new().quic(config)).expect("it starts");
        (messenger, format!("quic://{}@{address}", encode_key(&key(name))))
    };
    let ((client, _), (server, address)) = (start("client", "server"), start("server", "client"));
    (client, server, address)
}

fn within_the_process() -> (Messenger, Messenger, String) {
    let exchange = Exchange::new();
    let start = |name| Messenger::start(MessengerConfig::new().memory(&exchange, name)).expect("it starts");
    (start("client"), start("server"), "memory://server".to_owned())
}

/// Answers requests, each of which says how long the reply is to be, until the client is gone.
fn serve(server: &Messenger, requests: usize) {
    let context = server.open_context();
    for _ in 0..requests {
        let request = server.test_unexpected(1, PATIENCE).pop().expect("a request");
        let length = u32::from_be_bytes(request.bytes[..4].try_into().expect("four bytes")) as usize;
        let reply = content(length, request.tag.0 as u8);
        let (first, rest) = reply.split_at(length / 3);
        let pieces = vec![first.to_vec().into(), rest.to_vec().into()];
        let posted =
            server.post_send(request.from, request.tag, pieces, server.caller(context)).expect("posted");
        let completion = server.wait(posted).expect("nobody else takes it");
        assert_eq!(completion.result, Ok(length as u64));
    }
}

fn ask(client: &Messenger, address: &str, lengths: &[usize]) {
    let context = client.open_context();
    let to = client.look_up(address).expect("an address");
    for (number, length) in lengths.iter().copied().enumerate() {
        let (tag, caller) = (Tag(number as u32), client.caller(context).user(number as u64));
        let reply = client.post_receive(to, tag, Room::of([length / 2, length - length / 2]), caller);
        let Posted::Pending(receive) = reply.expect("posted") else { panic!("nothing was asked") };
        let request = (length as u32).to_be_bytes().to_vec();
        let sent = client.post_send_unexpected(to, tag, vec![request.into()], caller).expect("posted");
        assert_eq!(client.wait(sent).expect("nobody else takes it").result, Ok(4));
        let completion = client.test_context(context, 1, PATIENCE).pop().expect("a reply");
        assert_eq!((completion.operation, completion.user), (receive, number as u64));
        assert_eq!(completion.result, Ok(length as u64));
        let bytes = completion.room.expect("a receive has room").into_pieces().concat();
        assert!(bytes == content(length, number as u8), "a reply of {length} bytes");
    }
}

#[test]
fn one_program_runs_over_each_module_by_the_address_alone() {
    let limits = [16 << 10, 32 << 10, 256 << 10].map(|limit| [limit, limit + 1]);
    let lengths = [&[0, 1, 400, 3 << 20], limits.as_flattened()].concat();
    for make in [within_the_process, over_sessions, over_quic] {
        let (client, server, address) = make();
        std::thread::scope(|scope| {
            scope.spawn(|| serve(&server, lengths.len()));
            ask(&client, &address, &lengths);
        });
        client.shutdown();
        server.shutdown();
    }
}

/// Lets the client greet the server; gives the addresses by which they know each other.
fn introduce(
    client: &Messenger,
    context: ContextId,
    server: &Messenger,
    address: &str,
) -> (AddressId, AddressId) {
    let to = client.look_up(address).expect("an address");
    let hello = client.post_send_unexpected(to, Tag(0), vec![vec![0].into()], client.caller(context));
    client.wait(hello.expect("posted")).expect("nobody else takes it").result.expect("sent");
    (to, server.test_unexpected(1, PATIENCE).pop().expect("it has come").from)
}

/// The server answers, and the client hears it in time. Each is given with its context and the other's address.
fn expect_answer(
    (client, of_client, to): (&Messenger, ContextId, AddressId),
    (server, of_server, from): (&Messenger, ContextId, AddressId),
    time: Duration,
) {
    let caller = client.caller(of_client).within(time);
    let receive = client.post_receive(to, Tag(2), Room::of([5]), caller).expect("posted");
    let reply = server.post_send(from, Tag(2), vec!["reply".into()], server.caller(of_server));
    server.wait(reply.expect("posted")).expect("nobody else takes it").result.expect("sent");
    assert_eq!(client.wait(receive).expect("nobody else takes it").result, Ok(5));
}

/// What has come of a message that is given up must not stand in the way of the next message.
#[test]
fn whenever_one_side_gives_a_message_up_the_next_ones_arrive() {
    for make in [within_the_process, over_sessions, over_quic] {
        let (client, server, address) = make();
        let [of_client, of_server] = [client.open_context(), server.open_context()];
        let (to, from) = introduce(&client, of_client, &server, &address);
        let length = 4 << 20;
        for round in 0..24 {
            let receive = |tag, length| {
                let room = Room::of([length]);
                server.post_receive(from, Tag(tag), room, server.caller(of_server)).expect("posted")
            };
            let send = |tag, bytes: Vec<u8>| {
                client.post_send(to, Tag(tag), vec![bytes.into()], client.caller(of_client)).expect("posted")
            };
            let (received, sent) = (receive(1, length), send(1, content(length, round)));
            std::thread::sleep(Duration::from_micros(300) * u32::from(round / 2));
            // Over memory the message is complete by now, and over a network it may be.
            let give_up = |messenger: &Messenger, posted: &Posted| match posted {
                Posted::Pending(operation) => drop(messenger.cancel(*operation)),
                Posted::Done(_) => {}
            };
            if round % 2 == 0 {
                give_up(&server, &received);
            }
            // A message whose receive was given up before it was offered waits for another one.
            std::thread::sleep(Duration::from_millis(5));
            give_up(&client, &sent);
            let sent = client.wait(sent).expect("nobody else takes it").result;
            // A receive whose message was given up before it was offered waits for another message.
            give_up(&server, &received);
            let received = server.wait(received).expect("nobody else takes it").result;
            for result in [sent, received] {
                let is_given_up = matches!(result, Err(OperationError::Cancelled | OperationError::GivenUp));
                assert!(is_given_up || result == Ok(length as u64), "{result:?}");
            }
            let (received, sent) = (receive(2, 50_000), send(2, content(50_000, round)));
            let completion = server.wait(received).expect("nobody else takes it");
            assert_eq!(completion.result, Ok(50_000), "behind round {round} to {address}");
            let bytes = completion.room.expect("a receive has room").into_pieces().concat();
            assert!(bytes == content(50_000, round), "behind round {round} to {address}");
            assert_eq!(client.wait(sent).expect("nobody else takes it").result, Ok(50_000));
        }
        client.shutdown();
        server.shutdown();
    }
}

/// There are more messages than there may be streams for them, so that some wait until a stream is free.
#[test]
fn a_thousand_large_messages_at_once_all_arrive() {
    for make in [over_sessions, over_quic] {
        let (client, server, address) = make();
        let [of_client, of_server] = [client.open_context(), server.open_context()];
        let (to, from) = introduce(&client, of_client, &server, &address);
        let (count, length) = (1_000, 20_000);
        for number in 0..count {
            let caller = server.caller(of_server).user(number);
            drop(server.post_receive(from, Tag(1), Room::of([length]), caller).expect("posted"));
        }
        for number in 0..count {
            let pieces = vec![content(length, number as u8).into()];
            drop(client.post_send(to, Tag(1), pieces, client.caller(of_client)).expect("posted"));
        }
        let mut come = 0;
        while come < count {
            let completions = server.test_context(of_server, usize::MAX, PATIENCE);
            assert!(!completions.is_empty(), "{come} have come over {address}");
            for completion in completions {
                let bytes = completion.room.expect("a receive has room").into_pieces().concat();
                assert!(bytes == content(length, completion.user as u8), "message {}", completion.user);
                come += 1;
            }
        }
        client.shutdown();
        server.shutdown();
    }
}

#[test]
fn lent_messages_of_any_length_arrive_over_each_module() {
    for make in [within_the_process, over_sessions, over_quic] {
        let (client, server, address) = make();
        let [of_client, of_server] = [client.open_context(), server.open_context()];
        let (to, from) = introduce(&client, of_client, &server, &address);
        for length in [0, 1, 100_000] {
            let lent = client.caller(of_client).lent();
            let sent = client.post_send(to, Tag(1), vec![content(length, 1).into()], lent).expect("posted");
            let room = Room::of([length]);
            let received = server.post_receive(from, Tag(1), room, server.caller(of_server)).expect("posted");
            for (messenger, posted) in [(&server, received), (&client, sent)] {
                let completion = messenger.wait(posted).expect("nobody else takes it");
                assert_eq!(completion.result, Ok(length as u64), "{length} bytes to {address}");
            }
        }
        client.shutdown();
        server.shutdown();
    }
}

/// Three hundred messages are more than have a stream at once: an urgent one waits for none of them.
#[test]
fn over_quic_a_message_that_somebody_waits_for_goes_before_others() {
    let (client, server, address) = over_quic();
    let [of_client, of_server] = [client.open_context(), server.open_context()];
    let (to, from) = introduce(&client, of_client, &server, &address);
    let (count, length) = (300, 256 << 10);
    for number in 0..=count {
        let caller = server.caller(of_server).user(number);
        drop(server.post_receive(from, Tag(number as u32), Room::of([length]), caller).expect("posted"));
    }
    let message = bytes::Bytes::from(content(length, 0));
    for number in 0..=count {
        let caller = client.caller(of_client);
        let caller = if number == count { caller.urgent() } else { caller };
        drop(client.post_send(to, Tag(number as u32), vec![message.clone()], caller).expect("posted"));
    }
    let mut before = 0;
    while server.test_context(of_server, 1, PATIENCE).pop().expect("one has come").user != count {
        before += 1;
    }
    assert!(before < count / 2, "{before} messages came first");
    client.shutdown();
    server.shutdown();
}

/// Carries packets between whoever comes and `server`, the ones to `server` at 4 MB/s; until the process ends. Gives
/// its address.
fn slow_way(server: SocketAddr) -> SocketAddr {
    let way = socket();
    let address = way.local_addr().expect("bound");
    std::thread::spawn(move || {
        let (mut packet, mut client) = ([0; 65_536], None);
        while let Ok((length, from)) = way.recv_from(&mut packet) {
            let to = if from == server { client } else { Some(server) };
            if from != server {
                client = Some(from);
                std::thread::sleep(Duration::from_nanos(250) * length as u32);
            }
            // Whoever is gone gets nothing.
            let _ = to.map(|to| way.send_to(&packet[..length], to));
        }
    });
    address
}

/// A stream that is written has always something to send there.
#[test]
fn over_quic_a_short_message_passes_a_long_one_on_a_slow_way() {
    let (client, server, address) = over_quic();
    let (key, place) = address.split_once('@').expect("a key and an address");
    let address = format!("{key}@{}", slow_way(place.parse().expect("an address")));
    let [of_client, of_server] = [client.open_context(), server.open_context()];
    let (to, from) = introduce(&client, of_client, &server, &address);
    let receive = |tag, length| {
        let caller = server.caller(of_server);
        server.post_receive(from, Tag(tag), Room::of([length]), caller).expect("posted").operation()
    };
    let send = |tag, length| {
        let pieces = vec![content(length, 1).into()];
        client.post_send(to, Tag(tag), pieces, client.caller(of_client)).expect("posted").operation()
    };
    let (long, short) = (receive(1, 8 << 20), receive(2, 4));
    let sent = send(1, 8 << 20);
    std::thread::sleep(Duration::from_millis(200));
    send(2, 4);
    let completion = server.test(short, PATIENCE).expect("known").expect("it has come");
    assert_eq!(completion.result, Ok(4));
    assert!(server.test(long, Duration::ZERO).expect("known").is_none(), "the long one came first");
    client.cancel(sent).expect("it is pending");
    client.shutdown();
    server.shutdown();
}

#[test]
fn waiting_ends_by_time_by_cancel_and_by_the_end_of_the_peer() {
    waiting_ends(over_sessions(), "closed by the peer: shutting down");
    waiting_ends(over_quic(), "closed by peer: shutting down (code 0)");
}

fn waiting_ends((client, server, address): (Messenger, Messenger, String), lost: &str) {
    let context = client.open_context();
    let to = client.look_up(&address).expect("an address");
    let receive = |caller| client.post_receive(to, Tag(1), Room::of([4]), caller).expect("posted");
    let timed = receive(client.caller(context).within(Duration::from_millis(20)));
    let completion = client.wait(timed).expect("nobody else takes it");
    assert_eq!(completion.result, Err(OperationError::TimedOut(Duration::from_millis(20))));
    let operation = receive(client.caller(context)).operation();
    std::thread::scope(|scope| {
        scope.spawn(|| client.cancel(operation).expect("it is pending"));
        let completion = client.test(operation, PATIENCE).expect("known").expect("complete");
        assert_eq!(completion.result, Err(OperationError::Cancelled));
    });
    let sent = client.post_send(to, Tag(2), vec![content(100_000, 0).into()], client.caller(context));
    let sent = sent.expect("posted");
    let asked = client.post_send_unexpected(to, Tag(2), vec!["?".into()], client.caller(context));
    assert_eq!(client.wait(asked.expect("posted")).expect("known").result, Ok(1));
    assert_eq!(server.test_unexpected(1, PATIENCE).len(), 1);
    server.shutdown();
    let error = client.wait(sent).expect("known").result.expect_err("nobody has received it");
    assert_eq!(error.to_string(), format!("the peer {address} was lost: {lost}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_wait_without_keeping_a_thread() {
    let (client, server, address) = over_sessions();
    let serving = tokio::spawn(async move {
        let context = server.open_context();
        let request = server.next_unexpected().await;
        let posted = server.post_send(request.from, request.tag, vec![request.bytes], server.caller(context));
        let posted = posted.expect("posted");
        let completion = server.complete(posted).await.expect("known");
        (completion.result, server)
    });
    let context = client.open_context();
    let to = client.look_up(&address).expect("an address");
    let _ = client.post_receive(to, Tag(1), Room::of([9]), client.caller(context).user(8)).expect("posted");
    let sent = client.post_send_unexpected(to, Tag(1), vec!["hello".into()], client.caller(context));
    client.complete(sent.expect("posted")).await.expect("known").result.expect("sent");
    let reply = client.next_completion(context).await;
    assert_eq!((reply.user, reply.result), (8, Ok(5)));
    assert_eq!(serving.await.expect("no panic").0, Ok(5));
}

/// A short send is complete when it is posted. Over sessions and QUIC it was once lost if its messenger ended then.
#[test]
fn what_is_complete_arrives_though_its_messenger_ends_at_once() {
    for make in [within_the_process, over_sessions, over_quic] {
        let (client, server, address) = make();
        let context = client.open_context();
        let to = client.look_up(&address).expect("an address");
        let send = |number: u8| {
            let message = vec![content(8_000, number).into()];
            client.post_send_unexpected(to, Tag(number.into()), message, client.caller(context))
        };
        // The first one waits until there is a connection.
        client.wait(send(0).expect("posted")).expect("known").result.expect("sent");
        let is_complete = |number: &u8| matches!(send(*number), Ok(Posted::Done(_)));
        let complete = (1..=100).take_while(is_complete).count();
        client.shutdown();
        assert!(complete > 0);
        for number in 0..=complete as u8 {
            let message = server.test_unexpected(1, PATIENCE).pop();
            let message = message.unwrap_or_else(|| panic!("{number} of {complete} have come: {address}"));
            assert_eq!(message.tag, Tag(number.into()));
            assert!(message.bytes == content(8_000, number));
        }
    }
}

/// The connection that nobody waited for any more was made all the same, and stayed; the server answered over it, where
/// nobody listened.
#[test]
fn over_quic_a_peer_that_is_dropped_while_it_is_dialled_is_reached_again() {
    let (client, server, address) = over_quic();
    let [of_client, of_server] = [client.open_context(), server.open_context()];
    let (key, place) = address.split_once('@').expect("a key and an address");
    let way = socket();
    let dropped = format!("{key}@{}", way.local_addr().expect("bound"));
    let to = client.look_up(&dropped).expect("an address");
    let first = client.post_send_unexpected(to, Tag(1), vec!["?".into()], client.caller(of_client));
    way.peek_from(&mut [0]).expect("the first packet of the dial");
    client.drop_address(to);
    let first = client.wait(first.expect("posted")).expect("nobody else takes it");
    assert_eq!(first.result, Err(OperationError::Cancelled));
    let (to, from) = introduce(&client, of_client, &server, &address);
    // Now the packets of the dropped dial arrive, and have time to become a connection.
    carry(way, place.parse().expect("an address"), Arc::new(AtomicBool::new(true)));
    std::thread::sleep(Duration::from_millis(300));
    expect_answer((&client, of_client, to), (&server, of_server, from), PATIENCE);
    client.shutdown();
    server.shutdown();
}

/// A client that was killed and is started again with its key was answered over the connection of the one before, as
/// long as that seemed to live; then both were lost.
#[test]
fn over_quic_a_process_that_comes_in_the_place_of_another_is_answered() {
    let (key, server_key) = (identity("client").public().ed25519, identity("server").public().ed25519);
    let listening = socket();
    let place = listening.local_addr().expect("bound");
    let start = |name: &str, socket: UdpSocket, peer: [u8; 32]| {
        let config = QuicConfig { identity: identity(name), socket, peers: vec![peer] };
        Messenger::start(MessengerConfig::new().quic(config)).expect("it starts")
    };
    let server = start("server", listening, key);
    let (way, is_open) = way_that_ends(place);
    let address = |place: SocketAddr| format!("quic://{}@{place}", encode_key(&server_key));
    let killed = start("client", socket(), server_key);
    let (_, before) = introduce(&killed, killed.open_context(), &server, &address(way));
    is_open.store(false, Ordering::Relaxed);
    let client = start("client", socket(), server_key);
    let (of_client, of_server) = (client.open_context(), server.open_context());
    let pending =
        server.post_receive(before, Tag(9), Room::of([5]), server.caller(of_server)).expect("posted");
    let (to, from) = introduce(&client, of_client, &server, &address(place));
    let lost = server.test(pending.operation(), Duration::from_secs(5)).expect("known").expect("in time");
    let error = lost.result.expect_err("the process that was to send it is gone").to_string();
    assert!(error.ends_with("its process has connected anew"), "{error}");
    expect_answer((&client, of_client, to), (&server, of_server, from), Duration::from_secs(5));
    client.shutdown();
    server.shutdown();
}

/// Carries packets between whoever comes and `server` until it is told to end. Gives its address.
fn way_that_ends(server: SocketAddr) -> (SocketAddr, Arc<AtomicBool>) {
    let (way, is_open) = (socket(), Arc::new(AtomicBool::new(true)));
    let address = way.local_addr().expect("bound");
    carry(way, server, Arc::clone(&is_open));
    (address, is_open)
}

/// Carries packets between whoever comes to `way` and `server` from now on, as long as the way is open.
fn carry(way: UdpSocket, server: SocketAddr, is_open: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let (mut packet, mut client) = ([0; 65_536], None);
        while let Ok((length, from)) = way.recv_from(&mut packet) {
            if from != server {
                client = Some(from);
            }
            let to = if from == server { client } else { Some(server) };
            if is_open.load(Ordering::Relaxed) {
                // Whoever is gone gets nothing.
                let _ = to.map(|to| way.send_to(&packet[..length], to));
            }
        }
    });
}
