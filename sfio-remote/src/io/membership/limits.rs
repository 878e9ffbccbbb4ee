//! The tables of a config file that bound what others may take of a member.

use std::fmt::Display;
use std::time::Duration;

use fec_transport::Config;
use fec_transport::config::{Limits, Liveness, Policing};
use serde::{Deserialize, Deserializer};

use crate::distribution::StripeUnit;
use crate::io_node::IoNodeConfig;

/// Set-ups per second of one originator, and of all that come from one neighbour, where a config does not say: many
/// times what plans and their renewals need, and a few hundredths of a core for the checks of their signatures.
const SET_UPS_PER_ORIGINATOR: f64 = 256.0;
const SET_UPS_PER_NEIGHBOUR: f64 = 1_024.0;

/// Of the memory of an I/O node, in bytes: four disk operations, and more than any machine has.
const MEMORY: (u64, u64) = (4 << 20, 1 << 40);
/// Of the memory for requests, in bytes.
const REQUESTS: (u64, u64) = (1 << 20, 1 << 40);
const TRANSFERS: (usize, usize) = (1, 1 << 20);
/// Of the operations of its disk at once: each takes a thread.
const DISK_OPERATIONS: (usize, usize) = (1, 256);

/// An attempt to open a session takes several round trips, and a process that has just started connects to its
/// neighbours first.
const LEAST_ATTEMPT: Duration = Duration::from_secs(1);

/// What all who use a member share.
#[derive(Debug, Clone)]
pub struct MemberLimits {
    /// Bounds on memory and tables of its endpoint.
    pub limits: Limits,
    /// How much others may ask of that.
    pub policing: Policing,
    /// Bounds of its I/O node, without rights.
    pub io_node: IoNodeConfig,
    /// For how long its sessions wait in an outage of everything.
    pub patience: Duration,
    /// How long opening a session may take.
    pub connect: Duration,
}

impl MemberLimits {
    /// Has sessions wait no longer than `limit` in an outage, or no longer than until a peer counts as out of reach, if
    /// that is more; and has attempts to open one end with `limit`. Without a limit nothing is waited for that was
    /// there, and opening a session takes the time that it takes.
    pub(super) fn limit_patience(&mut self, limit: Duration) {
        let Liveness { session_silence, .. } = Liveness::default();
        self.patience = self.patience.min(limit.max(session_silence));
        if !limit.is_zero() {
            self.connect = attempt_within(limit, self.connect);
        }
    }

    /// The endpoint's limits, and otherwise the defaults.
    pub(super) fn endpoint(&self) -> Config {
        let MemberLimits { limits, policing, patience, connect, .. } = self.clone();
        let liveness = Liveness { patience, connect, ..Liveness::default() };
        Config { limits, policing, liveness, ..Config::default() }
    }
}

/// The table of an I/O node as the file has it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct IoNodeTable {
    #[serde(deserialize_with = "size")]
    memory: Option<u64>,
    #[serde(deserialize_with = "size")]
    requests: Option<u64>,
    transfers_per_member: Option<usize>,
    disk_operations: Option<usize>,
}

/// What the tables say, with the defaults for what they do not.
///
/// # Errors
/// The first value that is out of its range, with its key and what would be right.
pub(super) fn check(
    limits: Limits,
    mut policing: Policing,
    io_node: IoNodeTable,
    patience_seconds: Option<u64>,
) -> Result<MemberLimits, String> {
    policing.set_ups_per_originator.get_or_insert(SET_UPS_PER_ORIGINATOR);
    policing.set_ups_per_neighbour.get_or_insert(SET_UPS_PER_NEIGHBOUR);
    let patience = patience_seconds.map_or(Liveness::default().patience, Duration::from_secs);
    let connect = Liveness::default().connect;
    let checked = MemberLimits { limits, policing, io_node: io_node.check()?, patience, connect };
    checked.endpoint().validate().map_err(|error| error.to_string())?;
    Ok(checked)
}

impl IoNodeTable {
    fn check(self) -> Result<IoNodeConfig, String> {
        let default = IoNodeConfig::default();
        Ok(IoNodeConfig {
            memory_bytes: within("io_node.memory", self.memory.unwrap_or(default.memory_bytes), MEMORY)?,
            request_bytes: within(
                "io_node.requests",
                self.requests.unwrap_or(default.request_bytes),
                REQUESTS,
            )?,
            transfers_per_member: within(
                "io_node.transfers_per_member",
                self.transfers_per_member.unwrap_or(default.transfers_per_member),
                TRANSFERS,
            )?,
            disk_operations: within(
                "io_node.disk_operations",
                self.disk_operations.unwrap_or(default.disk_operations),
                DISK_OPERATIONS,
            )?,
            ..default
        })
    }
}

/// How long an attempt takes if as many as fit into `limit` follow one another, each no longer than `longest`: the last
/// one ends with the limit.
fn attempt_within(limit: Duration, longest: Duration) -> Duration {
    let attempts = limit.as_millis().div_ceil(longest.as_millis().max(1)).max(1);
    (limit / u32::try_from(attempts).unwrap_or(u32::MAX)).max(LEAST_ATTEMPT)
}

fn within<T: PartialOrd + Display>(key: &str, value: T, (least, most): (T, T)) -> Result<T, String> {
    match value >= least && value <= most {
        true => Ok(value),
        false => Err(format!("{key} is {value}; expected {least} to {most}")),
    }
}

/// Bytes, as a number or a text with a unit.
fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected bytes, as 1000000 or with a unit, as \"64MiB\"")]
    enum Size {
        Bytes(u64),
        Text(String),
    }
    match Size::deserialize(deserializer)? {
        Size::Bytes(bytes) => Ok(Some(bytes)),
        // Both are sizes from one byte up, written the same way.
        Size::Text(text) => text.parse::<StripeUnit>().map(|size| Some(size.bytes())).map_err(|_| {
            serde::de::Error::custom(format!(
                "\"{text}\" is no size; expected bytes, as 1000000, or with a unit, as 64MiB"
            ))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--patience 2s` ended after 16 s: two attempts of 8 s.
    #[test]
    fn attempts_end_with_the_patience() {
        let longest = Duration::from_secs(8);
        for (limit_s, attempts) in [(2_u32, 1), (8, 1), (9, 2), (20, 3), (600, 75)] {
            let limit = Duration::from_secs(limit_s.into());
            let attempt = attempt_within(limit, longest);
            assert!(attempt <= longest && attempt * attempts <= limit, "{limit_s} s: {attempt:?}");
            assert!(attempt * (attempts + 1) > limit, "{limit_s} s: {attempt:?}");
        }
        assert_eq!(attempt_within(Duration::from_millis(1), longest), LEAST_ATTEMPT);
    }
}
