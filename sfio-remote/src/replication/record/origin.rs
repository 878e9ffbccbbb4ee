//! Where generations come from, for people to read.
//!
//! Records did not have that at first: it stands behind the rest of the body, and a body without it is one of which no
//! origin is known.

use serde::{Deserialize, Serialize};

use super::{MAX_LIST, MAX_NAME_BYTES, Record, Succession};
use crate::replication::bounded;

/// The length of a tag or of a host's name, in bytes.
pub const MAX_ORIGIN_TEXT_BYTES: usize = 255;

/// Where a generation comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The number of the generation.
    pub generation: u64,
    /// The member that sent it, which is the signer of the record that has added it.
    pub member: String,
    /// The machine that sent it, as that calls itself; empty if it does not say.
    pub host: String,
    /// What the sender calls the generation; empty if it has not given it a name.
    pub tag: String,
}

/// The list as it stands behind a body.
#[derive(Serialize, Deserialize)]
struct Origins(#[serde(deserialize_with = "bounded::list::<MAX_LIST, _, _>")] Vec<Origin>);

/// Reads what stands behind a body; none if it is something else.
pub(super) fn parse(bytes: &[u8]) -> Option<Vec<Origin>> {
    if bytes.is_empty() {
        return Some(Vec::new());
    }
    let (Origins(origins), rest) = postcard::take_from_bytes(bytes).ok()?;
    // An empty list has another form: nothing.
    (rest.is_empty() && !origins.is_empty()).then_some(origins)
}

/// Writes what stands behind a body.
pub(super) fn write(origins: &[Origin], bytes: Vec<u8>) -> Vec<u8> {
    match origins.is_empty() {
        true => bytes,
        false => postcard::to_extend(origins, bytes).expect("plain values in memory can be written down"),
    }
}

/// Whether the origins are those of the record's generations, and can be printed in a line.
pub(super) fn are_sound(origins: &[Origin], record: &Record) -> bool {
    let is_text = |text: &str| text.len() <= MAX_ORIGIN_TEXT_BYTES && !text.contains(char::is_control);
    origins.is_sorted_by(|one, next| one.generation < next.generation)
        && origins.iter().all(|origin| {
            record.generation(origin.generation).is_some()
                && (1..=MAX_NAME_BYTES).contains(&origin.member.len())
                && is_text(&origin.host)
                && is_text(&origin.tag)
        })
}

impl Succession<'_> {
    /// Whether origins that were known stay what they were, and new ones name the signer.
    pub(super) fn has_true_origins(self) -> bool {
        let Succession { before, after } = self;
        after.generations.iter().all(|one| {
            let origin = after.origin(one.number);
            match before.generation(one.number) {
                Some(_) => origin == before.origin(one.number),
                None => origin.is_none_or(|origin| origin.member == after.signer.member),
            }
        })
    }
}
