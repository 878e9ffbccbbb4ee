//! The commands of `sfio` on data sets, as their users call them, with their exit codes.

use std::path::Path;
use std::sync::Arc;

use sfio_remote::client::OperationError;
use sfio_remote::distribution::StripeUnit;
use sfio_remote::io::replication::{
    Attributes, Deletion, Filter, ManifestCache, Meter, ReadAhead, ReplicationError, RestoreOptions,
    SendOptions, SiteStore, SiteStoreError, Store as _, fetch_manifest, load_commit, restore as restore_tree,
    send,
};
use sfio_remote::io::{FileError, SfioClient};
use sfio_remote::remote_error::ErrorKind;
use sfio_remote::replication::{Commit, Compression, Token};

/// Where the data set is.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) io_nodes: Vec<String>,
    pub(crate) stripe_unit: StripeUnit,
}

/// A data set's name.
pub(crate) const NAME: &str = "set";

/// Why a command failed: the exit code, and its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) words: String,
}

type Failing = ReplicationError<SiteStoreError>;
type Result<T> = std::result::Result<T, Failure>;

/// How a tree is sent.
#[derive(Debug, Clone)]
pub(crate) struct Sync {
    pub(crate) member: String,
    pub(crate) keep: usize,
    pub(crate) checksum: bool,
    pub(crate) now_ms: u64,
    pub(crate) random: [u8; 16],
}

/// `sfio sync TREE SITE:NAME`: the generation, and whether it is new.
pub(crate) async fn sync(
    client: &SfioClient,
    site: &Site,
    cache: &ManifestCache,
    tree: &Path,
    how: &Sync,
) -> Result<(u64, bool)> {
    let options = SendOptions {
        member: how.member.clone(),
        filter: everything(),
        attributes: Attributes::Ignored,
        jobs: 1,
        compression: Compression::None,
        deletion: Deletion::AtMost(u64::MAX),
        distrusts_times: how.checksum,
        keep: how.keep,
        now_ms: how.now_ms,
        token: Token(how.random),
        is_dry_run: false,
    };
    let mut store = SiteStore::writing(client, &site.io_nodes, site.stripe_unit, NAME);
    let sent = send(&mut store, tree, &options, cache, &Arc::default(), |_, _| {}).await;
    store.close().await;
    let sent = sent.map_err(failure)?;
    if let Some(problem) = sent.summary.problems.first() {
        return Err(Failure { code: 6, words: problem.to_string() });
    }
    Ok((sent.generation.expect("no dry run"), sent.is_new))
}

/// `sfio sync SITE:NAME TARGET`.
pub(crate) async fn restore(
    client: &SfioClient,
    site: &Site,
    cache: &ManifestCache,
    generation: u64,
    target: &Path,
) -> Result<()> {
    let store = reading(client, site);
    let commit = existing(&store).await?;
    let Some(found) = commit.generation(generation) else {
        return Err(failure(ReplicationError::NoGeneration { number: generation, kept: String::new() }));
    };
    let meter = Arc::<Meter>::default();
    let manifest = match cache.find(commit.token, found) {
        Some(manifest) => manifest,
        None => fetch_manifest::<SiteStore>(&store.objects(), found, &meter).await.map_err(failure)?,
    };
    let options = RestoreOptions {
        filter: everything(),
        attributes: Attributes::Ignored,
        deletes: true,
        distrusts_times: false,
        owners: false,
        is_dry_run: false,
    };
    let restored = restore_tree(&store, &manifest, &found.top, target, &options, &meter, |_, _| {}).await;
    match restored.map_err(failure)?.problems.first() {
        None => Ok(()),
        Some(problem) => Err(Failure { code: 6, words: problem.to_string() }),
    }
}

/// `sfio generations SITE:NAME`.
pub(crate) async fn generations(client: &SfioClient, site: &Site) -> Result<Vec<u64>> {
    let commit = existing(&reading(client, site)).await?;
    Ok(commit.generations.iter().map(|generation| generation.number).collect())
}

