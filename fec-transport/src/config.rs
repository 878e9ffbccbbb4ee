//! Every limit and policy of a node: default, unit, reason.
//!
//! A [`Config`] can be written down as TOML: the keys are the fields' names, what is left out has its default, and a
//! time is a text such as `"250 ms"`.
//!
//! ```
//! let text = r#"
//!     [coding]
//!     symbol_size = 1168
//!     block_time = "50 ms"
//!     interactive = { mask = 0 }
//! "#;
//! let config: fec_transport::Config = toml::from_str(text)?;
//! assert_eq!(config.coding.block_time, std::time::Duration::from_millis(50));
//! # Ok::<(), toml::de::Error>(())
//! ```

mod validation;

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

pub use validation::ConfigError;

/// Limits and policies. The defaults suit a WAN of some 100 Mbit/s and 100 ms.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How blocks are formed and protected.
    pub coding: Coding,
    /// How fast a session sends.
    pub pace: Pace,
    /// When a path counts as dead, and how it is asked whether it lives.
    pub liveness: Liveness,
    /// Bounds on memory and tables.
    pub limits: Limits,
    /// How circuits are planned and kept.
    pub routing: Routing,
    /// How long a session's keys are used.
    pub sealing: Sealing,
    /// How much others may ask of this node.
    pub policing: Policing,
}

/// How blocks are formed and protected.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Coding {
    /// Bytes of an encoding symbol, a multiple of 8. Default 1,384: with 64 bytes of our headers and those of IP and
    /// UDP packets have 1,476 bytes, or 1,496 with IPv6, which an Ethernet carries.
    pub symbol_size: usize,
    /// The code of bulk blocks. Default [`Codec::Auto`].
    pub codec: Codec,
    /// For how long a bulk block fills the session's rate. Default 100 ms: larger blocks need less redundancy, but
    /// their data waits longer for its first repair.
    #[serde(deserialize_with = "time")]
    pub block_time: Duration,
    /// Source symbols of a bulk block, whatever the rate; from 64 to 1,024. Default 64 to 1,024, of which Reed–Solomon
    /// uses up to 224.
    pub bulk_symbols: RangeInclusive<usize>,
    /// Source symbols of an interactive block at most, from 1 to 224. Default 32.
    pub interactive_symbols: usize,
    /// How symbols are spread over the paths. Default [`Spreading::Quotas`].
    pub spread: Spreading,
    /// Links that carry a larger share of a block than this are not masked. Default 0.5: beyond, masking would more
    /// than double what is sent.
    pub mask_limit: f64,
    /// What bulk streams get.
    #[serde(deserialize_with = "bulk")]
    pub bulk: Protection,
    /// What interactive and real-time streams get.
    #[serde(deserialize_with = "interactive")]
    pub interactive: Protection,
}

/// Which erasure code bulk blocks get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Codec {
    /// Reed–Solomon wherever its 255 symbols suffice; RaptorQ where losses are so large, or come in so long bursts,
    /// that its longer blocks save much redundancy, and the rate is not beyond what it decodes (2 Gbit/s).
    Auto,
    /// Blocks of up to 224 symbols.
    ReedSolomon,
    /// Blocks of 64 to 1,024 symbols.
    RaptorQ,
}

/// How the symbols of a block are shared out among the paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spreading {
    /// Each path gets its share of every block by the weights, to the nearest symbol: a dead path takes a known number.
    Quotas,
    /// Each symbol draws its path by the weights, and the number of symbols follows the law of `ror`: the thesis's
    /// rule.
    Random,
}

/// What the paths' weights are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The plan's shares: the slowest path sets the pace.
    Resilient,
    /// The measured rates: every path is filled.
    Throughput,
}

/// How the blocks of a class of streams are protected.
#[derive(Debug, Clone)]
pub struct Protection {
    /// The loss, a share, that every first sending bears, whatever was measured (thesis §4.1). Default 0.
    pub tolerance: f64,
    /// The share of blocks that may need a repair after their first sending. Default 0.35 for bulk (at most 0.1 where
    /// blocks have fewer than 64 symbols), because repair is cheap (theory §3); 1e-6 for interactive.
    pub residual: f64,
    /// The loss of a path is taken to be at least this, unless its round trip is below 1 ms. Default 0 for bulk, 0.01
    /// for interactive.
    pub prior_loss: f64,
    /// How many links (0 or 1) may die without a block on the way needing a repair. Default 0 for bulk, 1 for
    /// interactive.
    pub mask: u8,
    /// Default [`Policy::Throughput`] for bulk, [`Policy::Resilient`] for interactive.
    pub policy: Policy,
    /// How long written bytes wait for a full block. Default 2 ms for bulk, 0 for interactive.
    pub block_timer: Duration,
}

