//! Endpoints on loopback, as a program would use them.
#![cfg(feature = "io")]

#[cfg(target_os = "linux")]
mod interfaces;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod narrow;
mod parrot;
mod scene;
mod uplinks;

use std::sync::Arc;
use std::time::Duration;

use fec_transport::io::{BindError, Endpoint, EndpointConfig, EndpointEnded, EndpointError, Plane};
use fec_transport::keys::{Identity, encode_key};
use fec_transport::overlay::Overlay;
use fec_transport::{CloseReason, Config, Node};
use netsim::{LinkModel, Probability, Rate};
use tokio::time::timeout;

use parrot::{Outcome, Parrot};
use scene::{PATIENCE, Scene, identity, loopback, member};

fn message(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * index / 7) as u8).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_come_back_through_the_relay_unchanged() {
    let scene = Scene::line();
    let (_relay, _server) = (scene.start("relay").await, scene.start("server").await);
    let mut client = scene.start("client").await;
    for length in [5, 0, 3 << 20] {
        client.ask(scene.member("server"), message(length)).await;
        client.expect_answer(&message(length)).await;
    }
    let counts = client.endpoint.handle().data_counts().await.expect("the endpoint lives");
    assert!(counts.sent > (3 << 20) / 1384 && counts.received > (3 << 20) / 1384, "{counts:?}");
    assert_eq!((counts.without_address, counts.refused), (0, 0));
}

/// What a server says after such a pause tells of all that came meanwhile. Reports that left before it had looked at its
/// sockets once made the client take its path for dead and send everything again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hardly_anything_is_repaired_because_the_receiver_was_held_up() {
    repair_hardly_anything_while_held_up(1, 40_000_000).await;
}

/// The same where one look at the socket takes but a part of what came: a report to one client left before the server
/// had taken what another look would have brought of that client's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_because_the_receiver_has_more_to_take_than_one_look_brings() {
    repair_hardly_anything_while_held_up(8, 8_000_000).await;
}

