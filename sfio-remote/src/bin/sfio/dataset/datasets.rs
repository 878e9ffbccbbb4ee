//! `sfio datasets`: which data sets there are on a site.

use std::collections::BTreeSet;
use std::sync::Arc;

use indicatif::{BinaryBytes, HumanCount};
use program::Table;
use program::output::{self, Results};
use serde_json::{Value, json};
use sfio_remote::io::replication::{Catalog, Job, Meter, ReplicationError, View, open_all};
use sfio_remote::name::SubfilePath;
use sfio_remote::replication::SignedRecord;

use super::address::Scope;
use super::board::Board;
use super::care::Care;
use super::failure;
use super::generations::age;
use crate::client::Session;
use crate::exit::Failure;

/// List the data sets of a site
///
/// All folders are looked through, with what this member may read. A data set that was removed is listed as long as
/// something of it is kept for readers, and one of which nothing is published yet as long as runs have sent something.
/// One that this machine has seen, and that no I/O node knows any more, is told with exit code 5.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sfio datasets --overlay try local
  sfio datasets --overlay try local:photos --json")]
pub(crate) struct Options {
    /// The site, or a folder of it: SITE or SITE:FOLDER
    scope: Scope,

    /// Print JSON: an object for each data set
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    care: Care,
}

/// A data set that was asked about.
struct Known {
    name: SubfilePath,
    record: Arc<SignedRecord>,
}

/// What there is on a site.
struct Listing<'a> {
    scope: &'a Scope,
    known: Vec<Known>,
    /// Data sets of which nothing is published yet.
    unfinished: BTreeSet<SubfilePath>,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    options.care.as_member(async |session| {
        let scope = &options.scope;
        let (site, patience) = (scope.site(session)?, options.care.patience(session));
        let meter = Arc::<Meter>::default();
        options.care.follow(session, &meter);
        let waiting = Board::of_waiting(Arc::clone(&meter));
        let looked = Catalog::look_through(session.client(), &site, scope.folder(), &patience).await;
        let Catalog { mut datasets, unfinished, closed } = looked.map_err(|error| failure(scope, &error))?;
        datasets.extend(options.care.remembered(session, &site).into_iter().filter(|name| {
            name.is_beneath(scope.folder()) && !closed.iter().any(|folder| name.is_beneath(folder))
        }));
        for folder in closed {
            output::note(format_args!("sfio: {scope}: this member may not look into {folder}"));
        }
        let (known, failed) = ask(options, session, datasets, &meter).await?;
        drop(waiting);
        let listing = Listing { scope, known, unfinished };
        match options.json {
            true => print_json(&listing),
            false if listing.is_empty() && failed.is_none() => {
                output::line(format_args!("there is no data set in {scope}"))
            }
            false => output::print(table(&listing).folded(output::columns(None))),
        }?;
        if !options.json && !listing.unfinished.is_empty() {
            output::note(
                "unfinished: nothing is published yet; the next sync goes on, or `sfio forget --unfinished` removes it",
            );
        }
        failed.map_or(Ok(()), Err)
    })
}

/// What the data sets are now, in the order of their names, without those of which nothing is left; and the last
/// failure, after the others were said. That I/O nodes disagree is one: what is listed may not be all there is.
async fn ask(
    options: &Options,
    session: &Session,
    names: impl IntoIterator<Item = SubfilePath>,
    meter: &Arc<Meter>,
) -> Result<(Vec<Known>, Option<Failure>), Failure> {
    let job = |name| {
        let job = options.care.job(session, &options.scope.address(name))?;
        Ok(Job { meter: Arc::clone(meter), ..job })
    };
    let jobs = names.into_iter().map(job).collect::<Result<Vec<Job>, Failure>>()?;
    let (mut known, mut failed) = (Vec::new(), None::<Failure>);
    let mut fail = |name: &SubfilePath, error: &ReplicationError| {
        let earlier = failed.replace(failure(&options.scope.address(name.clone()), error));
        earlier.into_iter().for_each(|failure| output::note(format_args!("sfio: {failure}")));
    };
    for (name, view) in open_all(jobs).await {
        if let Err(error) = view.as_ref().map_or(Ok(()), View::writable) {
            fail(&name, &error);
        }
        match view.and_then(|view| view.newest.ok_or(ReplicationError::NoDataSet)) {
            Ok(record) if record.is_removed() && record.condemned.is_empty() => {}
            Ok(record) => known.push(Known { name, record }),
            Err(error) => fail(&name, &error),
        }
    }
    Ok((known, failed))
}

impl Listing<'_> {
    fn is_empty(&self) -> bool {
        self.known.is_empty() && self.unfinished.is_empty()
    }
}

fn print_json(listing: &Listing<'_>) -> Result<(), Failure> {
    let mut results = Results::open(None)?;
    for Known { name, record } in &listing.known {
        results.line(described(&format!("{}:{name}", record.site), Some(record)))?;
    }
    for name in &listing.unfinished {
        results.line(described(&listing.scope.address(name.clone()).to_string(), None))?;
    }
    results.close()
}

/// What there is to say of a data set; without a record nothing is published yet.
fn described(dataset: &str, record: Option<&SignedRecord>) -> Value {
    let current = record.and_then(|record| record.current());
    json!({
        "dataset": dataset, "removed": record.is_some_and(|record| record.is_removed()),
        "unfinished": record.is_none(), "generations": record.map_or(0, |record| record.generations.len()),
        "current": current.map(|current| current.number), "entries": current.map(|current| current.entries),
        "bytes": current.map(|current| current.bytes),
        "published_ms": current.map(|current| current.published_ms),
        "changed_ms": record.map(|record| record.published_ms),
        "changed_by": record.map(|record| &record.signer.member),
    })
}

fn table(listing: &Listing<'_>) -> Table {
    let mut table = Table::new(["data set", "generations", "entries", "size", "published", "changed by"]);
    for Known { name, record } in &listing.known {
        let [entries, size, published] = match record.current() {
            Some(current) => [
                HumanCount(current.entries).to_string(),
                BinaryBytes(current.bytes).to_string(),
                format!("{} ago", age(current.published_ms)),
            ],
            None => ["-".to_owned(), "-".to_owned(), format!("removed {} ago", age(record.published_ms))],
        };
        let (name, count) = (format!("{}:{name}", record.site), record.generations.len().to_string());
        table.push(vec![name, count, entries, size, published, record.signer.member.clone()]);
    }
    for name in &listing.unfinished {
        let name = listing.scope.address(name.clone()).to_string();
        table.push([name.as_str(), "0", "-", "-", "unfinished", "-"].map(str::to_owned).to_vec());
    }
    table
}
