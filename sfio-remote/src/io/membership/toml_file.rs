//! TOML files that users write: what is wrong with one is told with its line.

use std::path::Path;

use fec_transport::io::files::{About as _, FileError};
use serde::de::DeserializeOwned;

/// Reads the file at `path`; `what` it is begins every complaint.
pub fn read<T: DeserializeOwned>(what: &str, path: &Path) -> Result<T, FileError> {
    let place = format!("{what} {}", path.display());
    let text = std::fs::read_to_string(path).about(&place)?;
    toml::from_str(&text).map_err(|error| {
        let message = format!("{place}, line {}: {}", line(&text, &error), error.message());
        FileError::new(message)
    })
}

/// The line that an error is about, counted from 1.
fn line(text: &str, error: &toml::de::Error) -> usize {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_names_the_file_and_the_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("x.toml");
        let complaint = || read::<toml::Table>("scene", &file).expect_err("it is wrong").to_string();
        assert!(complaint().contains("x.toml: No such file"), "{}", complaint());
        std::fs::write(&file, "a = 1\nb = = 2\n").expect("it can be written");
        assert!(
            complaint().starts_with("scene ") && complaint().contains("x.toml, line 2: "),
            "{}",
            complaint()
        );
    }
}
