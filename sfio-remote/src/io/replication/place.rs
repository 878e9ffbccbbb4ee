//! Where a data set is on a site, and how its files are read there.
//!
//! ```text
//! NAME/objects/00000007   striped over all I/O nodes, from another one on for each object
//! NAME/journal            striped
//! NAME/commit             whole, on the first I/O node
//! NAME/lock               empty, there; claimed by whoever writes
//! ```

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OnceCell;

use super::store::Objects;
use super::throttle::Throttle;
use crate::client::{Durability, OpenMode, OperationError};
use crate::distribution::StripeUnit;
use crate::io::{FileError, OpenOptions, SfioClient, StripedFile};
use crate::name::{FileName, SubfileName};
use crate::remote_error::ErrorKind;

/// Of a small file so much is asked for at once, before its length is known.
const GUESS: u64 = 256 << 10;

/// Where a data set is.
#[derive(Debug, Clone)]
pub struct Place {
    pub(super) client: SfioClient,
    io_nodes: Arc<[String]>,
    stripe_unit: StripeUnit,
    name: String,
    pub(super) throttle: Arc<Throttle>,
}

/// A file that is opened when it is needed, or a little before. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Opening {
    client: SfioClient,
    name: FileName,
    options: OpenOptions,
    file: Arc<OnceCell<StripedFile>>,
}

impl Place {
    pub(super) fn new(
        client: &SfioClient,
        io_nodes: &[String],
        stripe_unit: StripeUnit,
        name: &str,
    ) -> Place {
        Place {
            client: client.clone(),
            io_nodes: io_nodes.into(),
            stripe_unit,
            name: name.to_owned(),
            throttle: Arc::default(),
        }
    }

    /// The data set's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn lock(&self) -> FileName {
        self.on_first("lock")
    }

    pub(super) fn commit(&self) -> FileName {
        self.on_first("commit")
    }

    pub(super) fn next_commit(&self) -> FileName {
        self.on_first("commit.next")
    }

    pub(super) fn journal(&self) -> FileName {
        self.striped("journal", 0)
    }

    pub(super) fn object(&self, object: u32) -> FileName {
        self.striped(&format!("objects/{object:08}"), object as usize)
    }

    /// One of the files, not yet open.
    pub(super) fn opening(&self, name: FileName, mode: OpenMode, durability: Durability) -> Opening {
        let options = OpenOptions::new().mode(mode).stripe_unit(self.stripe_unit).durability(durability);
        Opening { client: self.client.clone(), name, options, file: Arc::default() }
    }

    /// All of one of the files, if it is there with all its subfiles. One round trip if it is small.
    pub(super) async fn read_whole(&self, name: &FileName) -> Result<Option<Bytes>, FileError> {
        match self.client.read_at(name, self.stripe_unit, 0, GUESS).await {
            Err(error) if is_missing(&error) => Ok(None),
            Ok(bytes) if bytes.len() as u64 == GUESS => {
                let file = StripedFile::open(&self.client, name, self.stripe_unit).await?;
                file.read_at(0, file.stat_when_opened().length()).await.map(Some)
            }
            bytes => bytes.map(Some),
        }
    }

    /// A file over all I/O nodes, beginning with another one for each `turn`.
    fn striped(&self, path: &str, turn: usize) -> FileName {
        let mut io_nodes = self.io_nodes.to_vec();
        io_nodes.rotate_left(turn % self.io_nodes.len());
        self.name_on(&io_nodes, path)
    }

    fn on_first(&self, path: &str) -> FileName {
        self.name_on(&self.io_nodes[..1], path)
    }

    fn name_on(&self, io_nodes: &[String], path: &str) -> FileName {
        let path = format!("{}/{path}", self.name);
        let subfiles = io_nodes.iter().map(|io_node| SubfileName::new(io_node, &path));
        let subfiles = subfiles.collect::<Result<_, _>>().expect("the data set's name was checked");
        FileName::new(subfiles).expect("a site's I/O nodes differ")
    }
}

impl Objects for Place {
    type Error = FileError;

    /// What is asked for was published, so it is there: the object need not be opened.
    fn read(
        &self,
        object: u32,
        offset: u64,
        length: u64,
    ) -> impl Future<Output = Result<Bytes, FileError>> + Send + 'static {
        let place = self.clone();
        async move {
            place.throttle.pass(length).await;
            let bytes =
                place.client.read_at(&place.object(object), place.stripe_unit, offset, length).await?;
            match length - bytes.len() as u64 {
                0 => Ok(bytes),
                missing => Err(FileError::EndOfFile { offset, length, missing }),
            }
        }
    }
}

impl Opening {
    /// The open file.
    pub(super) async fn file(&self) -> Result<&StripedFile, FileError> {
        self.file.get_or_try_init(|| self.options.open(&self.client, &self.name)).await
    }

    /// Begins to open it. If that fails, whoever needs the file tries again and is told.
    pub(super) fn begin(&self) {
        let opening = self.clone();
        tokio::spawn(async move {
            let _ = opening.file().await;
        });
    }
}

/// Whether a file, or a part of it, does not exist: a crash while it was made leaves subfiles missing.
pub(super) fn is_missing(error: &FileError) -> bool {
    match error {
        FileError::Operation(OperationError::IoNode { error, .. }) => error.kind == ErrorKind::NotFound,
        FileError::Operation(OperationError::NotFound { .. } | OperationError::Incomplete { .. }) => true,
        _ => false,
    }
}
