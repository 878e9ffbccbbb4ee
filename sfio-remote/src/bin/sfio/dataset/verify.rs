//! `sfio verify`: reads everything back and names what differs.

use std::sync::Arc;

use indicatif::{BinaryBytes, HumanCount};
use sfio_remote::io::replication::{Meter, ReadAhead, ReplicationError, SiteStore, Store as _};

use super::{Choice, Opened, failure};
use crate::exit::{Exit, Failure, OrFail as _};
use crate::progress::Progress;

/// Read all of a data set from the disks and compare it with its checksums
///
/// Exit code 5 if something differs; each file that does is named.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  sfio verify --overlay try local:photos")]
pub(crate) struct Options {
    #[command(flatten)]
    choice: Choice,

    /// Print JSON: an object for each damaged file, and one in the end
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    options.choice.work(async |Opened { store, manifest, generation }| {
        let place = format!("generation {}", generation.number);
        let mut ahead = manifest.entries().or_fail(Exit::Failed, "a temporary file")?;
        // A manifest that breaks off is found below, where it is read for the second time.
        let chunks = std::iter::from_fn(|| ahead.read().ok().flatten())
            .flat_map(|entry| entry.chunks().copied().collect::<Vec<_>>());
        let mut chunks = ReadAhead::<SiteStore, _>::new(store.objects(), chunks);
        let (meter, progress) = (Arc::<Meter>::default(), Progress::new("verifying", Some(generation.bytes)));
        let mut entries = manifest.entries().or_fail(Exit::Failed, "a temporary file")?;
        let mut damaged = 0_u64;
        while let Some(entry) = entries.read().or_fail(Exit::Integrity, &place)? {
            let mut fault = None;
            for _ in entry.chunks() {
                match chunks.next(&meter).await {
                    Ok(Some((chunk, _))) => progress.advance(chunk.length.into()),
                    Ok(None) => break,
                    Err(error @ ReplicationError::Chunk { .. }) => fault = Some(error.to_string()),
                    // Bytes that are missing belong to this file; what concerns an I/O node concerns all.
                    Err(error) if failure(&options.choice.dataset, &error).exit == Exit::Integrity => {
                        fault = Some(error.to_string());
                    }
                    Err(error) => return Err(failure(&options.choice.dataset, &error)),
                }
            }
            if let Some(fault) = fault {
                damaged += 1;
                say(&entry.path.to_string(), &fault, options.json);
            }
        }
        progress.finish("verified");
        let (entries, bytes) = (generation.entries, generation.bytes);
        if options.json {
            println!("{}", serde_json::json!({ "event": "summary", "entries": entries, "bytes": bytes, "damaged": damaged }));
        } else if damaged == 0 {
            println!("{place}: {} entries, {}: all as they were stored", HumanCount(entries), BinaryBytes(bytes));
        }
        match damaged {
            0 => Ok(()),
            count => Err(Failure::new(Exit::Integrity, format!("{place}: {count} files are damaged"))),
        }
    })
}

fn say(path: &str, fault: &str, json: bool) {
    if json {
        println!("{}", serde_json::json!({ "event": "damaged", "path": path, "what": fault }));
    } else {
        println!("{path}: {fault}");
    }
}
