//! The admin socket: a Unix socket that only its owner may use. A request is a line, and so is the answer, in JSON.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{Observer, Reloader};
use crate::exit::{Exit, Failure, OrFail as _};

/// Read and write for the owner, nothing for anybody else.
const MODE: u32 = 0o600;
/// The longest request, in bytes.
const MAX_REQUEST: u64 = 4_096;
/// How many operators may be connected at once.
const MAX_CONNECTIONS: usize = 32;
/// How long a member may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What an operator asks.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AdminRequest {
    /// How the member is.
    Status,
    /// Who is in the overlay.
    Overlay,
    /// Read the overlay file again.
    Reload,
}

#[derive(Debug, Serialize, Deserialize)]
struct Refusal {
    error: String,
    exit: u8,
}

/// Removes the socket's file when the member ends.
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // It may be gone with its folder.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Checks that no process listens at `path`.
///
/// # Errors
/// With the code for what runs already.
pub(super) fn refuse_second(path: &Path) -> Result<(), Failure> {
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => {
            let message = format!("admin socket {}: another process listens there", path.display());
            Err(Failure::new(Exit::Locked, message))
        }
        Err(_) => Ok(()),
    }
}

/// Listens at `path`. What a killed member left there is replaced.
pub(super) fn bind(path: &Path) -> Result<(UnixListener, SocketFile), Failure> {
    refuse_second(path)?;
    let place = format!("admin socket {}", path.display());
    let hint = "its place is `admin` in the config file, at most 107 bytes";
    match std::fs::symlink_metadata(path) {
        Ok(found) if std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()) => {
            std::fs::remove_file(path).or_fail(Exit::Input, &place)?;
        }
        Ok(_) => return Err(Failure::new(Exit::Input, format!("{place}: a file is there; {hint}"))),
        Err(_) => {}
    }
    let listener = UnixListener::bind(path);
    let listener =
        listener.map_err(|error| Failure::new(Exit::Input, format!("{place}: {error}; {hint}")))?;
    let socket = SocketFile(path.to_owned());
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(MODE)).or_fail(Exit::Input, place)?;
    Ok((listener, socket))
}

/// Serves operators until it is aborted.
pub(super) async fn serve(listener: UnixListener, observer: Observer, reloader: Reloader) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            // Before the mode was set, anybody could have connected.
            Ok((stream, _)) if is_owner(&stream) => {
                let (observer, reloader) = (observer.clone(), reloader.clone());
                connections.spawn(async move {
                    if let Err(error) = converse(stream, &observer, &reloader).await {
                        tracing::debug!(%error, "a conversation on the admin socket broke off");
                    }
                });
            }
            Ok(_) => tracing::warn!("refused another user on the admin socket"),
            Err(error) => {
                tracing::warn!(%error, "the admin socket");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Whether the other end is the user of this process, or the superuser.
fn is_owner(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

async fn converse(stream: UnixStream, observer: &Observer, reloader: &Reloader) -> std::io::Result<()> {
    let (receiver, mut sender) = stream.into_split();
    let mut receiver = BufReader::new(receiver);
    loop {
        let mut line = String::new();
        if (&mut receiver).take(MAX_REQUEST).read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let answer = match serde_json::from_str(&line) {
            Ok(request) => answer(request, observer, reloader).await,
            Err(error) => Err(Failure::new(Exit::Usage, format!("not a request: {error}"))),
        };
        let answer = answer.unwrap_or_else(|failure| {
            let refusal = Refusal { error: failure.to_string(), exit: failure.exit as u8 };
            serde_json::to_value(refusal).unwrap_or_default()
        });
        sender.write_all(format!("{answer}\n").as_bytes()).await?;
    }
}

async fn answer(request: AdminRequest, observer: &Observer, reloader: &Reloader) -> Result<Value, Failure> {
    match request {
        AdminRequest::Status => {
            let observation = observer.observe().await.or_fail(Exit::Failed, "looking at the member")?;
            serde_json::to_value(observation).or_fail(Exit::Failed, "the status as JSON")
        }
        AdminRequest::Overlay => {
            let map = observer.overlay_map().await.or_fail(Exit::Failed, "looking at the overlay")?;
            serde_json::to_value(map).or_fail(Exit::Failed, "the overlay as JSON")
        }
        AdminRequest::Reload => {
            serde_json::to_value(reloader.reload().await?).or_fail(Exit::Failed, "the change as JSON")
        }
    }
}

/// Asks the member that listens at `path`.
pub(crate) async fn ask<T: DeserializeOwned>(path: &Path, request: AdminRequest) -> Result<T, Failure> {
    let place = format!("admin socket {}", path.display());
    let asking = async {
        let mut stream = UnixStream::connect(path).await.map_err(|error| {
            let words = match error.kind() {
                ErrorKind::NotFound | ErrorKind::ConnectionRefused => "no member runs with it".to_owned(),
                _ => error.to_string(),
            };
            Failure::new(Exit::Network, format!("{place}: {words}"))
        })?;
        let line = serde_json::to_string(&request).or_fail(Exit::Failed, "the request as JSON")?;
        stream.write_all(format!("{line}\n").as_bytes()).await.or_fail(Exit::Network, &place)?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).await.or_fail(Exit::Network, &place)?;
        parse(&place, &answer)
    };
    let answered = timeout(PATIENCE, asking).await;
    answered
        .unwrap_or_else(|_| Err(Failure::new(Exit::Network, format!("{place}: no answer in {PATIENCE:?}"))))
}

fn parse<T: DeserializeOwned>(place: &str, answer: &str) -> Result<T, Failure> {
    if let Ok(Refusal { error, exit }) = serde_json::from_str(answer) {
        let exit = if exit == Exit::Input as u8 { Exit::Input } else { Exit::Failed };
        return Err(Failure::new(exit, error));
    }
    serde_json::from_str(answer).or_fail(Exit::Failed, format!("{place}: an answer of another version"))
}
