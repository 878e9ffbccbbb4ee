//! The interface for programs without tasks: every call waits.
//!
//! ```no_run
//! # fn run(endpoint: fec_transport::io::EndpointConfig) -> Result<(), Box<dyn std::error::Error>> {
//! use sfio_remote::io::{MemberConfig, OpenOptions, blocking};
//!
//! let member = blocking::Member::start(endpoint, MemberConfig::default())?;
//! let file = member.open(&OpenOptions::new(), &"io1,a;io2,a".parse()?)?;
//! file.write_at(0, "Hello World")?;
//! assert_eq!(file.read_at(6, 100)?, "World");
//! # Ok(())
//! # }
//! ```
//!
//! These calls must not be made from asynchronous tasks: they would panic there.

mod collective;

pub use collective::{CollectiveFile, Group};

use std::sync::Arc;

use bytes::Bytes;
use fec_transport::io::{EndpointConfig, EndpointEnded};
use tokio::runtime::Runtime;

use super::{FileError, MemberConfig, OpenOptions, SfioMember, StartError, Submission};
use crate::client::{Durability, FileStat, Layout};
use crate::distribution::Structure;
use crate::io_node::ErrorCounters;
use crate::name::FileName;
use crate::request::{ReadList, RegionsRead, WriteList};

type Result<T> = std::result::Result<T, FileError>;

/// A member's process, with the threads that it runs on.
#[derive(Debug)]
pub struct Member {
    member: SfioMember,
    runtime: Arc<Runtime>,
}

/// A striped file; clones are the same open file.
#[derive(Debug, Clone)]
pub struct StripedFile {
    file: super::StripedFile,
    runtime: Arc<Runtime>,
}

/// An operation that was begun. Dropping it cancels it.
#[derive(Debug)]
pub struct Pending<T: Send + 'static> {
    submission: Submission<T>,
    runtime: Arc<Runtime>,
}

impl Member {
    /// As [`SfioMember::start`], on threads of its own.
    ///
    /// # Errors
    /// As there, and if threads cannot be started.
    pub fn start(endpoint: EndpointConfig, config: MemberConfig) -> std::result::Result<Member, StartError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = Arc::new(runtime.map_err(StartError::Threads)?);
        let member = runtime.block_on(SfioMember::start(endpoint, config))?;
        Ok(Member { member, runtime })
    }

    /// Opens a file.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open(&self, options: &OpenOptions, name: &FileName) -> Result<StripedFile> {
        let file = self.runtime.block_on(options.open(self.member.client(), name))?;
        Ok(StripedFile { file, runtime: Arc::clone(&self.runtime) })
    }

    /// As [`SfioClient::rename`](super::SfioClient::rename).
    ///
    /// # Errors
    /// As there.
    pub fn rename(
        &self,
        name: &FileName,
        target: &FileName,
        replace: bool,
        durability: Durability,
    ) -> Result<()> {
        self.runtime.block_on(self.member.client().rename(name, target, replace, durability))
    }

    /// Removes those subfiles of a file that there are.
    ///
    /// # Errors
    /// As [`SfioClient::remove`](super::SfioClient::remove).
    pub fn remove(&self, name: &FileName, durability: Durability) -> Result<()> {
        self.runtime.block_on(self.member.client().remove(name, durability))
    }

    /// The error counters of one I/O node.
    ///
    /// # Errors
    /// As [`SfioClient::error_counters`](super::SfioClient::error_counters).
    pub fn error_counters(&self, member: &str, reset: bool) -> Result<ErrorCounters> {
        self.runtime.block_on(self.member.client().error_counters(member, reset))
    }

    /// As [`SfioMember::shutdown`].
    ///
    /// # Errors
    /// If the process has ended before.
    pub fn shutdown(self) -> std::result::Result<(), EndpointEnded> {
        self.runtime.block_on(self.member.shutdown())
    }
}

impl StripedFile {
    /// What there was when the file was opened.
    pub fn stat_when_opened(&self) -> &FileStat {
        self.file.stat_when_opened()
    }

    /// Where the file's bytes are.
    pub fn layout(&self) -> &Layout {
        self.file.layout()
    }

    /// As [`StripedFile::read_at`](super::StripedFile::read_at).
    ///
    /// # Errors
    /// As there.
    pub fn read_at(&self, offset: u64, length: u64) -> Result<Bytes> {
        self.runtime.block_on(self.file.read_at(offset, length))
    }

    /// As [`StripedFile::read_exact_at`](super::StripedFile::read_exact_at).
    ///
    /// # Errors
    /// As there.
    pub fn read_exact_at(&self, offset: u64, length: u64) -> Result<Bytes> {
        self.runtime.block_on(self.file.read_exact_at(offset, length))
    }

