//! Error counters of the I/O nodes.

use std::ffi::{c_int, c_ulong};

use sfio_remote::collective::Rank;
use sfio_remote::store::SystemCall;

use crate::error::{Failure, Outcome, call};
use crate::process::current;

const KINDS: usize = SystemCall::ALL.len();

/// The failed system calls of all I/O nodes, which count from zero again: open, close, creat, unlink, ftruncate, lseek,
/// write, read. The I/O nodes are those of the overlay's sites, and of every name that the program has used.
///
/// # Safety
/// `ioerr` is null or has eight elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn merror(ioerr: *mut c_ulong) -> c_int {
    // SAFETY: as this function's.
    call(|| unsafe { give(ioerr, sums) })
}

/// Does what merror does. Of a group it is collective: all ranks get the same, and each I/O node is asked by one of
/// them.
///
/// # Safety
/// `ioerr` is null or has eight elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn merrora(ioerr: *mut c_ulong) -> c_int {
    // SAFETY: as this function's.
    call(|| unsafe { give(ioerr, sums_of_all) })
}

/// Prints what merrora tells to the standard output, of a group by rank 0, and lets it count from zero again. It is
/// collective as merrora is.
#[unsafe(no_mangle)]
pub extern "C" fn prioerrora() -> c_int {
    call(|| {
        let sums = sums_of_all()?;
        if current()?.group().is_none_or(|group| group.rank() == Rank(0)) {
            for (name, sum) in NAMES.iter().zip(sums) {
                println!("{name:<9} {sum}");
            }
        }
        Ok(())
    })
}

/// The paper's names, in its order.
const NAMES: [&str; KINDS] = ["open", "close", "creat", "unlink", "ftruncate", "lseek", "write", "read"];

/// # Safety
/// `ioerr` is null or has eight elements.
unsafe fn give(ioerr: *mut c_ulong, count: impl FnOnce() -> Outcome<[c_ulong; KINDS]>) -> Outcome<()> {
    if ioerr.is_null() {
        return Err(Failure::argument("the array is a null pointer"));
    }
    let sums = count()?;
    // SAFETY: it has eight elements.
    unsafe { std::slice::from_raw_parts_mut(ioerr, KINDS) }.copy_from_slice(&sums);
    Ok(())
}

fn sums() -> Outcome<[c_ulong; KINDS]> {
    let process = current()?;
    let mut sums = [0; KINDS];
    for io_node in process.io_nodes() {
        let counters = process.member.error_counters(&io_node, true)?;
        for (sum, (_, count)) in sums.iter_mut().zip(counters.iter()) {
            *sum += count as c_ulong;
        }
    }
    Ok(sums)
}

fn sums_of_all() -> Outcome<[c_ulong; KINDS]> {
    let process = current()?;
    let Some(group) = process.group() else { return sums() };
    let io_nodes: Vec<String> = process.io_nodes().into_iter().collect();
    Ok(group.error_counters(&io_nodes, true)?.map(|sum| sum as c_ulong))
}
