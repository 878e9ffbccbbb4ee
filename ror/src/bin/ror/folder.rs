//! The folder of a sweep: its plan, journals of the shards under way, Parquet files of those that are finished.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::plan::Plan;

const PLAN: &str = "plan.toml";

/// The `index`-th of `count` parts of the items, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shard {
    pub(crate) index: u32,
    pub(crate) count: u32,
}

impl Shard {
    /// Reads `i/n`.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let usage = |reason: &str| Err(Failure::Usage(format!("--shard {text}: {reason}")));
        let numbers = text.split_once('/').map(|(index, count)| (index.parse(), count.parse()));
        let Some((Ok(index), Ok(count))) = numbers else {
            return usage(&format!("expected I/N, two whole numbers up to {}", u32::MAX));
        };
        match (index, count) {
            (0, _) => usage("shards are counted from 1"),
            (_, 0) => usage("there must be at least one shard"),
            (index, count) if index > count => usage(&format!("there is no shard {index} of {count}")),
            _ => Ok(Self { index, count }),
        }
    }

    /// The shard's items of so many; sizes differ by one at most.
    pub(crate) fn items(self, items: u64) -> Range<u64> {
        let start = |index: u32| (u128::from(items) * u128::from(index) / u128::from(self.count)) as u64;
        start(self.index - 1)..start(self.index)
    }

    /// The shard that a file of this name belongs to, whether finished or under way.
    fn of_file(name: &str) -> Option<Self> {
        let stem = [".parquet", ".journal"].iter().find_map(|end| name.strip_suffix(end))?;
        Self::parse(&stem.strip_prefix("shard-")?.replacen("-of-", "/", 1)).ok()
    }

    fn file(self, extension: &str) -> String {
        format!("shard-{}-of-{}.{extension}", self.index, self.count)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes the folder, or finds that it belongs to the same plan.
    pub(crate) fn of(path: &Path, plan: &Plan) -> Result<Self, Failure> {
        let refused = |what: String| Failure::Input(path.to_path_buf(), format!("--folder: {what}"));
        if path.exists() && !path.is_dir() {
            return Err(refused("it is a file; expected a folder, or a name that is free".into()));
        }
        std::fs::create_dir_all(path).map_err(Failure::at(path))?;
        let (own, text) = (path.join(PLAN), plan.toml());
        if !own.exists() {
            // Under another name first: other shards may look at any moment.
            let draft = path.join(format!("{PLAN}.{}", std::process::id()));
            std::fs::write(&draft, &text).map_err(Failure::at(&draft))?;
            std::fs::rename(&draft, &own).map_err(Failure::at(&own))?;
        }
        let found = std::fs::read_to_string(&own).map_err(Failure::at(&own))?;
        match difference(&found, &text) {
            None => Ok(Self { path: path.to_path_buf() }),
            Some(what) => Err(refused(format!("the folder holds another plan: {what}"))),
        }
    }

    /// Refuses a shard of another cut than those that are there: together they would make no whole.
    pub(crate) fn check_cut(&self, wanted: Shard) -> Result<(), Failure> {
        let files = self.files()?;
        match files.iter().find(|(shard, _)| shard.count != wanted.count) {
            None => Ok(()),
            Some((there, name)) => Err(Failure::Input(
                self.path.clone(),
                format!(
                    "--shard {wanted}: {name} is there, of a sweep cut into {}; expected --shard I/{0}, or \
                     another folder",
                    there.count
                ),
            )),
        }
    }

    /// The folder of a sweep that has been begun, and its plan.
    pub(crate) fn open(path: &Path) -> Result<(Self, Plan), Failure> {
        let plan = Plan::load(&path.join(PLAN))?;
        Ok((Self { path: path.to_path_buf() }, plan))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the rows of a finished shard are.
    pub(crate) fn rows(&self, shard: Shard) -> PathBuf {
        self.path.join(shard.file("parquet"))
    }

    /// Where a shard that is not finished keeps what it has.
    pub(crate) fn journal(&self, shard: Shard) -> PathBuf {
        self.path.join(shard.file("journal"))
    }

    /// All shards in order, every one of them finished.
    pub(crate) fn finished(&self) -> Result<Vec<Shard>, Failure> {
        let mut files = self.files()?;
        files.retain(|(_, name)| name.ends_with(".parquet"));
        let finished: BTreeSet<Shard> = files.iter().map(|(shard, _)| *shard).collect();
        let partial = |what: String| Err(Failure::Partial(self.path.clone(), what));
        let Some(count) = finished.first().map(|shard| shard.count) else {
            return partial("no shard is finished".into());
        };
        if finished.iter().any(|shard| shard.count != count) {
            return Err(Failure::Damaged(self.path.clone(), several_cuts(&finished)));
        }
        let all = (1..=count).map(|index| Shard { index, count });
        let missing: Vec<String> =
            all.clone().filter(|shard| !finished.contains(shard)).map(|shard| shard.to_string()).collect();
        if missing.is_empty() {
            Ok(all.collect())
        } else {
            partial(format!("missing: shard {}", missing.join(", ")))
        }
    }

    /// The files of shards, finished or under way, by their names.
    fn files(&self) -> Result<Vec<(Shard, String)>, Failure> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(Failure::at(&self.path))? {
            let name = entry.map_err(Failure::at(&self.path))?.file_name();
            let name = name.to_string_lossy().into_owned();
            files.extend(Shard::of_file(&name).map(|shard| (shard, name)));
        }
        files.sort_unstable();
        Ok(files)
    }
}

