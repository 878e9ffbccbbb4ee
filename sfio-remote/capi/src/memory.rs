//! The caller's memory, borrowed for the time of a call.
//!
//! What is written is gathered straight from where it lies. The member's threads may look at it as long as anything of
//! the list exists, so each piece holds one end of a channel, and the call ends only when all of these are gone.

use std::ffi::{c_char, c_uint};
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use sfio_remote::request::{ListError, RegionsRead, WriteList};

use crate::error::{Failure, MResult, Outcome};
use crate::file::not_negative;

/// Regions of a file, each with its memory.
#[derive(Debug)]
pub struct Blocks {
    pub offsets: Vec<u64>,
    buffers: Vec<*mut c_char>,
    sizes: Vec<c_uint>,
}

// SAFETY: the caller leaves the memory to the call, from whatever thread; see the functions that make one.
unsafe impl Send for Blocks {}

/// A piece of the caller's memory.
struct Borrowed {
    start: *const u8,
    length: usize,
    /// Tells by its end that the piece is not looked at any more.
    _released: Sender<()>,
}

// SAFETY: it is only read, and `Loan::wait` keeps the caller from changing it.
unsafe impl Send for Borrowed {}

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the caller's memory has this length, and stays until this piece is dropped: `Loan::wait`.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

/// Memory that has been lent, and must come back before the caller may have it.
#[must_use]
pub struct Loan(Receiver<()>);

impl Loan {
    /// Waits until nothing looks at the memory any more.
    pub fn wait(self) {
        // Nothing is ever sent: this ends with the last sender.
        let _ = self.0.recv();
    }
}

impl Blocks {
    /// # Safety
    /// `offsets`, `buffers` and `sizes` are arrays of `count` elements, or null if `count` is 0. Each buffer has its
    /// size, can be written to if it is to be read into, and is not touched until the operation is done.
    pub unsafe fn new(
        count: c_uint,
        offsets: *const i64,
        buffers: *const *mut c_char,
        sizes: *const c_uint,
    ) -> Outcome<Blocks> {
        // SAFETY: as this function's.
        let (offsets, buffers, sizes) =
            unsafe { (array(offsets, count)?, array(buffers, count)?, array(sizes, count)?) };
        let offsets = offsets.iter().map(|offset| not_negative(*offset, "an offset"));
        if let Some(index) = buffers.iter().zip(sizes).position(|(b, size)| b.is_null() && *size > 0) {
            return Err(Failure::argument(format!("buffer {index} is a null pointer")));
        }
        let offsets = offsets.collect::<Outcome<_>>()?;
        Ok(Blocks { offsets, buffers: buffers.to_vec(), sizes: sizes.to_vec() })
    }

    /// The offset and the length of each region.
    pub fn regions(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.offsets.iter().zip(&self.sizes).map(|(offset, size)| (*offset, u64::from(*size)))
    }

    /// The list that writes them, from where they lie.
    pub fn lend(&self) -> Outcome<(WriteList, Loan)> {
        let (sender, released) = channel();
        let pieces = (0..self.offsets.len()).map(|index| {
            let (start, length) = (self.buffers[index].cast_const().cast(), self.sizes[index] as usize);
            let piece = match length {
                0 => Bytes::new(),
                _ => Bytes::from_owner(Borrowed { start, length, _released: sender.clone() }),
            };
            (self.offsets[index], piece)
        });
        let list = WriteList::new(pieces).map_err(refused)?;
        Ok((list, Loan(released)))
    }

    /// Puts what was read into its place.
    pub fn fill(&self, read: &RegionsRead) -> Outcome<()> {
        let mut missing = 0;
        for (index, bytes) in read.iter().enumerate() {
            missing += self.sizes[index] as usize - bytes.len();
            if !bytes.is_empty() {
                // SAFETY: the buffer has at least as many bytes as were asked for, and they are the caller's, so that
                // they cannot overlap with ours.
                unsafe {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.buffers[index].cast(), bytes.len());
                }
            }
        }
        match missing {
            0 => Ok(()),
            _ => Err(Failure::new(MResult::M_ERR_EOF, format!("the file ends {missing} bytes too early"))),
        }
    }
}

/// # Safety
/// `start` is an array of `count` elements that stays while the result is used, or null if `count` is 0.
unsafe fn array<'a, T>(start: *const T, count: c_uint) -> Outcome<&'a [T]> {
    match (start.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::argument("an array is a null pointer")),
        // SAFETY: as this function's.
        (false, count) => Ok(unsafe { std::slice::from_raw_parts(start, count as usize) }),
    }
}

pub fn refused(error: ListError) -> Failure {
    Failure::argument(error)
}
