//! What the program and the benchmarks print, and how they end: as all programs of the repository do.

use std::fmt;
use std::process::ExitCode;

use program::{Exit, Failure};

/// Standard output cannot be written: its reader has gone, which is no failure, or its device is full.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unwritten(Failure);

/// Prints a line on standard output.
///
/// # Errors
/// If it cannot be written.
pub fn line(text: impl fmt::Display) -> Result<(), Unwritten> {
    program::output::line(text).map_err(Unwritten)
}

/// Prints a sentence on standard output; on a terminal it goes on below where it does not fit.
///
/// # Errors
/// If it cannot be written.
pub fn prose(text: impl fmt::Display) -> Result<(), Unwritten> {
    program::output::prose(text).map_err(Unwritten)
}

/// Ends the program called `name`: code 0 if everything was as expected, 1 if something was not, and else the failure's
/// own, which is 3 (a bad file or value, or the run failed) unless it is about standard output.
pub fn end(name: &str, result: anyhow::Result<bool>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => Exit::Failed.into(),
        Err(error) => {
            let failure = match error.downcast::<Unwritten>() {
                Ok(Unwritten(failure)) => failure,
                Err(error) => Failure::new(Exit::Input, format!("{error:#}")),
            };
            program::end(name, Err(failure))
        }
    }
}
