//! The control messages between neighbours that concern their link alone.
//!
//! ```text
//! 5 | label (64) | hop key (128)     greeting key, from the acceptor of the connection to the dialler
//! 6                                  greeted: the greeting has arrived, its source address is known
//! 7 | number (48)                    challenge answer: what came to the address that the greeting came from
//! ```

use super::hop::Label;
use super::{Malformed, Reader, Writer, control_type};

/// With what the dialler greets the acceptor on the data plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GreetingKey {
    pub(crate) label: Label,
    pub(crate) hop_key: [u8; 16],
}

/// What a challenge said that came to the address from which we had greeted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChallengeAnswer {
    pub(crate) number: u64,
}

impl ChallengeAnswer {
    pub(crate) fn emit(&self) -> Vec<u8> {
        let mut out = vec![control_type::CHALLENGE_ANSWER];
        out.put_u48(self.number);
        out
    }

    /// Reads what follows the type byte.
    pub(crate) fn parse(body: &[u8]) -> Result<ChallengeAnswer, Malformed> {
        let mut reader = Reader::new(body);
        let number = reader.u48("challenge answer")?;
        reader.finish("challenge answer")?;
        Ok(ChallengeAnswer { number })
    }
}

impl GreetingKey {
    pub(crate) fn emit(&self) -> Vec<u8> {
        let mut out = vec![control_type::GREETING_KEY];
        out.put_u64(self.label.0);
        out.put_bytes(&self.hop_key);
        out
    }

    /// Reads what follows the type byte.
    pub(crate) fn parse(body: &[u8]) -> Result<GreetingKey, Malformed> {
        let mut reader = Reader::new(body);
        let label = Label(reader.u64("greeting label")?);
        let hop_key = reader.array("greeting key")?;
        reader.finish("greeting key")?;
        Ok(GreetingKey { label, hop_key })
    }
}
