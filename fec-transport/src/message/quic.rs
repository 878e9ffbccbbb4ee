//! Messages over one QUIC connection for each pair of processes: the module `quic`, as the messenger knows it. What
//! carries them is in `io::message`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use core::net::SocketAddr;

use super::module::Module;
use crate::keys::{decode_ed25519, encode_key};

/// Bytes up to which a message travels with its envelope. A stream of its own costs a longer one about as much as 3 KiB
/// do, which is a fifth of 16 KiB and a tenth of this.
const EAGER: usize = 32 << 10;

/// Where the owners of keys are; clones are the same book.
#[derive(Debug, Clone, Default)]
pub(crate) struct AddressBook {
    addresses: Arc<Mutex<BTreeMap<String, SocketAddr>>>,
}

impl AddressBook {
    /// Where the owner of a key is, as far as somebody has looked it up.
    pub(crate) fn find(&self, key: &str) -> Option<SocketAddr> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied()
    }

    fn note(&self, key: String, address: SocketAddr) {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).insert(key, address);
    }
}

/// The module. Everybody calls a process by its key, wherever it is.
#[derive(Debug)]
pub(crate) struct QuicModule(pub(crate) AddressBook);

impl Module for QuicModule {
    fn scheme(&self) -> &'static str {
        "quic"
    }

    fn resolve(&self, place: &str) -> Result<String, String> {
        let (key, address) = match place.split_once('@') {
            Some((key, address)) => (key, Some(address)),
            None => (place, None),
        };
        let bytes =
            decode_ed25519(key).map_err(|error| format!("the key, before the @, is wrong: {error}"))?;
        let key = encode_key(&bytes);
        if let Some(address) = address {
            let parsed = address.parse().map_err(|_| {
                format!("\"{address}\" is no address and port; expected such as 192.0.2.7:7100 or [::1]:7100")
            })?;
            self.0.note(key.clone(), parsed);
        }
        Ok(key)
    }

    fn eager(&self) -> usize {
        EAGER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_key_and_perhaps_an_address() {
        let module = QuicModule(AddressBook::default());
        let key = encode_key(&crate::keys::Identity::from_seed([7; 32]).public().ed25519);
        assert_eq!(module.resolve(&format!("{key}@192.0.2.7:7100")), Ok(key.clone()));
        assert_eq!(module.0.find(&key), "192.0.2.7:7100".parse().ok());
        assert_eq!(module.resolve(&key), Ok(key.clone()));
        let error = module.resolve("192.0.2.7:7100").expect_err("the key is missing");
        assert!(error.starts_with("the key, before the @, is wrong"), "{error}");
        let error = module.resolve(&format!("{key}@io1")).expect_err("no name server is asked");
        assert!(error.starts_with("\"io1\" is no address and port"), "{error}");
    }
}
