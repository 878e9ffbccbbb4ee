//! Files that change while they are read. The channel to whoever takes the chunks holds one: so the cutter stands in
//! the middle of a file while the test changes it.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use super::super::carrying::Carrying;
use super::super::packer::ChunkPacker;
use super::super::placer::NewChunk;
use super::super::spool::SpoolWriter;
use super::super::walk::{Attributes, Walk};
use super::*;
use crate::io::replication::Filter;
use crate::io::threads::Output;
use crate::replication::{ChunkIndex, Compression, Opener};

/// More than the cutter can have read before somebody takes the second chunk: at most 1 MiB each.
const LENGTH: usize = 8 << 20;

fn noise(length: usize, seed: u8) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut bytes);
    bytes
}

/// A tree with a large file and one behind it.
fn tree() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("large"), noise(LENGTH, 1)).expect("a file");
    fs::write(folder.path().join("other"), b"all is well").expect("a file");
    folder
}

/// Plans that all files of a tree are read, of which each was there before if `was_there`.
fn plan(top: &Path, was_there: bool) -> Spool<Planned> {
    let mut planned = SpoolWriter::new().expect("a spool");
    let filter = Filter::default();
    for entry in Walk::new(top, &filter, Attributes::Ignored).expect("a folder") {
        let entry = entry.expect("readable");
        let was_empty = EntryKind::File { size: 0, pieces: Vec::new() };
        let old = was_there.then(|| Entry { kind: was_empty, ..entry.clone() });
        let change = if was_there { Change::Changed } else { Change::New };
        let is_link = matches!(entry.kind, EntryKind::HardLink { .. });
        planned
            .push(&match is_link {
                true => Planned::Link { entry, old: None, change },
                false => Planned::Read { entry, old, change },
            })
            .expect("spooled");
    }
    planned.finish().expect("spooled")
}

/// Cuts all files of a tree; `meddle` is called with the file "large" and the count of chunks taken before, whenever
/// one is taken. Gives what is stored, too.
fn cut(top: &Path, mut meddle: impl FnMut(&Path, usize)) -> (Cutting, Vec<u8>) {
    cut_as_planned(top, plan(top, true), &mut meddle)
}

/// What cuts files of a tree that no data set has anything of.
pub(in super::super) fn cutter_of(
    top: &Path,
    compression: Compression,
    to: tokio::sync::mpsc::Sender<NewChunk>,
) -> Cutter {
    Cutter {
        tree: Tree::open(top).expect("a folder"),
        graft: None,
        placer: Placer::new(
            ChunkIndex::default(),
            ChunkPacker::new(compression, Carrying::default()),
            0,
            Wounds::default(),
            Output::Task(to),
            Arc::default(),
        ),
        record: None,
        meter: Arc::default(),
    }
}

fn cut_as_planned(
    top: &Path,
    planned: Spool<Planned>,
    meddle: &mut dyn FnMut(&Path, usize),
) -> (Cutting, Vec<u8>) {
    cut_and_pack(top, planned, Compression::Never, meddle)
}

fn cut_and_pack(
    top: &Path,
    planned: Spool<Planned>,
    compression: Compression,
    meddle: &mut dyn FnMut(&Path, usize),
) -> (Cutting, Vec<u8>) {
    let (to, mut chunks) = tokio::sync::mpsc::channel(1);
    let cutter = cutter_of(top, compression, to);
    let prefetch = Prefetch::start(0, top, &planned).expect("no threads");
    let cutting = std::thread::spawn(move || cutter.run(&planned, None, &prefetch));
    let (mut stored, mut taken) = (Vec::new(), 0);
    while let Some(NewChunk { bytes, .. }) = chunks.blocking_recv() {
        stored.extend_from_slice(&bytes);
        meddle(&top.join("large"), taken);
        taken += 1;
    }
    let cutting = cutting.join().expect("no panic").expect("readable").expect("all chunks were taken");
    (cutting, stored)
}

/// The content of the file "large" in what was cut.
fn large(cutting: &Cutting, stored: &[u8]) -> Vec<u8> {
    let mut entries = cutting.manifest.entries().expect("readable");
    let entry = entries.read().expect("an entry").expect("the first one");
    assert_eq!(entry.path.to_string(), "large");
    let content = entry.chunks().flat_map(|chunk| {
        let from = chunk.offset as usize;
        stored[from..from + chunk.stored as usize].to_vec()
    });
    let content: Vec<u8> = content.collect();
    assert_eq!(entry.size(), content.len() as u64);
    content
}

fn for_writing(path: &Path) -> File {
    OpenOptions::new().write(true).open(path).expect("it is there")
}

fn append(path: &Path) {
    let mut file = OpenOptions::new().append(true).open(path).expect("it is there");
    file.write_all(b"more").expect("written");
}

fn overwrite(path: &Path) {
    let file = for_writing(path);
    file.write_all_at(b"early", 0).expect("written");
    file.write_all_at(b"late", LENGTH as u64 - 4).expect("written");
}

#[test]
fn a_file_that_changes_once_while_it_is_read_is_read_anew() {
    let shrink = |path: &Path| for_writing(path).set_len(LENGTH as u64 / 2).expect("shorter");
    let disguise = |path: &Path| {
        let modified = fs::metadata(path).expect("it is there").modified().expect("a time");
        overwrite(path);
        for_writing(path).set_modified(modified).expect("set back");
    };
    for change in [append as fn(&Path), shrink, overwrite, disguise] {
        let tree = tree();
        let (cutting, stored) = cut(tree.path(), |path, taken| {
            if taken == 1 {
                change(path);
            }
        });
        assert_eq!(cutting.problems, []);
        let now = fs::read(tree.path().join("large")).expect("readable");
        assert!(large(&cutting, &stored) == now, "neither what it was nor what it is");
    }
}

