//! Where the files of a data set are on an I/O node, and which paths are kept for them (docs/replication.md).
//!
//! ```text
//! NAME/objects/<run>      what a run sent; <run> is 32 hexadecimal digits
//! NAME/journals/<run>     what of it is safe
//! NAME/staged/<run>       a record that is to be published
//! NAME/commits/<number>   the records; <number> is 20 decimal digits
//! NAME/lock               claimed by whoever writes, as a courtesy
//! .sfio/                  the I/O node's own
//! ```
//!
//! A path is known by its looks: no table says which folders are data sets, so nothing can be wrong about it.

use std::fmt;

use crate::name::{ElementError, EntryName, MAX_PATH_BYTES, SubfilePath};

/// The folder at the top of an export root that no subfile is in.
pub const OWN_FOLDER: &str = ".sfio";

const RUN_DIGITS: usize = 32;
const NUMBER_DIGITS: usize = 20;
const LOCK: &str = "lock";

/// What a file of a data set is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DatasetFile {
    /// What a run sent.
    Object,
    /// What a run knows to be safe.
    Journal,
    /// A record that is to be published.
    Staged,
    /// A record.
    Commit,
}

/// What a path may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Territory {
    /// Any subfile may have it.
    Free,
    /// A data set's file, which is written once.
    Dataset(DatasetFile),
    /// The I/O node's own, or beneath what can only be a data set's file.
    Reserved,
}

/// The folder of a data set on an I/O node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DatasetPath(SubfilePath);

impl DatasetFile {
    const ALL: [DatasetFile; 4] =
        [DatasetFile::Object, DatasetFile::Journal, DatasetFile::Staged, DatasetFile::Commit];

    fn folder(self) -> &'static str {
        match self {
            DatasetFile::Object => "objects",
            DatasetFile::Journal => "journals",
            DatasetFile::Staged => "staged",
            DatasetFile::Commit => "commits",
        }
    }

    /// The kind of file that `name` in a folder called `folder` is.
    fn of(folder: &str, name: &str) -> Option<DatasetFile> {
        let kind = DatasetFile::ALL.into_iter().find(|kind| kind.folder() == folder)?;
        let is_name = match kind {
            DatasetFile::Commit => is_number(name),
            _ => name.len() == RUN_DIGITS && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')),
        };
        is_name.then_some(kind)
    }
}

fn is_number(name: &str) -> bool {
    name.len() == NUMBER_DIGITS && name.bytes().all(|byte| byte.is_ascii_digit())
}

impl Territory {
    /// What `path` may be used for.
    pub fn of(path: &SubfilePath) -> Territory {
        let components: Vec<&str> = path.components().collect();
        if components[0] == OWN_FOLDER {
            return Territory::Reserved;
        }
        // The first component is, at best, the name of the data set.
        for end in 2..components.len() {
            match DatasetFile::of(components[end - 1], components[end]) {
                Some(kind) if end + 1 == components.len() => return Territory::Dataset(kind),
                Some(_) => return Territory::Reserved,
                None => {}
            }
        }
        Territory::Free
    }
}

impl DatasetPath {
    /// The data set in `folder`.
    ///
    /// # Errors
    /// If its files would have paths that are too long, or the folder cannot be one.
    pub fn new(folder: SubfilePath) -> Result<DatasetPath, ElementError> {
        if folder.is_root() {
            return Err(ElementError::EmptyPath);
        }
        let longest = folder.as_str().len() + 1 + DatasetFile::Journal.folder().len() + 1 + RUN_DIGITS;
        if longest > MAX_PATH_BYTES {
            return Err(ElementError::PathTooLong { bytes: longest });
        }
        match Territory::of(&folder) {
            Territory::Free => Ok(DatasetPath(folder)),
            _ => Err(ElementError::Reserved),
        }
    }

    /// The data set of which `folder` may have the records, as its name tells.
    pub fn with_commits_in(folder: &SubfilePath) -> Option<DatasetPath> {
        let (dataset, last) = folder.as_str().rsplit_once('/')?;
        let dataset = DatasetPath::new(SubfilePath::new(dataset).ok()?).ok()?;
        (last == DatasetFile::Commit.folder()).then_some(dataset)
    }

    /// Its folder.
    pub fn folder(&self) -> &SubfilePath {
        &self.0
    }

    /// What the run sent.
    pub fn object(&self, run: impl fmt::Display) -> SubfilePath {
        self.file(DatasetFile::Object, run)
    }

    /// What the run knows to be safe.
    pub fn journal(&self, run: impl fmt::Display) -> SubfilePath {
        self.file(DatasetFile::Journal, run)
    }

    /// The record that was staged under this id.
    pub fn staged(&self, id: impl fmt::Display) -> SubfilePath {
        self.file(DatasetFile::Staged, id)
    }

