//! What a process has done so far.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Sums since the process began.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// The time of the monotonic clock, which all processes share.
    pub time_s: f64,
    /// User and system time.
    pub cpu_s: f64,
    /// The largest resident set so far.
    pub peak_mib: f64,
    /// The resident set of now.
    pub resident_mib: f64,
    /// What the sessions hold, by their own account.
    pub held_mib: f64,
    /// How many sessions there are now.
    pub sessions: u64,
    /// Application bytes received.
    pub bytes: u64,
    /// UDP datagrams sent.
    pub datagrams_sent: u64,
    /// System calls that sent them.
    pub send_calls: u64,
    /// UDP datagrams received.
    pub datagrams_received: u64,
    /// System calls that received them.
    pub receive_calls: u64,
    /// Source symbols sent for the first time.
    pub source_symbols: u64,
    /// Repair symbols, of first sendings and of later ones.
    pub repair_symbols: u64,
    /// Blocks that were decoded.
    pub decoded_blocks: u64,
    /// The rate at which all paths together are paced now.
    pub rate_gbps: f64,
    /// The mean loss of the paths of now, a share.
    pub loss: f64,
    /// The mean round trip of the paths of now.
    pub round_trip_ms: f64,
}

impl Snapshot {
    /// The clocks and the memory of this process; the counts are the caller's.
    pub fn of_process(bytes: u64) -> Snapshot {
        Snapshot {
            time_s: seconds(ClockId::Monotonic),
            cpu_s: seconds(ClockId::ProcessCPUTime),
            peak_mib: memory_mib("VmHWM:"),
            resident_mib: memory_mib("VmRSS:"),
            bytes,
            ..Snapshot::default()
        }
    }

    /// What was done since `earlier`; the peak is of the whole life.
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        Snapshot {
            time_s: self.time_s - earlier.time_s,
            cpu_s: self.cpu_s - earlier.cpu_s,
            bytes: self.bytes - earlier.bytes,
            datagrams_sent: self.datagrams_sent - earlier.datagrams_sent,
            send_calls: self.send_calls - earlier.send_calls,
            datagrams_received: self.datagrams_received - earlier.datagrams_received,
            receive_calls: self.receive_calls - earlier.receive_calls,
            source_symbols: self.source_symbols - earlier.source_symbols,
            repair_symbols: self.repair_symbols - earlier.repair_symbols,
            decoded_blocks: self.decoded_blocks - earlier.decoded_blocks,
            ..*self
        }
    }

    /// Bit/s of application bytes.
    pub fn goodput_bps(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.time_s
    }

    /// Symbols sent over source symbols − 1; NaN if there were none.
    pub fn overhead(&self) -> f64 {
        self.repair_symbols as f64 / self.source_symbols as f64
    }

    /// Share of one core.
    pub fn cores(&self) -> f64 {
        self.cpu_s / self.time_s
    }
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// A line of /proc/self/status; NaN where there is none.
fn memory_mib(name: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib / 1024.0)
}
