//! The operator's detached signature of an overlay file.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::keys::{Identity, KeyError, decode_ed25519, encode_key, verifies_strictly};

/// What is signed begins with this, so that no signature made for another purpose passes for one of an overlay file.
const CONTEXT: &[u8] = b"fec-transport overlay file 1\0";

/// The public half of the key with which an operator signs overlay files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperatorKey([u8; 32]);

/// Why an overlay file is not the operator's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The signature is no text of an Ed25519 signature.
    #[error("it is not 64 bytes in base64, as `sfio overlay sign` writes them")]
    Malformed,
    /// It is one, of another text or by another key.
    #[error("it is not the signature of operator {0} over this file")]
    Wrong(String),
}

impl OperatorKey {
    /// The public half of an operator's identity.
    pub fn of(operator: &Identity) -> OperatorKey {
        OperatorKey(operator.public().ed25519)
    }

    /// Reads what [`to_text`](Self::to_text) wrote.
    ///
    /// # Errors
    /// [`KeyError`] if it is no public key in base64.
    pub fn from_text(text: &str) -> Result<OperatorKey, KeyError> {
        decode_ed25519(text).map(OperatorKey)
    }

    /// In base64, as a config file has it.
    pub fn to_text(self) -> String {
        encode_key(&self.0)
    }

    /// Checks the signature of an overlay file, in base64.
    ///
    /// # Errors
    /// [`SignatureError`] if it is not this operator's over exactly these bytes.
    pub fn check(self, overlay_file: &[u8], signature: &str) -> Result<(), SignatureError> {
        let bytes = BASE64.decode(signature.trim()).map_err(|_| SignatureError::Malformed)?;
        let bytes = <[u8; 64]>::try_from(bytes.as_slice()).map_err(|_| SignatureError::Malformed)?;
        if verifies_strictly(&self.0, &signed(overlay_file), &bytes) {
            return Ok(());
        }
        Err(SignatureError::Wrong(self.to_text()))
    }
}

/// The operator's signature over the bytes of an overlay file, in base64.
pub fn sign(operator: &Identity, overlay_file: &[u8]) -> String {
    BASE64.encode(operator.sign(&signed(overlay_file)))
}

fn signed(overlay_file: &[u8]) -> Vec<u8> {
    [CONTEXT, overlay_file].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_one_file_and_one_operator() {
        let (operator, other) = (Identity::from_seed([1; 32]), Identity::from_seed([2; 32]));
        let signature = sign(&operator, b"serial = 7");
        let key = OperatorKey::of(&operator);
        assert_eq!(key.check(b"serial = 7", &format!("{signature}\n")), Ok(()));
        assert_eq!(key.check(b"serial = 8", &signature), Err(SignatureError::Wrong(key.to_text())));
        let others = OperatorKey::of(&other);
        assert_eq!(others.check(b"serial = 7", &signature), Err(SignatureError::Wrong(others.to_text())));
        assert_eq!(key.check(b"serial = 7", "c2hvcnQ="), Err(SignatureError::Malformed));
        assert_eq!(OperatorKey::from_text(&key.to_text()), Ok(key));
    }

    #[test]
    fn a_signature_over_the_bare_file_is_none() {
        let operator = Identity::from_seed([1; 32]);
        let bare = BASE64.encode(operator.sign(b"serial = 7"));
        assert!(OperatorKey::of(&operator).check(b"serial = 7", &bare).is_err());
    }
}
