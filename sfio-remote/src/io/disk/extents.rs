//! Reading and writing many extents in few calls.

use std::fs::File;
use std::io::IoSlice;
use std::num::NonZeroU64;

use bytes::Bytes;
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, pread, pwritev, retry_on_intr};

use crate::distribution::Extent;

/// Extents with at most this much between them are read in one call, and what lies between is thrown away: reading a
/// page more costs less than another call.
const MAX_GAP_BYTES: u64 = 4_096;

/// Extents that are read in one call lie within this much, so that a list of a few bytes every few kilobytes takes no
/// more memory than that.
const MAX_SPAN_BYTES: u64 = 1 << 20;

/// The page cache keeps a file in pieces of up to this much, each at a multiple of its length, and lets go only of
/// those that lie wholly in what it is asked to forget.
const LARGEST_FOLIO: u64 = 2 << 20;

/// The most memory regions of one call (`IOV_MAX` of Linux).
const MAX_SLICES: usize = 1_024;

/// Lets the page cache forget what it has of `extent`, as far as it is on the disk and nobody else uses it.
pub(super) fn uncache(file: &File, extent: Extent) -> Result<(), Errno> {
    let start = extent.offset() / LARGEST_FOLIO * LARGEST_FOLIO;
    // Beyond the largest offset it is the rest of the file: no length.
    let end = extent.end().checked_next_multiple_of(LARGEST_FOLIO).filter(|end| i64::try_from(*end).is_ok());
    fadvise(file, start, end.and_then(|end| NonZeroU64::new(end - start)), Advice::DontNeed)
}

/// The bytes of ascending `extents`, one behind the other, up to the end of the file.
pub(super) fn read(file: &File, extents: &[Extent]) -> Result<Bytes, Errno> {
    let total: u64 = extents.iter().map(|extent| extent.length()).sum();
    let mut data = vec![0; total as usize];
    let (mut filled, mut span) = (0, Vec::new());
    let mut rest = extents;
    while let Some((near, behind)) = take_near(rest) {
        rest = behind;
        let whole = Extent::between(near[0].offset(), near[near.len() - 1].end());
        let wanted: usize = near.iter().map(|extent| extent.length() as usize).sum();
        let found = if near.len() == 1 {
            read_at(file, whole.offset(), &mut data[filled..filled + wanted])?
        } else {
            span.resize(whole.length() as usize, 0);
            let end = read_at(file, whole.offset(), &mut span)?;
            pick(near, &span[..end], &mut data[filled..filled + wanted])
        };
        filled += found;
        if found < wanted {
            break;
        }
    }
    data.truncate(filled);
    Ok(data.into())
}

/// The first extents as far as one call reads them, and those behind; none if there are none.
fn take_near(extents: &[Extent]) -> Option<(&[Extent], &[Extent])> {
    let start = extents.first()?.offset();
    let is_near = |pair: &&[Extent]| {
        pair[1].offset() - pair[0].end() <= MAX_GAP_BYTES && pair[1].end() - start <= MAX_SPAN_BYTES
    };
    let more = extents.windows(2).take_while(is_near).count();
    Some(extents.split_at(1 + more))
}

/// Copies what `near` wants out of `span`, which begins where they begin; says how much of it there was.
fn pick(near: &[Extent], span: &[u8], into: &mut [u8]) -> usize {
    let mut filled = 0;
    for extent in near {
        let start = ((extent.offset() - near[0].offset()) as usize).min(span.len());
        let end = (start + extent.length() as usize).min(span.len());
        into[filled..filled + end - start].copy_from_slice(&span[start..end]);
        filled += end - start;
    }
    filled
}

/// Fills `buffer`, unless the file ends before; says how far.
fn read_at(file: &File, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        match retry_on_intr(|| pread(file, &mut buffer[filled..], offset + filled as u64))? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// Puts `data`, which is cut anywhere, into ascending `extents` of the same total length.
pub(super) fn write(file: &File, extents: &[Extent], data: &[Bytes]) -> Result<(), Errno> {
    let mut pieces = data.iter().map(|piece| &piece[..]);
    let mut rest: &[u8] = &[];
    let mut slices = Vec::new();
    for extent in extents {
        slices.clear();
        let mut missing = extent.length() as usize;
        while missing > 0 {
            if rest.is_empty() {
                rest = pieces.next().ok_or(Errno::INVAL)?;
            }
            let (slice, behind) = rest.split_at(missing.min(rest.len()));
            slices.push(IoSlice::new(slice));
            (rest, missing) = (behind, missing - slice.len());
        }
        write_at(file, extent.offset(), &mut slices)?;
    }
    Ok(())
}

fn write_at(file: &File, mut offset: u64, mut slices: &mut [IoSlice<'_>]) -> Result<(), Errno> {
    while !slices.is_empty() {
        let some = &slices[..slices.len().min(MAX_SLICES)];
        match retry_on_intr(|| pwritev(file, some, offset))? {
            // Linux writes nothing of something only if there is no room.
            0 => return Err(Errno::NOSPC),
            written => {
                offset += written as u64;
                IoSlice::advance_slices(&mut slices, written);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A byte every 4,097 ones was read together with all that lies between: 64 MiB for a request of a few bytes.
    #[test]
    fn extents_that_are_read_together_lie_within_a_mebibyte() {
        let extents: Vec<Extent> =
            (0..16_384).map(|at| Extent::between(at * 4_097, at * 4_097 + 1)).collect();
        let (mut rest, mut groups) = (&extents[..], Vec::new());
        while let Some((near, behind)) = take_near(rest) {
            groups.push(near[near.len() - 1].end() - near[0].offset());
            rest = behind;
        }
        assert!(groups.len() == 64 && groups.iter().all(|span| *span <= MAX_SPAN_BYTES), "{groups:?}");
        let far = [Extent::between(0, 1 << 30), Extent::between(1 << 31, 1 << 32)];
        assert_eq!(take_near(&far), Some((&far[..1], &far[1..])), "a long one is read by itself");
    }
}
