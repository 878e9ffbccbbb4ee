//! The plans that repeat the thesis's figures; docs/evaluation.md says what the thesis leaves open.

use clap::ValueEnum;

use crate::plan::{LawTable, Layers, Measure, Mobility, Pairs, Plan, Sampling};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    /// Figure 41: how the suspects of the bottleneck hunting loop decrease
    #[value(name = "thesis-41")]
    Thesis41,
    /// Figure 42: FEC(p)/M for M = 1 to 10
    #[value(name = "thesis-42")]
    Thesis42,
    /// Figure 43: ROR against the layer for 15 tolerances, in seven sets of frames
    #[value(name = "thesis-43")]
    Thesis43,
    /// Figure 44: short against large blocks, in four sets of frames
    #[value(name = "thesis-44")]
    Thesis44,
}

/// Directed links per node of the thesis's 300-node networks: 2,555.7 on average [thesis §4.2.3, theory §2].
const DEGREE_OF_300: f64 = 8.52;

/// Directed links per node of the thesis's 180-node network: 1,374 links [thesis figure 30]. It is the nearest in size
/// to the networks of figures 43 and 44, of which the thesis does not tell.
const DEGREE_OF_180: f64 = 7.6;

impl Preset {
    pub(crate) fn plan(self) -> Plan {
        match self {
            // 200 networks that have nothing to do with one another.
            Self::Thesis41 => Plan::Sampling(Box::new(Sampling {
                measure: Measure::Hunt,
                runs: 200,
                mean_degree: Some(DEGREE_OF_300),
                tolerances: Vec::new(),
                ..walk(300, 1, 1)
            })),
            Self::Thesis42 => Plan::Law(LawTable {
                measure: Measure::Law,
                m: (1..=10).collect(),
                der: ror::DEFAULT_DECODING_ERROR_RATE,
                p: (0..=100).map(|step| f64::from(step) / 200.0).collect(),
            }),
            Self::Thesis43 => Plan::Sampling(Box::new(walk(115, 300, 7))),
            Self::Thesis44 => Plan::Sampling(Box::new(walk(120, 150, 4))),
        }
    }
}

/// Frames of a random walk, layers 1 to 10, tolerances 3.6 % to 7.8 % in steps of 0.3 %.
fn walk(nodes: i64, frames: i64, sets: i64) -> Sampling {
    Sampling {
        measure: Measure::Ror,
        seed: 1,
        nodes,
        area: None,
        mean_degree: Some(DEGREE_OF_180),
        range: 100.0,
        mobility: Mobility::RandomWalk,
        speed: Some([5.0, 15.0]),
        leg: Some(10.0),
        pause: None,
        mean_speed: None,
        deviation: None,
        memory: None,
        group_size: None,
        group_radius: None,
        interval: 10.0,
        frames,
        sets,
        runs: 1,
        pairs: Pairs::Drawn(1),
        layers: Layers::UpTo(10),
        tolerances: (0..15).map(|step| f64::from(36 + 3 * step) / 1000.0).collect(),
        m: i64::from(ror::DEFAULT_SOURCE_PACKETS),
        der: ror::DEFAULT_DECODING_ERROR_RATE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_preset_prints_is_its_plan() {
        for preset in Preset::value_variants() {
            let plan = preset.plan();
            assert_eq!(Plan::parse(&plan.toml()), Ok(plan));
        }
    }
}
