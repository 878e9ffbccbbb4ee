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

/// The random numbers for one packet, all made from one draw of its link's stream: a packet costs the stream equally
/// much whatever is decided about it, so a change of parameters leaves the fate of the others as it was.
///
/// The first number is the draw itself; the others are SplitMix64 of it (Steele, Lea, Flood 2014).
#[derive(Debug)]
pub(crate) struct Draws {
    next: u64,
    state: u64,
}

impl From<u64> for Draws {
    fn from(draw: u64) -> Self {
        Self { next: draw, state: draw }
    }
}

impl Draws {
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        std::mem::replace(&mut self.next, mixed ^ (mixed >> 31))
    }
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
