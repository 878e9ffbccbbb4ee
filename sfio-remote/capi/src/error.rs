//! Error codes, and the words for them.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use sfio_remote::client::OperationError;
use sfio_remote::collective::CollectiveError;
use sfio_remote::io::collective::JoinError;
use sfio_remote::io::{FileError, StartError};
use sfio_remote::remote_error::ErrorKind;

/// What a call came to.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(non_camel_case_types, dead_code, reason = "C's names; M_OK is what success is called")]
pub enum MResult {
    /// It succeeded.
    M_OK = 0,
    /// An argument cannot be: a null pointer, a negative offset, a name that is none.
    M_ERR_ARGUMENT = -1,
    /// The config file, the overlay or the key cannot be used.
    M_ERR_CONFIG = -2,
    /// There is no such file, or subfiles are missing.
    M_ERR_NOT_FOUND = -3,
    /// An I/O node cannot be reached, or was lost; a retry may help.
    M_ERR_NETWORK = -4,
    /// An I/O node's disk failed, or it refused; of a collective call also: a rank could not do its part.
    M_ERR_IO = -5,
    /// An I/O node's disk is full.
    M_ERR_NO_SPACE = -6,
    /// The file ends before the last byte that was to be read; those before it were read.
    M_ERR_EOF = -7,
    /// The operation was cancelled.
    M_ERR_CANCELLED = -8,
    /// A fault of the library itself.
    M_ERR_BUG = -9,
    /// A rank of the group has not come, was lost, or broke the rules: the group is of no further use.
    M_ERR_GROUP = -10,
    /// A rank of the group is in another call: nothing was read or written, and the group can go on.
    M_ERR_OTHER_CALL = -11,
}

/// A code, and what happened in words.
#[derive(Debug)]
pub struct Failure {
    code: MResult,
    words: String,
}

pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub fn new(code: MResult, words: impl ToString) -> Failure {
        Failure { code, words: words.to_string() }
    }

    pub fn argument(words: impl ToString) -> Failure {
        Failure::new(MResult::M_ERR_ARGUMENT, words)
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Failure {
        let code = match &error {
            FileError::EndOfFile { .. } => MResult::M_ERR_EOF,
            FileError::Ended(_) | FileError::OutOfPatience { .. } => MResult::M_ERR_NETWORK,
            FileError::Operation(operation) => code_of(operation),
        };
        Failure::new(code, error)
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Failure {
        Failure::new(MResult::M_ERR_CONFIG, error)
    }
}

impl From<CollectiveError> for Failure {
    fn from(error: CollectiveError) -> Failure {
        let code = match &error {
            CollectiveError::OtherCall { .. } => MResult::M_ERR_OTHER_CALL,
            CollectiveError::RankFailed { .. } => MResult::M_ERR_IO,
            CollectiveError::RankLost { .. } | CollectiveError::Broken { .. } | CollectiveError::Left => {
                MResult::M_ERR_GROUP
            }
        };
        Failure::new(code, error)
    }
}

impl From<JoinError> for Failure {
    fn from(error: JoinError) -> Failure {
        let code = match &error {
            JoinError::NoSuchRank { .. }
            | JoinError::Socket { .. }
            | JoinError::Host { .. }
            | JoinError::Address { .. }
            | JoinError::Twice { .. } => MResult::M_ERR_ARGUMENT,
            JoinError::Missing { .. }
            | JoinError::Silent { .. }
            | JoinError::Start(_)
            | JoinError::Random
            | JoinError::Thread(_) => MResult::M_ERR_GROUP,
        };
        Failure::new(code, error)
    }
}

fn code_of(error: &OperationError) -> MResult {
    match error {
        OperationError::NotFound { .. } | OperationError::Incomplete { .. } => MResult::M_ERR_NOT_FOUND,
        OperationError::Connect { .. }
        | OperationError::SessionClosed { .. }
        | OperationError::TimedOut { .. }
        | OperationError::Protocol { .. } => MResult::M_ERR_NETWORK,
        OperationError::IoNode { error, .. } => match error.kind {
            ErrorKind::NoSpace | ErrorKind::FileTooLarge => MResult::M_ERR_NO_SPACE,
            ErrorKind::NotFound => MResult::M_ERR_NOT_FOUND,
            _ => MResult::M_ERR_IO,
        },
        OperationError::Restarted { .. } => MResult::M_ERR_IO,
        OperationError::Cancelled => MResult::M_ERR_CANCELLED,
        _ => MResult::M_ERR_ARGUMENT,
    }
}

thread_local! {
    /// The last failure of this thread.
    static LAST: RefCell<(c_int, CString)> = RefCell::new((0, CString::default()));
}

/// Does the work of a call, and gives its result as C has it. Nothing unwinds into C.
pub fn call(work: impl FnOnce() -> Outcome<()>) -> c_int {
    or_else(work, |()| MResult::M_OK as c_int, |code| code)
}

/// The same for calls that give a pointer: null if they fail.
pub fn pointer<T>(work: impl FnOnce() -> Outcome<Box<T>>) -> *mut T {
    or_else(work, Box::into_raw, |_| std::ptr::null_mut())
}

fn or_else<T, R>(
    work: impl FnOnce() -> Outcome<T>,
    success: impl FnOnce(T) -> R,
    failure: impl FnOnce(c_int) -> R,
) -> R {
    // After a panic nothing of the work is used any more.
    let outcome = catch_unwind(AssertUnwindSafe(work));
    match outcome.unwrap_or_else(|_| Err(Failure::new(MResult::M_ERR_BUG, "a fault of the library"))) {
        Ok(value) => success(value),
        Err(error) => failure(remember(error)),
    }
}

/// Notes a failure for `m_strerror`, and gives its code.
pub fn remember(failure: Failure) -> c_int {
    let Failure { code, words } = failure;
    let words = CString::new(words.replace('\0', "\\0")).unwrap_or_default();
    LAST.with_borrow_mut(|last| *last = (code as c_int, words));
    code as c_int
}

/// The code of the last failure on this thread: why mopen gave NULL.
#[unsafe(no_mangle)]
pub extern "C" fn m_errno() -> c_int {
    LAST.with_borrow(|last| last.0)
}

/// What a code means. For the last failure on this thread it names the I/O node and the subfile, too; then the text is
/// valid until this thread's next call.
#[unsafe(no_mangle)]
pub extern "C" fn m_strerror(code: c_int) -> *const c_char {
    LAST.with_borrow(|last| if code != 0 && last.0 == code { last.1.as_ptr() } else { words(code).as_ptr() })
}

fn words(code: c_int) -> &'static CStr {
    match code {
        0 => c"success",
        -1 => c"an argument cannot be",
        -2 => c"the config file, the overlay or the key cannot be used",
        -3 => c"no such file, or subfiles are missing",
        -4 => c"an I/O node cannot be reached, or was lost",
        -5 => c"an I/O node failed or refused",
        -6 => c"no space left on an I/O node",
        -7 => c"the file ends before the last byte",
        -8 => c"cancelled",
        -9 => c"a fault of the library",
        -10 => c"a rank of the group has not come, or was lost",
        -11 => c"a rank of the group is in another call",
        _ => c"not an error code of SFIO",
    }
}