    /// As [`StripedFile::read_list`](super::StripedFile::read_list).
    ///
    /// # Errors
    /// As there.
    pub fn read_list(&self, regions: impl IntoIterator<Item = (u64, u64)>) -> Result<Vec<Bytes>> {
        self.runtime.block_on(self.file.read_list(regions))
    }

    /// As [`StripedFile::read`](super::StripedFile::read).
    ///
    /// # Errors
    /// As there.
    pub fn read(&self, list: ReadList) -> Result<RegionsRead> {
        self.runtime.block_on(self.file.read(list))
    }

    /// As [`StripedFile::write_at`](super::StripedFile::write_at).
    ///
    /// # Errors
    /// As there.
    pub fn write_at(&self, offset: u64, data: impl Into<Bytes>) -> Result<()> {
        self.runtime.block_on(self.file.write_at(offset, data))
    }

    /// As [`StripedFile::write_list`](super::StripedFile::write_list).
    ///
    /// # Errors
    /// As there.
    pub fn write_list(&self, pieces: impl IntoIterator<Item = (u64, Bytes)>) -> Result<()> {
        self.runtime.block_on(self.file.write_list(pieces))
    }

    /// As [`StripedFile::write`](super::StripedFile::write).
    ///
    /// # Errors
    /// As there.
    pub fn write(&self, list: WriteList) -> Result<()> {
        self.runtime.block_on(self.file.write(list))
    }

    /// Begins to read.
    pub fn submit_read(&self, list: ReadList) -> Pending<RegionsRead> {
        self.begin(|file| file.submit_read(list))
    }

    /// Begins to write.
    pub fn submit_write(&self, list: WriteList) -> Pending<()> {
        self.begin(|file| file.submit_write(list))
    }

    /// Begins a sync.
    pub fn submit_sync(&self) -> Pending<()> {
        self.begin(super::StripedFile::submit_sync)
    }

    /// As [`StripedFile::set_len`](super::StripedFile::set_len).
    ///
    /// # Errors
    /// As there.
    pub fn set_len(&self, length: u64) -> Result<()> {
        self.runtime.block_on(self.file.set_len(length))
    }

    /// As [`StripedFile::stat`](super::StripedFile::stat).
    ///
    /// # Errors
    /// As there.
    pub fn stat(&self) -> Result<FileStat> {
        self.runtime.block_on(self.file.stat())
    }

    /// As [`StripedFile::fsck`](super::StripedFile::fsck).
    ///
    /// # Errors
    /// As there.
    pub fn fsck(&self) -> Result<Structure> {
        self.runtime.block_on(self.file.fsck())
    }

    /// As [`StripedFile::len`](super::StripedFile::len).
    ///
    /// # Errors
    /// As there.
    pub fn len(&self) -> Result<u64> {
        self.runtime.block_on(self.file.len())
    }

    /// As [`StripedFile::is_empty`](super::StripedFile::is_empty).
    ///
    /// # Errors
    /// As there.
    pub fn is_empty(&self) -> Result<bool> {
        self.runtime.block_on(self.file.is_empty())
    }

    /// As [`StripedFile::error_counters`](super::StripedFile::error_counters).
    ///
    /// # Errors
    /// As there.
    pub fn error_counters(&self, reset: bool) -> Result<Vec<(String, ErrorCounters)>> {
        self.runtime.block_on(self.file.error_counters(reset))
    }

    /// As [`StripedFile::sync_all`](super::StripedFile::sync_all).
    ///
    /// # Errors
    /// As there.
    pub fn sync_all(&self) -> Result<()> {
        self.runtime.block_on(self.file.sync_all())
    }

    fn begin<T: Send + 'static>(
        &self,
        submit: impl FnOnce(&super::StripedFile) -> Submission<T>,
    ) -> Pending<T> {
        let _within = self.runtime.enter();
        Pending { submission: submit(&self.file), runtime: Arc::clone(&self.runtime) }
    }
}

impl<T: Send + 'static> Pending<T> {
    /// The result, if the operation is done; it is given once.
    pub fn test(&mut self) -> Option<Result<T>> {
        self.runtime.block_on(self.submission.test())
    }

    /// The results of those that are done, each with its position.
    pub fn test_some(pending: &mut [Pending<T>]) -> Vec<(usize, Result<T>)> {
        let results = pending.iter_mut().map(Pending::test).enumerate();
        results.filter_map(|(index, result)| Some((index, result?))).collect()
    }

    /// Whether [`test`](Self::test) has given the result.
    pub fn is_taken(&self) -> bool {
        self.submission.is_taken()
    }

    /// Waits until the operation is done.
    ///
    /// # Errors
    /// What it fails with.
    pub fn wait(self) -> Result<T> {
        self.runtime.block_on(self.submission.wait())
    }

    /// Gives the operation up; the I/O nodes forget it.
    ///
    /// # Errors
    /// As [`Submission::cancel`].
    pub fn cancel(self) -> Result<T> {
        self.runtime.block_on(self.submission.cancel())
    }
}
