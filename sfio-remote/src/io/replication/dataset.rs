//! Where a data set is on a site.
//!
//! ```text
//! NAME/objects/<run>      striped over all I/O nodes, from another one on for each run
//! NAME/journals/<run>     striped the same way
//! NAME/staged/<id>        the next record, whole, on every I/O node, until it is published
//! NAME/commits/<number>   the records, whole, on every I/O node; the first one decides
//! NAME/lock               empty, on the first I/O node; claimed by whoever writes, as a courtesy
//! ```

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::sync::OnceCell;

use super::error::is_missing;
use super::objects::Source;
use super::throttle::Throttle;
use crate::client::{Durability, OpenMode};
use crate::compression::Compression;
use crate::dataset::DatasetPath;
use crate::distribution::{Distribution, Fragment, StripeUnit};
use crate::io::{FileError, OpenOptions, SfioClient, StripedFile};
use crate::name::{ElementError, FileName, SubfileName, SubfilePath};
use crate::replication::RunId;

/// So much of a file is asked for at once, before its length is known.
const GUESS: u64 = 256 << 10;

/// I/O nodes that keep data sets together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Its name in the overlay.
    pub name: String,
    /// Its I/O nodes, which differ, in the order of striping; the first one decides which record is the next one.
    pub io_nodes: Vec<String>,
    /// How its files are striped.
    pub stripe_unit: StripeUnit,
}

/// A data set on the I/O nodes of a site. Clones share the connection and the limit of the rate.
#[derive(Debug, Clone)]
pub struct DataSet {
    client: SfioClient,
    site: Arc<str>,
    io_nodes: Arc<[String]>,
    stripe_unit: StripeUnit,
    path: Arc<DatasetPath>,
    throttle: Arc<Throttle>,
}

/// A file that is opened when it is needed, or a little before, and once only. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Opening {
    client: SfioClient,
    name: FileName,
    options: OpenOptions,
    file: Arc<OnceCell<Result<StripedFile, FileError>>>,
}

impl DataSet {
    /// The data set `name` on a site.
    ///
    /// # Errors
    /// If no data set can be called so.
    pub fn new(client: &SfioClient, site: &Site, name: SubfilePath) -> Result<DataSet, ElementError> {
        Ok(DataSet {
            client: client.clone(),
            site: site.name.as_str().into(),
            io_nodes: site.io_nodes.as_slice().into(),
            stripe_unit: site.stripe_unit,
            path: Arc::new(DatasetPath::new(name)?),
            throttle: Arc::default(),
        })
    }

    /// Another data set of the same site.
    ///
    /// # Errors
    /// If no data set can be called so.
    pub fn named(&self, name: SubfilePath) -> Result<DataSet, ElementError> {
        Ok(DataSet { path: Arc::new(DatasetPath::new(name)?), ..self.clone() })
    }

    /// The site's name.
    pub fn site(&self) -> &str {
        &self.site
    }

    /// The data set's name on the site.
    pub fn name(&self) -> &str {
        self.path.folder().as_str()
    }

    /// The I/O nodes of the site; the first one decides which record is the next one.
    pub fn io_nodes(&self) -> &[String] {
        &self.io_nodes
    }

    /// What limits the rate of everything that is written and read of objects.
    pub fn throttle(&self) -> &Arc<Throttle> {
        &self.throttle
    }

    pub(super) fn client(&self) -> &SfioClient {
        &self.client
    }

    pub(super) fn stripe_unit(&self) -> StripeUnit {
        self.stripe_unit
    }

    /// The data set, as I/O nodes know it.
    pub(super) fn path(&self) -> &DatasetPath {
        &self.path
    }

    /// A folder of the data set.
    pub(super) fn folder(&self, folder: &str) -> SubfilePath {
        SubfilePath::new(&format!("{}/{folder}", self.path)).expect("shorter than the names of files in it")
    }

    pub(super) fn lock(&self) -> FileName {
        self.on(&self.io_nodes[..1], &self.path.lock())
    }

    /// The commit record of format 1.
    pub(super) fn commit_of_version_1(&self) -> FileName {
        self.on(&self.io_nodes[..1], &self.folder("commit"))
    }

    pub(super) fn object(&self, run: RunId) -> FileName {
        self.striped(&self.path.object(run), run)
    }

    pub(super) fn journal(&self, run: RunId) -> FileName {
        self.striped(&self.path.journal(run), run)
    }

    pub(super) fn record(&self, io_node: &str, number: u64) -> FileName {
        self.on(&[io_node.to_owned()], &self.path.commit(number))
    }

    pub(super) fn staged(&self, io_node: &str, id: RunId) -> FileName {
        self.on(&[io_node.to_owned()], &self.path.staged(id))
    }

    /// The part of an object that one I/O node keeps.
    pub(super) fn object_part(&self, io_node: &str, run: RunId) -> FileName {
        self.on(&[io_node.to_owned()], &self.path.object(run))
    }

