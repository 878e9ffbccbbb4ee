//! Striped files as programs use them.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use fec_transport::overlay::MemberId;

use super::client::{FileError, SfioClient};
use super::observer::observed;
use super::submission::Submission;
use super::threads;
use crate::application::Command;
use crate::client::operations::{
    Attach, Close, Keep, KeepTask, Open, Opened, Read, SetLength, Stat, Sync, Write, WriteShare,
};
use crate::client::{Action, Durability, FileId, FileStat, Layout, OpenMode, OperationError};
use crate::collective::FileShape;
use crate::compression::Compression;
use crate::distribution::{Distribution, DistributionError, StripeUnit, Structure, SubfileIndex};
use crate::io_node::ErrorCounters;
use crate::name::FileName;
use crate::request::{ReadList, RegionsRead, WriteList};

/// Lists of at most so many regions are planned in the caller's task, which takes less than a millisecond.
const PLANNED_AT_ONCE: usize = 4_096;

type Result<T> = std::result::Result<T, FileError>;

/// How a striped file is opened.
///
/// ```no_run
/// # async fn run(client: &sfio_remote::io::SfioClient) -> Result<(), Box<dyn std::error::Error>> {
/// use sfio_remote::client::{Durability, OpenMode};
/// use sfio_remote::io::OpenOptions;
///
/// let options = OpenOptions::new().mode(OpenMode::Create).durability(Durability::OnEveryCall);
/// let file = options.open(client, &"io1,log;io2,log".parse()?).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct OpenOptions {
    stripe_unit: StripeUnit,
    mode: OpenMode,
    durability: Durability,
    compression: Compression,
}

/// A striped file. Its methods may be called at once, from any task; a caller that wants one after the other waits for
/// the first. Clones are the same open file.
///
/// Dropping the last of them closes it, without a sync.
#[derive(Debug, Clone)]
pub struct StripedFile {
    open: Arc<OpenFile>,
}

#[derive(Debug)]
struct OpenFile {
    client: SfioClient,
    file: FileId,
    stat: FileStat,
    layout: Arc<Layout>,
}

impl OpenOptions {
    /// An existing file with stripes of 64 KiB, whose writes survive a power loss after a sync, and whose bytes are
    /// compressed on their way where that makes them arrive sooner.
    pub fn new() -> OpenOptions {
        OpenOptions {
            stripe_unit: StripeUnit::DEFAULT,
            mode: OpenMode::Existing,
            durability: Durability::OnFlush,
            compression: Compression::Auto,
        }
    }

    /// The stripe unit that the file was, or is going to be, written with. It is recorded nowhere: another one than it
    /// was written with gives the right bytes in the wrong order.
    pub fn stripe_unit(self, stripe_unit: StripeUnit) -> OpenOptions {
        OpenOptions { stripe_unit, ..self }
    }

    /// What must be there, and what happens to it.
    pub fn mode(self, mode: OpenMode) -> OpenOptions {
        OpenOptions { mode, ..self }
    }

    /// When writes survive a power loss.
    pub fn durability(self, durability: Durability) -> OpenOptions {
        OpenOptions { durability, ..self }
    }

    /// How its bytes are compressed on their way through the network; on the disks they are as they were written.
    pub fn compression(self, compression: Compression) -> OpenOptions {
        OpenOptions { compression, ..self }
    }

    /// Opens the file.
    ///
    /// # Errors
    /// If subfiles are missing, or an I/O node fails.
    pub async fn open(&self, client: &SfioClient, name: &FileName) -> Result<StripedFile> {
        let OpenOptions { stripe_unit, mode, durability, compression } = *self;
        let open = Open { name: name.clone(), stripe_unit, mode, durability, compression };
        let Opened { file, stat, layout } = client.call(open).await?;
        if let Some(observer) = client.observer() {
            observer.opened(name, stat.length(), mode);
        }
        Ok(StripedFile { open: Arc::new(OpenFile { client: client.clone(), file, stat, layout }) })
    }

    /// A file that another rank of the same job has opened, of at least that length: no I/O node is asked.
    pub(super) async fn attach(
        &self,
        client: &SfioClient,
        name: &FileName,
        length: u64,
    ) -> Result<StripedFile> {
        let OpenOptions { stripe_unit, durability, compression, .. } = *self;
        let attach = Attach { name: name.clone(), stripe_unit, durability, compression, length };
        let Opened { file, stat, layout } = client.call(attach).await?;
        Ok(StripedFile { open: Arc::new(OpenFile { client: client.clone(), file, stat, layout }) })
    }

