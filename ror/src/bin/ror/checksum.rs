//! Checksums of finished shards, each in a file beside the shard's.
//!
//! A bit that a disk or a copy has turned over is often another number in a Parquet file, and no error. The file
//! `shard-3-of-7.parquet.b3` has the BLAKE3 of `shard-3-of-7.parquet` as `b3sum` writes it: 64 hexadecimal digits, and
//! the name.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::new_file::NewFile;

/// A line of `b3sum` is a good deal shorter, whatever the name.
const LONGEST: u64 = 1 << 13;

/// Digits of a checksum.
const DIGITS: usize = 64;

/// Writes the checksum of the file that is to be at `path`, so that it lasts before that one is there.
pub(crate) fn write(path: &Path, hash: &blake3::Hash) -> Result<(), Failure> {
    let sums = beside(path);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut file = NewFile::create(&sums)?;
    let written = writeln!(file, "{hash}  {name}").and_then(|()| file.finish());
    written.map_err(Failure::at(&sums))
}

/// Reads a file through and compares it with its checksum.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    let damaged = |what: String| Failure::Damaged(path.to_path_buf(), what);
    let sums = beside(path);
    let expected = match File::open(&sums) {
        Ok(file) => first_hash(file).map_err(Failure::at(&sums))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let what = "is missing (was the shard copied without it?)";
            return Err(damaged(format!("its checksum {} {what}", name(&sums))));
        }
        Err(error) => return Err(Failure::File(sums, error)),
    };
    let expected = expected.ok_or_else(|| damaged(format!("there is no checksum in {}", name(&sums))))?;
    let mut hasher = blake3::Hasher::new();
    let file = File::open(path).map_err(Failure::at(path))?;
    hasher.update_reader(file).map_err(Failure::at(path))?;
    let found = hasher.finalize();
    if found == expected {
        return Ok(());
    }
    let [found, expected] = [found, expected].map(|hash| hash.to_hex()[..8].to_string());
    let sums = name(&sums);
    Err(damaged(format!("it is not as it was written: its checksum is {found}…, in {sums} {expected}…")))
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".b3");
    PathBuf::from(name)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The checksum that the file begins with.
fn first_hash(file: File) -> std::io::Result<Option<blake3::Hash>> {
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    Ok(text.get(..DIGITS).and_then(|digits| blake3::Hash::from_hex(digits).ok()))
}
