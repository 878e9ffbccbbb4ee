//! Whom a process may make the owner of a file.

use std::io;

use rustix::process::{getegid, geteuid, getgroups};

use crate::replication::{Owner, TreePath};

/// To whom this process may give files.
#[derive(Debug)]
pub(super) enum Giving {
    /// To anybody.
    ToAll,
    /// To nobody else: a file stays this user's, in one of these groups.
    ToItself { user: u32, groups: Vec<u32> },
}

impl Giving {
    /// What the system lets this process do.
    pub(super) fn of_this_process() -> io::Result<Giving> {
        if gives_to_all() {
            return Ok(Giving::ToAll);
        }
        let groups = getgroups()?.into_iter().chain([getegid()]).map(|group| group.as_raw()).collect();
        Ok(Giving::ToItself { user: geteuid().as_raw(), groups })
    }

    /// Refuses an owner whom this process cannot give a file to. That is to be known before anything is fetched.
    pub(super) fn check(&self, path: &TreePath, owner: Owner) -> io::Result<()> {
        let Giving::ToItself { user, groups } = self else { return Ok(()) };
        if owner.user == *user && groups.contains(&owner.group) {
            return Ok(());
        }
        let path = if *path == TreePath::top() { "the top".to_owned() } else { path.to_string() };
        let Owner { user: of_user, group: of_group } = owner;
        let message = format!(
            "--owners: {path} belongs to user {of_user} and group {of_group}, and only root may give files to others; \
             nothing was changed. Fetch as root; or without --owners, and everything belongs to user {user}"
        );
        Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
    }
}

/// Root may give files away, unless it is confined; and so may whoever has been given only that right.
#[cfg(target_os = "linux")]
fn gives_to_all() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::CHOWN))
}

#[cfg(not(target_os = "linux"))]
fn gives_to_all() -> bool {
    geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of it was fetched, and then each file failed by itself.
    #[test]
    fn an_ordinary_user_gives_files_to_nobody_else() {
        let path = TreePath::new(b"a/large".to_vec()).expect("a path");
        let giving = Giving::ToItself { user: 1000, groups: vec![100, 1000] };
        assert!(giving.check(&path, Owner { user: 1000, group: 100 }).is_ok());
        for owner in [Owner { user: 0, group: 100 }, Owner { user: 1000, group: 0 }] {
            let refusal = giving.check(&path, owner).expect_err("it may not").to_string();
            assert!(refusal.starts_with("--owners: a/large belongs to user "), "{refusal}");
            assert!(Giving::ToAll.check(&path, owner).is_ok());
        }
    }
}
