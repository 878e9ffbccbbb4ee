//! The size of a stripe.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use super::MAX_LENGTH;

/// The number of bytes in a stripe: any from 1 up. It is recorded nowhere, so reading needs the one that was written
/// with.
///
/// ```
/// use sfio_remote::distribution::StripeUnit;
///
/// assert_eq!("64KiB".parse::<StripeUnit>()?, StripeUnit::DEFAULT);
/// assert_eq!("75".parse::<StripeUnit>()?.to_string(), "75");
/// # Ok::<(), sfio_remote::distribution::StripeUnitError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StripeUnit(NonZeroU64);

/// A stripe unit that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StripeUnitError {
    /// It is zero, or larger than any file.
    #[error("a stripe unit of {0} bytes; expected 1 to {MAX_LENGTH}")]
    OutOfRange(u64),
    /// It is not a size.
    #[error("\"{0}\" is no stripe unit; expected bytes, as 200, or with a unit, as 64KiB")]
    Syntax(String),
}

impl StripeUnit {
    /// 64 KiB (design §8).
    pub const DEFAULT: StripeUnit = StripeUnit(NonZeroU64::new(64 << 10).unwrap());

    /// A stripe of that many bytes.
    ///
    /// # Errors
    /// If it is 0 or above [`MAX_LENGTH`].
    pub fn new(bytes: u64) -> Result<StripeUnit, StripeUnitError> {
        NonZeroU64::new(bytes)
            .filter(|unit| unit.get() <= MAX_LENGTH)
            .map(StripeUnit)
            .ok_or(StripeUnitError::OutOfRange(bytes))
    }

    /// Its size in bytes.
    pub fn bytes(self) -> u64 {
        self.0.get()
    }
}

impl Default for StripeUnit {
    fn default() -> StripeUnit {
        StripeUnit::DEFAULT
    }
}

/// The units that a stripe unit may be written in: name and the power of two.
const UNITS: [(&str, u32); 4] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];

impl FromStr for StripeUnit {
    type Err = StripeUnitError;

    fn from_str(text: &str) -> Result<StripeUnit, StripeUnitError> {
        let (digits, shift) = UNITS
            .iter()
            .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?.trim_ascii_end(), *shift)))
            .unwrap_or((text, 0));
        let syntax = || StripeUnitError::Syntax(text.to_owned());
        let number: u64 = digits.parse().map_err(|_| syntax())?;
        StripeUnit::new(number.checked_mul(1 << shift).ok_or_else(syntax)?)
    }
}

impl fmt::Display for StripeUnit {
    /// In the largest unit that divides it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().rev().find(|(_, shift)| self.bytes().is_multiple_of(1 << shift)) {
            Some((unit, shift)) => write!(f, "{}{unit}", self.bytes() >> shift),
            None => write!(f, "{}", self.bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        for (text, bytes) in
            [("1", 1), ("200", 200), ("64KiB", 65_536), ("3 MiB", 3 << 20), ("1GiB", 1 << 30)]
        {
            assert_eq!(text.parse::<StripeUnit>().map(StripeUnit::bytes), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_what_would_be_right() {
        for text in ["", "KiB", "-1", "1.5KiB", "64kb", "20000000000GiB"] {
            assert_eq!(text.parse::<StripeUnit>(), Err(StripeUnitError::Syntax(text.to_owned())));
        }
        assert_eq!("0".parse::<StripeUnit>(), Err(StripeUnitError::OutOfRange(0)));
        assert_eq!(StripeUnit::new(1 << 63), Err(StripeUnitError::OutOfRange(1 << 63)));
    }

    #[test]
    fn a_printed_unit_reads_back() {
        for bytes in [1, 5, 1_000, 1_024, 65_536, 1 << 30, (1 << 30) + 1, MAX_LENGTH] {
            let unit = StripeUnit::new(bytes).expect("in range");
            assert_eq!(unit.to_string().parse(), Ok(unit));
        }
    }
}
