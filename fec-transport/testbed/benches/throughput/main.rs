//! How fast a session is on loopback, beside a QUIC connection by quinn in the same run.
//!
//! ```text
//! cargo bench -p fec-testbed --bench throughput -- --seconds 5
//! ```

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use serde_json::{Map, Value, json};

use fec_testbed::processes::child::{Child, measure, run_if_child};
use fec_testbed::processes::job::{CompetitorJob, Congestion, End, Job, MemberJob, Payload, Quic};
use fec_testbed::processes::overlay::{OverlayText, free_address};
use fec_testbed::processes::row::{Column, Table, column, object, per_call, progress};
use fec_testbed::processes::snapshot::Snapshot;

/// Goodput of one session over one path between two processes, of three sessions at once, and under loss that the
/// receiver injects, against a QUIC stream and QUIC datagrams of quinn in the same run.
#[derive(Debug, Parser)]
#[command(
    name = "throughput",
    after_help = "Example: throughput --seconds 2 --repeat 5 --only session\n\nCompare rows of one run only."
)]
struct Arguments {
    /// How long each row is measured.
    #[arg(long, default_value_t = 5.0, value_name = "S")]
    seconds: f64,
    /// How long each row runs before.
    #[arg(long, default_value_t = 2.0, value_name = "S")]
    warm_up: f64,
    /// Only rows whose name contains this; the quinn stream is always measured.
    #[arg(long, default_value = "", value_name = "TEXT")]
    only: String,
    /// How often each row is measured: they take turns, and the run with the median goodput counts.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    repeat: u16,
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

const COLUMNS: &[Column] = &[
    column("row", "row", 46, 0),
    column("Gbit/s", "goodput_gbps", 7, 2),
    column("slowest", "slowest_gbps", 7, 2),
    column("fastest", "fastest_gbps", 7, 2),
    column("× quinn", "times_quinn", 7, 2),
    column("sender cores", "sender_cores", 12, 2),
    column("receiver cores", "receiver_cores", 14, 2),
    column("overhead", "overhead", 8, 3),
    column("sent/call", "sent_per_call", 9, 1),
    column("received/call", "received_per_call", 13, 1),
    column("GB", "gigabytes", 5, 1),
    column("peak MiB", "peak_mib", 8, 0),
    column("sender's MiB", "sender_mib", 12, 1),
];

/// What a row measures.
struct Row {
    name: String,
    set_up: SetUp,
}

enum SetUp {
    Competitor(Payload),
    Ours { sessions: usize, loss: f64, code: &'static str },
    Node(Crowd),
}

/// The clients of an I/O node.
#[derive(Debug, Clone, Copy)]
struct Crowd {
    /// They are connected, and nothing else.
    neighbours: usize,
    /// Of these so many have sessions with it.
    sessions: usize,
    /// And to so many of those it sends without end.
    busy: usize,
}

fn main() -> Result<()> {
    if let Some(result) = run_if_child() {
        return result;
    }
    let arguments = Arguments::parse();
    let table = Table::new("one path on loopback", COLUMNS, arguments.json)?;
    // The quinn stream stays, because the others are compared with it.
    let wanted = |(index, row): &(usize, Row)| *index == 0 || row.name.contains(&arguments.only);
    let rows: Vec<Row> = rows().into_iter().enumerate().filter(wanted).map(|(_, row)| row).collect();
    let mut runs: Vec<Vec<Run>> = rows.iter().map(|_| Vec::new()).collect();
    for round in 1..=arguments.repeat {
        for (index, row) in rows.iter().enumerate() {
            progress(&format!("{}, {round} of {}", row.name, arguments.repeat));
            runs[index].push(run(&row.set_up, &arguments).with_context(|| row.name.clone())?);
            runs[index].sort_by(|a, b| a.goodput_bps().total_cmp(&b.goodput_bps()));
            if round == arguments.repeat {
                table.row(cells(&row.name, &runs[index], median(&runs[0]).goodput_bps()))?;
            }
        }
    }
    Ok(())
}

/// What the processes of a row did once.
struct Run {
    sender: Snapshot,
    receivers: Vec<Snapshot>,
}

impl Run {
    fn goodput_bps(&self) -> f64 {
        self.receivers.iter().map(Snapshot::goodput_bps).sum()
    }
}

/// Of runs in the order of their goodput; of an even number the slower one in the middle.
fn median(runs: &[Run]) -> &Run {
    &runs[(runs.len() - 1) / 2]
}

/// The quinn stream comes first: the others are compared with it.
fn rows() -> Vec<Row> {
    let mut rows = vec![
        Row { name: "quinn stream".into(), set_up: SetUp::Competitor(Payload::Quic(Quic::Stream)) },
        Row { name: "quinn datagrams".into(), set_up: SetUp::Competitor(Payload::Quic(Quic::Datagrams)) },
        Row { name: "bare packets, no protocol".into(), set_up: SetUp::Competitor(Payload::Bare) },
    ];
    for sessions in [1, 3] {
        let name = if sessions == 1 { "1 session".into() } else { format!("{sessions} sessions") };
        rows.push(Row { name, set_up: SetUp::Ours { sessions, loss: 0.0, code: "auto" } });
    }
    for code in ["raptor-q", "auto"] {
        for percent in [0, 1, 5, 10] {
            let set_up = SetUp::Ours { sessions: 1, loss: f64::from(percent) / 100.0, code };
            rows.push(Row { name: format!("1 session, {code}, {percent} % loss"), set_up });
        }
    }
    rows.extend(crowds());
    rows
}

/// An I/O node with many clients, of which a tenth have something to fetch: the memory of the rows tells what a client
/// costs that is connected, and what its session adds.
fn crowds() -> Vec<Row> {
    let crowd = |neighbours, sessions, busy| Row {
        name: format!("I/O node: {neighbours} clients, {sessions} sessions, {busy} busy"),
        set_up: SetUp::Node(Crowd { neighbours, sessions, busy }),
    };
    vec![
        crowd(1, 1, 1),
        crowd(10, 10, 10),
        crowd(100, 100, 100),
        crowd(1_000, 0, 0),
        crowd(1_000, 1_000, 0),
        crowd(1_000, 1_000, 100),
    ]
}

/// Measures a row.
fn run(set_up: &SetUp, arguments: &Arguments) -> Result<Run> {
    let mut children = match *set_up {
        SetUp::Competitor(payload) => competitor(payload)?,
        SetUp::Ours { sessions, loss, code } => ours(sessions, loss, code)?,
        SetUp::Node(crowd) => node(crowd)?,
    };
    if let SetUp::Node(crowd) = set_up {
        gather(&mut children, crowd)?;
    }
    let [warm_up, span] = [arguments.warm_up, arguments.seconds].map(Duration::from_secs_f64);
    let mut receivers = measure(&mut children, warm_up, span)?;
    let sender = receivers.pop().context("a sender")?;
    Ok(Run { sender, receivers })
}

fn competitor(payload: Payload) -> Result<Vec<Child>> {
    let address = free_address()?;
    let job = |end| Job::Competitor(CompetitorJob { end, payload, congestion: Congestion::Cubic });
    Ok(vec![Child::start(&job(End::ReceivesAt(address)))?, Child::start(&job(End::SendsTo(address)))?])
}

/// As many receivers as sessions, and one sender.
fn ours(sessions: usize, loss: f64, code: &str) -> Result<Vec<Child>> {
    let mut overlay = OverlayText::default();
    overlay.client("client");
    let servers: Vec<String> = (1..=sessions).map(|number| format!("server{number}")).collect();
    for name in &servers {
        overlay.listener(name)?;
    }
    servers.iter().for_each(|name| overlay.link("client", name, ""));
    let job = |name: &str, sends_to: Vec<String>| {
        Job::Member(MemberJob {
            overlay: overlay.0.clone(),
            name: name.to_owned(),
            config: format!("[coding]\ncodec = \"{code}\""),
            arrival_loss: if sends_to.is_empty() { loss } else { 0.0 },
            sends_to,
            gro: true,
            ..MemberJob::default()
        })
    };
    let mut children =
        servers.iter().map(|name| Child::start(&job(name, Vec::new()))).collect::<Result<Vec<_>>>()?;
    children.push(Child::start(&job("client", servers))?);
    Ok(children)
}

/// An I/O node, and all its clients in another process.
fn node(crowd: Crowd) -> Result<Vec<Child>> {
    let clients: Vec<String> = (1..=crowd.neighbours).map(|number| format!("client{number}")).collect();
    let mut overlay = OverlayText::default();
    overlay.listener("node")?;
    clients.iter().for_each(|name| overlay.client(name));
    clients.iter().for_each(|name| overlay.link("node", name, ""));
    let (busy, others) = clients.split_at(crowd.busy);
    let job = MemberJob { overlay: overlay.0, gro: true, ..MemberJob::default() };
    let crowded = MemberJob { name: "client1".into(), beside: clients[1..].to_vec(), ..job.clone() };
    let serving = MemberJob {
        name: "node".into(),
        sends_to: busy.to_vec(),
        idles_with: others[..crowd.sessions - crowd.busy].to_vec(),
        ..job
    };
    // The clients have two ports each, and must not get those that the node was promised.
    let node = Child::start(&Job::Member(serving))?;
    Ok(vec![Child::start(&Job::Member(crowded))?, node])
}

/// Waits until all sessions are there.
fn gather(children: &mut [Child], crowd: &Crowd) -> Result<()> {
    let node = children.last_mut().context("the I/O node")?;
    for _ in 0..120 {
        if node.snapshot()?.sessions as usize >= crowd.sessions {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    bail!("of {} sessions {} were opened in a minute", crowd.sessions, node.snapshot()?.sessions)
}

/// The median run of a row, and the goodputs of its slowest and its fastest.
fn cells(name: &str, runs: &[Run], quinn_bps: f64) -> Map<String, Value> {
    let run = median(runs);
    let (Run { sender, receivers }, goodput) = (run, run.goodput_bps());
    let gbps = |run: Option<&Run>| run.map(|run| run.goodput_bps() / 1e9);
    let received: u64 = receivers.iter().map(|it| it.datagrams_received).sum();
    let receive_calls: u64 = receivers.iter().map(|it| it.receive_calls).sum();
    let peak = receivers.iter().map(|it| it.peak_mib).fold(sender.peak_mib, f64::max);
    object(json!({
        "row": name,
        "goodput_gbps": goodput / 1e9,
        "slowest_gbps": gbps(runs.first()),
        "fastest_gbps": gbps(runs.last()),
        "times_quinn": goodput / quinn_bps,
        "sender_cores": sender.cores(),
        "overhead": sender.overhead(),
        "paced_gbps": sender.rate_gbps,
        "loss": sender.loss,
        "round_trip_ms": sender.round_trip_ms,
        "decoded_blocks": receivers.iter().map(|it| it.decoded_blocks).sum::<u64>(),
        "receiver_cores": receivers.iter().map(Snapshot::cores).sum::<f64>(),
        "sent_per_call": per_call(sender.datagrams_sent, sender.send_calls),
        "received_per_call": per_call(received, receive_calls),
        "gigabytes": receivers.iter().map(|it| it.bytes).sum::<u64>() as f64 / 1e9,
        "peak_mib": peak,
        "sender_mib": sender.resident_mib,
    }))
}
