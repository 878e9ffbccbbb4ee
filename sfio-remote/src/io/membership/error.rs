//! What is wrong with a file that users write.

use std::fmt;

/// Why a config file, or a file that it names, cannot be used: one line that names the file and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConfigError {
    message: String,
}

impl ConfigError {
    pub(super) fn new(message: impl fmt::Display) -> ConfigError {
        ConfigError { message: message.to_string().replace('\n', ", ") }
    }
}

/// Says which file an error is about.
pub(super) trait About<T> {
    fn about(self, place: impl fmt::Display) -> Result<T, ConfigError>;
}

impl<T, E: std::error::Error> About<T> for Result<T, E> {
    fn about(self, place: impl fmt::Display) -> Result<T, ConfigError> {
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
            ConfigError::new(text)
        })
    }
}
