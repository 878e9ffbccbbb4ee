//! TLS for the control plane: raw public keys (RFC 7250) that are pinned to the overlay file, TLS 1.3, nothing else.
//!
//! There is no certificate, no authority and no name. A member proves with a signature that it owns the Ed25519 key
//! that the overlay file lists, and the other side compares that key with those that it expects: the dialler with
//! the one of the neighbour it dials, the acceptor with those of all its neighbours.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use quinn::crypto::rustls::{HandshakeData, NoInitialCipherSuite, QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible, SignatureScheme,
};

use crate::circuit::PROTOCOL_VERSION;
use crate::keys::{Identity, PublicKeys, encode_key};
use crate::overlay::{MemberId, Overlay};

/// Names the control protocol in ALPN; the version follows. Each side offers its own and all earlier ones, so that the
/// two agree on the older one's and the newer one can say whom it refuses and why.
pub(super) const PROTOCOL: &str = "fec-transport/";

/// TLS wants a name for the server; nothing looks at it and it is not sent.
pub(super) const SERVER_NAME: &str = "member.invalid";

/// Refused keys of which each is named in the log.
const NAMED_KEYS: u64 = 64;

/// Why the TLS configuration could not be made: never the overlay's fault, so a fault of the build.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// rustls refuses the own key or the protocol version.
    #[error("TLS refuses the member's own key or TLS 1.3")]
    Rustls(#[from] Error),
    /// The cryptographic provider lacks what every QUIC handshake begins with.
    #[error("the TLS provider has no AES-128-GCM, with which each QUIC handshake begins")]
    NoInitialCipherSuite(#[from] NoInitialCipherSuite),
}

/// The keys that may be at the other end of a connection, each with the member that owns it. Clones share them, so that
/// a newer overlay file holds for handshakes under way, too.
#[derive(Debug, Clone)]
pub(super) struct PinnedKeys {
    members: Arc<RwLock<BTreeMap<Vec<u8>, MemberId>>>,
    /// The hosts of those that have fixed addresses.
    hosts: Arc<RwLock<BTreeSet<IpAddr>>>,
    algorithms: WebPkiSupportedAlgorithms,
    /// How many were refused.
    refused: Arc<AtomicU64>,
}

impl PinnedKeys {
    /// The keys of `members`, as `overlay` lists them.
    pub(super) fn of(overlay: &Overlay, members: impl IntoIterator<Item = MemberId>) -> PinnedKeys {
        let pinned = PinnedKeys {
            members: Arc::default(),
            hosts: Arc::default(),
            algorithms: provider().signature_verification_algorithms,
            refused: Arc::default(),
        };
        pinned.replace(overlay, members);
        pinned
    }

    /// These Ed25519 keys, of whom it is not known whose they are.
    pub(super) fn of_keys(keys: impl IntoIterator<Item = [u8; 32]>) -> PinnedKeys {
        let spki = |ed25519| PublicKeys { ed25519, x25519: [0; 32] }.ed25519_spki();
        let members = keys.into_iter().zip(0..).map(|(key, number)| (spki(key), MemberId(number))).collect();
        PinnedKeys {
            members: Arc::new(RwLock::new(members)),
            hosts: Arc::default(),
            algorithms: provider().signature_verification_algorithms,
            refused: Arc::default(),
        }
    }

    /// From now on these are the keys.
    pub(super) fn replace(&self, overlay: &Overlay, members: impl IntoIterator<Item = MemberId>) {
        let members: Vec<MemberId> = members.into_iter().collect();
        let host = |member: &MemberId| Some(overlay.member(*member).control?.ip().to_canonical());
        *self.hosts.write().unwrap_or_else(PoisonError::into_inner) =
            members.iter().filter_map(host).collect();
        let spki = |member| overlay.member(member).keys.ed25519_spki();
        *self.members.write().unwrap_or_else(PoisonError::into_inner) =
            members.into_iter().map(|member| (spki(member), member)).collect();
    }

    /// Where the overlay file says that they are.
    pub(super) fn hosts(&self) -> BTreeSet<IpAddr> {
        self.hosts.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<Vec<u8>, MemberId>> {
        self.members.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The member at the other end of a connection that these keys let through.
    pub(super) fn member_at(&self, connection: &quinn::Connection) -> Option<MemberId> {
        self.read().get(certificate(connection)?.as_ref()).copied()
    }

    fn check(&self, key: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> Result<(), Error> {
        if others.is_empty() && self.read().contains_key(key.as_ref()) {
            return Ok(());
        }
        self.note_refused(key);
        // Told to the peer as the alert access_denied.
        Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    /// Names the first keys that are refused, and ever fewer of those that follow.
    fn note_refused(&self, key: &CertificateDer<'_>) {
        let so_far = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        if so_far <= NAMED_KEYS || so_far.is_power_of_two() {
            let key: &[u8] = key.as_ref();
            let key = key.last_chunk().map(encode_key);
            tracing::info!(ed25519 = key, so_far, "a key that is no neighbour's was presented");
        }
    }

    fn check_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }
}

impl ServerCertVerifier for PinnedKeys {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(key, others).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, key, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for PinnedKeys {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(key, others).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, key, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// What a dialler brings to a handshake with one of `expected`.
pub(super) fn client_config(identity: &Identity, expected: PinnedKeys) -> Result<QuicClientConfig, TlsError> {
    client_config_with(own_key(identity)?, expected, protocols(PROTOCOL_VERSION))
}

/// The same for another protocol than that of the control plane.
pub(super) fn client_config_for(
    identity: &Identity,
    expected: PinnedKeys,
    protocol: &str,
) -> Result<QuicClientConfig, TlsError> {
    client_config_with(own_key(identity)?, expected, vec![protocol.as_bytes().to_vec()])
}

fn client_config_with(
    key: Arc<CertifiedKey>,
    expected: PinnedKeys,
    protocols: Vec<Vec<u8>>,
) -> Result<QuicClientConfig, TlsError> {
    let mut config = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(expected))
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(key)));
    config.alpn_protocols = protocols;
    config.enable_sni = false;
    // A resumed session would skip the check of the key. Without resumption there is no 0-RTT either.
    config.resumption = Resumption::disabled();
    Ok(QuicClientConfig::try_from(config)?)
}

/// What an acceptor brings to a handshake with any of `expected`.
pub(super) fn server_config(identity: &Identity, expected: PinnedKeys) -> Result<QuicServerConfig, TlsError> {
    server_config_with(own_key(identity)?, expected, protocols(PROTOCOL_VERSION))
}

/// The same for another protocol than that of the control plane.
pub(super) fn server_config_for(
    identity: &Identity,
    expected: PinnedKeys,
    protocol: &str,
) -> Result<QuicServerConfig, TlsError> {
    server_config_with(own_key(identity)?, expected, vec![protocol.as_bytes().to_vec()])
}

fn server_config_with(
    key: Arc<CertifiedKey>,
    expected: PinnedKeys,
    protocols: Vec<Vec<u8>>,
) -> Result<QuicServerConfig, TlsError> {
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Arc::new(expected))
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key)));
    config.alpn_protocols = protocols;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Ok(QuicServerConfig::try_from(config)?)
}

