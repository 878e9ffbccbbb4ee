//! What ranks say to one another.
//!
//! ```text
//! message = version (1 byte) · call (varint) · body (postcard) · payload, up to the end
//! ```
//!
//! Both ends are the same program in the same job, but for a job that mixes builds: hence the version.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::report::Tally;

/// The version of the messages.
const VERSION: u8 = 2;

/// What a message says, but for its payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Body {
    /// Stage 2: which call its sender is in, and which bytes of the file it concerns.
    Announce(Announcement),
    /// Between stages 2 and 3, where domains go to who has most of them: the sender's bytes in each range.
    Shares(Vec<u64>),
    /// Stage 5: the sender's run tables in the receiver's domain, of these lengths; the payload has them, in the format
    /// of that number.
    Runs { lengths: Vec<u32>, format: u8 },
    /// Stage 6 of a write: the receiver is to send what it has before that offset.
    Grant { until: u64 },
    /// Stage 6: the payload has the bytes before that offset, in the format of that number. Of a read: without those in
    /// the ranges that are missing in the file, each a start and an end.
    Data { until: u64, missing: Vec<(u64, u64)>, format: u8 },
    /// The sender has done its part of the call. The payload is what it has to tell of it.
    Ended(Ending),
    /// The sender has extended the subfiles that it keeps.
    Grown { failed: Option<String> },
    /// The sender has given the call up, because of a rank that was lost or that broke the rules.
    GivenUp { because_of: u32, fault: Option<String> },
}

/// Which call a rank is in, and which bytes of the file it concerns there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Announcement {
    /// The hash of all that must be equal on all ranks.
    pub(super) hash: [u8; 16],
    /// The call in words, for people.
    pub(super) words: String,
    /// Where the rank's first byte is in the file.
    pub(super) start: u64,
    /// Where its last byte ends.
    pub(super) end: u64,
    /// How many bytes it has.
    pub(super) bytes: u64,
}

/// How a rank's part of a call has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Ending {
    /// What went wrong, if anything did.
    pub(super) failed: Option<String>,
    /// Where the bytes end that it has written to each subfile; empty if it has written nothing.
    pub(super) ends: Vec<u64>,
    /// What it has counted.
    pub(super) tally: Tally,
}

/// A message that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error(
        "it speaks version {0} of the messages between ranks, this rank {VERSION}: run the same build on all ranks"
    )]
    Version(u8),
    #[error("it sent {0} bytes that are no message")]
    NoMessage(usize),
}

/// A message as it travels. The payload is copied once.
pub(super) fn emit(call: u64, body: &Body, payload: &[u8]) -> Bytes {
    let mut bytes = Vec::with_capacity(64 + payload.len());
    bytes.push(VERSION);
    let mut bytes =
        postcard::to_extend(&(call, body), bytes).expect("plain values in memory can be written down");
    bytes.extend_from_slice(payload);
    bytes.into()
}

/// The call, the body and the payload of a message.
pub(super) fn parse(bytes: &Bytes) -> Result<(u64, Body, Bytes), Malformed> {
    let none = || Malformed::NoMessage(bytes.len());
    let (version, rest) = bytes.split_first().ok_or_else(none)?;
    if *version != VERSION {
        return Err(Malformed::Version(*version));
    }
    let ((call, body), payload) = postcard::take_from_bytes::<(u64, Body)>(rest).map_err(|_| none())?;
    Ok((call, body, bytes.slice(bytes.len() - payload.len()..)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_body() -> impl Strategy<Value = Body> {
        let announcement =
            (any::<[u8; 16]>(), ".{0,20}", any::<[u64; 3]>()).prop_map(|(hash, words, numbers)| {
                let [start, end, bytes] = numbers;
                Body::Announce(Announcement { hash, words, start, end, bytes })
            });
        let ending = (prop::option::of(".{0,20}"), prop::collection::vec(any::<u64>(), 0..5))
            .prop_map(|(failed, ends)| Body::Ended(Ending { failed, ends, tally: Tally::default() }));
        prop_oneof![
            announcement,
            ending,
            prop::collection::vec(any::<u64>(), 0..9).prop_map(Body::Shares),
            (prop::collection::vec(any::<u32>(), 0..9), any::<u8>())
                .prop_map(|(lengths, format)| Body::Runs { lengths, format }),
            any::<u64>().prop_map(|until| Body::Grant { until }),
            (any::<u64>(), prop::collection::vec(any::<(u64, u64)>(), 0..4), any::<u8>())
                .prop_map(|(until, missing, format)| Body::Data { until, missing, format }),
            (any::<u32>(), prop::option::of(".{0,9}"))
                .prop_map(|(because_of, fault)| Body::GivenUp { because_of, fault }),
        ]
    }

    proptest! {
        #[test]
        fn parse_of_emit_is_the_identity(call: u64, body in any_body(), payload in prop::collection::vec(any::<u8>(), 0..50)) {
            let message = emit(call, &body, &payload);
            prop_assert_eq!(parse(&message), Ok((call, body, Bytes::from(payload))));
        }

        #[test]
        fn garbage_is_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let bytes = Bytes::from(bytes);
            if let Ok((_, _, payload)) = parse(&bytes) {
                prop_assert!(payload.len() < bytes.len());
            }
        }
    }

    #[test]
    fn another_version_is_refused_with_both() {
        let mut message = emit(1, &Body::Grant { until: 7 }, b"").to_vec();
        message[0] = 9;
        let error = parse(&message.into()).expect_err("another version").to_string();
        assert!(error.contains("version 9") && error.contains("this rank 2"), "{error}");
    }
}
