//! A file that gets its name only when it is whole.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// So many symbolic links one behind the other are followed, as many as Linux follows.
const LINKS: usize = 40;

/// A file under way. It is written beside its place and renamed at its end, so that nobody takes a part of it for the
/// whole; if it does not come to that, nothing is left of it. A device or a pipe is written as it is: a new name would
/// put a file in its place.
#[derive(Debug)]
pub(crate) struct NewFile {
    file: File,
    draft: Option<Draft>,
    /// Of what was written so far.
    hasher: blake3::Hasher,
}

/// Where a file is written until it is whole.
#[derive(Debug)]
struct Draft {
    unfinished: PathBuf,
    path: PathBuf,
}

impl NewFile {
    /// Begins the file at `path`, or the one that a symbolic link there points to.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            let file = File::options().write(true).open(path).map_err(Failure::at(path))?;
            return Ok(Self { file, draft: None, hasher: blake3::Hasher::new() });
        }
        let path = behind_links(path)?;
        let mut name = path.as_os_str().to_owned();
        name.push(".unfinished");
        let unfinished = PathBuf::from(name);
        let file = File::create(&unfinished).map_err(Failure::at(&unfinished))?;
        let draft = Some(Draft { unfinished, path });
        Ok(Self { file, draft, hasher: blake3::Hasher::new() })
    }

    /// The checksum of all that was written.
    pub(crate) fn hash(&self) -> blake3::Hash {
        self.hasher.finalize()
    }

    /// Makes the file durable and gives it its name.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        let Some(draft) = &self.draft else { return Ok(()) };
        self.file.sync_all()?;
        std::fs::rename(&draft.unfinished, &draft.path)?;
        // The new name must last before the journal that it replaces goes.
        let parent = draft.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It is not there any more if it has its name.
        let _ = std::fs::remove_file(&self.unfinished);
    }
}

/// Where a path leads that may be a symbolic link, also one to a file that is not there yet.
fn behind_links(path: &Path) -> Result<PathBuf, Failure> {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS {
        let Ok(target) = std::fs::read_link(&path) else { return Ok(path) };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    Err(Failure::Input(path, format!("it is behind more than {LINKS} symbolic links")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) -> Result<(), Failure> {
        let mut file = NewFile::create(path)?;
        file.write_all(text.as_bytes()).and_then(|()| file.finish()).map_err(Failure::at(path))
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn a_link_stays_one_and_its_target_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name| folder.path().join(name);
        std::os::unix::fs::symlink("middle", path("link")).unwrap();
        std::os::unix::fs::symlink(path("target"), path("middle")).unwrap();
        for text in ["where nothing was", "over what was there"] {
            write(&path("link"), text).unwrap();
            assert_eq!(std::fs::read_to_string(path("target")).unwrap(), text);
            assert_eq!(std::fs::read_link(path("link")).unwrap(), Path::new("middle"));
        }
        assert_eq!(names(folder.path()), ["link", "middle", "target"]);
    }

    #[test]
    fn links_that_lead_nowhere_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("link", &link).unwrap();
        assert!(write(&link, "").unwrap_err().to_string().ends_with("more than 40 symbolic links"));
    }

    #[test]
    fn what_does_not_come_to_its_end_leaves_nothing_and_spoils_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "old").unwrap();
        drop(NewFile::create(&path).unwrap());
        assert_eq!(names(folder.path()), ["file"]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    }
}
