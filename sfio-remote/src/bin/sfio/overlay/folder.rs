//! Where the files of a local overlay are.
//!
//! ```text
//! DIR/overlay.toml          the members and their links
//! DIR/links.toml            what the links are like, if they are emulated
//! DIR/NAME/config.toml      of each member
//! DIR/NAME/key
//! DIR/NAME/export/          what an I/O node serves
//! DIR/NAME/log              what the member wrote when it ran last
//! DIR/NAME/pid              its process, while `overlay up` runs it
//! ```

use std::path::{Path, PathBuf};

/// The member that `--overlay DIR` stands for.
pub(crate) const CLIENT: &str = "client";

/// The folder of a local overlay.
#[derive(Debug, Clone)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(path: &Path) -> Folder {
        Folder(path.to_owned())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn overlay(&self) -> PathBuf {
        self.0.join("overlay.toml")
    }

    pub(crate) fn links(&self) -> PathBuf {
        self.0.join("links.toml")
    }

    pub(crate) fn member(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn config(&self, name: &str) -> PathBuf {
        self.member(name).join("config.toml")
    }

    pub(crate) fn pid(&self, name: &str) -> PathBuf {
        self.member(name).join("pid")
    }

    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.member(name).join("log")
    }
}
