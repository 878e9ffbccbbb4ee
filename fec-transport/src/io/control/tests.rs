use std::collections::BTreeSet;
use std::time::Duration;

use netsim::emulator::{EmulatedLink, Emulator};
use netsim::{LinkModel, Rate};
use quinn::{ConnectionError, TransportErrorCode};
use rustls::AlertDescription;
use tokio::time::timeout;

use super::connection::HandshakeError;
use super::message::{Hello, MAX_MESSAGE, read_message, write_message};
use super::*;
use crate::circuit::PROTOCOL_VERSION;
use crate::io::sockets::Sockets;
use crate::io::testing::{Scene, identity, loopback};
use crate::overlay::Reach;

/// Longer than anything here takes on a busy machine; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

fn start_as(scene: &Scene, name: &str, instance: u64, socket: UdpSocket, keys: Identity) -> ControlPlane {
    let config = ControlConfig {
        overlay: Arc::clone(&scene.overlay),
        own: process(scene, name, instance),
        identity: keys,
        seed: [7; 32],
    };
    let mut plane = ControlPlane::new(config).expect("a control plane");
    plane.open(None, socket).expect("an endpoint");
    plane.dial_neighbours().expect("diallers");
    plane
}

/// A process of a listening member on its socket, or of a client on any.
fn start(scene: &Scene, name: &str, instance: u64) -> ControlPlane {
    let listens = scene.overlay.member(scene.member(name)).control.is_some();
    let socket = if listens { scene.control_socket(name) } else { loopback() };
    start_as(scene, name, instance, socket, identity(name))
}

fn process(scene: &Scene, name: &str, instance: u64) -> Peer {
    Peer { member: scene.member(name), instance: InstanceId(instance) }
}

/// A process as its neighbour sees it over the only link to it.
fn peer(scene: &Scene, name: &str, instance: u64) -> Adjacency {
    let peer = process(scene, name, instance);
    let mut links = scene.overlay.links_of(peer.member).map(|(link, _)| link);
    Adjacency { peer, link: links.next().expect("it has a link") }
}

/// The relay's first process as one of several neighbours sees it.
fn relay_over_link_of(scene: &Scene, name: &str) -> Adjacency {
    Adjacency { link: peer(scene, name, 0).link, ..peer(scene, "relay", 1) }
}

/// The next event, but for what could not be reached in the beginning.
async fn next(plane: &mut ControlPlane) -> ControlEvent {
    loop {
        match timeout(PATIENCE, plane.next_event()).await.expect("an event in time") {
            ControlEvent::Unreached(..) => {}
            event => return event,
        }
    }
}

/// Why the relay could not be reached at the first attempt.
async fn unreached(plane: &mut ControlPlane) -> String {
    match timeout(PATIENCE, plane.next_event()).await.expect("an event in time") {
        ControlEvent::Unreached(_, unreached) => unreached.why,
        event => panic!("{event:?}"),
    }
}

fn client_and_relay() -> Scene {
    Scene::new(&["relay"], &["client"], &[("client", "relay")])
}

#[tokio::test]
async fn messages_flow_both_ways_in_order() {
    let scene = client_and_relay();
    let (mut relay, mut client) = (start(&scene, "relay", 1), start(&scene, "client", 2));
    let (to_relay, to_client) = (peer(&scene, "relay", 1), peer(&scene, "client", 2));
    assert_eq!(next(&mut client).await, ControlEvent::Up(to_relay));
    assert_eq!(next(&mut relay).await, ControlEvent::Up(to_client));
    let messages = [vec![1; MAX_MESSAGE], vec![], vec![2; 3]];
    for message in &messages {
        client.send(to_relay, message.clone());
        relay.send(to_client, message.clone());
    }
    for message in messages {
        assert_eq!(next(&mut relay).await, ControlEvent::Message(to_client, message.clone()));
        assert_eq!(next(&mut client).await, ControlEvent::Message(to_relay, message));
    }
}

