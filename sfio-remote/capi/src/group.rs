//! Groups of processes, and what they read and write together.

use std::ffi::{c_char, c_int, c_uint};
use std::path::Path;
use std::time::Duration;

use sfio_remote::io::blocking::Group;
use sfio_remote::request::ReadList;

use crate::error::{Failure, call};
use crate::file::{File, together};
use crate::memory::{Blocks, refused};
use crate::process::{current, text};

/// Joins the `size` processes of a parallel program that meet in `folder`, as the one with this rank, counted from 0,
/// and waits until all have come, for `patience_ms` at most. All of them run on one machine (m_group_at is for
/// several), as any members of the overlay; the folder exists, is the program's alone, and nothing is left in it. From
/// then on the calls that are named collective are so: all ranks make them in the same order, and each comes back when
/// all have done their part. A rank that makes another call is an error on all (M_ERR_OTHER_CALL, whose words name
/// both), and so is a rank that ends (M_ERR_GROUP).
///
/// A `size` of 1 needs no folder: what is opened afterwards is the process's own, as without this call. Files that are
/// open already stay what they are.
///
/// # Safety
/// `folder` is a text that ends with a NUL, or null if `size` is 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m_group(
    folder: *const c_char,
    rank: c_uint,
    size: c_uint,
    patience_ms: c_uint,
) -> c_int {
    call(|| {
        let process = current()?;
        if (rank, size) == (0, 1) {
            process.set_group(None);
            return Ok(());
        }
        // SAFETY: as this function's.
        let folder = Path::new(unsafe { text(folder, "the folder") }?);
        let patience = Duration::from_millis(u64::from(patience_ms));
        process.set_group(Some(Group::join(&process.member, folder, rank, size, patience)?));
        Ok(())
    })
}

/// As m_group, for processes on several machines that see one folder, over NFS for example. `host` is the IP address of
/// this machine under which the others reach it, over UDP; the ranks encrypt what they say to one another. A process
/// that calls m_finalize is lost to the others at once, and one that ends without it, is killed or stopped, or whose
/// machine or network fails, within five seconds.
///
/// # Safety
/// `host` and `folder` are texts that end with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m_group_at(
    host: *const c_char,
    folder: *const c_char,
    rank: c_uint,
    size: c_uint,
    patience_ms: c_uint,
) -> c_int {
    call(|| {
        let process = current()?;
        // SAFETY: as this function's.
        let (host, folder) = unsafe { (text(host, "the host")?, text(folder, "the folder")?) };
        let no_address = |_| Failure::argument(format!("\"{host}\" is no IP address, such as 192.0.2.7"));
        let host = host.parse().map_err(no_address)?;
        let patience = Duration::from_millis(u64::from(patience_ms));
        let group = Group::join_at(&process.member, host, Path::new(folder), rank, size, patience)?;
        process.set_group(Some(group));
        Ok(())
    })
}

/// Reads many blocks on each rank of the group that has opened the file, as mreadb does, in one collective operation. A
/// rank may have none. M_ERR_EOF is the result of those ranks only that have blocks beyond the end.
///
/// # Safety
/// `f` came from mopen and was not closed; the arrays have `count` elements, and each buffer its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mreadb_all(
    f: *mut File,
    count: c_uint,
    offsets: *const i64,
    buffers: *const *mut c_char,
    sizes: *const c_uint,
) -> c_int {
    call(|| {
        // SAFETY: as this function's.
        let (file, blocks) = unsafe { (together(f)?, Blocks::new(count, offsets, buffers, sizes)?) };
        let (read, _) = file.read_all(ReadList::new(blocks.regions()).map_err(refused)?)?;
        blocks.fill(&read)
    })
}

/// Writes many blocks from each rank of the group that has opened the file, as mwriteb does, in one collective
/// operation: few ranks collect what all have, and write it in large pieces, each over one session. A rank may have
/// none. Where blocks of two ranks overlap, and the ranges of their blocks are interleaved, those of the higher rank
/// count.
///
/// # Safety
/// `f` came from mopen and was not closed; the arrays have `count` elements, and each buffer its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mwriteb_all(
    f: *mut File,
    count: c_uint,
    offsets: *const i64,
    buffers: *const *mut c_char,
    sizes: *const c_uint,
) -> c_int {
    call(|| {
        // SAFETY: as this function's.
        let (file, blocks) = unsafe { (together(f)?, Blocks::new(count, offsets, buffers, sizes)?) };
        let (list, loan) = blocks.lend()?;
        let written = file.write_all(list);
        loan.wait();
        Ok(written.map(drop)?)
    })
}
