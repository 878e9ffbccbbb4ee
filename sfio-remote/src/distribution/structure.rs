//! What the sizes of the subfiles say about the logical file (`[theory §4]`).
//!
//! There is no metadata: the sizes are the only record of the logical length, and whether they fit together is the only
//! structural check there is. It says nothing about content.

use std::fmt;

use super::{Distribution, Extent, Fragment, SubfileIndex};

/// What the sizes of all subfiles say about the logical file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Structure {
    /// They fit together to one length.
    Intact {
        /// The length of the logical file in bytes.
        length: u64,
    },
    /// They do not: a write or a truncation ended half-way, or the stripe unit is not the one written with.
    Torn(Torn),
}

/// How the sizes of the subfiles contradict one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torn {
    /// The first byte of the logical file that no subfile holds: everything before it is there.
    pub first_missing: u64,
    /// The subfile that is short: it would hold that byte.
    pub short: SubfileIndex,
    /// The subfiles that are long: they hold bytes behind that one.
    pub long: Vec<SubfileIndex>,
    /// The sum of all sizes in bytes.
    pub total: u128,
}

impl Structure {
    /// The length up to which the logical file is whole.
    pub fn whole_length(&self) -> u64 {
        match self {
            Structure::Intact { length } => *length,
            Structure::Torn(torn) => torn.first_missing,
        }
    }
}

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let long: Vec<String> = self.long.iter().map(|subfile| (subfile.0 + 1).to_string()).collect();
        write!(
            f,
            "subfile {} ends before logical byte {}, but subfile(s) {} go on ({} bytes in all)",
            self.short.0 + 1,
            self.first_missing,
            long.join(", "),
            self.total
        )
    }
}

impl Distribution {
    /// What the sizes of all subfiles, in the order of striping, say about the logical file.
    ///
    /// They are those of an intact file if and only if their sum is the first logical byte that a subfile lacks.
    /// `[theory §4]`
    ///
    /// # Panics
    /// If `sizes` does not have one element per subfile.
    ///
    /// ```
    /// use sfio_remote::distribution::{Distribution, StripeUnit, Structure};
    ///
    /// let distribution = Distribution::new(StripeUnit::new(5)?, 2)?;
    /// assert_eq!(distribution.structure(&[6, 5]), Structure::Intact { length: 11 });
    /// assert_eq!(distribution.structure(&[6, 4]).whole_length(), 9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn structure(&self, sizes: &[u64]) -> Structure {
        assert_eq!(sizes.len(), self.subfile_count(), "one size per subfile");
        let (first_missing, short) = self
            .subfiles()
            // A subfile of hostile size may lack only bytes that no offset can name.
            .map(|subfile| {
                (self.logical_offset(subfile, sizes[subfile.index()]).unwrap_or(u64::MAX), subfile)
            })
            .min()
            .expect("a distribution has at least one subfile");
        let total: u128 = sizes.iter().copied().map(u128::from).sum();
        if total == u128::from(first_missing) {
            return Structure::Intact { length: first_missing };
        }
        let long = self
            .subfiles()
            .filter(|subfile| sizes[subfile.index()] > self.subfile_size(*subfile, first_missing))
            .collect();
        Structure::Torn(Torn { first_missing, short, long, total })
    }

    /// The pieces of a logical file of `length` bytes that subfiles of these sizes lack, subfile by subfile, ascending
    /// within each.
    ///
    /// # Panics
    /// If `sizes` does not have one element per subfile.
    pub fn missing(&self, sizes: &[u64], length: u64) -> impl Iterator<Item = Fragment> {
        assert_eq!(sizes.len(), self.subfile_count(), "one size per subfile");
        self.subfiles().flat_map(move |subfile| {
            let needed = self.subfile_size(subfile, length);
            self.fragments(subfile, Extent::between(sizes[subfile.index()].min(needed), needed))
        })
    }
}
