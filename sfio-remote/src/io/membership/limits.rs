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
}

impl MemberLimits {
    /// The endpoint's limits, and otherwise the defaults.
    pub(super) fn endpoint(&self) -> Config {
        let MemberLimits { limits, policing, patience, .. } = self.clone();
        let liveness = Liveness { patience, ..Liveness::default() };
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
    let checked = MemberLimits { limits, policing, io_node: io_node.check()?, patience };
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
