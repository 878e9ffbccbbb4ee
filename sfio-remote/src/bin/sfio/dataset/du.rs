//! `sfio du`: how large a generation is, and what it takes.

use std::collections::BTreeMap;

use indicatif::{BinaryBytes, HumanCount};
use program::Table;
use program::output::{self, Results};
use serde_json::json;
use sfio_remote::replication::Hash;

use super::{Choice, Opened, temporary_file};
use crate::exit::{Exit, Failure, OrFail as _};

/// Say how much space a data set takes
///
/// For each entry at the top: the size of its files, and what is stored of them, each chunk counted once where it comes
/// first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  sfio du --overlay try local:photos")]
pub(crate) struct Options {
    #[command(flatten)]
    choice: Choice,

    /// Print JSON: an object for each entry at the top
    #[arg(long)]
    json: bool,
}

#[derive(Default)]
struct Sizes {
    entries: u64,
    bytes: u64,
    stored: u64,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    options.choice.work(async |Opened { manifest, generation, .. }| {
        let mut entries = manifest.entries().or_fail(Exit::Failed, temporary_file())?;
        let mut sizes: BTreeMap<String, Sizes> = BTreeMap::new();
        let mut seen: BTreeMap<Hash, ()> = BTreeMap::new();
        while let Some(entry) =
            entries.read().or_fail(Exit::Integrity, format!("generation {}", generation.number))?
        {
            let top = entry.path.components().next().unwrap_or_default();
            let sum = sizes.entry(String::from_utf8_lossy(top).into_owned()).or_default();
            sum.entries += 1;
            sum.bytes += entry.size();
            for chunk in entry.chunks() {
                if seen.insert(chunk.hash, ()).is_none() {
                    sum.stored += u64::from(chunk.stored);
                }
            }
        }
        print(&sizes, options.json)
    })
}

fn print(sizes: &BTreeMap<String, Sizes>, json: bool) -> Result<(), Failure> {
    let mut total = Sizes::default();
    for sum in sizes.values() {
        total.entries += sum.entries;
        total.bytes += sum.bytes;
        total.stored += sum.stored;
    }
    let all = sizes.iter().map(|(name, sum)| (name.as_str(), sum)).chain([("total", &total)]);
    if json {
        let mut results = Results::open(None)?;
        for (name, Sizes { entries, bytes, stored }) in all {
            let row = json!({ "name": name, "entries": entries, "bytes": bytes, "stored_bytes": stored });
            results.line(row)?;
        }
        return results.close();
    }
    let mut table = Table::new(["size", "stored", "entries", "name"]);
    for (name, Sizes { entries, bytes, stored }) in all {
        let (bytes, stored) = (BinaryBytes(*bytes).to_string(), BinaryBytes(*stored).to_string());
        table.push(vec![bytes, stored, HumanCount(*entries).to_string(), name.escape_debug().to_string()]);
    }
    output::print(table.folded(output::columns(None)))
}
