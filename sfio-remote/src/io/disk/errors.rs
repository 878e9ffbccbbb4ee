//! What the operating system says, as the I/O node passes it on.

use rustix::io::Errno;

use crate::name::SubfilePath;
use crate::remote_error::{ErrorKind, RemoteError};
use crate::store::{DiskError, SystemCall};

/// Turns the error number of a call on `path` into what the caller is told.
pub(super) fn at(call: SystemCall, path: &SubfilePath) -> impl Fn(Errno) -> DiskError + '_ {
    move |errno| {
        let os_error = u16::try_from(errno.raw_os_error()).ok();
        DiskError { call, error: RemoteError { kind: kind_of(errno), os_error, text: path.to_string() } }
    }
}

fn kind_of(errno: Errno) -> ErrorKind {
    match errno {
        Errno::NOENT => ErrorKind::NotFound,
        Errno::ACCESS | Errno::PERM => ErrorKind::PermissionDenied,
        Errno::NOSPC | Errno::DQUOT => ErrorKind::NoSpace,
        Errno::ISDIR => ErrorKind::IsADirectory,
        Errno::NOTDIR => ErrorKind::NotADirectory,
        Errno::EXIST | Errno::NOTEMPTY => ErrorKind::AlreadyExists,
        Errno::FBIG => ErrorKind::FileTooLarge,
        Errno::ROFS => ErrorKind::ReadOnly,
        // What openat2 says of a path that leaves the directory, or is nothing but a circle of links.
        Errno::XDEV | Errno::LOOP => ErrorKind::OutsideRoot,
        Errno::MFILE | Errno::NFILE => ErrorKind::Overloaded,
        // An open of a FIFO or a device that nobody serves.
        Errno::NXIO | Errno::NODEV => ErrorKind::NotAFile,
        _ => ErrorKind::Disk,
    }
}
