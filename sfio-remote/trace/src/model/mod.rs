//! Workloads drawn from the numbers of `[charisma]`.
//!
//! A [`Model`] is TOML in which every parameter names its place in the study; [`Generator`] draws jobs from it. Counts
//! become decks of cards: as many as the study has jobs or files, shuffled anew when all are dealt. So 1,760 CMF jobs
//! open exactly 3,780 files, of which exactly 1,271 are only read, and more jobs differ from the study by less than one
//! deck.

mod access;
mod card;
mod deck;
mod generator;
mod layout;
mod request_stream;

use serde::{Deserialize, Serialize};

pub use generator::{Generator, Misfits};

/// A parameter, and where in the study it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placed<T> {
    /// A table, a figure or a section.
    pub place: String,
    /// What the study says, if it says it in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
    /// What is drawn from.
    pub value: T,
}

/// Who asks for bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asks {
    /// Jobs as a whole: data-parallel programs.
    Job,
    /// Processes: message-passing programs.
    Process,
}

/// How files are shared, in percent, in the rows of Tables 10 and 11.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharingRows {
    /// By bytes.
    pub byte: [f64; 6],
    /// By blocks.
    pub block: [f64; 6],
}

/// A workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// Who asks for bytes.
    pub asks: Asks,
    /// When the first day begins, UTC, in microseconds since the Unix epoch.
    pub first_day_us: Placed<u64>,
    /// How many jobs each day has.
    pub jobs_per_day: Placed<Vec<u64>>,
    /// How many jobs open 0, 1, …, 9, and 10 or more files.
    pub files_per_job: Placed<[u64; 11]>,
    /// Nodes of jobs: a number, and its weight.
    pub nodes: Placed<Vec<(u32, f64)>>,
    /// Durations of jobs in seconds: from, to, and the weight; within an interval logarithms are even.
    pub duration_s: Placed<Vec<(f64, f64, f64)>>,
    /// Files that are read, written, both, and neither.
    pub files: Placed<[u64; 4]>,
    /// How many of them are temporary.
    pub temporary: Placed<u64>,
    /// The share of files that are open for more than an hour.
    pub open_above_hour: Placed<f64>,
    /// Files with 0, 1, 2, 3, and 4 or more interval sizes.
    pub interval_sizes: Placed<[u64; 5]>,
    /// Files with 0, 1, 2, 3, and 4 or more request sizes.
    pub request_sizes: Placed<[u64; 5]>,
    /// How files that are only read are shared.
    pub sharing_read: Placed<SharingRows>,
    /// How files that are only written are shared.
    pub sharing_written: Placed<SharingRows>,
    /// How the others are.
    pub sharing_both: Placed<SharingRows>,
    /// The shares of files that are accessed more than 90 % consecutively: read, written, both.
    pub consecutive: Placed<[f64; 3]>,
    /// Of the files with one interval size the share in which it is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_interval_consecutive: Option<Placed<f64>>,
    /// Megabytes per file: read, written.
    pub megabytes_per_file: Placed<[f64; 2]>,
    /// The share of files above 10 MB.
    pub above_10_mb: Placed<f64>,
    /// The share of files above 10 GB; of these only a part is accessed.
    pub above_10_gb: Placed<f64>,
    /// Small requests: from, to (bytes), and their share of all.
    pub small_requests: Placed<(u64, u64, f64)>,
    /// Seconds between requests: from, to, weight.
    pub rewrite_s: Placed<Vec<(f64, f64, f64)>>,
    /// The share of repeated reads in loops, and how many seconds a loop takes.
    pub reread_loop: Placed<(f64, f64)>,
    /// The shares of the bytes in synchronous-sequential, global-independent, synchronous-broadcast and
    /// local-independent mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modes: Option<Placed<[f64; 4]>>,
}

