//! Emulated links between real sockets on loopback. Waits are bounded by [`PATIENCE`]; no test depends on how fast
//! the machine is.
#![cfg(feature = "emulator")]

use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::time::Duration;

use netsim::emulator::{
    Direction, EmulatedLink, Emulator, EmulatorError, Endpoint, LinkHandle, LinkPorts, TICK,
};
use netsim::{LinkCounters, LinkModel, Probability, Rate};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout};

const PATIENCE: Duration = Duration::from_secs(20);

fn fast() -> LinkModel {
    LinkModel::new(Rate::from_mbit(1_000), Duration::from_millis(2))
}

/// The two sockets of a member.
struct Member {
    control: UdpSocket,
    data: UdpSocket,
}

impl Member {
    async fn new() -> Self {
        Self { control: socket().await, data: socket().await }
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint {
            control: Some(self.control.local_addr().unwrap()),
            data: Some(self.data.local_addr().unwrap()),
        }
    }
}

async fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").await.unwrap()
}

/// A link from a client to the server, with the same model both ways.
fn client_link(server: &Member, model: LinkModel) -> Emulator {
    let link =
        EmulatedLink::new("client-server", Endpoint::default(), server.endpoint(), model.clone(), model);
    Emulator::start(vec![link], 1).unwrap()
}

fn ports_to_b(emulator: &Emulator) -> (SocketAddr, SocketAddr) {
    let Endpoint { control, data } = emulator.links()[0].ports().a_to_b;
    (control.unwrap(), data.unwrap())
}

async fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut packet = vec![0; 2_000];
    let (bytes, source) = timeout(PATIENCE, socket.recv_from(&mut packet)).await.expect("a packet").unwrap();
    packet.truncate(bytes);
    (packet, source)
}

/// Waits until the link satisfies the condition.
async fn until(link: &LinkHandle, condition: impl Fn(&LinkHandle) -> bool) {
    let wait = async {
        while !condition(link) {
            tokio::time::sleep(TICK).await;
        }
    };
    timeout(PATIENCE, wait).await.expect("the link gets there");
}

/// An address that is free and stays so: the other sockets of these tests are on 127.0.0.1.
async fn free_address() -> SocketAddr {
    UdpSocket::bind("127.0.0.2:0").await.unwrap().local_addr().unwrap()
}

fn is_silent(socket: &UdpSocket) -> bool {
    socket.try_recv(&mut [0; 2_000]).is_err()
}

#[tokio::test]
async fn both_planes_carry_packets_and_answers() {
    let (server, client) = (Member::new().await, Member::new().await);
    let emulator = client_link(&server, fast());
    let (control, data) = ports_to_b(&emulator);
    for (here, port, there) in
        [(&client.control, control, &server.control), (&client.data, data, &server.data)]
    {
        here.send_to(b"question", port).await.unwrap();
        let (question, asker) = receive(there).await;
        assert_eq!(question, b"question");
        there.send_to(b"answer", asker).await.unwrap();
        assert_eq!(receive(here).await, (b"answer".to_vec(), port), "it comes from where the question went");
    }
    for direction in [Direction::AToB, Direction::BToA] {
        assert_eq!(emulator.links()[0].counters(direction).delivered, 2);
    }
    assert!(emulator.links()[0].longest_pause() > Duration::ZERO);
}

/// As the emulator's sockets do it: quinn-udp has no room for all that the kernel could tell of a burst.
#[cfg(target_os = "linux")]
fn make_room_for_marks(socket: &UdpSocket) {
    use nix::sys::socket::{setsockopt, sockopt::Ipv4PacketInfo};
    setsockopt(socket, Ipv4PacketInfo, &false).unwrap();
}

/// A burst that the kernel carries as one is many packets for the model, and arrives with its sizes and its ECN bits.
#[tokio::test]
async fn bursts_are_packets_and_keep_their_ecn_bits() {
    let (server, client) = (Member::new().await, socket().await);
    let there = UdpSocketState::new((&server.data).into()).unwrap();
    let here = UdpSocketState::new((&client).into()).unwrap();
    #[cfg(target_os = "linux")]
    make_room_for_marks(&server.data);
    let emulator = client_link(&server, fast());
    let (_, destination) = ports_to_b(&emulator);
    for (ecn, bytes) in [(Some(EcnCodepoint::Ce), 3_500), (None, 1), (Some(EcnCodepoint::Ect0), 2_000)] {
        let contents: Vec<u8> = (0..bytes).map(|byte| (byte % 251) as u8).collect();
        let segment_size = (bytes > 1_000).then_some(1_000);
        let burst = Transmit { destination, ecn, contents: &contents, segment_size, src_ip: None };
        client.writable().await.unwrap();
        here.try_send((&client).into(), &burst).unwrap();
        let mut received = Vec::new();
        while received.len() < bytes {
            timeout(PATIENCE, server.data.readable()).await.expect("a packet").unwrap();
            let (mut buffer, mut meta) = (vec![0; 65_536], [RecvMeta::default()]);
            let receive =
                || there.recv((&server.data).into(), &mut [IoSliceMut::new(&mut buffer)], &mut meta);
            if server.data.try_io(Interest::READABLE, receive).is_ok() {
                assert_eq!(meta[0].ecn, ecn);
                received.extend_from_slice(&buffer[..meta[0].len]);
            }
        }
        assert_eq!(received, contents);
    }
    assert_eq!(emulator.links()[0].counters(Direction::AToB).delivered, 4 + 1 + 2);
}

