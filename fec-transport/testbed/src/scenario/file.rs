//! The form of a scenario file: what serde reads, before anything is checked against anything else.

use std::collections::BTreeMap;

use serde::Deserialize;

use fec_transport::config::Config;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioFile {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    /// The name of the same scenario without masks: what masking costs is the difference.
    pub(super) unmasked: Option<String>,
    #[serde(default = "first_seed")]
    pub(super) seed: u64,
    /// Seconds before anything is measured.
    #[serde(default = "default_warm_up")]
    pub(super) warm_up_s: f64,
    /// Seconds that are measured.
    #[serde(default = "default_duration")]
    pub(super) duration_s: f64,
    pub(super) topology: TopologyTable,
    #[serde(default)]
    pub(super) config: Config,
    #[serde(default)]
    pub(super) flow: Vec<FlowTable>,
    #[serde(default)]
    pub(super) competitor: Vec<CompetitorTable>,
    #[serde(default)]
    pub(super) pauses: Vec<PausesTable>,
    #[serde(default)]
    pub(super) event: Vec<EventTable>,
    /// Metric to bound, as `ratio = ">= 0.95"`.
    #[serde(default)]
    pub(super) expect: BTreeMap<String, Bounds>,
    /// Read by [`super::grid`] before; here it only may be there.
    #[serde(default, rename = "grid")]
    _grid: Option<toml::Value>,
}

fn first_seed() -> u64 {
    1
}

fn default_warm_up() -> f64 {
    5.0
}

fn default_duration() -> f64 {
    30.0
}

/// One bound or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Bounds {
    One(String),
    Many(Vec<String>),
}

