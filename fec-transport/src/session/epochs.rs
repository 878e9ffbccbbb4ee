//! The keys of a session over time: a new handshake every so often makes those of the next epoch (design §6).
//!
//! ```text
//! initiator                                                     responder
//!     │  question: message 1 for epoch e + 1, sealed in epoch e     │
//!     │ ──────────────────────────────────────────────────────────▶ │  has the keys of e + 1, still sends in e
//!     │                answer: message 2, sealed in epoch e         │
//!     │ ◀────────────────────────────────────────────────────────── │
//!     │  has the keys, sends in e + 1                               │
//!     │ ──────────────────────────────────────────────────────────▶ │  sends in e + 1
//! ```
//! A question is repeated until it is answered, on another path each time; the same question gets the same answer. Each
//! side opens packets of the epoch before for three more round trips of its slowest path. The question travels sealed,
//! so nobody but the peer can ask it, and a replay falls to the replay window of its path.

use std::sync::Arc;
use std::time::Duration;

use super::paths::PathId;
use super::streams::Role;
use crate::config::Sealing;
use crate::crypto::handshake::{Initiator, Occasion, PacketKeys, Responder};
use crate::crypto::random::Random;
use crate::crypto::seal::{MAX_PACKETS_PER_KEY, SealKey, opened_body};
use crate::keys::Identity;
use crate::time::Time;
use crate::wire::hop::HopHeader;
use crate::wire::packet::{Kind, Renewal};

/// The least time for which the keys of the epoch before are kept. It also bounds how often a peer can make us compute
/// a handshake: the next one waits until they are gone.
const MIN_RETENTION: Duration = Duration::from_millis(100);

/// The two ends of the session, their keys, and the session's name: what a new handshake needs.
#[derive(Debug, Clone)]
pub(crate) struct Ends {
    pub(crate) identity: Arc<Identity>,
    /// The peer's X25519 key.
    pub(crate) peer_key: [u8; 32],
    /// The session's token.
    pub(crate) token: u64,
    pub(crate) role: Role,
}

/// The peer asked for, or answered, a handshake as an honest one would not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadRenewal {
    #[error("a handshake for epoch {0} came from the wrong side")]
    WrongSide(u32),
    #[error("a handshake for epoch {0} came before its time")]
    Early(u32),
    #[error("the handshake for epoch {0} does not open")]
    Broken(u32),
}

/// The keys of a session.
#[derive(Debug)]
pub(crate) struct Epochs {
    ends: Ends,
    config: Sealing,
    random: Random,
    current: Epoch,
    previous: Option<Previous>,
    next: Option<Next>,
}

/// One epoch.
#[derive(Debug)]
struct Epoch {
    number: u32,
    keys: PacketKeys,
    since: Time,
    sealed: u64,
    opened: u64,
}

/// The epoch before: its packets may still be on the way.
#[derive(Debug)]
struct Previous {
    number: u32,
    receive: SealKey,
    /// Until when it is kept; none as long as the peer has not shown that it has the new keys.
    until: Option<Time>,
}

/// The epoch to come.
#[derive(Debug)]
enum Next {
    /// As the initiator: when the question is repeated, and how often it was sent.
    Asked { initiator: Initiator, question: Vec<u8>, due: Time, tries: usize },
    /// As the responder: the answer, and the path on which somebody waits for it.
    Answered { question: Vec<u8>, answer: Vec<u8>, keys: Box<PacketKeys>, owed_on: Option<PathId> },
}

/// The key that a packet is sealed with, and its epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seal<'a> {
    pub(super) key: &'a SealKey,
    /// The epoch as the hop header says it.
    pub(super) epoch: u8,
}

impl Epochs {
    pub(crate) fn new(ends: Ends, config: Sealing, keys: PacketKeys, random: Random, now: Time) -> Epochs {
        let current = Epoch { number: 0, keys, since: now, sealed: 0, opened: 0 };
        Epochs { ends, config, random, current, previous: None, next: None }
    }