#[tokio::test]
async fn an_empty_packet_is_a_packet() {
    let (server, client) = (Member::new().await, socket().await);
    let emulator = client_link(&server, fast());
    let (_, port) = ports_to_b(&emulator);
    client.send_to(b"", port).await.unwrap();
    assert_eq!(receive(&server.data).await.0, b"");
    client.send_to(b"x", port).await.unwrap();
    assert_eq!(receive(&server.data).await.0, b"x");
}

#[tokio::test]
async fn two_sources_of_one_port_both_get_their_answers() {
    let (server, one, two) = (Member::new().await, socket().await, socket().await);
    let emulator = client_link(&server, fast());
    let (_, port) = ports_to_b(&emulator);
    one.send_to(b"one", port).await.unwrap();
    two.send_to(b"two", port).await.unwrap();
    let questions = [receive(&server.data).await, receive(&server.data).await];
    assert_ne!(questions[0].1, questions[1].1, "the server sees two sources");
    for (question, asker) in &questions {
        server.data.send_to(question, asker).await.unwrap();
    }
    assert_eq!(receive(&one).await.0, b"one");
    assert_eq!(receive(&two).await.0, b"two");
}

#[tokio::test]
async fn members_with_fixed_addresses_reach_each_other_by_ports_of_their_own() {
    let (left, right) = (Member::new().await, Member::new().await);
    let link = EmulatedLink::new("left-right", left.endpoint(), right.endpoint(), fast(), fast());
    let emulator = Emulator::start(vec![link], 1).unwrap();
    let ports = *emulator.link("left-right").unwrap().ports();
    left.data.send_to(b"to the right", ports.a_to_b.data.unwrap()).await.unwrap();
    right.data.send_to(b"to the left", ports.b_to_a.data.unwrap()).await.unwrap();
    assert_eq!(receive(&right.data).await.0, b"to the right");
    assert_eq!(receive(&left.data).await.0, b"to the left");
}

#[tokio::test]
async fn a_link_loses_as_often_as_asked() {
    const PACKETS: u64 = 2_000;
    const LOSS: f64 = 0.1;
    let (server, client) = (Member::new().await, socket().await);
    let emulator = client_link(&server, fast().with_loss(Probability::new(LOSS).unwrap()));
    let (_, port) = ports_to_b(&emulator);
    let link = &emulator.links()[0];
    let mut received = 0;
    for sent in 1..=PACKETS {
        client.send_to(&[0; 100], port).await.unwrap();
        if sent % 100 == 0 {
            // The socket buffers of a small machine would not hold them all.
            let settled = |counters: LinkCounters| counters.offered == sent && counters.under_way() == 0;
            until(link, |link| settled(link.counters(Direction::AToB))).await;
            while received < link.counters(Direction::AToB).delivered {
                receive(&server.data).await;
                received += 1;
            }
        }
    }
    let counters = link.counters(Direction::AToB);
    let deviation = (PACKETS as f64 * LOSS * (1.0 - LOSS)).sqrt();
    assert!((counters.lost as f64 - PACKETS as f64 * LOSS).abs() < 4.0 * deviation, "{counters:?}");
    assert_eq!(received + counters.lost, PACKETS);
    assert!(is_silent(&server.data));
}

#[tokio::test]
async fn a_killed_link_stops_both_planes_and_both_directions_until_it_is_restored() {
    let (server, client) = (Member::new().await, Member::new().await);
    let emulator = client_link(&server, fast());
    let (control, data) = ports_to_b(&emulator);
    let link = &emulator.links()[0];
    client.control.send_to(b"before", control).await.unwrap();
    client.data.send_to(b"before", data).await.unwrap();
    let client_seen_as = receive(&server.control).await.1;
    receive(&server.data).await;

    link.kill();
    assert!(!link.is_up());
    client.control.send_to(b"during", control).await.unwrap();
    client.data.send_to(b"during", data).await.unwrap();
    server.control.send_to(b"during", client_seen_as).await.unwrap();
    until(link, |link| link.counters(Direction::AToB).dropped_down == 2).await;
    until(link, |link| link.counters(Direction::BToA).dropped_down == 1).await;

    link.restore();
    client.control.send_to(b"after", control).await.unwrap();
    client.data.send_to(b"after", data).await.unwrap();
    server.control.send_to(b"after", client_seen_as).await.unwrap();
    for socket in [&server.control, &server.data, &client.control] {
        assert_eq!(receive(socket).await.0, b"after");
    }
}

