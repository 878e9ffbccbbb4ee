//! Striped files that a group has open together.

use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;

use super::member::GroupMember;
use crate::client::operations::KeepTask;
use crate::collective::{
    Answer, CollectiveConfig, CollectiveError, FileShape, FileWork, Job, Rank, Report, WorkDone,
};
use crate::distribution::SubfileIndex;
use crate::io::{OpenOptions, SfioClient, StripedFile};
use crate::name::FileName;
use crate::request::{ReadList, RegionsRead, WriteList};

type Result<T> = std::result::Result<T, CollectiveError>;

/// A striped file that all ranks of a group have open. All of its methods are collective: every rank calls them, in the
/// same order, and each comes back when all ranks have done their part. Clones are the same open file.
///
/// Only ranks that collect data for an I/O node, or keep its subfiles, open a session to it.
#[derive(Debug, Clone)]
pub struct CollectiveFile {
    member: GroupMember,
    shape: Arc<FileShape>,
    file: StripedFile,
    config: CollectiveConfig,
}

impl CollectiveFile {
    /// Opens a file on all ranks. Each I/O node is asked by one of them.
    ///
    /// # Errors
    /// On all ranks: if subfiles are missing, an I/O node fails, a rank was lost, or is in another call.
    pub async fn open(
        member: &GroupMember,
        client: &SfioClient,
        options: &OpenOptions,
        name: &FileName,
        config: CollectiveConfig,
    ) -> Result<CollectiveFile> {
        let failed = |fault: &dyn Display| failed(member.rank(), fault);
        let shape = Arc::new(options.shape(name).map_err(|error| failed(&error))?);
        let kept = shape.kept_by(member.rank(), member.size());
        let words = format!("open {shape}, {}", options.mode_words());
        let told =
            member.perform(words, open_kept(client.clone(), options.clone(), name.clone(), kept)).await?;
        let sizes = sizes(&shape, &told);
        let length = shape.distribution().structure(&sizes).whole_length();
        // This asks nobody, so that it fails only where the member itself has ended.
        let file = options.attach(client, name, length).await.map_err(|error| failed(&error))?;
        Ok(CollectiveFile { member: member.clone(), shape, file, config })
    }

    /// The rank that this end of the file belongs to.
    pub fn member(&self) -> &GroupMember {
        &self.member
    }

    /// The file for calls that are not collective. Such a call may open sessions to all I/O nodes.
    pub fn alone(&self) -> &StripedFile {
        &self.file
    }

    /// Writes the lists of all ranks; a rank's may be empty. Where those of two ranks overlap, the higher rank's bytes
    /// count if data went by way of aggregators; else any. Nothing but what the lists have is touched.
    ///
    /// # Errors
    /// On all ranks: if an I/O node fails, a rank was lost, or is in another call. Then any part of the data may have
    /// been written.
    pub async fn write_all(&self, list: WriteList) -> Result<Report> {
        let (_, report) = self.call(Job::Write(Arc::clone(&self.shape), list)).await?;
        Ok(report)
    }

    /// Reads the lists of all ranks; gives this rank the bytes of its own. A region that reaches beyond the end of the
    /// file is shorter.
    ///
    /// # Errors
    /// On all ranks: if an I/O node fails, a rank wants too much, was lost, or is in another call.
    pub async fn read_all(&self, list: ReadList) -> Result<(RegionsRead, Report)> {
        match self.call(Job::Read(Arc::clone(&self.shape), list)).await? {
            (Answer::Read(read), report) => Ok((read, report)),
            (_, report) => Ok((RegionsRead::default(), report)),
        }
    }

    /// Cuts the file, or extends it with zeros.
    ///
    /// # Errors
    /// On all ranks: if an I/O node fails, a rank was lost, or is in another call, one to another length among them.
    pub async fn set_len(&self, length: u64) -> Result<()> {
        let words = format!("set the length of {} to {length}", self.shape);
        self.keep(words, KeepTask::SetLength(length)).await
    }

    /// Makes everything that was written before survive a power loss of the I/O nodes.
    ///
    /// # Errors
    /// On all ranks: if an I/O node fails, a rank was lost, or is in another call.
    pub async fn sync_all(&self) -> Result<()> {
        self.keep(format!("sync {}", self.shape), KeepTask::Sync).await
    }

    /// Closes the file: all ranks have done with it when this comes back.
    ///
    /// # Errors
    /// If a rank was lost, or is in another call.
    pub async fn close(self) -> Result<()> {
        self.member.perform(format!("close {}", self.shape), async { Ok(Bytes::new()) }).await.map(drop)
    }

    async fn keep(&self, words: String, task: KeepTask) -> Result<()> {
        let kept = self.shape.kept_by(self.member.rank(), self.member.size());
        let file = self.file.clone();
        let part = async move {
            if !kept.is_empty() || task == KeepTask::Sync {
                file.keep(kept, task).await.map_err(|error| error.to_string())?;
            }
            Ok(Bytes::new())
        };
        self.member.perform(words, part).await.map(drop)
    }

    async fn call(&self, job: Job) -> Result<(Answer, Report)> {
        let work = |work| {
            let file = self.file.clone();
            Box::pin(async move { at_file(&file, work).await }) as _
        };
        self.member.call(&self.config, job, work).await
    }
}

async fn at_file(file: &StripedFile, work: FileWork) -> std::result::Result<WorkDone, String> {
    let done = match work {
        FileWork::Write(list) => file.write_share(list).await.map(|()| WorkDone::Written),
        FileWork::Read(list) => file.read(list).await.map(WorkDone::Read),
        FileWork::Grow { subfiles, length } => {
            file.keep(subfiles, KeepTask::Grow(length)).await.map(|()| WorkDone::Grown)
        }
        FileWork::Perform => Ok(WorkDone::Performed(Bytes::new())),
    };
    done.map_err(|error| error.to_string())
}

/// Opens the subfiles that a rank keeps, as a file of their own; tells their sizes.
async fn open_kept(
    client: SfioClient,
    options: OpenOptions,
    name: FileName,
    kept: Vec<SubfileIndex>,
) -> std::result::Result<Bytes, String> {
    let kept: Vec<_> = kept.iter().map(|subfile| name.subfiles()[subfile.index()].clone()).collect();
    if kept.is_empty() {
        return Ok(Bytes::new());
    }
    let kept = FileName::new(kept).map_err(|error| error.to_string())?;
    let file = options.open(&client, &kept).await.map_err(|error| error.to_string())?;
    let sizes = file.stat_when_opened().subfile_sizes().iter();
    Ok(sizes.flat_map(|size| size.unwrap_or(0).to_be_bytes()).collect())
}

/// The size of each subfile, as their keepers have told them.
fn sizes(shape: &FileShape, told: &[Bytes]) -> Vec<u64> {
    let mut sizes = vec![0; shape.distribution().subfile_count()];
    for (rank, bytes) in told.iter().enumerate() {
        let kept = shape.kept_by(Rank(rank as u32), told.len());
        for (subfile, size) in kept.into_iter().zip(bytes.as_chunks::<8>().0) {
            sizes[subfile.index()] = u64::from_be_bytes(*size);
        }
    }
    sizes
}

fn failed(rank: Rank, fault: &dyn Display) -> CollectiveError {
    CollectiveError::RankFailed { rank, fault: fault.to_string() }
}
