//! Whether a transfer keeps its rate while somebody floods the receiver's data socket.
//!
//! ```text
//! cargo bench -p fec-testbed --bench flood -- --seconds 10 --packets 100000
//! ```
//! Three processes on loopback: a sender, limited to 1 Gbit/s on the wire, a receiver, and this one, which floods the
//! receiver: with garbage, with packets of the transfer that the receiver has captured (replays), and with the headers
//! of these over other bodies. Each phase is compared with one in quiet. Captured packets are peeked at on the
//! receiver's socket, as somebody on its wire could.

#![allow(clippy::disallowed_methods, reason = "a program may look at the clock; the protocol does not")]

mod application;
mod attacker;
mod process;
mod scene;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use serde_json::{Value, json};

use attacker::{Attack, Attacker};
use scene::Ports;

/// A transfer under a flood of garbage, of replayed packets, and of captured labels with other bodies
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
    /// `cargo bench` hands it to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
    /// To be one of the other processes
    #[arg(long, hide = true, value_names = ["PART", "PORTS"], num_args = 2)]
    part: Option<Vec<String>>,
}

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
    let ports = Ports::free()?;
    let mut receiver = Part::start("receiver", &ports, options)?;
    let _sender = Part::start("sender", &ports, options)?;
    std::thread::sleep(WARM_UP);
    let captured = receiver.captured()?;
    let mut attacker = Attacker::new(ports.data(), captured, options.packets)?;
    let phases =
        [None, Some(Attack::Garbage), None, Some(Attack::Replay), None, Some(Attack::OtherBody), None];
    if !options.json {
        println!(
            "{:<24} {:>14} {:>12} {:>10}  dropped by the receiver",
            "phase", "goodput Mbit/s", "of quiet", "packets/s"
        );
    }
    let mut rows = Vec::new();
    for phase in phases {
        let before = receiver.look()?;
        let sent = attacker.attack(phase, Duration::from_secs(options.seconds))?;
        rows.push(Row::new(phase, sent, &before, &receiver.look()?));
    }
    let quiet = rows.iter().filter(|row| row.phase.is_none()).map(|row| row.mbit);
    let quiet = quiet.clone().sum::<f64>() / quiet.count() as f64;
    rows.iter().for_each(|row| row.print(quiet, options.json));
    Ok(())
}

/// One phase, from the receiver's point of view.
struct Row {
    phase: Option<Attack>,
    mbit: f64,
    attack_rate: f64,
    dropped: Value,
}

impl Row {
    fn new(phase: Option<Attack>, sent: u64, before: &Value, after: &Value) -> Row {
        let grown = |name: &str| after[name].as_f64().unwrap_or(0.0) - before[name].as_f64().unwrap_or(0.0);
        let seconds = grown("seconds").max(1e-3);
        let dropped =
            ["malformed", "unknown_label", "bad_tag", "not_opened"].map(|name| (name, grown(name) as u64));
        Row {
            phase,
            mbit: grown("bytes") * 8e-6 / seconds,
            attack_rate: sent as f64 / seconds,
            dropped: dropped.into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect(),
        }
    }

    fn print(&self, quiet: f64, as_json: bool) {
        let phase = self.phase.map_or("quiet", Attack::name);
        let share = self.mbit / quiet;
        if as_json {
            let row = json!({
                "phase": phase, "goodput_mbit": self.mbit, "share_of_quiet": share,
                "attack_packets_per_s": self.attack_rate, "dropped": self.dropped,
            });
            println!("{row}");
        } else {
            let percent = share * 100.0;
            println!(
                "{phase:<24} {:>14.1} {percent:>10.1} % {:>10.0}  {}",
                self.mbit, self.attack_rate, self.dropped
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
