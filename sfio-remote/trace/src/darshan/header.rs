//! What stands before the requests: the header, the job, the names of files.

use std::collections::BTreeMap;

use super::bytes::{Words, text};
use super::region::{Compression, Region};
use super::{DarshanError, Job};

const MAGIC: i64 = 6_567_223;

/// The first version with 64 modules, a flag of 64 bits, and times with nanoseconds.
const WIDE: u32 = 341;

/// The job's metadata.
const METADATA: usize = 1_024;

/// Where what is.
#[derive(Debug, Clone)]
pub(super) struct Header {
    /// Hundreds and hundredths: 321 for "3.21".
    pub(super) version: u32,
    pub(super) is_big: bool,
    pub(super) compression: Compression,
    partial: u64,
    job: Region,
    names: Region,
    modules: Vec<(Region, u32)>,
}

impl Header {
    /// Whether a module ran out of memory.
    pub(super) fn is_partial(&self) -> bool {
        self.partial != 0
    }

    /// The region and the version of a module; none if the log has nothing of it.
    pub(super) fn module(&self, number: usize, name: &'static str) -> Option<(Region, u32)> {
        let (region, version) = self.modules.get(number).filter(|(region, _)| region.length > 0)?;
        Some((Region { name, ..*region }, *version))
    }
}

pub(super) fn read(log: &[u8]) -> Result<Header, DarshanError> {
    const WHERE: &str = "header";
    let mut words = Words::new(WHERE, log, false);
    let found = text(words.take(8, "the version")?);
    let version = version(&found).ok_or(DarshanError::Version { found })?;
    let magic = words.i64("the magic number")?;
    let is_big = magic.swap_bytes() == MAGIC;
    if magic != MAGIC && !is_big {
        return Err(DarshanError::Magic { found: magic });
    }
    let mut words = Words::new(WHERE, log, is_big);
    words.take(16, "the magic number")?;
    let compression = match words.take(1, "the compression")?[0] {
        0 => Compression::Zlib,
        1 => Compression::Bzip2,
        2 => Compression::None,
        found => return Err(DarshanError::CompressionKind { found }),
    };
    let (modules, partial) = if version >= WIDE {
        words.take(7, "the compression")?;
        (64, words.u64("the partial flag")?)
    } else {
        words.take(3, "the compression")?;
        (16, words.u32("the partial flag")?.into())
    };
    let region = |words: &mut Words<'_>, name| {
        Ok::<_, DarshanError>(Region { name, offset: words.u64("a map")?, length: words.u64("a map")? })
    };
    let names = region(&mut words, "names")?;
    let maps = (0..modules).map(|_| region(&mut words, "module")).collect::<Result<Vec<_>, _>>()?;
    let versions = (0..modules).map(|_| words.u32("module versions")).collect::<Result<Vec<_>, _>>()?;
    // The version numbers fill whole words of 8 bytes in either width.
    let end = words.offset() as u64;
    let modules: Vec<(Region, u32)> = maps.into_iter().zip(versions).collect();
    let job = job_region(end, &names, &modules, log.len() as u64)?;
    Ok(Header { version, is_big, compression, partial, job, names, modules })
}

/// The job's region goes from the header to whatever comes next: a log without names has none.
fn job_region(
    begin: u64,
    names: &Region,
    modules: &[(Region, u32)],
    size: u64,
) -> Result<Region, DarshanError> {
    let others = modules.iter().map(|(region, _)| region).chain([names]);
    let next = others.filter(|region| region.length > 0).map(|region| region.offset).min().unwrap_or(size);
    match next.checked_sub(begin) {
        Some(length) => Ok(Region { name: "job", offset: begin, length }),
        None => Err(DarshanError::Outside {
            region: "names",
            offset: next,
            length: names.length,
            size: size as usize,
        }),
    }
}

/// "3.21" as 321, if it is one that this reader knows.
fn version(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once('.')?;
    let is_plain = major == "3" && minor.len() == 2 && minor.bytes().all(|byte| byte.is_ascii_digit());
    let version = is_plain.then(|| minor.parse::<u32>().ok())?? + 300;
    (version <= WIDE).then_some(version)
}

pub(super) fn job(log: &[u8], header: &Header) -> Result<Job, DarshanError> {
    let bytes = header.job.read(log, header.compression)?;
    let mut words = Words::new("job", &bytes, header.is_big);
    let user = words.i64("the user")?;
    let time = |words: &mut Words<'_>| {
        let seconds = words.i64("a time")?;
        let nanos = if header.version >= WIDE { words.i64("a time")? } else { 0 };
        let micros = seconds.checked_mul(1_000_000).and_then(|micros| micros.checked_add(nanos / 1_000));
        let micros = micros.and_then(|micros| u64::try_from(micros).ok());
        micros.ok_or_else(|| words.value("a time", seconds, "seconds since 1970"))
    };
    let (start, end) = (time(&mut words)?, time(&mut words)?);
    let (processes, id) = (words.i64("the number of processes")?, words.i64("the job's number")?);
    words.take(METADATA, "the metadata")?;
    let rest = words.take(words.left(), "the executable")?;
    let executable = text(rest).lines().next().unwrap_or_default().to_owned();
    Ok(Job { user, start, end, processes, id, executable })
}

pub(super) fn names(log: &[u8], header: &Header) -> Result<BTreeMap<u64, String>, DarshanError> {
    let bytes = header.names.read(log, header.compression)?;
    let mut words = Words::new("names", &bytes, header.is_big);
    let mut names = BTreeMap::new();
    while !words.is_at_end() {
        let id = words.u64("a record id")?;
        let name = if header.version == 300 {
            let length = words.u32("the length of a name")? as usize;
            text(words.take(length, "a name")?)
        } else {
            words.string("a name")?
        };
        names.entry(id).or_insert(name);
    }
    Ok(names)
}
