//! `fec-testbed soak`: a long transfer over links that fail, to see whether memory stays flat.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use fec_testbed::failures::median;
use netsim::emulator::LinkHandle;
use netsim::{LinkModel, Probability, Rate};
use serde_json::json;

use fec_testbed::processes::child::Child;
use fec_testbed::processes::emulated;
use fec_testbed::processes::row::{Column, Table, column, object, progress};
use fec_testbed::processes::snapshot::Snapshot;

/// The time from one link's failure to the next one's.
const FAILS_EVERY: Duration = Duration::from_secs(10);
/// How long a link stays down.
const FAILS_FOR: Duration = Duration::from_secs(4);
/// The second half's memory may be so many times the first half's.
const MAX_GROWTH: f64 = 1.1;

/// One session over three paths, paced at 100 Mbit/s, whose links fail in turns, one every ten seconds; the memory of
/// every process over time.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: fec-testbed soak --minutes 60\n\nExit codes: 0 memory is flat, 1 it grows, 2 usage, 3 the run failed."
)]
pub(crate) struct Arguments {
    /// How long.
    #[arg(long, default_value_t = 60.0, value_name = "MIN")]
    minutes: f64,
    /// The rate of the session, in Mbit/s on the wire.
    #[arg(long, default_value_t = 100, value_name = "MBIT")]
    rate: u64,
    /// How many rows.
    #[arg(long, default_value_t = 20, value_name = "N")]
    rows: u32,
    /// One JSON object for each row.
    #[arg(long)]
    json: bool,
}

const COLUMNS: &[Column] = &[
    column("minutes", "minutes", 7, 2),
    column("Mbit/s", "goodput_mbps", 7, 1),
    column("GB", "gigabytes", 6, 2),
    column("receiver MiB", "receiver_mib", 12, 1),
    column("its sessions", "receiver_held_mib", 12, 1),
    column("sender MiB", "sender_mib", 10, 1),
    column("its sessions", "sender_held_mib", 12, 1),
    column("largest relay MiB", "relay_mib", 17, 1),
];

/// Lets links fail for so long; tells whether memory is flat.
pub(crate) fn run(arguments: &Arguments) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let _inside = runtime.enter();
    let model = |loss| -> Result<LinkModel> {
        let model = LinkModel::new(Rate::from_mbit(100), Duration::from_millis(15));
        Ok(model.with_loss(Probability::new(loss)?))
    };
    let models = (0..3).map(|_| Ok([model(0.01)?, model(0.0)?])).collect::<Result<Vec<_>>>()?;
    let config = format!("[pace]\nlimit = {}", arguments.rate * 1_000_000 / 8);
    let (emulator, mut children) = emulated::start(models, &config, 1)?;
    let rows = watch(arguments, emulator.links(), &mut children)?;
    is_flat(&rows)
}

/// The resident sets of all processes, row by row.
fn watch(arguments: &Arguments, links: &[LinkHandle], children: &mut [Child]) -> Result<Vec<Vec<f64>>> {
    let table = Table::new("links fail in turns, one every ten seconds", COLUMNS, arguments.json)?;
    let span = Duration::from_secs_f64(arguments.minutes * 60.0 / f64::from(arguments.rows));
    #[allow(clippy::disallowed_methods, reason = "a benchmark's own clock")]
    let start = Instant::now();
    let mut before = children[0].snapshot()?;
    let (mut rows, mut failures) = (Vec::new(), 0);
    for row in 1..=arguments.rows {
        progress(&format!("row {row} of {}", arguments.rows));
        while start.elapsed() < span * row {
            let since_failure = start.elapsed().saturating_sub(FAILS_EVERY * failures);
            if since_failure >= FAILS_EVERY {
                links[failures as usize % links.len()].kill();
                failures += 1;
            } else if since_failure >= FAILS_FOR {
                links.iter().for_each(LinkHandle::restore);
            }
            std::thread::sleep(Duration::from_millis(100).min(span));
        }
        let now = children.iter_mut().map(Child::snapshot).collect::<Result<Vec<Snapshot>>>()?;
        let resident: Vec<f64> = now.iter().map(|it| it.resident_mib).collect();
        table.row(object(json!({
            "minutes": start.elapsed().as_secs_f64() / 60.0,
            "goodput_mbps": now[0].since(&before).goodput_bps() / 1e6,
            "gigabytes": now[0].bytes as f64 / 1e9,
            "failures": failures,
            "receiver_held_mib": now[0].held_mib,
            "sender_held_mib": now[1].held_mib,
            "receiver_mib": resident[0],
            "sender_mib": resident[1],
            "relay_mib": resident[2..].iter().copied().fold(0.0, f64::max),
        })))?;
        before = now[0];
        rows.push(resident);
    }
    Ok(rows)
}

/// Compares the halves of what came after the first tenth, each process by its median: single rows differ by what a
/// process happens to hold at that moment.
fn is_flat(rows: &[Vec<f64>]) -> Result<bool> {
    let settled = &rows[rows.len() / 10..];
    let (early, late) = settled.split_at(settled.len() / 2);
    let Some(processes) = early.first().map(Vec::len) else {
        bail!("--rows is {}, which tells nothing of growth; expected two at least", rows.len());
    };
    Ok((0..processes).filter(|&process| has_grown(process, early, late)).count() == 0)
}

/// Whether a process has grown from one half to the other; says so if it has.
fn has_grown(process: usize, early: &[Vec<f64>], late: &[Vec<f64>]) -> bool {
    let middle = |rows: &[Vec<f64>]| {
        let values: Vec<f64> = rows.iter().map(|row| row[process]).collect();
        median(&values).unwrap_or(0.0)
    };
    let (before, after) = (middle(early), middle(late));
    let has_grown = after > MAX_GROWTH * before + 1.0;
    if has_grown {
        program::output::note(format_args!(
            "process {process} has grown: {before:.1} MiB in the first half, {after:.1} in the second (medians)"
        ));
    }
    has_grown
}
