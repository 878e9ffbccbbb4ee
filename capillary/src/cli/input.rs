//! Files that are read as a whole, of which one may be standard input.

use std::io::{self, Read as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether standard input has been read: there is nothing more in it.
static WAS_READ: AtomicBool = AtomicBool::new(false);

/// The bytes of a file; of standard input if the path is `-`.
///
/// # Errors
/// If it cannot be read, or is standard input for the second time.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    if path.as_os_str() != "-" {
        return std::fs::read(path);
    }
    if WAS_READ.swap(true, Ordering::Relaxed) {
        let message = "standard input has been read already; one file at most may be -";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The same of a file of UTF-8.
///
/// # Errors
/// As [`read`]; also if it is no UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
