//! Whether a transfer keeps its rate, and members connect as fast, while a stranger floods the receiver's sockets.
//!
//! ```text
//! cargo bench -p fec-testbed --bench flood -- --seconds 10 --packets 100000
//! cargo bench -p fec-testbed --bench flood -- --seconds 10 --packets 8640 --round-trip 40
//! ```
//! Four processes on loopback: a sender, limited to 1 Gbit/s on the wire, a receiver, a member that connects to it
//! again and again, and this one, which floods the receiver: with garbage, with packets of the transfer that the
//! receiver has captured (replays), with the headers of these over other bodies, and at the control port with garbage
//! and with halves of ClientHellos from addresses that answer. Each phase is compared with those in quiet. Captured
//! packets are peeked at on the receiver's socket, as somebody on its wire could.
//!
//! On loopback a connect takes some milliseconds, all of them on the processors that make the attack. With
//! `--round-trip` the member that connects stands behind an emulated link, as members do, and its connects are as long
//! as theirs.

#![allow(clippy::disallowed_methods, reason = "a program may look at the clock; the protocol does not")]

mod application;
mod attacker;
mod handshakes;
mod process;
mod scene;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Parser;
use serde_json::{Value, json};

use attacker::{Attack, Attacker};
use scene::Ports;

/// A transfer, and members that connect, under floods of garbage, of replayed packets, of captured labels with other
/// bodies, and of halves of handshakes
#[derive(Debug, Parser)]
#[command(
    name = "flood",
    after_help = "Example: flood --seconds 10 --packets 100000\n\nExit codes: 0 it was measured, 1 it could not be, 2 usage."
)]
struct Options {
    /// One JSON object per phase instead of a table
    #[arg(long)]
    json: bool,
    /// Seconds of each phase
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Packets per second of the flood
    #[arg(long, default_value_t = 100_000)]
    packets: u64,
    /// Bytes per second on the wire that the sender is limited to
    #[arg(long, default_value_t = 125_000_000)]
    limit: u64,
    /// Milliseconds of the round trip between the receiver and the member that connects, over an emulated link; 0 for
    /// loopback as it is
    #[arg(long, default_value_t = 0, value_name = "MS")]
    round_trip: u64,
    /// `cargo bench` hands it to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
    /// To be one of the other processes
    #[arg(long, hide = true, value_names = ["PART", "PORTS"], num_args = 2)]
    part: Option<Vec<String>>,
}

/// So that connecting does not become a load of its own.
const BETWEEN_CONNECTS: Duration = Duration::from_millis(100);
/// Before the first phase: the rate is found, and packets are captured.
const WARM_UP: Duration = Duration::from_secs(5);

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    if let Some([part, ports]) = options.part.as_deref() {
        return process::run(part, &ports.parse()?, options.limit);
    }
    measure(&options)
}

