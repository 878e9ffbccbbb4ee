//! Which subfiles a write past the end must extend.
//!
//! SFIO has no holes and no metadata: the sizes of the subfiles are the only record of the logical length, so that
//! after a write that ends at `e`, every subfile must have the size that belongs to a file of at least `e` bytes
//! `[theory §4]`, also those that the write does not touch. Asking all of them first would cost a round trip for every
//! write, and a request to each I/O node for every eight bytes.
//!
//! Instead the client remembers a **known length**: a length that the file had at least when it last heard of it. A
//! subfile needs to grow only if its size for `e` exceeds both its size for the known length and the end of what was
//! written to it. A write that continues the file at its end, or stays within it, needs nothing; one that leaves a gap
//! costs one more round trip.
//!
//! Growing comes **after** the data. If it came first, as one might read the paper, a write that is interrupted would
//! leave a file whose sizes fit together and whose content is missing. This way it leaves a file that the structural
//! check calls torn. A write has succeeded only when all subfiles have their size, in either order.
//!
//! The known length is wrong if somebody else has truncated the file since. The replies tell: they carry the size that
//! the subfile had before the write. A write that ends at `e` touches the subfile of byte `e − 1`; if it begins behind
//! the known length and does not touch the subfile of its last byte either, that one is asked for its size while the
//! data travels: the **witness**. So whatever was cut off shows in one of these sizes. Then nothing is known, and every
//! subfile is asked to grow. Growing never cuts (`grow`, not `set-length`), so that concurrent writers cannot harm each
//! other.

use crate::distribution::{Distribution, SubfileIndex};

/// What a write did to one subfile, or what the witness told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) subfile: SubfileIndex,
    /// The offset in the subfile behind the last byte written; 0 for the witness.
    pub(super) end: u64,
    /// The size that it had before.
    pub(super) size_before: u64,
}

/// The subfile to be asked for its size beside a write that ends at `end` and touches some subfiles, if any.
pub(super) fn witness(
    distribution: &Distribution,
    known_length: u64,
    end: u64,
    touches: impl Fn(SubfileIndex) -> bool,
) -> Option<SubfileIndex> {
    let last_known = known_length.checked_sub(1).filter(|_| end > known_length)?;
    Some(distribution.locate(last_known).subfile).filter(|subfile| !touches(*subfile))
}

/// The subfiles that must still grow after a write that ends at `end`, each with the size that it needs.
pub(super) fn needed(
    distribution: &Distribution,
    known_length: u64,
    end: u64,
    written: &[Written],
) -> Vec<(SubfileIndex, u64)> {
    let was_cut = |w: &Written| w.size_before < distribution.subfile_size(w.subfile, known_length);
    let known_length = if written.iter().any(was_cut) { 0 } else { known_length };
    let mut reached = vec![0; distribution.subfile_count()];
    for w in written {
        reached[w.subfile.index()] = w.end.max(w.size_before);
    }
    let grow = |subfile: SubfileIndex| {
        let needed = distribution.subfile_size(subfile, end);
        let there = distribution.subfile_size(subfile, known_length).max(reached[subfile.index()]);
        (needed > there).then_some((subfile, needed))
    };
    distribution.subfiles().filter_map(grow).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::{Region, StripeUnit, Structure};
    use proptest::prelude::*;

    /// Writes a region to a file of `sizes` and grows what `needed` says; gives how many subfiles had to grow.
    fn write(distribution: &Distribution, sizes: &mut [u64], known_length: u64, region: Region) -> usize {
        let told = |subfile: SubfileIndex, end| Written { subfile, end, size_before: sizes[subfile.index()] };
        let mut written: Vec<Written> =
            distribution.extents(region).map(|(subfile, extent)| told(subfile, extent.end())).collect();
        let touches = |subfile| written.iter().any(|w| w.subfile == subfile);
        let witness = witness(distribution, known_length, region.end(), touches);
        written.extend(witness.map(|subfile| told(subfile, 0)));
        for w in &written {
            sizes[w.subfile.index()] = w.end.max(w.size_before);
        }
        let grow = needed(distribution, known_length, region.end(), &written);
        for (subfile, size) in &grow {
            sizes[subfile.index()] = sizes[subfile.index()].max(*size);
        }
        grow.len()
    }

    fn sizes(distribution: &Distribution, length: u64) -> Vec<u64> {
        distribution.subfiles().map(|subfile| distribution.subfile_size(subfile, length)).collect()
    }

    #[test]
    fn appending_and_overwriting_grow_nothing() {
        let distribution = Distribution::new(StripeUnit::new(5).expect("in range"), 7).expect("in range");
        let mut sizes = sizes(&distribution, 0);
        let mut length = 0;
        for step in [1, 4, 5, 6, 100, 35, 2] {
            let region = Region::new(length, step).expect("small");
            assert_eq!(write(&distribution, &mut sizes, length, region), 0);
            length += step;
            assert_eq!(distribution.structure(&sizes), Structure::Intact { length });
        }
        assert_eq!(write(&distribution, &mut sizes, length, Region::new(3, 50).expect("small")), 0);
    }

    proptest! {
        #[test]
        fn after_a_write_no_subfile_is_short(unit in 1_u64..30, subfiles in 1_usize..=40, length in 0_u64..2_000,
                                             known in 0_u64..2_000, offset in 0_u64..3_000, count in 1_u64..300) {
            let distribution = Distribution::new(StripeUnit::new(unit).expect("in range"), subfiles).expect("in range");
            let mut sizes = sizes(&distribution, length);
            // Somebody may have truncated the file since it had the known length.
            write(&distribution, &mut sizes, known, Region::new(offset, count)?);
            let expected = length.max(offset + count);
            prop_assert_eq!(distribution.structure(&sizes), Structure::Intact { length: expected });
        }
    }
}
