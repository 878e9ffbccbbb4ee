//! The receiving half of a link: the windows that the peer has, and the messages that it offers.

use std::collections::BTreeMap;

use super::budget::FIRST_WINDOW;
use super::matching::Place;
use super::operation::OperationId;
use crate::wire::message::{Frame, Kind};

/// A peer that does not keep to the rules; it is cut off.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    /// It sent more than it was allowed.
    #[error("it sent messages up to {charged} charged bytes where its window ends at {limit}")]
    BeyondWindow {
        /// Up to where.
        charged: u64,
        /// Up to where it may.
        limit: u64,
    },
    /// It has used the number of a message twice.
    #[error("it offered message {0} twice")]
    OfferedTwice(u64),
    /// It sent bytes that are not of their message.
    #[error("it sent bytes beyond the end of message {0}")]
    BeyondEnd(u64),
    /// Its bytes are no frames.
    #[error("it sent what is no message: {0}")]
    Malformed(String),
}

/// What a peer has sent over one link.
#[derive(Debug)]
pub(super) struct Incoming {
    unexpected: Window,
    expected: Window,
    offers: BTreeMap<u64, Offer>,
    taken: u64,
}

/// What has become of an offered message.
#[derive(Debug, Clone, Copy)]
pub(super) enum Offer {
    Waits(Place),
    Granted(OperationId),
}

/// How much a peer may send of one kind, in charged bytes since the link began.
#[derive(Debug)]
struct Window {
    size: u64,
    charged: u64,
    released: u64,
    announced: u64,
}

impl Window {
    fn new(size: u64) -> Window {
        Window { size, charged: 0, released: 0, announced: FIRST_WINDOW }
    }

    fn limit(&self) -> u64 {
        self.released + self.size
    }

    fn is_worth_telling(&self) -> bool {
        self.limit() - self.announced >= self.size / 4
    }
}

impl Incoming {
    /// With windows of these sizes.
    pub(super) fn new(unexpected: u64, expected: u64) -> Incoming {
        Incoming {
            unexpected: Window::new(unexpected),
            expected: Window::new(expected),
            offers: BTreeMap::new(),
            taken: 0,
        }
    }

    fn window(&mut self, kind: Kind) -> &mut Window {
        match kind {
            Kind::Unexpected => &mut self.unexpected,
            Kind::Expected => &mut self.expected,
        }
    }

    /// A message has come.
    ///
    /// # Errors
    /// [`Breach::BeyondWindow`] if it must not have.
    pub(super) fn admit(&mut self, kind: Kind, charge: u64) -> Result<(), Breach> {
        let window = self.window(kind);
        window.charged += charge;
        if window.charged > window.announced {
            return Err(Breach::BeyondWindow { charged: window.charged, limit: window.announced });
        }
        self.taken += 1;
        Ok(())
    }

    /// A message was taken from where it waited.
    pub(super) fn release(&mut self, kind: Kind, charge: u64) {
        self.window(kind).released += charge;
    }

    /// What the peer is to be told of its windows, if it is worth a frame.
    pub(super) fn next_window(&mut self) -> Option<Frame> {
        if !self.unexpected.is_worth_telling() && !self.expected.is_worth_telling() {
            return None;
        }
        let [unexpected, expected] = [&mut self.unexpected, &mut self.expected].map(|window| {
            window.announced = window.limit().max(window.announced);
            window.announced
        });
        Some(Frame::Window { unexpected, expected })
    }

    /// Of what was set aside for the peer's window: what none of its messages hold.
    pub(super) fn free(&self, kind: Kind) -> u64 {
        let window = match kind {
            Kind::Unexpected => &self.unexpected,
            Kind::Expected => &self.expected,
        };
        window.size.saturating_sub(window.charged - window.released)
    }

    /// How many messages have come, in the low 32 bits.
    pub(super) fn taken(&self) -> u32 {
        self.taken as u32
    }

    /// Whether a message of that number is on offer.
    pub(super) fn has_offer(&self, message: u64) -> bool {
        self.offers.contains_key(&message)
    }

    pub(super) fn note(&mut self, message: u64, offer: Offer) {
        self.offers.insert(message, offer);
    }

    /// The receive that a message was granted for.
    pub(super) fn granted(&self, message: u64) -> Option<OperationId> {
        match self.offers.get(&message)? {
            Offer::Granted(operation) => Some(*operation),
            Offer::Waits(_) => None,
        }
    }

    /// An offered message is here, or will not come.
    pub(super) fn forget(&mut self, message: u64) -> Option<Offer> {
        self.offers.remove(&message)
    }

    /// Takes all that is on offer.
    pub(super) fn take_offers(&mut self) -> Vec<Offer> {
        std::mem::take(&mut self.offers).into_values().collect()
    }
}
