//! Tests: what has completed, and what came unexpectedly.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::time::Duration;

use fec_transport::message::{Completion, Unexpected};

use crate::error::{Failure, Outcome, call, remember};
use crate::library::{Library, current, idle_time};
use crate::memory::{array, copy, put, put_at, release};
use crate::operations::Ended;

/// Where the results of a test go; each of them may be null.
struct Results {
    errors: *mut i32,
    sizes: *mut i64,
    users: *mut *mut c_void,
}

impl Results {
    /// # Safety
    /// The arrays that are there have more than `index` elements that can be written to.
    unsafe fn put(&self, index: usize, ended: Ended) {
        let (error, size) = match ended.result {
            Ok(size) => (0, size),
            Err(failure) => (remember(failure), 0),
        };
        // SAFETY: as this function's.
        unsafe {
            put_at(self.errors, index, error);
            put_at(self.sizes, index, size);
            put_at(self.users, index, ended.user.0);
        }
    }
}

/// How many results a test may give, when its places for them are there.
///
/// # Safety
/// `outcount` is null, or can be written to.
unsafe fn begin(incount: c_int, outcount: *mut c_int) -> Outcome<usize> {
    if outcount.is_null() {
        return Err(Failure::argument("there is no place for the count"));
    }
    // SAFETY: as this function's.
    unsafe { outcount.write(0) };
    usize::try_from(incount).map_err(|_| Failure::argument(format!("a test of {incount} operations")))
}

/// # Safety
/// Each pointer is null, or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_test(
    id: i64,
    outcount: *mut c_int,
    error_code: *mut i32,
    actual_size: *mut i64,
    user_ptr: *mut *mut c_void,
    max_idle_time_ms: c_int,
    context_id: i64,
) -> c_int {
    call(|| {
        let library = current()?;
        // SAFETY: as this function's.
        unsafe { begin(1, outcount) }?;
        let wait = idle_time(max_idle_time_ms)?;
        let operation = library.operations.meant(id, context_id)?;
        let completion = library.messenger.test(operation, wait)?;
        let Some(ended) = completion.and_then(|completion| library.operations.end(completion)) else {
            return Ok(0);
        };
        // SAFETY: as this function's.
        unsafe {
            Results { errors: error_code, sizes: actual_size, users: user_ptr }.put(0, ended);
            put(outcount, 1);
        }
        Ok(1)
    })
}

/// # Safety
/// `id_array` has `incount` elements, and so have the other arrays that are not null; they can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_testsome(
    incount: c_int,
    id_array: *mut i64,
    outcount: *mut c_int,
    index_array: *mut c_int,
    error_code_array: *mut i32,
    actual_size_array: *mut i64,
    user_ptr_array: *mut *mut c_void,
    max_idle_time_ms: c_int,
    context_id: i64,
) -> c_int {
    call(|| {
        let library = current()?;
        // SAFETY: as this function's.
        let (most, ids) = unsafe { (begin(incount, outcount)?, array(id_array.cast_const(), incount)?) };
        let (wait, context) = (idle_time(max_idle_time_ms)?, library.operations.context(context_id)?);
        let mut indices = BTreeMap::new();
        let find = |(index, id): (usize, &i64)| {
            let operation = library.operations.find(*id, context)?;
            indices.entry(*id).or_insert(index);
            Some(operation)
        };
        let operations: Vec<_> = ids.iter().enumerate().filter_map(find).collect();
        if operations.is_empty() {
            return Ok(0);
        }
        let completions = library.messenger.test_some(&operations, most, wait);
        let results = Results { errors: error_code_array, sizes: actual_size_array, users: user_ptr_array };
        // SAFETY: as this function's; there are no more completions than `incount`.
        unsafe {
            give(&library, completions, outcount, &results, |place, id| {
                let index = indices.get(&id).map_or(-1, |index| *index as c_int);
                put_at(index_array, place, index);
            })
        }
    })
}

