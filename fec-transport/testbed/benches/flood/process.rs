//! The processes of the sender, the receiver and the one who connects.

use std::io::BufRead as _;
use std::net::UdpSocket;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use fec_transport::io::{Endpoint, EndpointConfig, Sockets};
use serde_json::json;

use crate::application::{Command, Flow};
use crate::scene::{PACKET_BYTES, Ports, identity};

/// Packets that are captured.
const CAPTURED: usize = 2_000;
/// From which somebody connects, one after another: to the emulator each is a flow, of which it forgets none for two
/// minutes and takes 64.
const ADDRESSES: usize = 32;
/// How long somebody may wait for a session.
const PATIENCE: Duration = Duration::from_secs(30);

/// Is that part until standard input ends.
pub(crate) fn run(part: &str, ports: &Ports, limit: u64) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut config = EndpointConfig::new(ports.overlay()?, identity(part));
    config.config.pace.limit = Some(limit);
    match part {
        "joiner" => join(&runtime, &config),
        _ => take_part(&runtime, config, part == "sender"),
    }
}

fn take_part(
    runtime: &tokio::runtime::Runtime,
    mut config: EndpointConfig,
    sends: bool,
) -> anyhow::Result<()> {
    let (sockets, tap) = sockets(&config)?;
    config.sockets = Some(sockets);
    let endpoint = runtime.block_on(Endpoint::start(config, Flow::default(), |()| {}))?;
    if sends {
        runtime.block_on(endpoint.handle().command(Command::Send))?;
    }
    let started = Instant::now();
    for question in std::io::stdin().lock().lines() {
        match question?.as_str() {
            "capture" => println!("{}", serde_json::to_string(&capture(&tap)?)?),
            _ => {
                let look = endpoint.handle().inspect(|node, flow| {
                    let counters = node.datagram_counters();
                    let sessions = node.sessions().filter_map(|session| node.session_status(session));
                    let not_opened: u64 = sessions.map(|status| status.dropped).sum();
                    json!({
                        "bytes": flow.received, "malformed": counters.malformed, "not_opened": not_opened,
                        "unknown_label": counters.unknown_label, "bad_tag": counters.bad_tag,
                    })
                });
                let mut look = runtime.block_on(look)?;
                look["seconds"] = json!(started.elapsed().as_secs_f64());
                println!("{look}");
            }
        }
    }
    Ok(())
}

/// Connects for each question, as a process that has just been started, and says how many seconds it took. It takes
/// turns with its [`ADDRESSES`].
fn join(runtime: &tokio::runtime::Runtime, config: &EndpointConfig) -> anyhow::Result<()> {
    let addresses = (0..ADDRESSES).map(|_| sockets(config)).collect::<anyhow::Result<Vec<_>>>()?;
    for (question, (sockets, _)) in std::io::stdin().lock().lines().zip(addresses.iter().cycle()) {
        question?;
        let mut own = EndpointConfig::new(config.overlay.clone(), config.identity.clone());
        own.config = config.config.clone();
        let (control, data) = (sockets.control.try_clone()?, sockets.data.try_clone()?);
        own.sockets = Some(Sockets { control, data });
        let (opened, opens) = mpsc::channel();
        let started = Instant::now();
        let endpoint = runtime.block_on(Endpoint::start(own, Flow::default(), move |()| {
            // Nobody waits any more after `PATIENCE`.
            let _ = opened.send(());
        }))?;
        runtime.block_on(endpoint.handle().command(Command::Connect))?;
        opens.recv_timeout(PATIENCE)?;
        println!("{}", started.elapsed().as_secs_f64());
        runtime.block_on(endpoint.shutdown())?;
    }
    Ok(())
}

/// The member's sockets, and a second handle on the data socket.
fn sockets(config: &EndpointConfig) -> anyhow::Result<(Sockets, UdpSocket)> {
    let keys = config.identity.public();
    let own = config.overlay.find_by_ed25519(&keys.ed25519).expect("it is listed");
    let sockets = Sockets::for_member(&config.overlay, own)?;
    let tap = sockets.data.try_clone()?;
    Ok((sockets, tap))
}

/// Peeks at what waits in the socket. What the kernel has joined is cut into its packets again.
fn capture(tap: &UdpSocket) -> anyhow::Result<Vec<Vec<u8>>> {
    let (mut packets, mut buffer) = (Vec::new(), vec![0; 65_536]);
    let deadline = Instant::now() + Duration::from_secs(5);
    while packets.len() < CAPTURED && Instant::now() < deadline {
        // The socket does not block; mostly nothing waits in it.
        let Ok(length) = tap.peek(&mut buffer) else { continue };
        let full = buffer[..length].chunks(PACKET_BYTES).filter(|packet| packet.len() == PACKET_BYTES);
        packets.extend(full.map(<[u8]>::to_vec));
    }
    anyhow::ensure!(!packets.is_empty(), "nothing of the transfer was seen");
    Ok(packets)
}