#[tokio::test]
async fn what_was_queued_before_a_shutdown_still_arrives() {
    let scene = client_and_relay();
    let (mut relay, mut client) = (start(&scene, "relay", 1), start(&scene, "client", 2));
    let (to_relay, to_client) = (peer(&scene, "relay", 1), peer(&scene, "client", 2));
    assert_eq!(next(&mut client).await, ControlEvent::Up(to_relay));
    for number in 0..100 {
        client.send(to_relay, vec![number; 1000]);
    }
    client.shutdown().await;
    assert_eq!(next(&mut relay).await, ControlEvent::Up(to_client));
    for number in 0..100 {
        assert_eq!(next(&mut relay).await, ControlEvent::Message(to_client, vec![number; 1000]));
    }
    assert_eq!(next(&mut relay).await, ControlEvent::Down(to_client));
}

#[tokio::test]
async fn processes_under_one_key_are_neighbours_at_once() {
    let scene = client_and_relay();
    let mut relay = start(&scene, "relay", 1);
    let mut first = start(&scene, "client", 2);
    assert_eq!(next(&mut relay).await, ControlEvent::Up(peer(&scene, "client", 2)));
    let mut second = start(&scene, "client", 3);
    assert_eq!(next(&mut relay).await, ControlEvent::Up(peer(&scene, "client", 3)));
    for (client, instance) in [(&mut first, 2), (&mut second, 3)] {
        relay.send(peer(&scene, "client", instance), vec![instance as u8]);
        assert_eq!(next(client).await, ControlEvent::Up(peer(&scene, "relay", 1)));
        let message = ControlEvent::Message(peer(&scene, "relay", 1), vec![instance as u8]);
        assert_eq!(next(client).await, message);
    }
}

#[tokio::test]
async fn the_newer_connection_of_a_process_replaces_the_older() {
    let scene = client_and_relay();
    let mut relay = start(&scene, "relay", 1);
    let client = peer(&scene, "client", 2);
    let mut older = start(&scene, "client", 2);
    assert_eq!(next(&mut older).await, ControlEvent::Up(peer(&scene, "relay", 1)));
    assert_eq!(next(&mut relay).await, ControlEvent::Up(client));
    let raw = RawClient::new(identity("client"));
    let _newer = raw.greeted(&scene, "relay", client.peer.instance).await;
    assert_eq!(next(&mut relay).await, ControlEvent::Down(client));
    assert_eq!(next(&mut relay).await, ControlEvent::Up(client));
    assert_eq!(next(&mut older).await, ControlEvent::Down(peer(&scene, "relay", 1)));
}

#[tokio::test]
async fn a_dialler_comes_back_after_the_acceptor_was_restarted() {
    let scene = client_and_relay();
    let mut client = start(&scene, "client", 9);
    let relay = start(&scene, "relay", 1);
    assert_eq!(next(&mut client).await, ControlEvent::Up(peer(&scene, "relay", 1)));
    relay.shutdown().await;
    assert_eq!(next(&mut client).await, ControlEvent::Down(peer(&scene, "relay", 1)));
    let mut relay = start(&scene, "relay", 2);
    assert_eq!(next(&mut client).await, ControlEvent::Up(peer(&scene, "relay", 2)));
    assert_eq!(next(&mut relay).await, ControlEvent::Up(peer(&scene, "client", 9)));
}

/// The scene of client and relay with an emulated link between them.
fn emulated(scene: Scene) -> (Scene, Emulator) {
    let relay = scene.overlay.member(scene.member("relay"));
    let behind = netsim::emulator::Endpoint { control: relay.control, data: relay.data };
    let model = || LinkModel::new(Rate::from_mbit(10), Duration::from_millis(5));
    let link = EmulatedLink::new("link", netsim::emulator::Endpoint::default(), behind, model(), model());
    let emulator = Emulator::start(vec![link], 1).expect("an emulator");
    let ports = emulator.links()[0].ports().a_to_b;
    let (control, data) = (ports.control.expect("a port"), ports.data.expect("a port"));
    (scene.with_reach("client", "relay", Reach { control, data }), emulator)
}