/// How fast a session sends.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pace {
    /// Bytes per second on the wire, IP and UDP headers included, that all paths of a session together stay below; each
    /// path keeps 7.5 kB/s to measure itself by, which is the least that may stand here. Default none: what the network
    /// carries.
    pub limit: Option<u64>,
    /// Whether to compete for a link as a TCP flow with CUBIC does. Default false: beside a flow that fills the queue a
    /// session takes about a quarter, and alone or beside others of its kind it keeps the queue short either way.
    pub fair: bool,
}

/// When a path counts as dead, and how it is asked whether it lives.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Liveness {
    /// A path that is silent for so long beyond its round trip, with packets missing, leaves the schedule. Default 60
    /// ms.
    #[serde(deserialize_with = "time")]
    pub silence: Duration,
    /// A silent path leaves the schedule only if the probability that mere loss explains its silence is below this.
    /// Default 1e-6.
    pub doubt: f64,
    /// Whether dead paths leave the schedule at all. Default true; with false they keep their share of every block, all
    /// of it counted as lost, as in the thesis (§4.3.1): for experiments.
    pub removal: bool,
    /// How often a dead path is probed in its first minute; then a sixteenth of the time since it died passes from
    /// probe to probe, at most 10 s. Default 250 ms.
    #[serde(deserialize_with = "time")]
    pub probe_interval: Duration,
    /// How often a living path that carries nothing is probed. Default 1 s.
    #[serde(deserialize_with = "time")]
    pub keep_alive: Duration,
    /// A session that hears nothing for so long counts as out of reach, and its application is told. Default 4 s: an
    /// I/O node's death must be told within five.
    #[serde(deserialize_with = "time")]
    pub session_silence: Duration,
    /// A session that hears nothing for so long is over. Until then it keeps its streams, asks over all its paths, and
    /// goes on over whatever comes back. Default 60 s.
    #[serde(deserialize_with = "time")]
    pub patience: Duration,
    /// How long opening a session may take. Default 8 s.
    #[serde(deserialize_with = "time")]
    pub connect: Duration,
}

/// Bounds on memory and tables.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes that a stream takes from its writer before they form blocks. Default 4 MiB: two of the largest blocks.
    pub send_buffer: usize,
    /// Blocks of a session on the way at once. Default 2,048.
    pub open_blocks: usize,
    /// Bytes of a session on the way at once; credit usually allows less. Default 96 MiB: RaptorQ blocks that are
    /// being repaired take three times their size.
    pub send_memory: usize,
    /// Bytes that the peer may send on a new stream before the reader has taken any. Default 128 KiB.
    pub initial_window: u32,
    /// How many bytes that may grow to. Default 32 MiB: with blocks of 100 ms, 200 ms of round trip at 600 Mbit/s.
    pub max_window: u32,
    /// Bytes that all streams of a session may receive unread. Default 96 MiB, of which `streams × initial_window` are
    /// set aside for new streams.
    pub receive_memory: usize,
    /// Bytes by which the windows of all sessions of a node together may grow beyond their initial ones, and bytes that
    /// these sessions may hold unread before it asks who holds how much. Members share both, however many sessions each
    /// has: windows of a member grow by as much as it leaves free for others, and where more than this is unread, a
    /// member that holds more than an equal part gets no more. Default 1 GiB: many sessions share it, and few do not
    /// notice.
    pub node_receive_memory: usize,
    /// Bytes that all sessions of a node together may hold of what was written and is not acknowledged. Members share
    /// it like `node_receive_memory`; a session may hold 256 KiB in any case. Blocks that are being repaired take up to
    /// three times their size. Default 1 GiB.
    pub node_send_memory: usize,
    /// Streams that the peer may have open at once. Default 128: so many small requests share a round trip.
    pub streams: u32,
    /// Paths of a session at once, at most 32: what a report can describe. Default 16.
    pub paths: usize,
    /// Sessions of a node at once. Members that open them share the places: one may hold as many as it leaves free for
    /// others. Default 2,048, of which one member alone has half.
    pub sessions: usize,
    /// Circuits of others that a node keeps, relayed or ending here; originators share them like sessions. Default
    /// 16,384.
    pub circuits: usize,
    /// Circuits of one originator that a node keeps. Default 1,024.
    pub circuits_per_originator: usize,
    /// Circuits that came from one neighbour that a node keeps. Default 8,192: a neighbour relays for many.
    pub circuits_per_neighbour: usize,
    /// Members of a route, both ends included. Default 16, at most 64.
    pub max_route: usize,
    /// Bytes of others' datagrams that a relay holds for its socket; each member may have as many as it leaves free,
    /// and their lines take turns. Default 24 MiB, of which a member alone has half: 100 ms of 1 Gbit/s. At least 256
    /// KiB.
    pub relay_memory: usize,
    /// Neighbours' processes connected at once, shared by members like sessions. Default 2,048.
    pub neighbours: usize,
}

