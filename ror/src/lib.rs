//! Redundancy Overall Requirement: how much forward error correction a routing needs when links fail one by one.
//!
//! A sender that loses a link adds repair packets until the receiver can decode again. [`BlockLaw`] says how long a
//! block then has to be; [`rate`] and [`rate_large_blocks`] add up, over all links of a routing that may fail, by how
//! much the sender must grow [theory §2; thesis §4.3]. For many routings, [`CostTable`] remembers what the law said and
//! [`rate_each`] rates one routing for several tolerances at once.
//!
//! ```
//! use capillary::{NodeId, Orientation, Topology};
//! use ror::BlockLaw;
//!
//! let five = [("s", "t", 1.0); 5];
//! let topology = Topology::from_links(Orientation::Directed, five)?;
//! let routing = capillary::solve(&topology, NodeId(0), NodeId(1))?;
//!
//! // Large blocks: each link carries a fifth, so each failure costs 25 % more packets.
//! let rating = ror::rate_large_blocks(&routing, 0.0)?;
//! assert!((rating.overall - 1.25).abs() < 1e-12);
//!
//! // Blocks of 20 packets need more: 40 packets survive a loss of 20 % at the default decoding error rate.
//! assert_eq!(BlockLaw::new(20, ror::DEFAULT_DECODING_ERROR_RATE)?.block_length(0.2)?, 40);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod block;
mod cost;
mod rating;

pub use block::{BlockError, BlockLaw, DEFAULT_DECODING_ERROR_RATE, DEFAULT_SOURCE_PACKETS, LONGEST_BLOCK};
pub use cost::{BlockLengths, CostTable};
pub use rating::{Rating, RatingError, rate, rate_each, rate_large_blocks};
