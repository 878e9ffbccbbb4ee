//! A local file, written the same way.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::pattern::Call;

/// Writes a new file in `folder` with one positioned write for each region, and removes it; gives the time for writing.
pub(super) fn write(folder: &Path, calls: &[Call], data: &Bytes) -> io::Result<Duration> {
    let path = tempfile::Builder::new().prefix("sfio-bench-").tempfile_in(folder)?.into_temp_path();
    let file = OpenOptions::new().write(true).open(&path)?;
    let began = Instant::now();
    for (offset, range) in calls.iter().flat_map(Call::pieces) {
        file.write_all_at(&data[range], offset)?;
    }
    Ok(began.elapsed())
}
