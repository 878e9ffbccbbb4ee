//! What the commands that use striped files have in common.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fec_transport::io::EndpointConfig;
use fec_transport::keys::Identity;
use fec_transport::overlay::Overlay;
use program::quantity;
use sfio_remote::client::OperationError;
use sfio_remote::io::{FileError, OpenOptions, OutageNews, Patience, SfioClient, SfioMember};
use sfio_remote::name::FileName;
use sfio_remote::remote_error::ErrorKind;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::exit::{Exit, Failure, OrFail as _, exit_of};
use crate::member::LogFormat;
use crate::outages::{Outages, Witness};
use crate::overlay::Folder;
use crate::progress::Progress;
use crate::signals::StopSignals;
use crate::silence;
use crate::{block_on, member};
use sfio_remote::io::membership::Membership;

/// Bytes of the file that one call reads or writes: with [`CALLS`], twice what a path of 1 Gbit/s and 200 ms holds.
pub(crate) const CHUNK_BYTES: usize = 2 << 20;

/// Calls under way at once.
pub(crate) const CALLS: usize = 24;

/// How long a failed command may take to remove what it has left; an I/O node that is gone does not answer. With the
/// silence before (`liveness.session_silence`) it ends within five seconds of a death.
const CLEAN_UP_LIMIT: Duration = Duration::from_millis(800);

/// How long a command may take to say good-bye. The sessions are closed at once; what takes longer is that neighbours
/// confirm it.
const FAREWELL_LIMIT: Duration = Duration::from_millis(100);

/// A command answers in one line; what went on beneath shows with RUST_LOG=info.
const LOG: &str = "off";

/// The environment variable that stands for `--config`.
pub(crate) const CONFIG_VARIABLE: &str = "SFIO_CONFIG";

/// Which member of which overlay to be.
#[derive(Debug, clap::Args)]
pub(crate) struct Identification {
    /// The config file of the member to be; without it the one that SFIO_CONFIG names
    #[arg(long, value_name = "FILE", conflicts_with = "overlay")]
    config: Option<PathBuf>,

    /// Short for --config DIR/client/config.toml
    #[arg(long, value_name = "DIR")]
    overlay: Option<PathBuf>,
}

/// How long a command waits for I/O nodes that cannot be reached any more.
#[derive(Debug, clap::Args)]
pub(crate) struct Endurance {
    /// How long to wait, in an outage, for I/O nodes that cannot be reached, as 90s, 10min or 2h; 0: not at all
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = quantity::duration)]
    patience: Duration,
}

impl Endurance {
    /// How long that is.
    pub(crate) fn limit(&self) -> Duration {
        self.patience
    }

    /// That much patience, of which `progress` tells.
    pub(crate) fn patience(&self, session: &Session, progress: &Progress) -> Arc<Patience> {
        let (outages, limit) = (Arc::clone(session.outages()), self.patience);
        outages.tell_by(progress.announcer());
        silence::watch(session.client(), move |longest| {
            match longest {
                Some(it) => outages.begin(Witness::Session, &it.to_string(), it.since(), limit),
                None => outages.end(Witness::Session),
            }
            true
        });
        self.patience_with_calls(session)
    }

    /// That much patience with calls that fail; of silent sessions somebody else tells.
    pub(crate) fn patience_with_calls(&self, session: &Session) -> Arc<Patience> {
        let outages = Arc::clone(session.outages());
        Arc::new(Patience::new(self.patience).telling(move |news| match news {
            OutageNews::Begun { error, limit } => {
                outages.begin(Witness::Call, error, Instant::now(), *limit);
            }
            OutageNews::Over { .. } => outages.end(Witness::Call),
        }))
    }
}

/// A member's process for the time of one command.
pub(crate) struct Session {
    member: SfioMember,
    overlay: Arc<Overlay>,
    identity: Identity,
    name: String,
    outages: Arc<Outages>,
}

impl Identification {
    /// The client of the local overlay in `folder`.
    pub(crate) fn client_of(folder: &Path) -> Identification {
        Identification { config: None, overlay: Some(folder.to_owned()) }
    }

    /// Does `work` as that member. A signal ends it early, and an outage does as soon as it is noticed.
    pub(crate) fn work(
        &self,
        work: impl AsyncFnOnce(&Session) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.work_patiently(Duration::ZERO, work)
    }

    /// The same; in an outage sessions wait, but no longer than `patience`.
    pub(crate) fn work_patiently(
        &self,
        patience: Duration,
        work: impl AsyncFnOnce(&Session) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.work_or_clean_up(patience, work, async |_| {})
    }