#[tokio::test]
async fn a_link_that_dies_breaks_the_connection_at_both_ends_and_is_used_again_when_it_is_back() {
    let (scene, emulator) = emulated(client_and_relay());
    let (mut relay, mut client) = (start(&scene, "relay", 1), start(&scene, "client", 2));
    let (to_relay, to_client) = (peer(&scene, "relay", 1), peer(&scene, "client", 2));
    assert_eq!(next(&mut client).await, ControlEvent::Up(to_relay));
    assert_eq!(next(&mut relay).await, ControlEvent::Up(to_client));
    emulator.links()[0].kill();
    // The limit counts from the last keep-alive that was answered.
    let limit = KEEP_ALIVE + Duration::from_millis(u64::from(IDLE_LIMIT_MS)) + Duration::from_secs(1);
    let down = timeout(limit, async { (client.next_event().await, relay.next_event().await) }).await;
    assert_eq!(down.expect("in time"), (ControlEvent::Down(to_relay), ControlEvent::Down(to_client)));
    emulator.links()[0].restore();
    assert_eq!(next(&mut client).await, ControlEvent::Up(to_relay));
    assert_eq!(next(&mut relay).await, ControlEvent::Up(to_client));
}

#[tokio::test]
async fn a_neighbour_that_takes_no_messages_is_cut_off() {
    let scene = client_and_relay();
    let mut relay = start(&scene, "relay", 1);
    let raw = RawClient::new(identity("client"));
    let (connection, _sender) = raw.greeted(&scene, "relay", InstanceId(2)).await;
    let client = peer(&scene, "client", 2);
    assert_eq!(next(&mut relay).await, ControlEvent::Up(client));
    for _ in 0..=connection::MAX_QUEUED_MESSAGES {
        relay.send(client, vec![0; MAX_MESSAGE]);
    }
    assert_eq!(next(&mut relay).await, ControlEvent::Down(client));
    let reason = timeout(PATIENCE, connection.closed()).await.expect("a close");
    assert!(is_farewell(&reason, Farewell::Overrun), "{reason}");
}

fn is_farewell(reason: &ConnectionError, farewell: Farewell) -> bool {
    match reason {
        ConnectionError::ApplicationClosed(close) => close.error_code == VarInt::from_u32(farewell as u32),
        _ => false,
    }
}

/// A QUIC client that speaks the protocol by hand.
struct RawClient {
    endpoint: quinn::Endpoint,
    identity: Identity,
}

impl RawClient {
    fn new(identity: Identity) -> RawClient {
        let address = loopback().local_addr().expect("bound");
        RawClient { endpoint: quinn::Endpoint::client((address.ip(), 0).into()).expect("a client"), identity }
    }

    async fn connect(&self, scene: &Scene, to: &str) -> quinn::Connection {
        let member = scene.member(to);
        let pinned = PinnedKeys::of(&scene.overlay, [member]);
        let tls = tls::client_config(&self.identity, pinned).expect("a configuration");
        let address = scene.overlay.member(member).control.expect("it listens");
        let connecting =
            self.endpoint.connect_with(quinn::ClientConfig::new(Arc::new(tls)), address, tls::SERVER_NAME);
        connecting.expect("an attempt").await.expect("in TLS 1.3 the client is done first")
    }

    async fn greeted(
        &self,
        scene: &Scene,
        to: &str,
        instance: InstanceId,
    ) -> (quinn::Connection, quinn::SendStream) {
        let connection = self.connect(scene, to).await;
        let (mut sender, mut receiver) = connection.open_bi().await.expect("a stream");
        write_message(&mut sender, &Hello { instance, link: String::new() }.emit()).await.expect("a Hello");
        read_message(&mut receiver).await.expect("a Hello").expect("not the end");
        (connection, sender)
    }
}

fn is_alert(reason: &ConnectionError, alert: AlertDescription) -> bool {
    let code = TransportErrorCode::crypto(u8::from(alert));
    match reason {
        ConnectionError::ConnectionClosed(close) => close.error_code == code,
        ConnectionError::TransportError(error) => error.code == code,
        _ => false,
    }
}

