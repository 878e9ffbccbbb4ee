//! What all calls of the process share.

use std::ffi::{CStr, c_char};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};
use std::time::Duration;

use fec_transport::io::message::Messenger;
use fec_transport::keys::encode_key;
use fec_transport::message::AddressId;
use fec_transport::overlay::Overlay;

use crate::addresses::Addresses;
use crate::error::{Code, Failure, Outcome};
use crate::leftover::Leftover;
use crate::operations::Operations;

/// The messenger, and what C knows of it.
pub struct Library {
    pub messenger: Messenger,
    pub operations: Operations,
    pub addresses: Addresses,
    pub leftover: Leftover,
    /// Who has which key.
    pub overlay: Option<Arc<Overlay>>,
    /// The addresses at which it listens.
    pub listens_at: Vec<String>,
    /// Its address within the process.
    pub within: String,
    /// Whether each unexpected message is a reference to its sender.
    pub counts_senders: bool,
}

impl Library {
    /// An address as the messenger has it: one of this process leads within it, and the member of `quic://MEMBER@PLACE`
    /// is told by its key.
    pub fn translate(&self, text: &str) -> String {
        let parts = || text.split(',').map(str::trim);
        if parts().any(|part| self.listens_at.iter().any(|own| own == part)) {
            return self.within.clone();
        }
        let parts = parts().map(|part| self.with_key(part).unwrap_or_else(|| part.to_owned()));
        parts.collect::<Vec<_>>().join(",")
    }

    fn with_key(&self, part: &str) -> Option<String> {
        let (name, place) = part.strip_prefix("quic://")?.split_once('@')?;
        let overlay = self.overlay.as_ref()?;
        let key = encode_key(&overlay.member(overlay.find(name)?).keys.ed25519);
        Some(format!("quic://{key}@{place}"))
    }
}

/// The library, while somebody uses it.
#[derive(Default)]
pub struct Shared {
    /// How often it was initialized more than finalized.
    pub users: u64,
    pub library: Option<Arc<Library>>,
}

static SHARED: RwLock<Shared> = RwLock::new(Shared { users: 0, library: None });

/// To begin and to end it.
pub fn shared() -> RwLockWriteGuard<'static, Shared> {
    // Each change is whole.
    SHARED.write().unwrap_or_else(PoisonError::into_inner)
}

/// The library, which must have been initialized.
pub fn current() -> Outcome<Arc<Library>> {
    let shared = SHARED.read().unwrap_or_else(PoisonError::into_inner);
    let library = shared.library.clone();
    library.ok_or_else(|| Failure::new(Code::ENETDOWN, "BMI_initialize was not called"))
}

/// A peer, as C calls it.
pub fn address(id: i64) -> Outcome<AddressId> {
    let address = u64::try_from(id).ok().filter(|id| *id > 0);
    address.map(AddressId).ok_or_else(|| Failure::argument(format!("there is no address {id}")))
}

/// How long a test waits.
pub fn idle_time(milliseconds: i32) -> Outcome<Duration> {
    let wait = u64::try_from(milliseconds).map(Duration::from_millis);
    wait.map_err(|_| Failure::argument(format!("a test cannot wait for {milliseconds} ms")))
}

/// A text of the caller's, if there is one.
///
/// # Safety
/// `text` is null, or ends with a NUL and stays for as long as the result is used.
pub unsafe fn text<'a>(text: *const c_char, what: &str) -> Outcome<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, so it ends with a NUL.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| Failure::argument(format!("{what} is not UTF-8")))
}
