//! A member's process: endpoint, application and disk.

use std::path::PathBuf;
use std::sync::Arc;

use fec_transport::io::{Endpoint, EndpointConfig, EndpointEnded, EndpointError, Handle};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::client::SfioClient;
use super::codecs::{Idleness, processors};
use super::disk::{DiskStore, ExportError, Quotas, verify_root};
use super::observer::{self, Observer};
use crate::application::{Command, Outcome, SfioApplication};
use crate::client::ClientConfig;
use crate::compression::CodecJob;
use crate::io_node::IoNodeConfig;
use crate::store::Errand;

/// What a member does with striped files.
#[derive(Debug, Clone, Default)]
pub struct MemberConfig {
    /// Limits as a client.
    pub client: ClientConfig,
    /// Limits as an I/O node.
    pub io_node: IoNodeConfig,
    /// The directory beneath which it serves subfiles. Default: none, it serves nothing.
    pub export: Option<PathBuf>,
    /// The file that remembers which directory that is. A directory that has lost its identity, such as the empty one
    /// in the place of a disk that is not mounted, is then not served. Default: none, nothing is remembered and any
    /// directory is served.
    pub export_identity: Option<PathBuf>,
    /// How much each member may fill there. Default: no quotas.
    pub quotas: Quotas,
    /// Who hears of what the member does with files. Default: nobody.
    pub observer: Option<Arc<dyn Observer>>,
}

/// Why a member does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its endpoint does not start.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// It cannot serve what it should.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The threads of a blocking member cannot be started.
    #[error("cannot start threads")]
    Threads(#[source] std::io::Error),
}

/// A member's process. It relays for others as the overlay says, serves subfiles if it has an export root, and is a
/// client.
#[derive(Debug)]
pub struct SfioMember {
    endpoint: Endpoint<SfioApplication>,
    client: SfioClient,
    /// Carries disk operations and codec jobs to threads; ends with the member.
    _disk: JoinSet<()>,
}

impl SfioMember {
    /// Starts the process: binds its sockets, opens its export root, dials its neighbours.
    ///
    /// # Errors
    /// If an address or the export root cannot be used, or the key is not the overlay's.
    pub async fn start(endpoint: EndpointConfig, mut config: MemberConfig) -> Result<SfioMember, StartError> {
        config.client.codec_jobs = config.client.codec_jobs.min(processors());
        config.io_node.codec_jobs = config.io_node.codec_jobs.min(processors());
        let store =
            config.export.as_deref().map(|root| DiskStore::with_quotas(root, config.quotas)).transpose()?;
        if let (Some(root), Some(remembered)) = (&config.export, &config.export_identity) {
            verify_root(root, remembered)
                .map_err(|error| ExportError::Identity { path: root.clone(), error })?;
        }
        let application = match store {
            Some(_) => SfioApplication::serving(config.client, config.io_node),
            None => SfioApplication::client(config.client),
        };
        let (errands, waiting) = mpsc::unbounded_channel();
        let (jobs, waiting_jobs) = mpsc::unbounded_channel();
        let host = Host { errands, jobs };
        let endpoint = Endpoint::start(endpoint, application, move |outcome| host.tell(outcome)).await?;
        let mut disk = JoinSet::new();
        disk.spawn(serve_codecs(waiting_jobs, endpoint.handle().clone()));
        if let Some(store) = store {
            disk.spawn(serve_disk(store, waiting, endpoint.handle().clone(), config.observer.clone()));
        }
        let client = SfioClient::new(endpoint.handle().clone(), config.observer);
        Ok(SfioMember { endpoint, client, _disk: disk })
    }

    /// Opens striped files from this member; to be cloned.
    pub fn client(&self) -> &SfioClient {
        &self.client
    }

    /// The endpoint: which process this is, where it listens, what its node and its application are doing.
    pub fn endpoint(&self) -> &Endpoint<SfioApplication> {
        &self.endpoint
    }

    /// Closes the sessions, lets the farewells out, and ends. Operations under way fail.
    ///
    /// # Errors
    /// If the process has ended before.
    pub async fn shutdown(self) -> Result<(), EndpointEnded> {
        self.endpoint.shutdown().await.map(drop)
    }
}

impl SfioClient {
    /// Starts a process of a member that only uses the subfiles of others; it ends with the returned member.
    ///
    /// # Errors
    /// As [`SfioMember::start`].
    pub async fn connect(endpoint: EndpointConfig) -> Result<SfioMember, StartError> {
        SfioMember::start(endpoint, MemberConfig::default()).await
    }
}

/// What the endpoint tells: runs in its task, so it only hands on.
struct Host {
    /// As many as the I/O node lets be under way: [`IoNodeConfig::disk_operations`].
    errands: mpsc::UnboundedSender<Errand>,
    /// Of client and I/O node as many each as [`ClientConfig::codec_jobs`] and [`IoNodeConfig::codec_jobs`] say.
    jobs: mpsc::UnboundedSender<CodecJob>,
}

impl Host {
    fn tell(&self, outcome: Outcome) {
        match outcome {
            Outcome::Completion(completion) => completion.deliver(),
            // The receiver ends only with the member.
            Outcome::Disk(errand) => drop(self.errands.send(errand)),
            Outcome::Codec(job) => drop(self.jobs.send(job)),
        }
    }
}

/// Carries codec jobs out on threads, as many at once as client and I/O node ask for.
async fn serve_codecs(mut jobs: mpsc::UnboundedReceiver<CodecJob>, handle: Handle<SfioApplication>) {
    let idleness = Idleness::new();
    while let Some(job) = jobs.recv().await {
        let (idleness, handle) = (idleness.clone(), handle.clone());
        tokio::task::spawn_blocking(move || {
            // An endpoint that has ended needs no results.
            let _ = handle.command_blocking(Command::Codec(idleness.perform(job)));
        });
    }
}

/// Carries disk operations out on threads that may block, as many at once as the I/O node asks for.
async fn serve_disk(
    store: DiskStore,
    mut errands: mpsc::UnboundedReceiver<Errand>,
    handle: Handle<SfioApplication>,
    observer: Option<Arc<dyn Observer>>,
) {
    while let Some(errand) = errands.recv().await {
        let (store, handle, observer) = (store.clone(), handle.clone(), observer.clone());
        tokio::task::spawn_blocking(move || {
            for result in errand.perform(|operation| {
                let perform = || store.perform(operation);
                observer::at_disk(observer.as_deref(), operation, perform, |result| &result.outcome)
            }) {
                // An endpoint that has ended needs no results.
                let _ = handle.command_blocking(Command::Disk(result));
            }
        });
    }
}
