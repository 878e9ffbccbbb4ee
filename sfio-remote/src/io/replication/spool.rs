//! Series that are too long for memory: in a temporary file, written once, read as often as needed.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write as _};
use std::marker::PhantomData;
use std::os::unix::fs::FileExt as _;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::replication::{ChunkRef, EntryReader, EntryWriter};

/// A series under construction.
#[derive(Debug)]
pub(super) struct SpoolWriter<T> {
    to: BufWriter<File>,
    items: PhantomData<fn(&T)>,
}

/// A series.
#[derive(Debug)]
pub(super) struct Spool<T> {
    file: File,
    items: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> SpoolWriter<T> {
    pub(super) fn new() -> io::Result<SpoolWriter<T>> {
        Ok(SpoolWriter { to: BufWriter::new(tempfile::tempfile()?), items: PhantomData })
    }

    pub(super) fn push(&mut self, item: &T) -> io::Result<()> {
        let body = postcard::to_stdvec(item).map_err(io::Error::other)?;
        self.to.write_all(&(body.len() as u32).to_le_bytes())?;
        self.to.write_all(&body)
    }

    pub(super) fn finish(self) -> io::Result<Spool<T>> {
        Ok(Spool { file: self.to.into_inner().map_err(io::IntoInnerError::into_error)?, items: PhantomData })
    }
}

impl<T: DeserializeOwned> Spool<T> {
    /// From the beginning; several may read at once.
    pub(super) fn read(&self) -> io::Result<impl Iterator<Item = io::Result<T>> + use<T>> {
        let mut from = BufReader::new(FromStart::new(&self.file)?);
        Ok(std::iter::from_fn(move || next(&mut from).transpose()))
    }
}

fn next<T: DeserializeOwned>(from: &mut impl io::Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    if from.read(&mut length[..1])? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut length[1..])?;
    let mut body = vec![0; u32::from_le_bytes(length) as usize];
    from.read_exact(&mut body)?;
    postcard::from_bytes(&body).map(Some).map_err(io::Error::other)
}

/// A manifest in a file of its own.
#[derive(Debug)]
pub struct ManifestFile {
    file: File,
    chunks: Vec<ChunkRef>,
}

impl ManifestFile {
    /// One without entries.
    ///
    /// # Errors
    /// If there can be no temporary file.
    pub fn empty() -> io::Result<ManifestFile> {
        Ok(ManifestFile::new(tempfile::tempfile()?, Vec::new()))
    }

    pub(super) fn writer() -> io::Result<EntryWriter<BufWriter<File>>> {
        Ok(EntryWriter::new(BufWriter::new(tempfile::tempfile()?)))
    }

    /// What was written; nobody knows yet in which chunks it is going to be kept.
    pub(super) fn written(writer: EntryWriter<BufWriter<File>>) -> io::Result<ManifestFile> {
        let file = writer.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(ManifestFile::new(file, Vec::new()))
    }

    /// A manifest that is kept in these chunks.
    pub(super) fn new(file: File, chunks: Vec<ChunkRef>) -> ManifestFile {
        ManifestFile { file, chunks }
    }

    /// The same, kept in these chunks.
    pub(super) fn kept_in(self, chunks: Vec<ChunkRef>) -> ManifestFile {
        ManifestFile { chunks, ..self }
    }

    /// The chunks that it consists of on the site.
    pub(super) fn chunks(&self) -> &[ChunkRef] {
        &self.chunks
    }

    /// Its entries, from the first one on; several may read at once.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn entries(&self) -> io::Result<EntryReader<impl io::Read + use<>>> {
        Ok(EntryReader::new(self.bytes()?))
    }

    pub(super) fn bytes(&self) -> io::Result<impl io::Read + use<>> {
        Ok(BufReader::with_capacity(64 << 10, FromStart::new(&self.file)?))
    }
}

/// Reads a file without moving its position, which others share.
struct FromStart {
    file: File,
    offset: u64,
}

impl FromStart {
    fn new(file: &File) -> io::Result<FromStart> {
        Ok(FromStart { file: file.try_clone()?, offset: 0 })
    }
}

impl io::Read for FromStart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}