/// Why a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// It is no model in TOML.
    #[error(transparent)]
    Toml(#[from] toml::de::Error),
    /// Its numbers do not fit together.
    #[error("{parameter}: {problem}")]
    Value {
        /// Which one.
        parameter: &'static str,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

/// Names of presets and their text.
pub const PRESETS: [(&str, &str); 2] = [
    ("charisma-cmf", include_str!("../../presets/charisma-cmf.toml")),
    ("charisma-cmmd", include_str!("../../presets/charisma-cmmd.toml")),
];

impl Model {
    /// One of the [`PRESETS`].
    pub fn preset(name: &str) -> Option<Model> {
        let (_, text) = PRESETS.iter().find(|(other, _)| *other == name)?;
        // A test reads all of them.
        text.parse().ok()
    }

    /// How the files of a class are shared: 0 read, 1 written, 2 both.
    fn sharing(&self, class: usize) -> &SharingRows {
        [&self.sharing_read.value, &self.sharing_written.value, &self.sharing_both.value][class]
    }

    fn check(&self) -> Result<(), ModelError> {
        self.check_counts()?;
        self.check_jobs()?;
        self.check_shares()?;
        self.check_mixtures()
    }

    /// Whether the tables of files have the same files.
    fn check_counts(&self) -> Result<(), ModelError> {
        let (files, untouched) = (sum(&self.files.value), self.files.value[3]);
        if files == untouched || files > MANY {
            return wrong("files", format!("{files} files; expected 1 to {MANY}, not all untouched"));
        }
        let tables =
            [("interval_sizes", &self.interval_sizes.value), ("request_sizes", &self.request_sizes.value)];
        for (name, counts) in tables {
            let found = sum(counts);
            if found != files {
                return wrong(name, format!("they add up to {found}; expected {files}, as `files` does"));
            }
        }
        if self.request_sizes.value[0] != untouched {
            return wrong(
                "request_sizes",
                format!("the first one differs from the {untouched} untouched files"),
            );
        }
        if self.interval_sizes.value[0] < untouched {
            return wrong(
                "interval_sizes",
                format!("the first one is below the {untouched} untouched files"),
            );
        }
        Ok(())
    }

    /// Whether there are jobs, and no more files opened than there are.
    fn check_jobs(&self) -> Result<(), ModelError> {
        let (jobs, files) = (sum(&self.files_per_job.value), sum(&self.files.value));
        let opened = self.files_per_job.value.iter().enumerate();
        let opened =
            opened.map(|(files, jobs)| jobs.saturating_mul(files as u64)).fold(0, u64::saturating_add);
        if jobs == 0 || jobs > MANY || opened > files {
            let problem = format!(
                "{jobs} jobs open at least {opened} files; expected 1 to {MANY} jobs that open at most {files}"
            );
            return wrong("files_per_job", problem);
        }
        if sum(&self.jobs_per_day.value) == 0 || sum(&self.jobs_per_day.value) > MANY {
            return wrong("jobs_per_day", format!("expected days with 1 to {MANY} jobs in all"));
        }
        Ok(())
    }

    fn check_shares(&self) -> Result<(), ModelError> {
        let (low, high, small) = self.small_requests.value;
        let shares = [
            ("open_above_hour", self.open_above_hour.value),
            ("above_10_mb", self.above_10_mb.value),
            ("above_10_gb", self.above_10_gb.value),
            ("consecutive", self.consecutive.value[0]),
            ("consecutive", self.consecutive.value[1]),
            ("consecutive", self.consecutive.value[2]),
        ];
        if let Some((name, share)) = shares.into_iter().find(|(_, share)| !(0.0..=1.0).contains(share)) {
            return wrong(name, format!("{share} is no share; expected 0 to 1"));
        }
        if !(0.0..=0.99).contains(&small) || low == 0 || low >= high || high > 1 << 30 {
            let expected = "expected a lower and an upper size, and a share of at most 0.99";
            return wrong("small_requests", expected.to_owned());
        }
        if !(0.0..=0.99).contains(&self.reread_loop.value.0)
            || !(0.0..1e9).contains(&self.reread_loop.value.1)
        {
            return wrong("reread_loop", "expected a share of at most 0.99, and seconds".to_owned());
        }
        Ok(())
    }

    fn check_mixtures(&self) -> Result<(), ModelError> {
        for (name, intervals) in
            [("duration_s", &self.duration_s.value), ("rewrite_s", &self.rewrite_s.value)]
        {
            let is_right = |(from, to, weight): &(f64, f64, f64)| {
                *from > 0.0 && to > from && *to < 1e9 && *weight >= 0.0
            };
            if intervals.is_empty() || !intervals.iter().all(is_right) {
                return wrong(name, "expected [from, to, weight] with 0 < from < to".to_owned());
            }
        }
        let nodes = &self.nodes.value;
        if nodes.is_empty() || !nodes.iter().all(|(count, weight)| *count >= 2 && *weight >= 0.0) {
            return wrong("nodes", "expected [nodes, weight] with 2 nodes or more".to_owned());
        }
        Ok(())
    }
}

/// Jobs or files of a deck at most.
const MANY: u64 = 1 << 24;

fn sum(counts: &[u64]) -> u64 {
    counts.iter().copied().fold(0, u64::saturating_add)
}

fn wrong(parameter: &'static str, problem: String) -> Result<(), ModelError> {
    Err(ModelError::Value { parameter, problem })
}

impl std::str::FromStr for Model {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Model, ModelError> {
        let model: Model = toml::from_str(text)?;
        model.check().map(|()| model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper;

    #[test]
    fn the_presets_have_the_papers_tables() {
        for (index, (name, _)) in PRESETS.iter().enumerate() {
            let model = Model::preset(name).unwrap_or_else(|| panic!("{name} is a model"));
            let totals = [paper::CMF_TOTALS, paper::CMMD_TOTALS][index];
            assert_eq!(model.files.value[..], totals.counts[2..6]);
            assert_eq!(model.temporary.value, totals.counts[6]);
            assert_eq!(model.files_per_job.value, paper::FILES_PER_JOB[index]);
            assert_eq!(model.interval_sizes.value, paper::INTERVAL_SIZES[index]);
            assert_eq!(model.request_sizes.value, paper::REQUEST_SIZES[index]);
            let days: Vec<u64> = match index {
                0 => paper::CMF_DAYS.iter().map(|day| day.counts[0]).collect(),
                _ => paper::CMMD_DAYS.iter().map(|day| day.counts[0]).collect(),
            };
            assert_eq!(model.jobs_per_day.value, days);
            for class in 0..3 {
                for row in 0..6 {
                    let [byte, block] = [0, 1].map(|unit| paper::SHARING[index][row][2 * class + unit]);
                    assert_eq!(
                        (model.sharing(class).byte[row], model.sharing(class).block[row]),
                        (byte, block)
                    );
                }
            }
        }
    }

    #[test]
    fn a_model_whose_numbers_do_not_add_up_is_refused() {
        let text = PRESETS[0].1;
        let wrong = text.replace("[4, 849, 1124", "[4, 850, 1124").parse::<Model>().unwrap_err().to_string();
        assert_eq!(wrong, "request_sizes: they add up to 3781; expected 3780, as `files` does");
        let unplaced = text.replace("place = \"Table 6\"\n", "").parse::<Model>().unwrap_err().to_string();
        assert!(unplaced.contains("missing field `place`"), "{unplaced}");
    }
}
