//! What a scenario has shown, and whether it is what was expected.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use super::ScenarioError;
use super::deaths::LinkDeath;
use super::ledger::{Ledger, Traffic};
use super::sampler::{Sampler, Series};
use fec_transport::Time;

/// For how long after a step too much sending does not count.
const SETTLING: Duration = Duration::from_secs(5);
/// The share of the new limit at which the goodput has recovered.
const RECOVERED: f64 = 0.9;
/// Over how long the goodput is averaged then.
const RECOVERY_WINDOW: Duration = Duration::from_secs(1);

/// What a scenario has shown.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The scenario's name.
    pub name: String,
    /// Every measured value by name, in a fixed order.
    pub metrics: Vec<(String, f64)>,
    /// The expectations of the file.
    pub checks: Vec<Check>,
    /// The links that died, by time.
    pub deaths: Vec<LinkDeath>,
    /// How it went over time.
    pub series: Series,
    /// The hash of everything that happened on the network.
    pub trace_hash: String,
}

/// An expectation and what it met.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// The metric.
    pub metric: String,
    /// What was expected of it, as `>= 0.95`.
    pub bound: String,
    /// What it is; `None` if the scenario has no such metric.
    pub value: Option<f64>,
    /// Whether the expectation holds.
    pub holds: bool,
}

impl Outcome {
    /// A metric by its name.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.iter().find(|(metric, _)| metric == name).map(|(_, value)| *value)
    }

    /// The links that died while masks were on and did not cover them, each once.
    pub fn unmasked_links(&self) -> Vec<&str> {
        let unmasked = self.deaths.iter().filter(|death| death.has_mask && !death.is_masked);
        unmasked.map(|death| death.link.as_str()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Whether all expectations hold.
    pub fn passes(&self) -> bool {
        self.checks.iter().all(|check| check.holds)
    }
}

/// A bound on a metric.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Expectation {
    metric: String,
    relation: Relation,
    bound: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Relation {
    AtLeast,
    AtMost,
    Equal,
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Relation::AtLeast => ">=",
            Relation::AtMost => "<=",
            Relation::Equal => "==",
        })
    }
}

impl Expectation {
    pub(super) fn parse(metric: &str, text: &str) -> Result<Expectation, ScenarioError> {
        let wrong = || {
            ScenarioError::wrong(format!(
                "expect.{metric} is \"{text}\": expected a bound such as \">= 0.95\""
            ))
        };
        let (relation, bound) = text.trim().split_at_checked(2).ok_or_else(wrong)?;
        let relation = match relation {
            ">=" => Relation::AtLeast,
            "<=" => Relation::AtMost,
            "==" => Relation::Equal,
            _ => return Err(wrong()),
        };
        let bound = bound.trim().parse().map_err(|_| wrong())?;
        Ok(Expectation { metric: metric.to_owned(), relation, bound })
    }

    fn check(&self, metrics: &[(String, f64)]) -> Check {
        let value = metrics.iter().find(|(name, _)| *name == self.metric).map(|(_, value)| *value);
        let holds = value.is_some_and(|value| match self.relation {
            Relation::AtLeast => value >= self.bound,
            Relation::AtMost => value <= self.bound,
            Relation::Equal => value == self.bound,
        });
        let bound = format!("{} {}", self.relation, self.bound);
        Check { metric: self.metric.clone(), bound, value, holds }
    }
}

pub(super) fn check_all(expectations: &[Expectation], metrics: &[(String, f64)]) -> Vec<Check> {
    expectations.iter().map(|expectation| expectation.check(metrics)).collect()
}

/// All metrics of a run; `changes` are when the network changed first and last, if it did.
pub(super) fn metrics(
    ledger: &Ledger,
    sampler: &Sampler,
    deaths: &[LinkDeath],
    changes: Option<(Time, Time)>,
) -> Vec<(String, f64)> {
    let mut metrics = Metrics(Vec::new());
    throughput(&mut metrics, ledger, sampler);
    if let Some((first, last)) = changes.filter(|(first, _)| *first >= ledger.window.0) {
        after_step(&mut metrics, ledger, sampler, first);
        after_last_change(&mut metrics, ledger, sampler, last);
    }
    links(&mut metrics, deaths);
    messages(&mut metrics, ledger);
    flows(&mut metrics, ledger);
    metrics.0
}

