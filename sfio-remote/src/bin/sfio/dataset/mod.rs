//! Commands on data sets: trees that a site keeps in generations.

mod address;
mod board;
mod cat;
mod du;
mod generations;
mod ls;
mod paths;
mod rate;
mod report;
pub(crate) mod sync;
mod verify;
mod wait;

use std::sync::Arc;

use clap::Subcommand;
use sfio_remote::io::replication::{
    ManifestCache, ManifestFile, Meter, ReplicationError, SiteStore, SiteStoreError, Store as _,
    fetch_manifest, load_commit,
};
use sfio_remote::replication::{Commit, Generation};

use crate::client::{Identification, Session};
use crate::exit::{Exit, Failure, exit_of};
use address::Address;

/// Commands that only look at a data set, or choose among its generations.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Generations(generations::Options),
    Rollback(generations::RollbackOptions),
    Ls(ls::Options),
    Cat(cat::Options),
    Du(du::Options),
    Verify(verify::Options),
    Wait(wait::Options),
}

pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Generations(options) => generations::list(options),
        Command::Rollback(options) => generations::rollback(options),
        Command::Ls(options) => ls::run(options),
        Command::Cat(options) => cat::run(options),
        Command::Du(options) => du::run(options),
        Command::Verify(options) => verify::run(options),
        Command::Wait(options) => wait::run(options),
    }
}

/// Which generation to look at.
#[derive(Debug, clap::Args)]
struct Choice {
    /// The data set: SITE:NAME, where SITE is a site of the overlay file
    dataset: Address,

    /// Another generation than the current one
    #[arg(long, value_name = "NUMBER")]
    generation: Option<u64>,

    #[command(flatten)]
    identification: Identification,
}

/// A generation that was looked up.
struct Opened {
    store: SiteStore,
    generation: Generation,
    manifest: ManifestFile,
}

impl Choice {
    fn work(&self, work: impl AsyncFnOnce(Opened) -> Result<(), Failure>) -> Result<(), Failure> {
        self.identification.work(async |session| {
            let store = self.dataset.reading(session)?;
            let commit = existing(&store, &self.dataset).await?;
            let generation =
                choose(&commit, self.generation).map_err(|error| failure(&self.dataset, &error))?.clone();
            let manifest = manifest(&store, &commit, &generation, &self.dataset, &Arc::default()).await?;
            work(Opened { store, generation, manifest }).await
        })
    }
}

/// The commit record of a data set that must be there.
async fn existing(store: &SiteStore, address: &Address) -> Result<Commit, Failure> {
    let commit = load_commit(store).await.map_err(|error| failure(address, &error))?;
    commit.ok_or_else(|| failure(address, &ReplicationError::NoDataSet))
}

fn choose(commit: &Commit, number: Option<u64>) -> Result<&Generation, ReplicationError<SiteStoreError>> {
    let number = number.unwrap_or(commit.current);
    commit.generation(number).ok_or_else(|| {
        let kept: Vec<String> = commit.generations.iter().map(|kept| kept.number.to_string()).collect();
        ReplicationError::NoGeneration { number, kept: kept.join(", ") }
    })
}

/// A generation's manifest, from this machine if it has been here before.
async fn manifest(
    store: &SiteStore,
    commit: &Commit,
    generation: &Generation,
    address: &Address,
    meter: &Arc<Meter>,
) -> Result<ManifestFile, Failure> {
    let cache = cache();
    if let Some(manifest) = cache.find(commit.token, generation) {
        return Ok(manifest);
    }
    let fetched = fetch_manifest::<SiteStore>(&store.objects(), generation, meter).await;
    let manifest = fetched.map_err(|error| failure(address, &error))?;
    if generation.number == commit.current {
        cache.put(commit.token, generation, &manifest);
    }
    Ok(manifest)
}

/// Where this machine remembers manifests: $XDG_CACHE_HOME/sfio, or ~/.cache/sfio.
fn cache() -> ManifestCache {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(std::path::PathBuf::from);
    let folder = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    folder.map_or_else(ManifestCache::none, |folder| ManifestCache::in_folder(&folder.join("sfio")))
}

/// What the user is told of a failed run.
fn failure(address: &Address, error: &ReplicationError<SiteStoreError>) -> Failure {
    let exit = match error {
        ReplicationError::Store(SiteStoreError::File(error)) => exit_of(error),
        ReplicationError::Store(SiteStoreError::Locked(_)) => Exit::Locked,
        ReplicationError::Local { error, .. } if error.kind() == std::io::ErrorKind::StorageFull => {
            Exit::NoSpace
        }
        ReplicationError::Local { .. }
        | ReplicationError::NoDataSet
        | ReplicationError::NoGeneration { .. } => Exit::Input,
        ReplicationError::Commit(_) | ReplicationError::Manifest { .. } | ReplicationError::Chunk { .. } => {
            Exit::Integrity
        }
        ReplicationError::TooManyDeletions { .. } => Exit::Failed,
    };
    match error {
        ReplicationError::Local { .. } => Failure::new(exit, error),
        _ => Failure::new(exit, format!("{address}: {error}")),
    }
}

impl Address {
    fn reading(&self, session: &Session) -> Result<SiteStore, Failure> {
        let site = self.site(session)?;
        Ok(SiteStore::reading(session.client(), &site.io_nodes, site.stripe_unit, self.dataset()))
    }

    fn writing(&self, session: &Session) -> Result<SiteStore, Failure> {
        let site = self.site(session)?;
        Ok(SiteStore::writing(session.client(), &site.io_nodes, site.stripe_unit, self.dataset()))
    }
}
