//! How many packets a block needs: the block-length law [theory §2; thesis §4.3.2].

use thiserror::Error;

/// The decoding error rate of the thesis's figures [design §8].
pub const DEFAULT_DECODING_ERROR_RATE: f64 = 1e-5;

/// The source packets of a block in the thesis's figures: what 400 ms of telephony hold [design §8].
pub const DEFAULT_SOURCE_PACKETS: u32 = 20;

/// The longest block that the law reckons with. Longer ones ask for a loss so near 1 that no code is the answer; the
/// bound keeps the search and the round-off of its sums in check.
pub const LONGEST_BLOCK: u32 = 1 << 24;

/// A tail this near the wanted rate, relative, counts as equal to it: losses and rates mean the decimal numbers as
/// written, which binary numbers only approximate [theory §2].
const TIE: f64 = 1e-12;

/// What the law cannot answer.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum BlockError {
    /// A loss outside [0, 1).
    #[error("the loss is {loss}; it must lie in [0, 1), since no block survives the loss of everything")]
    BadLoss {
        /// The loss that was given.
        loss: f64,
    },
    /// A decoding error rate outside (0, 1).
    #[error("the decoding error rate is {rate}; it must lie strictly between 0 and 1")]
    BadRate {
        /// The rate that was given.
        rate: f64,
    },
    /// A block without source packets, or with more than a block can have.
    #[error("a block of {source_packets} source packets; it must have 1 to {LONGEST_BLOCK}")]
    BadSourcePackets {
        /// The number that was given.
        source_packets: u32,
    },
    /// A block shorter than its source packets, or longer than any.
    #[error(
        "a block of {length} packets; with {source_packets} source packets it must have {source_packets} to {LONGEST_BLOCK}"
    )]
    BadLength {
        /// The length that was given.
        length: u32,
        /// The source packets of the law.
        source_packets: u32,
    },
    /// A loss that needs a block longer than [`LONGEST_BLOCK`].
    #[error("a loss of {loss} needs a block of more than {LONGEST_BLOCK} packets")]
    TooLong {
        /// The loss that was given.
        loss: f64,
    },
}

/// FEC(M, p) for a fixed M and decoding error rate: the length of a block of which any M packets suffice to decode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockLaw {
    source_packets: u32,
    rate: f64,
}

impl BlockLaw {
    /// The law for blocks of `source_packets` (M) that may fail to decode with probability `decoding_error_rate`.
    pub fn new(source_packets: u32, decoding_error_rate: f64) -> Result<Self, BlockError> {
        if !(1..=LONGEST_BLOCK).contains(&source_packets) {
            return Err(BlockError::BadSourcePackets { source_packets });
        }
        if !(decoding_error_rate > 0.0 && decoding_error_rate < 1.0) {
            return Err(BlockError::BadRate { rate: decoding_error_rate });
        }
        Ok(Self { source_packets, rate: decoding_error_rate })
    }

    /// M, the source packets of a block.
    pub fn source_packets(&self) -> u32 {
        self.source_packets
    }

    /// FEC(M, p): the fewest packets of a block so that, when each is lost with probability `loss`, fewer than M
    /// arrive in at most the wanted share of the blocks (eqs. 9, 10). M if nothing is lost.
    ///
    /// Complexity: O(log N) tails, each of as many terms as count, some √N.
    ///
    /// ```
    /// let law = ror::BlockLaw::new(1, 1e-5)?;
    /// assert_eq!(law.block_length(0.1)?, 5); // 0.1⁵ is exactly the rate: a tie counts as met
    /// assert!(law.block_length(1.0).is_err());
    /// # Ok::<(), ror::BlockError>(())
    /// ```
    pub fn block_length(&self, loss: f64) -> Result<u32, BlockError> {
        if !(0.0..1.0).contains(&loss) {
            return Err(BlockError::BadLoss { loss });
        }
        let (mut too_short, mut enough) = (self.source_packets - 1, self.source_packets);
        while !self.suffices(enough, loss) {
            if enough == LONGEST_BLOCK {
                return Err(BlockError::TooLong { loss });
            }
            too_short = enough;
            enough = enough.saturating_mul(2).min(LONGEST_BLOCK);
        }
        while enough - too_short > 1 {
            let middle = too_short + (enough - too_short) / 2;
            if self.suffices(middle, loss) { enough = middle } else { too_short = middle }
        }
        Ok(enough)
    }

