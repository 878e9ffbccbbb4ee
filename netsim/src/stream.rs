//! Random streams, one per name: adding one leaves the others as they were.

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

/// Keeps our keys apart from those of anyone else who hashes (seed, name).
const CONTEXT: &str = "netsim 2026-01 random stream";

/// The random stream of `name` under `seed`: ChaCha8, keyed by BLAKE3 of both [design §5].
///
/// `name` is a list of parts; how they are cut matters, so `["ab", "c"]` and `["a", "bc"]` are two streams.
///
/// ```
/// # use rand_core::RngCore;
/// let mut once = netsim::random_stream(7, &["resolver", "client"]);
/// let mut again = netsim::random_stream(7, &["resolver", "client"]);
/// assert_eq!(once.next_u64(), again.next_u64());
/// ```
pub fn random_stream(seed: u64, name: &[&str]) -> ChaCha8Rng {
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    hasher.update(&seed.to_le_bytes());
    for part in name {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    ChaCha8Rng::from_seed(*hasher.finalize().as_bytes())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand_core::RngCore;

    use super::*;

    #[test]
    fn seeds_and_names_and_their_cuts_give_different_streams() {
        let streams: [(u64, &[&str]); 4] =
            [(1, &["ab", "c"]), (2, &["ab", "c"]), (1, &["a", "bc"]), (1, &[])];
        let first: BTreeSet<u64> =
            streams.iter().map(|(seed, name)| random_stream(*seed, name).next_u64()).collect();
        assert_eq!(first.len(), streams.len());
    }
}
