//! The Noise IK handshake (design §6). The first one of a session rides on the first circuit's set-up and answer, those
//! of later epochs on packets of the session.
//!
//! snow does the handshake and nothing else: the keys of a session are derived from its raw split, because packets
//! arrive out of order and over several paths, which Noise's own transport does not know.

use ring::hkdf;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random as NoiseRandom};
use snow::{Builder, HandshakeState};
use zeroize::Zeroizing;

use super::random::Random;
use super::seal::SealKey;
use crate::keys::Identity;

const PATTERN: &str = "Noise_IK_25519_AESGCM_SHA256";
const PROLOGUE: &[u8] = b"fec-transport 4";
/// The longest handshake message, in bytes: it must fit into a set-up's payload.
const MAX_MESSAGE: usize = 512;

/// The other side's message does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HandshakeFailed;

/// What a handshake gives, as one side uses it.
#[derive(Debug)]
pub(crate) struct SessionKeys {
    pub(crate) packets: PacketKeys,
    /// Seals requests to join, which travel from the initiator to the responder. That of epoch 0 serves for the whole
    /// session.
    pub(crate) join: SealKey,
}

/// The keys of one epoch's packets, as one side uses them.
#[derive(Debug)]
pub(crate) struct PacketKeys {
    /// Seals our packets.
    pub(crate) send: SealKey,
    /// Opens the peer's packets.
    pub(crate) receive: SealKey,
}

/// What a handshake is for. Both sides must agree upon it, or no message opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// The opening of a session.
    Opening,
    /// The keys of a later epoch of the session that `token` names.
    Renewal { token: u64, epoch: u32 },
}

/// An initiator that waits for the answer.
pub(crate) struct Initiator(Box<HandshakeState>, Occasion);

impl std::fmt::Debug for Initiator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Initiator(..)")
    }
}

impl Initiator {
    /// Begins a handshake with the owner of `responder`; gives message 1, which carries `payload`.
    pub(crate) fn start(
        identity: &Identity,
        responder: &[u8; 32],
        payload: &[u8],
        random: Random,
        occasion: Occasion,
    ) -> (Initiator, Vec<u8>) {
        let secret = identity.x25519_secret();
        let prologue = occasion.prologue();
        let mut state = builder(random, &prologue)
            .local_private_key(&*secret)
            .and_then(|builder| builder.remote_public_key(responder))
            .and_then(Builder::build_initiator)
            .expect("IK needs our secret and their public key, and has both");
        let mut message = vec![0; MAX_MESSAGE];
        let length = state.write_message(payload, &mut message).expect("payloads are far below the limit");
        message.truncate(length);
        (Initiator(Box::new(state), occasion), message)
    }

    /// Reads message 2; gives its payload and the session's keys.
    pub(crate) fn finish(mut self, message: &[u8]) -> Result<(Vec<u8>, SessionKeys), HandshakeFailed> {
        let payload = read(&mut self.0, message)?;
        let (ours, theirs) = self.0.dangerously_get_raw_split();
        let (ours, theirs) = (Zeroizing::new(ours), Zeroizing::new(theirs));
        Ok((payload, SessionKeys::derive(&ours, &theirs, &ours, self.1)))
    }
}

/// A responder that has read message 1.
pub(crate) struct Responder {
    state: Box<HandshakeState>,
    occasion: Occasion,
    /// The initiator's static X25519 key, authenticated by the handshake.
    pub(crate) initiator: [u8; 32],
    /// What message 1 carried. It may be a replay until the first sealed packet opens.
    pub(crate) payload: Vec<u8>,
}

impl Responder {
    /// Reads message 1.
    pub(crate) fn read(
        identity: &Identity,
        message: &[u8],
        random: Random,
        occasion: Occasion,
    ) -> Result<Responder, HandshakeFailed> {
        let secret = identity.x25519_secret();
        let prologue = occasion.prologue();
        let mut state = builder(random, &prologue)
            .local_private_key(&*secret)
            .and_then(Builder::build_responder)
            .expect("IK needs our secret, and has it");
        let payload = read(&mut state, message)?;
        let initiator =
            state.get_remote_static().and_then(|key| key.try_into().ok()).ok_or(HandshakeFailed)?;
        Ok(Responder { state: Box::new(state), occasion, initiator, payload })
    }

    /// Gives message 2, which carries `payload`, and the session's keys.
    pub(crate) fn finish(mut self, payload: &[u8]) -> (Vec<u8>, SessionKeys) {
        let mut message = vec![0; MAX_MESSAGE];
        let length =
            self.state.write_message(payload, &mut message).expect("payloads are far below the limit");
        message.truncate(length);
        let (theirs, ours) = self.state.dangerously_get_raw_split();
        let (ours, theirs) = (Zeroizing::new(ours), Zeroizing::new(theirs));
        (message, SessionKeys::derive(&ours, &theirs, &theirs, self.occasion))
    }
}

