//! The name of a striped file: which I/O nodes hold its subfiles, and where (design §7).
//!
//! ```text
//! io1,/tmp/a.dat; io2,/tmp/a.dat;
//! └┬┘ └───┬────┘  └──────┬──────┘
//! member  path      second subfile
//! ```
//!
//! The order of the elements is the order of striping. Nothing else about the file is recorded anywhere: whoever knows
//! the name and the stripe unit can read it. `[sfio]`, `[thesis §2.5]`

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The longest path of a subfile, in bytes: Linux's `PATH_MAX` without its NUL.
pub const MAX_PATH_BYTES: usize = 4_095;

/// The longest name in a folder, in bytes: Linux's `NAME_MAX`.
pub const MAX_NAME_BYTES: usize = 255;

/// The most subfiles that one file may have; a plan for each of them is held while an operation runs.
pub const MAX_SUBFILES: usize = 4_096;

/// The name of a striped file: its subfiles in the order of striping.
///
/// ```
/// use sfio_remote::name::FileName;
///
/// let name: FileName = "io1,/tmp/a.dat; io2, /tmp/a.dat".parse()?;
/// assert_eq!(name.subfiles()[1].member(), "io2");
/// assert_eq!(name.subfiles()[1].path().as_str(), "tmp/a.dat");
/// assert_eq!(name.to_string(), "io1,tmp/a.dat;io2,tmp/a.dat;");
/// # Ok::<(), sfio_remote::name::NameError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName {
    subfiles: Vec<SubfileName>,
}

/// One element of a name: the member that holds the subfile, and its path there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubfileName {
    member: String,
    path: SubfilePath,
}

/// A path beneath a member's export root, in one spelling: no leading slash, no `.`, no empty component.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubfilePath(String);

/// One name in a folder: a component of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryName(String);

/// What is wrong with the name of a striped file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No element at all.
    #[error("the name has no subfiles; expected \"member,path;member,path;\"")]
    NoSubfiles,
    /// More elements than an operation can plan for.
    #[error("the name has {count} subfiles; at most {MAX_SUBFILES} are possible")]
    TooManySubfiles {
        /// How many it has.
        count: usize,
    },
    /// An element without a comma.
    #[error("element {element} (\"{text}\") has no comma; expected \"member,path\"")]
    NoComma {
        /// Its position, counted from 1.
        element: usize,
        /// The element as written.
        text: String,
    },
    /// An element whose member or path is not possible.
    #[error("element {element} (\"{text}\"): {error}")]
    Element {
        /// Its position, counted from 1.
        element: usize,
        /// The element as written.
        text: String,
        /// What is wrong with it.
        error: ElementError,
    },
    /// Two elements are one subfile, which would have to hold two different contents.
    #[error("elements {first} and {second} are the same subfile, \"{path}\" on \"{member}\"")]
    Duplicate {
        /// The earlier position, counted from 1.
        first: usize,
        /// The later position, counted from 1.
        second: usize,
        /// The member of both.
        member: String,
        /// The path of both, in its one spelling.
        path: SubfilePath,
    },
}

/// What is wrong with a member's name or a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ElementError {
    /// Nothing before the comma.
    #[error("the member is empty")]
    EmptyMember,
    /// Nothing is left of the path without its slashes.
    #[error("the path is empty; expected a file beneath the member's export root")]
    EmptyPath,
    /// A way out of the export root.
    #[error("the path has the component \"..\"; it must stay beneath the member's export root")]
    ParentDirectory,
    /// A character that ends the name or an element, where it cannot stand.
    #[error("{character:?} cannot stand in a {part}")]
    Character {
        /// The character.
        character: char,
        /// `member` or `path`.
        part: &'static str,
    },
    /// A path that no system call would take.
    #[error("the path has {bytes} bytes; at most {MAX_PATH_BYTES} are possible")]
    PathTooLong {
        /// Its length without leading slashes.
        bytes: usize,
    },
    /// A component that no file system would take.
    #[error("a component of the path has {bytes} bytes; at most {MAX_NAME_BYTES} are possible")]
    NameTooLong {
        /// Its length.
        bytes: usize,
    },
    /// A path that only the I/O node itself, or the files of a data set, can have.
    #[error("the path is kept for data sets, or for the I/O node itself")]
    Reserved,
    /// A name in a folder that is a path, or nothing.
    #[error("\"{0}\" is no name of a file in a folder")]
    NotAName(String),
}

impl FileName {
    /// A name of the given subfiles, in the order of striping.
    ///
    /// # Errors
    /// If there are none, too many, or two that are the same.
    pub fn new(subfiles: Vec<SubfileName>) -> Result<FileName, NameError> {
        if subfiles.is_empty() {
            return Err(NameError::NoSubfiles);
        }
        if subfiles.len() > MAX_SUBFILES {
            return Err(NameError::TooManySubfiles { count: subfiles.len() });
        }
        refuse_duplicates(&subfiles)?;
        Ok(FileName { subfiles })
    }

