//! Which data sets there are on a site.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::task::JoinSet;

use super::chain::View;
use super::dataset::Site;
use super::error::{Outcome, ReplicationError, answer_of};
use super::job::Job;
use crate::client::Durability;
use crate::dataset::{DatasetFile, DatasetPath, Territory, record_number};
use crate::io::{FileError, Patience, SfioClient};
use crate::name::SubfilePath;
use crate::remote_error::ErrorKind;
use crate::store::{Entry, EntryKind};

/// How many folders, or data sets, are asked about at once.
const AT_ONCE: usize = 32;

/// What the I/O nodes of a site have. Each has the records of every data set, unless it has lost them: what any of them
/// has is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalog {
    /// The names of the data sets, those that were removed among them.
    pub datasets: BTreeSet<SubfilePath>,
    /// Folders in which runs have left something, and of which no I/O node has a record: nothing was published there
    /// yet.
    pub unfinished: BTreeSet<SubfilePath>,
    /// Folders that this member may not look into.
    pub closed: BTreeSet<SubfilePath>,
}

/// The data sets of several jobs as their I/O nodes know them, by name; they are asked about side by side.
pub async fn open_all(jobs: impl IntoIterator<Item = Job>) -> BTreeMap<SubfilePath, Outcome<View>> {
    let (mut jobs, mut errands) = (jobs.into_iter(), JoinSet::new());
    let mut views = BTreeMap::new();
    loop {
        while errands.len() < AT_ONCE
            && let Some(job) = jobs.next()
        {
            errands.spawn(async move { (job.dataset.path().folder().clone(), open(job).await) });
        }
        let Some(done) = errands.join_next().await else { return views };
        views.extend([done.expect("errands do not panic, and nobody aborts them")]);
    }
}

/// As [`Job::open`], in a form that a task of its own can have.
async fn open(job: Job) -> Outcome<View> {
    let mut waiting = super::job::Patience::of(&job).waiting();
    loop {
        let view = job.look_around(Durability::None).await;
        match view.as_ref().err().and_then(|error| error.outage()) {
            Some(outage) if waiting.lasts(outage).await => {}
            _ => return view,
        }
    }
}

/// A folder that was looked into.
enum Look {
    /// It has the records of this data set.
    Records(DatasetPath),
    /// Runs have left something of this data set in it.
    Remains(DatasetPath),
    /// These folders are in it.
    Folders(Vec<SubfilePath>),
    /// This member may not look into it.
    Closed,
}

impl Catalog {
    /// Looks through all folders beneath `top` on all I/O nodes.
    ///
    /// # Errors
    /// If an I/O node fails, or this member may not look into `top` itself.
    pub async fn look_through(
        client: &SfioClient,
        site: &Site,
        top: &SubfilePath,
        patience: &Arc<Patience>,
    ) -> Outcome<Catalog> {
        let mut errands = JoinSet::new();
        for io_node in &site.io_nodes {
            let (client, io_node) = (client.clone(), io_node.clone());
            let (top, patience) = (top.clone(), Arc::clone(patience));
            errands.spawn(async move { Catalog::of_one(&client, &io_node, &top, &patience).await });
        }
        let mut catalog = Catalog::default();
        while let Some(done) = errands.join_next().await {
            let Catalog { datasets, unfinished, closed } =
                done.expect("errands do not panic, and nobody aborts them")?;
            catalog.datasets.extend(datasets);
            catalog.unfinished.extend(unfinished);
            catalog.closed.extend(closed);
        }
        // Whoever may not look into a folder on one I/O node cannot read what is in it.
        let Catalog { datasets, unfinished, closed } = &mut catalog;
        let is_open = |name: &SubfilePath| !closed.iter().any(|folder| name.is_beneath(folder));
        datasets.retain(is_open);
        unfinished.retain(|name| is_open(name) && !datasets.contains(name));
        Ok(catalog)
    }

    /// What one I/O node has.
    async fn of_one(
        client: &SfioClient,
        io_node: &str,
        top: &SubfilePath,
        patience: &Arc<Patience>,
    ) -> Outcome<Catalog> {
        let mut catalog = Catalog::default();
        let (mut waiting, mut errands) = (vec![top.clone()], JoinSet::new());
        loop {
            while errands.len() < AT_ONCE
                && let Some(folder) = waiting.pop()
            {
                let (client, io_node) = (client.clone(), io_node.to_owned());
                let patience = Arc::clone(patience);
                errands.spawn(async move {
                    (patience.retry(|| look_into(&client, &io_node, &folder)).await, folder)
                });
            }
            let Some(done) = errands.join_next().await else { return Ok(catalog) };
            let (look, folder) = done.expect("errands do not panic, and nobody aborts them");
            match look {
                Ok(Look::Folders(folders)) => waiting.extend(folders),
                Ok(Look::Records(dataset)) => drop(catalog.datasets.insert(dataset.folder().clone())),
                Ok(Look::Remains(dataset)) => drop(catalog.unfinished.insert(dataset.folder().clone())),
                Ok(Look::Closed) if folder != *top => drop(catalog.closed.insert(folder)),
                Ok(Look::Closed) => return Err(ReplicationError::Closed(folder)),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The data set of which an entry of a folder is what a run has left.
fn remains_of(folder: &SubfilePath, entry: &Entry) -> Option<DatasetPath> {
    let path = folder.join(&entry.name).ok().filter(|_| entry.kind != EntryKind::Folder)?;
    let is_of_run = matches!(Territory::of(&path), Territory::Dataset(kind) if kind != DatasetFile::Commit);
    let (dataset, _) = folder.as_str().rsplit_once('/').filter(|_| is_of_run)?;
    DatasetPath::new(SubfilePath::new(dataset).ok()?).ok()
}

async fn look_into(client: &SfioClient, io_node: &str, folder: &SubfilePath) -> Result<Look, FileError> {
    let dataset = DatasetPath::with_commits_in(folder);
    let (mut paths, mut after) = (Vec::new(), None);
    loop {
        let page = match client.list(io_node, folder, after.as_ref(), Durability::None).await {
            Err(error) if answer_of(&error) == Some(ErrorKind::PermissionDenied) => return Ok(Look::Closed),
            page => page?,
        };
        if let Some(dataset) = &dataset
            && page.entries.iter().any(|entry| record_number(&entry.name).is_some())
        {
            return Ok(Look::Records(dataset.clone()));
        }
        if let Some(dataset) = page.entries.iter().find_map(|entry| remains_of(folder, entry)) {
            return Ok(Look::Remains(dataset));
        }
        after = page.entries.last().map(|entry| entry.name.clone());
        let folders = page.entries.iter().filter(|entry| entry.kind == EntryKind::Folder);
        paths.extend(folders.filter_map(|entry| folder.join(&entry.name).ok()));
        if !page.more {
            break;
        }
    }
    paths.retain(|path| Territory::of(path) != Territory::Reserved);
    Ok(Look::Folders(paths))
}