    /// The shape of a file that is opened so.
    pub(super) fn shape(&self, name: &FileName) -> std::result::Result<FileShape, DistributionError> {
        FileShape::new(name, self.stripe_unit)
    }

    /// How it is opened, in words.
    pub(super) fn mode_words(&self) -> String {
        format!("{:?}", self.mode)
    }
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions::new()
    }
}

impl StripedFile {
    /// Opens a file of which all subfiles exist.
    ///
    /// # Errors
    /// If some do not, which the error names, or an I/O node fails.
    pub async fn open(client: &SfioClient, name: &FileName, stripe_unit: StripeUnit) -> Result<StripedFile> {
        OpenOptions::new().stripe_unit(stripe_unit).open(client, name).await
    }

    /// Creates a file, with all its subfiles; one that exists becomes empty.
    ///
    /// # Errors
    /// If an I/O node fails.
    pub async fn create(
        client: &SfioClient,
        name: &FileName,
        stripe_unit: StripeUnit,
    ) -> Result<StripedFile> {
        OpenOptions::new().stripe_unit(stripe_unit).mode(OpenMode::Truncate).open(client, name).await
    }

    /// What there was when the file was opened.
    pub fn stat_when_opened(&self) -> &FileStat {
        &self.open.stat
    }

    /// Where the file's bytes are.
    pub fn layout(&self) -> &Layout {
        &self.open.layout
    }

    /// Reads up to `length` bytes from `offset` on; fewer if the file ends before.
    ///
    /// # Errors
    /// If an I/O node fails, or the range is not possible.
    pub async fn read_at(&self, offset: u64, length: u64) -> Result<Bytes> {
        Ok(self.read_list([(offset, length)]).await?.pop().unwrap_or_default())
    }

    /// Reads exactly `length` bytes from `offset` on.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at), and if the file ends before.
    pub async fn read_exact_at(&self, offset: u64, length: u64) -> Result<Bytes> {
        let bytes = self.read_at(offset, length).await?;
        match length - bytes.len() as u64 {
            0 => Ok(bytes),
            missing => Err(FileError::EndOfFile { offset, length, missing }),
        }
    }

    /// Reads many regions, each an offset and a length, in one call: each becomes a slice of one allocation, shorter
    /// where the file ends before. There may be millions.
    ///
    /// # Errors
    /// If an I/O node fails, or a region is not possible.
    pub async fn read_list(&self, regions: impl IntoIterator<Item = (u64, u64)>) -> Result<Vec<Bytes>> {
        let list = ReadList::new(regions).map_err(OperationError::from)?;
        self.read(list).await.map(RegionsRead::into_vec)
    }

    /// Reads what a list says: patterns, or each stripe by a request of its own.
    ///
    /// # Errors
    /// If an I/O node fails.
    pub async fn read(&self, list: ReadList) -> Result<RegionsRead> {
        let list = self.planned(list, |list| list.regions().len(), ReadList::plan).await;
        let regions = list.shared_regions();
        let call = self.open.client.call(Read { file: self.open.file, list });
        observed(self.open.client.observer(), (self.open.layout.name(), false, &regions), call).await
    }

    /// Writes all of `data` at `offset`. What lies between the end of the file and `offset` becomes zeros.
    ///
    /// # Errors
    /// If an I/O node fails. Then any part of the data may have been written.
    pub async fn write_at(&self, offset: u64, data: impl Into<Bytes>) -> Result<()> {
        self.write_list([(offset, data.into())]).await
    }

