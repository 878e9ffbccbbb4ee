//! The cyclic distribution of a logical file over its subfiles, in both directions (`[theory §4]`).
//!
//! With a stripe unit of `u` bytes and `N` subfiles, the logical file is cut into stripes of `u` bytes that are dealt
//! out like cards. For `u = 5` and `N = 2`:
//!
//! ```text
//! logical   |Hello| Worl|d    |          stripe  0, 1, 2
//! subfile 0 |Hello|d    |                stripes 0, 2, 4 …
//! subfile 1 | Worl|                      stripes 1, 3, 5 …
//! ```
//!
//! A contiguous logical region is one contiguous extent in each subfile, however small `u` is: only the memory side is
//! fragmented. In the paper's figure this is the module *mrw*. `[sfio §3]`

mod region;
mod stripe_unit;
mod structure;

pub use region::{Extent, MAX_LENGTH, RangeError, Region};
pub use stripe_unit::{StripeUnit, StripeUnitError};
pub use structure::{Structure, Torn};

use crate::name::MAX_SUBFILES;

/// A subfile's position in the order of striping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubfileIndex(pub u16);

impl SubfileIndex {
    /// As an index into a slice with one element per subfile.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Where one byte of the logical file lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// The subfile that holds it.
    pub subfile: SubfileIndex,
    /// Its offset there, in bytes.
    pub offset: u64,
}

/// A contiguous piece of the logical file that is contiguous in its subfile, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Where it begins in the logical file, in bytes.
    pub logical_offset: u64,
    /// Its length in bytes; at least 1.
    pub length: u64,
}

/// How a logical file is dealt out: the stripe unit and the number of subfiles.
///
/// ```
/// use sfio_remote::distribution::{Distribution, Region, StripeUnit, SubfileIndex};
///
/// let distribution = Distribution::new(StripeUnit::new(5)?, 2)?;
/// let location = distribution.locate(10);
/// assert_eq!((location.subfile, location.offset), (SubfileIndex(0), 5));
///
/// // "Hello World": six bytes in the first subfile, five in the second.
/// let extents: Vec<_> = distribution.extents(Region::new(0, 11)?).collect();
/// assert_eq!(extents.iter().map(|(_, extent)| extent.length()).collect::<Vec<_>>(), [6, 5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Distribution {
    stripe_unit: StripeUnit,
    subfiles: u16,
}

/// A number of subfiles that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{subfiles} subfiles; a striped file has 1 to {MAX_SUBFILES}")]
pub struct DistributionError {
    subfiles: usize,
}

impl Distribution {
    /// A distribution over `subfiles` subfiles.
    ///
    /// # Errors
    /// If there are none, or more than [`MAX_SUBFILES`].
    pub fn new(stripe_unit: StripeUnit, subfiles: usize) -> Result<Distribution, DistributionError> {
        match u16::try_from(subfiles) {
            Ok(count) if (1..=MAX_SUBFILES).contains(&subfiles) => {
                Ok(Distribution { stripe_unit, subfiles: count })
            }
            _ => Err(DistributionError { subfiles }),
        }
    }

    /// The number of bytes in a stripe.
    pub fn stripe_unit(&self) -> StripeUnit {
        self.stripe_unit
    }

    /// The number of subfiles.
    pub fn subfile_count(&self) -> usize {
        usize::from(self.subfiles)
    }

    /// All subfiles, in the order of striping.
    pub fn subfiles(&self) -> impl Iterator<Item = SubfileIndex> + use<> {
        (0..self.subfiles).map(SubfileIndex)
    }

    /// Where the byte at `logical_offset` lies.
    pub fn locate(&self, logical_offset: u64) -> Location {
        let (unit, count) = (self.unit(), self.count());
        let stripe = logical_offset / unit;
        Location { subfile: self.holder(stripe), offset: (stripe / count) * unit + logical_offset % unit }
    }