/// Shows that `plane` has seen nobody before the member of that name.
async fn expect_first(plane: &mut ControlPlane, scene: &Scene, name: &str) {
    let _process = start(scene, name, 77);
    assert_eq!(next(plane).await, ControlEvent::Up(peer(scene, name, 77)));
}

#[tokio::test]
async fn a_stranger_is_told_that_access_is_denied_and_nothing_else() {
    let scene = client_and_relay();
    let mut relay = start(&scene, "relay", 1);
    let connection = RawClient::new(identity("stranger")).connect(&scene, "relay").await;
    let reason = timeout(PATIENCE, connection.closed()).await.expect("a close");
    assert!(is_alert(&reason, AlertDescription::AccessDenied), "{reason}");
    expect_first(&mut relay, &scene, "client").await;
}

#[tokio::test]
async fn a_member_without_a_link_to_this_one_is_a_stranger_too() {
    let scene = Scene::new(&["relay"], &["client", "other"], &[("client", "relay")]);
    let mut relay = start(&scene, "relay", 1);
    let connection = RawClient::new(identity("other")).connect(&scene, "relay").await;
    let reason = timeout(PATIENCE, connection.closed()).await.expect("a close");
    assert!(is_alert(&reason, AlertDescription::AccessDenied), "{reason}");
    expect_first(&mut relay, &scene, "client").await;
}

/// Dials the relay from another network of this machine and lets the handshake hang: after the Retry one more datagram
/// of it arrives. Returns when the relay has answered that.
#[cfg(target_os = "linux")]
async fn hang(scene: &Scene) -> (quinn::Endpoint, quinn::Connecting) {
    let relay = scene.overlay.member(scene.member("relay")).control.expect("it listens");
    let way = tokio::net::UdpSocket::bind("127.0.1.1:0").await.expect("all of 127.0.0.0/8 is this machine");
    let client = RawClient::new(identity("stranger"));
    let pinned = PinnedKeys::of(&scene.overlay, [scene.member("relay")]);
    let tls = tls::client_config(&client.identity, pinned).expect("a configuration");
    let config = quinn::ClientConfig::new(Arc::new(tls));
    let address = way.local_addr().expect("bound");
    let connecting = client.endpoint.connect_with(config, address, tls::SERVER_NAME).expect("an attempt");
    let back = client.endpoint.local_addr().expect("bound");
    let (mut buffer, mut was_sent_back, mut is_begun) = ([0; 2_048], false, false);
    loop {
        let (length, from) =
            timeout(PATIENCE, way.recv_from(&mut buffer)).await.expect("in time").expect("open");
        let to = match from == relay {
            true if is_begun => return (client.endpoint, connecting),
            true => back,
            false if is_begun => continue,
            false => relay,
        };
        was_sent_back |= to == back;
        is_begun = was_sent_back && to == relay;
        way.send_to(&buffer[..length], to).await.expect("loopback takes it");
    }
}

/// 64 handshakes that hang once took all places, and members waited for seconds or did not get in.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn members_connect_while_somebody_lets_more_handshakes_hang_than_there_are_places() {
    let scene = Arc::new(client_and_relay());
    let mut relay = start(&scene, "relay", 1);
    let mut hanging = Vec::new();
    for _ in 0..super::doorstep::MAX_HANDSHAKES {
        hanging.push(hang(&scene).await);
    }
    let of_attacker = Arc::clone(&scene);
    let attack = tokio::spawn(async move {
        loop {
            hanging.push(hang(&of_attacker).await);
            hanging.remove(0);
        }
    });
    for instance in 1..=8 {
        let _client = start(&scene, "client", instance);
        let up = ControlEvent::Up(peer(&scene, "client", instance));
        while next(&mut relay).await != up {}
        assert!(!attack.is_finished(), "the attack goes on");
    }
    attack.abort();
}