    /// The subfiles, in the order of striping; never empty.
    pub fn subfiles(&self) -> &[SubfileName] {
        &self.subfiles
    }
}

impl FromStr for FileName {
    type Err = NameError;

    /// Reads `member,path;member,path;`: split at the first comma of an element; a trailing `;` and blanks after `,`
    /// and `;` are allowed, because the papers have both.
    fn from_str(text: &str) -> Result<FileName, NameError> {
        let mut elements: Vec<&str> = text.split(';').map(str::trim_ascii_start).collect();
        if elements.last().is_some_and(|last| last.is_empty()) {
            elements.pop();
        }
        if elements.len() > MAX_SUBFILES {
            return Err(NameError::TooManySubfiles { count: elements.len() });
        }
        let subfiles = elements.iter().enumerate().map(|(index, text)| parse_element(index + 1, text));
        FileName::new(subfiles.collect::<Result<_, _>>()?)
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.subfiles.iter().try_for_each(|subfile| write!(f, "{subfile};"))
    }
}

impl SubfileName {
    /// A subfile at `path` on `member`.
    ///
    /// # Errors
    /// If one of the two cannot stand in a name.
    pub fn new(member: &str, path: &str) -> Result<SubfileName, ElementError> {
        let member = member.trim_ascii_start();
        if member.is_empty() {
            return Err(ElementError::EmptyMember);
        }
        if let Some(character) = member.chars().find(|c| matches!(c, ',' | ';' | '\0')) {
            return Err(ElementError::Character { character, part: "member" });
        }
        Ok(SubfileName { member: member.to_owned(), path: SubfilePath::new(path)? })
    }

    /// The name of the member that holds it.
    pub fn member(&self) -> &str {
        &self.member
    }

    /// Where it is beneath the member's export root.
    pub fn path(&self) -> &SubfilePath {
        &self.path
    }
}

impl fmt::Display for SubfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A blank after the comma is no part of the path, so a path that begins with one needs its slash back.
        let slash = if self.path.0.starts_with(|c: char| c.is_ascii_whitespace()) { "/" } else { "" };
        write!(f, "{},{slash}{}", self.member, self.path)
    }
}

impl SubfilePath {
    /// The one spelling of a path as users write it: `/tmp//a.dat` is `tmp/a.dat`.
    ///
    /// # Errors
    /// If it is empty, leaves its root by `..`, is too long, or has a character that no name can carry.
    pub fn new(text: &str) -> Result<SubfilePath, ElementError> {
        if let Some(character) = text.chars().find(|c| matches!(c, ';' | '\0')) {
            return Err(ElementError::Character { character, part: "path" });
        }
        let components: Vec<&str> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        if components.contains(&"..") {
            return Err(ElementError::ParentDirectory);
        }
        if let Some(long) = components.iter().find(|part| part.len() > MAX_NAME_BYTES) {
            return Err(ElementError::NameTooLong { bytes: long.len() });
        }
        let path = components.join("/");
        match path.len() {
            0 => Err(ElementError::EmptyPath),
            bytes if bytes > MAX_PATH_BYTES => Err(ElementError::PathTooLong { bytes }),
            _ => Ok(SubfilePath(path)),
        }
    }

    /// The export root itself, which can be listed, and nothing else. No text spells it.
    pub const fn root() -> SubfilePath {
        SubfilePath(String::new())
    }

    /// Whether it is the export root itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path, relative to the export root; empty for the root itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its components, from the export root on.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/')
    }

    /// The folder that it is in; of the root, the root.
    pub fn folder(&self) -> SubfilePath {
        SubfilePath(self.0.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned())
    }

    /// The path of `name` in this folder.
    ///
    /// # Errors
    /// If it is too long.
    pub fn join(&self, name: &EntryName) -> Result<SubfilePath, ElementError> {
        let path = if self.is_root() { name.0.clone() } else { format!("{self}/{name}") };
        match path.len() {
            bytes if bytes > MAX_PATH_BYTES => Err(ElementError::PathTooLong { bytes }),
            _ => Ok(SubfilePath(path)),
        }
    }

    /// Whether it is `folder`, or lies beneath it.
    pub fn is_beneath(&self, folder: &SubfilePath) -> bool {
        let is_in = |rest: &str| rest.is_empty() || rest.starts_with('/');
        folder.is_root() || self.0.strip_prefix(folder.as_str()).is_some_and(is_in)
    }
}

