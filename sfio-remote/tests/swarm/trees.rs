//! Trees to be sent, made once for all seeds; and what a tree looks like.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, UNIX_EPOCH};

use sfio_remote::sim::Dice;
use tempfile::TempDir;

/// How many trees there are.
pub(crate) const TREES: usize = 40;
/// Contents that files may have; several files have the same one.
const CONTENTS: usize = 14;
/// Names that files may have.
const NAMES: [&str; 7] = ["a", "b", "c", "d/a", "d/b", "d/e/a", "f"];

/// Everything about a tree that counts: kind, mode, time and content by path.
pub(crate) type Picture = BTreeMap<String, (u32, i64, Option<blake3::Hash>)>;

/// All trees that runs send.
#[derive(Debug)]
pub(crate) struct Trees {
    _folder: TempDir,
    trees: Vec<(PathBuf, Picture)>,
}

/// In memory, where that is possible: what is restored is synced, and that takes longer than everything else.
pub(crate) fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.or_else(|_| tempfile::tempdir()).expect("a folder")
}

impl Trees {
    /// They are the same for all seeds, and old enough that nobody waits for the clock of the file system.
    pub(crate) fn all() -> &'static Trees {
        static TREES: OnceLock<Trees> = OnceLock::new();
        TREES.get_or_init(Trees::make)
    }

    fn make() -> Trees {
        let folder = folder();
        let mut dice = Dice::new(19);
        let trees = (0..self::TREES).map(|number| {
            let root = folder.path().join(number.to_string());
            fill(&root, number, &mut dice);
            let picture = picture(&root);
            (root, picture)
        });
        let trees = trees.collect();
        // The cutter waits until a file that has just been made cannot change without its times telling.
        std::thread::sleep(Duration::from_millis(40));
        Trees { trees, _folder: folder }
    }

    pub(crate) fn path(&self, tree: usize) -> &Path {
        &self.trees[tree].0
    }

    pub(crate) fn picture(&self, tree: usize) -> &Picture {
        &self.trees[tree].1
    }
}

fn fill(root: &Path, number: usize, dice: &mut Dice) {
    for folder in ["", "d", "d/e"] {
        fs::create_dir_all(root.join(folder)).expect("a folder");
    }
    let mut files: Vec<&str> = Vec::new();
    for name in NAMES {
        if !files.is_empty() && dice.one_in(4) {
            let first = files[dice.below(files.len())];
            fs::hard_link(root.join(first), root.join(name)).expect("a link");
        } else if !dice.one_in(4) {
            files.push(name);
            let content = dice.below(CONTENTS);
            let file = File::create(root.join(name)).expect("a file");
            fs::write(root.join(name), content_of(content)).expect("written");
            set_time(&file, 1_000_000 + content as u64);
        }
    }
    // Some trees are larger than what one write takes.
    if number.is_multiple_of(10) {
        let file = File::create(root.join("large")).expect("a file");
        fs::write(root.join("large"), noise(2_500_000 + 100 * number, number as u64)).expect("written");
        set_time(&file, 2_000_000 + number as u64);
    }
    for folder in ["d/e", "d", ""] {
        set_time(&File::open(root.join(folder)).expect("a folder"), 3_000_000 + number as u64);
    }
}

/// Half of them shrink, so that chunks share frames, and the others end these.
fn content_of(content: usize) -> Vec<u8> {
    let mut bytes = noise(200 + content * content * 90, 1_000 + content as u64);
    if content.is_multiple_of(2) {
        bytes.iter_mut().for_each(|byte| *byte = b"abcd"[usize::from(*byte % 4)]);
    }
    bytes
}

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

fn set_time(file: &File, seconds: u64) {
    let time = UNIX_EPOCH + Duration::from_secs(seconds);
    file.set_times(FileTimes::new().set_modified(time)).expect("ours");
}

/// What a tree looks like.
pub(crate) fn picture(root: &Path) -> Picture {
    fn add(root: &Path, path: &Path, picture: &mut Picture) {
        let metadata = path.symlink_metadata().expect("it is there");
        let content = metadata.is_file().then(|| blake3::hash(&fs::read(path).expect("readable")));
        let name = path.strip_prefix(root).expect("below").display().to_string();
        picture.insert(name, (metadata.mode(), metadata.mtime(), content));
        if metadata.is_dir() {
            for entry in fs::read_dir(path).expect("a folder") {
                add(root, &entry.expect("an entry").path(), picture);
            }
        }
    }
    let mut all = Picture::new();
    add(root, root, &mut all);
    all
}
