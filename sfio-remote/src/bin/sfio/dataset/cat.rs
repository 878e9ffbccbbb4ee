//! `sfio cat`: the content of one file of a generation.

use std::io::Write as _;
use std::sync::Arc;

use sfio_remote::io::replication::{Meter, ReadAhead, Source};
use sfio_remote::replication::{Entry, EntryKind, Piece, TreePath};

use super::ls::{no_entry, parse};
use super::{Choice, Opened, failure, temporary_file};
use crate::exit::{Exit, Failure, OrFail as _};

/// Write a file of a data set to standard output
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  sfio cat --overlay try local:photos notes.txt")]
pub(crate) struct Options {
    #[command(flatten)]
    choice: Choice,

    /// The file
    path: String,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let path = parse(&options.path)?;
    options.choice.work(async |opened| {
        let entry = find(&opened, &path)?;
        let EntryKind::File { pieces, .. } = &entry.kind else {
            return Err(Failure::new(Exit::Input, format!("{path} is no file")));
        };
        let chunks: Vec<_> = entry.chunks().copied().collect();
        let mut chunks = ReadAhead::new(opened.reading.objects(Source::Cache), chunks.into_iter());
        let meter = Arc::<Meter>::default();
        let mut out = std::io::stdout().lock();
        for piece in pieces {
            let written = match piece {
                Piece::Hole(length) => {
                    std::io::copy(&mut std::io::Read::take(std::io::repeat(0), *length), &mut out).map(drop)
                }
                Piece::Chunk(_) => {
                    let next = chunks.next(&meter).await;
                    let next = opened.reading.unless_removed(&opened.generation, next).await;
                    let next = next.map_err(|error| failure(&options.choice.dataset, &error))?;
                    next.map_or(Ok(()), |(_, bytes)| out.write_all(&bytes))
                }
            };
            written.map_err(|error| Failure::output(&error))?;
        }
        out.flush().map_err(|error| Failure::output(&error))
    })
}

/// The file at a path; of a hard link the file that it is.
fn find(opened: &Opened, path: &TreePath) -> Result<Entry, Failure> {
    let number = opened.generation.number;
    let mut path = path.clone();
    loop {
        let mut entries = opened.manifest.entries().or_fail(Exit::Failed, temporary_file())?;
        let entry = loop {
            match entries.read().or_fail(Exit::Integrity, format!("generation {number}"))? {
                None => return Err(no_entry(&path, number)),
                Some(entry) if entry.path == path => break entry,
                Some(_) => {}
            }
        };
        match entry.kind {
            // Links lead to smaller paths, so this ends.
            EntryKind::HardLink { to } => path = to,
            _ => return Ok(entry),
        }
    }
}
