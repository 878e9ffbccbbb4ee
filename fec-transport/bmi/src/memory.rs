//! The caller's memory, which the library has from a post to its completion, and memory that it gives the caller.
//!
//! What is sent is looked at where it lies, by whatever thread of the network, and the network may hold on to it for an
//! instant after an operation has failed. So each piece holds one end of a channel, and a completion is told only when
//! all of these are gone. Short messages are copied: they may be complete, for their sender, long before a receive.

use std::ffi::{c_int, c_void};
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use fec_transport::message::{Lent, Room};

use crate::error::{Code, Failure, Outcome};

/// Where memory of `BMI_memalloc` begins: at a page, so that a system call copies it with as few steps as there are.
const PAGE: usize = 4096;

unsafe extern "C" {
    fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    fn malloc(size: usize) -> *mut c_void;
    fn free(memory: *mut c_void);
}

/// A piece of the caller's memory.
struct Piece {
    start: *mut u8,
    length: usize,
}

// SAFETY: the caller leaves the memory to the library until the operation is complete, from whatever thread.
unsafe impl Send for Piece {}

impl AsMut<[u8]> for Piece {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `Pieces::new`; of a receive nobody else looks at the memory before it is complete.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

/// A piece that is sent.
struct Borrowed {
    piece: Piece,
    /// Tells by its end that the piece is not looked at any more.
    _released: Sender<()>,
}

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: as in `Pieces::new`; `Loan::wait` keeps the caller from having it back before.
        unsafe { std::slice::from_raw_parts(self.piece.start, self.piece.length) }
    }
}

/// Memory that was lent to the network, and must come back before the caller may have it.
#[must_use]
pub struct Loan(Receiver<()>);

impl Loan {
    /// Waits until nothing looks at the memory any more.
    pub fn wait(self) {
        // Nothing is ever sent: this ends with the last sender.
        let _ = self.0.recv();
    }
}

/// A message of up to so many bytes is copied, so that it is complete before the peer has it.
const SHORT: usize = 16 << 10;

/// The memory of one message.
pub struct Pieces(Vec<Piece>);

impl Pieces {
    /// # Safety
    /// `buffer` has `size` bytes, and belongs to the library until the operation that is posted with it is complete.
    /// They can be written to if it is a receive.
    pub unsafe fn one(buffer: *const c_void, size: i64) -> Outcome<Pieces> {
        // SAFETY: as this function's.
        unsafe { Pieces::list(&buffer, &size, 1, size) }
    }

    /// # Safety
    /// `buffers` and `sizes` are arrays of `count` elements, or null if `count` is 0. Each buffer is as in
    /// [`one`](Self::one).
    pub unsafe fn list(
        buffers: *const *const c_void,
        sizes: *const i64,
        count: c_int,
        total: i64,
    ) -> Outcome<Pieces> {
        // SAFETY: as this function's.
        let (buffers, sizes) = unsafe { (array(buffers, count)?, array(sizes, count)?) };
        let pieces = buffers.iter().zip(sizes).enumerate().map(|(index, (buffer, size))| {
            let length = usize::try_from(*size)
                .map_err(|_| Failure::argument(format!("buffer {index} has {size} bytes")))?;
            if buffer.is_null() && length > 0 {
                return Err(Failure::argument(format!("buffer {index} is a null pointer")));
            }
            Ok(Piece { start: buffer.cast_mut().cast(), length })
        });
        let pieces: Vec<Piece> = pieces.collect::<Outcome<_>>()?;
        let sum = pieces.iter().try_fold(0i64, |sum, piece| sum.checked_add(piece.length as i64));
        match sum == Some(total) {
            // An empty piece may be a null pointer, which no slice begins at.
            true => Ok(Pieces(pieces.into_iter().filter(|piece| piece.length > 0).collect())),
            false => Err(Failure::argument(format!("the sizes do not sum up to the total size of {total}"))),
        }
    }

    fn total(&self) -> usize {
        self.0.iter().map(|piece| piece.length).sum()
    }

    /// As a message; a short one is copied, what a longer one has is lent.
    pub fn into_message(self) -> (Vec<Bytes>, Option<Loan>) {
        if self.total() <= SHORT {
            let mut copy = Vec::with_capacity(self.total());
            for mut piece in self.0 {
                copy.extend_from_slice(piece.as_mut());
            }
            return (vec![copy.into()], None);
        }
        let (sender, released) = channel();
        let lend = |piece| Bytes::from_owner(Borrowed { piece, _released: sender.clone() });
        (self.0.into_iter().map(lend).collect(), Some(Loan(released)))
    }

    /// As room for a message.
    pub fn into_room(self) -> Room {
        Room::lent(self.0.into_iter().map(|piece| Box::new(piece) as Lent))
    }
}

/// # Safety
/// `start` is an array of `count` elements that stays while the result is used, or null if `count` is 0.
pub unsafe fn array<'a, T>(start: *const T, count: c_int) -> Outcome<&'a [T]> {
    match (start.is_null(), usize::try_from(count)) {
        (_, Err(_)) => Err(Failure::argument(format!("an array of {count} elements"))),
        (_, Ok(0)) => Ok(&[]),
        (true, _) => Err(Failure::argument("an array is a null pointer")),
        // SAFETY: as this function's.
        (false, Ok(count)) => Ok(unsafe { std::slice::from_raw_parts(start, count) }),
    }
}

/// Puts a value where the caller wants it, if he wants it.
///
/// # Safety
/// `place` is null, or can be written to.
pub unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: as this function's.
        unsafe { place.write(value) };
    }
}

/// Puts a value at an index of an array of the caller's, if there is one.
///
/// # Safety
/// `array` is null, or has more than `index` elements that can be written to.
pub unsafe fn put_at<T>(array: *mut T, index: usize, value: T) {
    if !array.is_null() {
        // SAFETY: as this function's.
        unsafe { array.add(index).write(value) };
    }
}

/// A copy for the caller, which [`release`] takes back; so does C's `free`.
pub fn copy(bytes: &[u8]) -> Outcome<*mut c_void> {
    // SAFETY: any size may be asked for.
    let memory = unsafe { malloc(bytes.len().max(1)) };
    if memory.is_null() {
        return Err(Failure::new(Code::ENOMEM, format!("no memory for {} bytes", bytes.len())));
    }
    // SAFETY: it has so many bytes, and nobody else has it yet.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.cast(), bytes.len()) };
    Ok(memory)
}

/// Memory for a buffer, which [`release`] takes back.
pub fn allocate(size: i64) -> Outcome<*mut c_void> {
    let size = usize::try_from(size).ok().filter(|size| *size > 0);
    let size = size.ok_or_else(|| Failure::argument("a buffer has at least one byte"))?;
    // No object is larger than half of the address space.
    let pages = size.checked_next_multiple_of(PAGE).filter(|size| isize::try_from(*size).is_ok());
    // SAFETY: the alignment is a power of two, and the size a multiple of it.
    let memory = pages.map_or(std::ptr::null_mut(), |size| unsafe { aligned_alloc(PAGE, size) });
    match memory.is_null() {
        true => Err(Failure::new(Code::ENOMEM, format!("no memory for {size} bytes"))),
        false => Ok(memory),
    }
}

/// # Safety
/// `memory` is null, or of [`copy`] or [`allocate`], and was not released before.
pub unsafe fn release(memory: *mut c_void) {
    // SAFETY: as this function's; both come from C's allocator.
    unsafe { free(memory) };
}
