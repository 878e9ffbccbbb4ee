//! Endpoints on loopback, as a program would use them.
#![cfg(feature = "io")]

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;

use fec_transport::io::{BindError, Endpoint, EndpointConfig, EndpointError, Plane};
use fec_transport::keys::{Identity, encode_key};
use fec_transport::node::{Event, Node};
use fec_transport::overlay::Overlay;
use fec_transport::{Application, Time};

/// Does nothing.
#[derive(Debug)]
struct Idle;

impl Application for Idle {
    type Command = ();
    type Outcome = ();

    fn handle_event(&mut self, _now: Time, _node: &mut Node, _event: Event) {}
    fn handle_command(&mut self, _now: Time, _node: &mut Node, (): ()) {}
    fn handle_timeout(&mut self, _now: Time, _node: &mut Node) {}
    fn next_timeout(&self) -> Option<Time> {
        None
    }
    fn poll_outcome(&mut self) -> Option<()> {
        None
    }
}

fn identity(name: &str) -> Identity {
    Identity::from_seed(*blake3::hash(name.as_bytes()).as_bytes())
}

fn loopback() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port on loopback")
}

fn member(name: &str, rest: &str) -> String {
    let keys = identity(name).public();
    let (ed25519, x25519) = (encode_key(&keys.ed25519), encode_key(&keys.x25519));
    format!("[[member]]\nname = \"{name}\"\ned25519 = \"{ed25519}\"\nx25519 = \"{x25519}\"\n{rest}\n")
}

async fn start_error(overlay: &str, identity: Identity) -> EndpointError {
    let overlay = Arc::new(Overlay::parse(overlay).expect("a right overlay"));
    let started = Endpoint::start(EndpointConfig::new(overlay, identity), Idle, |()| {}).await;
    started.expect_err("it should not start")
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
