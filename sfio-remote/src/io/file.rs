//! Striped files as programs use them.

use bytes::Bytes;

use super::client::{FileError, SfioClient};
use crate::application::Command;
use crate::client::{Action, Answer, Durability, FileId, FileStat, OpenMode, OperationError};
use crate::distribution::StripeUnit;
use crate::name::FileName;
use crate::request::{ReadList, WriteList};

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
}

/// A striped file. Its methods may be called at once, from any task; whoever wants one after the other waits.
///
/// Dropping it closes it, without a sync.
#[derive(Debug)]
pub struct StripedFile {
    client: SfioClient,
    file: FileId,
    stat: FileStat,
}

impl OpenOptions {
    /// An existing file with stripes of 64 KiB, whose writes survive a power loss after a sync.
    pub fn new() -> OpenOptions {
        OpenOptions {
            stripe_unit: StripeUnit::DEFAULT,
            mode: OpenMode::Existing,
            durability: Durability::OnFlush,
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

    /// Opens the file.
    ///
    /// # Errors
    /// If subfiles are missing, or an I/O node fails.
    pub async fn open(&self, client: &SfioClient, name: &FileName) -> Result<StripedFile> {
        let OpenOptions { stripe_unit, mode, durability } = *self;
        let action = Action::Open { name: name.clone(), stripe_unit, mode, durability };
        match client.call(action).await? {
            Answer::Opened { file, stat } => Ok(StripedFile { client: client.clone(), file, stat }),
            other => unreachable!("a file was to be opened, not {other:?}"),
        }
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
        &self.stat
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
        match self.client.call(Action::Read { file: self.file, list }).await? {
            Answer::Data(data) => Ok(data),
            other => unreachable!("data was asked for, not {other:?}"),
        }
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
        let list = WriteList::new(pieces).map_err(OperationError::from)?;
        self.client.call(Action::Write { file: self.file, list }).await.map(drop)
    }

    /// Cuts the file, or extends it with zeros.
    ///
    /// # Errors
    /// If an I/O node fails. Then the file may be torn, which [`stat`](Self::stat) tells.
    pub async fn set_len(&self, length: u64) -> Result<()> {
        self.client.call(Action::SetLength { file: self.file, length }).await.map(drop)
    }

    /// The sizes of all subfiles, and what they say about the file.
    ///
    /// # Errors
    /// If an I/O node fails.
    pub async fn stat(&self) -> Result<FileStat> {
        match self.client.call(Action::Stat { file: self.file }).await? {
            Answer::Stat(stat) => Ok(stat),
            other => unreachable!("sizes were asked for, not {other:?}"),
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
        self.client.call(Action::Sync { file: self.file }).await.map(drop)
    }
}

impl Drop for StripedFile {
    fn drop(&mut self) {
        let close = Action::Close { file: self.file };
        self.client.send_later(Command::Start(self.client.unattended(), close));
    }
}