/// `sfio verify SITE:NAME`.
pub(crate) async fn verify(client: &SfioClient, site: &Site, cache: &ManifestCache) -> Result<()> {
    let store = reading(client, site);
    let commit = existing(&store).await?;
    let current = commit.current().expect("a record without one is refused");
    let meter = Meter::default();
    let manifest = match cache.find(commit.token, current) {
        Some(manifest) => manifest,
        None => fetch_manifest::<SiteStore>(&store.objects(), current, &meter).await.map_err(failure)?,
    };
    let mut entries = manifest.entries().expect("a temporary file");
    let mut chunks = Vec::new();
    while let Some(entry) = entries.read().map_err(|error| Failure { code: 5, words: error.to_string() })? {
        chunks.extend(entry.chunks().copied());
    }
    let mut chunks = ReadAhead::<SiteStore, _>::new(store.objects(), chunks.into_iter());
    while chunks.next(&meter).await.map_err(failure)?.is_some() {}
    Ok(())
}

/// `sfio rollback SITE:NAME GENERATION`.
pub(crate) async fn rollback(client: &SfioClient, site: &Site, generation: u64) -> Result<()> {
    let mut store = SiteStore::writing(client, &site.io_nodes, site.stripe_unit, NAME);
    let rolled_back = async {
        store.lock().await.map_err(|error| failure(ReplicationError::Store(error)))?;
        let mut commit = existing(&store).await?;
        if commit.generation(generation).is_none() {
            return Err(failure(ReplicationError::NoGeneration { number: generation, kept: String::new() }));
        }
        commit.current = generation;
        store.stage(commit.emit().into()).await.map_err(|error| failure(ReplicationError::Store(error)))?;
        store.publish().await.map_err(|error| failure(ReplicationError::Store(error)))
    }
    .await;
    store.close().await;
    rolled_back
}

fn reading(client: &SfioClient, site: &Site) -> SiteStore {
    SiteStore::reading(client, &site.io_nodes, site.stripe_unit, NAME)
}

async fn existing(store: &SiteStore) -> Result<Commit> {
    let commit = load_commit(store).await.map_err(failure)?;
    commit.ok_or_else(|| failure(ReplicationError::NoDataSet))
}

fn everything() -> Filter {
    Filter::new([]).expect("no patterns")
}

/// As the program does.
fn failure(error: Failing) -> Failure {
    let code = match &error {
        ReplicationError::Store(SiteStoreError::File(error)) => code_of(error),
        ReplicationError::Store(SiteStoreError::Locked(_)) => 9,
        ReplicationError::Local { .. }
        | ReplicationError::NoDataSet
        | ReplicationError::NoGeneration { .. } => 3,
        ReplicationError::Commit(_) | ReplicationError::Manifest { .. } | ReplicationError::Chunk { .. } => 5,
        ReplicationError::TooManyDeletions { .. } => 1,
    };
    Failure { code, words: error.to_string() }
}

fn code_of(error: &FileError) -> u8 {
    match error {
        FileError::EndOfFile { .. } => 5,
        FileError::Ended(_) => 1,
        FileError::Operation(operation) => match operation {
            OperationError::IoNode { error, .. } => match error.kind {
                ErrorKind::NoSpace | ErrorKind::FileTooLarge => 7,
                ErrorKind::SyncLost | ErrorKind::Changed => 5,
                ErrorKind::Claimed => 9,
                ErrorKind::Overloaded | ErrorKind::Idle => 4,
                ErrorKind::NotFound => 3,
                _ => 1,
            },
            OperationError::Connect { .. }
            | OperationError::SessionClosed { .. }
            | OperationError::TimedOut { .. }
            | OperationError::Protocol { .. } => 4,
            OperationError::NotFound { .. } => 3,
            OperationError::Incomplete { .. } => 5,
            _ => 1,
        },
    }
}
