//! The request cache: one entry per (I/O node, subfile). It caches requests, never data.

use fec_transport::overlay::MemberId;

use super::{RegionIndex, Segment, SubfileAccess, sort};
use crate::distribution::{Distribution, Region, SubfileIndex};

/// Collects the requests that a caller's list becomes, by I/O node and subfile.
///
/// ```
/// use fec_transport::overlay::MemberId;
/// use sfio_remote::distribution::{Distribution, StripeUnit};
/// use sfio_remote::request::{ReadList, RequestCache};
///
/// let distribution = Distribution::new(StripeUnit::new(5)?, 2)?;
/// let list = ReadList::new([(20, 10), (0, 10)])?;
/// let mut cache = RequestCache::new(distribution, &[MemberId(1), MemberId(2)]);
/// cache.insert_all(list.regions());
/// let accesses = cache.flush();
/// assert_eq!(accesses.len(), 2);
/// assert_eq!(accesses[0].bytes(), 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RequestCache<'a> {
    distribution: Distribution,
    holders: &'a [MemberId],
    /// One per subfile, in the order of striping; `holders` tells which I/O node it belongs to.
    entries: Vec<Vec<Segment>>,
}

impl<'a> RequestCache<'a> {
    /// An empty cache for a file whose subfiles are held by `holders`, in the order of striping.
    ///
    /// # Panics
    /// If there is not one holder per subfile.
    pub fn new(distribution: Distribution, holders: &'a [MemberId]) -> RequestCache<'a> {
        assert_eq!(holders.len(), distribution.subfile_count(), "one holder per subfile");
        RequestCache { distribution, holders, entries: vec![Vec::new(); holders.len()] }
    }

    /// Adds the requests of all regions of a list.
    ///
    /// # Panics
    /// If there are 2³² or more, which no list has.
    pub fn insert_all(&mut self, regions: &[Region]) {
        for (index, region) in regions.iter().enumerate() {
            let index = RegionIndex(u32::try_from(index).expect("lists have fewer than 2^32 regions"));
            for (subfile, extent) in self.distribution.extents(*region) {
                let segment = Segment { start: extent.offset(), length: extent.length(), region: index };
                self.entries[subfile.index()].push(segment);
            }
        }
    }

    /// Sorts and merges every entry; those of one I/O node follow one another.
    pub fn flush(self) -> Vec<SubfileAccess> {
        let RequestCache { distribution, holders, entries } = self;
        let entries = distribution.subfiles().zip(entries).filter(|(_, requests)| !requests.is_empty());
        let flush = |(subfile, mut requests): (SubfileIndex, Vec<Segment>)| {
            sort::sort(&mut requests);
            SubfileAccess::new(holders[subfile.index()], subfile, distribution, requests)
        };
        let mut accesses: Vec<SubfileAccess> = entries.map(flush).collect();
        accesses.sort_by_key(SubfileAccess::member);
        accesses
    }
}
