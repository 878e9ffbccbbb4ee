//! Sweep plans: TOML in, checked values out.

use std::path::Path;

use ror::BlockLaw;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// What a sweep measures on each of its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Measure {
    /// ROR by layer and tolerance.
    Ror,
    /// The bottleneck hunting loop of the linear program.
    Hunt,
    /// The block-length law.
    Law,
}

/// How nodes move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mobility {
    RandomWalk,
    RandomWaypoint,
    GaussMarkov,
    ReferencePointGroup,
}

/// Layers 1 to a count, or a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number of layers, or a list of layers counted from 1")]
pub(crate) enum Layers {
    UpTo(i64),
    Each(Vec<i64>),
}

/// A count of pairs drawn for each frame, or given pairs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number of pairs per frame, or a list of pairs [from, to]")]
pub(crate) enum Pairs {
    Drawn(i64),
    Given(Vec<[i64; 2]>),
}

/// A sweep over frames of mobile networks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sampling {
    #[serde(default = "ror_measure")]
    pub(crate) measure: Measure,
    /// Root of all random numbers.
    #[serde(default = "one")]
    pub(crate) seed: i64,
    pub(crate) nodes: i64,
    /// The two sides of the rectangle, m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) area: Option<[f64; 2]>,
    /// Instead of the area: links per node that a square of uniformly spread nodes has on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mean_degree: Option<f64>,
    /// Two nodes this near are linked, m.
    #[serde(default = "hundred")]
    pub(crate) range: f64,
    #[serde(default = "random_walk")]
    pub(crate) mobility: Mobility,
    /// Least and greatest speed, m/s. Which of the numbers from here to the radius a mobility has, and their defaults:
    /// see [`Self::settle`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) speed: Option<[f64; 2]>,
    /// How long a node keeps its velocity, s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) leg: Option<f64>,
    /// Shortest and longest pause, s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pause: Option<[f64; 2]>,
    /// Length of the mean velocity, m/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mean_speed: Option<f64>,
    /// The deviation of each coordinate of the velocity, m/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deviation: Option<f64>,
    /// How much of the velocity is that of the leg before, in [0, 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group_size: Option<i64>,
    /// How far members stray from their group's reference point, m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group_radius: Option<f64>,
    /// Time between frames, s.
    #[serde(default = "ten")]
    pub(crate) interval: f64,
    /// Frames of each sweep run.
    pub(crate) frames: i64,
    /// The number of sets of consecutive frames into which a sweep run falls.
    #[serde(default = "one")]
    pub(crate) sets: i64,
    /// Independent sweep runs.
    #[serde(default = "one")]
    pub(crate) runs: i64,
    #[serde(default = "one_pair")]
    pub(crate) pairs: Pairs,
    pub(crate) layers: Layers,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tolerances: Vec<f64>,
    #[serde(default = "twenty")]
    pub(crate) m: i64,
    #[serde(default = "default_rate")]
    pub(crate) der: f64,
}

/// A table of the block-length law.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LawTable {
    pub(crate) measure: Measure,
    pub(crate) m: Vec<i64>,
    #[serde(default = "default_rate")]
    pub(crate) der: f64,
    pub(crate) p: Vec<f64>,
}

/// What a sweep is to do, checked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Plan {
    Sampling(Box<Sampling>),
    Law(LawTable),
}

/// A key of a plan and what is wrong with its value.
#[derive(Debug, PartialEq)]
pub(crate) struct Problem {
    pub(crate) key: &'static str,
    pub(crate) reason: String,
}

fn problem<T>(key: &'static str, reason: impl Into<String>) -> Result<T, Problem> {
    Err(Problem { key, reason: reason.into() })
}

impl Plan {
    /// Reads a plan and checks it.
    pub(crate) fn load(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path).map_err(Failure::at(path))?;
        Self::parse(&text).map_err(|reason| Failure::Input(path.to_path_buf(), reason))
    }

    /// A plan from TOML; the error is one line that names the key.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        /// The key that says which plan it is.
        #[derive(Deserialize)]
        struct Kind {
            #[serde(default = "ror_measure")]
            measure: Measure,
        }
        let malformed = |error| malformed(text, &error);
        let kind: Kind = toml::from_str(text).map_err(malformed)?;
        let mut plan = match kind.measure {
            Measure::Law => Self::Law(toml::from_str(text).map_err(malformed)?),
            _ => Self::Sampling(toml::from_str(text).map_err(malformed)?),
        };
        plan.settle()
            .and_then(|()| plan.check())
            .map_err(|Problem { key, reason }| format!("{key}: {reason}"))?;
        Ok(plan)
    }

    /// The plan as TOML, with all that was left to defaults: equal plans give equal text.
    pub(crate) fn toml(&self) -> String {
        let text = match self {
            Self::Sampling(plan) => toml::to_string(plan),
            Self::Law(plan) => toml::to_string(plan),
        };
        text.expect("a plan is a table of numbers and words")
    }

    pub(crate) fn measure(&self) -> Measure {
        match self {
            Self::Sampling(plan) => plan.measure,
            Self::Law(plan) => plan.measure,
        }
    }

    /// How many work items there are.
    pub(crate) fn items(&self) -> u64 {
        match self {
            Self::Sampling(plan) => plan.items(),
            Self::Law(plan) => plan.m.len() as u64,
        }
    }

    fn settle(&mut self) -> Result<(), Problem> {
        match self {
            Self::Sampling(plan) => plan.settle(),
            Self::Law(_) => Ok(()),
        }
    }

    pub(crate) fn check(&self) -> Result<(), Problem> {
        match self {
            Self::Sampling(plan) => plan.check(),
            Self::Law(plan) => plan.check(),
        }
    }
}

