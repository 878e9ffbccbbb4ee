//! The requests of a log: the modules DXT_POSIX and DXT_MPIIO.

use super::bytes::{Words, text};
use super::header::Header;
use super::{DarshanError, Segment, Trace};

/// The two modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Module {
    Posix,
    MpiIo,
}

const HOST: usize = 64;

impl Module {
    fn name(self) -> &'static str {
        match self {
            Module::Posix => "DXT_POSIX",
            Module::MpiIo => "DXT_MPIIO",
        }
    }

    /// Its number: 3.20 put H5D before it, 3.41 the variables of PnetCDF.
    fn number(self, version: u32) -> usize {
        let posix = match version {
            341.. => 10,
            320.. => 9,
            _ => 8,
        };
        if self == Module::Posix { posix } else { posix + 1 }
    }

    /// The version since which each segment names its thread; none is newer.
    fn newest(self) -> u32 {
        if self == Module::Posix { 2 } else { 3 }
    }
}

/// What a segment of a module's version has.
#[derive(Debug, Clone, Copy)]
struct Segments {
    /// Bytes of each.
    size: usize,
    /// Whether its offset means something: the first version for MPI-IO left it out.
    has_offset: bool,
}

pub(super) fn read(log: &[u8], header: &Header, module: Module) -> Result<Vec<Trace>, DarshanError> {
    let Some((region, version)) = header.module(module.number(header.version), module.name()) else {
        return Ok(Vec::new());
    };
    let bytes = region.read(log, header.compression)?;
    let mut words = Words::new(module.name(), &bytes, header.is_big);
    if !(1..=module.newest()).contains(&version) {
        let expected = if module == Module::Posix { "1 or 2" } else { "1, 2 or 3" };
        return Err(words.value("the version of the module", version, expected));
    }
    let size = if version == module.newest() { 40 } else { 32 };
    let segments = Segments { size, has_offset: module == Module::Posix || version > 1 };
    let mut traces = Vec::new();
    while !words.is_at_end() {
        traces.push(trace(&mut words, segments)?);
    }
    Ok(traces)
}

fn trace(words: &mut Words<'_>, segments: Segments) -> Result<Trace, DarshanError> {
    let id = words.u64("a record")?;
    let rank = words.i64("a record")?;
    words.i64("a record")?;
    let host = text(words.take(HOST, "a record")?);
    let writes = count(words, segments.size)?;
    let reads = count(words, segments.size)?;
    let mut part = |count| (0..count).map(|_| read_segment(words, segments)).collect::<Result<Vec<_>, _>>();
    Ok(Trace { id, rank, host, writes: part(writes)?, reads: part(reads)? })
}

/// How many segments there are; never more than there is room for.
fn count(words: &mut Words<'_>, segment: usize) -> Result<usize, DarshanError> {
    let count = words.i64("a record")?;
    let room = words.left() / segment;
    match usize::try_from(count) {
        Ok(number) if number <= room => Ok(number),
        Ok(number) => {
            let needed = number.saturating_mul(segment) - words.left().min(number.saturating_mul(segment));
            let (region, offset) = words.place();
            Err(DarshanError::Truncated { region, offset, what: "the segments of a record", needed })
        }
        Err(_) => Err(words.value("a count of segments", count, "0 or more")),
    }
}

fn read_segment(words: &mut Words<'_>, segments: Segments) -> Result<Segment, DarshanError> {
    let (offset, length) = (words.i64("a segment")?, words.i64("a segment")?);
    let (start, end) = (words.f64("a segment")?, words.f64("a segment")?);
    words.take(segments.size - 32, "a segment")?;
    if length < 0 || offset.checked_add(length).is_none() {
        return Err(words.value("the length of a segment", length, "0 or more, within 2^63 bytes"));
    }
    if !start.is_finite() || !end.is_finite() {
        return Err(words.value("the time of a segment", start, "seconds since the job began"));
    }
    Ok(Segment { offset: if segments.has_offset { offset } else { -1 }, length, start, end })
}