    /// Which byte of the logical file lies at `offset` of `subfile`; none if it would lie beyond any 64-bit offset.
    pub fn logical_offset(&self, subfile: SubfileIndex, offset: u64) -> Option<u64> {
        let unit = self.unit();
        let stripe = (offset / unit).checked_mul(self.count())?.checked_add(u64::from(subfile.0))?;
        stripe.checked_mul(unit)?.checked_add(offset % unit)
    }

    /// The size of `subfile` when the logical file has `length` bytes.
    ///
    /// This is also the offset in `subfile` at which the first logical byte from `length` on lies, so that the bytes of
    /// a region are those from `subfile_size(region.offset)` up to `subfile_size(region.end)`.
    pub fn subfile_size(&self, subfile: SubfileIndex, length: u64) -> u64 {
        let (unit, count, index) = (self.unit(), self.count(), u64::from(subfile.0));
        let (full_stripes, rest) = (length / unit, length % unit);
        let (rounds, odd_stripes) = (full_stripes / count, full_stripes % count);
        let in_last_round = match index.cmp(&odd_stripes) {
            std::cmp::Ordering::Less => unit,
            std::cmp::Ordering::Equal => rest,
            std::cmp::Ordering::Greater => 0,
        };
        rounds * unit + in_last_round
    }

    /// The extent of each subfile that `region` touches; at most one for each.
    ///
    /// Costs one step for each subfile touched, not for each stripe.
    pub fn extents(&self, region: Region) -> impl Iterator<Item = (SubfileIndex, Extent)> + use<> {
        let this = *self;
        let first = region.offset() / self.unit();
        let stripes = match region.length() {
            0 => 0,
            _ => ((region.end() - 1) / self.unit() - first + 1).min(self.count()),
        };
        (first..first + stripes).map(move |stripe| {
            let subfile = this.holder(stripe);
            let start = this.subfile_size(subfile, region.offset());
            let end = this.subfile_size(subfile, region.end());
            (subfile, Extent::between(start, end))
        })
    }

    /// The pieces of the logical file that `extent` of `subfile` holds, in ascending order.
    pub fn fragments(&self, subfile: SubfileIndex, extent: Extent) -> Fragments {
        let logical_offset = self.logical_offset(subfile, extent.offset());
        Fragments {
            next: logical_offset.unwrap_or(u64::MAX),
            // What lies beyond the largest offset is part of no region; there is nothing to give back.
            remaining: if logical_offset.is_some() { extent.length() } else { 0 },
            room: self.stripe_room(extent.offset()),
            unit: if self.subfiles == 1 { u64::MAX } else { self.unit() },
            gap: (self.count() - 1).saturating_mul(self.unit()),
        }
    }

    fn unit(&self) -> u64 {
        self.stripe_unit.bytes()
    }

    fn count(&self) -> u64 {
        u64::from(self.subfiles)
    }

    fn holder(&self, stripe: u64) -> SubfileIndex {
        // The remainder is below a 16-bit number.
        SubfileIndex((stripe % self.count()) as u16)
    }

    /// How many bytes from `offset` of a subfile on are contiguous in the logical file.
    fn stripe_room(&self, offset: u64) -> u64 {
        match self.subfiles {
            1 => u64::MAX,
            _ => self.unit() - offset % self.unit(),
        }
    }
}

/// Iterator over the logical pieces of an extent; see [`Distribution::fragments`].
///
/// It only adds, because it is the inner loop of gathering and scattering.
#[derive(Debug, Clone)]
pub struct Fragments {
    next: u64,
    remaining: u64,
    room: u64,
    unit: u64,
    gap: u64,
}

impl Iterator for Fragments {
    type Item = Fragment;

    #[inline]
    fn next(&mut self) -> Option<Fragment> {
        if self.remaining == 0 {
            return None;
        }
        let length = self.remaining.min(self.room);
        let fragment = Fragment { logical_offset: self.next, length };
        self.remaining -= length;
        self.room = self.unit;
        // Saturates only behind the last fragment of the largest file, where nobody looks any more.
        self.next = self.next.saturating_add(length).saturating_add(self.gap);
        Some(fragment)
    }
}

#[cfg(test)]
mod tests;
