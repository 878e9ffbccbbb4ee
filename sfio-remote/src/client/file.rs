//! Striped files that are open.

use std::sync::Arc;

use fec_transport::overlay::MemberId;

use super::error::OperationError;
use crate::distribution::{Distribution, StripeUnit, Structure, SubfileIndex};
use crate::name::{FileName, SubfileName, SubfilePath};
use crate::transport::Transport;

/// The sizes of all subfiles of a striped file, and what they say about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStat {
    name: FileName,
    distribution: Distribution,
    sizes: Vec<Option<u64>>,
}

impl FileStat {
    /// What the sizes of the subfiles say, of which one at least must exist.
    pub(super) fn of_existing(layout: &Layout, sizes: Vec<Option<u64>>) -> Result<FileStat, OperationError> {
        if sizes.iter().all(Option::is_none) {
            return Err(OperationError::NotFound { name: layout.name.to_string() });
        }
        Ok(FileStat { name: layout.name.clone(), distribution: layout.distribution, sizes })
    }

    /// The size of each subfile in bytes, in the order of striping; none for one that does not exist.
    pub fn subfile_sizes(&self) -> &[Option<u64>] {
        &self.sizes
    }

    /// The subfiles that do not exist.
    pub fn missing(&self) -> Vec<SubfileName> {
        let subfiles = self.name.subfiles().iter().zip(&self.sizes);
        subfiles.filter(|(_, size)| size.is_none()).map(|(subfile, _)| subfile.clone()).collect()
    }

    /// What the sizes say about the logical file; a subfile that does not exist counts as empty.
    pub fn structure(&self) -> Structure {
        let sizes: Vec<u64> = self.sizes.iter().map(|size| size.unwrap_or(0)).collect();
        self.distribution.structure(&sizes)
    }

    /// The length in bytes up to which the logical file is whole.
    pub fn length(&self) -> u64 {
        self.structure().whole_length()
    }
}

/// Where the bytes of a striped file are. With it, lists can be planned for the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    name: FileName,
    distribution: Distribution,
    holders: Arc<[MemberId]>,
}

impl Layout {
    /// Looks the members of `name` up.
    pub(super) fn resolve(
        name: FileName,
        stripe_unit: StripeUnit,
        transport: &dyn Transport,
    ) -> Result<Layout, OperationError> {
        let distribution = Distribution::new(stripe_unit, name.subfiles().len())?;
        let find = |subfile: &SubfileName| {
            let member = subfile.member();
            let unknown = || OperationError::UnknownMember { member: member.to_owned() };
            transport.find_member(member).ok_or_else(unknown)
        };
        let holders = name.subfiles().iter().map(find).collect::<Result<_, _>>()?;
        Ok(Layout { name, distribution, holders })
    }

    /// The name of the file.
    pub fn name(&self) -> &FileName {
        &self.name
    }

    /// How it is dealt out.
    pub fn distribution(&self) -> Distribution {
        self.distribution
    }

    /// The I/O nodes that hold the subfiles, in the order of striping.
    pub fn holders(&self) -> &Arc<[MemberId]> {
        &self.holders
    }

    /// Each subfile with its holder and its path.
    pub(super) fn subfiles(&self) -> impl Iterator<Item = (SubfileIndex, MemberId, &SubfilePath)> + '_ {
        self.distribution
            .subfiles()
            .map(|subfile| (subfile, self.holders[subfile.index()], self.path(subfile)))
    }

    /// The I/O node that holds a subfile.
    pub(super) fn holder(&self, subfile: SubfileIndex) -> MemberId {
        self.holders[subfile.index()]
    }

    pub(super) fn path(&self, subfile: SubfileIndex) -> &SubfilePath {
        self.name.subfiles()[subfile.index()].path()
    }
}
