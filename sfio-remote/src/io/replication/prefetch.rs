//! Threads that read ahead of the cutter bring files into memory before it comes to them.

use std::io;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::fs::{Advice, fadvise};

use super::planting::open_file;
use super::spool::Spool;
use super::survey::Planned;
use super::tree::Tree;
use crate::replication::TreePath;

/// How many files for each thread the threads may be ahead of the cutter.
const FILES_AHEAD: u64 = 64;
/// How much of the beginning of each file is read. The operating system reads large files ahead by itself, once
/// somebody reads them.
const BEGINNING: u64 = 1 << 20;

/// Threads that read ahead; they end when this is dropped.
#[derive(Debug)]
pub(super) struct Prefetch {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Progress {
    /// Files that threads have taken, and files that the cutter has come to.
    taken: u64,
    cut: u64,
    has_ended: bool,
}

impl Prefetch {
    /// Reads ahead with `threads` threads; with one or none nothing is read ahead.
    pub(super) fn start(threads: usize, top: &Path, planned: &Spool<Planned>) -> io::Result<Prefetch> {
        let shared = Arc::<Shared>::default();
        let paths = planned.read()?.filter_map(|planned| match planned {
            Ok(Planned::Read { entry, .. }) => Some(entry.path),
            _ => None,
        });
        let paths = Arc::new(Mutex::new(paths));
        let count = if threads > 1 { threads } else { 0 };
        let spawn = |_| {
            let (shared, paths, tree) = (Arc::clone(&shared), Arc::clone(&paths), Tree::open(top)?);
            let next = move || paths.lock().unwrap_or_else(PoisonError::into_inner).next();
            let ahead = FILES_AHEAD * threads as u64;
            Ok(std::thread::spawn(move || shared.read_ahead(tree, next, ahead)))
        };
        let threads = (0..count).map(spawn).collect::<io::Result<_>>()?;
        Ok(Prefetch { shared, threads })
    }

    /// The cutter has come to one more file.
    pub(super) fn advance(&self) {
        self.shared.progress().cut += 1;
        self.shared.changed.notify_all();
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        self.shared.progress().has_ended = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // What has happened to it does not matter any more.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn read_ahead(&self, mut tree: Tree, mut next: impl FnMut() -> Option<TreePath>, ahead: u64) {
        while self.may_go_on(ahead) {
            let Some(path) = next() else { return };
            // The cutter is told what is wrong with it.
            let _ = touch(&mut tree, &path);
        }
    }

    fn may_go_on(&self, ahead: u64) -> bool {
        let is_early =
            |progress: &mut Progress| !progress.has_ended && progress.taken >= progress.cut + ahead;
        let waited = self.changed.wait_while(self.progress(), is_early);
        let mut progress = waited.unwrap_or_else(PoisonError::into_inner);
        progress.taken += 1;
        !progress.has_ended
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        // Each change is a single statement.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has the operating system read the beginning of a file, if it has not got it in memory.
fn touch(tree: &mut Tree, path: &TreePath) -> io::Result<()> {
    let (directory, name) = tree.place(path)?;
    Ok(fadvise(open_file(directory, name)?, 0, NonZeroU64::new(BEGINNING), Advice::WillNeed)?)
}
