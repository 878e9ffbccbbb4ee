//! A part of the scenarios: runs with all parts in turn play each scenario once.

use std::str::FromStr;

/// Those scenarios whose place in the list leaves the remainder `part` when it is divided by `of`. Neighbours in a
/// grid, which take about as long, go to different parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    part: usize,
    of: usize,
}

/// A text that names no part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a part and the number of parts, as 3/10: parts count from 0, so the part is less than their number"
)]
pub(crate) struct WrongShare;

impl Share {
    /// Whether the scenario in that place belongs to it.
    pub(crate) fn has(self, place: usize) -> bool {
        place % self.of == self.part
    }
}

impl FromStr for Share {
    type Err = WrongShare;

    fn from_str(text: &str) -> Result<Share, WrongShare> {
        let (part, of) = text.split_once('/').ok_or(WrongShare)?;
        let share = Share { part: number(part)?, of: number(of)? };
        if share.part < share.of { Ok(share) } else { Err(WrongShare) }
    }
}

fn number(text: &str) -> Result<usize, WrongShare> {
    text.parse().map_err(|_| WrongShare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_together_have_each_scenario_once() {
        let shares = (0..10).map(|part| format!("{part}/10").parse::<Share>().expect("a part"));
        let mut places: Vec<usize> =
            shares.flat_map(|share| (0..231).filter(move |place| share.has(*place))).collect();
        places.sort_unstable();
        assert_eq!(places, (0..231).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_no_part_is_refused() {
        for text in ["", "3", "3/", "/3", "3/3", "4/3", "0/0", "-1/3", "a/b", "1/2/3"] {
            assert_eq!(text.parse::<Share>(), Err(WrongShare), "{text}");
        }
    }
}