/// The Ed25519 key of whoever is at the other end of a connection.
pub(super) fn peer_key(connection: &quinn::Connection) -> Option<[u8; 32]> {
    certificate(connection)?.last_chunk().copied()
}

/// What the peer of a connection has shown: its raw public key, in DER.
fn certificate(connection: &quinn::Connection) -> Option<CertificateDer<'static>> {
    let chain = connection.peer_identity()?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    chain.into_iter().next()
}

/// What a side of `version` offers, its own first.
fn protocols(version: u8) -> Vec<Vec<u8>> {
    (1..=version).rev().map(|version| format!("{PROTOCOL}{version}").into_bytes()).collect()
}

/// The version of the older side of a connection whose TLS handshake is done.
pub(super) fn version_of(connection: &quinn::Connection) -> Option<u8> {
    let agreed = connection.handshake_data()?.downcast::<HandshakeData>().ok()?.protocol?;
    std::str::from_utf8(&agreed).ok()?.strip_prefix(PROTOCOL)?.parse().ok()
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn own_key(identity: &Identity) -> Result<Arc<CertifiedKey>, Error> {
    key_pair(identity.public(), identity)
}

/// A public key to present and the secret to sign with.
fn key_pair(public: PublicKeys, signer: &Identity) -> Result<Arc<CertifiedKey>, Error> {
    let secret = signer.ed25519_pkcs8();
    let signing = rustls::crypto::ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(&secret[..]))?;
    Ok(Arc::new(CertifiedKey::new(vec![CertificateDer::from(public.ed25519_spki())], signing)))
}

/// Somebody who presents another one's public key without the secret that belongs to it.
#[cfg(test)]
pub(super) mod impostor {
    use super::*;

    /// As a dialler.
    pub(in crate::io) fn client(
        claims: PublicKeys,
        owns: &Identity,
        expected: PinnedKeys,
    ) -> Result<QuicClientConfig, TlsError> {
        client_config_with(key_pair(claims, owns)?, expected, protocols(PROTOCOL_VERSION))
    }

    /// As an acceptor.
    pub(in crate::io) fn server(
        claims: PublicKeys,
        owns: &Identity,
        expected: PinnedKeys,
    ) -> Result<QuicServerConfig, TlsError> {
        server_config_with(key_pair(claims, owns)?, expected, protocols(PROTOCOL_VERSION))
    }
}

/// A member that speaks the version before this one.
#[cfg(test)]
pub(super) mod outdated {
    use super::*;

    /// As a dialler.
    pub(in crate::io) fn client(
        identity: &Identity,
        expected: PinnedKeys,
    ) -> Result<QuicClientConfig, TlsError> {
        client_config_with(own_key(identity)?, expected, protocols(PROTOCOL_VERSION - 1))
    }

    /// As an acceptor.
    pub(in crate::io) fn server(
        identity: &Identity,
        expected: PinnedKeys,
    ) -> Result<QuicServerConfig, TlsError> {
        server_config_with(own_key(identity)?, expected, protocols(PROTOCOL_VERSION - 1))
    }
}
