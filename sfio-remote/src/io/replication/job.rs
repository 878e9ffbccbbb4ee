//! What every command on a data set needs, and how it lives through outages.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fec_transport::keys::Identity;
use tokio::time::{Instant, sleep};

use super::cache::ManifestCache;
use super::dataset::DataSet;
use super::error::Outcome;
use super::meter::{Awaited, Meter};
use crate::io::FileError;
use crate::replication::{Deed, Hash, Record, RunId, SignedRecord, Signer, Token};

/// How long a command waits for the network when nobody says anything else.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// The pause before something that failed is asked again.
const PAUSE: Duration = Duration::from_millis(250);

/// What every command on a data set needs.
#[derive(Clone)]
pub struct Job {
    /// The data set.
    pub dataset: DataSet,
    /// The member that the command is.
    pub author: Author,
    /// The Ed25519 keys of the members that may have signed records, by the members' names.
    pub keys: Arc<BTreeMap<String, [u8; 32]>>,
    /// What this machine remembers.
    pub cache: ManifestCache,
    /// Whether to go on with a data set that has gone back since this machine last saw it.
    pub accepts_older: bool,
    /// How long to wait for an I/O node that does not answer.
    pub patience: Duration,
    /// How far the command is.
    pub meter: Arc<Meter>,
    /// Draws random bytes.
    pub random: Arc<dyn Fn() -> [u8; 16] + Send + Sync>,
    /// The time of now, ms since 1970; only for people to read.
    pub clock: Arc<dyn Fn() -> u64 + Send + Sync>,
}

/// A member that may sign records.
#[derive(Debug, Clone)]
pub struct Author {
    /// Its name in the overlay.
    pub member: String,
    /// Its key.
    pub identity: Identity,
}

impl Author {
    /// As records name it.
    pub fn signer(&self) -> Signer {
        Signer { member: self.member.clone(), key: self.identity.public().ed25519 }
    }
}

impl Job {
    /// The first record of a new data set; it has no generation yet.
    pub(super) fn first_record(&self, token: Token) -> Record {
        Record {
            token,
            site: self.dataset.site().to_owned(),
            name: self.dataset.name().to_owned(),
            number: 1,
            predecessor: Hash::ZERO,
            run: self.draw(),
            signer: self.author.signer(),
            published_ms: (self.clock)(),
            deed: Deed::Publish,
            current: 0,
            generations: Vec::new(),
            next_generation: 1,
            objects: Vec::new(),
            next_object: 0,
            damaged: Vec::new(),
            healed: Vec::new(),
            condemned: Vec::new(),
            origins: Vec::new(),
        }
    }

    /// What a record has that follows `before`, or is the first one; its run is a new one.
    pub(super) fn successor(&self, before: &SignedRecord, deed: Deed) -> Record {
        Record {
            number: before.number + 1,
            predecessor: before.hash(),
            run: self.draw(),
            signer: self.author.signer(),
            published_ms: (self.clock)(),
            deed,
            ..before.record().clone()
        }
    }

    /// A run id that nobody else has.
    pub(super) fn draw(&self) -> RunId {
        RunId((self.random)())
    }

    /// The same without patience: for what is part of something that is patient.
    pub(super) fn impatient(&self) -> Job {
        Job { patience: Duration::ZERO, ..self.clone() }
    }

    /// Does something that can be done again until it works, or until the network has failed for longer than the
    /// patience.
    pub(super) async fn patiently<T>(
        &self,
        work: impl AsyncFnMut() -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        Patience::of(self).last_through(work, |error| super::error::is_outage(error).then_some(error)).await
    }

    /// The same for what fails in more ways.
    pub(super) async fn persistently<T>(&self, work: impl AsyncFnMut() -> Outcome<T>) -> Outcome<T> {
        Patience::of(self).last_through(work, |error| error.outage()).await
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("dataset", &self.dataset).finish_non_exhaustive()
    }
}

/// Waits for the network, and says on the meter what for. It is as long as the patience since something last moved.
#[derive(Debug, Clone)]
pub(super) struct Patience {
    limit: Duration,
    meter: Arc<Meter>,
}

impl Patience {
    pub(super) fn of(job: &Job) -> Patience {
        Patience { limit: job.patience, meter: Arc::clone(&job.meter) }
    }

    /// Does `work` again as long as it ends with an outage, which `outage` finds in its error.
    pub(super) async fn last_through<T, E>(
        &self,
        mut work: impl AsyncFnMut() -> Result<T, E>,
        outage: impl Fn(&E) -> Option<&FileError>,
    ) -> Result<T, E> {
        let mut waiting = self.waiting();
        loop {
            let error = match work().await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            match outage(&error) {
                Some(outage) if waiting.lasts(outage).await => {}
                _ => return Err(error),
            }
        }
    }

    /// Somebody who may have to wait.
    pub(super) fn waiting(&self) -> Waiting {
        Waiting { patience: self.clone(), since: None, moved: 0 }
    }
}

/// Somebody who may have to wait for the network, as long as this lives.
#[derive(Debug)]
pub(super) struct Waiting {
    patience: Patience,
    /// Since when nothing has moved; none before the first failure.
    since: Option<Instant>,
    /// What had moved when the waiting began: what moves ends the outage.
    moved: u64,
}

impl Waiting {
    /// Waits a little, because of `outage`; false if the patience is at its end. The time counts for which the session
    /// had waited before.
    pub(super) async fn lasts(&mut self, outage: &FileError) -> bool {
        let moved = Meter::get(&self.patience.meter.moved);
        let since = match self.since {
            Some(since) if moved == self.moved => since,
            _ => Instant::now().checked_sub(outage.silence()).unwrap_or_else(Instant::now),
        };
        if self.since.is_none() {
            self.patience.meter.begin_to_wait();
        }
        (self.since, self.moved) = (Some(since), moved);
        if since.elapsed() >= self.patience.limit {
            return false;
        }
        self.patience.meter.wait_for(Awaited::Network, outage.to_string(), since, self.patience.limit);
        sleep(PAUSE).await;
        true
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.since.is_some() {
            self.patience.meter.go_on();
        }
    }
}
