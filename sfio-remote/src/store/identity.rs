//! Which export root is whose: a root carries an identity, and its I/O node remembers it elsewhere.
//!
//! A disk that is not mounted leaves an empty folder behind. Served, it would look like an I/O node that has lost all
//! that it ever acknowledged, and new data would go where nobody looks for it. So a root that is not the one that was
//! served before is not served.

use std::fmt;
use std::str::FromStr;

/// The identity of an export root: drawn at random when it is first served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootId(pub [u8; 16]);

/// What to do with an export root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Serve it: it is the one.
    Serve,
    /// Serve it and remember it: the I/O node has never served one, and this one has an identity.
    Remember(RootId),
    /// Give it an identity, then remember that and serve it: neither has been in use.
    New,
}

/// Why an export root is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WrongRoot {
    /// It has no identity, and one with an identity was served before.
    #[error(
        "it is not what was served before ({0}): it has no identity. Is a disk not mounted? If the disk was replaced"
    )]
    Unmarked(RootId),
    /// It is another one.
    #[error(
        "it is {found}, and what was served before is {remembered}. Is the wrong disk mounted? If it is to be served"
    )]
    Other {
        /// What was served before.
        remembered: RootId,
        /// What is there now.
        found: RootId,
    },
}

/// What to do with a root that has the identity `found`, if the I/O node remembers having served `remembered`.
///
/// # Errors
/// If it must not be served.
pub fn judge(remembered: Option<RootId>, found: Option<RootId>) -> Result<Verdict, WrongRoot> {
    match (remembered, found) {
        (None, None) => Ok(Verdict::New),
        (None, Some(found)) => Ok(Verdict::Remember(found)),
        (Some(remembered), None) => Err(WrongRoot::Unmarked(remembered)),
        (Some(remembered), Some(found)) if remembered == found => Ok(Verdict::Serve),
        (Some(remembered), Some(found)) => Err(WrongRoot::Other { remembered, found }),
    }
}

impl fmt::Display for RootId {
    /// 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// A text that is no identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected the identity of an export root, 32 hexadecimal digits in a line")]
pub struct NotARootId;

impl FromStr for RootId {
    type Err = NotARootId;

    /// Reads the digits, with a line end behind them or without.
    fn from_str(text: &str) -> Result<RootId, NotARootId> {
        let digits = text.strip_suffix('\n').unwrap_or(text);
        let is_right = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(digits, 16).ok().filter(|_| is_right).ok_or(NotARootId)?;
        Ok(RootId(number.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: RootId = RootId([1; 16]);
    const TWO: RootId = RootId([2; 16]);

    #[test]
    fn a_root_is_served_only_if_it_is_the_one_that_was_served_before() {
        assert_eq!(judge(None, None), Ok(Verdict::New));
        assert_eq!(judge(None, Some(ONE)), Ok(Verdict::Remember(ONE)));
        assert_eq!(judge(Some(ONE), Some(ONE)), Ok(Verdict::Serve));
        assert_eq!(judge(Some(ONE), None), Err(WrongRoot::Unmarked(ONE)));
        assert_eq!(judge(Some(ONE), Some(TWO)), Err(WrongRoot::Other { remembered: ONE, found: TWO }));
    }

    #[test]
    fn an_identity_is_its_digits() {
        let id = RootId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        assert_eq!(id.to_string(), "000102030405060708090a0b0c0d0eff");
        assert_eq!(format!("{id}\n").parse(), Ok(id));
        for wrong in ["", "00", "+00102030405060708090a0b0c0d0eff", "000102030405060708090a0b0c0d0eff\n\n"] {
            assert_eq!(wrong.parse::<RootId>(), Err(NotARootId), "{wrong:?}");
        }
    }
}