#[tokio::test]
async fn whoever_is_refused_or_not_answered_knows_why() {
    let scene = client_and_relay();
    let mut client = start_as(&scene, "client", 2, loopback(), identity("client"));
    let why = unreached(&mut client).await;
    assert!(why.ends_with(": no answer"), "{why}");
    let _relay = start(&scene, "relay", 1);
    let mut stranger = start_as(&scene, "client", 2, loopback(), identity("stranger"));
    let why = unreached(&mut stranger).await;
    assert!(why.contains("it does not know this member's key: its overlay file is another one"), "{why}");
}

#[tokio::test]
async fn a_dialler_refuses_whoever_has_another_key_than_the_neighbour() {
    let scene = client_and_relay();
    let pinned = PinnedKeys::of(&scene.overlay, [scene.member("client")]);
    let config = server_config(&identity("impostor"), pinned).expect("a configuration");
    let (quic, runtime) = (EndpointConfig::default(), Arc::new(TokioRuntime));
    let impostor = quinn::Endpoint::new(quic, Some(config), scene.control_socket("relay"), runtime);
    let impostor = impostor.expect("an endpoint");
    let mut client = start(&scene, "client", 2);
    for _attempt in 0..2 {
        let incoming = timeout(PATIENCE, impostor.accept()).await.expect("an attempt").expect("open");
        let reason = incoming.await.expect_err("the client refuses");
        assert!(is_alert(&reason, AlertDescription::AccessDenied), "{reason}");
    }
    let address = scene.overlay.member(scene.member("relay")).control.expect("it listens");
    let why = format!("relay at {address}: its key is not the one in this member's overlay file");
    assert_eq!(unreached(&mut client).await, why);
    assert_eq!(client.try_next_event(), None, "a reason is told once");
}

#[tokio::test]
async fn a_dialler_that_presents_a_members_public_key_without_owning_it_is_refused() {
    let scene = client_and_relay();
    let mut relay = start(&scene, "relay", 1);
    let raw = RawClient::new(identity("impostor"));
    let pinned = PinnedKeys::of(&scene.overlay, [scene.member("relay")]);
    let tls = tls::impostor::client(identity("client").public(), &raw.identity, pinned).expect("a config");
    let config = quinn::ClientConfig::new(Arc::new(tls));
    let address = scene.overlay.member(scene.member("relay")).control.expect("it listens");
    let connecting = raw.endpoint.connect_with(config, address, tls::SERVER_NAME).expect("an attempt");
    let connection = connecting.await.expect("in TLS 1.3 the client is done first");
    let reason = timeout(PATIENCE, connection.closed()).await.expect("a close");
    assert!(is_alert(&reason, AlertDescription::DecryptError), "{reason}");
    expect_first(&mut relay, &scene, "client").await;
}

/// Somebody accepts in the relay's place, with what `tls` brings, and is dialled.
async fn dialled(scene: &Scene, tls: quinn::crypto::rustls::QuicServerConfig) -> quinn::Incoming {
    let config = quinn::ServerConfig::with_crypto(Arc::new(tls));
    let (quic, runtime) = (EndpointConfig::default(), Arc::new(TokioRuntime));
    let acceptor = quinn::Endpoint::new(quic, Some(config), scene.control_socket("relay"), runtime);
    let acceptor = acceptor.expect("an endpoint");
    timeout(PATIENCE, acceptor.accept()).await.expect("an attempt").expect("open")
}

#[tokio::test]
async fn an_acceptor_that_presents_the_neighbours_public_key_without_owning_it_is_refused() {
    let scene = client_and_relay();
    let pinned = PinnedKeys::of(&scene.overlay, [scene.member("client")]);
    let claims = identity("relay").public();
    let tls = tls::impostor::server(claims, &identity("impostor"), pinned).expect("a config");
    let mut client = start(&scene, "client", 2);
    let incoming = dialled(&scene, tls).await;
    let reason = incoming.await.expect_err("the client refuses");
    assert!(is_alert(&reason, AlertDescription::DecryptError), "{reason}");
    let why = unreached(&mut client).await;
    assert!(why.contains(": no connection: "), "{why}");
    assert_eq!(client.try_next_event(), None);
}

