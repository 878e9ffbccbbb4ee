//! Random bytes of the operating system.

use std::io;

use ring::rand::{SecureRandom as _, SystemRandom};

/// So many bytes that nobody can guess.
///
/// # Errors
/// If the operating system gives none.
pub(super) fn random<const COUNT: usize>() -> io::Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    let drawn = SystemRandom::new().fill(&mut bytes);
    drawn.map_err(|_| io::Error::other("the operating system gives no random numbers"))?;
    Ok(bytes)
}