/// # Safety
/// The arrays that are not null have `incount` elements that can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_testcontext(
    incount: c_int,
    out_id_array: *mut i64,
    outcount: *mut c_int,
    error_code_array: *mut i32,
    actual_size_array: *mut i64,
    user_ptr_array: *mut *mut c_void,
    max_idle_time_ms: c_int,
    context_id: i64,
) -> c_int {
    call(|| {
        let library = current()?;
        // SAFETY: as this function's.
        let most = unsafe { begin(incount, outcount) }?;
        let (wait, context) = (idle_time(max_idle_time_ms)?, library.operations.context(context_id)?);
        if most == 0 {
            return Ok(0);
        }
        let completions = library.messenger.test_context(context, most, wait);
        let results = Results { errors: error_code_array, sizes: actual_size_array, users: user_ptr_array };
        // SAFETY: as this function's; there are no more completions than `incount`.
        unsafe {
            give(&library, completions, outcount, &results, |place, id| put_at(out_id_array, place, id))
        }
    })
}

/// Tells completions, and by `tell_id` which they are of.
///
/// # Safety
/// `outcount` can be written to; the arrays of `results` that are there have an element for each completion.
unsafe fn give(
    library: &Library,
    completions: Vec<Completion>,
    outcount: *mut c_int,
    results: &Results,
    tell_id: impl Fn(usize, i64),
) -> Outcome<c_int> {
    let ended = completions.into_iter().filter_map(|completion| library.operations.end(completion));
    let mut count = 0;
    for (place, ended) in ended.enumerate() {
        tell_id(place, ended.id);
        // SAFETY: as this function's.
        unsafe { results.put(place, ended) };
        count = place as c_int + 1;
    }
    // SAFETY: as this function's.
    unsafe { outcount.write(count) };
    Ok(c_int::from(count > 0))
}

/// An unexpected message.
#[repr(C)]
pub struct BMI_unexpected_info {
    error_code: i32,
    addr: i64,
    buffer: *mut c_void,
    size: i64,
    tag: i32,
}

/// # Safety
/// `outcount` is null, or can be written to; `info_array` has `incount` elements that can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_testunexpected(
    incount: c_int,
    outcount: *mut c_int,
    info_array: *mut BMI_unexpected_info,
    max_idle_time_ms: c_int,
) -> c_int {
    call(|| {
        let library = current()?;
        // SAFETY: as this function's.
        let most = unsafe { begin(incount, outcount) }?;
        let wait = idle_time(max_idle_time_ms)?;
        if info_array.is_null() && most > 0 {
            return Err(Failure::argument("there is no place for messages"));
        }
        if most == 0 {
            return Ok(0);
        }
        let mut messages = library.take_unexpected(most, wait);
        let mut count = 0;
        while let Some(message) = messages.pop_front() {
            let info = match describe(&message) {
                Ok(info) => info,
                Err(failure) => {
                    messages.push_front(message);
                    library.leftover.put_back(messages);
                    // Those that are written are the caller's, who hears of the failure if it lasts.
                    return if count == 0 { Err(failure) } else { Ok(1) };
                }
            };
            // SAFETY: as this function's; there are no more messages than `incount`.
            unsafe {
                info_array.add(count).write(info);
                count += 1;
                outcount.write(count as c_int);
            }
        }
        Ok(c_int::from(count > 0))
    })
}

impl Library {
    /// Unexpected messages, at most `most`: first those that an earlier test had no memory for.
    fn take_unexpected(&self, most: usize, wait: Duration) -> VecDeque<Unexpected> {
        let mut messages = self.leftover.take(most);
        if messages.len() < most {
            let wait = if messages.is_empty() { wait } else { Duration::ZERO };
            let fresh = self.messenger.test_unexpected(most - messages.len(), wait);
            if self.counts_senders {
                fresh.iter().for_each(|message| self.addresses.refer(message.from));
            }
            messages.extend(fresh);
        }
        messages
    }
}

fn describe(message: &Unexpected) -> Outcome<BMI_unexpected_info> {
    Ok(BMI_unexpected_info {
        error_code: 0,
        addr: message.from.0 as i64,
        buffer: copy(&message.bytes)?,
        size: message.bytes.len() as i64,
        tag: message.tag.0 as i32,
    })
}

/// # Safety
/// `buffer` is null, or of a message of `BMI_testunexpected` and was not released before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_unexpected_free(_addr: i64, buffer: *mut c_void) -> c_int {
    // SAFETY: as this function's.
    unsafe { release(buffer) };
    0
}
