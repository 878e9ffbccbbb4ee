//! What is wrong with a file that users write.

use std::fmt;

/// Why a config file, or a file that it names, cannot be used: one line that names the file and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FileError {
    message: String,
}

impl FileError {
    /// What is wrong, on one line.
    pub fn new(message: impl fmt::Display) -> FileError {
        FileError { message: message.to_string().replace('\n', ", ") }
    }
}

/// Says which file an error is about.
pub trait About<T> {
    /// The error with the words `place` in front, and its causes behind.
    ///
    /// # Errors
    /// Where `self` is one.
    fn about(self, place: impl fmt::Display) -> Result<T, FileError>;
}

impl<T, E: std::error::Error> About<T> for Result<T, E> {
    fn about(self, place: impl fmt::Display) -> Result<T, FileError> {
        self.map_err(|error| {
            let mut text = format!("{place}: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                let words = error.to_string();
                if !text.contains(&words) {
                    text = format!("{text}: {words}");
                }
                cause = error.source();
            }
            FileError::new(text)
        })
    }
}
