//! How fast the simulator and the emulator are on this machine:
//!
//! ```text
//! cargo run --release -p netsim --example speed
//! ```

use std::error::Error;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use netsim::emulator::{EmulatedLink, Emulator, Endpoint};
use netsim::{Event, LinkModel, Probability, Rate, Simulator};

const PAYLOAD_BYTES: usize = 1_408;
const DELAY: Duration = Duration::from_millis(10);
const MEASURED: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    simulate(1_000_000)?;
    for (hops, mbit) in [(1, 200), (1, 500), (1, 1_000), (1, 2_000), (3, 200), (3, 400), (3, 600)] {
        emulate(hops, mbit).await?;
    }
    Ok(())
}

/// The time, for a program that measures.
#[allow(clippy::disallowed_methods, reason = "it measures")]
fn present() -> Instant {
    Instant::now()
}

/// Sends packets over one lossy link at its rate and says how many the simulator moves per second.
fn simulate(packets: u32) -> Result<(), Box<dyn Error>> {
    let mut simulator = Simulator::new(1);
    let [a, b] = ["a", "b"].map(|name| simulator.add_node(name));
    let model = LinkModel::new(Rate::from_mbit(100), DELAY).with_loss(Probability::new(0.02)?);
    let interval = model.rate.time_for(model.wire_bytes(PAYLOAD_BYTES));
    let link = simulator.add_link(a, b, model.clone(), model);
    simulator.wake_at(a, interval);
    let (started, mut left) = (present(), packets);
    while let Some(event) = simulator.step() {
        if let Event::Wake { node } = event
            && left > 0
        {
            left -= 1;
            simulator.send(node, link, vec![0; PAYLOAD_BYTES]);
            simulator.wake_at(node, simulator.now() + interval);
        }
    }
    let per_second = f64::from(packets) / started.elapsed().as_secs_f64();
    println!("simulator: {:.2} million packets/s, {}", per_second / 1e6, simulator.trace_hash());
    Ok(())
}

/// Sends `mbit` Mbit/s through a row of emulated links of twice the rate and says how much comes out.
async fn emulate(hops: usize, mbit: u64) -> Result<(), Box<dyn Error>> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    socket2::SockRef::from(&receiver).set_recv_buffer_size(8 << 20)?;
    receiver.set_read_timeout(Some(Duration::from_millis(200)))?;
    let model = LinkModel::new(Rate::from_mbit(2 * mbit), DELAY);
    let (mut emulators, mut next) = (Vec::new(), receiver.local_addr()?);
    for hop in 0..hops {
        let there = Endpoint { data: Some(next), ..Endpoint::default() };
        let name = format!("hop {hop}");
        let link = EmulatedLink::new(name, Endpoint::default(), there, model.clone(), model.clone());
        let emulator = Emulator::start(vec![link], 1)?;
        next = emulator.links()[0].ports().a_to_b.data.ok_or("no port")?;
        emulators.push(emulator);
    }
    let cpu = cpu_seconds();
    let sender = std::thread::spawn(move || send_paced(next, Rate::from_mbit(mbit)));
    let received = std::thread::spawn(move || count(&receiver)).join().map_err(|_| "the receiver failed")?;
    let sent = sender.join().map_err(|_| "the sender failed")??;
    let received_mbit = (received * PAYLOAD_BYTES * 8) as f64 / 1e6 / MEASURED.as_secs_f64();
    println!(
        "emulator, {hops} hop(s): offered {mbit} Mbit/s, received {received_mbit:.0}, {:.3} % missing, {:.2} cores with \
         sender and receiver, receive buffer {} KiB, longest pause {:?}",
        100.0 * (1.0 - received as f64 / sent as f64),
        (cpu_seconds() - cpu) / MEASURED.as_secs_f64(),
        emulators[0].receive_buffer_bytes() / 1_024,
        emulators.iter().map(|emulator| emulator.links()[0].longest_pause()).max().unwrap_or_default(),
    );
    Ok(())
}

/// Sends for the measured time in bursts of a millisecond; says how many packets.
fn send_paced(port: std::net::SocketAddr, rate: Rate) -> std::io::Result<usize> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let (started, mut sent) = (present(), 0);
    while started.elapsed() < MEASURED {
        let due = rate.bytes_in(started.elapsed()) as usize / PAYLOAD_BYTES;
        for _ in sent..due {
            socket.send_to(&[0; PAYLOAD_BYTES], port)?;
        }
        sent = due;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(sent)
}

/// Counts packets until none comes any more.
fn count(receiver: &UdpSocket) -> usize {
    let mut packet = [0; 2_048];
    let mut received = 0;
    while receiver.recv(&mut packet).is_ok() {
        received += 1;
    }
    received
}

/// The processor time of this process so far, Linux only.
fn cpu_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = stat.split(' ').skip(13).take(2).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / TICKS_PER_SECOND
}
