//! What users read when something went wrong: one line, and an exit code.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::exit::Exit;
use crate::output;

/// Why a program ends before its work is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    message: String,
}

impl Failure {
    /// A failure with this code and this message. Line breaks become commas, so that the message stays one line.
    pub fn new(exit: Exit, message: impl fmt::Display) -> Failure {
        Failure { exit, message: message.to_string().replace('\n', ", ") }
    }

    /// A command line that does not fit together, or does not fit the input.
    pub fn usage(message: impl fmt::Display) -> Failure {
        Failure::new(Exit::Usage, message)
    }

    /// A file whose content is wrong: its path, and what is wrong with it.
    pub fn input(path: &Path, problem: impl fmt::Display) -> Failure {
        Failure::new(Exit::Input, format!("{}: {problem}", path.display()))
    }

    /// A file that cannot be read or written. The error decides which exit code that has.
    pub fn file(path: &Path, error: &io::Error) -> Failure {
        let exit = match Exit::of_io(error) {
            // Only standard output has a reader that may go.
            Exit::Ok => Exit::Failed,
            exit => exit,
        };
        Failure::new(exit, format!("{}: {error}", path.display()))
    }

    /// A file that a library cannot read or write. Where the operating system refused something, what it said decides
    /// as in [`Failure::file`]; the library's own words would only hide that a disk is full.
    pub fn library(path: &Path, error: &(dyn Error + 'static)) -> Failure {
        let mut causes = std::iter::successors(Some(error), |&error| error.source());
        match causes.find_map(<dyn Error>::downcast_ref) {
            Some(cause) => Failure::file(path, cause),
            None => Failure::new(Exit::Failed, format!("{}: {error}", path.display())),
        }
    }

    /// Standard output that cannot be written. If its reader has gone the program ends quietly and with code 0.
    pub fn output(error: &io::Error) -> Failure {
        Failure::new(Exit::of_io(error), format!("standard output: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Ends the program called `name`: prints a failure, if there is one to tell, and gives its exit code.
pub fn end(name: &str, outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if failure.exit != Exit::Ok {
                output::note(format_args!("{name}: {failure}"));
            }
            failure.exit.into()
        }
    }
}

/// Turns errors of libraries into failures.
pub trait OrFail<T> {
    /// Gives an error an exit code, and says what was being done.
    ///
    /// # Errors
    /// If this is an error.
    fn or_fail(self, exit: Exit, what: impl fmt::Display) -> Result<T, Failure>;

    /// Gives an exit code to an error that says by itself what was being done.
    ///
    /// # Errors
    /// If this is an error.
    fn or_exit(self, exit: Exit) -> Result<T, Failure>;
}

impl<T, E: Error> OrFail<T> for Result<T, E> {
    fn or_fail(self, exit: Exit, what: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(exit, format!("{what}: {}", with_causes(&error))))
    }

    fn or_exit(self, exit: Exit) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(exit, with_causes(&error)))
    }
}

/// An error with its causes, as far as it does not name them itself.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Outer(io::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the index")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_failure_is_one_line_with_all_causes() {
        let error = Outer(io::Error::other("line 3\nis damaged"));
        let failure = Err::<(), _>(error).or_fail(Exit::Integrity, "photos").unwrap_err();
        assert_eq!(failure.to_string(), "photos: the index: line 3, is damaged");
        assert_eq!(failure.exit, Exit::Integrity);
    }

    #[test]
    fn a_full_disk_is_told_from_what_a_library_says_about_it() {
        let full = Outer(io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(Failure::library(Path::new("file"), &full).exit, Exit::NoSpace);
        let other = std::fmt::Error;
        assert_eq!(Failure::library(Path::new("file"), &other).exit, Exit::Failed);
    }

    #[test]
    fn a_pipe_that_closes_is_no_failure_but_a_file_that_does_is() {
        let closed = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(Failure::output(&closed).exit, Exit::Ok);
        assert_eq!(Failure::file(Path::new("fifo"), &closed).exit, Exit::Failed);
    }
}
