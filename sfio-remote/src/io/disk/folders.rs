//! Which folders have all of their names on the disk.
//!
//! A name survives a power loss when its folder was synced, and that folder's name, and so on up to the root. What this
//! process has not synced itself counts as unsynced, whoever made it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

/// The most folders of which it is remembered whether their names are synced; beyond that names are synced as they are
/// made.
const MAX_FOLDERS: usize = 4_096;

/// What is known of folders, by path; the root's is empty. Of all others a sync has to show it.
#[derive(Debug, Default)]
pub(super) struct Folders(Mutex<Known>);

type Known = BTreeMap<String, Names>;

/// Whether the names in a folder would survive a power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    /// All of them.
    Synced,
    /// A sync will do.
    Pending,
    /// A sync failed; no later one can be trusted.
    Lost,
}

/// Why names may not survive a power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotSynced {
    /// A sync has failed before.
    Lost,
    /// The sync has failed now.
    Failed(Errno),
}

impl Folders {
    /// Makes or removes names in some folders. Nobody syncs any of them meanwhile: what came behind the sync would be
    /// taken for synced. `sync` syncs one, if there is no room to remember that it is to be done.
    pub(super) fn change<T>(
        &self,
        folders: &[&str],
        change: impl FnOnce() -> Result<T, Errno>,
        sync: impl Fn(&str) -> Result<(), Errno>,
    ) -> Result<T, Errno> {
        let mut known = self.known();
        let changed = change();
        // What has failed may have done half of it.
        let noted = folders.iter().try_for_each(|folder| note_change(&mut known, folder, &sync));
        let changed = changed?;
        noted.map(|()| changed)
    }

    /// Makes the names in a folder, and those of the folders on the way to it, survive a power loss.
    pub(super) fn sync_up_from(
        &self,
        mut folder: &str,
        sync: impl Fn(&str) -> Result<(), Errno>,
    ) -> Result<(), NotSynced> {
        let mut known = self.known();
        loop {
            match known.get(folder) {
                Some(Names::Synced) => {}
                Some(Names::Lost) => return Err(NotSynced::Lost),
                Some(Names::Pending) | None => {
                    sync_one(&mut known, folder, &sync).map_err(NotSynced::Failed)?;
                }
            }
            if folder.is_empty() {
                return Ok(());
            }
            folder = split(folder).0;
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name in the folder was made or removed.
fn note_change(
    known: &mut Known,
    folder: &str,
    sync: impl Fn(&str) -> Result<(), Errno>,
) -> Result<(), Errno> {
    if let Some(names) = known.get_mut(folder) {
        if *names == Names::Synced {
            *names = Names::Pending;
        }
        return Ok(());
    }
    if known.len() >= MAX_FOLDERS {
        known.retain(|_, names| *names != Names::Synced);
    }
    if known.len() >= MAX_FOLDERS {
        return sync_one(known, folder, sync);
    }
    known.insert(folder.to_owned(), Names::Pending);
    Ok(())
}

/// Syncs a folder. The lock is held meanwhile, so that nobody takes a running sync for one that has ended.
fn sync_one(known: &mut Known, folder: &str, sync: impl Fn(&str) -> Result<(), Errno>) -> Result<(), Errno> {
    let synced = sync(folder);
    let names = match synced {
        Ok(()) => Names::Synced,
        Err(_) => Names::Lost,
    };
    let is_lost = known.get(folder) == Some(&Names::Lost);
    // A loss is remembered whatever room there is.
    if names == Names::Lost || (!is_lost && known.len() < MAX_FOLDERS) {
        known.insert(folder.to_owned(), names);
    }
    synced
}

/// The folder of a path, empty for the root itself, and the name in it.
pub(super) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

#[cfg(test)]
impl Folders {
    /// As if a sync of the folder had failed.
    pub(super) fn lose(&self, folder: &str) {
        self.known().insert(folder.to_owned(), Names::Lost);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn changed(folders: &Folders, folder: &str) {
        folders.change(&[folder], || Ok(()), |_| Ok(())).expect("possible");
    }

    #[test]
    fn names_that_this_process_has_not_synced_count_as_unsynced() {
        let (folders, synced) = (Folders::default(), RefCell::new(Vec::new()));
        let sync = || {
            let note = |folder: &str| {
                synced.borrow_mut().push(folder.to_owned());
                Ok(())
            };
            folders.sync_up_from("d/e", note).expect("nothing fails");
            synced.take()
        };
        assert_eq!(sync(), ["d/e", "d", ""]);
        assert_eq!(sync(), [""; 0]);
        changed(&folders, "d/e");
        assert_eq!(sync(), ["d/e"]);
    }

    #[test]
    fn a_sync_that_failed_is_not_made_good_by_a_later_one() {
        let folders = Folders::default();
        assert_eq!(folders.sync_up_from("d", |_| Err(Errno::IO)), Err(NotSynced::Failed(Errno::IO)));
        changed(&folders, "d");
        assert_eq!(folders.sync_up_from("d/e", |_| Ok(())), Err(NotSynced::Lost));
        assert_eq!(folders.sync_up_from("", |_| Ok(())), Ok(()), "what lies above it is not lost");
    }

    #[test]
    fn a_change_that_failed_may_have_been_made() {
        let folders = Folders::default();
        folders.sync_up_from("d", |_| Ok(())).expect("nothing fails");
        let failed = folders.change(&["d"], || Err::<(), _>(Errno::IO), |_| Ok(()));
        assert_eq!(failed, Err(Errno::IO));
        assert_eq!(folders.sync_up_from("d", |_| Err(Errno::NOSPC)), Err(NotSynced::Failed(Errno::NOSPC)));
    }

    #[test]
    fn what_cannot_be_remembered_is_synced_at_once() {
        let (folders, synced) = (Folders::default(), RefCell::new(Vec::new()));
        let sync = |folder: &str| {
            synced.borrow_mut().push(folder.to_owned());
            Ok(())
        };
        let names: Vec<String> = (0..=MAX_FOLDERS).map(|number| number.to_string()).collect();
        for name in &names {
            folders.change(&[name], || Ok(()), sync).expect("possible");
        }
        assert_eq!(synced.take(), [MAX_FOLDERS.to_string()]);
    }
}