struct Metrics(Vec<(String, f64)>);

impl Metrics {
    fn add(&mut self, name: impl Into<String>, value: f64) {
        self.0.push((name.into(), value));
    }
}

fn throughput(metrics: &mut Metrics, ledger: &Ledger, sampler: &Sampler) {
    let (from, to) = ledger.window;
    let seconds = to.since(from).as_secs_f64();
    let bytes: u64 = ledger.records.iter().map(|record| record.bytes_in_window).sum();
    let (before, after) = (sampler.totals_at(from), sampler.totals_at(to));
    let source = after.source_symbols - before.source_symbols;
    let repair = after.repair_symbols - before.repair_symbols;
    metrics.add("goodput_mbit", bytes as f64 * 8e-6 / seconds);
    metrics.add("limit_mbit", sampler.limit_bits / 1e6 / seconds);
    metrics.add("ratio", bytes as f64 * 8.0 / sampler.limit_bits);
    metrics.add("overhead", repair as f64 / source.max(1) as f64);
    metrics.add("wire_ratio", (after.sent_bytes - before.sent_bytes) as f64 / bytes.max(1) as f64);
    metrics.add("queue_ms", sampler.queue_ms());
    metrics.add("queue_peak_ms", sampler.queue_peak_ms());
    let firsts = ledger.flows.iter().zip(&ledger.records);
    let waits =
        firsts.map(|(flow, record)| record.first.map_or(Duration::MAX, |first| first.since(flow.start)));
    metrics.add("first_data_ms", waits.max().unwrap_or_default().as_secs_f64() * 1e3);
    let competitors = (after.competitors_bytes - before.competitors_bytes) as f64;
    if competitors > 0.0 {
        let ours = (after.sent_bytes - before.sent_bytes) as f64;
        metrics.add("competitors_mbit", competitors * 8e-6 / seconds);
        metrics.add("share_beside_competitors", ours / (ours + competitors));
    }
    let bulk = ledger.flows.iter().zip(&ledger.records);
    let bulk = bulk.filter(|(flow, _)| matches!(flow.traffic, Traffic::Bulk { .. }));
    let stall = bulk.map(|(_, record)| record.stall).max().unwrap_or_default();
    metrics.add("stall_ms", stall.0.as_secs_f64() * 1e3);
    metrics.add("stall_ended_s", stall.1.since_epoch().as_secs_f64());
    metrics.add("deaths", (after.deaths - before.deaths) as f64);
    metrics.add("repair_rounds", after.repair_rounds.saturating_sub(before.repair_rounds) as f64);
    metrics.add("unmaskable_links", after.unmaskable as f64);
    let restarts: u32 = ledger.records.iter().map(|record| record.restarts).sum();
    metrics.add("restarts", f64::from(restarts));
    let wrong: u64 = ledger.records.iter().map(|record| record.wrong_bytes).sum();
    metrics.add("wrong_bytes", wrong as f64);
}

/// How the session followed a change of the network.
fn after_step(metrics: &mut Metrics, ledger: &Ledger, sampler: &Sampler, step: Time) {
    let end = ledger.window.1;
    let (before, after) = (sampler.totals_at(step + SETTLING), sampler.totals_at(end));
    let arrived = (after.arrived_packets - before.arrived_packets).max(1) as f64;
    let overflowed = after.overflowed_packets - before.overflowed_packets;
    // Sent × (1 − loss) is what arrived and what would have arrived had no queue and no policer dropped it.
    metrics.add("excess", (arrived + overflowed) / arrived);
    metrics.add("recovery_s", recovery(ledger, sampler, step));
}

