//! What relays cost: goodput through none, one and three, and the processor's time at a fixed rate.
//!
//! ```text
//! cargo bench -p fec-testbed --bench relay -- --seconds 5
//! ```

use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use serde_json::{Map, Value, json};

use fec_testbed::processes::child::{Child, measure, run_if_child};
use fec_testbed::processes::job::{Job, MemberJob};
use fec_testbed::processes::overlay::OverlayText;
use fec_testbed::processes::row::{Column, Table, column, object, per_call, progress};
use fec_testbed::processes::snapshot::Snapshot;

/// Goodput over relays on loopback with nothing in between, then the time that sender, relay and receiver take at a
/// fixed rate with loss that the receiver injects.
#[derive(Debug, Parser)]
#[command(
    name = "relay",
    after_help = "Example: relay --seconds 5 --rate 1000 --loss 0.02\n\nCompare rows of one run only."
)]
struct Arguments {
    /// How long each row is measured.
    #[arg(long, default_value_t = 5.0, value_name = "S")]
    seconds: f64,
    /// How long each row runs before.
    #[arg(long, default_value_t = 2.0, value_name = "S")]
    warm_up: f64,
    /// The rate of the second table, in Mbit/s on the wire.
    #[arg(long, default_value_t = 1_000, value_name = "MBIT")]
    rate: u64,
    /// The loss of the second table, a share.
    #[arg(long, default_value_t = 0.02, value_name = "SHARE")]
    loss: f64,
    /// Only the second table.
    #[arg(long)]
    cpu_only: bool,
    /// One JSON object for each row.
    #[arg(long)]
    json: bool,
    /// `cargo bench` hands it to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// The same as that of `sfio`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SPEED: &[Column] = &[
    column("relays", "relays", 6, 0),
    column("Gbit/s", "goodput_gbps", 7, 2),
    column("of direct", "share_of_direct", 9, 2),
    column("received/call", "received_per_call", 13, 1),
    column("sent/call", "sent_per_call", 9, 1),
    column("sender cores", "sender_cores", 12, 2),
    column("cores per relay", "relay_cores", 15, 2),
    column("receiver cores", "receiver_cores", 14, 2),
    column("GB", "gigabytes", 5, 1),
    column("peak MiB", "peak_mib", 8, 0),
];

const CPU: &[Column] = &[
    column("process", "process", 22, 0),
    column("goodput Mbit/s", "goodput_mbps", 14, 1),
    column("cores", "cores", 6, 3),
    column("received/call", "received_per_call", 13, 1),
    column("sent/call", "sent_per_call", 9, 1),
    column("peak MiB", "peak_mib", 8, 0),
];

fn main() -> Result<()> {
    if let Some(result) = run_if_child() {
        return result;
    }
    let arguments = Arguments::parse();
    if !arguments.cpu_only {
        speed(&arguments)?;
    }
    cpu(&arguments)
}

/// What the processes of a chain did, in the order of the route.
fn run(
    relays: usize,
    config: &str,
    loss: f64,
    relay_gro: bool,
    arguments: &Arguments,
) -> Result<Vec<Snapshot>> {
    let (overlay, relays) = OverlayText::chain(relays)?;
    let start = |name: &str, sends_to: &[String]| {
        Child::start(&Job::Member(MemberJob {
            overlay: overlay.0.clone(),
            name: name.to_owned(),
            sends_to: sends_to.to_vec(),
            config: config.to_owned(),
            arrival_loss: if name == "server" { loss } else { 0.0 },
            gro: relay_gro || !relays.iter().any(|relay| relay == name),
            ..MemberJob::default()
        }))
    };
    let mut children = vec![start("server", &[])?];
    for name in relays.iter().rev() {
        children.push(start(name, &[])?);
    }
    children.push(start("client", &["server".to_owned()])?);
    children.reverse();
    let [warm_up, span] = [arguments.warm_up, arguments.seconds].map(Duration::from_secs_f64);
    measure(&mut children, warm_up, span)
}

fn speed(arguments: &Arguments) -> Result<()> {
    let table = Table::new("goodput through relays", SPEED, arguments.json)?;
    let mut direct = f64::NAN;
    for relays in [0, 1, 3] {
        progress(&format!("{relays} relays"));
        let done = run(relays, "", 0.0, true, arguments).with_context(|| format!("{relays} relays"))?;
        let receiver = done.last().context("a receiver")?;
        if relays == 0 {
            direct = receiver.goodput_bps();
        }
        table.row(speed_cells(&done, direct))?;
    }
    Ok(())
}

fn speed_cells(done: &[Snapshot], direct: f64) -> Map<String, Value> {
    let (sender, receiver) = (&done[0], &done[done.len() - 1]);
    let relays = &done[1..done.len() - 1];
    let sum = |count: fn(&Snapshot) -> u64| relays.iter().map(count).sum::<u64>();
    let cores = relays.iter().map(Snapshot::cores).sum::<f64>() / relays.len() as f64;
    object(json!({
        "relays": relays.len(),
        "goodput_gbps": receiver.goodput_bps() / 1e9,
        "share_of_direct": receiver.goodput_bps() / direct,
        "received_per_call": per_call(sum(|it| it.datagrams_received), sum(|it| it.receive_calls)),
        "sent_per_call": per_call(sum(|it| it.datagrams_sent), sum(|it| it.send_calls)),
        "sender_cores": sender.cores(),
        "relay_cores": if relays.is_empty() { Value::Null } else { json!(cores) },
        "receiver_cores": receiver.cores(),
        "gigabytes": receiver.bytes as f64 / 1e9,
        "peak_mib": done.iter().map(|it| it.peak_mib).fold(0.0, f64::max),
    }))
}

fn cpu(arguments: &Arguments) -> Result<()> {
    let title =
        format!("{} Mbit/s on the wire, {} of it lost at the receiver", arguments.rate, arguments.loss);
    let table = Table::new(&title, CPU, arguments.json)?;
    let config = format!("[pace]\nlimit = {}", arguments.rate * 1_000_000 / 8);
    for gro in [true, false] {
        progress(&title);
        let done = run(1, &config, arguments.loss, gro, arguments)?;
        let names: [&str; 3] =
            if gro { ["sender", "relay", "receiver"] } else { ["sender", "relay without GRO", "receiver"] };
        for (name, did) in names.into_iter().zip(&done) {
            table.row(object(json!({
                "process": name,
                "goodput_mbps": done[2].goodput_bps() / 1e6,
                "cores": did.cores(),
                "received_per_call": per_call(did.datagrams_received, did.receive_calls),
                "sent_per_call": per_call(did.datagrams_sent, did.send_calls),
                "peak_mib": did.peak_mib,
            })))?;
        }
    }
    Ok(())
}