/// The words with which a connection was refused because of its version.
fn words_about_versions(reason: &ConnectionError) -> String {
    assert!(is_farewell(reason, Farewell::Outdated), "{reason}");
    let ConnectionError::ApplicationClosed(close) = reason else { panic!("{reason}") };
    String::from_utf8(close.reason.to_vec()).expect("words")
}

fn both_versions() -> String {
    let (ours, older) = (PROTOCOL_VERSION, PROTOCOL_VERSION - 1);
    format!("I speak version {ours} of the protocol and you version {older}: update the older one")
}

/// Once TLS only said that there was no common protocol.
#[tokio::test]
async fn a_dialler_of_an_older_version_is_told_both_versions() {
    let scene = client_and_relay();
    let mut relay = start(&scene, "relay", 1);
    let raw = RawClient::new(identity("client"));
    let pinned = PinnedKeys::of(&scene.overlay, [scene.member("relay")]);
    let tls = tls::outdated::client(&raw.identity, pinned).expect("a config");
    let config = quinn::ClientConfig::new(Arc::new(tls));
    let address = scene.overlay.member(scene.member("relay")).control.expect("it listens");
    let connecting = raw.endpoint.connect_with(config, address, tls::SERVER_NAME).expect("an attempt");
    let connection = timeout(PATIENCE, connecting).await.expect("an answer").expect("a common protocol");
    let reason = timeout(PATIENCE, connection.closed()).await.expect("a close");
    assert_eq!(words_about_versions(&reason), both_versions());
    assert!(HandshakeError::from(reason).is_for_the_version());
    expect_first(&mut relay, &scene, "client").await;
}

#[tokio::test]
async fn an_acceptor_of_an_older_version_is_told_both_versions() {
    let scene = client_and_relay();
    let pinned = PinnedKeys::of(&scene.overlay, [scene.member("client")]);
    let tls = tls::outdated::server(&identity("relay"), pinned).expect("a config");
    let mut client = start(&scene, "client", 2);
    let reason = match dialled(&scene, tls).await.await {
        Ok(connection) => timeout(PATIENCE, connection.closed()).await.expect("a close"),
        Err(reason) => reason,
    };
    assert_eq!(words_about_versions(&reason), both_versions());
    let why = unreached(&mut client).await;
    assert!(why.contains("update the older one"), "{why}");
    assert_eq!(client.try_next_event(), None);
}

#[tokio::test]
async fn a_reload_cuts_the_removed_neighbour_off_lets_the_new_one_in_and_leaves_the_third_alone() {
    let links = [("removed", "relay"), ("kept", "relay")];
    let before = Scene::new(&["relay"], &["removed", "kept", "new"], &links);
    let (overlay, text) = before.next(&[("kept", "relay"), ("new", "relay")]);
    let mut relay = start(&before, "relay", 1);
    let mut removed = start(&before, "removed", 2);
    assert_eq!(next(&mut relay).await, ControlEvent::Up(peer(&before, "removed", 2)));
    let mut kept = start(&before, "kept", 3);
    assert_eq!(next(&mut relay).await, ControlEvent::Up(peer(&before, "kept", 3)));
    assert_eq!(next(&mut removed).await, ControlEvent::Up(relay_over_link_of(&before, "removed")));
    assert_eq!(next(&mut kept).await, ControlEvent::Up(relay_over_link_of(&before, "kept")));

    let (gone, stays) = (peer(&before, "removed", 2), relay_over_link_of(&before, "removed"));
    relay.reload(Arc::clone(&overlay));
    relay.dial_neighbours().expect("it can be dialled");
    assert_eq!(next(&mut relay).await, ControlEvent::Down(gone));
    assert_eq!(next(&mut removed).await, ControlEvent::Down(stays));
    let after = Scene { overlay, text, ..before };
    let _new = start(&after, "new", 4);
    assert_eq!(next(&mut relay).await, ControlEvent::Up(peer(&after, "new", 4)));
    relay.send(peer(&after, "kept", 3), vec![7]);
    assert_eq!(next(&mut kept).await, ControlEvent::Message(relay_over_link_of(&after, "kept"), vec![7]));
    assert_eq!(removed.try_next_event(), None, "it is not let in again");
}