impl EntryName {
    /// A name in a folder.
    ///
    /// # Errors
    /// If no component of a path can be so.
    pub fn new(text: &str) -> Result<EntryName, ElementError> {
        let path = SubfilePath::new(text)?;
        if path.as_str() != text || text.contains('/') {
            return Err(ElementError::NotAName(text.to_owned()));
        }
        Ok(EntryName(path.0))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for SubfilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn parse_element(element: usize, text: &str) -> Result<SubfileName, NameError> {
    let owned = || text.to_owned();
    let (member, path) = text.split_once(',').ok_or_else(|| NameError::NoComma { element, text: owned() })?;
    SubfileName::new(member, path.trim_ascii_start()).map_err(|error| NameError::Element {
        element,
        text: owned(),
        error,
    })
}

fn refuse_duplicates(subfiles: &[SubfileName]) -> Result<(), NameError> {
    let mut seen = BTreeMap::new();
    for (index, subfile) in subfiles.iter().enumerate() {
        if let Some(first) = seen.insert(subfile, index) {
            return Err(NameError::Duplicate {
                first: first + 1,
                second: index + 1,
                member: subfile.member.clone(),
                path: subfile.path.clone(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(text: &str) -> Vec<(String, String)> {
        let name: FileName = text.parse().expect("a right name");
        name.subfiles().iter().map(|s| (s.member().to_owned(), s.path().to_string())).collect()
    }

    fn error(text: &str) -> String {
        text.parse::<FileName>().expect_err("a wrong name").to_string()
    }

    fn pair(member: &str, path: &str) -> (String, String) {
        (member.to_owned(), path.to_owned())
    }

    #[test]
    fn the_names_of_the_papers_are_read() {
        let expected = vec![pair("t0-p1", "tmp/a1.dat"), pair("t0-p2", "tmp/a2.dat")];
        assert_eq!(parts("t0-p1,/tmp/a1.dat;t0-p2,/tmp/a2.dat;"), expected);
        assert_eq!(parts("t0-p1,/tmp/a1.dat;t0-p2,/tmp/a2.dat"), expected);
        assert_eq!(parts(" t0-p1, /tmp/a1.dat; t0-p2,  ///tmp/./a2.dat; "), expected);
    }

    #[test]
    fn only_the_first_comma_separates_and_the_same_member_may_come_twice() {
        assert_eq!(parts("io1,a,b;io1,c"), vec![pair("io1", "a,b"), pair("io1", "c")]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_element() {
        assert!(error("").contains("no subfiles"));
        assert!(error("io1,a;io2").starts_with("element 2 (\"io2\") has no comma"));
        assert!(error("io1,a;;io2,b").starts_with("element 2 (\"\") has no comma"));
        assert!(error("io1,a; ,b").starts_with("element 2 (\",b\"): the member is empty"));
        assert!(error("io1,//;").contains("the path is empty"));
        assert!(error("io1,a/../b").contains("\"..\""));
        assert!(error("io1,a\0b").contains("'\\0' cannot stand in a path"));
        assert!(error(&format!("io1,{}", "/x".repeat(MAX_PATH_BYTES / 2 + 2))).contains("has 4097 bytes"));
        assert!(error(&format!("io1,a/{}", "x".repeat(MAX_NAME_BYTES + 1))).contains("has 256 bytes"));
        assert_eq!(error("io1,/a;io2,a;io1,./a"), "elements 1 and 3 are the same subfile, \"a\" on \"io1\"");
        assert!(error(&"io1,a;".repeat(MAX_SUBFILES + 1)).contains("has 4097 subfiles"));
    }

    #[test]
    fn a_name_made_of_parts_obeys_the_same_rules() {
        assert_eq!(
            SubfileName::new("io;1", "a").expect_err("wrong").to_string(),
            "';' cannot stand in a member"
        );
        assert!(SubfileName::new("io1", "a;b").is_err());
        assert!(FileName::new(Vec::new()).is_err());
    }

    #[test]
    fn a_name_in_a_folder_is_one_component() {
        for wrong in ["", ".", "..", "a/b", "/a", "a/", "a;b", "a\0"] {
            assert!(EntryName::new(wrong).is_err(), "{wrong:?}");
        }
        let (folder, name) = (SubfilePath::new("a/b").expect("right"), EntryName::new("c d").expect("right"));
        let path = folder.join(&name).expect("short");
        assert_eq!(path.as_str(), "a/b/c d");
        assert!(path.is_beneath(&folder) && folder.is_beneath(&folder) && !folder.is_beneath(&path));
        assert!(!SubfilePath::new("a/bc").expect("right").is_beneath(&folder));
        let root = SubfilePath::root();
        assert_eq!(root.join(&name).expect("short").as_str(), "c d");
        assert!(path.is_beneath(&root) && root.is_beneath(&root) && !root.is_beneath(&folder));
    }

    proptest! {
        #[test]
        fn a_printed_name_reads_back(elements in prop::collection::btree_set(("[a-z .-]{1,4}", "[ a-c/.,]{1,6}"), 1..6)) {
            let text: String = elements.iter().map(|(member, path)| format!("{member},{path};")).collect();
            if let Ok(name) = text.parse::<FileName>() {
                prop_assert_eq!(name.to_string().parse::<FileName>(), Ok(name));
            }
        }

        #[test]
        fn no_path_that_was_accepted_leaves_its_root(text in ".{0,40}") {
            if let Ok(path) = SubfilePath::new(&text) {
                let has_way_out = path.as_str().split('/').any(|part| matches!(part, "" | "." | ".."));
                prop_assert!(!has_way_out && !path.as_str().contains('\0'));
            }
        }
    }
}