/// How circuits are planned and kept.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Routing {
    /// Paths of a session. Default 8: capillary layers beyond carry little each.
    pub max_paths: usize,
    /// The share of the planned flow that the paths must carry; the rest is left out. Default 0.97.
    pub cover: f64,
    /// How many layers of the capillary routing a plan follows; what they leave open goes the cheapest way (theory
    /// §1.5). Default none: all of them. Fewer layers make for fewer and shorter paths, with more on each link.
    pub layers: Option<NonZeroU32>,
    /// How long a circuit lives; it is replaced at four fifths of it. Default 10 min.
    #[serde(deserialize_with = "time")]
    pub circuit_lifetime: Duration,
    /// How long an answer to a set-up may take. Default 2 s.
    #[serde(deserialize_with = "time")]
    pub set_up_timeout: Duration,
    /// After how long without its path a route is set up anew; doubles up to 2 s. Default 500 ms.
    #[serde(deserialize_with = "time")]
    pub retry: Duration,
    /// How far clocks of members may differ. Default 2 min.
    #[serde(deserialize_with = "time")]
    pub clock_skew: Duration,
    /// Circuits through a neighbour that has been gone for so long are torn down. Default 75 s: longer than the
    /// patience of sessions, so that after an outage of everything they go on over the circuits that they had.
    #[serde(deserialize_with = "time")]
    pub neighbour_patience: Duration,
    /// Whether circuits that avoid a dead link are set up while it is dead. Default true; an experiment that is to see
    /// the planned routes alone says false.
    pub replan: bool,
    /// How long a path must have been dead before it counts as a sign of a dead link. Default 250 ms: paths that die of
    /// one link die within that time of one another.
    #[serde(deserialize_with = "time")]
    pub replan_after: Duration,
    /// How long all planned routes must have carried data again before those around the dead link are given up. Default
    /// 10 s: a link that flaps does not set up circuits each time.
    #[serde(deserialize_with = "time")]
    pub restore_after: Duration,
}

/// How long a session's keys are used (design §6).
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sealing {
    /// A new handshake makes new keys after so long. Default 2 min.
    #[serde(deserialize_with = "time")]
    pub epoch: Duration,
    /// A new handshake makes new keys also after so many packets of one direction over all paths. Default 2²⁷, half of
    /// what a key may seal at all.
    pub epoch_packets: u64,
}

/// How much others may ask of this node. Rates are long-run averages; a burst of one second's worth passes at once.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policing {
    /// Set-ups per second of one originator. Default none: no limit.
    pub set_ups_per_originator: Option<f64>,
    /// Set-ups per second that come from one neighbour. Default none.
    pub set_ups_per_neighbour: Option<f64>,
    /// Bit/s, datagrams with their IP and UDP headers, that are relayed for one originator. Default none.
    pub relayed_bps_per_originator: Option<f64>,
    /// Bit/s that are relayed from one neighbour. Default none.
    pub relayed_bps_per_neighbour: Option<f64>,
}

impl Default for Coding {
    fn default() -> Coding {
        Coding {
            symbol_size: 1_384,
            codec: Codec::Auto,
            block_time: Duration::from_millis(100),
            bulk_symbols: 64..=1_024,
            interactive_symbols: 32,
            spread: Spreading::Quotas,
            mask_limit: 0.5,
            bulk: Protection {
                tolerance: 0.0,
                residual: 0.35,
                prior_loss: 0.0,
                mask: 0,
                policy: Policy::Throughput,
                block_timer: Duration::from_millis(2),
            },
            interactive: Protection {
                tolerance: 0.0,
                residual: 1e-6,
                prior_loss: 0.01,
                mask: 1,
                policy: Policy::Resilient,
                block_timer: Duration::ZERO,
            },
        }
    }
}

