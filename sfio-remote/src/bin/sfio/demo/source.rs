//! What the demo replicates: the files of a folder, or files of very different sizes that are generated.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore as _, SeedableRng as _};

use crate::exit::{Exit, Failure, OrFail as _};

/// A file to replicate.
#[derive(Debug, Clone)]
pub(crate) struct SourceFile {
    /// What to call it in messages.
    pub(crate) name: String,
    pub(crate) length: u64,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    OnDisk(PathBuf),
    Generated { seed: [u8; 32] },
}

/// The files, and what was left out.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) files: Vec<SourceFile>,
    /// Entries of the folder that are neither files nor folders, such as symbolic links.
    pub(crate) skipped: usize,
}

impl Source {
    /// Every file beneath `folder`.
    pub(crate) fn folder(folder: &Path) -> Result<Source, Failure> {
        let place = folder.display();
        let kind = std::fs::metadata(folder).or_fail(Exit::Input, format!("folder {place}"))?;
        if !kind.is_dir() {
            return Err(Failure::new(
                Exit::Input,
                format!("{place} is no folder; give one that holds files"),
            ));
        }
        let mut source = Source { files: Vec::new(), skipped: 0 };
        for entry in walkdir::WalkDir::new(folder).sort_by_file_name() {
            let entry = entry.or_fail(Exit::Input, format!("folder {place}"))?;
            if entry.file_type().is_file() {
                source.files.push(SourceFile::on_disk(folder, entry.path())?);
            } else if !entry.file_type().is_dir() {
                source.skipped += 1;
            }
        }
        if source.files.is_empty() {
            return Err(Failure::new(Exit::Input, format!("folder {place} holds no files")));
        }
        Ok(source)
    }

    /// Files of very different sizes, `total` bytes in all, an empty one among them.
    pub(crate) fn generated(total: u64, seed: u64) -> Source {
        let files = generated_sizes(total).into_iter().enumerate().map(|(number, length)| {
            let name = format!("generated-{number:02}");
            let key = blake3::derive_key("sfio demo 2026 content", format!("{seed} {name}").as_bytes());
            SourceFile { name, length, content: Content::Generated { seed: key } }
        });
        Source { files: files.collect(), skipped: 0 }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.length).sum()
    }
}

impl SourceFile {
    fn on_disk(folder: &Path, path: &Path) -> Result<SourceFile, Failure> {
        let place = path.display();
        // Opened here so that a file that cannot be read is found before anything is sent.
        let file = File::open(path).or_fail(Exit::Input, format!("file {place}"))?;
        let length = file.metadata().or_fail(Exit::Input, format!("file {place}"))?.len();
        let name = path.strip_prefix(folder).unwrap_or(path).display().to_string();
        Ok(SourceFile { name, length, content: Content::OnDisk(path.to_owned()) })
    }

    /// Opens the file for reading.
    pub(crate) fn open(&self) -> io::Result<SourceReader> {
        match &self.content {
            Content::OnDisk(path) => Ok(SourceReader::OnDisk(File::open(path)?)),
            Content::Generated { seed } => {
                Ok(SourceReader::Generated(Box::new(ChaCha8Rng::from_seed(*seed))))
            }
        }
    }
}

/// An open file.
pub(crate) enum SourceReader {
    OnDisk(File),
    Generated(Box<ChaCha8Rng>),
}

impl SourceReader {
    /// The next `length` bytes, which begin at `offset`; called in order, in multiples of 4 bytes but for the last.
    pub(crate) fn read(&mut self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        match self {
            SourceReader::OnDisk(file) => file.read_exact_at(&mut bytes, offset)?,
            SourceReader::Generated(random) => random.fill_bytes(&mut bytes),
        }
        Ok(bytes)
    }
}

/// One file of 40 %, one of 25 %, two of 10 %, thirty that halve in size down to a byte, and an empty one.
fn generated_sizes(total: u64) -> Vec<u64> {
    let mut sizes = vec![0, total * 25 / 100, total * 10 / 100, total * 10 / 100];
    let mut size = total * 5 / 100;
    while size > 0 && sizes.len() < 34 {
        sizes.push(size);
        size /= 2;
    }
    let rest = total - sizes.iter().sum::<u64>();
    sizes.push(rest);
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_files_have_very_different_sizes_and_the_same_content_each_time() {
        for total in [0, 1, 1000, 64 << 20] {
            let source = Source::generated(total, 7);
            assert_eq!(source.bytes(), total);
            assert!(source.files.iter().any(|file| file.length == 0));
        }
        let read = |seed| {
            let file = Source::generated(1 << 20, seed).files.pop().expect("it has files");
            let mut reader = file.open().expect("nothing to open");
            [reader.read(0, 1000).expect("enough"), reader.read(1000, 50).expect("enough")].concat()
        };
        assert_eq!(read(1), read(1));
        assert_ne!(read(1), read(2));
    }

    #[test]
    fn a_folder_that_is_missing_or_empty_or_a_file_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let missing = folder.path().join("missing");
        let error = |path: &Path| Source::folder(path).unwrap_err().to_string();
        assert!(error(&missing).contains("missing: No such file"));
        assert!(error(folder.path()).contains("holds no files"));
        let file = folder.path().join("file");
        std::fs::write(&file, b"x").expect("it can be written");
        assert!(error(&file).contains("is no folder"));
        let source = Source::folder(folder.path()).expect("one file");
        assert_eq!((source.files.len(), source.bytes()), (1, 1));
    }
}
