//! What a shard has done so far, in a file that survives being killed at any moment.
//!
//! ```text
//! chunk:  first item   u64 ┐
//!         items        u64 │ header, little-endian
//!         rows         u64 │
//!         length       u64 ┘
//!         rows column by column, `length` bytes
//!         BLAKE3 of all of that, 32 bytes
//! ```
//!
//! Chunks follow one another by their items. What comes after the last whole one is cut off when the shard goes on.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use crate::columns::{Columns, Schema};
use crate::failure::Failure;

const HEADER: usize = 32;
const HASH: usize = 32;

/// No chunk is longer: a damaged length must not be taken for the size of an allocation.
const LONGEST_CHUNK: u64 = 1 << 30;

/// The journal of one shard, locked against other processes.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    schema: Schema,
    first: u64,
    /// The first item that is not in it.
    pub(crate) next: u64,
}

/// Some items and their rows.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) first: u64,
    pub(crate) items: u64,
    pub(crate) rows: Columns,
}

impl Journal {
    /// Opens or creates the journal of the shard whose first item is `first`, and drops what was half-written.
    pub(crate) fn open(path: &Path, schema: Schema, first: u64) -> Result<Self, Failure> {
        let failed = Failure::at(path);
        let file = File::options().read(true).append(true).create(true).open(path).map_err(&failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(Failure::Locked(path.to_path_buf())),
            Err(std::fs::TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut journal = Self { path: path.to_path_buf(), file, schema, first, next: first };
        let (mut length, mut next) = (0, first);
        journal.read(|chunk, end| {
            (next, length) = (chunk.first + chunk.items, end);
            Ok(())
        })?;
        journal.next = next;
        journal.file.set_len(length).map_err(&failed)?;
        Ok(journal)
    }

    /// Adds the rows of the items that come next, those of each item apart.
    pub(crate) fn append_items(&mut self, items: &[Columns]) -> Result<(), Failure> {
        let mut rows = Columns::new(self.schema);
        items.iter().for_each(|item| rows.append(item));
        if items.is_empty() { Ok(()) } else { self.append(items.len() as u64, &rows) }
    }

    /// Adds the rows of the `items` items that come next.
    fn append(&mut self, items: u64, rows: &Columns) -> Result<(), Failure> {
        let body = rows.to_bytes();
        let mut bytes = Vec::with_capacity(HEADER + body.len() + HASH);
        for number in [self.next, items, rows.rows() as u64, body.len() as u64] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(body);
        let hash = blake3::hash(&bytes);
        bytes.extend(hash.as_bytes());
        self.file.write_all(&bytes).map_err(Failure::at(&self.path))?;
        self.next += items;
        Ok(())
    }

    /// Gives each whole chunk to `take`, with the place in the file where it ends, up to the first that is not whole
    /// or does not follow the one before.
    pub(crate) fn read(
        &mut self,
        mut take: impl FnMut(Chunk, u64) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let failed = Failure::at(&self.path);
        self.file.seek(SeekFrom::Start(0)).map_err(&failed)?;
        let mut reader = BufReader::new(&self.file);
        let mut end = 0;
        let mut expected = self.first;
        while let Some((chunk, length)) = read_chunk(&mut reader, self.schema).map_err(&failed)? {
            if chunk.first != expected {
                break;
            }
            expected += chunk.items;
            end += length;
            take(chunk, end)?;
        }
        Ok(())
    }
}

/// The next chunk and its length in the file; `None` if what is there is no whole chunk.
fn read_chunk(reader: &mut impl Read, schema: Schema) -> std::io::Result<Option<(Chunk, u64)>> {
    let mut bytes = vec![0; HEADER];
    if !fill(reader, &mut bytes)? {
        return Ok(None);
    }
    let (numbers, _) = bytes.as_chunks::<8>();
    let &[first, items, rows, length] = numbers else { return Ok(None) };
    let [first, items, rows, length] = [first, items, rows, length].map(u64::from_le_bytes);
    if length > LONGEST_CHUNK {
        return Ok(None);
    }
    bytes.resize(HEADER + length as usize, 0);
    let mut hash = [0; HASH];
    if !fill(reader, &mut bytes[HEADER..])? || !fill(reader, &mut hash)? {
        return Ok(None);
    }
    let whole = *blake3::hash(&bytes).as_bytes() == hash;
    let rows = Columns::from_bytes(schema, rows as usize, &bytes[HEADER..]).filter(|_| whole);
    Ok(rows.map(|rows| (Chunk { first, items, rows }, (HEADER + HASH) as u64 + length)))
}

/// Fills the buffer; false at the end of the file.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<bool> {
    match reader.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::{Kind, Value};

    const SCHEMA: Schema = &[("item", Kind::Long), ("ror", Kind::Real)];

    fn rows(items: std::ops::Range<i64>) -> Columns {
        let mut rows = Columns::new(SCHEMA);
        items.for_each(|item| rows.push(&[Value::Long(item), Value::Real(item as f64)]));
        rows
    }

    fn items(journal: &mut Journal) -> Vec<(u64, u64)> {
        let mut items = Vec::new();
        let all = journal.read(|chunk, _| {
            items.push((chunk.first, chunk.items));
            Ok(())
        });
        all.unwrap();
        items
    }

    #[test]
    fn wherever_a_journal_is_cut_off_it_goes_on_behind_the_last_whole_chunk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut journal = Journal::open(&path, SCHEMA, 10).unwrap();
        journal.append(2, &rows(10..12)).unwrap();
        let first = std::fs::metadata(&path).unwrap().len();
        journal.append(3, &rows(12..15)).unwrap();
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        for length in 0..whole.len() as u64 {
            std::fs::write(&path, &whole[..length as usize]).unwrap();
            let mut journal = Journal::open(&path, SCHEMA, 10).unwrap();
            let expected = if length < first { 10 } else { 12 };
            assert_eq!(journal.next, expected, "cut at {length}");
            journal.append(1, &rows(20..21)).unwrap();
            assert_eq!(items(&mut journal).last(), Some(&(expected, 1)));
        }
    }

    #[test]
    fn a_damaged_byte_ends_the_journal_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        Journal::open(&path, SCHEMA, 0).unwrap().append(2, &rows(0..2)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for place in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[place] ^= 0x40;
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(Journal::open(&path, SCHEMA, 0).unwrap().next, 0, "byte {place}");
        }
    }

    #[test]
    fn a_journal_belongs_to_one_process_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let held = Journal::open(&path, SCHEMA, 0).unwrap();
        assert!(matches!(Journal::open(&path, SCHEMA, 0), Err(Failure::Locked(_))));
        drop(held);
        assert!(Journal::open(&path, SCHEMA, 0).is_ok());
    }
}