#[tokio::test]
async fn a_packet_never_comes_earlier_than_its_model_says() {
    let (server, client) = (Member::new().await, socket().await);
    // 1,222 bytes and their headers take 1 ms at 10 Mbit/s.
    let delay = Duration::from_millis(30);
    let emulator = client_link(&server, LinkModel::new(Rate::from_mbit(10), delay));
    let (_, port) = ports_to_b(&emulator);
    let started = Instant::now();
    for number in 0..40 {
        client.send_to(&[number; 1_222], port).await.unwrap();
    }
    for number in 0..40 {
        assert_eq!(receive(&server.data).await.0[0], number, "in order");
        assert!(started.elapsed() >= delay + u32::from(number + 1) * Duration::from_millis(1));
    }
}

#[tokio::test]
async fn both_planes_share_one_queue() {
    let (server, client) = (Member::new().await, Member::new().await);
    let model = LinkModel::new(Rate::from_bits(8_000), Duration::ZERO).with_queue_bytes(1_500);
    let emulator = client_link(&server, model);
    let (control, data) = ports_to_b(&emulator);
    let link = &emulator.links()[0];
    for _ in 0..2 {
        client.data.send_to(&[0; 1_400], data).await.unwrap();
    }
    until(link, |link| link.counters(Direction::AToB).offered == 2).await;
    client.control.send_to(&[0; 1_400], control).await.unwrap();
    until(link, |link| link.counters(Direction::AToB).queue_dropped == 1).await;
}

#[tokio::test]
async fn parameters_change_while_it_runs() {
    let (server, client) = (Member::new().await, socket().await);
    let emulator = client_link(&server, fast());
    let (_, port) = ports_to_b(&emulator);
    let link = &emulator.links()[0];
    link.set_model(Direction::AToB, fast().with_loss(Probability::ONE));
    client.send_to(b"lost", port).await.unwrap();
    until(link, |link| link.counters(Direction::AToB).lost == 1).await;
    link.set_model(Direction::AToB, fast());
    client.send_to(b"found", port).await.unwrap();
    assert_eq!(receive(&server.data).await.0, b"found");
}

#[tokio::test]
async fn a_target_that_starts_late_misses_nothing_more() {
    let target = free_address().await;
    let there = Endpoint { data: Some(target), ..Endpoint::default() };
    let link = EmulatedLink::new("late", Endpoint::default(), there, fast(), fast());
    let emulator = Emulator::start(vec![link], 1).unwrap();
    let (port, client) = (emulator.links()[0].ports().a_to_b.data.unwrap(), socket().await);
    client.send_to(b"too early", port).await.unwrap();
    until(&emulator.links()[0], |link| link.counters(Direction::AToB).delivered == 1).await;
    let late = UdpSocket::bind(target).await.unwrap();
    client.send_to(b"in time", port).await.unwrap();
    assert_eq!(receive(&late).await.0, b"in time");
}

#[tokio::test]
async fn given_ports_are_used_and_closed_when_the_emulator_goes() {
    let server = Member::new().await;
    let given = free_address().await;
    let mut link = EmulatedLink::new("x", Endpoint::default(), server.endpoint(), fast(), fast());
    link.bind.a_to_b.data = Some(given);
    let emulator = Emulator::start(vec![link], 1).unwrap();
    assert_eq!(emulator.links()[0].ports().a_to_b.data, Some(given));
    assert!(UdpSocket::bind(given).await.is_err());
    let handle = emulator.links()[0].clone();
    drop(emulator);
    until(&handle, |_| std::net::UdpSocket::bind(given).is_ok()).await;
}

/// Starts a link of the given kind; it must not start.
fn refusal(a: Endpoint, b: Endpoint, bind: LinkPorts) -> String {
    let link = EmulatedLink { bind, ..EmulatedLink::new("x", a, b, fast(), fast()) };
    let error: EmulatorError = Emulator::start(vec![link], 1).unwrap_err();
    error.to_string()
}

fn data(address: &str) -> Endpoint {
    Endpoint { control: None, data: Some(address.parse().unwrap()) }
}

#[tokio::test]
async fn what_cannot_start_says_where_and_why() {
    let (nobody, free) = (Endpoint::default(), LinkPorts::default());
    let taken = socket().await;
    let taken = taken.local_addr().unwrap().to_string();
    let bind = LinkPorts { a_to_b: data(&taken), b_to_a: nobody };
    assert_eq!(refusal(nobody, data("127.0.0.1:9"), bind), format!("link x: cannot bind {taken}"));
    assert_eq!(
        refusal(nobody, data("192.0.2.1:9"), free),
        "link x: 192.0.2.1:9 is not on IPv4 loopback (127.0.0.0/8)"
    );
    assert_eq!(
        refusal(data("127.0.0.1:9"), nobody, bind),
        format!("link x: nothing is behind port {taken}, because that end has no address on this plane")
    );
    let twins = ["x", "x"].map(|name| EmulatedLink::new(name, nobody, nobody, fast(), fast()));
    assert_eq!(Emulator::start(twins.to_vec(), 1).unwrap_err().to_string(), "two links are named x");
}

#[test]
fn without_a_runtime_it_says_so() {
    assert!(matches!(Emulator::start(Vec::new(), 1), Err(EmulatorError::NoRuntime(_))));
}
