//! Two members on loopback: one sends a message over a session, the other one sends it back.
//!
//! ```text
//! cargo run -p fec-transport --example echo -- "over one path"
//! ```
//!
//! It shows the four things that every program on this library has: an overlay file that says who is who, an
//! [`Application`] that reacts to what happens, an [`Endpoint`] that runs it on real sockets, and commands from outside
//! with outcomes in return. The application does no I/O and never waits; the same one would run in virtual time.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;

use fec_transport::io::{Endpoint, EndpointConfig, Sockets};
use fec_transport::keys::{Identity, encode_key};
use fec_transport::overlay::{MemberId, Overlay};
use fec_transport::{Application, Event, Node, Read, SessionId, StreamId, Time};

/// Sends messages and waits for them to come back; sends back what others send.
#[derive(Default)]
struct Echo {
    /// Messages for which a session is being opened.
    waiting: BTreeMap<SessionId, Vec<u8>>,
    /// What has come back so far on each stream that we opened.
    replies: BTreeMap<StreamId, Vec<u8>>,
    outcomes: VecDeque<String>,
}

impl Echo {
    /// Takes what has arrived on a stream. A stream of ours collects it, one of somebody else returns it.
    fn read(&mut self, now: Time, node: &mut Node, stream: StreamId) {
        loop {
            match node.read(now, stream, usize::MAX) {
                Ok(Read::Data { bytes, .. }) => match self.replies.get_mut(&stream) {
                    Some(reply) => reply.extend_from_slice(&bytes),
                    // A short message fits; a program that sends more waits for `Event::Writable` when less was taken.
                    None => drop(node.write(now, stream, &bytes)),
                },
                Ok(Read::Finished) => match self.replies.remove(&stream) {
                    Some(reply) => self.outcomes.push_back(String::from_utf8_lossy(&reply).into_owned()),
                    None => drop(node.finish(now, stream)),
                },
                _ => return,
            }
        }
    }
}

impl Application for Echo {
    type Command = (MemberId, Vec<u8>);
    type Outcome = String;

    fn handle_event(&mut self, now: Time, node: &mut Node, event: Event) {
        match event {
            Event::SessionOpened { session, incoming: false, .. } => {
                let Some(message) = self.waiting.remove(&session) else { return };
                let stream = node.open_stream(session).expect("a new session has room for a stream");
                self.replies.insert(stream, Vec::new());
                node.write(now, stream, &message).expect("the stream is open");
                node.finish(now, stream).expect("the stream is open");
            }
            Event::SessionClosed { reason, .. } => self.outcomes.push_back(format!("closed: {reason}")),
            Event::Readable { stream } => self.read(now, node, stream),
            _ => {}
        }
    }

    fn handle_command(&mut self, now: Time, node: &mut Node, (to, message): (MemberId, Vec<u8>)) {
        match node.connect(now, to) {
            Ok(session) => drop(self.waiting.insert(session, message)),
            Err(error) => self.outcomes.push_back(error.to_string()),
        }
    }

    fn handle_timeout(&mut self, _: Time, _: &mut Node) {}

    fn next_timeout(&self) -> Option<Time> {
        None
    }

    fn poll_outcome(&mut self) -> Option<String> {
        self.outcomes.pop_front()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let message = std::env::args().nth(1).unwrap_or_else(|| "over one path".to_owned());
    let (client, server) = (Identity::from_seed([1; 32]), Identity::from_seed([2; 32]));
    let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    let sockets = Sockets { control: bind()?, data: bind()? };
    let addresses = format!(
        "control = \"{}\"\ndata = \"{}\"\n",
        sockets.control.local_addr()?,
        sockets.data.local_addr()?
    );
    let text = member("client", &client, "")
        + &member("server", &server, &addresses)
        + "[[link]]\na = \"client\"\nb = \"server\"\n";
    let overlay = Arc::new(Overlay::parse(&text)?);

    let config =
        EndpointConfig { sockets: Some(sockets), ..EndpointConfig::new(Arc::clone(&overlay), server) };
    let _server = Endpoint::start(config, Echo::default(), drop).await?;
    let (tell, mut outcomes) = tokio::sync::mpsc::unbounded_channel();
    let config = EndpointConfig::new(Arc::clone(&overlay), client);
    let client = Endpoint::start(config, Echo::default(), move |outcome| drop(tell.send(outcome))).await?;

    let to = overlay.find("server").ok_or("the overlay has a server")?;
    client.handle().command((to, message.into_bytes())).await?;
    println!("{}", outcomes.recv().await.ok_or("the endpoint has ended")?);
    client.shutdown().await?;
    Ok(())
}

/// A member's entry of the overlay file.
fn member(name: &str, identity: &Identity, addresses: &str) -> String {
    let keys = identity.public();
    let (ed25519, x25519) = (encode_key(&keys.ed25519), encode_key(&keys.x25519));
    format!("[[member]]\nname = \"{name}\"\ned25519 = \"{ed25519}\"\nx25519 = \"{x25519}\"\n{addresses}")
}