    /// The inverse: the largest loss that a block of `length` packets bears, to the precision of the number.
    ///
    /// ```
    /// let law = ror::BlockLaw::new(20, 1e-5)?;
    /// let loss = law.largest_loss(32)?;
    /// assert_eq!(law.block_length(loss)?, 32);
    /// assert!(loss >= 0.1);
    /// # Ok::<(), ror::BlockError>(())
    /// ```
    pub fn largest_loss(&self, length: u32) -> Result<f64, BlockError> {
        if !(self.source_packets..=LONGEST_BLOCK).contains(&length) {
            return Err(BlockError::BadLength { length, source_packets: self.source_packets });
        }
        let (mut bearable, mut too_much) = (0.0, 1.0);
        if length == self.source_packets {
            // Not one packet may be lost, so (1 − p)^M must be at least 1 − rate, and p is at most the rate.
            too_much = self.rate;
        }
        // Bisection ends when no number lies between: at most some 1,100 rounds, for losses next to 0.
        loop {
            let middle = bearable + (too_much - bearable) / 2.0;
            if middle <= bearable || middle >= too_much {
                return Ok(bearable);
            }
            if self.suffices(length, middle) { bearable = middle } else { too_much = middle }
        }
    }

    fn suffices(&self, length: u32, loss: f64) -> bool {
        let spare = length - self.source_packets;
        probability_of_more_losses(length, spare, loss) <= self.rate * (1.0 + TIE)
    }
}

/// P(more than `spare` of `length` packets are lost), each with probability `loss` in [0, 1).
///
/// The sum runs over the side of the binomial distribution that is away from its mean, from the term next to `spare`
/// outwards, each term from the one before by a ratio: all terms are positive and fall, so nothing cancels, and only
/// the first needs a logarithm.
fn probability_of_more_losses(length: u32, spare: u32, loss: f64) -> f64 {
    if loss == 0.0 || spare >= length {
        return 0.0;
    }
    let first = spare + 1;
    if f64::from(first) > f64::from(length) * loss {
        let odds = loss / (1.0 - loss);
        let ratio = |lost: f64| (f64::from(length) - lost) / (lost + 1.0) * odds;
        falling_sum(probability_of_losses(length, first, loss), (first..length).map(f64::from).map(ratio))
    } else {
        let odds = (1.0 - loss) / loss;
        let ratio = |lost: f64| lost / (f64::from(length) - lost + 1.0) * odds;
        1.0 - falling_sum(
            probability_of_losses(length, spare, loss),
            (1..=spare).rev().map(f64::from).map(ratio),
        )
    }
}

/// first + first·r₁ + first·r₁·r₂ + …, until the terms no longer count.
fn falling_sum(first: f64, ratios: impl Iterator<Item = f64>) -> f64 {
    let (mut term, mut sum) = (1.0, 1.0);
    for ratio in ratios {
        term *= ratio;
        sum += term;
        if term < sum * f64::EPSILON * (1.0 - ratio).max(f64::EPSILON) {
            break;
        }
    }
    first * sum
}

/// P(exactly `lost` of `length` packets are lost) = C(N, n)·pⁿ·(1−p)^(N−n)  (eq. 9).
///
/// By Loader's saddle-point form (2000), which stays right to some 1e-14 relative where log-gamma loses 1e-12 for N in
/// the thousands: ties at 1e-12 must still be seen.
fn probability_of_losses(length: u32, lost: u32, loss: f64) -> f64 {
    let (n, k) = (f64::from(length), f64::from(lost));
    if lost == 0 {
        return libm::exp(n * libm::log1p(-loss));
    }
    if lost == length {
        return libm::pow(loss, n);
    }
    let rest = n - k;
    let exponent = stirling_error(n)
        - stirling_error(k)
        - stirling_error(rest)
        - deviance(k, n * loss)
        - deviance(rest, n * (1.0 - loss));
    libm::exp(exponent) * libm::sqrt(n / (2.0 * std::f64::consts::PI * k * rest))
}

/// ln(n!) − Stirling's formula for it.
fn stirling_error(n: f64) -> f64 {
    if n < 16.0 {
        let factorial: f64 = (2..=n as u32).map(f64::from).product();
        let half_log = 0.5 * libm::log(2.0 * std::f64::consts::PI * n);
        return libm::log(factorial) - (half_log + n * libm::log(n) - n);
    }
    // The asymptotic series; at n = 16 the first term left out is below 1e-16.
    let square = n * n;
    let inner = 1.0 / 1260.0 - (1.0 / 1680.0 - (1.0 / 1188.0 - 691.0 / 360_360.0 / square) / square) / square;
    (1.0 / 12.0 - (1.0 / 360.0 - inner / square) / square) / n
}

/// k·ln(k/mean) + mean − k, without cancellation where k is near the mean.
fn deviance(k: f64, mean: f64) -> f64 {
    let difference = k - mean;
    if difference.abs() >= 0.1 * (k + mean) {
        return k * libm::log(k / mean) - difference;
    }
    // ln(k/mean) = 2·artanh(v), whose first term takes the difference away.
    let v = difference / (k + mean);
    let mut sum = difference * v;
    let mut power = 2.0 * k * v;
    for odd in (3..).step_by(2) {
        power *= v * v;
        let next = sum + power / f64::from(odd);
        if next == sum {
            break;
        }
        sum = next;
    }
    sum
}