/// One line for what the TOML reader says in several.
fn malformed(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().lines().collect::<Vec<_>>().join("; ");
    // What is missing has no place; it is given that of all the rest.
    let Some(span) = error.span().filter(|_| !message.starts_with("missing field")) else { return message };
    let line = text[..span.start].matches('\n').count() + 1;
    // The place is that of the value; the key stands before it.
    let whole = text.lines().nth(line - 1).unwrap_or_default();
    match whole.split_once('=').map(|(key, _)| key.trim()) {
        Some(key) if !message.contains(&format!("`{key}`")) => format!("line {line}: {key}: {message}"),
        _ => format!("line {line}: {message}"),
    }
}

impl Sampling {
    /// Gives the numbers of the mobility that are not there their defaults, and refuses those of other mobilities.
    fn settle(&mut self) -> Result<(), Problem> {
        use Mobility::{GaussMarkov, RandomWalk, RandomWaypoint, ReferencePointGroup};
        let mobility = self.mobility;
        let is = |those: &[Mobility]| those.contains(&mobility);
        settle("speed", &mut self.speed, [1.0, 5.0], is(&[RandomWalk, RandomWaypoint, ReferencePointGroup]))?;
        settle("leg", &mut self.leg, 10.0, is(&[RandomWalk, GaussMarkov, ReferencePointGroup]))?;
        settle("pause", &mut self.pause, [0.0, 0.0], is(&[RandomWaypoint, ReferencePointGroup]))?;
        settle("mean_speed", &mut self.mean_speed, 3.0, is(&[GaussMarkov]))?;
        settle("deviation", &mut self.deviation, 1.0, is(&[GaussMarkov]))?;
        settle("memory", &mut self.memory, 0.75, is(&[GaussMarkov]))?;
        settle("group_size", &mut self.group_size, 10, is(&[ReferencePointGroup]))?;
        settle("group_radius", &mut self.group_radius, self.range, is(&[ReferencePointGroup]))
    }

    pub(crate) fn layers(&self) -> Vec<u32> {
        match &self.layers {
            Layers::UpTo(last) => (1..=*last as u32).collect(),
            Layers::Each(layers) => layers.iter().map(|&layer| layer as u32).collect(),
        }
    }

    pub(crate) fn pairs_per_frame(&self) -> u64 {
        match &self.pairs {
            Pairs::Drawn(count) => *count as u64,
            Pairs::Given(pairs) => pairs.len() as u64,
        }
    }

    pub(crate) fn items(&self) -> u64 {
        self.runs as u64 * self.frames as u64 * self.pairs_per_frame()
    }

    fn check(&self) -> Result<(), Problem> {
        let count = |key, value: i64, most: i64| match value {
            value if (1..=most).contains(&value) => Ok(()),
            _ => problem(key, format!("{value} is not between 1 and {most}")),
        };
        if self.seed < 0 {
            return problem("seed", format!("{} must not be negative", self.seed));
        }
        if self.nodes < 2 {
            return problem("nodes", format!("{} is too few for a pair; at least 2 are needed", self.nodes));
        }
        count("nodes", self.nodes, 1_000_000)?;
        count("frames", self.frames, i64::from(i32::MAX))?;
        count("runs", self.runs, i64::from(i32::MAX))?;
        count("sets", self.sets, self.frames)?;
        self.check_scenario()?;
        self.check_pairs()?;
        self.check_layers()?;
        self.check_coding()
    }

    fn check_scenario(&self) -> Result<(), Problem> {
        let positive = |key, value: f64, unit: &str| match value {
            value if value.is_finite() && value > 0.0 => Ok(()),
            _ => problem(key, format!("{value} is no positive number of {unit}")),
        };
        positive("range", self.range, "metres")?;
        positive("interval", self.interval, "seconds")?;
        match (self.area, self.mean_degree) {
            (Some(sides), None) => sides.iter().try_for_each(|&side| positive("area", side, "metres")),
            (None, Some(_)) if !matches!(self.mobility, Mobility::RandomWalk | Mobility::GaussMarkov) => {
                problem("mean_degree", "this mobility does not keep nodes spread uniformly; give the area")
            }
            (None, Some(_)) => Ok(()),
            (Some(_), Some(_)) => problem("mean_degree", "give either the area or the mean degree, not both"),
            (None, None) => problem("area", "give either the area or the mean degree"),
        }
    }

