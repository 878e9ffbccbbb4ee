//! What was measured, for people and for machines.

use std::time::Duration;

use program::Table;
use serde::Serialize;
use sfio_remote::distribution::StripeUnit;

use super::pattern::{Call, Pattern, Variant};

/// All measurements.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) rows: Vec<Row>,
}

/// One pattern with one stripe unit.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) variant: Variant,
    pub(super) stripe_unit: StripeUnit,
    pub(super) bytes: u64,
    pub(super) write: Times,
    pub(super) read: Times,
    regions: u64,
    /// The bytes of the requests that reading takes; the fewest that were seen.
    requests: Option<u64>,
    local: Times,
    unoptimised: Times,
    unoptimised_bytes: u64,
}

/// How long something took, each time.
#[derive(Debug, Default)]
pub(super) struct Times(Vec<Duration>);

/// A row in JSON; rates in bytes per second, medians unless they say otherwise.
#[derive(Debug, Serialize)]
struct Entry {
    pattern: String,
    #[serde(rename = "stripe_unit_bytes")]
    stripe_unit: u64,
    bytes: u64,
    regions: u64,
    rounds: usize,
    #[serde(rename = "write_bytes_per_s")]
    write: f64,
    #[serde(rename = "write_least_bytes_per_s")]
    write_least: f64,
    #[serde(rename = "write_most_bytes_per_s")]
    write_most: f64,
    #[serde(rename = "read_bytes_per_s")]
    read: f64,
    #[serde(rename = "read_least_bytes_per_s")]
    read_least: f64,
    #[serde(rename = "read_most_bytes_per_s")]
    read_most: f64,
    read_request_bytes: Option<u64>,
    #[serde(rename = "local_write_bytes_per_s")]
    local_write: f64,
    #[serde(rename = "unoptimised_write_bytes_per_s")]
    unoptimised_write: Option<f64>,
}

impl Times {
    pub(super) fn note(&mut self, took: Duration) {
        let place = self.0.partition_point(|other| *other < took);
        self.0.insert(place, took);
    }

    /// The median; of two in the middle, the longer.
    fn median(&self) -> Option<Duration> {
        self.0.get(self.0.len() / 2).copied()
    }

    /// Bytes per second if each time was for that many bytes: the least, the median, the most.
    fn rates(&self, bytes: u64) -> [f64; 3] {
        let times = [self.0.last().copied(), self.median(), self.0.first().copied()];
        times.map(|took| rate(bytes, took.unwrap_or_default()))
    }
}

impl Row {
    pub(super) fn new(variant: Variant, stripe_unit: StripeUnit) -> Row {
        Row {
            variant,
            stripe_unit,
            bytes: 0,
            write: Times::default(),
            read: Times::default(),
            regions: 0,
            requests: None,
            local: Times::default(),
            unoptimised: Times::default(),
            unoptimised_bytes: 0,
        }
    }

    /// Begins a further measurement with these calls, for which the local file took so long.
    pub(super) fn begin(&mut self, calls: &[Call], local: Duration) {
        self.bytes = calls.iter().map(Call::bytes).sum();
        self.regions = calls.iter().map(|call| call.regions().count() as u64).sum();
        self.local.note(local);
    }

    pub(super) fn is_contiguous(&self) -> bool {
        self.variant.pattern == Pattern::Contiguous
    }

    pub(super) fn note_requests(&mut self, bytes: u64) {
        self.requests = Some(self.requests.map_or(bytes, |fewest| fewest.min(bytes)));
    }

    pub(super) fn note_unoptimised(&mut self, bytes: u64, took: Duration) {
        self.unoptimised_bytes = bytes;
        self.unoptimised.note(took);
    }

    /// Bytes per second written.
    pub(super) fn write_rate(&self) -> f64 {
        self.write.rates(self.bytes)[1]
    }

    /// Bytes per second read.
    pub(super) fn read_rate(&self) -> f64 {
        self.read.rates(self.bytes)[1]
    }

    fn local_rate(&self) -> f64 {
        self.local.rates(self.bytes)[1]
    }

    fn unoptimised_rate(&self) -> Option<f64> {
        self.unoptimised.median().map(|took| rate(self.unoptimised_bytes, took))
    }

    fn entry(&self) -> Entry {
        let [write_least, write, write_most] = self.write.rates(self.bytes);
        let [read_least, read, read_most] = self.read.rates(self.bytes);
        Entry {
            pattern: self.variant.name(),
            stripe_unit: self.stripe_unit.bytes(),
            bytes: self.bytes,
            regions: self.regions,
            rounds: self.write.0.len(),
            write,
            write_least,
            write_most,
            read,
            read_least,
            read_most,
            read_request_bytes: self.requests,
            local_write: self.local_rate(),
            unoptimised_write: self.unoptimised_rate(),
        }
    }
}

impl Report {
    /// What `--json` prints.
    pub(super) fn entries(&self) -> Vec<impl Serialize> {
        self.rows.iter().map(Row::entry).collect()
    }

    pub(super) fn table(&self) -> Table {
        let header = [
            "pattern",
            "stripe",
            "regions",
            "write MB/s",
            "time s",
            "read MB/s",
            "time s",
            "requests KiB",
            "local MB/s",
            "unoptimised MB/s",
        ];
        let mut table = Table::new(header);
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        for row in &self.rows {
            let [write, read, local] = [row.write_rate(), row.read_rate(), row.local_rate()].map(megabytes);
            let [writing, reading] = [&row.write, &row.read].map(|times| seconds(times.median()));
            let requests = or_dash(row.requests.map(|bytes| format!("{:.1}", bytes as f64 / 1024.0)));
            let unoptimised = or_dash(row.unoptimised_rate().map(megabytes));
            let (name, unit, regions) =
                (row.variant.name(), row.stripe_unit.to_string(), row.regions.to_string());
            let cells = [name, unit, regions, write, writing, read, reading, requests, local, unoptimised];
            table.push(cells.to_vec());
        }
        table
    }
}

fn rate(bytes: u64, took: Duration) -> f64 {
    if took.is_zero() { 0.0 } else { bytes as f64 / took.as_secs_f64() }
}

/// A rate in MB/s.
fn megabytes(rate: f64) -> String {
    format!("{:.1}", rate / 1e6)
}

fn seconds(took: Option<Duration>) -> String {
    format!("{:.2}", took.unwrap_or_default().as_secs_f64())
}
