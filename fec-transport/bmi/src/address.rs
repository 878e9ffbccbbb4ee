//! Peers and their addresses.

use std::ffi::{c_char, c_int};

use fec_transport::message::AddressId;

use crate::error::{Failure, Outcome, call, pointer};
use crate::library::{Library, address, current, text};
use crate::range;

/// # Safety
/// `new_addr` is null, or can be written to; `id_string` is null, or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_addr_lookup(new_addr: *mut i64, id_string: *const c_char) -> c_int {
    call(|| {
        let library = current()?;
        // SAFETY: as this function's.
        let id = unsafe { text(id_string, "the address") }?;
        let id = id.filter(|_| !new_addr.is_null());
        let id =
            id.ok_or_else(|| Failure::argument("the address, or the place for it, is a null pointer"))?;
        let address = library.messenger.look_up(&library.translate(id))?;
        library.addresses.refer(address);
        // Reversed it is what was looked up, whatever way leads there.
        library.addresses.name(address, || Some(id.to_owned()));
        // SAFETY: as this function's.
        unsafe { new_addr.write(address.0 as i64) };
        Ok(0)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn BMI_addr_rev_lookup(addr: i64) -> *const c_char {
    pointer(|| {
        let library = current()?;
        let address = address(addr)?;
        let name = library.addresses.name(address, || library.messenger.reverse_look_up(address));
        Ok(name.ok_or_else(|| unknown(address))?.cast_mut())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn BMI_addr_rev_lookup_unexpected(addr: i64) -> *const c_char {
    BMI_addr_rev_lookup(addr)
}

/// # Safety
/// `id_string` is null, or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_query_addr_range(addr: i64, id_string: *const c_char, netmask: c_int) -> c_int {
    call(|| {
        let library = current()?;
        // SAFETY: as this function's.
        let range = unsafe { text(id_string, "the range") }?;
        let range = range.ok_or_else(|| Failure::argument("the range is a null pointer"))?;
        let address = known(&library, addr)?;
        let peer = library.messenger.reverse_look_up(address).ok_or_else(|| unknown(address))?;
        range::contains(range, netmask, &peer).map(c_int::from).map_err(Failure::argument)
    })
}

/// A peer that the messenger knows.
pub fn known(library: &Library, id: i64) -> Outcome<AddressId> {
    let address = address(id)?;
    match library.messenger.largest(address) {
        Some(_) => Ok(address),
        None => Err(unknown(address)),
    }
}

fn unknown(address: AddressId) -> Failure {
    Failure::argument(format!("there is no address {}", address.0))
}