    /// The same; if the work fails or a signal ends it, `clean_up` may take [`CLEAN_UP_LIMIT`].
    pub(crate) fn work_or_clean_up(
        &self,
        patience: Duration,
        work: impl AsyncFnOnce(&Session) -> Result<(), Failure>,
        clean_up: impl AsyncFnOnce(&Session),
    ) -> Result<(), Failure> {
        member::log_to_stderr(LOG, LogFormat::Text);
        let mut membership = Membership::load(&self.config_file()?).or_exit(Exit::Input)?;
        membership.limit_patience(patience);
        block_on(async {
            let mut signals = StopSignals::install()?;
            let (overlay, name) = (Arc::clone(&membership.overlay), membership.name().to_owned());
            let identity = membership.identity.clone();
            let (member, outages) = (member::start(&membership).await?, Arc::new(Outages::new()));
            let session = Session { member, overlay, identity, name, outages };
            let result = tokio::select! {
                result = work(&session) => result,
                () = signals.received() => Err(Failure::new(Exit::Interrupted, "interrupted")),
            };
            match result {
                Ok(()) => session.outages.end_all(),
                Err(_) => {
                    session.outages.fail();
                    // What it did not manage is left as it is.
                    let _ = timeout(CLEAN_UP_LIMIT, clean_up(&session)).await;
                }
            }
            // The work is done or lost; the farewell is a courtesy.
            let _ = timeout(FAREWELL_LIMIT, session.member.shutdown()).await;
            result
        })
    }

    fn config_file(&self) -> Result<PathBuf, Failure> {
        let from_overlay = || Some(Folder::new(self.overlay.as_deref()?).config(crate::overlay::CLIENT));
        let from_environment = || std::env::var_os(CONFIG_VARIABLE).map(PathBuf::from);
        self.config.clone().or_else(from_overlay).or_else(from_environment).ok_or_else(|| {
            let message =
                format!("no config file: give --config FILE or --overlay DIR, or set {CONFIG_VARIABLE}");
            Failure::new(Exit::Usage, message)
        })
    }
}

impl Session {
    pub(crate) fn client(&self) -> &SfioClient {
        self.member.client()
    }

    /// Another process of the same member, with sessions of its own.
    pub(crate) async fn another(&self) -> Result<SfioMember, Failure> {
        let endpoint = EndpointConfig::new(Arc::clone(&self.overlay), self.identity.clone());
        SfioClient::connect(endpoint).await.or_fail(Exit::Failed, "cannot start a further process")
    }

    /// The outages of this command.
    pub(crate) fn outages(&self) -> &Arc<Outages> {
        &self.outages
    }

    /// The members, their keys and their links.
    pub(crate) fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// The key of the member that this process is.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The name of the member that this process is.
    pub(crate) fn member_name(&self) -> &str {
        &self.name
    }

    /// The size of each subfile of a file, in the order of striping; none for one that does not exist.
    pub(crate) async fn subfile_sizes(&self, name: &FileName) -> Result<Vec<Option<u64>>, Failure> {
        let mut requests = JoinSet::new();
        for (index, subfile) in name.subfiles().iter().enumerate() {
            let client = self.client().clone();
            let alone = FileName::new(vec![subfile.clone()]).expect("one element cannot be there twice");
            requests.spawn(async move { (index, OpenOptions::new().open(&client, &alone).await) });
        }
        let mut sizes = vec![None; name.subfiles().len()];
        while let Some(answer) = requests.join_next().await {
            let (index, opened) = answer.expect("requests do not panic");
            sizes[index] = match opened {
                Ok(file) => file.stat_when_opened().subfile_sizes()[0],
                Err(FileError::Operation(OperationError::NotFound { .. })) => None,
                Err(error) => return Err(failure(&error)),
            };
        }
        Ok(sizes)
    }
}

/// What the user is told of a failed operation.
pub(crate) fn failure(error: &FileError) -> Failure {
    match error {
        // An I/O node misses a dead process after `liveness.session_silence`, 4 s.
        FileError::Operation(OperationError::IoNode { error: remote, .. })
            if remote.kind == ErrorKind::Claimed =>
        {
            let hint = "if that process is gone, this is over 5 s after its end at the latest";
            Failure::new(exit_of(error), format!("{error}; {hint}"))
        }
        _ => Failure::new(exit_of(error), error),
    }
}

/// Whether something is not there.
pub(crate) fn is_missing(error: &FileError) -> bool {
    match error {
        FileError::Operation(OperationError::NotFound { .. }) => true,
        FileError::Operation(OperationError::IoNode { error, .. }) => error.kind == ErrorKind::NotFound,
        _ => false,
    }
}

/// Whether a path stands for standard input or output.
pub(crate) fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// A time in words, with as many digits as mean something.
pub(crate) fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
