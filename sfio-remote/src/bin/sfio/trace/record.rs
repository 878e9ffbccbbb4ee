//! `sfio trace record`: a command whose operations on files are written down.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use program::output;
use sfio_trace::record::Record;

use super::recorder::{Recorder, VARIABLE};
use super::source::{LayerName, each};
use crate::exit::{Exit, Failure};

/// A disk that is full has no room for so many bytes more.
const PROBE: usize = 1 << 16;

/// Run a command of sfio and write down what it does with files
///
/// The same as setting SFIO_TRACE in its environment. A read or a write is written down when it has
/// succeeded, with the time for which it was under way; an I/O node writes down what its disk did.
/// With several processes "{pid}" in the name becomes the number of each. It ends with the exit code
/// of the command, if that is one of those of sfio, and with 1 otherwise.
///
/// Example:
///   sfio trace record -o put.jsonl.zst -- sfio put --overlay try notes.txt "io1,n;io2,n"
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Options {
    /// Where the trace goes: JSON lines, compressed if the name ends in .zst
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// The command
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<OsString>,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let [program, arguments @ ..] = &options.command[..] else {
        return Err(Failure::usage("expected a command"));
    };
    let output =
        std::path::absolute(&options.output).map_err(|error| Failure::file(&options.output, &error))?;
    let is_one_file = is_one_file(&output);
    // What cannot be written is told before the command runs, and no earlier trace is taken for that of this one.
    let earlier = is_one_file.then(|| Earlier::set_aside(&output)).transpose();
    let earlier = earlier.map_err(|error| Failure::file(&options.output, &error))?;
    let started = Command::new(program).args(arguments).env(VARIABLE, &output).spawn();
    if let Some(earlier) = earlier {
        earlier.settle(started.is_ok()).map_err(|error| Failure::file(&options.output, &error))?;
    }
    let status = started.and_then(|mut command| command.wait());
    let status = status.map_err(|error| Failure::file(program.as_ref(), &error))?;
    let complete = if is_one_file { complete_if_empty(&output) } else { Ok(()) };
    match status.success() {
        true if is_one_file => complete.and_then(|()| check(&output)),
        true => Ok(()),
        false => {
            let exit = status.code().and_then(Exit::of_code).unwrap_or(Exit::Failed);
            Err(Failure::new(exit, format!("{} ended with {status}", program.display())))
        }
    }
}

/// The trace of an earlier run: it stands aside until the command of this one has been started, and comes back if that
/// cannot be.
struct Earlier {
    trace: PathBuf,
    /// Where it is; `None` if there was none.
    aside: Option<PathBuf>,
}

impl Earlier {
    /// Puts an empty file in the place of a trace.
    fn set_aside(trace: &Path) -> io::Result<Self> {
        // Whoever named a link means the file that it leads to.
        let found = trace.canonicalize();
        let trace = found.as_deref().unwrap_or(trace).to_owned();
        let mut name = trace.clone().into_os_string();
        name.push(format!(".earlier-{}", std::process::id()));
        let aside = found.is_ok().then(|| PathBuf::from(name));
        if let Some(aside) = &aside {
            // That it may be written is not told by its folder.
            File::options().append(true).open(&trace)?;
            std::fs::rename(&trace, aside)?;
        }
        File::create(&trace)?;
        Ok(Self { trace, aside })
    }

    /// Gives the earlier trace up if the command has been started, else what was comes back.
    fn settle(self, has_started: bool) -> io::Result<()> {
        match (&self.aside, has_started) {
            (Some(aside), true) => std::fs::remove_file(aside),
            (Some(aside), false) => std::fs::rename(aside, &self.trace),
            (None, true) => Ok(()),
            (None, false) => std::fs::remove_file(&self.trace),
        }
    }
}

/// Whether there is one trace that can be read again: with "{pid}" in its name each process has a trace of its own, and
/// a pipe gives nothing twice.
fn is_one_file(trace: &Path) -> bool {
    let is_pattern = trace.to_string_lossy().contains("{pid}");
    !is_pattern && trace.metadata().map_or(true, |there| there.is_file())
}

/// Whoever asks for a trace finds one, also of a command that did nothing with files of sfio.
fn complete_if_empty(trace: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::file(trace, &error);
    if trace.metadata().map_err(failed)?.len() > 0 {
        return Ok(());
    }
    find_room(trace).map_err(failed)?;
    output::note(
        "sfio: the command did nothing that is written down; expected one of sfio that reads or writes",
    );
    Recorder::create(trace, "none").map(drop).map_err(failed)
}

/// The command may have gone well although its trace could not be written to the end, for instance because the disk was
/// full: a trace that is whole says that its job has ended.
fn check(trace: &Path) -> Result<(), Failure> {
    let mut has_ended = false;
    let read = each(trace, LayerName::default(), |record| {
        has_ended = matches!(record, Record::ApplicationExit(_));
        Ok(())
    });
    if read.is_ok() && has_ended {
        return Ok(());
    }
    // A disk that was full has often cut off a record, which is no fault of an input.
    if let Err(error) = find_room(trace) {
        return Err(Failure::file(trace, &error));
    }
    read?;
    Err(Failure::input(trace, "the trace is not whole: it ends before its job does"))
}

/// Tries whether the file could be longer; that is how a disk shows that it is full.
fn find_room(trace: &Path) -> io::Result<()> {
    let mut file = File::options().append(true).open(trace)?;
    let length = file.metadata()?.len();
    let written = file.write_all(&[0; PROBE]).and_then(|()| file.sync_all());
    file.set_len(length)?;
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use sfio_trace::lines::line;
    use sfio_trace::record::{ApplicationExit, ApplicationId, header};

    /// A typo in the command's name cost the trace of the run before.
    #[test]
    fn a_command_that_cannot_be_started_costs_no_earlier_trace() {
        let folder = tempfile::tempdir().expect("a folder");
        let (there, missing) = (folder.path().join("there.jsonl"), folder.path().join("missing.jsonl"));
        std::fs::write(&there, "earlier").expect("possible");
        for output in [&there, &missing] {
            let command = vec![folder.path().join("no-such-command").into_os_string()];
            let refused = run(&Options { output: output.clone(), command }).unwrap_err();
            assert_eq!(refused.exit, Exit::Input);
        }
        assert_eq!(std::fs::read_to_string(&there).expect("it is there"), "earlier");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn a_trace_that_does_not_say_that_its_job_has_ended_is_not_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let trace = folder.path().join("trace.jsonl");
        let begun = line(&header(1, "sfio", ""));
        let ended = line(&Record::ApplicationExit(ApplicationExit { at: 2, application: ApplicationId(3) }));
        let whole = begun.clone() + &ended;
        for (text, is_whole) in [(&whole[..], true), (&begun, false), (&whole[..whole.len() - 9], false)] {
            std::fs::write(&trace, text).expect("possible");
            assert_eq!(check(&trace).is_ok(), is_whole, "{text}");
        }
    }
}
