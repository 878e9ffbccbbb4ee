//! Memory that suits the network, and options.

use std::ffi::{c_int, c_uint, c_void};

use crate::address::known;
use crate::error::{Code, Failure, Outcome, call, pointer};
use crate::library::{Library, current};
use crate::memory::{allocate, release};

const DROP_ADDR: c_int = 1;
const CHECK_INIT: c_int = 2;
const CHECK_MAXSIZE: c_int = 3;
const INC_ADDR_REF: c_int = 5;
const DEC_ADDR_REF: c_int = 6;
const FORCEFUL_CANCEL_MODE: c_int = 8;
const GET_UNEXP_SIZE: c_int = 10;
const OPTIMISTIC_BUFFER_REG: c_int = 14;

#[unsafe(no_mangle)]
pub extern "C" fn BMI_memalloc(_addr: i64, size: i64, _send_recv: c_uint) -> *mut c_void {
    pointer(|| allocate(size))
}

/// # Safety
/// `buffer` is null, or of `BMI_memalloc` and was not released before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_memfree(
    _addr: i64,
    buffer: *mut c_void,
    _size: i64,
    _send_recv: c_uint,
) -> c_int {
    // SAFETY: as this function's.
    unsafe { release(buffer) };
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn BMI_set_info(addr: i64, option: c_int, _inout_parameter: *mut c_void) -> c_int {
    call(|| {
        let library = current()?;
        match option {
            FORCEFUL_CANCEL_MODE | OPTIMISTIC_BUFFER_REG => {}
            DROP_ADDR => {
                let address = known(&library, addr)?;
                library.messenger.drop_address(address);
                library.addresses.forget(address);
            }
            INC_ADDR_REF => library.addresses.refer(known(&library, addr)?),
            DEC_ADDR_REF => {
                let drop_idle = |address| library.messenger.drop_idle_address(address);
                library.addresses.release(known(&library, addr)?, drop_idle);
            }
            _ => return Err(not_supported("BMI_set_info", option)),
        }
        Ok(0)
    })
}

/// # Safety
/// `inout_parameter` is null, or what the option writes to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_get_info(addr: i64, option: c_int, inout_parameter: *mut c_void) -> c_int {
    call(|| {
        let library = current()?;
        let bytes = match option {
            CHECK_INIT => return Ok(0),
            CHECK_MAXSIZE => sizes(&library, addr)?.0,
            GET_UNEXP_SIZE => sizes(&library, addr)?.1,
            _ => return Err(not_supported("BMI_get_info", option)),
        };
        if inout_parameter.is_null() {
            return Err(Failure::argument("there is no place for the size"));
        }
        // SAFETY: as this function's.
        unsafe { inout_parameter.cast::<c_int>().write(c_int::try_from(bytes).unwrap_or(c_int::MAX)) };
        Ok(0)
    })
}

/// Bytes of a message to a peer at most, or to any peer: of an expected one, and of an unexpected one.
fn sizes(library: &Library, addr: i64) -> Outcome<(u64, u64)> {
    let (expected, unexpected) = match addr {
        0 => {
            let bounds = library.messenger.bounds();
            (bounds.largest, bounds.largest_unexpected)
        }
        _ => library.messenger.largest(known(library, addr)?).unwrap_or_default(),
    };
    Ok((expected, unexpected as u64))
}

fn not_supported(function: &str, option: c_int) -> Failure {
    Failure::new(Code::ENOSYS, format!("{function} does not support the option {option}; bmi.h has a list"))
}
