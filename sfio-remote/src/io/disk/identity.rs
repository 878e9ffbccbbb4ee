//! The identity of an export root, in a file there and in one of the I/O node's.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::dataset::OWN_FOLDER;
use crate::io::random::random;
use crate::store::{RootId, Verdict, WrongRoot, judge};

/// The file's name in the I/O node's own folder of the root.
const FILE: &str = "identity";

/// More than an identity ever has.
const MAX_BYTES: u64 = 64;

/// Why the identity of an export root does not let it be served.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// It is not the root that was served before.
    #[error("{error}, remove {}", remembered.display())]
    Wrong {
        /// What is wrong with it.
        error: WrongRoot,
        /// Where it is remembered what was served.
        remembered: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("its identity: {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the operating system says, or what is wrong with the content.
        error: io::Error,
    },
}

/// Checks that the export root is the one that `remembered`, a file, tells of. A root and a file that are both new get
/// an identity.
///
/// # Errors
/// If it is another root, or a file cannot be used.
pub(in crate::io) fn verify_root(root: &Path, remembered: &Path) -> Result<(), IdentityError> {
    let own = own_file(root);
    match look(root, remembered)? {
        Verdict::Serve => Ok(()),
        Verdict::Remember(found) => write(remembered, found),
        Verdict::New => {
            let id = draw().map_err(|error| IdentityError::File { path: own.clone(), error })?;
            make_folder(&root.join(OWN_FOLDER))
                .and_then(|()| sync_folder(root))
                .map_err(|error| IdentityError::File { path: own.clone(), error })?;
            // The root first: one that has an identity which nobody remembers is remembered next time.
            write(&own, id)?;
            write(remembered, id)
        }
    }
}

/// Says what [`verify_root`] would do, and changes nothing.
///
/// # Errors
/// As [`verify_root`].
pub(super) fn look(root: &Path, remembered: &Path) -> Result<Verdict, IdentityError> {
    let wrong = |error| IdentityError::Wrong { error, remembered: remembered.to_owned() };
    judge(read(remembered)?, read(&own_file(root))?).map_err(wrong)
}

fn own_file(root: &Path) -> PathBuf {
    root.join(OWN_FOLDER).join(FILE)
}

fn draw() -> io::Result<RootId> {
    random().map(RootId)
}

fn read(path: &Path) -> Result<Option<RootId>, IdentityError> {
    let fault = |error| IdentityError::File { path: path.to_owned(), error };
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(fault)?,
    };
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(fault)?;
    let id = text.parse().map_err(|error| fault(io::Error::new(io::ErrorKind::InvalidData, error)))?;
    Ok(Some(id))
}

/// Writes the file so that a power loss leaves all of it or nothing.
fn write(path: &Path, id: RootId) -> Result<(), IdentityError> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".new");
    let unfinished = PathBuf::from(unfinished);
    let written = || {
        let mut file = File::create(&unfinished)?;
        writeln!(file, "{id}")?;
        file.sync_all()?;
        fs::rename(&unfinished, path)?;
        sync_folder(path.parent().unwrap_or(Path::new(".")))
    };
    written().map_err(|error| IdentityError::File { path: path.to_owned(), error })
}

/// Makes a folder that may be there, in one that must be.
fn make_folder(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_that_was_served_is_known_again_and_an_empty_one_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let [root, remembered] = ["root", "remembered"].map(|name| folder.path().join(name));
        fs::create_dir(&root).expect("possible");
        verify_root(&root, &remembered).expect("it is new");
        verify_root(&root, &remembered).expect("it is known");
        let disk = folder.path().join("disk");
        fs::rename(&root, &disk).expect("possible");
        fs::create_dir(&root).expect("possible");
        let refusal = verify_root(&root, &remembered).expect_err("it is empty").to_string();
        assert!(refusal.contains("Is a disk not mounted?") && refusal.contains("remove "), "{refusal}");
        assert_eq!(fs::read_dir(&root).expect("a folder").count(), 0, "and stays so");
        // Another one that was in use, by an I/O node that remembers nothing.
        let other = folder.path().join("other");
        fs::create_dir(&other).expect("possible");
        verify_root(&other, &folder.path().join("b")).expect("it is new");
        let refusal = verify_root(&other, &remembered).expect_err("it is another one").to_string();
        assert!(refusal.contains("Is the wrong disk mounted?"), "{refusal}");
        let moved = folder.path().join("moved");
        verify_root(&disk, &moved).expect("it has an identity");
        assert_eq!(fs::read(&moved).expect("remembered"), fs::read(&remembered).expect("remembered"));
    }

    #[test]
    fn a_spoilt_identity_is_named_with_its_file() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let remembered = folder.path().join("remembered");
        fs::write(&remembered, "x").expect("possible");
        let complaint = verify_root(folder.path(), &remembered).expect_err("no identity").to_string();
        assert!(complaint.contains("remembered: expected the identity of an export root"), "{complaint}");
        let nowhere = folder.path().join("nowhere/remembered");
        fs::remove_file(&remembered).expect("it is there");
        let complaint = verify_root(folder.path(), &nowhere).expect_err("no such folder").to_string();
        assert!(complaint.contains("nowhere/remembered: No such file"), "{complaint}");
        // What it was given is remembered as soon as that is possible.
        verify_root(folder.path(), &remembered).expect("it has an identity");
    }
}
