//! An overlay on this machine for the time of one command.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use tempfile::TempDir;

use super::new;
use crate::exit::{Exit, Failure, OrFail as _};

/// What the emulated links between a client and its I/O nodes are like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EmulatedLinks {
    pub(crate) rate_mbit: f64,
    pub(crate) delay_ms: f64,
    pub(crate) loss: f64,
}

/// A client and I/O nodes in a temporary folder; the I/O nodes run until it is dropped, and the folder goes with it.
pub(crate) struct Trial {
    // Ends before its folder goes.
    _up: Up,
    folder: TempDir,
}

/// `sfio overlay up` as a process of its own. Its standard output stays open, since it says goodbye.
struct Up {
    child: Child,
    _words: BufReader<ChildStdout>,
}

impl Trial {
    /// Makes the overlay beneath `parent`, joins its members directly or by emulated links, and waits until they run.
    pub(crate) fn start(
        io_nodes: u16,
        links: Option<EmulatedLinks>,
        parent: &Path,
    ) -> Result<Trial, Failure> {
        let folder = tempfile::Builder::new().prefix("sfio-trial-").tempdir_in(parent);
        let folder = folder.or_fail(Exit::Failed, parent.display())?;
        let EmulatedLinks { rate_mbit, delay_ms, loss } =
            links.unwrap_or(EmulatedLinks { rate_mbit: 1.0, delay_ms: 0.0, loss: 0.0 });
        let (dir, plain) = (folder.path().join("overlay"), links.is_none());
        new::make(&new::Options { dir, relays: 0, io_nodes, uplinks: 1, plain, rate_mbit, delay_ms, loss })?;
        let up = Up::start(&folder.path().join("overlay"))?;
        Ok(Trial { _up: up, folder })
    }

    /// The folder of the overlay.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("overlay")
    }
}

impl Up {
    fn start(dir: &Path) -> Result<Up, Failure> {
        let program = std::env::current_exe().or_fail(Exit::Failed, "cannot find this program")?;
        let child = Command::new(program)
            .args(["overlay", "up", "--until-stdin-ends"])
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C is for this process, which ends that one.
            .process_group(0)
            .spawn();
        let mut child = child.or_fail(Exit::Failed, "cannot start sfio overlay up")?;
        let mut words = BufReader::new(child.stdout.take().expect("it is piped"));
        let ready = words.by_ref().lines().map_while(Result::ok).any(|line| line.starts_with("ready: "));
        let up = Up { child, _words: words };
        match ready {
            true => Ok(up),
            false => Err(Failure::new(Exit::Failed, "the members of the trial do not all start")),
        }
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // A process that cannot be waited for is gone.
        let _ = self.child.wait();
    }
}
