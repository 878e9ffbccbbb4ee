//! How careful and how patient a command on a data set is, and what it needs to begin.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use sfio_remote::io::Patience;
use sfio_remote::io::replication::{Author, Awaited, DataSet, Job, ManifestCache, Meter, Wait};
use tokio::time::Instant;

use super::address::Address;
use crate::client::{Endurance, Identification, Session};
use crate::exit::{Exit, Failure, OrFail as _};
use crate::random::random_bytes;
use crate::silence::{self, Silence};

/// Which member to be, how long to wait for the network, and what to believe.
#[derive(Debug, clap::Args)]
pub(super) struct Care {
    #[command(flatten)]
    endurance: Endurance,

    /// Go on although this machine has seen a newer state of the data set than there is now
    #[arg(long)]
    accept_older: bool,

    #[command(flatten)]
    identification: Identification,
}

impl Care {
    /// Does `work` as that member.
    pub(super) fn work(
        &self,
        address: &Address,
        work: impl AsyncFnOnce(&Session, Job) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.as_member(async |session| work(session, self.job(session, address)?).await)
    }

    /// Does `work` as that member, in whose outages sessions wait.
    pub(super) fn as_member(
        &self,
        work: impl AsyncFnOnce(&Session) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.identification.work_patiently(self.endurance.limit(), work)
    }

    /// How long to wait for I/O nodes that were there.
    pub(super) fn patience(&self) -> Arc<Patience> {
        Arc::new(Patience::new(self.endurance.limit()))
    }

    /// What a command on that data set needs.
    pub(super) fn job(&self, session: &Session, address: &Address) -> Result<Job, Failure> {
        let site = address.site(session)?;
        let members = session.overlay().listed_members();
        let keys = members.map(|(_, member)| (member.name.clone(), member.keys.ed25519)).collect();
        // A first look, so that later there is always something to draw from.
        random_bytes::<16>()?;
        let meter = self.meter(session);
        let dataset = DataSet::new(session.client(), &site, address.dataset().clone());
        Ok(Job {
            dataset: dataset.or_fail(Exit::Usage, address)?,
            author: Author { member: session.member_name().to_owned(), identity: session.identity().clone() },
            keys: Arc::new(keys),
            cache: cache(),
            accepts_older: self.accept_older,
            patience: self.endurance.limit(),
            meter,
            random: Arc::new(|| random_bytes().expect("the operating system had random numbers before")),
            clock: Arc::new(now_ms),
        })
    }
}

impl Care {
    /// How far a command is, and what its sessions wait for.
    fn meter(&self, session: &Session) -> Arc<Meter> {
        let (meter, limit) = (Arc::<Meter>::default(), self.endurance.limit());
        let told = Arc::downgrade(&meter);
        silence::watch(session.client(), move |longest| {
            let wait = longest.and_then(|Silence { member, time }| {
                let since = Instant::now().checked_sub(time)?;
                let what = format!("nothing is heard from {member}");
                Some(Wait { awaited: Awaited::Network, what, since, limit })
            });
            told.upgrade().is_some_and(|meter| {
                meter.set_silence(wait);
                true
            })
        });
        meter
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// Where this machine remembers data sets: $XDG_CACHE_HOME/sfio, or ~/.cache/sfio.
fn cache() -> ManifestCache {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(std::path::PathBuf::from);
    let folder = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    folder.map_or_else(ManifestCache::none, |folder| ManifestCache::in_folder(&folder.join("sfio")))
}