/// Changes every chunk.
fn scribble(path: &Path, number: usize) {
    let file = for_writing(path);
    for offset in (0..LENGTH).step_by(FILE_CHUNKS.0) {
        file.write_all_at(&number.to_le_bytes(), offset as u64).expect("written");
    }
}

#[test]
fn a_file_that_goes_on_changing_is_named_and_stays_as_it_was() {
    let tree = tree();
    let (cutting, _) = cut(tree.path(), scribble);
    let problems: Vec<String> = cutting.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems, ["large: it changes while it is read"]);
    let mut entries = cutting.manifest.entries().expect("readable");
    let mut next = || entries.read().expect("an entry").expect("one more");
    assert_eq!((next().chunks().count(), next().chunks().count()), (0, 1), "the old one, and the other one");
}

#[test]
fn times_of_a_file_that_has_just_changed_are_not_trusted() {
    let changed = Timestamp { seconds: 1_000, nanoseconds: 0 };
    let modified = Timestamp { seconds: 900, nanoseconds: 1 };
    let after = |age| unsettled(modified, changed, UNIX_EPOCH + Duration::from_secs(1_000) + age);
    assert_eq!(after(Duration::ZERO), SETTLING);
    assert_eq!(after(SETTLING / 2), SETTLING / 2);
    assert_eq!(after(SETTLING), Duration::ZERO);
    let now = UNIX_EPOCH + Duration::from_secs(999);
    assert_eq!(
        unsettled(modified, changed, now),
        Duration::ZERO,
        "the clock of a file server is ahead of ours"
    );
    let before_1970 = Timestamp { seconds: -5, nanoseconds: 0 };
    assert_eq!(unsettled(modified, before_1970, now), Duration::ZERO);
}

/// On a file system with times of whole seconds, a change within the second in which a file was read was not seen.
#[test]
fn times_of_whole_seconds_are_trusted_later() {
    let second = Timestamp { seconds: 1_000, nanoseconds: 0 };
    let after = |age| unsettled(second, second, UNIX_EPOCH + Duration::from_secs(1_000) + age);
    assert_eq!(after(SETTLING), SETTLING_OF_WHOLE_SECONDS - SETTLING);
    assert_eq!(after(SETTLING_OF_WHOLE_SECONDS), Duration::ZERO);
}

/// Such a link once led to nothing, and whoever fetched the generation was told that it cannot be restored.
#[test]
fn names_of_a_file_that_vanished_are_left_out_with_it() {
    let tree = tree();
    let name = |name: &str| tree.path().join(name);
    fs::hard_link(name("large"), name("other name")).expect("a link");
    let planned = plan(tree.path(), false);
    fs::remove_file(name("large")).expect("it was there");
    let (cutting, _) = cut_as_planned(tree.path(), planned, &mut |_, _| {});
    let problems: Vec<String> = cutting.problems.iter().map(ToString::to_string).collect();
    let of_the_name = "other name: it is a name of large, which could not be read";
    assert_eq!(problems, ["large: No such file or directory", of_the_name]);
    assert_eq!(cutting.entries, 1);
}

/// Entries wait for the places of their chunks, which are packed on other threads: none is lost, none overtakes
/// another, and a content that comes twice before it has a place is stored once.
#[test]
fn entries_are_written_in_order_and_name_where_their_chunks_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let content =
        |number: usize| format!("{} is the number; ", number % 700).repeat(1 + number % 90).into_bytes();
    for number in 0..2_000 {
        fs::write(folder.path().join(format!("{number:04}")), content(number)).expect("a file");
    }
    fs::write(folder.path().join("empty"), b"").expect("a file");
    let compression = "zstd:3".parse().expect("a codec");
    let (cutting, stored) =
        cut_and_pack(folder.path(), plan(folder.path(), false), compression, &mut |_, _| {});
    assert_eq!((cutting.entries, cutting.problems), (2_001, Vec::new()));
    let (mut entries, mut opener) = (cutting.manifest.entries().expect("readable"), Opener::default());
    let mut places = BTreeSet::new();
    for number in 0..2_000 {
        let entry = entries.read().expect("an entry").expect("one more");
        assert_eq!(entry.path.to_string(), format!("{number:04}"));
        let chunks: Vec<ChunkRef> = entry.chunks().copied().collect();
        let [chunk] = chunks[..] else { panic!("one chunk is enough: {chunks:?}") };
        assert!(chunk.is_sound(), "{chunk:?}");
        let bytes = Bytes::copy_from_slice(&stored[opener.start(&chunk) as usize..chunk.end() as usize]);
        assert_eq!(opener.open(&chunk, bytes), Ok(Bytes::from(content(number))));
        places.insert(chunk.offset);
    }
    let distinct: BTreeSet<Vec<u8>> = (0..2_000).map(content).collect();
    assert_eq!(places.len(), distinct.len());
    let kept = cutting.manifest.chunks().iter().chain(&cutting.index);
    let (stored_count, listed) = (cutting.stored.iter().count(), kept.count());
    assert_eq!(stored_count, distinct.len() + listed);
}
