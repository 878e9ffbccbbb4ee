//! `sfio du`: how large a generation is, and what it takes.

use std::collections::BTreeMap;

use indicatif::{BinaryBytes, HumanCount};
use sfio_remote::replication::Hash;

use super::{Choice, Opened};
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
        let mut entries = manifest.entries().or_fail(Exit::Failed, "a temporary file")?;
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
        let mut total = Sizes::default();
        for (name, sum) in &sizes {
            print(name, sum, options.json);
            total.entries += sum.entries;
            total.bytes += sum.bytes;
            total.stored += sum.stored;
        }
        print("total", &total, options.json);
        Ok(())
    })
}

fn print(name: &str, sizes: &Sizes, json: bool) {
    let Sizes { entries, bytes, stored } = sizes;
    if json {
        println!(
            "{}",
            serde_json::json!({ "name": name, "entries": entries, "bytes": bytes, "stored_bytes": stored })
        );
    } else {
        let (bytes, stored) = (BinaryBytes(*bytes).to_string(), BinaryBytes(*stored).to_string());
        println!(
            "{bytes:>12} {stored:>12} stored {:>12} entries  {}",
            HumanCount(*entries).to_string(),
            name.escape_debug()
        );
    }
}
