//! Results on their way out: to standard output, or to a file.
//!
//! `println!` panics when the reader of a pipe has gone (`… | head -1`). What is printed here fails instead, with a
//! [`Failure`] that [`end`](crate::end) takes for a good end. And what is lost because a device is full is a failure,
//! too: nothing is left in a buffer that nobody empties. Work that must not stop half-way because of that is told of
//! with [`Telling`].

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use console::Term;
use serde::Serialize;

use crate::failure::Failure;

/// Prints a line on standard output: `program::line!("{count} files")?`.
#[macro_export]
macro_rules! line {
    ($($argument:tt)*) => { $crate::output::line(format_args!($($argument)*)) };
}

/// Writes `text` and a line break to standard output.
///
/// # Errors
/// If it cannot be written; [`Exit::Ok`](crate::Exit::Ok) if nobody reads any more.
pub fn line(text: impl fmt::Display) -> Result<(), Failure> {
    print(format_args!("{text}\n"))
}

/// Writes a sentence to standard output; on a terminal it goes on below where it does not fit.
///
/// # Errors
/// As [`line()`].
pub fn prose(text: impl fmt::Display) -> Result<(), Failure> {
    line(wrapped(&text.to_string(), columns(None)))
}

/// Writes `text` to standard output.
///
/// # Errors
/// As [`line()`].
pub fn print(text: impl fmt::Display) -> Result<(), Failure> {
    let mut results = Results::open(None)?;
    results.print(text)?;
    results.close()
}

/// Writes a value as JSON in one line to standard output.
///
/// # Errors
/// As [`line()`].
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|error| Failure::output(&error.into()))?;
    line(text)
}

/// Writes a result to the file at `path`, or to standard output if there is none, or if it is `-`.
///
/// # Errors
/// If the file cannot be written, or as [`line()`].
pub fn put(path: Option<&Path>, text: &str) -> Result<(), Failure> {
    match path.filter(|path| path.as_os_str() != "-") {
        Some(path) => std::fs::write(path, text).map_err(|error| Failure::file(path, &error)),
        None => print(text),
    }
}

/// Writes `text` and a line break to standard error, its control characters but line breaks as [`shown`] has them. That
/// it cannot be written is no failure: nobody could be told.
pub fn note(text: impl fmt::Display) {
    let text = text.to_string();
    let lines: Vec<_> = text.split('\n').map(shown).collect();
    let _ = writeln!(io::stderr(), "{}", lines.join("\n"));
}

/// Words from a file, as names of nodes, for people to read: what would command a terminal, or tear a line, is written
/// as Rust writes it, an escape as `\u{1b}` and a line break as `\n`.
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c.is_control() {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// How many columns results have that go to the file at `path`, or to standard output: none but a terminal limits them.
pub fn columns(path: Option<&Path>) -> Option<usize> {
    let terminal = path.is_none_or(|path| path.as_os_str() == "-").then(Term::stdout)?;
    terminal.size_checked().map(|(_, columns)| columns.into())
}

/// Lines of words for a place with so many columns, if it is limited: each goes on below, a little further in, where it
/// does not fit.
pub fn wrapped(text: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns else { return text.to_owned() };
    text.split('\n').flat_map(|line| folded(line, columns)).collect::<Vec<_>>().join("\n")
}

/// A line of words as the lines that it becomes in so many columns. A word that is longer than that stays whole.
pub fn folded(line: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        let last = lines.last_mut().expect("there is one");
        if last.trim_start().is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= columns {
            *last += " ";
            *last += word;
        } else {
            lines.push(format!("  {word}"));
        }
    }
    lines
}

/// Lines on standard output about work that goes on whether or not they can be written: synchronising does not stop
/// half-way because a disk with its log is full. Clones tell the same.
#[derive(Debug, Clone, Default)]
pub struct Telling {
    /// Why lines cannot be written any more.
    failure: Arc<Mutex<Option<Failure>>>,
}

