//! The keys of a member: one secret seed, from which an Ed25519 and an X25519 key pair follow (design §6).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ed25519_dalek::{Signer as _, SigningKey, Verifier as _, VerifyingKey};
use zeroize::Zeroizing;

/// A member's secret: signs circuit set-ups and control connections, and opens Noise handshakes.
#[derive(Clone)]
pub struct Identity {
    seed: Zeroizing<[u8; 32]>,
    signing: SigningKey,
    agreement: x25519_dalek::StaticSecret,
}

/// The public half of an [`Identity`], as the overlay file lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublicKeys {
    /// Verifies signatures and identifies the member on the control plane.
    pub ed25519: [u8; 32],
    /// The static key of the Noise handshake.
    pub x25519: [u8; 32],
}

/// Why a text is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It is not standard base64 with padding.
    #[error("not base64: {0}")]
    NotBase64(String),
    /// It is base64, but of another length.
    #[error("{0} bytes where a key has 32")]
    WrongLength(usize),
    /// It is one of the few that protect nothing, as 32 zeros are.
    #[error("a key that protects nothing")]
    Weak,
}

impl Identity {
    /// The identity that follows from a seed of 32 random bytes.
    pub fn from_seed(seed: [u8; 32]) -> Identity {
        let signing = Zeroizing::new(blake3::derive_key("fec-transport 2026 Ed25519 signing key", &seed));
        let agreement = Zeroizing::new(blake3::derive_key("fec-transport 2026 X25519 static key", &seed));
        Identity {
            signing: SigningKey::from_bytes(&signing),
            agreement: x25519_dalek::StaticSecret::from(*agreement),
            seed: Zeroizing::new(seed),
        }
    }

    /// Reads what [`Identity::to_text`] wrote: the seed in base64.
    pub fn from_text(text: &str) -> Result<Identity, KeyError> {
        Ok(Identity::from_seed(decode_key(text.trim())?))
    }

    /// The seed in base64, as a key file holds it.
    pub fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(BASE64.encode(*self.seed))
    }

    /// The public half.
    pub fn public(&self) -> PublicKeys {
        PublicKeys {
            ed25519: self.signing.verifying_key().to_bytes(),
            x25519: x25519_dalek::PublicKey::from(&self.agreement).to_bytes(),
        }
    }

    /// An Ed25519 signature over `message`.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.signing.sign(message).to_bytes()
    }

    /// The secret Ed25519 key in PKCS #8 (RFC 8410), as TLS libraries want it.
    pub fn ed25519_pkcs8(&self) -> Zeroizing<Vec<u8>> {
        // SEQUENCE { version 0, SEQUENCE { OID 1.3.101.112 }, OCTET STRING { OCTET STRING { 32 bytes } } }
        const PREFIX: [u8; 16] =
            [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
        let mut der = Zeroizing::new(PREFIX.to_vec());
        der.extend_from_slice(self.signing.as_bytes());
        der
    }

    /// The secret X25519 key of the Noise handshake.
    pub(crate) fn x25519_secret(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.agreement.to_bytes())
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("public", &self.public()).finish_non_exhaustive()
    }
}

impl PublicKeys {
    /// The Ed25519 key as SubjectPublicKeyInfo (RFC 8410), the form of raw public keys in TLS (RFC 7250).
    pub fn ed25519_spki(&self) -> Vec<u8> {
        // SEQUENCE { SEQUENCE { OID 1.3.101.112 }, BIT STRING { 32 bytes } }
        const PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
        [&PREFIX[..], &self.ed25519].concat()
    }

    /// Whether `signature` is this member's over `message`.
    pub fn verifies(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        VerifyingKey::from_bytes(&self.ed25519)
            .is_ok_and(|key| key.verify(message, &ed25519_dalek::Signature::from_bytes(signature)).is_ok())
    }
}

/// Whether `signature` over `message` is that of the owner of an Ed25519 key, in the strict reading that allows no
/// second signature of the same message to be made of the first.
pub fn verifies_strictly(key: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> bool {
    let signature = ed25519_dalek::Signature::from_bytes(signature);
    VerifyingKey::from_bytes(key).is_ok_and(|key| key.verify_strict(message, &signature).is_ok())
}

/// Reads a key of 32 bytes from base64.
pub(crate) fn decode_key(text: &str) -> Result<[u8; 32], KeyError> {
    let bytes = BASE64.decode(text).map_err(|error| KeyError::NotBase64(error.to_string()))?;
    <[u8; 32]>::try_from(bytes.as_slice()).map_err(|_| KeyError::WrongLength(bytes.len()))
}

/// Reads a public Ed25519 key from base64. A weak one is refused: everybody can sign for its owner.
pub fn decode_ed25519(text: &str) -> Result<[u8; 32], KeyError> {
    let bytes = decode_key(text)?;
    let is_weak = VerifyingKey::from_bytes(&bytes).is_ok_and(|key| key.is_weak());
    if is_weak { Err(KeyError::Weak) } else { Ok(bytes) }
}

/// Reads a public X25519 key from base64. A weak one is refused: with each other key it agrees on zeros.
pub fn decode_x25519(text: &str) -> Result<[u8; 32], KeyError> {
    let bytes = decode_key(text)?;
    let agreed = x25519_dalek::x25519([1; 32], bytes);
    if agreed == [0; 32] { Err(KeyError::Weak) } else { Ok(bytes) }
}

/// Writes a key of 32 bytes in base64.
pub fn encode_key(key: &[u8; 32]) -> String {
    BASE64.encode(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_gives_the_same_identity_back() {
        let identity = Identity::from_seed([7; 32]);
        let again = Identity::from_text(&format!("{}\n", *identity.to_text())).expect("its own text");
        assert_eq!(identity.public(), again.public());
    }

    #[test]
    fn a_signature_holds_for_its_message_and_signer_only() {
        let (one, other) = (Identity::from_seed([1; 32]), Identity::from_seed([2; 32]));
        let signature = one.sign(b"route");
        assert!(one.public().verifies(b"route", &signature));
        assert!(!one.public().verifies(b"routes", &signature));
        assert!(!other.public().verifies(b"route", &signature));
    }

    #[test]
    fn a_text_that_is_no_key_is_refused_with_the_reason() {
        assert!(matches!(Identity::from_text("not base64!"), Err(KeyError::NotBase64(_))));
        assert_eq!(Identity::from_text("AAAA").unwrap_err(), KeyError::WrongLength(3));
    }

    /// The zeros of a template, say: for them one signature in four that somebody makes up is right.
    #[test]
    fn a_public_key_that_protects_nothing_is_refused() {
        let keys = Identity::from_seed([1; 32]).public();
        assert_eq!(decode_ed25519(&encode_key(&keys.ed25519)), Ok(keys.ed25519));
        assert_eq!(decode_x25519(&encode_key(&keys.x25519)), Ok(keys.x25519));
        let zeros = encode_key(&[0; 32]);
        assert_eq!(
            (decode_ed25519(&zeros), decode_x25519(&zeros)),
            (Err(KeyError::Weak), Err(KeyError::Weak))
        );
    }

    #[test]
    fn the_debug_form_shows_no_secret() {
        let identity = Identity::from_seed([9; 32]);
        assert!(!format!("{identity:?}").contains("seed"));
    }
}