    /// One of the files, not yet open.
    pub(super) fn opening(&self, name: FileName, mode: OpenMode, durability: Durability) -> Opening {
        // Chunks are compressed before they become a part of an object; the rest is small.
        let options = OpenOptions::new().mode(mode).stripe_unit(self.stripe_unit).durability(durability);
        let options = options.compression(Compression::Never);
        Opening { client: self.client.clone(), name, options, file: Arc::default() }
    }

    /// All of one of the files, but of one that is longer than `limit` only so much; none if a subfile is missing. One
    /// round trip if it is small.
    pub(super) async fn read_whole(
        &self,
        name: &FileName,
        limit: usize,
        source: Source,
    ) -> Result<Option<Bytes>, FileError> {
        self.read_whole_if(name, limit, source, |_| true).await
    }

    /// The same, but none as well if the beginning of the file is not `wanted`: then no more than that is read of it.
    pub(super) async fn read_whole_if(
        &self,
        name: &FileName,
        limit: usize,
        source: Source,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<Bytes>, FileError> {
        let mut whole = BytesMut::new();
        let mut ask = GUESS;
        while whole.len() < limit {
            let (unit, offset) = (self.stripe_unit, whole.len() as u64);
            let more = match source {
                Source::Cache => self.client.read_at(name, unit, offset, ask).await,
                Source::Disk => self.client.read_from_disk(name, unit, offset, ask).await,
            };
            let more = match more {
                Err(error) if is_missing(&error) => return Ok(None),
                more => more?,
            };
            let is_end = (more.len() as u64) < ask;
            if whole.is_empty() && !wanted(&more) {
                return Ok(None);
            }
            if whole.is_empty() && is_end {
                return Ok(Some(more));
            }
            whole.extend_from_slice(&more);
            if is_end {
                break;
            }
            ask = 8 * GUESS;
        }
        Ok(Some(whole.freeze()))
    }

    /// Up to which offset an object is there, if the I/O nodes have so many bytes of it, in their own order.
    pub(super) fn reach(&self, run: RunId, sizes: &[u64]) -> u64 {
        let mut sizes = sizes.to_vec();
        sizes.rotate_left(self.first_of(run));
        self.distribution().structure(&sizes).whole_length()
    }

    /// What is missing of the first `length` bytes of an object, ascending, if the I/O nodes have so many bytes of it,
    /// in their own order. If that would be more than `most` pieces, it is all from the first one on.
    pub(super) fn missing(&self, run: RunId, sizes: &[u64], length: u64, most: usize) -> Vec<Fragment> {
        let mut sizes = sizes.to_vec();
        sizes.rotate_left(self.first_of(run));
        let mut missing: Vec<Fragment> = self.distribution().missing(&sizes, length).take(most + 1).collect();
        if missing.len() > most {
            let logical_offset = self.distribution().structure(&sizes).whole_length();
            return vec![Fragment { logical_offset, length: length.saturating_sub(logical_offset) }];
        }
        missing.sort_unstable_by_key(|fragment| fragment.logical_offset);
        missing
    }

    /// How many bytes each I/O node has of the first `length` of an object, in their own order.
    pub(super) fn part_sizes(&self, run: RunId, length: u64) -> Vec<u64> {
        let distribution = self.distribution();
        let size = |subfile| distribution.subfile_size(subfile, length);
        let mut sizes: Vec<u64> = distribution.subfiles().map(size).collect();
        sizes.rotate_right(self.first_of(run));
        sizes
    }

    fn distribution(&self) -> Distribution {
        Distribution::new(self.stripe_unit, self.io_nodes.len())
            .expect("a site has not more I/O nodes than a file subfiles")
    }

    /// Which I/O node a run's files begin with.
    fn first_of(&self, run: RunId) -> usize {
        (u128::from_be_bytes(run.0) % self.io_nodes.len() as u128) as usize
    }

    /// A file over all I/O nodes, beginning with another one for each run.
    fn striped(&self, path: &SubfilePath, run: RunId) -> FileName {
        let mut io_nodes = self.io_nodes.to_vec();
        io_nodes.rotate_left(self.first_of(run));
        self.on(&io_nodes, path)
    }

    fn on(&self, io_nodes: &[String], path: &SubfilePath) -> FileName {
        let subfiles = io_nodes.iter().map(|io_node| SubfileName::new(io_node, path.as_str()));
        let subfiles = subfiles.collect::<Result<_, _>>().expect("the data set's name was checked");
        FileName::new(subfiles).expect("a site's I/O nodes differ")
    }
}

impl Opening {
    /// The open file. What could not be opened once stays so: part of it may have been created, and is not created
    /// again.
    pub(super) async fn file(&self) -> Result<&StripedFile, FileError> {
        let opened = self.file.get_or_init(|| self.options.open(&self.client, &self.name)).await;
        opened.as_ref().map_err(Clone::clone)
    }

    /// Begins to open it. If that fails, those that need the file are told.
    pub(super) fn begin(&self) {
        let opening = self.clone();
        tokio::spawn(async move {
            let _ = opening.file().await;
        });
    }
}
