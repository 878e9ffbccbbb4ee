//! Operations that run while the program does something else.

use std::ffi::{c_char, c_int, c_uint};

use sfio_remote::io::FileError;
use sfio_remote::io::blocking::Pending;
use sfio_remote::request::{ReadList, RegionsRead};

use crate::error::{Failure, MResult, Outcome, call, pointer, remember};
use crate::file::{File, opened};
use crate::memory::{Blocks, Loan, refused};

/// What m_isubmit begins.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(non_camel_case_types, dead_code, reason = "C's names; C makes the values")]
pub enum MOperation {
    /// As mreadb.
    M_READ = 0,
    /// As mwriteb.
    M_WRITE = 1,
}

/// An operation that was begun.
pub struct Request(Work);

enum Work {
    Read { pending: Pending<RegionsRead>, blocks: Blocks },
    Write { pending: Pending<()>, loan: Loan },
}

/// Begins to read or write many blocks and comes back; operation is M_READ or M_WRITE. The buffers belong to the
/// operation until m_test, m_testsome, m_wait or m_cancel says that it is done. Gives NULL if it cannot begin; m_errno
/// says why.
///
/// # Safety
/// `f` came from mopen and was not closed; the arrays have `count` elements, and each buffer its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m_isubmit(
    f: *mut File,
    operation: c_int,
    count: c_uint,
    offsets: *const i64,
    buffers: *const *mut c_char,
    sizes: *const c_uint,
) -> *mut Request {
    pointer(|| {
        // SAFETY: as this function's.
        let (file, blocks) = unsafe { (opened(f)?, Blocks::new(count, offsets, buffers, sizes)?) };
        let work = match operation {
            0 => {
                let list = ReadList::new(blocks.regions()).map_err(refused)?;
                Work::Read { pending: file.submit_read(list), blocks }
            }
            1 => {
                let (list, loan) = blocks.lend()?;
                Work::Write { pending: file.submit_write(list), loan }
            }
            other => return Err(Failure::argument(format!("{other} is neither M_READ nor M_WRITE"))),
        };
        Ok(Box::new(Request(work)))
    })
}

/// Whether an operation is done: 1 in `done` if it is. Then the request is freed and set to NULL, and the result is the
/// operation's. A request that is NULL is done.
///
/// # Safety
/// `request` points to null or to a request of m_isubmit that is not done; `done` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m_test(request: *mut *mut Request, done: *mut c_int) -> c_int {
    call(|| {
        if request.is_null() || done.is_null() {
            return Err(Failure::argument("a null pointer"));
        }
        // SAFETY: as this function's.
        let result = unsafe { test(&mut *request) };
        // SAFETY: as this function's.
        unsafe { *done = c_int::from(result.is_some()) };
        result.unwrap_or(Ok(()))
    })
}

/// Tests `count` requests. The positions of those that are done come into `indices`, their results into `results`,
/// their number into `done`; each is freed and set to NULL. Requests that are NULL are passed over.
///
/// # Safety
/// The arrays have `count` elements; each request is null or one of m_isubmit that is not done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m_testsome(
    count: c_uint,
    requests: *mut *mut Request,
    done: *mut c_uint,
    indices: *mut c_uint,
    results: *mut c_int,
) -> c_int {
    call(|| {
        if done.is_null() || count > 0 && (requests.is_null() || indices.is_null() || results.is_null()) {
            return Err(Failure::argument("a null pointer"));
        }
        let mut found = 0;
        for index in 0..count as usize {
            // SAFETY: the arrays have `count` elements, and no more are done than there are.
            unsafe {
                let request = &mut *requests.add(index);
                if request.is_null() {
                    continue;
                }
                let Some(result) = test(request) else { continue };
                *indices.add(found) = index as c_uint;
                *results.add(found) = result.map_or_else(remember, |()| MResult::M_OK as c_int);
            }
            found += 1;
        }
        // SAFETY: it was checked, and can be written to.
        unsafe { *done = found as c_uint };
        Ok(())
    })
}

/// Waits until an operation is done; the request is freed and set to NULL, and the result is the operation's.
///
/// # Safety
/// `request` points to null or to a request of m_isubmit that is not done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m_wait(request: *mut *mut Request) -> c_int {
    // SAFETY: as this function's.
    call(|| match unsafe { take(request) }? {
        Work::Read { pending, blocks } => read(pending.wait(), &blocks),
        Work::Write { pending, loan } => written(pending.wait(), loan),
    })
}

/// Gives an operation up: the I/O nodes forget it, what reached them stays. The request is freed and set to NULL. The
/// result is M_ERR_CANCELLED, or the operation's if it was faster.
///
/// # Safety
/// `request` points to null or to a request of m_isubmit that is not done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m_cancel(request: *mut *mut Request) -> c_int {
    // SAFETY: as this function's.
    call(|| match unsafe { take(request) }? {
        Work::Read { pending, blocks } => read(pending.cancel(), &blocks),
        Work::Write { pending, loan } => written(pending.cancel(), loan),
    })
}

/// # Safety
/// `request` is null, or one of m_isubmit that is not done.
unsafe fn test(request: &mut *mut Request) -> Option<Outcome<()>> {
    // SAFETY: as this function's.
    let Some(Request(work)) = (unsafe { request.as_mut() }) else { return Some(Ok(())) };
    match work {
        Work::Read { pending, .. } => {
            let result = pending.test()?;
            // SAFETY: as this function's; the reference above is not used any more.
            match unsafe { take(request) } {
                Ok(Work::Read { blocks, .. }) => Some(read(result, &blocks)),
                other => Some(other.map(drop)),
            }
        }
        Work::Write { pending, .. } => {
            let result = pending.test()?;
            // SAFETY: as this function's; the reference above is not used any more.
            match unsafe { take(request) } {
                Ok(Work::Write { loan, .. }) => Some(written(result, loan)),
                other => Some(other.map(drop)),
            }
        }
    }
}

/// # Safety
/// `request` is null, or points to null or to a request of m_isubmit that is not done.
unsafe fn take(request: *mut *mut Request) -> Outcome<Work> {
    let null = || Failure::argument("the request is a null pointer");
    // SAFETY: as this function's.
    let place = unsafe { request.as_mut() }.ok_or_else(null)?;
    if place.is_null() {
        return Err(null());
    }
    // SAFETY: m_isubmit made it from a box, and it is set to null where it is taken.
    let Request(work) = *unsafe { Box::from_raw(std::mem::replace(place, std::ptr::null_mut())) };
    Ok(work)
}

fn read(result: Result<RegionsRead, FileError>, blocks: &Blocks) -> Outcome<()> {
    blocks.fill(&result?)
}

fn written(result: Result<(), FileError>, loan: Loan) -> Outcome<()> {
    loan.wait();
    Ok(result?)
}
