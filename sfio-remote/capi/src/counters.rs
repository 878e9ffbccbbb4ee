//! Error counters of the I/O nodes.

use std::ffi::{c_int, c_ulong};

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
    call(|| {
        if ioerr.is_null() {
            return Err(Failure::argument("the array is a null pointer"));
        }
        let sums = sums()?;
        // SAFETY: it has eight elements.
        unsafe { std::slice::from_raw_parts_mut(ioerr, KINDS) }.copy_from_slice(&sums);
        Ok(())
    })
}

/// Does what merror does. In the paper this call is collective; here no call is.
///
/// # Safety
/// `ioerr` is null or has eight elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn merrora(ioerr: *mut c_ulong) -> c_int {
    // SAFETY: as this function's.
    unsafe { merror(ioerr) }
}

/// Prints what merror tells to the standard output, and lets it count from zero again.
#[unsafe(no_mangle)]
pub extern "C" fn prioerrora() -> c_int {
    call(|| {
        let sums = sums()?;
        for (name, sum) in NAMES.iter().zip(sums) {
            println!("{name:<9} {sum}");
        }
        Ok(())
    })
}

/// The paper's names, in its order.
const NAMES: [&str; KINDS] = ["open", "close", "creat", "unlink", "ftruncate", "lseek", "write", "read"];

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
