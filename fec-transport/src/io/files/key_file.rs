//! Key files: a member's secret seed in base64, for nobody but its owner to read.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use ring::rand::{SecureRandom as _, SystemRandom};

use super::error::{About as _, FileError};
use crate::keys::Identity;

/// Read and write for the owner, nothing for anybody else.
const MODE: u32 = 0o600;

/// More than a key file ever has: 44 characters of base64, and what an editor may add.
const MAX_BYTES: u64 = 256;

/// Makes a new identity and writes it to `path`, where nothing may be yet.
///
/// # Errors
/// If something is there already, or cannot be written.
pub fn create(path: &Path) -> Result<Identity, FileError> {
    let mut seed = [0; 32];
    let random = SystemRandom::new().fill(&mut seed);
    random.map_err(|_| FileError::new("the operating system gives no random numbers"))?;
    let identity = Identity::from_seed(seed);
    let place = format!("key file {}", path.display());
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(MODE).open(path).map_err(|error| {
            let hint = match error.kind() {
                ErrorKind::AlreadyExists => "it exists already; a key that is overwritten is lost".to_owned(),
                _ => error.to_string(),
            };
            FileError::new(format!("{place}: {hint}"))
        })?;
    let written = writeln!(file, "{}", *identity.to_text()).and_then(|()| file.sync_all());
    written.about(&place)?;
    Ok(identity)
}

/// Reads the identity at `path`.
///
/// # Errors
/// If it cannot be read, is no key, or may be read by others, too.
pub fn read(path: &Path) -> Result<Identity, FileError> {
    let place = format!("key file {}", path.display());
    let file = File::open(path).about(&place)?;
    refuse_public(&file, path, &place)?;
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).about(&place)?;
    Identity::from_text(&text).about(format!("{place} holds no key as `sfio keygen` writes it"))
}

/// Asks the open file and not the path, which may lead elsewhere a moment later.
fn refuse_public(file: &File, path: &Path, place: &str) -> Result<(), FileError> {
    let metadata = file.metadata().about(place)?;
    if !metadata.is_file() {
        return Err(FileError::new(format!("{place} is not a regular file")));
    }
    let mode = metadata.permissions().mode() & 0o777;
    if mode & !MODE == 0 {
        return Ok(());
    }
    let path = path.display();
    Err(FileError::new(format!(
        "{place} has mode {mode:04o}; it is a secret and must have 0600 (chmod 600 {path})"
    )))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};

    use super::*;

    fn refusal(path: &Path) -> String {
        let failure = read(path).expect_err("it is refused");
        failure.to_string()
    }

    #[test]
    fn a_new_key_reads_back_and_is_never_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        let identity = create(&path).expect("a new key");
        assert_eq!(read(&path).expect("it is there").public(), identity.public());
        let again = create(&path).expect_err("the key is there");
        assert!(again.to_string().contains("exists already"), "{again}");
    }

    #[test]
    fn a_key_that_others_can_read_is_refused_with_the_command_that_helps() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        create(&path).expect("a new key");
        for mode in [0o640, 0o604, 0o644, 0o610] {
            set_permissions(&path, Permissions::from_mode(mode)).expect("our own file");
            let refusal = refusal(&path);
            assert!(
                refusal.contains(&format!("has mode {mode:04o}")) && refusal.contains("chmod 600"),
                "{refusal}"
            );
        }
        set_permissions(&path, Permissions::from_mode(0o400)).expect("our own file");
        read(&path).expect("less than 0600 is fine");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        assert!(refusal(&path).contains("No such file"));
        assert!(refusal(folder.path()).contains("not a regular file"));
        write(&path, "not a key").expect("it can be written");
        set_permissions(&path, Permissions::from_mode(MODE)).expect("our own file");
        assert!(refusal(&path).contains("holds no key"));
    }
}
