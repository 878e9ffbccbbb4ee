//! `sfio sync` from a site: a generation becomes a tree.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use program::output::Telling;
use sfio_remote::io::replication::{
    Filter, Job, Mended, Reading, ReplicationError, RestoreOptions, Source, Subtree, Summary, Wanted, restore,
};
use sfio_remote::replication::TreePath;

use super::super::address::Address;
use super::super::rate::Limiting;
use super::super::report::{Report, teller};
use super::super::{counted, failure, warn};
use super::Options;
use crate::client::Session;
use crate::exit::{Exit, Failure, OrFail as _};

/// A generation, or a part of one, that is to be fetched.
pub(super) struct Download<'a> {
    session: &'a Session,
    source: &'a Address,
    target: &'a Path,
    options: &'a Options,
}

/// A data set that was found, and the path in it that is wanted, if it is not all of it.
struct Found {
    address: Address,
    path: Option<TreePath>,
    reading: Reading,
}

impl<'a> Download<'a> {
    pub(super) fn new(
        session: &'a Session,
        source: &'a Address,
        target: &'a Path,
        options: &'a Options,
    ) -> Download<'a> {
        Download { session, source, target, options }
    }

    /// Fetches what `filter` leaves of it.
    pub(super) async fn run(&self, filter: Filter) -> Result<(), Failure> {
        let (target, options) = (self.target, self.options);
        let (shortest, _) = self.source.meanings().last().expect("a name has a meaning");
        let job = options.care.job(self.session, &shortest)?;
        options.care.follow(self.session, &job.meter);
        let (meter, throttle) = (Arc::clone(&job.meter), Arc::clone(job.dataset.throttle()));
        let limiting = Limiting::of(options.bwlimit.as_ref(), &throttle);
        let board = options.board("fetching", &meter, self.session);
        let started = Instant::now();
        let Found { address: source, path, reading } = self.find(job).await?;
        let failed = |error| failure(&source, &error);
        let generation = reading.generation(options.generation).map_err(failed)?;
        let number = generation.number;
        let manifest = reading.manifest(generation).await.map_err(failed)?;
        let Subtree { top, manifest } = match &path {
            None => Subtree { top: generation.top.clone(), manifest },
            Some(path) => {
                let subtree = Subtree::of(generation, &manifest, path).or_fail(Exit::Failed, &source)?;
                let missing = format!("generation {number} of {source} has no {path}");
                subtree.ok_or(Failure::new(Exit::Input, missing))?
            }
        };
        let wanted = Wanted { top: &top, manifest: &manifest, objects: reading.objects(Source::Cache) };
        let how = options.how_to_restore(filter);
        self.count_deletions(&source, &wanted, &how).await?;
        let telling = Telling::default();
        let restored = restore(&wanted, target, &how, &meter, teller(options, &telling)).await;
        drop((board, limiting));
        warn(&reading.disagreements, &source);
        let summary = reading.unless_removed(generation, restored).await.map_err(failed)?;
        if !summary.problems.is_empty() && reading.has_removed(generation).await {
            return Err(failed(ReplicationError::Removed(number)));
        }
        if !options.patterns.are_none() && selects_nothing(&summary) {
            let message = format!("{source}: the patterns and lists leave nothing of generation {number}");
            return Err(Failure::new(Exit::Input, message));
        }
        let part = path.map_or_else(String::new, |path| format!("{path} of "));
        let line = self.last_line(&summary, &format!("{part}generation {number} of {source}"));
        let report = Report {
            bytes: summary.bytes,
            summary,
            meter,
            took: started.elapsed(),
            generation: Some(number),
            is_new: true,
            resumed: 0,
            mended: Mended::default(),
            warnings: Vec::new(),
            line,
        };
        report.end(&telling, options)
    }

    /// What the target is now, if that was to be `wanted`.
    fn last_line(&self, summary: &Summary, wanted: &str) -> String {
        let target = self.target.display();
        match summary.problems.is_empty() {
            _ if self.options.dry_run => "nothing was changed".to_owned(),
            true => format!("{target} is {wanted} now"),
            false => format!("{target} is not all of {wanted}"),
        }
    }

    /// Refuses to delete more than --max-delete allows.
    async fn count_deletions(
        &self,
        source: &Address,
        wanted: &Wanted<'_>,
        how: &RestoreOptions,
    ) -> Result<(), Failure> {
        let Some(allowed) = self.options.max_delete else { return Ok(()) };
        let dry = RestoreOptions { is_dry_run: true, ..how.clone() };
        let dry_run = restore(wanted, self.target, &dry, &Arc::default(), |_, _| {}).await;
        let found = dry_run.map_err(|error| failure(source, &error))?.deleted;
        if found <= allowed {
            return Ok(());
        }
        let message =
            format!("{} would be deleted; --max-delete allows {allowed}", counted(found, "entry", "entries"));
        Err(Failure::new(Exit::Failed, message))
    }

    /// The data set of that name; or else one of a shorter name, of which the rest is a path.
    async fn find(&self, job: Job) -> Result<Found, Failure> {
        for (address, path) in self.source.meanings() {
            // No data set is called as its own folders are, but a directory in one may be.
            let Ok(dataset) = job.dataset.named(address.dataset().clone()) else { continue };
            match Reading::begin(&Job { dataset, ..job.clone() }).await {
                Ok(reading) => return Ok(Found { address, path, reading }),
                Err(ReplicationError::NoDataSet) => {}
                Err(error) => return Err(failure(&address, &error)),
            }
        }
        Err(failure(self.source, &ReplicationError::NoDataSet))
    }
}

/// Whether no entry took part.
fn selects_nothing(summary: &Summary) -> bool {
    let Summary { new, changed, touched, mended, unchanged, deleted, .. } = summary;
    summary.problems.is_empty() && new + changed + touched + mended + unchanged + deleted == 0
}
