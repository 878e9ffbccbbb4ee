//! What travels on the one stream of a control connection: messages with their length in front.
//!
//! ```text
//!  0               4                4 + length
//!  +---------------+----------------+
//!  | length, u32BE | message        |
//!  +---------------+----------------+
//! ```
//!
//! The first message of each side is its [`Hello`]; everything after it belongs to the node.

use quinn::{ReadError, ReadExactError, RecvStream, SendStream, WriteError};

use crate::overlay::InstanceId;

/// The longest message in bytes. The longest that the node sends is a circuit set-up of 64 members with long names, a
/// handshake message and a signature, below 5 KB; this leaves room for several times that, and bounds what a neighbour
/// can make this side allocate.
pub(super) const MAX_MESSAGE: usize = 16 * 1024;

const LENGTH_SIZE: usize = 4;

/// Why no further message can be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum MessageError {
    /// The peer announced more than is allowed.
    #[error("a message of {0} bytes was announced where at most {MAX_MESSAGE} are allowed")]
    TooLong(u32),
    /// The stream ended inside a message.
    #[error("the stream ended inside a message")]
    Truncated,
    /// The connection or the stream broke.
    #[error("the stream broke")]
    Broken(#[from] ReadError),
    /// The first message is not a Hello.
    #[error("the first message, of {0} bytes, is no Hello")]
    NoHello(usize),
}

/// Writes one message.
pub(super) async fn write_message(stream: &mut SendStream, message: &[u8]) -> Result<(), WriteError> {
    debug_assert!(message.len() <= MAX_MESSAGE, "the node made a message of {} bytes", message.len());
    stream.write_all(&frame(message)).await
}

/// Reads one message; none if the stream ended before it.
pub(super) async fn read_message(stream: &mut RecvStream) -> Result<Option<Vec<u8>>, MessageError> {
    let mut header = [0; LENGTH_SIZE];
    match stream.read_exact(&mut header).await {
        Ok(()) => {}
        Err(ReadExactError::FinishedEarly(0)) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let mut message = vec![0; announced_length(header)?];
    stream.read_exact(&mut message).await?;
    Ok(Some(message))
}

impl From<ReadExactError> for MessageError {
    fn from(error: ReadExactError) -> MessageError {
        match error {
            ReadExactError::FinishedEarly(_) => MessageError::Truncated,
            ReadExactError::ReadError(error) => MessageError::Broken(error),
        }
    }
}

fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), message].concat()
}

fn announced_length(header: [u8; LENGTH_SIZE]) -> Result<usize, MessageError> {
    let announced = u32::from_be_bytes(header);
    match usize::try_from(announced) {
        Ok(length) if length <= MAX_MESSAGE => Ok(length),
        _ => Err(MessageError::TooLong(announced)),
    }
}

/// The instance id, and the longest name of a link.
const INSTANCE_SIZE: usize = 8;
const MAX_LINK_NAME: usize = 64;

/// Tells the other side which of the member's processes this is and over which link it connects: the instance id,
/// u64BE, and the link's name, nothing if it has none. What the acceptor says of the link counts for nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hello {
    /// The sender's instance.
    pub(super) instance: InstanceId,
    /// The name of the link.
    pub(super) link: String,
}

impl Hello {
    /// As it stands in the message.
    pub(super) fn emit(&self) -> Vec<u8> {
        [&self.instance.0.to_be_bytes(), self.link.as_bytes()].concat()
    }

    /// Reads what [`emit`](Self::emit) wrote.
    pub(super) fn parse(message: &[u8]) -> Result<Hello, MessageError> {
        let no_hello = || MessageError::NoHello(message.len());
        let (instance, link) = message.split_first_chunk::<INSTANCE_SIZE>().ok_or_else(no_hello)?;
        let link =
            str::from_utf8(link).ok().filter(|link| link.len() <= MAX_LINK_NAME).ok_or_else(no_hello)?;
        Ok(Hello { instance: InstanceId(u64::from_be_bytes(*instance)), link: link.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_frame_announces_the_length_of_its_message(message in prop::collection::vec(any::<u8>(), 0..300)) {
            let frame = frame(&message);
            let (header, body) = frame.split_at(LENGTH_SIZE);
            let length = announced_length(header.try_into().expect("four bytes")).expect("short enough");
            prop_assert_eq!((length, body), (message.len(), &message[..]));
        }

        #[test]
        fn no_header_makes_the_reader_allocate_more_than_the_limit(header in any::<[u8; LENGTH_SIZE]>()) {
            match announced_length(header) {
                Ok(length) => prop_assert!(length <= MAX_MESSAGE),
                Err(error) => prop_assert!(matches!(error, MessageError::TooLong(n) if n as usize > MAX_MESSAGE)),
            }
        }

        #[test]
        fn a_hello_is_read_back_and_anything_of_another_form_is_none(
            instance in any::<u64>(),
            link in "[a-zé]{0,30}",
            garbage in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let hello = Hello { instance: InstanceId(instance), link };
            prop_assert_eq!(Hello::parse(&hello.emit()).expect("its own bytes"), hello);
            let is_hello = (8..=72).contains(&garbage.len()) && str::from_utf8(&garbage[8..]).is_ok();
            prop_assert_eq!(Hello::parse(&garbage).is_ok(), is_hello);
        }
    }

    #[test]
    fn the_longest_message_is_allowed_and_one_byte_more_is_not() {
        let longest = u32::try_from(MAX_MESSAGE).expect("small");
        assert_eq!(announced_length(longest.to_be_bytes()).expect("allowed"), MAX_MESSAGE);
        assert!(announced_length((longest + 1).to_be_bytes()).is_err());
    }
}