impl Bounds {
    pub(super) fn texts(&self) -> &[String] {
        match self {
            Bounds::One(bound) => std::slice::from_ref(bound),
            Bounds::Many(bounds) => bounds,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TopologyTable {
    /// Equal or unequal paths client – r1 – server, client – r2 – server, ….
    pub(super) parallel: Option<ParallelTable>,
    /// A topology file in any of capillary's formats.
    pub(super) file: Option<FileTable>,
    /// Names of members that only open sessions; with `relays`, `servers` and `link` an overlay written out.
    #[serde(default)]
    pub(super) clients: Vec<String>,
    #[serde(default)]
    pub(super) relays: Vec<String>,
    #[serde(default)]
    pub(super) servers: Vec<String>,
    #[serde(default)]
    pub(super) link: Vec<LinkTable>,
    /// Whether the overlay file gives the links' rates as capacities.
    #[serde(default)]
    pub(super) known_capacities: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ParallelTable {
    pub(super) paths: usize,
    #[serde(default)]
    pub(super) rate_mbit: Option<PerPath>,
    #[serde(default)]
    pub(super) round_trip_ms: Option<PerPath>,
    #[serde(default)]
    pub(super) loss: Option<PerPath>,
    #[serde(default)]
    pub(super) mean_burst: Option<f64>,
    #[serde(default)]
    pub(super) queue_ms: Option<PerPath>,
}

/// One number for all paths, or one for each.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum PerPath {
    All(f64),
    Each(Vec<f64>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileTable {
    /// Relative to the scenario file.
    pub(super) path: String,
    /// The nodes of the two ends, by name; every other node relays.
    pub(super) from: String,
    pub(super) to: String,
    /// What every link is like.
    #[serde(default)]
    pub(super) links: Shape,
}

#[derive(Debug, Deserialize)]
pub(super) struct LinkTable {
    pub(super) a: String,
    pub(super) b: String,
    /// Tells it from other links between the same two members.
    #[serde(default)]
    pub(super) name: String,
    /// What is different in the direction from b to a.
    pub(super) back: Option<Shape>,
    /// A [`Shape`]; serde cannot check unknown keys of what is flattened.
    #[serde(flatten)]
    pub(super) shape: toml::Table,
}

/// What one direction of a link is like; what is left out stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shape {
    pub(super) rate_mbit: Option<f64>,
    pub(super) delay_ms: Option<f64>,
    pub(super) jitter_ms: Option<f64>,
    pub(super) loss: Option<f64>,
    /// Mean length of a burst of losses in packets; with 0 losses are independent.
    pub(super) mean_burst: Option<f64>,
    /// The queue's length as time at the link's rate.
    pub(super) queue_ms: Option<f64>,
    /// The share of packets that are held back, and by how much.
    pub(super) reordering: Option<f64>,
    pub(super) reordering_ms: Option<f64>,
    pub(super) duplication: Option<f64>,
    pub(super) corruption: Option<f64>,
    /// The largest packet that the link carries, IP header included.
    pub(super) mtu: Option<u32>,
    /// A token bucket in front of the queue; 0 takes it away.
    pub(super) policer_mbit: Option<f64>,
    /// What the bucket holds, as time at its rate.
    pub(super) policer_burst_ms: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowTable {
    /// For the table and for expectations; `flow1`, `flow2`, … where it is left out.
    pub(super) name: Option<String>,
    #[serde(default = "client")]
    pub(super) from: String,
    #[serde(default = "server")]
    pub(super) to: String,
    #[serde(default)]
    pub(super) class: FlowClass,
    /// How long a real-time block may take.
    #[serde(default = "default_deadline")]
    pub(super) deadline_ms: f64,
    #[serde(default)]
    pub(super) start_s: f64,
    pub(super) stop_s: Option<f64>,
    /// How much a bulk flow sends; without end where it is left out.
    pub(super) bytes: Option<u64>,
    /// Messages at a steady rate instead of bytes as fast as possible.
    pub(super) messages: Option<MessagesTable>,
    /// Whether the receiver reads in order instead of by blocks.
    #[serde(default)]
    pub(super) in_order: bool,
}

fn default_deadline() -> f64 {
    200.0
}

fn client() -> String {
    "client".to_owned()
}

fn server() -> String {
    "server".to_owned()
}

/// The class of a flow's stream (design §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FlowClass {
    /// Large blocks, small redundancy, repair.
    #[default]
    Bulk,
    /// Small blocks that arrive at the first try.
    Interactive,
    /// Interactive with a deadline.
    RealTime,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MessagesTable {
    pub(super) per_s: f64,
    pub(super) bytes: u64,
    /// Within how many ms of being written a message is in time; for the metric `on_time`.
    pub(super) within_ms: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CompetitorTable {
    /// The members whose links it crosses, in order.
    pub(super) over: Vec<String>,
    /// Its round trip without queues.
    pub(super) round_trip_ms: f64,
    #[serde(default)]
    pub(super) start_s: f64,
    pub(super) stop_s: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PausesTable {
    pub(super) members: Vec<String>,
    /// How long they run between two pauses, on average.
    pub(super) every_ms: f64,
    /// The shortest and the longest pause.
    pub(super) for_ms: [f64; 2],
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventTable {
    /// Seconds since the start of the simulation, warm-up included.
    pub(super) at_s: f64,
    /// After how many seconds everything is again as before; never where it is left out.
    pub(super) for_s: Option<f64>,
    /// After how many seconds it happens again, and so on, as long as it is over before the run is.
    pub(super) again_s: Option<f64>,
    #[serde(default)]
    pub(super) links: Links,
    /// The links are concerned one after the other, this many seconds apart.
    pub(super) every_s: Option<f64>,
    #[serde(default)]
    pub(super) members: Vec<String>,
    /// The links die and the members crash.
    #[serde(default)]
    pub(super) fail: bool,
    /// What changes about the links.
    pub(super) set: Option<Shape>,
    /// Whether it changes only in the direction in which the link was written down.
    #[serde(default)]
    pub(super) one_way: bool,
}

/// Which links an event concerns.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Links {
    /// `"all"`, or `"planned"`: those that the plans of the flows use.
    Named(String),
    /// Pairs of members; behind them the name of a link, or all links between the two are meant.
    Listed(Vec<Vec<String>>),
}

impl Default for Links {
    fn default() -> Links {
        Links::Listed(Vec::new())
    }
}