fn measure(options: &Options) -> anyhow::Result<()> {
    // The emulator's turns must come on time, whatever else this process does.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let _inside = runtime.enter();
    let (ports, _emulator) = match options.round_trip {
        0 => (Ports::free()?, None),
        round_trip => {
            let (ports, emulator) = Ports::free()?.behind_link(Duration::from_millis(round_trip))?;
            (ports, Some(emulator))
        }
    };
    let mut receiver = Part::start("receiver", &ports, options)?;
    let _sender = Part::start("sender", &ports, options)?;
    let mut joiner = Part::start("joiner", &ports, options)?;
    std::thread::sleep(WARM_UP);
    let attacker = Attacker::new(ports, receiver.captured()?, options.packets);
    if !options.json {
        println!(
            "{:<24} {:>14} {:>12} {:>12} {:>9} {:>10}  dropped by the receiver",
            "phase", "goodput Mbit/s", "of quiet", "connects ms", "x quiet", "packets/s"
        );
    }
    let phases = Attack::ALL.into_iter().flat_map(|attack| [None, Some(attack)]).chain([None]);
    let rows = phases.map(|phase| {
        let span = Duration::from_secs(options.seconds);
        let before = receiver.look()?;
        let (sent, connects) = std::thread::scope(|scope| {
            let attack = scope.spawn(|| attacker.attack(phase, span));
            let connects = joiner.connect_for(span);
            (attack.join().expect("it does not panic"), connects)
        });
        Ok(Row::new(phase, sent?, connects?, &before, &receiver.look()?))
    });
    let rows = rows.collect::<anyhow::Result<Vec<Row>>>()?;
    let quiet = rows.iter().filter(|row| row.phase.is_none());
    let mbit = mean(&quiet.clone().map(|row| row.mbit).collect::<Vec<_>>());
    let connect = mean(&quiet.map(|row| row.connect).collect::<Vec<_>>());
    rows.iter().for_each(|row| row.print(mbit, connect, options.json));
    Ok(())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// One phase, from the points of view of the receiver and of the one who connects.
struct Row {
    phase: Option<Attack>,
    mbit: f64,
    /// Seconds until a session is open; the mean.
    connect: f64,
    slowest: f64,
    connects: usize,
    attack_rate: f64,
    dropped: Value,
}

impl Row {
    fn new(phase: Option<Attack>, sent: u64, connects: Vec<f64>, before: &Value, after: &Value) -> Row {
        let grown = |name: &str| after[name].as_f64().unwrap_or(0.0) - before[name].as_f64().unwrap_or(0.0);
        let seconds = grown("seconds").max(1e-3);
        let dropped =
            ["malformed", "unknown_label", "bad_tag", "not_opened"].map(|name| (name, grown(name) as u64));
        Row {
            phase,
            mbit: grown("bytes") * 8e-6 / seconds,
            connects: connects.len(),
            slowest: connects.iter().copied().fold(0.0, f64::max),
            connect: mean(&connects),
            attack_rate: sent as f64 / seconds,
            dropped: dropped.into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect(),
        }
    }

    fn print(&self, quiet_mbit: f64, quiet_connect: f64, as_json: bool) {
        let phase = self.phase.map_or("quiet", Attack::name);
        let (share, times) = (self.mbit / quiet_mbit, self.connect / quiet_connect);
        if as_json {
            let row = json!({
                "phase": phase, "goodput_mbit": self.mbit, "share_of_quiet": share,
                "connect_seconds": self.connect, "slowest_connect_seconds": self.slowest, "connects": self.connects,
                "connect_of_quiet": times,
                "attack_packets_per_s": self.attack_rate, "dropped": self.dropped,
            });
            println!("{row}");
        } else {
            println!(
                "{phase:<24} {:>14.1} {:>10.1} % {:>12.1} {times:>9.2} {:>10.0}  {}",
                self.mbit,
                share * 100.0,
                self.connect * 1e3,
                self.attack_rate,
                self.dropped
            );
        }
    }
}

/// One of the other processes; it ends with this one.
struct Part {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Part {
    fn start(part: &str, ports: &Ports, options: &Options) -> anyhow::Result<Part> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--part", part, &ports.to_string(), "--limit", &options.limit.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let answers = BufReader::new(child.stdout.take().context("it is piped")?);
        Ok(Part { child, answers })
    }

    fn ask(&mut self, question: &str) -> anyhow::Result<String> {
        writeln!(self.child.stdin.as_mut().context("it is piped")?, "{question}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        Ok(answer)
    }

    fn look(&mut self) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.ask("look")?)?)
    }

    /// Connects again and again for that long, once at least; gives the seconds that each took.
    fn connect_for(&mut self, span: Duration) -> anyhow::Result<Vec<f64>> {
        let (started, mut taken) = (Instant::now(), Vec::new());
        while taken.is_empty() || started.elapsed() < span {
            let answer = self.ask("connect")?;
            taken.push(answer.trim().parse().context("it could not connect")?);
            std::thread::sleep(BETWEEN_CONNECTS);
        }
        Ok(taken)
    }

    /// Packets of the transfer, as they arrived at the receiver.
    fn captured(&mut self) -> anyhow::Result<Vec<Vec<u8>>> {
        Ok(serde_json::from_str(&self.ask("capture")?)?)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
