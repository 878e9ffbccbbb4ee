//! Which member may do what, and where.

use std::collections::BTreeMap;

use crate::name::SubfilePath;
use crate::remote_error::{ErrorKind, RemoteError};

/// What a member may do with the subfiles beneath a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Nothing.
    None,
    /// Read, list, and ask for sizes and counters.
    Read,
    /// Also add to data sets: generations, damage that was found, what heals it. Nothing that is there is changed.
    Append,
    /// Everything.
    ReadWrite,
}

/// The rights of one member beneath an export root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    /// Where nothing else is said.
    everywhere: Right,
    /// Beneath these folders; of several the innermost decides.
    beneath: BTreeMap<SubfilePath, Right>,
}

/// The rights of all members. By default nobody has any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccessRules {
    members: BTreeMap<String, Rights>,
    others: Rights,
}

impl Default for Rights {
    fn default() -> Rights {
        Rights::everywhere(Right::None)
    }
}

impl Rights {
    /// The same right beneath all of the export root.
    pub fn everywhere(right: Right) -> Rights {
        Rights { everywhere: right, beneath: BTreeMap::new() }
    }

    /// Another right beneath `folder`.
    #[must_use]
    pub fn beneath(mut self, folder: SubfilePath, right: Right) -> Rights {
        self.beneath.insert(folder, right);
        self
    }

    /// The right at `path`.
    pub fn at(&self, path: &SubfilePath) -> Right {
        let around = self.beneath.iter().filter(|(folder, _)| path.is_beneath(folder));
        around.max_by_key(|(folder, _)| folder.as_str().len()).map_or(self.everywhere, |(_, right)| *right)
    }

    /// The largest right that there is anywhere.
    fn largest(&self) -> Right {
        self.beneath.values().copied().max().unwrap_or(Right::None).max(self.everywhere)
    }

    /// The smallest right that there is anywhere.
    fn smallest(&self) -> Right {
        self.beneath.values().copied().min().unwrap_or(Right::ReadWrite).min(self.everywhere)
    }
}

impl AccessRules {
    /// The same right for every member of the overlay.
    pub fn everyone(right: Right) -> AccessRules {
        AccessRules { members: BTreeMap::new(), others: Rights::everywhere(right) }
    }

    /// The rights of a member; those of all others do not count for it.
    #[must_use]
    pub fn with(mut self, member: &str, rights: Rights) -> AccessRules {
        self.members.insert(member.to_owned(), rights);
        self
    }

    /// The rights of all members that are not named.
    #[must_use]
    pub fn with_others(mut self, rights: Rights) -> AccessRules {
        self.others = rights;
        self
    }

    /// The right of `member` at `path`.
    pub fn right(&self, member: &str, path: &SubfilePath) -> Right {
        self.of(member).at(path)
    }

    /// Whether `member` has `needed` at `path`.
    ///
    /// # Errors
    /// If not; the kind of the error says what it has.
    pub fn check(&self, member: &str, path: &SubfilePath, needed: Right) -> Result<(), RemoteError> {
        refuse(member, self.right(member, path), needed)
    }

    /// Whether `member` may ask for what concerns the whole I/O node: to read, a right anywhere will do, and to change
    /// one that holds everywhere.
    ///
    /// # Errors
    /// If not.
    pub fn check_node(&self, member: &str, changes: bool) -> Result<(), RemoteError> {
        let rights = self.of(member);
        match changes {
            true => refuse(member, rights.smallest(), Right::ReadWrite),
            false => refuse(member, rights.largest(), Right::Read),
        }
    }

    fn of(&self, member: &str) -> &Rights {
        self.members.get(member).unwrap_or(&self.others)
    }
}

fn refuse(member: &str, right: Right, needed: Right) -> Result<(), RemoteError> {
    let kind = match right {
        right if right >= needed => return Ok(()),
        Right::Append => ErrorKind::AppendOnly,
        Right::Read => ErrorKind::ReadOnly,
        Right::None | Right::ReadWrite => ErrorKind::PermissionDenied,
    };
    Err(RemoteError::new(kind, format!("for member {member}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> SubfilePath {
        SubfilePath::new(text).expect("a right path")
    }

    #[test]
    fn the_innermost_folder_decides_and_who_is_not_named_has_nothing() {
        let backup = Rights::default()
            .beneath(path("b"), Right::Read)
            .beneath(path("b/mine"), Right::Append)
            .beneath(path("b/mine/secret"), Right::None);
        let rules = AccessRules::default().with("backup", backup);
        let right = |member, text: &str| rules.right(member, &path(text));
        assert_eq!(right("backup", "a"), Right::None);
        assert_eq!([right("backup", "b"), right("backup", "b/x/y")], [Right::Read; 2]);
        assert_eq!(right("backup", "bb"), Right::None);
        assert_eq!(right("backup", "b/mine/x"), Right::Append);
        assert_eq!(right("backup", "b/mine/secret/x"), Right::None);
        assert_eq!(right("other", "b"), Right::None);
    }

    #[test]
    fn a_named_member_has_its_own_rights_and_all_others_theirs() {
        let rules = AccessRules::everyone(Right::ReadWrite).with("guest", Rights::everywhere(Right::Read));
        let kind = |member, needed| rules.check(member, &path("x"), needed).map_err(|error| error.kind);
        assert_eq!(kind("anybody", Right::ReadWrite), Ok(()));
        assert_eq!(kind("guest", Right::Read), Ok(()));
        assert_eq!(kind("guest", Right::Append), Err(ErrorKind::ReadOnly));
        let rules = rules.with("guest", Rights::everywhere(Right::Append)).with_others(Rights::default());
        let error = rules.check("guest", &path("x"), Right::ReadWrite).expect_err("it may only add");
        assert_eq!((error.kind, error.text.as_str()), (ErrorKind::AppendOnly, "for member guest"));
        let error = rules.check("anybody", &path("x"), Right::Read).expect_err("nobody else");
        assert_eq!(error.kind, ErrorKind::PermissionDenied);
    }

    #[test]
    fn what_concerns_the_whole_node_is_read_with_any_right_and_changed_with_all() {
        let some = Rights::default().beneath(path("b"), Right::ReadWrite);
        let most = Rights::everywhere(Right::ReadWrite).beneath(path("b"), Right::Append);
        let all = Rights::everywhere(Right::ReadWrite);
        let rules = AccessRules::default().with("some", some).with("most", most).with("all", all);
        let may = |member| [false, true].map(|changes| rules.check_node(member, changes).is_ok());
        assert_eq!(may("none"), [false, false]);
        assert_eq!([may("some"), may("most"), may("all")], [[true, false], [true, false], [true, true]]);
    }
}
