//! The commands of `sfio` on data sets, as their users call them, with their exit codes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sfio_remote::compression::{Codec, Level};
use sfio_remote::distribution::StripeUnit;
use sfio_remote::io::SfioClient;
use sfio_remote::io::replication::{
    Attributes, Author, DataSet, Deletion, Filter, Job, ManifestCache, Meter, Reading, ReplicationError,
    RestoreOptions, SendOptions, Site, Source, VerifyOptions, Wanted, forget, remove, repair, restore,
    roll_back, send, verify,
};
use sfio_remote::name::SubfilePath;
use sfio_remote::replication::{Compression, SignedRecord};
use sfio_remote::sim::{Dice, identity_of};

/// Why a command failed: the exit code, and its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) words: String,
}

type Result<T> = std::result::Result<T, Failure>;

/// Codes with which a command says that something is gone: an export root has lost its identity or the data set is not
/// there at all, an I/O node is away, data is lost or damaged.
pub(crate) const SAYS_SO: [u8; 3] = [3, 4, 5];
/// Some entries were left out, each of which was named.
const PARTIAL: u8 = 7;

impl Failure {
    /// Whether it tells that something is gone.
    pub(crate) fn says_so(&self) -> bool {
        SAYS_SO.contains(&self.code)
    }
}

/// The wall clock of a machine.
pub(crate) type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Somebody who runs commands, in a process of a member.
#[derive(Clone)]
pub(crate) struct User {
    pub(crate) client: SfioClient,
    pub(crate) member: String,
    pub(crate) place: Place,
    /// What the machine remembers.
    pub(crate) cache: ManifestCache,
    pub(crate) accepts_older: bool,
    pub(crate) patience: Duration,
    pub(crate) dice: Arc<Mutex<Dice>>,
    pub(crate) clock: Clock,
}

/// Where the data set is, and who may have to do with it.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) io_nodes: Vec<String>,
    pub(crate) stripe_unit: StripeUnit,
    pub(crate) keys: Arc<BTreeMap<String, [u8; 32]>>,
}

/// How a tree is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SyncOptions {
    pub(crate) keep: usize,
    pub(crate) checksum: bool,
    pub(crate) if_current: bool,
}

/// What `sfio generations` prints.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub(crate) numbers: Vec<u64>,
    pub(crate) current: u64,
    /// The number of the generation that comes next.
    pub(crate) next: u64,
}

impl User {
    fn job(&self) -> Job {
        let site = Site {
            name: "site".to_owned(),
            io_nodes: self.place.io_nodes.clone(),
            stripe_unit: self.place.stripe_unit,
        };
        let name = SubfilePath::new("set").expect("a name");
        let dice = Arc::clone(&self.dice);
        Job {
            dataset: DataSet::new(&self.client, &site, name).expect("a free name"),
            author: Author { member: self.member.clone(), identity: identity_of(&self.member) },
            keys: Arc::clone(&self.place.keys),
            cache: self.cache.clone(),
            accepts_older: self.accepts_older,
            patience: self.patience,
            meter: Arc::default(),
            random: Arc::new(move || {
                let mut dice = dice.lock().unwrap_or_else(PoisonError::into_inner);
                std::array::from_fn(|_| dice.below(256) as u8)
            }),
            clock: Arc::clone(&self.clock),
        }
    }

    /// `sfio sync TREE SITE:NAME`: the generation, and whether it is new.
    pub(crate) async fn sync(&self, tree: &Path, how: SyncOptions) -> Result<(u64, bool)> {
        let options = SendOptions {
            filter: everything(),
            obeys_ignore_files: false,
            at: None,
            attributes: Attributes::Ignored,
            jobs: 1,
            compression: Compression::Always(Codec::Zstd(Level::DEFAULT)),
            deletion: Deletion::AtMost(u64::MAX),
            distrusts_times: how.checksum,
            keep: how.keep,
            is_dry_run: false,
            ends_when_overtaken: how.if_current,
            wants_something: true,
            is_on_one_file_system: false,
            host: self.member.clone(),
            tag: None,
        };
        let sent = send(&self.job(), tree, &options, |_, _| {}).await.map_err(failure)?;
        if let Some(problem) = sent.summary.problems.first() {
            return Err(Failure { code: PARTIAL, words: problem.to_string() });
        }
        Ok((sent.generation.expect("no dry run"), sent.is_new))
    }

