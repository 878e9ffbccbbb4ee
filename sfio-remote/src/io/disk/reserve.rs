//! The room that is kept for the records of data sets where objects fill a disk.
//!
//! To forget generations takes a record, too. On a disk that objects have filled to the last byte nothing could be
//! written that frees some of it.

use std::os::fd::AsFd;

use rustix::fs::fstatvfs;

use super::errors::at;
use crate::dataset::{DatasetFile, Territory};
use crate::name::SubfilePath;
use crate::remote_error::ErrorKind;
use crate::store::{DiskError, SystemCall};

/// So many bytes are left by objects: records of all I/O nodes' data sets for a while. One has 4 MiB at most, mostly
/// some kilobytes.
const RESERVE: u64 = 64 << 20;
/// Of a small disk no more than such a part is kept.
const SHARE: u64 = 16;

/// Refuses `bytes` more of an object on the disk of `root` that are needed for records.
pub(super) fn keep(root: impl AsFd, path: &SubfilePath, bytes: u64) -> Result<(), DiskError> {
    if Territory::of(path) != Territory::Dataset(DatasetFile::Object) {
        return Ok(());
    }
    let disk = fstatvfs(root).map_err(at(SystemCall::Write, path))?;
    let [size, free] = [disk.f_blocks, disk.f_bavail].map(|blocks| blocks.saturating_mul(disk.f_frsize));
    match has_room(size, free, bytes) {
        true => Ok(()),
        false => {
            let text = format!("the {free} bytes that are free are kept for the records of data sets");
            Err(DiskError::new(SystemCall::Write, ErrorKind::NoSpace, text))
        }
    }
}

fn has_room(size: u64, free: u64, bytes: u64) -> bool {
    free >= bytes.saturating_add(RESERVE.min(size / SHARE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_a_disk_is_not_for_objects() {
        const MEBIBYTE: u64 = 1 << 20;
        let large = |free| has_room(1 << 40, free, MEBIBYTE);
        assert!(large(65 * MEBIBYTE) && !large(65 * MEBIBYTE - 1));
        let small = |free| has_room(32 * MEBIBYTE, free, MEBIBYTE);
        assert!(small(3 * MEBIBYTE) && !small(3 * MEBIBYTE - 1));
        assert!(!has_room(0, 0, 1) && !has_room(u64::MAX, u64::MAX - 1, u64::MAX));
    }
}