#[tokio::test]
async fn parallel_links_have_a_connection_each_from_the_address_of_their_uplink() {
    let bare = client_and_relay();
    let links =
        ["dsl", "lte"].map(|name| format!("[[link]]\na = \"client\"\nb = \"relay\"\nname = \"{name}\"\n"));
    let members = bare.text.split("[[link]]").next().expect("the members");
    let text = format!("{members}{}a_from = \"127.0.0.2\"\n{}a_from = \"127.0.0.3\"\n", links[0], links[1]);
    let scene = Scene { overlay: Arc::new(Overlay::parse(&text).expect("right")), text, ..bare };
    let mut relay = start(&scene, "relay", 1);
    let config = ControlConfig {
        overlay: Arc::clone(&scene.overlay),
        own: process(&scene, "client", 2),
        identity: identity("client"),
        seed: [7; 32],
    };
    let mut client = ControlPlane::new(config).expect("a control plane");
    for (_, local) in locals(&scene.overlay, scene.member("client")) {
        let sockets =
            Sockets::for_local(&scene.overlay, scene.member("client"), &local).expect("on loopback");
        client.open(local, sockets.control).expect("an endpoint");
    }
    client.dial_neighbours().expect("diallers");
    let over = |name: &str, link: u16| Adjacency {
        link: LinkId(link.into()),
        ..peer(&scene, name, if name == "relay" { 1 } else { 2 })
    };
    let (mut here, mut there) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..2 {
        here.insert(format!("{:?}", next(&mut client).await));
        there.insert(format!("{:?}", next(&mut relay).await));
    }
    let ups = |name| [0, 1].map(|link| format!("{:?}", ControlEvent::Up(over(name, link)))).into();
    assert_eq!((here, there), (ups("relay"), ups("client")));
    for link in [1, 0] {
        client.send(over("relay", link), vec![link as u8]);
        assert_eq!(next(&mut relay).await, ControlEvent::Message(over("client", link), vec![link as u8]));
    }
    let hosts: BTreeSet<_> = client
        .local_addresses()
        .expect("bound")
        .into_iter()
        .map(|(_, address)| address.ip().to_string())
        .collect();
    assert_eq!(hosts, ["127.0.0.2", "127.0.0.3"].map(str::to_owned).into());
}

#[tokio::test]
async fn a_connection_over_a_link_that_the_acceptor_does_not_list_is_refused_with_its_cause() {
    let scene = client_and_relay();
    let mut relay = start(&scene, "relay", 1);
    let raw = RawClient::new(identity("client"));
    let connection = raw.connect(&scene, "relay").await;
    let (mut sender, _receiver) = connection.open_bi().await.expect("a stream");
    let hello = Hello { instance: InstanceId(2), link: "fibre".to_owned() };
    write_message(&mut sender, &hello.emit()).await.expect("a Hello");
    let reason = tokio::select! {
        reason = connection.closed() => reason,
        event = relay.next_event() => panic!("{event:?}"),
    };
    assert!(is_farewell(&reason, Farewell::UnknownLink), "{reason}");
}

#[tokio::test]
async fn a_message_longer_than_allowed_ends_the_connection() {
    let scene = client_and_relay();
    let mut relay = start(&scene, "relay", 1);
    let raw = RawClient::new(identity("client"));
    let (connection, mut sender) = raw.greeted(&scene, "relay", InstanceId(2)).await;
    assert_eq!(next(&mut relay).await, ControlEvent::Up(peer(&scene, "client", 2)));
    let too_long = u32::try_from(MAX_MESSAGE + 1).expect("small");
    sender.write_all(&too_long.to_be_bytes()).await.expect("sent");
    let reason = timeout(PATIENCE, connection.closed()).await.expect("a close");
    assert!(is_farewell(&reason, Farewell::BadMessage), "{reason}");
    assert_eq!(next(&mut relay).await, ControlEvent::Down(peer(&scene, "client", 2)));
}

