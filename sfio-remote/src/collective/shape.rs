//! What all ranks know of a file without asking anybody: how it is dealt out, and over which I/O nodes.

use std::fmt;

use super::group::Rank;
use crate::distribution::{Distribution, DistributionError, Region, StripeUnit, SubfileIndex};
use crate::name::FileName;

/// How a file is dealt out, and which of its subfiles lie on one I/O node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileShape {
    name: String,
    distribution: Distribution,
    /// The I/O node of each subfile, numbered in the order in which the name has them.
    io_nodes: Vec<usize>,
}

impl FileShape {
    /// The shape of a file with stripes of that size.
    ///
    /// # Errors
    /// If the name has more subfiles than a file can have.
    pub fn new(name: &FileName, stripe_unit: StripeUnit) -> Result<FileShape, DistributionError> {
        let distribution = Distribution::new(stripe_unit, name.subfiles().len())?;
        let mut members: Vec<&str> = Vec::new();
        let io_nodes = name.subfiles().iter().map(|subfile| {
            members.iter().position(|member| *member == subfile.member()).unwrap_or_else(|| {
                members.push(subfile.member());
                members.len() - 1
            })
        });
        Ok(FileShape { io_nodes: io_nodes.collect(), name: name.to_string(), distribution })
    }

    /// The subfiles that a rank of a group of `size` ranks keeps: it alone creates them, changes their length and syncs
    /// them in collective calls. Each I/O node has one keeper, so that a job needs one session to it.
    pub fn kept_by(&self, rank: Rank, size: usize) -> Vec<SubfileIndex> {
        self.distribution.subfiles().filter(|subfile| self.keeper(*subfile, size) == rank).collect()
    }

    /// How the file is dealt out.
    pub fn distribution(&self) -> &Distribution {
        &self.distribution
    }

    /// The rank that keeps a subfile: the I/O nodes are spread evenly over the ranks, so that neighbouring ranks, which
    /// share a machine as a rule, do not all have one.
    pub(super) fn keeper(&self, subfile: SubfileIndex, size: usize) -> Rank {
        let (io_node, count) = (self.io_nodes[subfile.index()], self.io_node_count());
        let rank = if size >= count { io_node * size / count } else { io_node % size };
        Rank(rank as u32)
    }

    /// The I/O node of a subfile.
    pub(super) fn io_node(&self, subfile: SubfileIndex) -> usize {
        self.io_nodes[subfile.index()]
    }

    /// Where these regions end in each subfile; 0 for one that they do not touch.
    pub(super) fn ends(&self, regions: &[Region]) -> Vec<u64> {
        let mut ends = vec![0; self.distribution.subfile_count()];
        for (subfile, extent) in regions.iter().flat_map(|region| self.distribution.extents(*region)) {
            let end = &mut ends[subfile.index()];
            *end = extent.end().max(*end);
        }
        ends
    }

    fn io_node_count(&self) -> usize {
        self.io_nodes.iter().max().map_or(1, |last| last + 1)
    }
}

impl fmt::Display for FileShape {
    /// The file's name and its stripe unit, as calls are named by them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\", stripe unit {}", self.name, self.distribution.stripe_unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(name: &str) -> FileShape {
        FileShape::new(&name.parse().expect("a right name"), StripeUnit::DEFAULT).expect("few subfiles")
    }

    #[test]
    fn each_io_node_has_one_keeper_whatever_the_order_of_its_subfiles() {
        let file = shape("io1,a;io2,a;io1,b;io3,a");
        for size in 1..9 {
            let kept: Vec<_> = Rank::all(size).flat_map(|rank| file.kept_by(rank, size)).collect();
            assert_eq!(kept.len(), 4, "{size} ranks");
            let keeper = |subfile| file.keeper(SubfileIndex(subfile), size);
            assert_eq!(keeper(0), keeper(2), "{size} ranks: both on io1");
        }
        let keepers: Vec<Rank> = [0, 1, 3].map(|subfile| file.keeper(SubfileIndex(subfile), 64)).into();
        assert_eq!(keepers, [Rank(0), Rank(21), Rank(42)]);
    }

    #[test]
    fn regions_end_in_subfiles_where_their_last_bytes_are() {
        let file = FileShape::new(
            &"io1,a;io2,a;".parse().expect("a right name"),
            StripeUnit::new(5).expect("in range"),
        );
        let regions = [(0, 11), (3, 1)].map(|(offset, length)| Region::new(offset, length).expect("small"));
        assert_eq!(file.expect("two subfiles").ends(&regions), [6, 5]);
    }
}
