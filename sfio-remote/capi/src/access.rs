//! Reading and writing: single blocks and many, optimised or stripe by stripe.

use std::ffi::{c_char, c_int, c_uint};

use sfio_remote::request::{Granularity, ReadList};

use crate::error::{Outcome, call};
use crate::file::{File, opened};
use crate::memory::{Blocks, refused};

/// Reads one block, each stripe by a request of its own: the call that mreadc is compared with.
///
/// # Safety
/// `f` came from mopen and was not closed; `buffer` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mread(f: *mut File, offset: i64, buffer: *mut c_char, size: c_uint) -> c_int {
    // SAFETY: as this function's.
    call(|| unsafe { read(f, Blocks::new(1, &offset, &buffer, &size)?, Granularity::Stripe) })
}

/// Writes one block, each stripe by a request of its own: the call that mwritec is compared with.
///
/// # Safety
/// `f` came from mopen and was not closed; `buffer` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mwrite(f: *mut File, offset: i64, buffer: *const c_char, size: c_uint) -> c_int {
    let buffer = buffer.cast_mut();
    // SAFETY: as this function's; a write only reads the buffer.
    call(|| unsafe { write(f, &Blocks::new(1, &offset, &buffer, &size)?, Granularity::Stripe) })
}

/// Reads one block.
///
/// # Safety
/// `f` came from mopen and was not closed; `buffer` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mreadc(f: *mut File, offset: i64, buffer: *mut c_char, size: c_uint) -> c_int {
    // SAFETY: as this function's.
    call(|| unsafe { read(f, Blocks::new(1, &offset, &buffer, &size)?, Granularity::List) })
}

/// Writes one block.
///
/// # Safety
/// `f` came from mopen and was not closed; `buffer` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mwritec(f: *mut File, offset: i64, buffer: *const c_char, size: c_uint) -> c_int {
    let buffer = buffer.cast_mut();
    // SAFETY: as this function's; a write only reads the buffer.
    call(|| unsafe { write(f, &Blocks::new(1, &offset, &buffer, &size)?, Granularity::List) })
}

/// Reads many blocks in one operation; each has an offset in the file, a buffer and a size in bytes.
///
/// # Safety
/// `f` came from mopen and was not closed; the arrays have `count` elements, and each buffer its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mreadb(
    f: *mut File,
    count: c_uint,
    offsets: *const i64,
    buffers: *const *mut c_char,
    sizes: *const c_uint,
) -> c_int {
    // SAFETY: as this function's.
    call(|| unsafe { read(f, Blocks::new(count, offsets, buffers, sizes)?, Granularity::List) })
}

/// Writes many blocks in one operation. Where they overlap in the file, the later one wins.
///
/// # Safety
/// `f` came from mopen and was not closed; the arrays have `count` elements, and each buffer its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mwriteb(
    f: *mut File,
    count: c_uint,
    offsets: *const i64,
    buffers: *const *mut c_char,
    sizes: *const c_uint,
) -> c_int {
    // SAFETY: as this function's.
    call(|| unsafe { write(f, &Blocks::new(count, offsets, buffers, sizes)?, Granularity::List) })
}

/// # Safety
/// `f` came from mopen and was not closed.
unsafe fn read(f: *mut File, blocks: Blocks, granularity: Granularity) -> Outcome<()> {
    // SAFETY: as this function's.
    let file = unsafe { opened(f) }?;
    let list = ReadList::new(blocks.regions()).map_err(refused)?;
    blocks.fill(&file.read(list.granularity(granularity))?)
}

/// # Safety
/// `f` came from mopen and was not closed.
unsafe fn write(f: *mut File, blocks: &Blocks, granularity: Granularity) -> Outcome<()> {
    // SAFETY: as this function's.
    let file = unsafe { opened(f) }?;
    let (list, loan) = blocks.lend()?;
    let written = file.write(list.granularity(granularity));
    loan.wait();
    Ok(written?)
}
