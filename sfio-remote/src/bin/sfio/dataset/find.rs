//! `sfio find`: in which generations there is what.

use std::collections::BTreeMap;
use std::sync::Arc;

use indicatif::HumanCount;
use program::output::Results;
use serde_json::json;
use sfio_remote::io::replication::{Filter, Job, Reading, ReplicationError};
use sfio_remote::replication::{Entry, EntryKind, Timestamp, TreePath};

use super::address::Address;
use super::board::Board;
use super::care::Care;
use super::{failure, temporary_file, warn};
use crate::exit::{Exit, Failure, OrFail as _};

/// Find files of a data set by their names, in all its generations
///
/// A line for each version of an entry that matches: the generations that have it, its size, and its path. The pattern
/// is one as in .gitignore: without a slash it matches names in any directory, with one it matches whole paths. `sfio
/// sync --generation NUMBER SITE:NAME/PATH TARGET` fetches what was found.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sfio find --overlay try local:photos '*.raw'
  sfio find --overlay try local:photos '/2026/**/index.html' --generation 3")]
pub(crate) struct Options {
    /// The data set: SITE:NAME
    dataset: Address,

    /// What to look for, as '*.raw'
    pattern: String,

    /// Look into this generation only
    #[arg(long, value_name = "NUMBER")]
    generation: Option<u64>,

    /// Print JSON: an object for each version
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    care: Care,
}

/// What tells versions of an entry apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    path: TreePath,
    /// None of a directory: its time is that of what is in it, and its versions are no news.
    modified: Option<Timestamp>,
    bytes: u64,
}

/// Each version, and the generations that have it.
type Found = BTreeMap<Version, Vec<u64>>;

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let filter = Filter::new([(true, options.pattern.clone())]).or_exit(Exit::Usage)?;
    options.care.work(&options.dataset, async |_, job| {
        let waiting = Board::of_waiting(Arc::clone(&job.meter));
        let found = search(&job, options, &filter).await;
        drop(waiting);
        let found = found?;
        if found.is_empty() {
            let message = format!("{}: no entry matches \"{}\"", options.dataset, options.pattern);
            return Err(Failure::new(Exit::Input, message));
        }
        print(&found, options.json)
    })
}

async fn search(job: &Job, options: &Options, filter: &Filter) -> Result<Found, Failure> {
    let failed = |error: ReplicationError| failure(&options.dataset, &error);
    let reading = Reading::begin(job).await.map_err(failed)?;
    warn(&reading.disagreements, &options.dataset);
    let generations = match options.generation {
        Some(number) => std::slice::from_ref(reading.generation(Some(number)).map_err(failed)?),
        None => &reading.record.generations,
    };
    let mut found = Found::new();
    for generation in generations {
        let manifest = reading.manifest(generation).await.map_err(failed)?;
        let mut entries = manifest.entries().or_fail(Exit::Failed, temporary_file())?;
        while let Some(entry) =
            entries.read().or_fail(Exit::Integrity, format!("generation {}", generation.number))?
        {
            if !filter.admits(&entry.path, entry.kind == EntryKind::Directory) {
                found.entry(Version::of(&entry)).or_default().push(generation.number);
            }
        }
    }
    Ok(found)
}

impl Version {
    fn of(entry: &Entry) -> Version {
        let modified = (entry.kind != EntryKind::Directory).then_some(entry.metadata.modified);
        Version { path: entry.path.clone(), modified, bytes: entry.size() }
    }
}

fn print(found: &Found, json: bool) -> Result<(), Failure> {
    let mut results = Results::open(None)?;
    for (Version { path, modified, bytes }, generations) in found {
        if json {
            let path = String::from_utf8_lossy(path.as_bytes());
            let modified = modified.map(|modified| modified.seconds);
            let row = json!({
                "path": path, "generations": generations, "bytes": bytes, "modified_s": modified,
                "directory": modified.is_none(),
            });
            results.line(row)?;
        } else {
            let slash = if modified.is_none() { "/" } else { "" };
            let (generations, bytes) = (in_ranges(generations), HumanCount(*bytes).to_string());
            results.line(format_args!("{generations:9} {bytes:>14} {path}{slash}"))?;
        }
    }
    results.close()
}

/// Ascending numbers, as 1-3,5.
fn in_ranges(numbers: &[u64]) -> String {
    let runs = numbers.chunk_by(|one, next| *next == one + 1);
    let text = |run: &[u64]| match run {
        [first, .., last] => format!("{first}-{last}"),
        [first] => first.to_string(),
        [] => String::new(),
    };
    runs.map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_row_become_a_range() {
        assert_eq!(in_ranges(&[1, 2, 3, 5, 7, 8]), "1-3,5,7-8");
        assert_eq!(in_ranges(&[4]), "4");
    }
}
