//! How long disks and processors take.

use std::time::Duration;

use crate::store::{DiskAction, DiskOperation, DiskResult};

/// How long a disk takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DiskModel {
    /// Every operation takes so long, however much there is to do, and none waits for another.
    Constant(Duration),
    /// One operation after the other, the longer the more there is to do.
    InTurn(DiskPace),
}

/// How fast a disk is that moves one thing after the other. What needs no disk, such as a size, takes as long as a
/// system call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiskPace {
    /// Bytes per second that it reads or writes.
    pub bytes_per_second: f64,
    /// What each operation takes besides.
    pub call: Duration,
    /// What waits for the disk itself.
    pub sync: Duration,
}

/// How long a processor takes for what a program does about its files. It does one thing after the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProcessorModel {
    /// What each operation takes: of a client, from the call until its first request; at an I/O node, from the disk to
    /// the reply.
    pub call: Duration,
    /// Bytes per second that it gathers or scatters in memory; infinite: they take no time.
    pub bytes_per_second: f64,
}

impl DiskPace {
    /// How long the disk is busy with an operation that ended so.
    pub(super) fn of(self, operation: &DiskOperation, result: &DiskResult) -> Duration {
        match &operation.action {
            _ if result.outcome.is_err() => Duration::ZERO,
            DiskAction::Read { .. } | DiskAction::Write { .. } => {
                self.call + time_for(bytes_of(operation), self.bytes_per_second)
            }
            DiskAction::Sync | DiskAction::Create { durable: true, .. } => self.sync,
            _ => Duration::ZERO,
        }
    }
}

impl ProcessorModel {
    /// One that takes no time.
    pub const INSTANT: ProcessorModel =
        ProcessorModel { call: Duration::ZERO, bytes_per_second: f64::INFINITY };

    /// How long it is busy with an operation that moves so many bytes.
    pub fn time_for(self, bytes: u64) -> Duration {
        self.call + time_for(bytes, self.bytes_per_second)
    }
}

/// The bytes that a disk operation reads or writes.
pub(super) fn bytes_of(operation: &DiskOperation) -> u64 {
    match &operation.action {
        DiskAction::Read { extents } | DiskAction::Write { extents, .. } => {
            extents.iter().map(|extent| extent.length()).sum()
        }
        _ => 0,
    }
}

fn time_for(bytes: u64, bytes_per_second: f64) -> Duration {
    Duration::from_secs_f64(bytes as f64 / bytes_per_second)
}
