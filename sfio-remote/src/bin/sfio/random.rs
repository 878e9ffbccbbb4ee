//! Random bytes of the operating system.

use ring::rand::{SecureRandom as _, SystemRandom};

use crate::exit::{Exit, Failure};

/// So many bytes that nobody can guess.
///
/// # Errors
/// If the operating system gives none.
pub(crate) fn random_bytes<const COUNT: usize>() -> Result<[u8; COUNT], Failure> {
    let mut bytes = [0; COUNT];
    let drawn = SystemRandom::new().fill(&mut bytes);
    drawn.map_err(|_| Failure::new(Exit::Failed, "the operating system gives no random numbers"))?;
    Ok(bytes)
}
