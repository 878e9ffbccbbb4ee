//! `sfio put`: a local file becomes a striped one.
//!
//! ```text
//! claim and write PATH.part on all I/O nodes ─▶ sync ─▶ remove the old subfiles (--replace) ─▶ rename to PATH
//! ```
//!
//! Until the first rename nothing has the file's name. A crash among the renames leaves subfiles missing, which `stat`
//! and `get` name; never do old and new subfiles stand together, since the old ones are durably gone before.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use sfio_remote::client::{Durability, OpenMode};
use sfio_remote::io::{FileError, OpenOptions, StripedFile};
use sfio_remote::name::{FileName, SubfileName};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::task::{JoinError, JoinSet};

use crate::client::{CALLS, CHUNK_BYTES, Identification, Session, Striping, failure, is_dash};
use crate::exit::{Exit, Failure, OrFail as _};
use crate::progress::Progress;

/// Store a file, striped over I/O nodes
///
/// The file appears under its name when all of it is safe on the disks. Of two puts to one name at once, one is refused.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The file to store; - for standard input
    file: PathBuf,

    /// Its subfiles: "member,path;member,path;…", in the order of striping
    name: FileName,

    #[command(flatten)]
    striping: Striping,

    /// Replace a file of that name
    #[arg(long)]
    replace: bool,

    #[command(flatten)]
    identification: Identification,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let part = part_name(&options.name)?;
    // Until all of them are on the disks, the parts are ours to remove. Then they may be all there is of the file.
    let unfinished = Cell::new(false);
    let put = async |session: &Session| put(session, options, &part, &unfinished).await;
    options.identification.work_or_clean_up(put, async |session| {
        if unfinished.get() {
            // What cannot be removed is overwritten by the next put.
            let _ = session.client().remove(&part, Durability::None).await;
        }
    })
}

async fn put(
    session: &Session,
    options: &Options,
    part: &FileName,
    unfinished: &Cell<bool>,
) -> Result<(), Failure> {
    let (name, client) = (&options.name, session.client());
    let (source, size) = open(&options.file).await?;
    let is_there = session.subfile_sizes(name).await?.iter().any(Option::is_some);
    if is_there && !options.replace {
        return Err(Failure::new(Exit::Input, format!("{name} exists already; --replace replaces it")));
    }
    let progress = Progress::new("storing", size);
    let unit = options.striping.stripe_unit;
    unfinished.set(true);
    let part_options = OpenOptions::new().mode(OpenMode::Claim).stripe_unit(unit);
    let file = Arc::new(part_options.open(client, part).await.map_err(told)?);
    write(source, &file, &progress).await?;
    progress.phase("waiting for the disks");
    file.sync_all().await.map_err(told)?;
    unfinished.set(false);
    if is_there {
        client.remove(name, Durability::OnEveryCall).await.map_err(told)?;
    }
    client.rename(part, name, false, Durability::OnEveryCall).await.map_err(told)?;
    progress.finish("stored");
    Ok(())
}

fn told(error: FileError) -> Failure {
    failure(&error)
}

/// The name under which a file is written until all of it is there.
fn part_name(name: &FileName) -> Result<FileName, Failure> {
    let part =
        |subfile: &SubfileName| SubfileName::new(subfile.member(), &format!("{}.part", subfile.path()));
    let parts: Vec<SubfileName> =
        name.subfiles().iter().map(part).collect::<Result<_, _>>().or_fail(Exit::Usage, name)?;
    if let Some(taken) = parts.iter().find(|part| name.subfiles().contains(part)) {
        let message =
            format!("{name}: {taken} is needed for a subfile while it is written; choose other paths");
        return Err(Failure::new(Exit::Usage, message));
    }
    FileName::new(parts).or_fail(Exit::Usage, name)
}

type Source = Box<dyn AsyncRead + Unpin + Send>;

/// Opens what is to be stored; its size, if it has one.
async fn open(path: &Path) -> Result<(Source, Option<u64>), Failure> {
    if is_dash(path) {
        return Ok((Box::new(tokio::io::stdin()), None));
    }
    let place = path.display();
    let mut file = tokio::fs::File::open(path).await.or_fail(Exit::Input, place)?;
    file.set_max_buf_size(CHUNK_BYTES);
    let metadata = file.metadata().await.or_fail(Exit::Input, path.display())?;
    if metadata.is_dir() {
        return Err(Failure::new(Exit::Input, format!("{} is a directory; expected a file", path.display())));
    }
    let size = metadata.is_file().then_some(metadata.len());
    Ok((Box::new(file), size))
}

/// Writes all of `source`, several chunks at once.
async fn write(mut source: Source, file: &Arc<StripedFile>, progress: &Progress) -> Result<(), Failure> {
    let mut writes = JoinSet::new();
    let mut offset = 0;
    loop {
        let chunk = next_chunk(&mut source).await.or_fail(Exit::Input, "reading what is to be stored")?;
        if chunk.is_empty() {
            break;
        }
        if writes.len() >= CALLS {
            settle(writes.join_next().await, progress)?;
        }
        let (file, length) = (Arc::clone(file), chunk.len() as u64);
        writes.spawn(async move { file.write_at(offset, chunk).await.map(|()| length) });
        offset += length;
    }
    while !writes.is_empty() {
        settle(writes.join_next().await, progress)?;
    }
    Ok(())
}

type Written = Result<Result<u64, FileError>, JoinError>;

fn settle(written: Option<Written>, progress: &Progress) -> Result<(), Failure> {
    let Some(written) = written else { return Ok(()) };
    progress.advance(written.or_fail(Exit::Failed, "a write")?.map_err(told)?);
    Ok(())
}

/// The next chunk, full unless the source ends; empty at the end.
async fn next_chunk(source: &mut Source) -> std::io::Result<Bytes> {
    let mut chunk = BytesMut::with_capacity(CHUNK_BYTES);
    while chunk.len() < CHUNK_BYTES {
        let room = CHUNK_BYTES - chunk.len();
        if (&mut *source).take(room as u64).read_buf(&mut chunk).await? == 0 {
            break;
        }
    }
    Ok(chunk.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_stands_beside_its_subfile() {
        let part = part_name(&"io1,/a/x; io2, y".parse().expect("a right name")).expect("it can be");
        assert_eq!(part.to_string(), "io1,a/x.part;io2,y.part;");
    }

    #[test]
    fn a_subfile_in_the_place_of_anothers_part_is_refused() {
        let name = "io1,x;io1,x.part".parse().expect("a right name");
        let refusal = part_name(&name).expect_err("one would overwrite the other");
        assert!(refusal.to_string().contains("io1,x.part is needed"), "{refusal}");
    }

    #[tokio::test]
    async fn chunks_are_full_until_the_source_ends() {
        let bytes: &'static [u8] = vec![7; CHUNK_BYTES + 3].leak();
        let mut source: Source = Box::new(bytes);
        let mut lengths = Vec::new();
        for _ in 0..3 {
            lengths.push(next_chunk(&mut source).await.expect("memory does not fail").len());
        }
        assert_eq!(lengths, [CHUNK_BYTES, 3, 0]);
    }
}