/// What is there of each cut, and what would be right.
fn several_cuts(finished: &BTreeSet<Shard>) -> String {
    let counts: BTreeSet<u32> = finished.iter().map(|shard| shard.count).collect();
    let cut = |&count: &u32| {
        let names: Vec<String> =
            finished.iter().filter(|shard| shard.count == count).map(|shard| shard.file("parquet")).collect();
        match names.as_slice() {
            [first, _, _, _, ..] => format!("{first} and {} more of {count}", names.len() - 1),
            names => names.join(", "),
        }
    };
    let cuts: Vec<String> = counts.iter().map(cut).collect();
    format!(
        "there are shards of {} cuts: {}; remove the files of all cuts but one",
        cuts.len(),
        cuts.join("; ")
    )
}

/// The first key in which two plans differ, and how.
fn difference(found: &str, wanted: &str) -> Option<String> {
    let table = |text: &str| text.parse::<toml::Table>().unwrap_or_default();
    let (found, wanted) = (table(found), table(wanted));
    let keys: BTreeSet<&String> = found.keys().chain(wanted.keys()).collect();
    let show =
        |table: &toml::Table, key: &str| table.get(key).map_or("absent".into(), toml::Value::to_string);
    let differs = keys.into_iter().find(|key| found.get(*key) != wanted.get(*key))?;
    Some(format!("{differs} is {} there and {} here", show(&found, differs), show(&wanted, differs)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_out_the_items_without_a_gap() {
        for (items, count) in [(0, 3), (1, 7), (300, 7), (1_000_000, 999), (u64::MAX / 2, 7)] {
            let mut next = 0;
            for index in 1..=count {
                let range = Shard { index, count }.items(items);
                assert_eq!(range.start, next);
                next = range.end;
            }
            assert_eq!(next, items);
        }
    }

    #[test]
    fn a_shard_that_is_none_is_told_in_one_line() {
        for (text, reason) in [
            ("8/7", "--shard 8/7: there is no shard 8 of 7"),
            ("0/7", "--shard 0/7: shards are counted from 1"),
            ("1/0", "--shard 1/0: there must be at least one shard"),
            ("one", "--shard one: expected I/N, two whole numbers up to 4294967295"),
            ("-1/7", "--shard -1/7: expected I/N, two whole numbers up to 4294967295"),
        ] {
            assert_eq!(Shard::parse(text).unwrap_err().to_string(), reason);
        }
    }

    #[test]
    fn files_of_several_cuts_are_named() {
        let shards = |count| (1..=count).map(move |index| Shard { index, count });
        let finished = shards(7).chain([Shard { index: 2, count: 5 }]).collect();
        assert_eq!(
            several_cuts(&finished),
            "there are shards of 2 cuts: shard-2-of-5.parquet; shard-1-of-7.parquet and 6 more of 7; remove \
             the files of all cuts but one"
        );
        assert_eq!(Shard::of_file("shard-2-of-5.journal"), Some(Shard { index: 2, count: 5 }));
        for name in ["plan.toml", "shard-2-of-5.parquet.unfinished", "shard-6-of-5.parquet"] {
            assert_eq!(Shard::of_file(name), None, "{name}");
        }
    }

    #[test]
    fn plans_that_differ_are_told_apart_by_a_key() {
        let told = difference("nodes = 115\nseed = 1\n", "nodes = 120\nseed = 1\n");
        assert_eq!(told.unwrap(), "nodes is 115 there and 120 here");
        assert_eq!(difference("a = 1\nb = 2\n", "b = 2\na = 1\n"), None);
        assert_eq!(difference("a = 1\n", "").unwrap(), "a is 1 there and absent here");
    }
}
