//! Members as child processes.
//!
//! Each child's standard input is a pipe that nobody writes to. The child ends when the pipe does: when the supervisor
//! lets go of it, and also when the supervisor is killed, since the system then closes it. The children are in process
//! groups of their own, so that Ctrl-C reaches the supervisor alone, which ends them in order.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::folder::Folder;
use crate::exit::{Exit, Failure, OrFail as _};

/// How long a member may take to end; it allows itself two seconds for its farewells.
const PATIENCE: Duration = Duration::from_secs(5);

/// What happens to the members.
#[derive(Debug)]
pub(super) enum News {
    /// A member is up, and this is what it says.
    Ready { name: String, words: String },
    /// A member has ended without being asked to.
    Died { name: String, status: ExitStatus, last_words: Option<String> },
}

/// Runs members and watches them.
pub(super) struct Supervisor {
    folder: Folder,
    watchers: JoinSet<()>,
    news: mpsc::UnboundedReceiver<News>,
    report: mpsc::UnboundedSender<News>,
    stop: watch::Sender<bool>,
}

impl Supervisor {
    pub(super) fn new(folder: Folder) -> Supervisor {
        let (report, news) = mpsc::unbounded_channel();
        Supervisor { folder, watchers: JoinSet::new(), news, report, stop: watch::Sender::new(false) }
    }

    /// Starts a member. What it logs goes to a file in its folder.
    pub(super) fn start(&mut self, name: &str) -> Result<(), Failure> {
        let log_file = self.folder.log(name);
        let log = File::create(&log_file).or_fail(Exit::Failed, log_file.display())?;
        let program = std::env::current_exe().or_fail(Exit::Failed, "cannot find this program")?;
        let child = Command::new(program)
            .args(["member", "--until-stdin-ends", "--config"])
            .arg(self.folder.config(name))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            // A service manager waits for this process and not for its children.
            .env_remove("NOTIFY_SOCKET")
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .or_fail(Exit::Failed, format!("cannot start member {name}"))?;
        let pid_file = self.folder.pid(name);
        let pid = child.id().map(|pid| format!("{pid}\n")).unwrap_or_default();
        fs::write(&pid_file, pid).or_fail(Exit::Failed, pid_file.display())?;
        let watcher = Watcher {
            name: name.to_owned(),
            pid_file,
            child,
            report: self.report.clone(),
            stop: self.stop.subscribe(),
        };
        self.watchers.spawn(watcher.watch(log_file));
        Ok(())
    }

    /// Waits for what happens next. Nothing is lost if the future is dropped.
    pub(super) async fn next(&mut self) -> News {
        self.news.recv().await.expect("this side holds a sender as well")
    }

    /// Ends all members.
    pub(super) async fn stop(mut self) {
        self.stop.send_replace(true);
        while self.watchers.join_next().await.is_some() {}
    }
}

/// Watches one member.
struct Watcher {
    name: String,
    /// Is there for as long as the member runs.
    pid_file: PathBuf,
    child: Child,
    report: mpsc::UnboundedSender<News>,
    stop: watch::Receiver<bool>,
}

impl Watcher {
    async fn watch(mut self, log: PathBuf) {
        let stdin = self.child.stdin.take();
        let stdout = self.child.stdout.take();
        let ready = async {
            let mut lines = BufReader::new(stdout?).lines();
            lines.next_line().await.ok()?
        };
        let announce = async {
            if let Some(words) = ready.await {
                // Without a supervisor nobody listens.
                let _ = self.report.send(News::Ready { name: self.name.clone(), words });
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = announce => {}
            status = self.child.wait() => {
                let Ok(status) = status else { return };
                // A member that was killed has said nothing about it.
                let last_words = status.code().and_then(|_| last_line(&log));
                let _ = self.report.send(News::Died { name: self.name.clone(), status, last_words });
            }
            () = asked_to_stop(&mut self.stop) => {
                drop(stdin);
                if timeout(PATIENCE, self.child.wait()).await.is_err() {
                    // It is killed when it is dropped.
                    program::output::note(format_args!("{} does not end and is killed", self.name));
                }
            }
        }
        // It is only there for people.
        let _ = fs::remove_file(&self.pid_file);
    }
}

async fn asked_to_stop(stop: &mut watch::Receiver<bool>) {
    // An error means that the supervisor is gone, which asks for the same.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// What a dead member wrote last, if anything.
fn last_line(log: &Path) -> Option<String> {
    let text = fs::read(log).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned)
}
