//! Groups and collective calls for programs without tasks.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

use super::{Member, StripedFile};
use crate::client::Durability;
use crate::collective::{CollectiveConfig, CollectiveError, Rank, Report};
use crate::io::collective::{self, GroupMember, JoinError, join_group, join_group_at};
use crate::io::{OpenOptions, SfioClient};
use crate::name::FileName;
use crate::request::{ReadList, RegionsRead, WriteList};
use crate::store::SystemCall;

type Result<T> = std::result::Result<T, CollectiveError>;

/// One rank of a group of processes, as a member of an overlay. Clones are the same rank.
#[derive(Debug, Clone)]
pub struct Group {
    member: GroupMember,
    client: SfioClient,
    runtime: Arc<Runtime>,
}

/// A striped file that all ranks of a group have open. Clones are the same open file.
#[derive(Debug, Clone)]
pub struct CollectiveFile {
    file: collective::CollectiveFile,
    runtime: Arc<Runtime>,
}

impl Group {
    /// As [`join_group`].
    ///
    /// # Errors
    /// As there.
    pub fn join(
        member: &Member,
        folder: &Path,
        rank: u32,
        size: u32,
        patience: Duration,
    ) -> std::result::Result<Group, JoinError> {
        Group::complete(member, join_group(folder, rank, size, patience))
    }

    /// As [`join_group_at`].
    ///
    /// # Errors
    /// As there.
    pub fn join_at(
        member: &Member,
        host: IpAddr,
        folder: &Path,
        rank: u32,
        size: u32,
        patience: Duration,
    ) -> std::result::Result<Group, JoinError> {
        Group::complete(member, join_group_at(host, folder, rank, size, patience))
    }

    fn complete(
        member: &Member,
        joining: impl Future<Output = std::result::Result<GroupMember, JoinError>>,
    ) -> std::result::Result<Group, JoinError> {
        let runtime = Arc::clone(&member.runtime);
        let group = runtime.block_on(joining)?;
        Ok(Group { member: group, client: member.member.client().clone(), runtime })
    }

    /// As [`GroupMember::leave`].
    pub fn leave(self) {
        let Group { member, runtime, .. } = self;
        runtime.block_on(member.leave());
    }

    /// Which rank this is.
    pub fn rank(&self) -> Rank {
        self.member.rank()
    }

    /// As [`GroupMember::error_counters`].
    ///
    /// # Errors
    /// As there.
    pub fn error_counters(&self, io_nodes: &[String], reset: bool) -> Result<[u64; SystemCall::ALL.len()]> {
        self.runtime.block_on(self.member.error_counters(&self.client, io_nodes, reset))
    }

    /// As [`GroupMember::remove`].
    ///
    /// # Errors
    /// As there.
    pub fn remove(&self, name: &FileName, durability: Durability) -> Result<()> {
        self.runtime.block_on(self.member.remove(&self.client, name, durability))
    }

    /// As [`CollectiveFile::open`](collective::CollectiveFile::open).
    ///
    /// # Errors
    /// As there.
    pub fn open(
        &self,
        options: &OpenOptions,
        name: &FileName,
        config: CollectiveConfig,
    ) -> Result<CollectiveFile> {
        let opened = collective::CollectiveFile::open(&self.member, &self.client, options, name, config);
        Ok(CollectiveFile { file: self.runtime.block_on(opened)?, runtime: Arc::clone(&self.runtime) })
    }
}

impl CollectiveFile {
    /// As [`CollectiveFile::alone`](collective::CollectiveFile::alone).
    pub fn alone(&self) -> StripedFile {
        StripedFile { file: self.file.alone().clone(), runtime: Arc::clone(&self.runtime) }
    }

    /// As [`CollectiveFile::write_all`](collective::CollectiveFile::write_all).
    ///
    /// # Errors
    /// As there.
    pub fn write_all(&self, list: WriteList) -> Result<Report> {
        self.runtime.block_on(self.file.write_all(list))
    }

    /// As [`CollectiveFile::read_all`](collective::CollectiveFile::read_all).
    ///
    /// # Errors
    /// As there.
    pub fn read_all(&self, list: ReadList) -> Result<(RegionsRead, Report)> {
        self.runtime.block_on(self.file.read_all(list))
    }

    /// As [`CollectiveFile::set_len`](collective::CollectiveFile::set_len).
    ///
    /// # Errors
    /// As there.
    pub fn set_len(&self, length: u64) -> Result<()> {
        self.runtime.block_on(self.file.set_len(length))
    }

    /// As [`CollectiveFile::sync_all`](collective::CollectiveFile::sync_all).
    ///
    /// # Errors
    /// As there.
    pub fn sync_all(&self) -> Result<()> {
        self.runtime.block_on(self.file.sync_all())
    }

    /// As [`CollectiveFile::close`](collective::CollectiveFile::close).
    ///
    /// # Errors
    /// As there.
    pub fn close(self) -> Result<()> {
        let CollectiveFile { file, runtime } = self;
        runtime.block_on(file.close())
    }
}
