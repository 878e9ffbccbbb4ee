//! Traces are often kept compressed.

use std::borrow::Cow;
use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::error::TraceError;

/// A trace that is larger than this, decompressed, is refused: a small file could become arbitrarily large.
pub const MAX_TRACE_BYTES: u64 = 1 << 30;

const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The text of a trace, which may be compressed.
pub(super) fn text(bytes: &[u8]) -> Result<Cow<'_, str>, TraceError> {
    let bytes = if bytes.starts_with(&MAGIC) { Cow::Owned(decompress(bytes)?) } else { Cow::Borrowed(bytes) };
    if bytes.len() as u64 > MAX_TRACE_BYTES {
        return Err(TraceError::TooLarge);
    }
    match bytes {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|error| (bytes, error)),
        Cow::Owned(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Cow::Owned(text)),
            Err(error) => return Err(not_text(error.as_bytes(), error.utf8_error())),
        },
    }
    .map_err(|(bytes, error)| not_text(bytes, error))
}

fn not_text(bytes: &[u8], error: std::str::Utf8Error) -> TraceError {
    let before = &bytes[..error.valid_up_to()];
    TraceError::NotText { line: before.iter().filter(|byte| **byte == b'\n').count() + 1 }
}

fn decompress(bytes: &[u8]) -> Result<Vec<u8>, TraceError> {
    let mut text = Vec::new();
    // One byte more shows that it is too large.
    let mut decoder = MultiGzDecoder::new(bytes).take(MAX_TRACE_BYTES + 1);
    decoder.read_to_end(&mut text).map_err(|error| TraceError::Gzip { cause: error.to_string() })?;
    Ok(text)
}

/// The text of a trace compressed, as BonnMotion wants its `.movements.gz`.
pub fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish()).expect("a Vec takes all bytes")
}
