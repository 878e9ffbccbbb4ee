//! Contexts: the callers that share the library.

use std::ffi::c_int;

use crate::error::{Failure, call};
use crate::library::current;

/// # Safety
/// `context_id` is null, or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_open_context(context_id: *mut i64) -> c_int {
    call(|| {
        let library = current()?;
        if context_id.is_null() {
            return Err(Failure::argument("there is no place for the context's number"));
        }
        let context = library.messenger.open_context();
        library.operations.open(context);
        // SAFETY: as this function's.
        unsafe { context_id.write(i64::from(context.0)) };
        Ok(0)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn BMI_close_context(context_id: i64) {
    call(|| {
        let library = current()?;
        let context = library.operations.context(context_id)?;
        library.messenger.close_context(context);
        library.operations.close(context);
        Ok(0)
    });
}
