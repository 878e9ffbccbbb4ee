//! `sfio diff`: what changed from one generation to another.

use std::sync::Arc;

use program::output::Results;
use serde_json::json;
use sfio_remote::io::replication::{Job, ManifestFile, Reading, ReplicationError, Summary};
use sfio_remote::replication::{Difference, Entry, Generation, Merge, Metadata, TreePath};

use super::address::Address;
use super::board::Board;
use super::care::Care;
use super::report::counts;
use super::{failure, temporary_file, warn};
use crate::exit::{Exit, Failure, OrFail as _};

/// Say what changed from one generation of a data set to another
///
/// A line for each entry that is new, has other content (changed), has only other metadata (touched), or is gone
/// (deleted); then how many there are of each. The top of the tree is called `.`, as `sfio sync` calls it. Contents are
/// compared by their hashes, whatever the times say.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sfio diff --overlay try local:photos 3
  sfio diff --overlay try local:photos 3 5 --json")]
pub(crate) struct Options {
    /// The data set: SITE:NAME
    dataset: Address,

    /// The earlier generation
    #[arg(value_name = "FROM")]
    from: u64,

    /// The later generation; without it the current one
    #[arg(value_name = "TO")]
    to: Option<u64>,

    /// Print JSON: an object for each difference
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    care: Care,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    options.care.work(&options.dataset, async |_, job| {
        let waiting = Board::of_waiting(Arc::clone(&job.meter));
        let loaded = load(&job, options).await;
        drop(waiting);
        let [from, to] = loaded.map_err(|error| failure(&options.dataset, &error))?;
        compare(&from, &to, options.json)
    })
}

/// A generation that is compared.
struct Side {
    top: Metadata,
    manifest: ManifestFile,
}

async fn load(job: &Job, options: &Options) -> Result<[Side; 2], ReplicationError> {
    let reading = Reading::begin(job).await?;
    warn(&reading.disagreements, &options.dataset);
    let (from, to) = (reading.generation(Some(options.from))?, reading.generation(options.to)?);
    let side = async |generation: &Generation| {
        let manifest = reading.manifest(generation).await?;
        Ok::<_, ReplicationError>(Side { top: generation.top.clone(), manifest })
    };
    Ok([side(from).await?, side(to).await?])
}

fn compare(from: &Side, to: &Side, json: bool) -> Result<(), Failure> {
    let has_other_top = from.top != to.top;
    let [mut from, mut to] = [
        from.manifest.entries().or_fail(Exit::Failed, temporary_file())?,
        to.manifest.entries().or_fail(Exit::Failed, temporary_file())?,
    ];
    let mut results = Results::open(None)?;
    let mut summary = Summary { touched: u64::from(has_other_top), ..Summary::default() };
    if has_other_top {
        results.line(row("touched", &TreePath::top(), [None, None], json))?;
    }
    // Contents are compared here, whatever the times say.
    let merge = Merge { distrusts_times: true };
    let (mut old, mut new) = (None, None);
    loop {
        if old.is_none() {
            old = from.read().or_fail(Exit::Integrity, "a manifest")?;
        }
        if new.is_none() {
            new = to.read().or_fail(Exit::Integrity, "a manifest")?;
        }
        let Some(difference) = merge.next(&mut old, &mut new) else { break };
        let Some((word, old, new)) = judge(difference, &mut summary) else { continue };
        let path = old.as_ref().or(new.as_ref()).map(|entry| &entry.path).expect("one of them has it");
        results.line(row(word, path, [old.as_ref(), new.as_ref()], json))?;
    }
    if !json {
        results.line(if summary.has_changes() { counts(&summary) } else { "no difference".to_owned() })?;
    }
    results.close()
}

/// What a difference is called, with the entry as it was and as it is; none if there is no difference.
fn judge(
    difference: Difference,
    summary: &mut Summary,
) -> Option<(&'static str, Option<Entry>, Option<Entry>)> {
    let (word, count, old, new) = match difference {
        Difference::Gone(old) => ("deleted", &mut summary.deleted, Some(old), None),
        Difference::New(new) => ("new", &mut summary.new, None, Some(new)),
        Difference::Changed { old, new } if !old.has_content_of(&new) => {
            ("changed", &mut summary.changed, Some(old), Some(new))
        }
        Difference::Changed { old, new } if old.metadata != new.metadata => {
            ("touched", &mut summary.touched, Some(old), Some(new))
        }
        Difference::Kept { entry, is_touched: true } => {
            ("touched", &mut summary.touched, Some(entry.clone()), Some(entry))
        }
        Difference::Changed { .. } | Difference::Kept { .. } => {
            summary.unchanged += 1;
            return None;
        }
    };
    *count += 1;
    Some((word, old, new))
}

/// A line for a difference; the top of a tree has no entries.
fn row(word: &str, path: &TreePath, [old, new]: [Option<&Entry>; 2], json: bool) -> String {
    if !json {
        return format!("{word:8} {path}");
    }
    let path = String::from_utf8_lossy(path.as_bytes());
    json!({ "change": word, "path": path, "old_bytes": old.map(Entry::size), "bytes": new.map(Entry::size) })
        .to_string()
}
