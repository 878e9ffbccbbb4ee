//! Opening, closing, creating, removing files, and changing their length.

use std::ffi::{c_char, c_int};

use sfio_remote::client::{Durability, OpenMode};
use sfio_remote::collective::CollectiveConfig;
use sfio_remote::distribution::{StripeUnit, Structure};
use sfio_remote::io::{OpenOptions, blocking};
use sfio_remote::name::FileName;

use crate::error::{Failure, Outcome, call, pointer};
use crate::process::{compression, current, set_compression, text};

/// A striped file that is open.
pub struct File {
    file: blocking::StripedFile,
    /// The same file as a group has it open.
    together: Option<blocking::CollectiveFile>,
}

/// Opens a striped file, "member,path;member,path;…", and creates what does not exist of it. Gives NULL if that fails;
/// m_errno says why. Of a group it is collective.
///
/// # Safety
/// `name` is null or a text that ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mopen(name: *const c_char, stripe_unit: i64) -> *mut File {
    pointer(|| {
        // SAFETY: as this function's.
        let name = unsafe { file_name(name) }?;
        let unit = u64::try_from(stripe_unit).ok().and_then(|unit| StripeUnit::new(unit).ok());
        let unit = unit.ok_or_else(|| Failure::argument(format!("a stripe unit of {stripe_unit} bytes")))?;
        open(&name, OpenOptions::new().mode(OpenMode::Create).stripe_unit(unit)).map(Box::new)
    })
}

/// Closes a file, which must not be used any more, whatever the result. Requests of m_isubmit on it must be done
/// before. Of a file that a group has opened it is collective: all ranks have done with the file when it comes back.
///
/// # Safety
/// `f` came from mopen and was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mclose(f: *mut File) -> c_int {
    call(|| {
        if f.is_null() {
            return Err(Failure::argument("the file is a null pointer"));
        }
        // SAFETY: mopen made it from a box, and the caller gives it up.
        let File { together, .. } = *unsafe { Box::from_raw(f) };
        Ok(together.map_or(Ok(()), blocking::CollectiveFile::close)?)
    })
}

/// Cuts a file, or extends it with zeros. Of a file that a group has opened it is collective.
///
/// # Safety
/// `f` came from mopen and was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mchsize(f: *mut File, size: i64) -> c_int {
    call(|| {
        // SAFETY: as this function's.
        let File { file, together } = unsafe { handle(f) }?;
        let size = not_negative(size, "the size")?;
        match together {
            Some(together) => Ok(together.set_len(size)?),
            None => Ok(file.set_len(size)?),
        }
    })
}

/// Makes everything that was written survive a power loss of the I/O nodes. Of a file that a group has opened it is
/// collective.
///
/// # Safety
/// `f` came from mopen and was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msync_file(f: *mut File) -> c_int {
    call(|| {
        // SAFETY: as this function's.
        let File { file, together } = unsafe { handle(f) }?;
        match together {
            Some(together) => Ok(together.sync_all()?),
            None => Ok(file.sync_all()?),
        }
    })
}

/// The length up to which a file is whole, and whether its subfiles fit together: 1 in `intact` if they do. Either
/// pointer may be NULL.
///
/// # Safety
/// `f` came from mopen and was not closed; the pointers are null or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m_check(f: *mut File, length: *mut i64, intact: *mut c_int) -> c_int {
    call(|| {
        // SAFETY: as this function's.
        let structure = unsafe { opened(f) }?.fsck()?;
        // SAFETY: as this function's.
        if let Some(length) = unsafe { length.as_mut() } {
            *length = i64::try_from(structure.whole_length()).unwrap_or(i64::MAX);
        }
        // SAFETY: as this function's.
        if let Some(intact) = unsafe { intact.as_mut() } {
            *intact = c_int::from(matches!(structure, Structure::Intact { .. }));
        }
        Ok(())
    })
}

/// How the bytes of files that are opened from now on are compressed on their way: "auto" (the default: where that
/// makes them arrive sooner), "never", "lz4", "zstd", or "zstd:LEVEL" with a level of -7 to 19. On the disks they are
/// raw.
///
/// # Safety
/// `how` is null or a text that ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m_compress(how: *const c_char) -> c_int {
    call(|| {
        // SAFETY: as this function's.
        let how = unsafe { text(how, "how to compress") }?;
        set_compression(how.parse().map_err(Failure::argument)?);
        Ok(())
    })
}

/// Removes those subfiles of a file that there are. Of a group it is collective.
///
/// # Safety
/// `name` is null or a text that ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mdelete(name: *const c_char) -> c_int {
    call(|| {
        // SAFETY: as this function's.
        let name = unsafe { file_name(name) }?;
        let process = current()?;
        process.note(&name);
        match process.group() {
            Some(group) => Ok(group.remove(&name, Durability::OnFlush)?),
            None => Ok(process.member.remove(&name, Durability::OnFlush)?),
        }
    })
}

/// Creates a file; one that exists becomes empty. Of a group it is collective.
///
/// # Safety
/// `name` is null or a text that ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcreate(name: *const c_char) -> c_int {
    call(|| {
        // SAFETY: as this function's.
        let name = unsafe { file_name(name) }?;
        open(&name, OpenOptions::new().mode(OpenMode::Truncate)).map(drop)
    })
}

fn open(name: &FileName, options: OpenOptions) -> Outcome<File> {
    let process = current()?;
    process.note(name);
    let options = options.compression(compression());
    match process.group() {
        Some(group) => {
            let together = group.open(&options, name, CollectiveConfig::default())?;
            Ok(File { file: together.alone(), together: Some(together) })
        }
        None => Ok(File { file: process.member.open(&options, name)?, together: None }),
    }
}

/// # Safety
/// `name` is null or a text that ends with a NUL.
unsafe fn file_name(name: *const c_char) -> Outcome<FileName> {
    // SAFETY: as this function's.
    let name = unsafe { text(name, "the name") }?;
    name.parse().map_err(Failure::argument)
}

/// # Safety
/// `f` is null, or came from mopen and is not closed while the result is used.
pub unsafe fn opened<'a>(f: *mut File) -> Outcome<&'a blocking::StripedFile> {
    // SAFETY: as this function's.
    Ok(&unsafe { handle(f) }?.file)
}

/// The file as its group has it open.
///
/// # Safety
/// `f` is null, or came from mopen and is not closed while the result is used.
pub unsafe fn together<'a>(f: *mut File) -> Outcome<&'a blocking::CollectiveFile> {
    // SAFETY: as this function's.
    let together = unsafe { handle(f) }?.together.as_ref();
    together.ok_or_else(|| Failure::argument("no group has opened the file: call m_group before mopen"))
}

/// # Safety
/// `f` is null, or came from mopen and is not closed while the result is used.
unsafe fn handle<'a>(f: *mut File) -> Outcome<&'a File> {
    // SAFETY: mopen made it; nothing but mclose takes it away.
    unsafe { f.as_ref() }.ok_or_else(|| Failure::argument("the file is a null pointer"))
}

pub fn not_negative(number: i64, what: &str) -> Outcome<u64> {
    u64::try_from(number).map_err(|_| Failure::argument(format!("{what} is {number}")))
}
