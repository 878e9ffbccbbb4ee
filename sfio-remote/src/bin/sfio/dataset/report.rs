//! What `sfio sync` says about a run: each change, and a summary.

use std::sync::Arc;
use std::time::Duration;

use indicatif::{BinaryBytes, HumanCount};
use program::output::Telling;
use serde_json::json;
use sfio_remote::io::replication::{Change, Mended, Meter, Summary};
use sfio_remote::replication::TreePath;

use super::counted;
use super::sync::Options;
use crate::exit::{Exit, Failure};

/// Says each change, if that is wanted.
pub(super) fn teller(
    options: &Options,
    telling: &Telling,
) -> impl FnMut(Change, &TreePath) + Send + 'static + use<> {
    let (says, json, telling) = (options.says_changes(), options.json, telling.clone());
    move |change, path| {
        let word = match change {
            Change::New => "new",
            Change::Changed => "changed",
            Change::Touched => "touched",
            Change::Mended => "mended",
            Change::Deleted => "deleted",
        };
        match (says, json) {
            (false, _) => {}
            (true, true) => {
                let path = String::from_utf8_lossy(path.as_bytes());
                telling.line(json!({ "event": "change", "change": word, "path": path }));
            }
            (true, false) => telling.line(format_args!("{word:8} {path}")),
        }
    }
}

/// A run that came to its end.
pub(super) struct Report {
    pub(super) summary: Summary,
    pub(super) meter: Arc<Meter>,
    /// Bytes of the files that were read, or that have arrived.
    pub(super) bytes: u64,
    pub(super) took: Duration,
    /// The generation that the target has now; none in a dry run.
    pub(super) generation: Option<u64>,
    /// Whether the target is another one than before.
    pub(super) is_new: bool,
    /// Bytes that interrupted runs had stored.
    pub(super) resumed: u64,
    /// What was damaged and is whole again.
    pub(super) mended: Mended,
    /// What is wrong beside what the run was about.
    pub(super) warnings: Vec<String>,
    /// The last line.
    pub(super) line: String,
}

impl Report {
    /// A line for each thing that did not work.
    pub(super) fn complaints(&self) -> Vec<String> {
        let problems = self.summary.problems.iter().map(ToString::to_string);
        self.warnings.iter().cloned().chain(problems).collect()
    }

    /// What the exit code says.
    ///
    /// # Errors
    /// If something was left out.
    pub(super) fn verdict(&self) -> Result<(), Failure> {
        let Summary { problems, damaged, without_space, .. } = &self.summary;
        let (exit, why) = match (damaged, without_space) {
            _ if problems.is_empty() => return Ok(()),
            (0, 0) => (Exit::Partial, String::new()),
            (0, _) => (Exit::NoSpace, String::new()),
            (_, _) if problems.len() == 1 => {
                (Exit::Integrity, ", because the site has lost or damaged its content".to_owned())
            }
            (damaged, _) => (
                Exit::Integrity,
                format!(", {damaged} of them because the site has lost or damaged their content"),
            ),
        };
        let count = problems.len();
        let left_out = match *without_space {
            // The run ended at the first one.
            full if full == count as u64 => String::new(),
            _ if count == 1 => format!("1 entry was left out{why}; "),
            _ => format!("{count} entries were left out{why}; "),
        };
        let rest = match without_space {
            0 => "everything else is done",
            _ => {
                "no space is left on the disk, and nothing more was fetched: once there is room, the same command goes on"
            }
        };
        Err(Failure::new(exit, format!("{left_out}{rest}")))
    }

    /// Says everything, and gives the exit code.
    ///
    /// # Errors
    /// As [`verdict`](Self::verdict), or if nothing can be written.
    pub(super) fn end(&self, telling: &Telling, options: &Options) -> Result<(), Failure> {
        complain(&self.complaints(), "");
        self.tell(telling, options);
        self.verdict()?;
        telling.finish()
    }

    /// The final summary.
    pub(super) fn tell(&self, telling: &Telling, options: &Options) {
        if options.quiet {
            return;
        }
        if options.json {
            telling.line(self.json());
            return;
        }
        telling.line(counts(&self.summary));
        self.tell_left_out(telling, options);
        telling.line(self.amounts(options.is_dry_run()));
        if options.stats {
            self.statistics().iter().for_each(|line| telling.line(line));
        }
        if self.resumed > 0 {
            telling.line(format_args!("{} were there from an interrupted run", BinaryBytes(self.resumed)));
        }
        let Mended { chunks, bytes, left } = self.mended;
        if chunks > 0 {
            let bytes = BinaryBytes(bytes);
            let (chunks, they_are) = match chunks {
                1 => ("1 damaged chunk was".to_owned(), "it is"),
                chunks => (format!("{} damaged chunks were", HumanCount(chunks)), "they are"),
            };
            // A generation whose manifest is damaged is lost, whatever its files consist of.
            let which =
                if self.warnings.is_empty() { "all generations" } else { "all generations that can be read" };
            telling.line(format_args!("{chunks} sent again, {bytes}: {they_are} whole in {which}"));
        }
        if left > 0 {
            let left = counted(left, "chunk stays", "chunks stay");
            telling.line(format_args!("{left} damaged: the source does not have the content"));
        }
        telling.line(&self.line);
    }

