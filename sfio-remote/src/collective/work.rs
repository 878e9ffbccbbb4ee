//! What a rank is to do at the file, and what came of it.

use bytes::Bytes;

use crate::distribution::SubfileIndex;
use crate::request::{ReadList, RegionsRead, WriteList};

/// What is to be done at the file.
#[derive(Debug)]
pub enum FileWork {
    /// Write this. No subfile is to be extended beyond what is written to it: that is for `Grow` to do.
    Write(WriteList),
    /// Read this.
    Read(ReadList),
    /// Do this rank's part of a call that moves no data.
    Perform,
    /// Extend these subfiles with zeros where they are shorter than in a file of `length` bytes.
    Grow {
        /// Which ones; this rank keeps them.
        subfiles: Vec<SubfileIndex>,
        /// The length of the whole file, in bytes.
        length: u64,
    },
}

/// A number for work at the file that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkId(pub u64);

/// What came of work at the file.
#[derive(Debug)]
pub enum WorkDone {
    /// Of [`FileWork::Write`].
    Written,
    /// Of [`FileWork::Read`].
    Read(RegionsRead),
    /// Of [`FileWork::Perform`]: what all ranks are to be told.
    Performed(Bytes),
    /// Of [`FileWork::Grow`].
    Grown,
}
