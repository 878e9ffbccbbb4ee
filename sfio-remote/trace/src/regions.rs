//! The regions of one call, as they stand in its line.
//!
//! Those that follow a rule are [runs](crate::runs). The others are listed, and what they have in common, their length,
//! is written once: a million regions of eight bytes at places that follow no rule take less than half of the time that
//! they took as so many arrays of two numbers, and most of that is compression.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::runs::Run;

/// Runs of at most so many regions are listed where another one stands beside them: any two regions are a run.
const SHORT_RUN: u64 = 2;

/// Regions of one call, all of the same length.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Regions {
    /// At equal distances: as JSON an array.
    Run(Run),
    /// Anywhere: as JSON an object.
    Listed(Listed),
}

/// Regions of equal length at places that follow no rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// How many bytes each of them has.
    bytes: u64,
    /// Where each of them begins, in the order of the call.
    offsets: Vec<u64>,
}

impl Regions {
    /// The regions of `runs`, in their order.
    pub fn gather(runs: impl IntoIterator<Item = Run>) -> Vec<Regions> {
        let mut gathered: Vec<Regions> = Vec::new();
        for run in runs {
            match gathered.last_mut() {
                Some(last) if last.goes_on_with(&run) => last.take(run),
                _ => gathered.push(Regions::Run(run)),
            }
        }
        gathered
    }

    /// Where each of them begins, and how many bytes it has.
    pub fn each(self) -> Box<dyn Iterator<Item = (u64, u64)>> {
        match self {
            Regions::Run(run) => Box::new(run.regions()),
            Regions::Listed(Listed { bytes, offsets }) => {
                Box::new(offsets.into_iter().map(move |offset| (offset, bytes)))
            }
        }
    }

    /// Whether all of them end at an offset that a file may have, and those of a run are as many as it may have.
    pub fn are_valid(&self) -> bool {
        match self {
            Regions::Run(run) => run.is_valid(),
            Regions::Listed(Listed { bytes, offsets }) => {
                offsets.iter().all(|offset| Run::one(*offset, *bytes).is_valid())
            }
        }
    }

    /// Whether a run that comes next is to be listed with these: neither follows a rule, and all have the same length.
    fn goes_on_with(&self, run: &Run) -> bool {
        let (is_short, own_bytes) = match self {
            Regions::Run(own) => (own.times <= SHORT_RUN, own.bytes),
            Regions::Listed(listed) => (true, listed.bytes),
        };
        is_short && run.times <= SHORT_RUN && run.bytes == own_bytes
    }

    /// Takes the regions of a run; from then on they are all listed.
    fn take(&mut self, run: Run) {
        let offsets = |run: Run| run.regions().map(|(offset, _)| offset);
        match self {
            Regions::Run(own) => {
                let offsets = offsets(*own).chain(offsets(run)).collect();
                *self = Regions::Listed(Listed { bytes: run.bytes, offsets });
            }
            Regions::Listed(listed) => listed.offsets.extend(offsets(run)),
        }
    }
}

impl<'de> Deserialize<'de> for Regions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Regions, D::Error> {
        struct ArrayOrObject;

        impl<'de> Visitor<'de> for ArrayOrObject {
            type Value = Regions;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "[offset, bytes], [offset, bytes, times, stride] or {\"bytes\":…,\"offsets\":[…]}",
                )
            }

            fn visit_seq<A: SeqAccess<'de>>(self, array: A) -> Result<Regions, A::Error> {
                Run::deserialize(SeqAccessDeserializer::new(array)).map(Regions::Run)
            }

            fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Regions, A::Error> {
                Listed::deserialize(MapAccessDeserializer::new(object)).map(Regions::Listed)
            }
        }

        deserializer.deserialize_any(ArrayOrObject)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::runs::runs;

    fn json(regions: &[(u64, u64)]) -> String {
        let gathered = Regions::gather(runs(regions.iter().copied()));
        serde_json::to_string(&gathered).expect("numbers can be written")
    }

    #[test]
    fn what_follows_a_rule_is_a_run_and_what_does_not_is_listed_by_its_length() {
        assert_eq!(json(&[(5, 8)]), "[[5,8]]");
        assert_eq!(json(&[(5, 8), (9, 8)]), "[[5,8,2,4]]");
        assert_eq!(json(&[(9, 8), (5, 8)]), r#"[{"bytes":8,"offsets":[9,5]}]"#);
        assert_eq!(json(&[(0, 8), (9, 8), (1, 8), (7, 3)]), r#"[{"bytes":8,"offsets":[0,9,1]},[7,3]]"#);
        let rule: Vec<(u64, u64)> = (0..9).map(|index| (100 + 10 * index, 8)).collect();
        let mixed = [&[(7, 8), (3, 8)], &rule[..], &[(6, 8), (2, 8)]].concat();
        // The last of the first list and the first one of the rule are a run of two, which is listed.
        let expected = r#"[{"bytes":8,"offsets":[7,3,100]},[110,8,8,10],{"bytes":8,"offsets":[6,2]}]"#;
        assert_eq!(json(&mixed), expected);
    }

    #[test]
    fn what_is_neither_is_an_error_that_says_what_would_be_right() {
        for (text, expected) in [
            (
                "7",
                "expected [offset, bytes], [offset, bytes, times, stride] or {\"bytes\":…,\"offsets\":[…]}",
            ),
            ("[1]", "expected [offset, bytes] or [offset, bytes, times, stride]"),
            ("{\"bytes\":8}", "missing field `offsets`"),
            ("{\"bytes\":8,\"offset\":[1]}", "unknown field `offset`, expected `bytes` or `offsets`"),
        ] {
            let error = serde_json::from_str::<Regions>(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn beyond_the_largest_file_there_are_no_regions() {
        let listed = |bytes, offset| Regions::Listed(Listed { bytes, offsets: vec![0, offset] });
        assert!(listed(1, i64::MAX as u64 - 1).are_valid());
        assert!(!listed(1, i64::MAX as u64).are_valid() && !listed(2, u64::MAX).are_valid());
    }

    proptest! {
        #[test]
        fn they_are_the_regions_that_they_were_made_of_before_and_after_they_are_read(
            regions in prop::collection::vec((0..6_u64, 1..3_u64), 0..40)
        ) {
            let gathered = Regions::gather(runs(regions.iter().copied()));
            prop_assert!(gathered.iter().all(Regions::are_valid));
            let read: Vec<Regions> = serde_json::from_str(&json(&regions)).expect("it was written");
            prop_assert_eq!(&read, &gathered);
            let each: Vec<(u64, u64)> = read.into_iter().flat_map(Regions::each).collect();
            prop_assert_eq!(each, regions);
        }
    }
}