    fn check_pairs(&self) -> Result<(), Problem> {
        match &self.pairs {
            Pairs::Drawn(count) if *count < 1 => {
                problem("pairs", format!("{count} pairs; at least 1 is needed"))
            }
            Pairs::Given(pairs) if pairs.is_empty() => problem("pairs", "the list is empty"),
            Pairs::Given(pairs) => pairs.iter().try_for_each(|&[from, to]| {
                let known = 0..self.nodes;
                match [from, to].into_iter().find(|node| !known.contains(node)) {
                    Some(node) => problem(
                        "pairs",
                        format!("there is no node {node}; nodes are 0 to {}", self.nodes - 1),
                    ),
                    None if from == to => problem("pairs", format!("[{from}, {to}] is one node, not a pair")),
                    None => Ok(()),
                }
            }),
            Pairs::Drawn(_) => Ok(()),
        }?;
        let items = (self.runs as u64).checked_mul(self.frames as u64);
        match items.and_then(|items| items.checked_mul(self.pairs_per_frame())) {
            Some(items) if i64::try_from(items).is_ok() => Ok(()),
            _ => problem("pairs", "runs × frames × pairs is more than 2⁶³ items"),
        }
    }

    fn check_layers(&self) -> Result<(), Problem> {
        const MOST: i64 = 100_000;
        let layers = match &self.layers {
            Layers::UpTo(last) => vec![*last],
            Layers::Each(layers) => layers.clone(),
        };
        if layers.is_empty() {
            return problem("layers", "the list is empty");
        }
        if let Some(layer) = layers.iter().find(|layer| !(1..=MOST).contains(*layer)) {
            return problem("layers", format!("there is no layer {layer}; layers are counted from 1"));
        }
        if layers.windows(2).any(|pair| pair[0] >= pair[1]) {
            return problem("layers", "they must rise, each standing once");
        }
        if self.measure == Measure::Hunt && matches!(self.layers, Layers::Each(_)) {
            return problem(
                "layers",
                "the hunt goes through all layers up to one; give a number, not a list",
            );
        }
        Ok(())
    }

    fn check_coding(&self) -> Result<(), Problem> {
        let law = law(self.m, self.der)?;
        match (self.measure, self.tolerances.is_empty()) {
            (Measure::Ror, true) => return problem("tolerances", "the list is empty"),
            (Measure::Hunt, false) => return problem("tolerances", "the hunt has none; leave them out"),
            _ => {}
        }
        for &tolerance in &self.tolerances {
            if let Err(error) = law.block_length(tolerance) {
                return problem("tolerances", error.to_string());
            }
        }
        if self.tolerances.windows(2).any(|pair| pair[0] >= pair[1]) {
            return problem("tolerances", "they must rise, each standing once");
        }
        Ok(())
    }
}

impl LawTable {
    fn check(&self) -> Result<(), Problem> {
        if self.m.is_empty() {
            return problem("m", "the list is empty");
        }
        if self.p.is_empty() {
            return problem("p", "the list is empty");
        }
        for &m in &self.m {
            let law = law(m, self.der)?;
            for &p in &self.p {
                if let Err(error) = law.block_length(p) {
                    return problem("p", error.to_string());
                }
            }
        }
        Ok(())
    }
}

/// The law of a plan's keys `m` and `der`.
pub(crate) fn law(m: i64, der: f64) -> Result<BlockLaw, Problem> {
    let Ok(packets) = u32::try_from(m) else {
        return problem("m", format!("{m} is no number of source packets"));
    };
    BlockLaw::new(packets, der).or_else(|error| match error {
        ror::BlockError::BadRate { .. } => problem("der", error.to_string()),
        _ => problem("m", error.to_string()),
    })
}

/// A value of one mobility: its default if it is not given, nothing if it belongs to others.
fn settle<T>(key: &'static str, value: &mut Option<T>, default: T, belongs: bool) -> Result<(), Problem> {
    match (belongs, value.is_some()) {
        (false, true) => return problem(key, "this mobility has none; leave it out"),
        (true, false) => *value = Some(default),
        _ => {}
    }
    Ok(())
}

fn ror_measure() -> Measure {
    Measure::Ror
}

fn one() -> i64 {
    1
}

fn ten() -> f64 {
    10.0
}

fn hundred() -> f64 {
    100.0
}

fn random_walk() -> Mobility {
    Mobility::RandomWalk
}

fn one_pair() -> Pairs {
    Pairs::Drawn(1)
}

fn twenty() -> i64 {
    i64::from(ror::DEFAULT_SOURCE_PACKETS)
}

fn default_rate() -> f64 {
    ror::DEFAULT_DECODING_ERROR_RATE
}