/// The first datagram of a QUIC client that would have dialled `to`.
async fn captured_initial(scene: &Scene, to: &str) -> Vec<u8> {
    let trap = tokio::net::UdpSocket::from_std(nonblocking(loopback())).expect("a socket");
    let raw = RawClient::new(identity("stranger"));
    let pinned = PinnedKeys::of(&scene.overlay, [scene.member(to)]);
    let tls = tls::client_config(&raw.identity, pinned).expect("a configuration");
    let config = quinn::ClientConfig::new(Arc::new(tls));
    let address = trap.local_addr().expect("bound");
    let _connecting = raw.endpoint.connect_with(config, address, tls::SERVER_NAME).expect("an attempt");
    let mut datagram = vec![0; 2048];
    let length = timeout(PATIENCE, trap.recv(&mut datagram)).await.expect("in time").expect("an Initial");
    datagram.truncate(length);
    datagram
}

fn nonblocking(socket: UdpSocket) -> UdpSocket {
    socket.set_nonblocking(true).expect("supported");
    socket
}

async fn ask(socket: &tokio::net::UdpSocket, to: SocketAddr, question: &[u8]) -> Vec<u8> {
    socket.send_to(question, to).await.expect("sent");
    let mut answer = vec![0; 2048];
    let length = timeout(PATIENCE, socket.recv(&mut answer)).await.expect("in time").expect("an answer");
    answer.truncate(length);
    answer
}

#[tokio::test]
async fn an_address_that_is_not_validated_gets_a_retry_and_nothing_else() {
    let scene = client_and_relay();
    let mut relay = start(&scene, "relay", 1);
    let initial = captured_initial(&scene, "relay").await;
    let stranger = tokio::net::UdpSocket::from_std(nonblocking(loopback())).expect("a socket");
    let address = scene.overlay.member(scene.member("relay")).control.expect("it listens");
    let answer = ask(&stranger, address, &initial).await;
    // RFC 9000 §17.2.5: a long header of version 1 with packet type 3.
    assert_eq!((answer[0] & 0xf0, &answer[1..5]), (0xf0, &[0, 0, 0, 1][..]));
    assert!(answer.len() < initial.len());
    expect_first(&mut relay, &scene, "client").await;
    assert!(stranger.try_recv(&mut [0; 2048]).is_err(), "a second answer");
}

#[tokio::test]
async fn a_member_that_does_not_listen_is_silent() {
    let scene = client_and_relay();
    let socket = loopback();
    let address = socket.local_addr().expect("bound");
    let mut client = start_as(&scene, "client", 2, socket, identity("client"));
    let initial = captured_initial(&scene, "relay").await;
    let stranger = tokio::net::UdpSocket::from_std(nonblocking(loopback())).expect("a socket");
    stranger.send_to(&initial, address).await.expect("sent");
    // The client's socket delivers in order, so its own handshake comes after the stranger's Initial.
    let _relay = start(&scene, "relay", 1);
    assert_eq!(next(&mut client).await, ControlEvent::Up(peer(&scene, "relay", 1)));
    assert!(stranger.try_recv(&mut [0; 2048]).is_err(), "an answer");
}

#[tokio::test]
async fn dropped_control_planes_leave_no_tasks_behind() {
    let scene = client_and_relay();
    let (relay, mut client) = (start(&scene, "relay", 1), start(&scene, "client", 2));
    assert_eq!(next(&mut client).await, ControlEvent::Up(peer(&scene, "relay", 1)));
    drop((relay, client));
    let metrics = tokio::runtime::Handle::current().metrics();
    let ended = async {
        while metrics.num_alive_tasks() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, ended).await.expect("all tasks end");
}