impl SessionKeys {
    fn derive(send: &[u8; 32], receive: &[u8; 32], initiator: &[u8; 32], occasion: Occasion) -> SessionKeys {
        let purpose = format!("packets, epoch {}", occasion.epoch());
        let key = |secret| SealKey::new(&expand(secret, purpose.as_bytes()));
        SessionKeys {
            packets: PacketKeys { send: key(send), receive: key(receive) },
            join: SealKey::new(&expand(initiator, b"requests to join")),
        }
    }
}

impl Occasion {
    fn epoch(self) -> u32 {
        match self {
            Occasion::Opening => 0,
            Occasion::Renewal { epoch, .. } => epoch,
        }
    }

    /// What both sides mix into the handshake: a message of another session or epoch does not open.
    fn prologue(self) -> Vec<u8> {
        let mut prologue = PROLOGUE.to_vec();
        if let Occasion::Renewal { token, epoch } = self {
            prologue.extend_from_slice(&token.to_be_bytes());
            prologue.extend_from_slice(&epoch.to_be_bytes());
        }
        prologue
    }
}

fn expand(secret: &[u8; 32], purpose: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; 32]);
    hkdf::Salt::new(hkdf::HKDF_SHA256, PROLOGUE)
        .extract(secret)
        .expand(&[purpose], hkdf::HKDF_SHA256)
        .and_then(|okm| okm.fill(&mut *key))
        .expect("HKDF-SHA256 gives 32 bytes");
    key
}

fn read(state: &mut HandshakeState, message: &[u8]) -> Result<Vec<u8>, HandshakeFailed> {
    let mut payload = vec![0; message.len()];
    let length = state.read_message(message, &mut payload).map_err(|_| HandshakeFailed)?;
    payload.truncate(length);
    Ok(payload)
}

fn builder<'a>(random: Random, prologue: &'a [u8]) -> Builder<'a> {
    let params = PATTERN.parse().expect("a pattern that snow knows");
    Builder::with_resolver(params, Box::new(NodesResolver(random)))
        .prologue(prologue)
        .expect("the prologue is set once")
}

/// snow's own primitives, but with the node's randomness: a simulation is a function of its seed.
struct NodesResolver(Random);

impl CryptoResolver for NodesResolver {
    fn resolve_rng(&self) -> Option<Box<dyn NoiseRandom>> {
        Some(Box::new(NodesRandom(self.0.clone())))
    }
    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }
    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }
    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

struct NodesRandom(Random);

impl NoiseRandom for NodesRandom {
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), snow::Error> {
        self.0.fill(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENING: Occasion = Occasion::Opening;

    fn identities() -> (Identity, Identity) {
        (Identity::from_seed([1; 32]), Identity::from_seed([2; 32]))
    }

    fn random(seed: u8) -> Random {
        Random::from_seed([seed; 32])
    }

    #[test]
    fn both_sides_end_with_the_same_keys_and_know_each_other() {
        let (client, server) = identities();
        let (initiator, first) =
            Initiator::start(&client, &server.public().x25519, b"hello", random(3), OPENING);
        let responder = Responder::read(&server, &first, random(4), OPENING).expect("message 1 opens");
        assert_eq!(responder.initiator, client.public().x25519);
        assert_eq!(responder.payload, b"hello");
        let (second, server_keys) = responder.finish(b"welcome");
        let (payload, client_keys) = initiator.finish(&second).expect("message 2 opens");
        assert_eq!(payload, b"welcome");
        let sealed = client_keys.join.seal_message(1, b"session", b"path");
        assert_eq!(server_keys.join.open_message(1, b"session", &sealed), Ok(b"path".to_vec()));
        assert_eq!(
            server_keys.join.open_message(2, b"session", &sealed).unwrap_err(),
            super::super::seal::BrokenSeal
        );
        let sealed = server_keys.packets.send.seal_message(1, b"", b"data");
        assert_eq!(client_keys.packets.receive.open_message(1, b"", &sealed), Ok(b"data".to_vec()));
    }

    #[test]
    fn a_message_for_another_member_or_changed_on_the_way_does_not_open() {
        let (client, server) = identities();
        let (_, mut first) = Initiator::start(&client, &server.public().x25519, b"hello", random(3), OPENING);
        assert!(Responder::read(&client, &first, random(4), OPENING).is_err());
        first[40] ^= 1;
        assert!(Responder::read(&server, &first, random(4), OPENING).is_err());
        assert!(Responder::read(&server, b"short", random(4), OPENING).is_err());
    }

    #[test]
    fn a_handshake_serves_its_session_and_epoch_only() {
        let (client, server) = identities();
        let renewal = |token, epoch| Occasion::Renewal { token, epoch };
        let (_, first) = Initiator::start(&client, &server.public().x25519, b"", random(3), renewal(7, 1));
        let opens = |occasion| Responder::read(&server, &first, random(4), occasion).is_ok();
        assert!(opens(renewal(7, 1)));
        assert!(!opens(renewal(8, 1)) && !opens(renewal(7, 2)) && !opens(OPENING));
    }

    #[test]
    fn the_handshake_is_a_function_of_the_seed() {
        let (client, server) = identities();
        let start = |seed| Initiator::start(&client, &server.public().x25519, b"", random(seed), OPENING).1;
        assert_eq!(start(3), start(3));
        assert_ne!(start(3), start(4));
    }
}
