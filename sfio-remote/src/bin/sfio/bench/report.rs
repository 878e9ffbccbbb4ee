//! What was measured, for people and for machines.

use std::fmt::Write as _;
use std::time::Duration;

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
    regions: u64,
    local: Duration,
    write: Option<Duration>,
    read: Option<Duration>,
    unoptimised: Option<(u64, Duration)>,
}

/// A row in JSON; rates in bytes per second.
#[derive(Debug, Serialize)]
struct Entry {
    pattern: String,
    stripe_unit: u64,
    bytes: u64,
    regions: u64,
    write: f64,
    read: f64,
    local_write: f64,
    unoptimised_write: Option<f64>,
}

impl Row {
    pub(super) fn new(variant: Variant, stripe_unit: StripeUnit, calls: &[Call], local: Duration) -> Row {
        let bytes = calls.iter().map(Call::bytes).sum();
        let regions = calls.iter().map(|call| call.regions().count() as u64).sum();
        Row { variant, stripe_unit, bytes, regions, local, write: None, read: None, unoptimised: None }
    }

    pub(super) fn is_contiguous(&self) -> bool {
        self.variant.pattern == Pattern::Contiguous
    }

    pub(super) fn note_write(&mut self, took: Duration) {
        self.write = Some(self.write.map_or(took, |best| best.min(took)));
    }

    pub(super) fn note_read(&mut self, took: Duration) {
        self.read = Some(self.read.map_or(took, |best| best.min(took)));
    }

    pub(super) fn note_unoptimised(&mut self, bytes: u64, took: Duration) {
        let best = self.unoptimised.map_or(took, |(_, best)| best.min(took));
        self.unoptimised = Some((bytes, best));
    }

    /// Bytes per second written.
    pub(super) fn write_rate(&self) -> f64 {
        rate(self.bytes, self.write.unwrap_or_default())
    }

    /// Bytes per second read.
    pub(super) fn read_rate(&self) -> f64 {
        rate(self.bytes, self.read.unwrap_or_default())
    }

    fn local_rate(&self) -> f64 {
        rate(self.bytes, self.local)
    }

    fn unoptimised_rate(&self) -> Option<f64> {
        self.unoptimised.map(|(bytes, took)| rate(bytes, took))
    }

    fn entry(&self) -> Entry {
        Entry {
            pattern: self.variant.name(),
            stripe_unit: self.stripe_unit.bytes(),
            bytes: self.bytes,
            regions: self.regions,
            write: self.write_rate(),
            read: self.read_rate(),
            local_write: self.local_rate(),
            unoptimised_write: self.unoptimised_rate(),
        }
    }
}

impl Report {
    pub(super) fn json(&self) -> String {
        let entries: Vec<Entry> = self.rows.iter().map(Row::entry).collect();
        serde_json::to_string_pretty(&entries).unwrap_or_default()
    }

    pub(super) fn table(&self) -> String {
        let mut text = format!(
            "{:<18} {:>8} {:>9} {:>11} {:>11} {:>11} {:>11}\n",
            "pattern", "stripe", "regions", "write", "read", "local", "unoptimised"
        );
        for row in &self.rows {
            let unoptimised = row.unoptimised_rate().map_or_else(|| "-".to_owned(), megabytes);
            let (name, unit) = (row.variant.name(), row.stripe_unit.to_string());
            let [write, read, local] = [row.write_rate(), row.read_rate(), row.local_rate()].map(megabytes);
            let regions = row.regions;
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{name:<18} {unit:>8} {regions:>9} {write:>11} {read:>11} {local:>11} {unoptimised:>11}"
            );
        }
        text
    }
}

fn rate(bytes: u64, took: Duration) -> f64 {
    if took.is_zero() { 0.0 } else { bytes as f64 / took.as_secs_f64() }
}

fn megabytes(rate: f64) -> String {
    format!("{:.1} MB/s", rate / 1e6)
}
