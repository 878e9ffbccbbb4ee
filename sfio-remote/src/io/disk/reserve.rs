//! The room that is kept for the records of data sets where objects fill a disk, or a member's quota.
//!
//! To forget generations takes a record, too. Where objects have filled the last byte, nothing could be written that
//! frees some of it.

use std::fmt;
use std::os::fd::AsFd;

use rustix::fs::fstatvfs;

use super::errors::at;
use crate::dataset::{DatasetFile, Territory};
use crate::name::SubfilePath;
use crate::remote_error::ErrorKind;
use crate::store::{DiskError, SystemCall};

/// So much is left by objects: records of all I/O nodes' data sets for a while. One has 4 MiB at most, mostly some
/// kilobytes.
const RESERVE: u64 = 64 << 20;
/// Of a small disk or quota no more than such a part is kept.
const SHARE: u64 = 16;

/// What a subfile is for, as far as the reserve is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An object of a data set, which leaves the reserve to records.
    Object,
    /// All else: records, and subfiles that can be removed without one.
    Other,
}

impl Kind {
    pub(super) fn of(path: &SubfilePath) -> Kind {
        match Territory::of(path) {
            Territory::Dataset(DatasetFile::Object) => Kind::Object,
            _ => Kind::Other,
        }
    }

    /// How much of `all` such a subfile may use.
    pub(super) fn may_have(self, all: u64) -> u64 {
        match self {
            Kind::Object => all - RESERVE.min(all / SHARE),
            Kind::Other => all,
        }
    }

    /// Refuses `bytes` more of the subfile on the disk of `file` that are needed for records.
    pub(super) fn check(self, file: impl AsFd, path: &SubfilePath, bytes: u64) -> Result<(), DiskError> {
        if self == Kind::Other {
            return Ok(());
        }
        let disk = fstatvfs(file).map_err(at(SystemCall::Write, path))?;
        let [size, free] = [disk.f_blocks, disk.f_bavail].map(|blocks| blocks.saturating_mul(disk.f_frsize));
        match self.has_room(size, free, bytes) {
            true => Ok(()),
            false => {
                let text = format!("the {free} bytes that are free are kept for the records of data sets");
                Err(DiskError::new(SystemCall::Write, ErrorKind::NoSpace, text))
            }
        }
    }

    /// Whether there is room for `bytes` more on a disk of that size and with so many bytes free.
    fn has_room(self, size: u64, free: u64, bytes: u64) -> bool {
        free >= bytes.saturating_add(size - self.may_have(size))
    }
}

impl fmt::Display for Kind {
    /// The end of a sentence that names what such a subfile may have.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Object => f.write_str("; the rest is kept for the records of data sets"),
            Kind::Other => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_a_disk_is_not_for_objects() {
        const MEBIBYTE: u64 = 1 << 20;
        let large = |free| Kind::Object.has_room(1 << 40, free, MEBIBYTE);
        assert!(large(65 * MEBIBYTE) && !large(65 * MEBIBYTE - 1));
        let small = |free| Kind::Object.has_room(32 * MEBIBYTE, free, MEBIBYTE);
        assert!(small(3 * MEBIBYTE) && !small(3 * MEBIBYTE - 1));
        assert!(!Kind::Object.has_room(0, 0, 1) && !Kind::Object.has_room(u64::MAX, u64::MAX - 1, u64::MAX));
        assert!(Kind::Other.has_room(1 << 40, 1, 1));
    }
}