    /// How many sockets, pipes and devices were left out, and how many parts of an interrupted fetch; which, where
    /// changes are said.
    fn tell_left_out(&self, telling: &Telling, options: &Options) {
        let Summary { specials, parts, .. } = &self.summary;
        let left_out = [
            (specials, "sockets, pipes or devices"),
            (parts, "what an interrupted fetch has left, .sfio-part-…; the next fetch uses it"),
        ];
        for (entries, what) in left_out {
            if options.says_changes() {
                entries.iter().for_each(|entry| telling.line(format_args!("{:8} {entry}", "left out")));
            }
            if !entries.is_empty() {
                telling.line(format_args!("{} left out: {what}", HumanCount(entries.len() as u64)));
            }
        }
    }

    fn amounts(&self, is_dry_run: bool) -> String {
        let files = counted(self.summary.files, "file", "files");
        if is_dry_run {
            return format!("{} in {files} would be read", BinaryBytes(self.summary.bytes));
        }
        let done = BinaryBytes(self.bytes);
        let [moved, known] =
            [&self.meter.moved, &self.meter.known].map(|amount| BinaryBytes(Meter::get(amount)));
        let seconds = self.took.as_secs_f64();
        format!("{done} in {files}; {moved} over the network, {known} known; {seconds:.1} s")
    }

    /// How much there was of what, a line each.
    fn statistics(&self) -> Vec<String> {
        let [moved, known] = [&self.meter.moved, &self.meter.known].map(Meter::get);
        let done = self.bytes;
        let share = |part: u64, whole: u64| match whole {
            0 => String::new(),
            whole => format!("  {:.1} %", 100.0 * part as f64 / whole as f64),
        };
        let new = done.saturating_sub(known);
        let seconds = self.took.as_secs_f64();
        let rate = (done as f64 / seconds.max(1e-3)) as u64;
        let row = |what: &str, amount: String, note: String| format!("  {what:<24}{amount:>14}{note}");
        let bytes = |bytes: u64| BinaryBytes(bytes).to_string();
        vec![
            row("entries looked at", HumanCount(Meter::get(&self.meter.walked)).to_string(), String::new()),
            row("files new or changed", HumanCount(self.summary.files).to_string(), String::new()),
            row("bytes in them", bytes(done), String::new()),
            row("  known already", bytes(known), share(known, done)),
            row("  new", bytes(new), share(new, done)),
            row("over the network", bytes(moved), format!("{}  of what is new", share(moved, new))),
            row("from an interrupted run", bytes(self.resumed), String::new()),
            row("time", format!("{seconds:.1} s"), format!("  {}/s", BinaryBytes(rate))),
        ]
    }

    fn json(&self) -> serde_json::Value {
        let Summary { new, changed, touched, unchanged, deleted, retained, files, .. } = self.summary;
        let [moved, known] = [&self.meter.moved, &self.meter.known].map(Meter::get);
        json!({
            "event": "summary", "generation": self.generation, "new": new, "changed": changed, "touched": touched,
            "unchanged": unchanged, "deleted": deleted, "retained": retained, "files": files, "bytes": self.bytes,
            "network_bytes": moved, "known_bytes": known, "resumed_bytes": self.resumed,
            "seconds": self.took.as_secs_f64(), "mended_chunks": self.mended.chunks,
            "mended_bytes": self.mended.bytes, "damaged_chunks": self.mended.left,
            "problems": self.summary.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "specials": self.summary.specials.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "parts": self.summary.parts.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    }
}

/// Says what did not work, on standard error; `time` is when that was.
pub(super) fn complain(complaints: &[String], time: &str) {
    complaints.iter().for_each(|complaint| program::output::note(format_args!("sfio: {time}{complaint}")));
}

/// How many entries of each kind there are, without the kinds of which there are none.
pub(super) fn counts(summary: &Summary) -> String {
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
    use sfio_remote::io::replication::Problem;

    use super::*;

    #[test]
    fn one_is_not_told_as_several() {
        let one = |damaged| Report {
            summary: Summary {
                files: 1,
                damaged,
                problems: vec![Problem {
                    path: TreePath::new(b"a".to_vec()).expect("a path"),
                    what: "lost".into(),
                }],
                ..Summary::default()
            },
            meter: Arc::default(),
            bytes: 1024,
            took: Duration::ZERO,
            generation: None,
            is_new: false,
            resumed: 0,
            mended: Mended::default(),
            warnings: Vec::new(),
            line: String::new(),
        };
        assert!(one(0).amounts(false).starts_with("1.00 KiB in 1 file; "), "{}", one(0).amounts(false));
        let verdict = |damaged| one(damaged).verdict().expect_err("something is left out").to_string();
        assert_eq!(verdict(0), "1 entry was left out; everything else is done");
        assert!(
            verdict(1)
                .starts_with("1 entry was left out, because the site has lost or damaged its content; ")
        );
    }

    #[test]
    fn kinds_without_entries_are_not_mentioned() {
        assert_eq!(counts(&Summary::default()), "no entries");
        let some = Summary { new: 1_200, deleted: 3, ..Summary::default() };
        assert_eq!(counts(&some), "1,200 new, 3 deleted");
    }
}
