//! `sfio trace record`: a command whose operations on files are written down.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use super::recorder::VARIABLE;
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
    let status = Command::new(program).args(arguments).env(VARIABLE, output).status();
    let status = status.map_err(|error| Failure::file(program.as_ref(), &error))?;
    match status.success() {
        true => Ok(()),
        false => {
            let exit = status.code().and_then(Exit::of_code).unwrap_or(Exit::Failed);
            Err(Failure::new(exit, format!("{} ended with {status}", program.display())))
        }
    }
}
