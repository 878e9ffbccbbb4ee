//! `sfio trace record`: a command whose operations on files are written down.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use sfio_trace::record::Record;

use super::recorder::VARIABLE;
use super::source::{LayerName, each};
use crate::exit::{Exit, Failure};

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
    let status = Command::new(program).args(arguments).env(VARIABLE, &output).status();
    let status = status.map_err(|error| Failure::file(program.as_ref(), &error))?;
    match status.success() {
        true => check(&output),
        false => {
            let exit = status.code().and_then(Exit::of_code).unwrap_or(Exit::Failed);
            Err(Failure::new(exit, format!("{} ended with {status}", program.display())))
        }
    }
}

/// The command may have gone well although its trace could not be written to the end, for instance because the disk was
/// full: a trace that is whole says that its job has ended.
fn check(trace: &Path) -> Result<(), Failure> {
    // With "{pid}" in its name each process has a trace of its own, and what is no file cannot be read again.
    if !trace.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Ok(());
    }
    let mut has_ended = false;
    each(trace, LayerName::default(), |record| {
        has_ended = matches!(record, Record::ApplicationExit(_));
        Ok(())
    })?;
    match has_ended {
        true => Ok(()),
        false => Err(Failure::input(trace, "the trace is not whole: it ends before its job does")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sfio_trace::lines::line;
    use sfio_trace::record::{ApplicationExit, ApplicationId, header};

    #[test]
    fn a_trace_that_does_not_say_that_its_job_has_ended_is_not_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let trace = folder.path().join("trace.jsonl");
        assert!(check(&trace).is_ok(), "there is none");
        let begun = line(&header(1, "sfio", ""));
        let ended = line(&Record::ApplicationExit(ApplicationExit { at: 2, application: ApplicationId(3) }));
        let whole = begun.clone() + &ended;
        for (text, is_whole) in [(&whole[..], true), (&begun, false), (&whole[..whole.len() - 9], false)] {
            std::fs::write(&trace, text).expect("possible");
            assert_eq!(check(&trace).is_ok(), is_whole, "{text}");
        }
    }
}