    /// `sfio sync SITE:NAME TARGET --generation N`.
    pub(crate) async fn restore(&self, generation: u64, target: &Path) -> Result<()> {
        let job = self.job();
        let restored = async {
            let reading = Reading::begin(&job).await?;
            let generation = reading.generation(Some(generation))?;
            let manifest = reading.manifest(generation).await?;
            let wanted =
                Wanted { top: &generation.top, manifest: &manifest, objects: reading.objects(Source::Cache) };
            let options = RestoreOptions {
                filter: everything(),
                attributes: Attributes::Ignored,
                deletes: true,
                distrusts_times: false,
                owners: false,
                is_dry_run: false,
            };
            let meter = Arc::<Meter>::default();
            let restored = restore(&wanted, target, &options, &meter, |_, _| {}).await;
            let summary = reading.unless_removed(generation, restored).await?;
            if !summary.problems.is_empty() && reading.has_removed(generation).await {
                return Err(ReplicationError::Removed(generation.number));
            }
            Ok(summary)
        };
        let summary = restored.await.map_err(failure)?;
        match summary.problems.first() {
            None => Ok(()),
            Some(problem) if summary.damaged > 0 => Err(Failure { code: 5, words: problem.to_string() }),
            Some(problem) => Err(Failure { code: PARTIAL, words: problem.to_string() }),
        }
    }

    /// `sfio generations SITE:NAME`; a data set that was removed is listed as an empty one.
    pub(crate) async fn generations(&self) -> Result<Listed> {
        let record = self.newest().await?;
        let numbers = record.generations.iter().map(|generation| generation.number).collect();
        Ok(Listed { numbers, current: record.current, next: record.next_generation })
    }

    /// The newest record, of a data set that was removed, too.
    pub(crate) async fn newest(&self) -> Result<Arc<SignedRecord>> {
        let newest = self.job().open().await.map_err(failure)?.newest;
        newest.ok_or_else(|| failure(ReplicationError::NoDataSet))
    }

    /// What I/O nodes disagree in, as far as they answer.
    pub(crate) async fn disagreements(&self) -> Vec<String> {
        self.job().open().await.map_or_else(|_| Vec::new(), |view| view.disagreements)
    }

    /// `sfio verify SITE:NAME`.
    pub(crate) async fn verify(&self) -> Result<()> {
        let (job, mut words) = (self.job(), String::new());
        let verified = verify(&job, VerifyOptions::default(), |finding| {
            words.push_str(&format!("{finding:?}; "));
        });
        let findings = verified.await.map_err(failure)?.findings;
        match findings {
            0 => Ok(()),
            _ => Err(Failure { code: 5, words }),
        }
    }

    /// `sfio rollback SITE:NAME GENERATION`.
    pub(crate) async fn roll_back(&self, generation: u64) -> Result<()> {
        roll_back(&self.job(), generation).await.map(drop).map_err(failure)
    }

    /// `sfio forget SITE:NAME GENERATION`.
    pub(crate) async fn forget(&self, generation: u64) -> Result<()> {
        forget(&self.job(), &[generation]).await.map_err(failure)
    }

    /// `sfio forget SITE:NAME --all`.
    pub(crate) async fn remove(&self) -> Result<usize> {
        remove(&self.job()).await.map_err(failure)
    }

    /// `sfio repair SITE:NAME`.
    pub(crate) async fn repair(&self) -> Result<()> {
        let repaired = repair(&self.job()).await.map_err(failure)?;
        match repaired.lost.is_empty() && repaired.lost_parts.is_empty() {
            true => Ok(()),
            false => Err(Failure { code: 5, words: format!("{repaired:?}") }),
        }
    }
}

fn everything() -> Filter {
    Filter::default()
}

/// As the program ends.
fn failure(error: ReplicationError) -> Failure {
    Failure { code: error.kind() as u8, words: error.to_string() }
}
