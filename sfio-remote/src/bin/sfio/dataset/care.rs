//! How careful and how patient a command on a data set is, and what it needs to begin.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sfio_remote::io::Patience;
use sfio_remote::io::replication::{Author, Awaited, DataSet, Job, ManifestCache, Meter, Site, Wait};
use sfio_remote::name::SubfilePath;

use super::address::Address;
use crate::client::{Endurance, Identification, Session};
use crate::exit::{Exit, Failure, OrFail as _};
use crate::outages::Witness;
use crate::random::random_bytes;
use crate::silence::{self, Silence};

/// An outage is over when so many looks in a row, which are two seconds, see nothing wait: what is left over of one
/// node's work moves for a while when another one is gone.
const CALM_LOOKS: u32 = 8;

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
        self.as_member(async |session| {
            let job = self.job(session, address)?;
            self.follow(session, &job.meter);
            work(session, job).await
        })
    }

    /// Does `work` as that member, in whose outages sessions wait.
    pub(super) fn as_member(
        &self,
        work: impl AsyncFnOnce(&Session) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.identification.work_patiently(self.endurance.limit(), work)
    }

    /// How long to wait for I/O nodes that were there.
    pub(super) fn patience(&self, session: &Session) -> Arc<Patience> {
        self.endurance.patience_with_calls(session)
    }

    /// What a command on that data set needs.
    pub(super) fn job(&self, session: &Session, address: &Address) -> Result<Job, Failure> {
        let site = address.site(session)?;
        // A first look, so that later there is always something to draw from.
        random_bytes::<16>()?;
        let dataset = DataSet::new(session.client(), &site, address.dataset().clone());
        Ok(Job {
            dataset: dataset.or_fail(Exit::Usage, address)?,
            author: Author { member: session.member_name().to_owned(), identity: session.identity().clone() },
            keys: Arc::new(keys(session)),
            cache: cache(),
            accepts_older: self.accept_older,
            patience: self.endurance.limit(),
            meter: Arc::default(),
            random: Arc::new(|| random_bytes().expect("the operating system had random numbers before")),
            clock: Arc::new(now_ms),
        })
    }
}

impl Care {
    /// The data sets of a site that this machine has seen, unless it is not to insist on them.
    pub(super) fn remembered(&self, session: &Session, site: &Site) -> BTreeSet<SubfilePath> {
        let key = site.io_nodes.first().and_then(|first| keys(session).get(first).copied());
        if self.accept_older { BTreeSet::new() } else { cache().datasets_of(site, key.unwrap_or_default()) }
    }

    /// Says on the meter which sessions wait, and tells outages of what the meter says, as long as there is one.
    pub(super) fn follow(&self, session: &Session, meter: &Arc<Meter>) {
        let (outages, limit) = (Arc::clone(session.outages()), self.endurance.limit());
        let (followed, mut calm_looks) = (Arc::downgrade(meter), None);
        silence::watch(session.client(), move |longest| {
            let Some(meter) = followed.upgrade() else { return false };
            meter.set_silence(longest.map(|silence| awaited(&silence, limit)));
            match meter.waiting().filter(|wait| wait.awaited == Awaited::Network) {
                Some(wait) => {
                    calm_looks = Some(0);
                    outages.begin(Witness::Run, &wait.what, wait.since, wait.limit);
                }
                // What has not waited yet, as the next run of `--watch`, does not know that an outage is over.
                None => {
                    calm_looks = calm_looks.map(|looks| looks + 1);
                    if calm_looks.take_if(|looks| *looks >= CALM_LOOKS).is_some() {
                        outages.end(Witness::Run);
                    }
                }
            }
            true
        });
    }
}

/// What a session with a silent I/O node waits for.
fn awaited(silence: &Silence, limit: Duration) -> Wait {
    Wait { awaited: Awaited::Network, what: silence.to_string(), since: silence.since(), limit }
}

/// The keys of all members, by their names.
fn keys(session: &Session) -> BTreeMap<String, [u8; 32]> {
    let members = session.overlay().listed_members();
    members.map(|(_, member)| (member.name.clone(), member.keys.ed25519)).collect()
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
