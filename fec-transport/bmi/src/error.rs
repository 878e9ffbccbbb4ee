//! Error codes, and the words for them.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use fec_transport::message::{AddressError, NoOperation, OperationError, PostError};

/// The bit of PVFS2's errors, and the class of BMI's.
const BMI: c_int = 1 << 30 | 1 << 7;

/// What the errors have beside that are not of the system.
const NOT_OF_THE_SYSTEM: c_int = 1 << 29;

/// An error code, as the header has it: C gets it with a minus before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(c_int);

impl Code {
    pub const ENOMEM: Code = Code(8 | BMI);
    pub const EINVAL: Code = Code(15 | BMI);
    pub const ENOSYS: Code = Code(25 | BMI);
    pub const ENOMSG: Code = Code(29 | BMI);
    pub const EMSGSIZE: Code = Code(42 | BMI);
    pub const ENOPROTOOPT: Code = Code(44 | BMI);
    pub const EADDRINUSE: Code = Code(47 | BMI);
    pub const EADDRNOTAVAIL: Code = Code(48 | BMI);
    pub const ENETDOWN: Code = Code(49 | BMI);
    pub const ETIMEDOUT: Code = Code(53 | BMI);
    pub const ECONNRESET: Code = Code(59 | BMI);
    pub const ECANCEL: Code = Code(1 | NOT_OF_THE_SYSTEM | BMI);
    pub const EDEVINIT: Code = Code(2 | NOT_OF_THE_SYSTEM | BMI);
    pub const EDETAIL: Code = Code(3 | NOT_OF_THE_SYSTEM | BMI);
    pub const EADDRNTFD: Code = Code(5 | NOT_OF_THE_SYSTEM | BMI);
    pub const ENORECVR: Code = Code(6 | NOT_OF_THE_SYSTEM | BMI);

    /// As C gets it.
    pub fn negative(self) -> c_int {
        -self.0
    }
}

/// A code, and what happened in words.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    words: String,
}

pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub fn new(code: Code, words: impl ToString) -> Failure {
        Failure { code, words: words.to_string() }
    }

    pub fn argument(words: impl ToString) -> Failure {
        Failure::new(Code::EINVAL, words)
    }

    #[cfg(test)]
    pub fn words(&self) -> &str {
        &self.words
    }

    /// How an operation has ended. Only its side tells what it means that the peer gave it up.
    pub fn of_operation(error: &OperationError, is_receive: bool) -> Failure {
        let code = match error {
            OperationError::Cancelled => Code::ECANCEL,
            OperationError::TimedOut(_) => Code::ETIMEDOUT,
            OperationError::PeerLost { .. } => Code::ECONNRESET,
            OperationError::TooLong { .. } | OperationError::DoesNotFit { .. } => Code::EMSGSIZE,
            OperationError::GivenUp if is_receive => Code::ENOMSG,
            OperationError::GivenUp => Code::ENORECVR,
        };
        Failure::new(code, error)
    }
}

impl From<PostError> for Failure {
    fn from(error: PostError) -> Failure {
        let code = match &error {
            PostError::NoContext(_) | PostError::NoAddress(_) => Code::EINVAL,
            PostError::TooLong { .. } => Code::EMSGSIZE,
            PostError::Lost { .. } => Code::ECONNRESET,
        };
        Failure::new(code, error)
    }
}

impl From<AddressError> for Failure {
    fn from(error: AddressError) -> Failure {
        let code = match &error {
            AddressError::NoScheme(_) => Code::EINVAL,
            AddressError::NoModule { .. } => Code::ENOPROTOOPT,
            AddressError::BadPlace { .. } => Code::EADDRNTFD,
        };
        Failure::new(code, error)
    }
}

impl From<NoOperation> for Failure {
    fn from(error: NoOperation) -> Failure {
        Failure::argument(error)
    }
}

thread_local! {
    /// The last failure that this thread was told of.
    static LAST: RefCell<CString> = RefCell::default();
}

/// Does the work of a call, and gives its result as C has it. Nothing unwinds into C.
pub fn call(work: impl FnOnce() -> Outcome<c_int>) -> c_int {
    guarded(work).unwrap_or_else(remember)
}

/// The same for calls that give a pointer: null if they fail.
pub fn pointer<T>(work: impl FnOnce() -> Outcome<*mut T>) -> *mut T {
    guarded(work).unwrap_or_else(|failure| {
        remember(failure);
        std::ptr::null_mut()
    })
}

fn guarded<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    // After a panic nothing of the work is used any more.
    let outcome = catch_unwind(AssertUnwindSafe(work));
    outcome.unwrap_or_else(|_| Err(Failure::new(Code::EDETAIL, "a fault of the library")))
}

/// Notes a failure for `BMI_words`, and gives its code as C has it.
pub fn remember(Failure { code, words }: Failure) -> c_int {
    let words = CString::new(words.replace('\0', "\\0")).unwrap_or_default();
    LAST.with_borrow_mut(|last| *last = words);
    code.negative()
}

#[unsafe(no_mangle)]
pub extern "C" fn BMI_words() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn the_header_has_the_same_codes() {
        let header = include_str!("../include/bmi-types.h");
        let codes = [
            ("ENOMEM", Code::ENOMEM),
            ("EINVAL", Code::EINVAL),
            ("ENOSYS", Code::ENOSYS),
            ("ENOMSG", Code::ENOMSG),
            ("EMSGSIZE", Code::EMSGSIZE),
            ("ENOPROTOOPT", Code::ENOPROTOOPT),
            ("EADDRINUSE", Code::EADDRINUSE),
            ("EADDRNOTAVAIL", Code::EADDRNOTAVAIL),
            ("ENETDOWN", Code::ENETDOWN),
            ("ETIMEDOUT", Code::ETIMEDOUT),
            ("ECONNRESET", Code::ECONNRESET),
            ("ECANCEL", Code::ECANCEL),
            ("EDEVINIT", Code::EDEVINIT),
            ("EDETAIL", Code::EDETAIL),
            ("EADDRNTFD", Code::EADDRNTFD),
            ("ENORECVR", Code::ENORECVR),
        ];
        for (name, code) in codes {
            let entry = format!("BMI_{name} = {:#010x}", code.0);
            assert!(header.contains(&entry), "the header has no `{entry}`");
        }
    }
}
