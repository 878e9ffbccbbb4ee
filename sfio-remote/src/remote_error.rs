//! What can go wrong at an I/O node, as it crosses the wire.

use std::fmt;

/// The longest explanation that a reply carries, in bytes; a longer one is cut.
pub const MAX_TEXT_BYTES: usize = 512;

/// Declares [`ErrorKind`] together with its numbers on the wire and its words, so that none can be forgotten.
macro_rules! error_kinds {
    ($($(#[$doc:meta])+ $kind:ident = $code:literal, $words:literal;)+) => {
        /// The kind of a failure at an I/O node. The numbers are part of the protocol (docs/protocol/sfio-remote.md).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $($(#[$doc])+ $kind = $code,)+
        }

        impl ErrorKind {
            /// Every kind, in the order of the numbers.
            pub const ALL: &'static [ErrorKind] = &[$(ErrorKind::$kind),+];

            fn words(self) -> &'static str {
                match self {
                    $(ErrorKind::$kind => $words,)+
                }
            }
        }
    };
}

error_kinds! {
    /// There is no such subfile.
    NotFound = 1, "no such subfile";
    /// The I/O node's user may not do this.
    PermissionDenied = 2, "permission denied";
    /// The disk, or a quota, is full.
    NoSpace = 3, "no space left";
    /// The path is a directory.
    IsADirectory = 4, "is a directory";
    /// A component of the path is a file.
    NotADirectory = 5, "a component of the path is not a directory";
    /// The path is a device, a FIFO, a socket: nothing that holds bytes at offsets.
    NotAFile = 6, "not a regular file";
    /// The path leads out of the export root, by a symbolic link.
    OutsideRoot = 7, "the path leaves the export root";
    /// There is already something at that path.
    AlreadyExists = 8, "already exists";
    /// The subfile would become larger than the disk's file system, or a resource limit, allows.
    FileTooLarge = 9, "file too large";
    /// The export root may only be read.
    ReadOnly = 10, "read-only";
    /// An earlier write may be lost: a sync failed, and no later one can make up for it.
    SyncLost = 11, "an earlier sync of this subfile failed, so writes before it may be lost";
    /// The subfile changed while it was being read.
    Changed = 12, "became shorter while it was being read";
    /// Any other failure of the disk.
    Disk = 13, "input/output error";
    /// The request is not well-formed.
    BadRequest = 14, "bad request";
    /// The I/O node does not speak this version of the protocol, or does not know this kind of request.
    Unsupported = 15, "not supported";
    /// A limit of the I/O node is reached; later it may work.
    Overloaded = 16, "too much at once";
    /// Nothing was heard for too long.
    Idle = 17, "the transfer stood still for too long";
    /// This member serves no subfiles.
    NotServing = 18, "this member is no I/O node";
    /// The caller gave the transfer up.
    Cancelled = 19, "cancelled";
    /// Another session has claimed the subfile, and is still writing it.
    Claimed = 20, "another process is writing it";
    /// The subfile is written once: by the session that created it, where nothing was written before.
    WriteOnce = 21, "it is written once, by the session that created it";
    /// The member may add, and change nothing that is there.
    AppendOnly = 22, "may only be added to";
    /// Only the I/O node itself, or the files of a data set, can have this path.
    Reserved = 23, "the path is reserved";
    /// There is another record of that number.
    Taken = 24, "there is another record of that number";
    /// A record does not follow the newest one, or somebody took an older one for the newest.
    Stale = 25, "it is not up to date";
    /// A reader may still need it.
    TooEarly = 26, "too early";
    /// A record breaks a rule, or is none.
    BadRecord = 27, "the record cannot be accepted";
    /// A claim cannot be resumed: the I/O node was restarted since, or somebody else has changed the subfile.
    ClaimEnded = 31, "what was written to it cannot be relied upon: the claim on it has ended";
}

impl ErrorKind {
    /// Its number on the wire.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The kind of that number, if there is one.
    pub fn from_code(code: u8) -> Option<ErrorKind> {
        ErrorKind::ALL.iter().copied().find(|kind| kind.code() == code)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// A failure at an I/O node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct RemoteError {
    /// What kind of failure.
    pub kind: ErrorKind,
    /// The number of the operating system's error, if it was one.
    pub os_error: Option<u16>,
    /// What more there is to say; may be empty. At most [`MAX_TEXT_BYTES`] survive the wire.
    pub text: String,
}

impl RemoteError {
    /// A failure that no system call reported.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> RemoteError {
        RemoteError { kind, os_error: None, text: text.into() }
    }

    /// As the code of a stream's reset, for failures in the middle of a payload: kind and number, without the text.
    pub fn reset_code(&self) -> u32 {
        u32::from(self.kind.code()) | u32::from(self.os_error.unwrap_or(0)) << 8
    }

    /// What a peer says by resetting a stream.
    pub fn from_reset_code(code: u32) -> RemoteError {
        let [_, high, low, kind] = code.to_be_bytes();
        let os_error = Some(u16::from_be_bytes([high, low])).filter(|number| *number != 0);
        match ErrorKind::from_code(kind) {
            Some(kind) => RemoteError { kind, os_error, text: String::new() },
            None => RemoteError::new(ErrorKind::Cancelled, format!("the stream was reset with code {code}")),
        }
    }

    /// The text as far as the wire carries it, cut between characters.
    pub(crate) fn wire_text(&self) -> &str {
        let fits = |end: &usize| self.text.is_char_boundary(*end);
        &self.text[..(0..=MAX_TEXT_BYTES.min(self.text.len())).rev().find(fits).unwrap_or(0)]
    }
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if !self.text.is_empty() {
            write!(f, ": {}", self.text)?;
        }
        match self.os_error {
            Some(number) => write!(f, " (os error {number})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_its_number_and_a_reset() {
        for kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::from_code(kind.code()), Some(*kind));
            let error = RemoteError { kind: *kind, os_error: Some(28), text: String::new() };
            assert_eq!(RemoteError::from_reset_code(error.reset_code()), error);
        }
        assert_eq!(ErrorKind::from_code(0), None);
        assert_eq!(RemoteError::from_reset_code(u32::MAX).kind, ErrorKind::Cancelled);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let error = RemoteError::new(ErrorKind::Disk, "ü".repeat(MAX_TEXT_BYTES));
        assert_eq!(error.wire_text().len(), MAX_TEXT_BYTES);
        let error = RemoteError::new(ErrorKind::Disk, format!("x{}", error.text));
        assert_eq!(error.wire_text().len(), MAX_TEXT_BYTES - 1);
    }

    #[test]
    fn the_message_names_kind_text_and_number() {
        let error =
            RemoteError { kind: ErrorKind::NoSpace, os_error: Some(28), text: "write of a.dat".into() };
        assert_eq!(error.to_string(), "no space left: write of a.dat (os error 28)");
    }
}
