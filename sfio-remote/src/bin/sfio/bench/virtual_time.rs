//! `sfio bench --virtual`: N compute processes against N I/O nodes in virtual time, without as many processes.

mod report;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use program::output;
use sfio_remote::distribution::StripeUnit;
use sfio_remote::sim::{Job, Machine, Scaling, Traffic};

use super::Options;
use crate::exit::{Exit, Failure, OrFail as _};
use crate::progress::Progress;
use report::{Report, Row};

/// Bytes that each compute process writes, unless told otherwise: with a quarter of that, the streams that end last
/// decide (docs/evaluation.md).
const BYTES: u64 = 20_000_000;

/// Bytes that each compute process writes before, where some two have not met: with half of that some paths have not
/// found their rates.
const WARM_UP_BYTES: u64 = 20_000_000;

/// Which compute process writes to which I/O process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum TrafficName {
    /// Nodes chosen by chance compute and serve; each writes to each
    #[default]
    AllToAll,
    /// Each compute process writes to an I/O process of its own, on another node
    Pairs,
    /// The first nodes compute, the next ones serve; each writes to each
    Halves,
}

/// How many processes there are: a number, or all from one to another, as "2-31".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    first: usize,
    last: usize,
}

/// What is measured for a row.
#[derive(Debug, Clone, Copy)]
struct Plan {
    clients: usize,
    io_nodes: usize,
    stripe_unit: StripeUnit,
}

impl Plan {
    /// What all compute processes write in a placement. That is what its simulation takes its time for.
    fn bytes(self, options: &Options) -> u64 {
        options.size.unwrap_or(BYTES).saturating_mul(self.clients as u64)
    }
}

impl From<TrafficName> for Traffic {
    fn from(name: TrafficName) -> Traffic {
        match name {
            TrafficName::AllToAll => Traffic::AllToAll,
            TrafficName::Pairs => Traffic::Pairs,
            TrafficName::Halves => Traffic::Halves,
        }
    }
}

impl std::str::FromStr for Counts {
    type Err = String;

    fn from_str(text: &str) -> Result<Counts, String> {
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|number| *number > 0);
        let counts = match text.split_once('-') {
            Some((first, last)) => number(first).zip(number(last)),
            None => number(text).map(|number| (number, number)),
        };
        let counts = counts.filter(|(first, last)| first <= last);
        let (first, last) = counts.ok_or("expected a number, or two as in \"2-31\"")?;
        Ok(Counts { first, last })
    }
}

pub(super) fn run(options: &Options, machine: &str) -> Result<(), Failure> {
    let machine = Machine::named(machine).ok_or_else(|| Failure::usage("there is no such machine"))?;
    let rows = match options.measured.is_empty() {
        true => measure_all(options, &machine)?,
        false => report::read(&options.measured, &machine)?,
    };
    let report = Report { machine: machine.name().to_owned(), traffic: options.traffic, rows };
    let chart = report.chart();
    options.plot.iter().try_for_each(|path| program::chart::draw(&chart, path))?;
    match options.json {
        true => output::json(&report.printed()),
        false => output::print(report.table().folded(output::columns(None))),
    }
}

fn measure_all(options: &Options, machine: &Machine) -> Result<Vec<Row>, Failure> {
    let plans = plans(options, machine)?;
    let bytes = plans.iter().fold(0_u64, |sum, plan| sum.saturating_add(plan.bytes(options)));
    let progress = Progress::in_pieces("measuring", bytes.saturating_mul(placements(options).into()));
    let rows = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((index, plan)) = plans.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed)) {
            let row = measure(options, machine, *plan, &progress);
            rows.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((index, row));
        }
    };
    std::thread::scope(|scope| {
        let threads = options.threads.clamp(1, plans.len().max(1));
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    let mut rows = rows.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    rows.sort_by_key(|(index, _)| *index);
    progress.finish("measured");
    rows.into_iter().map(|(_, row)| row).collect()
}

/// The rows: all numbers of processes with the first stripe unit, then with the next one.
fn plans(options: &Options, machine: &Machine) -> Result<Vec<Plan>, Failure> {
    let clients = numbers(&options.clients);
    let io_nodes = match numbers(&options.io_nodes) {
        none if none.is_empty() => clients.clone(),
        one if one.len() == 1 => vec![one[0]; clients.len()],
        several if several.len() == clients.len() => several,
        several => {
            let (have, want) = (several.len(), clients.len());
            return Err(Failure::usage(format!(
                "--io-nodes: {have} numbers for {want} of --clients; expected one, or as many"
            )));
        }
    };
    let counts: Vec<(usize, usize)> = clients.into_iter().zip(io_nodes).collect();
    counts.iter().try_for_each(|counts| check(options.traffic.into(), *counts, machine))?;
    let units = match &options.stripe_units[..] {
        [] => vec![StripeUnit::new(200).expect("in range")],
        units => units.to_vec(),
    };
    let plan = |stripe_unit, (clients, io_nodes)| Plan { clients, io_nodes, stripe_unit };
    let rows = |unit| counts.iter().map(move |counts| plan(unit, *counts));
    Ok(units.into_iter().flat_map(rows).collect())
}

/// Whether the machine has as many nodes as so many compute and I/O processes take.
fn check(traffic: Traffic, (clients, io_nodes): (usize, usize), machine: &Machine) -> Result<(), Failure> {
    let (needed, nodes) = (traffic.nodes(clients, io_nodes), machine.nodes());
    if needed > nodes {
        return Err(Failure::usage(format!(
            "{clients} clients and {io_nodes} I/O nodes take {needed} nodes; {} has {nodes}",
            machine.name()
        )));
    }
    match traffic == Traffic::Pairs && clients != io_nodes {
        true => Err(Failure::usage("--traffic pairs: expected as many I/O nodes as clients")),
        false => Ok(()),
    }
}

/// How often a row is placed: without chance every placement is the same.
fn placements(options: &Options) -> u32 {
    if options.traffic == TrafficName::Halves { 1 } else { options.placements }
}

fn numbers(counts: &[Counts]) -> Vec<usize> {
    counts.iter().flat_map(|counts| counts.first..=counts.last).collect()
}

fn measure(options: &Options, machine: &Machine, plan: Plan, progress: &Progress) -> Result<Row, Failure> {
    let Plan { clients, io_nodes, stripe_unit } = plan;
    let began = Instant::now();
    let mut scaling = Scaling::new(machine.clone(), options.seed);
    let bytes = options.size.unwrap_or(BYTES);
    let traffic = Traffic::from(options.traffic);
    let job = Job { traffic, clients, io_nodes, stripe_unit, warm_up_bytes: WARM_UP_BYTES, bytes };
    let place = |_| scaling.run(&job).inspect(|_| progress.advance(plan.bytes(options)));
    let measured: Result<Vec<_>, _> = (0..placements(options)).map(place).collect();
    let measured = measured.or_fail(Exit::Failed, format!("{clients} clients, {io_nodes} I/O nodes"))?;
    Ok(Row::new(&job, &measured, (scaling.now(), began.elapsed()), scaling.hash()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_numbers_and_ranges() {
        let parsed: Vec<Result<Counts, String>> =
            ["7", "2-31", "0", "5-4", "x"].iter().map(|text| text.parse()).collect();
        assert_eq!(parsed[0], Ok(Counts { first: 7, last: 7 }));
        assert_eq!(parsed[1], Ok(Counts { first: 2, last: 31 }));
        assert!(parsed[2..].iter().all(Result::is_err));
    }
}
