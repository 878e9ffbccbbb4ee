//! Regions of a log, decompressed.

use std::io::{self, Read};

use super::DarshanError;

/// How a log is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    Zlib,
    Bzip2,
    None,
}

/// A DXT buffer has 4 MiB for each rank by default; more than this is no log, but an attack.
const LIMIT: usize = 1 << 30;

/// A part of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) name: &'static str,
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl Region {
    /// Its bytes, decompressed.
    pub(super) fn read(&self, log: &[u8], compression: Compression) -> Result<Vec<u8>, DarshanError> {
        let bytes = self.bytes(log)?;
        let mut out = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let offset = log.len().min(self.offset as usize + bytes.len() - rest.len());
            let before = rest.len();
            let done = match compression {
                Compression::None => io::copy(&mut rest, &mut out).map(|_| ()),
                Compression::Zlib => stream(flate2::bufread::ZlibDecoder::new(&mut rest), &mut out),
                Compression::Bzip2 => stream(bzip2::bufread::BzDecoder::new(&mut rest), &mut out),
            };
            done.map_err(|error| DarshanError::Compression { region: self.name, offset, error })?;
            if out.len() > LIMIT {
                return Err(DarshanError::TooLarge { region: self.name, limit: LIMIT });
            }
            if rest.len() == before {
                let error = io::Error::other("an empty stream");
                return Err(DarshanError::Compression { region: self.name, offset, error });
            }
        }
        Ok(out)
    }

    fn bytes<'a>(&self, log: &'a [u8]) -> Result<&'a [u8], DarshanError> {
        let range = usize::try_from(self.offset).ok().zip(usize::try_from(self.length).ok());
        let end = range.and_then(|(offset, length)| Some((offset, offset.checked_add(length)?)));
        let bytes = end.and_then(|(offset, end)| log.get(offset..end));
        let (region, offset, length, size) = (self.name, self.offset, self.length, log.len());
        bytes.ok_or(DarshanError::Outside { region, offset, length, size })
    }
}

/// Decompresses one stream, up to one byte more than there may be.
fn stream(decoder: impl Read, out: &mut Vec<u8>) -> io::Result<()> {
    let room = (LIMIT + 1).saturating_sub(out.len());
    decoder.take(room as u64).read_to_end(out).map(|_| ())
}