/// How many seconds after a change of the network the goodput has recovered from it.
fn recovery(ledger: &Ledger, sampler: &Sampler, change: Time) -> f64 {
    let end = ledger.window.1;
    let enough = RECOVERED * sampler.limit_bps / 8.0;
    let goodput = |from: Time, to: Time| {
        let bytes: u64 = ledger.records.iter().map(|record| record.bytes_between(from, to)).sum();
        bytes as f64 / to.since(from).as_secs_f64()
    };
    let strides = (0..).map(|n| change + Duration::from_millis(100 * n));
    let candidates = strides.take_while(|at| *at + RECOVERY_WINDOW <= end);
    let recovered = candidates
        .into_iter()
        .find(|at| goodput(*at, *at + RECOVERY_WINDOW) >= enough && goodput(*at, end) >= enough);
    recovered.map_or(f64::INFINITY, |at| at.since(change).as_secs_f64())
}

/// How the session followed the last change, and what the redundancy costs once it had time to fall again.
fn after_last_change(metrics: &mut Metrics, ledger: &Ledger, sampler: &Sampler, last: Time) {
    let (before, after) = (sampler.totals_at(last + SETTLING), sampler.totals_at(ledger.window.1));
    let source = (after.source_symbols - before.source_symbols).max(1) as f64;
    metrics.add("overhead_after", (after.repair_symbols - before.repair_symbols) as f64 / source);
    metrics.add("last_recovery_s", recovery(ledger, sampler, last));
}

/// How the deaths of links were felt.
fn links(metrics: &mut Metrics, deaths: &[LinkDeath]) {
    let Some(excess) = deaths.iter().map(|death| death.gap_ms - death.bound_ms).max_by(f64::total_cmp) else {
        return;
    };
    metrics.add("gap_over_bound_ms", excess);
    let masked = || deaths.iter().filter(|death| death.is_masked);
    metrics.add("masked_links", masked().count() as f64);
    metrics.add("masked_repair_rounds", masked().map(|death| death.repair_rounds).sum::<u64>() as f64);
}

/// Latencies of the messages that were due in the window, and whose time was up in it.
fn messages(metrics: &mut Metrics, ledger: &Ledger) {
    let (from, to) = ledger.window;
    let mut latencies = Vec::new();
    let (mut due, mut in_time, mut has_deadline) = (0_u64, 0_u64, false);
    for (flow, record) in ledger.flows.iter().zip(&ledger.records) {
        let Traffic::Messages { within, .. } = flow.traffic else { continue };
        has_deadline |= within.is_some();
        let judged = from..to - within.unwrap_or_default();
        for message in record.messages.iter().filter(|message| judged.contains(&message.written)) {
            due += 1;
            let latency = message.arrived.map(|at| at.since(message.written));
            in_time +=
                u64::from(latency.is_some_and(|latency| within.is_none_or(|within| latency <= within)));
            latencies.extend(latency);
        }
    }
    if due == 0 {
        return;
    }
    latencies.sort_unstable();
    let percentile = |share: f64| {
        let index = ((latencies.len() as f64 * share).ceil() as usize).clamp(1, latencies.len().max(1)) - 1;
        latencies.get(index).map_or(f64::INFINITY, |latency| latency.as_secs_f64() * 1e3)
    };
    metrics.add("messages", due as f64);
    metrics.add("messages_lost", (due - latencies.len() as u64) as f64);
    if has_deadline {
        metrics.add("on_time", in_time as f64 / due as f64);
    }
    for (name, share) in
        [("p50_ms", 0.5), ("p99_ms", 0.99), ("p999_ms", 0.999), ("p9999_ms", 0.9999), ("max_ms", 1.0)]
    {
        metrics.add(name, percentile(share));
    }
}

/// What each of several flows got.
fn flows(metrics: &mut Metrics, ledger: &Ledger) {
    let seconds = ledger.window.1.since(ledger.window.0).as_secs_f64();
    let all: u64 = ledger.records.iter().map(|record| record.bytes_in_window).sum();
    for (flow, record) in ledger.flows.iter().zip(&ledger.records) {
        if let Some(at) = record.completed {
            metrics.add(format!("{}.complete_s", flow.name), at.since_epoch().as_secs_f64());
        }
        if ledger.flows.len() > 1 {
            let bytes = record.bytes_in_window as f64;
            metrics.add(format!("{}.goodput_mbit", flow.name), bytes * 8e-6 / seconds);
            metrics.add(format!("{}.share", flow.name), bytes / all.max(1) as f64);
        }
    }
}