    /// The record of that number.
    pub fn commit(&self, number: u64) -> SubfilePath {
        self.file(DatasetFile::Commit, record_name(number))
    }

    /// The folder of the records.
    pub fn commits(&self) -> SubfilePath {
        self.beneath(DatasetFile::Commit.folder())
    }

    /// The lock, which is claimed by whoever writes.
    pub fn lock(&self) -> SubfilePath {
        self.beneath(LOCK)
    }

    fn file(&self, kind: DatasetFile, name: impl fmt::Display) -> SubfilePath {
        self.beneath(&format!("{}/{name}", kind.folder()))
    }

    fn beneath(&self, rest: &str) -> SubfilePath {
        SubfilePath::new(&format!("{}/{rest}", self.0))
            .expect("its length was checked, and the rest is right")
    }
}

impl fmt::Display for DatasetPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether a path can be the lock of a data set.
pub(crate) fn is_lock(path: &SubfilePath) -> bool {
    path.components().next_back() == Some(LOCK) && path.components().count() > 1
}

/// The name of the record of that number in the folder of the records.
pub fn record_name(number: u64) -> EntryName {
    EntryName::new(&format!("{number:0NUMBER_DIGITS$}")).expect("digits are a name")
}

/// The number of the record of that name; none if no record is called so.
pub fn record_number(name: &EntryName) -> Option<u64> {
    name.as_str().parse().ok().filter(|_| is_number(name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RUN: &str = "0123456789abcdef0123456789abcdef";

    fn territory(text: &str) -> Territory {
        Territory::of(&SubfilePath::new(text).expect("a right path"))
    }

    #[test]
    fn a_path_is_known_by_its_looks() {
        let run = |folder: &str| territory(&format!("a/b/{folder}/{RUN}"));
        assert_eq!(run("objects"), Territory::Dataset(DatasetFile::Object));
        assert_eq!(run("journals"), Territory::Dataset(DatasetFile::Journal));
        assert_eq!(run("staged"), Territory::Dataset(DatasetFile::Staged));
        assert_eq!(run("commits"), Territory::Free, "a record has a number");
        assert_eq!(territory("a/commits/00000000000000000012"), Territory::Dataset(DatasetFile::Commit));
        assert_eq!(territory("a/commits/12"), Territory::Free);
        assert_eq!(territory(&format!("objects/{RUN}")), Territory::Free, "no name of a data set");
        assert_eq!(territory(&format!("a/objects/{}", RUN.to_uppercase())), Territory::Free);
        assert_eq!(
            territory(&format!("a/objects/{RUN}/b")),
            Territory::Reserved,
            "a folder in place of an object"
        );
        assert_eq!(territory(&format!("a/objects/{RUN}/commits/00000000000000000012")), Territory::Reserved);
        assert_eq!([territory(".sfio"), territory(".sfio/identity")], [Territory::Reserved; 2]);
        assert_eq!(territory("a/.sfio"), Territory::Free);
        assert_eq!(territory("a/.git/objects/ab/cdef"), Territory::Free);
    }

    #[test]
    fn a_data_set_has_a_free_folder_with_room_for_its_files() {
        let dataset = |text: &str| DatasetPath::new(SubfilePath::new(text).expect("a right path"));
        assert_eq!(DatasetPath::new(SubfilePath::root()), Err(ElementError::EmptyPath));
        assert_eq!(dataset(".sfio"), Err(ElementError::Reserved));
        assert_eq!(dataset(&format!("a/objects/{RUN}")), Err(ElementError::Reserved));
        let long = "x/".repeat(2_030);
        assert!(matches!(dataset(&long), Err(ElementError::PathTooLong { .. })));
        assert!(is_lock(&dataset("a").expect("right").lock()));
        assert!(!is_lock(&SubfilePath::new("lock").expect("right")));
    }

    proptest! {
        #[test]
        fn files_of_data_sets_are_recognised(name in "[a-z]{1,9}(/[a-z]{1,9}){0,3}", run: u128, number: u64) {
            let dataset = DatasetPath::new(SubfilePath::new(&name).expect("a right path")).expect("free");
            let run = format!("{run:032x}");
            for (path, kind) in [
                (dataset.object(&run), DatasetFile::Object),
                (dataset.journal(&run), DatasetFile::Journal),
                (dataset.staged(&run), DatasetFile::Staged),
                (dataset.commit(number), DatasetFile::Commit),
            ] {
                prop_assert_eq!(Territory::of(&path), Territory::Dataset(kind));
            }
            prop_assert_eq!(DatasetPath::with_commits_in(dataset.folder()), None);
            prop_assert_eq!(DatasetPath::with_commits_in(&dataset.commits()), Some(dataset.clone()));
            prop_assert_eq!(dataset.commits().join(&record_name(number)), Ok(dataset.commit(number)));
            prop_assert_eq!(record_number(&record_name(number)), Some(number));
        }
    }
}