impl Default for Liveness {
    fn default() -> Liveness {
        Liveness {
            silence: Duration::from_millis(60),
            doubt: 1e-6,
            removal: true,
            probe_interval: Duration::from_millis(250),
            keep_alive: Duration::from_secs(1),
            session_silence: Duration::from_secs(4),
            patience: Duration::from_secs(60),
            connect: Duration::from_secs(8),
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            send_buffer: 4 << 20,
            open_blocks: 2_048,
            send_memory: 96 << 20,
            initial_window: 128 << 10,
            max_window: 32 << 20,
            receive_memory: 96 << 20,
            node_receive_memory: 1 << 30,
            node_send_memory: 1 << 30,
            streams: 128,
            paths: 16,
            sessions: 2_048,
            circuits: 16_384,
            circuits_per_originator: 1_024,
            circuits_per_neighbour: 8_192,
            max_route: 16,
            relay_memory: 24 << 20,
            neighbours: 2_048,
        }
    }
}

impl Default for Routing {
    fn default() -> Routing {
        Routing {
            max_paths: 8,
            cover: 0.97,
            layers: None,
            circuit_lifetime: Duration::from_secs(600),
            set_up_timeout: Duration::from_secs(2),
            retry: Duration::from_millis(500),
            clock_skew: Duration::from_secs(120),
            neighbour_patience: Duration::from_secs(75),
            replan: true,
            replan_after: Duration::from_millis(250),
            restore_after: Duration::from_secs(10),
        }
    }
}

impl Default for Sealing {
    fn default() -> Sealing {
        Sealing { epoch: Duration::from_secs(120), epoch_packets: 1 << 27 }
    }
}

/// What a file may say of a class; what is left out keeps the default of that class.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProtectionFields {
    tolerance: Option<f64>,
    residual: Option<f64>,
    prior_loss: Option<f64>,
    mask: Option<u8>,
    policy: Option<Policy>,
    #[serde(default, deserialize_with = "optional_time")]
    block_timer: Option<Duration>,
}

impl ProtectionFields {
    fn over(self, default: Protection) -> Protection {
        Protection {
            tolerance: self.tolerance.unwrap_or(default.tolerance),
            residual: self.residual.unwrap_or(default.residual),
            prior_loss: self.prior_loss.unwrap_or(default.prior_loss),
            mask: self.mask.unwrap_or(default.mask),
            policy: self.policy.unwrap_or(default.policy),
            block_timer: self.block_timer.unwrap_or(default.block_timer),
        }
    }
}

fn bulk<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Protection, D::Error> {
    Ok(ProtectionFields::deserialize(deserializer)?.over(Coding::default().bulk))
}

fn interactive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Protection, D::Error> {
    Ok(ProtectionFields::deserialize(deserializer)?.over(Coding::default().interactive))
}

fn optional_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    time(deserializer).map(Some)
}

/// Reads a time such as `"2 ms"` or `"10 min"`.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_time(&text).ok_or_else(|| {
        serde::de::Error::custom(format!(
            "\"{text}\" is no time: expected a number with ms, s or min, as \"250 ms\""
        ))
    })
}

fn parse_time(text: &str) -> Option<Duration> {
    let (number, unit) = text.trim().split_at(text.trim().find(|c: char| c.is_ascii_alphabetic())?);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.trim().parse::<f64>().ok()? * seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_its_default_and_what_is_unknown_is_named() {
        let config: Config = toml::from_str("[liveness]\nsilence = \"0.1 s\"").expect("a right config");
        assert_eq!(config.liveness.silence, Duration::from_millis(100));
        assert_eq!(config.liveness.keep_alive, Liveness::default().keep_alive);
        let error = toml::from_str::<Config>("[liveness]\nsilense = \"1 s\"").unwrap_err();
        assert!(error.message().contains("unknown field `silense`"), "{error}");
        let error = toml::from_str::<Config>("[liveness]\nsilence = 60").unwrap_err();
        assert!(error.to_string().contains("silence = 60"), "{error}");
    }

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!(parse_time("2ms"), Some(Duration::from_millis(2)));
        assert_eq!(parse_time(" 1.5 min "), Some(Duration::from_secs(90)));
        for text in ["", "5", "ms", "-1 s", "1 h", "nan s"] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }
}