    /// Writes many pieces, each at its offset, in one call. Where they overlap the later one wins. There may be
    /// millions.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub async fn write_list(&self, pieces: impl IntoIterator<Item = (u64, Bytes)>) -> Result<()> {
        self.write(WriteList::new(pieces).map_err(OperationError::from)?).await
    }

    /// Writes what a list says: patterns, packed memory, or each stripe by a request of its own.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub async fn write(&self, list: WriteList) -> Result<()> {
        let list = self.planned(list, |list| list.regions().len(), WriteList::plan).await;
        self.send(list, false).await
    }

    /// Writes many pieces that survive a power loss when this returns, whatever the file was opened for: one round trip
    /// where a write and a sync would be two.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub async fn write_list_durably(&self, pieces: impl IntoIterator<Item = (u64, Bytes)>) -> Result<()> {
        let list = WriteList::new(pieces).map_err(OperationError::from)?;
        let list = self.planned(list, |list| list.regions().len(), WriteList::plan).await;
        self.send(list, true).await
    }

    async fn send(&self, list: WriteList, durable: bool) -> Result<()> {
        let regions = list.shared_regions();
        let call = self.open.client.call(Write { file: self.open.file, list, durable });
        observed(self.open.client.observer(), (self.open.layout.name(), true, &regions), call).await
    }

    /// Writes a rank's share of a collective call, which extends no subfile beyond what is written to it.
    pub(super) async fn write_share(&self, list: WriteList) -> Result<()> {
        let list = self.planned(list, |list| list.regions().len(), WriteList::plan).await;
        let regions = list.shared_regions();
        let call = self.open.client.call(WriteShare { file: self.open.file, list });
        observed(self.open.client.observer(), (self.open.layout.name(), true, &regions), call).await
    }

    /// Does something with some of the subfiles.
    pub(super) async fn keep(&self, subfiles: Vec<SubfileIndex>, task: KeepTask) -> Result<()> {
        self.open.client.call(Keep { file: self.open.file, subfiles, task }).await
    }

    /// Begins to read and comes back; the [`Submission`] tells when it is done.
    pub fn submit_read(&self, list: ReadList) -> Submission<RegionsRead> {
        let file = self.clone();
        Submission::begin(async move { file.read(list).await })
    }

    /// Begins to write and comes back.
    pub fn submit_write(&self, list: WriteList) -> Submission<()> {
        let file = self.clone();
        Submission::begin(async move { file.write(list).await })
    }

    /// Begins a sync and comes back.
    pub fn submit_sync(&self) -> Submission<()> {
        let file = self.clone();
        Submission::begin(async move { file.sync_all().await })
    }

    /// The error counters of all I/O nodes that hold subfiles, each once.
    ///
    /// # Errors
    /// If one of them cannot be reached; with `reset`, those before it have been reset nevertheless.
    pub async fn error_counters(&self, reset: bool) -> Result<Vec<(String, ErrorCounters)>> {
        let names = self.open.layout.name().subfiles().iter().map(|subfile| subfile.member().to_owned());
        let names: BTreeSet<String> = names.collect();
        let mut counters = Vec::new();
        for name in names {
            let of_one = self.open.client.error_counters(&name, reset).await?;
            counters.push((name, of_one));
        }
        Ok(counters)
    }

    /// Plans a list before the member's task gets it; a long one on a thread that may compute.
    async fn planned<L: Send + 'static>(
        &self,
        mut list: L,
        regions: impl Fn(&L) -> usize,
        plan: impl Fn(&mut L, Distribution, &Arc<[MemberId]>) + Send + 'static,
    ) -> L {
        let layout = Arc::clone(&self.open.layout);
        if regions(&list) <= PLANNED_AT_ONCE {
            plan(&mut list, layout.distribution(), layout.holders());
            return list;
        }
        threads::run(move || {
            plan(&mut list, layout.distribution(), layout.holders());
            list
        })
        .await
    }

    /// Cuts the file, or extends it with zeros.
    ///
    /// # Errors
    /// If an I/O node fails. Then the file may be torn, which [`stat`](Self::stat) tells.
    pub async fn set_len(&self, length: u64) -> Result<()> {
        self.open.client.call(SetLength { file: self.open.file, length }).await
    }

    /// The sizes of all subfiles, and what they say about the file.
    ///
    /// # Errors
    /// If an I/O node fails.
    pub async fn stat(&self) -> Result<FileStat> {
        self.open.client.call(Stat { file: self.open.file }).await
    }

    /// The structural check: whether the sizes of the subfiles fit together to one length, and if not, up to where the
    /// file is whole, and which subfiles are short or long. It says nothing about content. `[theory §4]`
    ///
    /// # Errors
    /// If subfiles are missing, or an I/O node fails.
    pub async fn fsck(&self) -> Result<Structure> {
        let stat = self.stat().await?;
        match stat.missing() {
            missing if missing.is_empty() => Ok(stat.structure()),
            missing => Err(OperationError::Incomplete { missing }.into()),
        }
    }

    /// The length up to which the file is whole.
    ///
    /// # Errors
    /// If an I/O node fails.
    pub async fn len(&self) -> Result<u64> {
        Ok(self.stat().await?.length())
    }

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// If an I/O node fails.
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// Makes everything that was written before survive a power loss of the I/O nodes.
    ///
    /// # Errors
    /// If an I/O node fails. After a failed sync all later ones of that subfile fail, too: what was written before may
    /// be lost, and nothing can tell.
    pub async fn sync_all(&self) -> Result<()> {
        self.open.client.call(Sync { file: self.open.file }).await
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if let Some(observer) = self.client.observer() {
            observer.closed(self.layout.name());
        }
        // Nobody waits for its completion.
        let close = Action::new(Close { file: self.file }, drop);
        self.client.send_later(Command::Start(self.client.next_id(), close));
    }
}
