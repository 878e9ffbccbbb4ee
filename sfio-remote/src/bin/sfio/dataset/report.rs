//! What `sfio sync` says about a run: each change, and a summary.

use std::io::Write as _;
use std::time::Instant;

use indicatif::{BinaryBytes, HumanCount};
use sfio_remote::io::replication::{Change, Mended, Meter, Summary};
use sfio_remote::replication::TreePath;

use super::sync::Options;
use crate::exit::{Exit, Failure};

/// Says each change, on standard output.
pub(super) fn teller(options: &Options) -> impl FnMut(Change, &TreePath) + Send + use<> {
    let (says, json) = (options.says_changes(), options.json);
    move |change, path| {
        let word = match change {
            Change::New => "new",
            Change::Changed => "changed",
            Change::Touched => "touched",
            Change::Mended => "mended",
            Change::Deleted => "deleted",
        };
        if !says {
            return;
        }
        // The reader of our output may have gone.
        let _ = match json {
            true => {
                let path = String::from_utf8_lossy(path.as_bytes());
                let event = serde_json::json!({ "event": "change", "change": word, "path": path });
                writeln!(std::io::stdout(), "{event}")
            }
            false => writeln!(std::io::stdout(), "{word:8} {path}"),
        };
    }
}

/// A run that came to its end.
pub(super) struct Report<'a> {
    pub(super) summary: &'a Summary,
    pub(super) meter: &'a Meter,
    pub(super) started: Instant,
    /// The generation that the target has now; none in a dry run.
    pub(super) generation: Option<u64>,
    /// Bytes that interrupted runs had stored.
    pub(super) resumed: u64,
    /// What was damaged and is whole again.
    pub(super) mended: Mended,
    /// The last line.
    pub(super) line: String,
}

/// The final summary, and a line for each thing that did not work.
pub(super) fn report(report: &Report<'_>, options: &Options) -> Result<(), Failure> {
    let Report { summary, meter, started, generation, resumed, mended, line } = report;
    let seconds = started.elapsed().as_secs_f64();
    let [done, moved, known] = [&meter.bytes_done, &meter.moved, &meter.known].map(Meter::get);
    for problem in &summary.problems {
        eprintln!("sfio: {problem}");
    }
    let Summary { new, changed, touched, unchanged, deleted, retained, files, .. } = *summary;
    if options.json {
        let event = serde_json::json!({
            "event": "summary", "generation": generation, "new": new, "changed": changed, "touched": touched,
            "unchanged": unchanged, "deleted": deleted, "retained": retained, "files": files, "bytes": done,
            "network_bytes": moved, "known_bytes": known, "resumed_bytes": resumed, "seconds": seconds,
            "mended_chunks": mended.chunks, "mended_bytes": mended.bytes, "damaged_chunks": mended.left,
            "problems": summary.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        println!("{event}");
    } else {
        println!("{}", counts(summary));
        println!(
            "{} in {} files; {} over the network, {} known; {seconds:.1} s",
            BinaryBytes(done),
            HumanCount(*files),
            BinaryBytes(moved),
            BinaryBytes(known)
        );
        if *resumed > 0 {
            println!("{} were there from an interrupted run", BinaryBytes(*resumed));
        }
        if mended.chunks > 0 {
            let (chunks, bytes) = (HumanCount(mended.chunks), BinaryBytes(mended.bytes));
            println!("{chunks} damaged chunks were sent again, {bytes}: they are whole in all generations");
        }
        if mended.left > 0 {
            println!(
                "{} chunks stay damaged: the source does not have their content",
                HumanCount(mended.left)
            );
        }
        println!("{line}");
    }
    match (summary.problems.len(), summary.damaged) {
        (0, _) => Ok(()),
        (count, 0) => Err(Failure::new(
            Exit::Partial,
            format!("{count} entries were left out; everything else is done"),
        )),
        (count, damaged) => Err(Failure::new(
            Exit::Integrity,
            format!(
                "{count} entries were left out, {damaged} of them because the site has lost or damaged their \
                 content; everything else is done"
            ),
        )),
    }
}

/// How many entries of each kind there are, without the kinds of which there are none.
fn counts(summary: &Summary) -> String {
    let Summary { new, changed, touched, mended, unchanged, deleted, retained, .. } = *summary;
    let all = [
        (new, "new"),
        (changed, "changed"),
        (touched, "touched"),
        (mended, "mended"),
        (unchanged, "unchanged"),
        (deleted, "deleted"),
        (retained, "retained"),
    ];
    let some = all.iter().filter(|(count, _)| *count > 0);
    let some: Vec<String> = some.map(|(count, word)| format!("{} {word}", HumanCount(*count))).collect();
    if some.is_empty() { "no entries".to_owned() } else { some.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_without_entries_are_not_mentioned() {
        assert_eq!(counts(&Summary::default()), "no entries");
        let some = Summary { new: 1_200, deleted: 3, ..Summary::default() };
        assert_eq!(counts(&some), "1,200 new, 3 deleted");
    }
}