impl Telling {
    /// Writes `text` and a line break, unless that was in vain before.
    pub fn line(&self, text: impl fmt::Display) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_none() {
            *failure = line(text).err();
        }
    }

    /// The work is done: tells whether all lines were written.
    ///
    /// # Errors
    /// As [`line()`], for the first line that was not.
    pub fn finish(&self) -> Result<(), Failure> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.clone().map_or(Ok(()), Err)
    }
}

/// A place for many lines, which are written together: a file, or standard output.
#[derive(Debug)]
pub struct Results {
    /// None: standard output.
    path: Option<PathBuf>,
    writer: BufWriter<Sink>,
}

#[derive(Debug)]
enum Sink {
    Stdout(StdoutLock<'static>),
    File(File),
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Stdout(stdout) => stdout.write(bytes),
            Sink::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Stdout(stdout) => stdout.flush(),
            Sink::File(file) => file.flush(),
        }
    }
}

impl Results {
    /// Opens the file at `path`, or standard output if there is none, or if it is `-`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn open(path: Option<&Path>) -> Result<Results, Failure> {
        let path = path.filter(|path| path.as_os_str() != "-");
        let sink = match path {
            Some(path) => Sink::File(File::create(path).map_err(|error| Failure::file(path, &error))?),
            None => Sink::Stdout(io::stdout().lock()),
        };
        Ok(Results { path: path.map(Path::to_owned), writer: BufWriter::new(sink) })
    }

    /// Writes `text`.
    ///
    /// # Errors
    /// As [`line()`].
    pub fn print(&mut self, text: impl fmt::Display) -> Result<(), Failure> {
        let written = write!(self.writer, "{text}");
        written.map_err(|error| self.failure(&error))
    }

    /// Writes `text` and a line break.
    ///
    /// # Errors
    /// As [`line()`].
    pub fn line(&mut self, text: impl fmt::Display) -> Result<(), Failure> {
        self.print(format_args!("{text}\n"))
    }

    /// Writes a value as JSON, in one line or with a line for each of its parts, and a line break. The text is never
    /// held as a whole.
    ///
    /// # Errors
    /// As [`line()`].
    pub fn json(&mut self, value: &impl Serialize, in_one_line: bool) -> Result<(), Failure> {
        let written = match in_one_line {
            true => serde_json::to_writer(&mut self.writer, value),
            false => serde_json::to_writer_pretty(&mut self.writer, value),
        };
        written.map_err(|error| self.failure(&error.into()))?;
        self.print('\n')
    }

    /// Sees to it that everything has been written. Without this a full device goes unnoticed.
    ///
    /// # Errors
    /// As [`line()`].
    pub fn close(mut self) -> Result<(), Failure> {
        let written = self.writer.flush();
        written.map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &io::Error) -> Failure {
        match &self.path {
            Some(path) => Failure::file(path, error),
            None => Failure::output(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn a_line_that_does_not_fit_goes_on_below() {
        assert_eq!(folded("one two three", 80), ["one two three"]);
        assert_eq!(folded("one two three four", 9), ["one two", "  three", "  four"]);
        assert_eq!(folded("", 80), [""]);
        assert_eq!(wrapped("one two\nthree four", Some(7)), "one two\nthree\n  four");
        assert_eq!(wrapped("one two\nthree four", None), "one two\nthree four");
    }

    #[test]
    fn what_would_command_a_terminal_is_shown() {
        assert_eq!(shown("Zürich → Bern"), "Zürich → Bern");
        assert_eq!(shown("a\u{1b}[31m\r\n\t\u{9b}\0"), "a\\u{1b}[31m\\r\\n\\t\\u{9b}\\u{0}");
    }

    #[test]
    fn a_result_goes_to_the_file_that_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("result");
        assert_eq!(put(Some(&path), "text\n"), Ok(()));
        assert_eq!(std::fs::read_to_string(&path).expect("it was written"), "text\n");
        let missing = folder.path().join("no/result");
        assert_eq!(put(Some(&missing), "text\n").unwrap_err().exit, Exit::Input);
    }
}
