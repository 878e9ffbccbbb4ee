//! Posts.

use std::ffi::{c_int, c_uint, c_void};

use fec_transport::message::{AddressId, Caller, PostError, Posted, Tag};

use crate::error::{Failure, Outcome, call};
use crate::library::{Library, address, current};
use crate::memory::{Loan, Pieces, put};
use crate::operations::UserPointer;

/// Hints of PVFS2, which nobody here looks at.
#[repr(C)]
pub struct PVFS_hint_s {
    _private: [u8; 0],
}

/// What every post has.
struct Post {
    id: *mut i64,
    peer: i64,
    tag: Tag,
    user: UserPointer,
    context: i64,
}

impl Post {
    fn new(id: *mut i64, peer: i64, tag: i32, user: *mut c_void, context: i64) -> Post {
        // C's tags may be negative; all that counts is which are the same.
        Post { id, peer, tag: Tag(tag as u32), user: UserPointer(user), context }
    }

    /// Posts by `post`, and tells its number. Gives the message's size if it is complete.
    ///
    /// # Safety
    /// The place for the number is null, or can be written to.
    unsafe fn carry_out(
        &self,
        library: &Library,
        loan: Option<Loan>,
        post: impl FnOnce(AddressId, Caller) -> Result<Posted, PostError>,
    ) -> Outcome<Option<i64>> {
        let (peer, context) = (address(self.peer)?, library.operations.context(self.context)?);
        if self.id.is_null() {
            return Err(Failure::argument("there is no place for the operation's number"));
        }
        let caller = Caller::new(context);
        let caller = if loan.is_some() { caller.lent() } else { caller };
        let id = library.operations.begin(self.user, context, loan);
        // Another thread may see it complete before this one returns.
        // SAFETY: as this function's.
        unsafe { self.id.write(id) };
        let posted = post(peer, caller.user(id as u64)).inspect_err(|_| library.operations.forget(id));
        let ended = posted.map(|posted| library.operations.posted(id, posted));
        if !matches!(ended, Ok(None)) {
            // SAFETY: as this function's.
            unsafe { self.id.write(0) };
        }
        ended?.map(|ended| ended.result).transpose()
    }

    /// # Safety
    /// As [`carry_out`](Self::carry_out), and the pieces as [`Pieces::one`] has it.
    unsafe fn send(&self, pieces: Outcome<Pieces>, is_unexpected: bool) -> Outcome<c_int> {
        let library = current()?;
        let messenger = &library.messenger;
        let (message, loan) = pieces?.into_message();
        let post = |to, caller| match is_unexpected {
            true => messenger.post_send_unexpected(to, self.tag, message, caller),
            false => messenger.post_send(to, self.tag, message, caller),
        };
        // SAFETY: as this function's.
        unsafe { self.carry_out(&library, loan, post) }.map(|done| c_int::from(done.is_some()))
    }

    /// # Safety
    /// As [`carry_out`](Self::carry_out), and the pieces as [`Pieces::one`] has it. The place for the size is null, or
    /// can be written to.
    unsafe fn receive(&self, pieces: Outcome<Pieces>, actual_size: *mut i64) -> Outcome<c_int> {
        let library = current()?;
        let room = pieces?.into_room();
        let post = |from, caller| library.messenger.post_receive(from, self.tag, room, caller);
        // SAFETY: as this function's.
        let done = unsafe { self.carry_out(&library, None, post) }?;
        if let Some(size) = done {
            // SAFETY: as this function's.
            unsafe { put(actual_size, size) };
        }
        Ok(c_int::from(done.is_some()))
    }
}

/// # Safety
/// `id` is null, or can be written to; `buffer` as [`Pieces::one`] has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_post_send(
    id: *mut i64,
    dest: i64,
    buffer: *const c_void,
    size: i64,
    _buffer_type: c_uint,
    tag: i32,
    user_ptr: *mut c_void,
    context_id: i64,
    _hints: *mut PVFS_hint_s,
) -> c_int {
    // SAFETY: as this function's.
    call(|| unsafe { Post::new(id, dest, tag, user_ptr, context_id).send(Pieces::one(buffer, size), false) })
}