    /// Which epoch this side seals in, counted from 0.
    pub(crate) fn number(&self) -> u32 {
        self.current.number
    }

    pub(super) fn seal(&self) -> Seal<'_> {
        Seal { key: &self.current.keys.send, epoch: tag(self.current.number) }
    }

    /// Notes that so many packets were sealed.
    pub(super) fn count_sealed(&mut self, packets: u64) {
        self.current.sealed += packets;
    }

    /// Whether the key has sealed as many packets as it may: all handshakes since half of that have failed.
    pub(super) fn is_used_up(&self) -> bool {
        self.current.sealed >= MAX_PACKETS_PER_KEY
    }

    #[cfg(test)]
    pub(super) fn use_up(&mut self) {
        self.current.sealed = MAX_PACKETS_PER_KEY;
    }

    /// Opens a packet of the current epoch, of the one before while it is kept, or, as the responder, of the next one,
    /// which then begins. `retention` says how long the one before is kept.
    pub(super) fn open<'a>(
        &mut self,
        now: Time,
        path: PathId,
        header: &HopHeader,
        datagram: &'a mut [u8],
        retention: impl Fn() -> Duration,
    ) -> Option<&'a mut [u8]> {
        let mut open = |key: &SealKey| key.open(path.0, header.number, datagram).is_ok();
        if header.epoch == tag(self.current.number) {
            if !open(&self.current.keys.receive) {
                return None;
            }
            self.current.opened += 1;
            if let Some(Previous { until: until @ None, .. }) = &mut self.previous {
                *until = Some(now + retention().max(MIN_RETENTION));
            }
        } else if let Some(previous) = self.previous.as_ref().filter(|it| header.epoch == tag(it.number)) {
            if !open(&previous.receive) {
                return None;
            }
        } else {
            let Some(Next::Answered { keys, .. }) = &self.next else { return None };
            if header.epoch != tag(self.current.number + 1) || !open(&keys.receive) {
                return None;
            }
            self.begin_answered(now, now + retention().max(MIN_RETENTION));
        }
        Some(opened_body(datagram))
    }

    fn begin_answered(&mut self, now: Time, until: Time) {
        if let Some(Next::Answered { keys, .. }) = self.next.take() {
            self.begin(now, *keys, Some(until));
        }
    }

    fn begin(&mut self, now: Time, keys: PacketKeys, until: Option<Time>) {
        let number = self.current.number + 1;
        let next = Epoch { number, keys, since: now, sealed: 0, opened: 0 };
        let old = std::mem::replace(&mut self.current, next);
        self.previous = Some(Previous { number: old.number, receive: old.keys.receive, until });
    }

    /// When the epoch before is forgotten.
    pub(super) fn forgets_at(&self) -> Option<Time> {
        self.previous.as_ref()?.until
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        if self.forgets_at().is_some_and(|until| until <= now) {
            self.previous = None;
        }
    }

    // --- the initiator ----------------------------------------------------------------------------------------------

    /// When to send the question, for the first time or again; never for a responder.
    pub(super) fn asks_at(&self) -> Option<Time> {
        match &self.next {
            Some(Next::Asked { due, .. }) => Some(*due),
            None if self.ends.role == Role::Initiator && self.previous.is_none() => {
                let used = self.current.sealed.max(self.current.opened) >= self.config.epoch_packets;
                Some(self.current.since + if used { Duration::ZERO } else { self.config.epoch })
            }
            _ => None,
        }
    }

    /// How often the question was sent.
    pub(super) fn tries(&self) -> usize {
        if let Some(Next::Asked { tries, .. }) = &self.next { *tries } else { 0 }
    }

    /// Notes that the question is sent now, and again after `pause`; writes it the first time.
    pub(super) fn ask(&mut self, now: Time, pause: Duration) {
        if self.next.is_none() {
            let occasion = self.occasion();
            let random = self.random.fork();
            let (initiator, question) =
                Initiator::start(&self.ends.identity, &self.ends.peer_key, b"", random, occasion);
            self.next = Some(Next::Asked { initiator, question, due: now, tries: 0 });
        }
        if let Some(Next::Asked { due, tries, .. }) = &mut self.next {
            *due = now + pause;
            *tries += 1;
        }
    }

    /// Takes the answer; from now on packets are sealed with the new keys.
    ///
    /// # Errors
    /// [`BadRenewal`] if it is not what an honest peer would send.
    pub(super) fn on_answer(&mut self, now: Time, renewal: &Renewal<'_>) -> Result<(), BadRenewal> {
        if self.ends.role != Role::Initiator {
            return Err(BadRenewal::WrongSide(renewal.epoch));
        }
        if renewal.epoch <= self.current.number {
            return Ok(());
        }
        let is_next = renewal.epoch == self.current.number + 1;
        let Some(Next::Asked { initiator, .. }) = self.next.take().filter(|_| is_next) else {
            return Err(BadRenewal::Early(renewal.epoch));
        };
        let (_, keys) = initiator.finish(renewal.message).map_err(|_| BadRenewal::Broken(renewal.epoch))?;
        self.begin(now, keys.packets, None);
        Ok(())
    }

    // --- the responder ----------------------------------------------------------------------------------------------

    /// Takes a question that came over `path`; the answer is owed there.
    ///
    /// # Errors
    /// [`BadRenewal`] if it is not what an honest peer would send.
    pub(super) fn on_question(&mut self, path: PathId, renewal: &Renewal<'_>) -> Result<(), BadRenewal> {
        if self.ends.role != Role::Responder {
            return Err(BadRenewal::WrongSide(renewal.epoch));
        }
        if renewal.epoch <= self.current.number {
            return Ok(());
        }
        if renewal.epoch > self.current.number + 1 {
            return Err(BadRenewal::Early(renewal.epoch));
        }
        match &mut self.next {
            Some(Next::Answered { question, owed_on, .. }) if *question == renewal.message => {
                *owed_on = Some(path);
            }
            Some(_) => return Err(BadRenewal::Early(renewal.epoch)),
            // The initiator asks again.
            None if self.previous.is_some() => {}
            None => self.next = Some(self.answer(path, renewal)?),
        }
        Ok(())
    }

    fn answer(&mut self, path: PathId, renewal: &Renewal<'_>) -> Result<Next, BadRenewal> {
        let broken = BadRenewal::Broken(renewal.epoch);
        let random = self.random.fork();
        let responder = Responder::read(&self.ends.identity, renewal.message, random, self.occasion())
            .ok()
            .filter(|responder| responder.initiator == self.ends.peer_key)
            .ok_or(broken)?;
        let (answer, keys) = responder.finish(b"");
        let question = renewal.message.to_vec();
        Ok(Next::Answered { question, answer, keys: Box::new(keys.packets), owed_on: Some(path) })
    }

    /// Whether an answer is owed.
    pub(super) fn owes_answer(&self) -> bool {
        matches!(self.next, Some(Next::Answered { owed_on: Some(_), .. }))
    }

    /// The path on which an answer is owed; it is owed no more.
    pub(super) fn take_owed(&mut self) -> Option<PathId> {
        match &mut self.next {
            Some(Next::Answered { owed_on, .. }) => owed_on.take(),
            _ => None,
        }
    }

    /// Writes the question or the answer for the next epoch.
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let epoch = self.current.number + 1;
        match &self.next {
            Some(Next::Asked { question, .. }) => {
                Renewal { epoch, message: question }.emit(Kind::Renewal, out);
            }
            Some(Next::Answered { answer, .. }) => {
                Renewal { epoch, message: answer }.emit(Kind::RenewalAnswer, out);
            }
            None => debug_assert!(false, "there is no handshake under way"),
        }
    }

    fn occasion(&self) -> Occasion {
        Occasion::Renewal { token: self.ends.token, epoch: self.current.number + 1 }
    }
}

/// An epoch as the hop header says it. At most three in a row are told apart, so eight bits are enough.
fn tag(epoch: u32) -> u8 {
    epoch as u8
}