/// So many clients send so many bytes a second each to a server that is held up again and again.
async fn repair_hardly_anything_while_held_up(clients: usize, rate: u64) {
    let scene = Scene::pair();
    let server = scene.start("server").await;
    let mut config = Config::default();
    config.pace.limit = Some(rate);
    let mut asking = Vec::new();
    for _ in 0..clients {
        let mut client = scene.start_with("client", config.clone()).await;
        client.ask(scene.member("server"), message(4 << 20)).await;
        asking.push(client);
    }
    let hold_up = |_: &Node, _: &Parrot| std::thread::sleep(Duration::from_millis(25));
    for _ in 0..20 {
        server.endpoint.handle().inspect(hold_up).await.expect("the server lives");
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    let (mut sources, mut repairs) = (0, 0);
    for client in &mut asking {
        client.expect_answer(&message(4 << 20)).await;
        let sent = |node: &Node, _: &Parrot| {
            let session = node.sessions().next().expect("a session");
            node.session_status(session).expect("it is open").sent
        };
        let sent = client.endpoint.handle().inspect(sent).await.expect("the client lives");
        sources += sent.source_symbols;
        repairs += sent.repair_symbols;
    }
    // A busy machine holds up the server for longer than it was told to, now and then.
    assert!(repairs * 100 <= sources, "{repairs} repairs of {sources} symbols");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_survives_loss_and_a_dying_link() {
    let model = LinkModel::new(Rate::from_mbit(40), Duration::from_millis(10));
    let scene = Scene::diamond(&model.with_loss(Probability::new(0.02).expect("a probability")));
    let mut others = Vec::new();
    for name in ["r1", "r2", "server"] {
        others.push(scene.start(name).await);
    }
    let mut client = scene.start("client").await;
    client.ask(scene.member("server"), message(1 << 20)).await;
    client.expect_answer(&message(1 << 20)).await;
    client.ask(scene.member("server"), message(4 << 20)).await;
    scene.busiest_link(1 << 20).await.kill();
    client.expect_answer(&message(4 << 20)).await;
}

#[tokio::test]
async fn a_strangers_datagrams_are_counted_and_never_answered() {
    let scene = Scene::line();
    let (relay, _server) = (scene.start("relay").await, scene.start("server").await);
    let mut client = scene.start("client").await;
    let stranger = loopback();
    stranger.set_nonblocking(true).expect("supported");
    for length in [0, 1, 24, 64, 1400] {
        stranger.send_to(&message(length), relay.endpoint.addresses().data).expect("sent");
    }
    client.ask(scene.member("server"), message(1000)).await;
    client.expect_answer(&message(1000)).await;
    assert!(stranger.recv(&mut [0; 2048]).is_err(), "an answer");
    let received = relay.endpoint.handle().data_counts().await.expect("the endpoint lives").received;
    assert!(received >= 4, "{received}");
}

#[tokio::test]
async fn a_shutdown_is_told_to_the_peers_and_gives_the_application_back() {
    let scene = Scene::line();
    let (_relay, mut server) = (scene.start("relay").await, scene.start("server").await);
    let mut client = scene.start("client").await;
    client.ask(scene.member("server"), message(10)).await;
    client.expect_answer(&message(10)).await;
    let handle = client.endpoint.handle().clone();
    let parrot = timeout(PATIENCE, client.endpoint.shutdown()).await.expect("in time").expect("no panic");
    assert!(parrot.is_idle());
    assert_eq!(server.next().await, Outcome::Closed(CloseReason::ByPeer("shutting down".to_owned())));
    assert_eq!(handle.inspect(|_, _| ()).await, Err(EndpointEnded));
}

#[tokio::test]
async fn a_restarted_relay_is_used_again() {
    let scene = Scene::line();
    let (relay, _server) = (scene.start("relay").await, scene.start("server").await);
    let mut client = scene.start("client").await;
    client.ask(scene.member("server"), message(100)).await;
    client.expect_answer(&message(100)).await;
    relay.endpoint.shutdown().await.expect("no panic");
    let _relay = scene.start("relay").await;
    client.ask(scene.member("server"), message(200)).await;
    client.expect_answer(&message(200)).await;
}

/// What could be wrong was in the log only, which commands do not show.
#[tokio::test]
async fn a_session_without_a_path_tells_which_neighbours_could_not_be_reached_and_why() {
    let scene = Scene::line();
    let time = Duration::from_secs(2);
    let mut config = Config::default();
    config.liveness.connect = time;
    let mut client = scene.start_with("client", config).await;
    client.ask(scene.member("server"), message(10)).await;
    let unreached = vec![format!("relay at {}: no answer", scene.address_of("relay"))];
    assert_eq!(client.next().await, Outcome::Closed(CloseReason::NoPath { time, unreached }));
}

#[tokio::test]
async fn dropped_endpoints_leave_no_tasks_behind() {
    let scene = Scene::line();
    let (relay, server) = (scene.start("relay").await, scene.start("server").await);
    let mut client = scene.start("client").await;
    client.ask(scene.member("server"), message(10)).await;
    client.next().await;
    drop((relay, server, client));
    let metrics = tokio::runtime::Handle::current().metrics();
    let ended = async {
        while metrics.num_alive_tasks() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, ended).await.expect("all tasks end");
}

/// Where others than its own thread could wait for its sockets, an endpoint has a thread of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_on_its_own_thread_ends_when_it_is_shut_down_and_when_it_is_dropped() {
    let scene = Scene::line();
    let (mut relay, _server) = (scene.start("relay").await, scene.start("server").await);
    let mut client = scene.start("client").await;
    client.ask(scene.member("server"), message(10)).await;
    client.expect_answer(&message(10)).await;
    let metrics = tokio::runtime::Handle::current().metrics();
    assert_eq!(metrics.num_alive_tasks(), 0, "none of its tasks is one of the caller's");
    let parrot = timeout(PATIENCE, client.endpoint.shutdown()).await.expect("in time").expect("no panic");
    assert!(parrot.is_idle());
    drop(relay.endpoint);
    while timeout(PATIENCE, relay.outcomes.recv()).await.expect("it ends in time").is_some() {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_panics_ends_its_endpoint_alone() {
    let scene = Scene::line();
    let (_relay, _server) = (scene.start("relay").await, scene.start("server").await);
    let client = scene.start_for("client", Config::default(), |outcome| panic!("{outcome:?}")).await;
    let ask = parrot::Ask { whom: scene.member("server"), message: message(10) };
    client.handle().command(ask).await.expect("it lives");
    while client.handle().inspect(|_, _| ()).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.shutdown().await.map(drop), Err(EndpointEnded));
}

#[test]
fn an_endpoint_needs_no_runtime() {
    let scene = Scene::line();
    let mut start = std::pin::pin!(scene.start("relay"));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let relay = loop {
        match start.as_mut().poll(&mut context) {
            std::task::Poll::Ready(relay) => break relay,
            std::task::Poll::Pending => std::thread::yield_now(),
        }
    };
    assert_eq!(relay.endpoint.addresses().control, scene.address_of("relay"));
}

async fn start_error(overlay: &str, identity: Identity) -> EndpointError {
    let overlay = Arc::new(Overlay::parse(overlay).expect("a right overlay"));
    let config = EndpointConfig::new(overlay, identity);
    Endpoint::start(config, Parrot::default(), |_| {}).await.expect_err("it should not start")
}

#[tokio::test]
async fn a_key_that_is_none_of_the_overlays_is_named() {
    let error = start_error(&member("relay", ""), identity("stranger")).await;
    let key = encode_key(&identity("stranger").public().ed25519);
    assert_eq!(error.to_string(), format!("no member of the overlay has this process's key (Ed25519 {key})"));
}

#[tokio::test]
async fn an_x25519_key_of_another_seed_is_noticed_before_any_handshake() {
    let [right, wrong] = ["relay", "other"].map(|name| encode_key(&identity(name).public().x25519));
    let error = start_error(&member("relay", "").replace(&right, &wrong), identity("relay")).await;
    assert!(matches!(&error, EndpointError::WrongX25519 { expected, .. } if *expected == right), "{error}");
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let taken = loopback();
    let address = taken.local_addr().expect("bound");
    let addresses = format!("control = \"127.0.0.1:0\"\ndata = \"{address}\"");
    let error = start_error(&member("relay", &addresses), identity("relay")).await;
    let is_named = matches!(
        &error,
        EndpointError::Bind(BindError::InUse { plane: Plane::Data, address: named }) if *named == address
    );
    assert!(is_named, "{error}");
}