/// # Safety
/// `id` is null, or can be written to; the lists as [`Pieces::list`] has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_post_send_list(
    id: *mut i64,
    dest: i64,
    buffer_list: *const *const c_void,
    size_list: *const i64,
    list_count: c_int,
    total_size: i64,
    _buffer_type: c_uint,
    tag: i32,
    user_ptr: *mut c_void,
    context_id: i64,
    _hints: *mut PVFS_hint_s,
) -> c_int {
    call(|| {
        let post = Post::new(id, dest, tag, user_ptr, context_id);
        // SAFETY: as this function's.
        unsafe { post.send(Pieces::list(buffer_list, size_list, list_count, total_size), false) }
    })
}

/// # Safety
/// `id` is null, or can be written to; `buffer` as [`Pieces::one`] has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_post_sendunexpected(
    id: *mut i64,
    dest: i64,
    buffer: *const c_void,
    size: i64,
    _buffer_type: c_uint,
    tag: i32,
    user_ptr: *mut c_void,
    context_id: i64,
    _hints: *mut PVFS_hint_s,
) -> c_int {
    // SAFETY: as this function's.
    call(|| unsafe { Post::new(id, dest, tag, user_ptr, context_id).send(Pieces::one(buffer, size), true) })
}

/// # Safety
/// `id` is null, or can be written to; the lists as [`Pieces::list`] has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_post_sendunexpected_list(
    id: *mut i64,
    dest: i64,
    buffer_list: *const *const c_void,
    size_list: *const i64,
    list_count: c_int,
    total_size: i64,
    _buffer_type: c_uint,
    tag: i32,
    user_ptr: *mut c_void,
    context_id: i64,
    _hints: *mut PVFS_hint_s,
) -> c_int {
    call(|| {
        let post = Post::new(id, dest, tag, user_ptr, context_id);
        // SAFETY: as this function's.
        unsafe { post.send(Pieces::list(buffer_list, size_list, list_count, total_size), true) }
    })
}

/// # Safety
/// `id` and `actual_size` are null, or can be written to; `buffer` as [`Pieces::one`] has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_post_recv(
    id: *mut i64,
    src: i64,
    buffer: *mut c_void,
    expected_size: i64,
    actual_size: *mut i64,
    _buffer_type: c_uint,
    tag: i32,
    user_ptr: *mut c_void,
    context_id: i64,
    _hints: *mut PVFS_hint_s,
) -> c_int {
    call(|| {
        let post = Post::new(id, src, tag, user_ptr, context_id);
        // SAFETY: as this function's.
        unsafe { post.receive(Pieces::one(buffer, expected_size), actual_size) }
    })
}

/// # Safety
/// `id` and `total_actual_size` are null, or can be written to; the lists as [`Pieces::list`] has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_post_recv_list(
    id: *mut i64,
    src: i64,
    buffer_list: *const *mut c_void,
    size_list: *const i64,
    list_count: c_int,
    total_expected_size: i64,
    total_actual_size: *mut i64,
    _buffer_type: c_uint,
    tag: i32,
    user_ptr: *mut c_void,
    context_id: i64,
    _hints: *mut PVFS_hint_s,
) -> c_int {
    call(|| {
        let post = Post::new(id, src, tag, user_ptr, context_id);
        // SAFETY: as this function's.
        let pieces = unsafe { Pieces::list(buffer_list.cast(), size_list, list_count, total_expected_size) };
        // SAFETY: as this function's.
        unsafe { post.receive(pieces, total_actual_size) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn BMI_cancel(id: i64, context_id: i64) -> c_int {
    call(|| {
        let library = current()?;
        library.messenger.cancel(library.operations.meant(id, context_id)?)?;
        Ok(0)
    })
}
