//! Groups of ranks in memory, in virtual time, against files in memory byte by byte.
//!
//! ```sh
//! cargo test --workspace --lib collective                                          # a few hundred cases of each kind
//! COLLECTIVE_CASES=0..100000 cargo test --release --workspace --lib collective     # as many as that
//! COLLECTIVE_CASES=4711 cargo test --workspace --lib collective                    # one
//! ```

mod bytes_and_domains;
mod crashes;
mod speed;
mod world;

use std::ops::Range;

/// The seeds that the environment asks for, `A..B` or a single one; else the first `usual` ones.
fn seeds(usual: u64) -> Range<u64> {
    let Ok(asked) = std::env::var("COLLECTIVE_CASES") else { return 0..usual };
    let number = |text: &str| text.parse::<u64>().expect("COLLECTIVE_CASES is A..B or a number");
    match asked.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => number(&asked)..number(&asked) + 1,
    }
}
