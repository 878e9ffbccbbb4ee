//! Rates and probabilities as types: a value that exists is a value that makes sense.

use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use thiserror::Error;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// A number that is no rate or no probability.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum UnitError {
    /// The rate is zero, negative, not a number, or beyond 2⁶⁴ bit/s.
    #[error("{} bit/s is no rate: it must be at least 1 bit/s and finite", Short(*.bits_per_second))]
    Rate {
        /// What was asked for, in bit/s.
        bits_per_second: f64,
    },
    /// The probability is not in [0, 1].
    #[error("{} is no probability: it must lie in [0, 1]", Short(*.value))]
    Probability {
        /// What was asked for.
        value: f64,
    },
}

/// A number as people write it: those with very many digits by a power of ten.
pub(crate) struct Short(pub(crate) f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.abs() {
            0.0 | 1e-6..1e15 => write!(f, "{}", self.0),
            _ => write!(f, "{:e}", self.0),
        }
    }
}

/// A transmission rate in bit/s, at least 1.
///
/// ```
/// # use netsim::Rate;
/// # use std::time::Duration;
/// let rate = Rate::from_mbit(100);
/// assert_eq!(rate.time_for(1_250), Duration::from_micros(100));
/// assert_eq!(rate.bytes_in(Duration::from_millis(50)), 625_000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(NonZeroU64);

impl Rate {
    /// The rate of `bits` bit/s.
    ///
    /// # Panics
    /// If it is zero. For numbers that a user typed there is [`Rate::try_from_bits`].
    pub const fn from_bits(bits: u64) -> Self {
        match NonZeroU64::new(bits) {
            Some(bits) => Self(bits),
            None => panic!("a rate is at least 1 bit/s"),
        }
    }

    /// The rate of `mbit` · 10⁶ bit/s.
    ///
    /// # Panics
    /// If it is zero or beyond 2⁶⁴ bit/s.
    pub const fn from_mbit(mbit: u64) -> Self {
        match mbit.checked_mul(1_000_000) {
            Some(bits) => Self::from_bits(bits),
            None => panic!("a rate fits 64 bits"),
        }
    }

    /// The rate of `bits_per_second` bit/s, rounded down to whole bits.
    ///
    /// # Errors
    /// [`UnitError::Rate`] below 1 bit/s, from 2⁶⁴ bit/s on, and for what is not a number.
    pub fn try_from_bits(bits_per_second: f64) -> Result<Self, UnitError> {
        // 2^64 as f64; the cast below saturates, so everything from here on would be one rate.
        const LIMIT: f64 = 18_446_744_073_709_551_616.0;
        let whole = Some(bits_per_second).filter(|rate| (1.0..LIMIT).contains(rate));
        whole
            .and_then(|rate| NonZeroU64::new(rate as u64))
            .map(Self)
            .ok_or(UnitError::Rate { bits_per_second })
    }

    /// The rate in bit/s.
    pub const fn bits_per_second(self) -> u64 {
        self.0.get()
    }

    /// How long `bytes` take to send, rounded up to a nanosecond, so that a series of packets never exceeds
    /// the rate. What does not fit 64 bits of nanoseconds is the longest time that does, 584 years.
    pub fn time_for(self, bytes: u64) -> Duration {
        let nanos = (u128::from(bytes) * 8 * NANOS_PER_SECOND).div_ceil(u128::from(self.0.get()));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// How many whole bytes are sent in `time`.
    pub fn bytes_in(self, time: Duration) -> u64 {
        let bits = u128::from(self.0.get()).saturating_mul(time.as_nanos()) / NANOS_PER_SECOND;
        u64::try_from(bits / 8).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Mbit/s", self.0.get() as f64 / 1e6)
    }
}

/// A probability in [0, 1].
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Probability(f64);

impl Probability {
    /// It never happens.
    pub const ZERO: Self = Self(0.0);
    /// It always happens.
    pub const ONE: Self = Self(1.0);

    /// The probability `value`.
    ///
    /// # Errors
    /// [`UnitError::Probability`] outside [0, 1] and for what is not a number.
    pub fn new(value: f64) -> Result<Self, UnitError> {
        if (0.0..=1.0).contains(&value) { Ok(Self(value)) } else { Err(UnitError::Probability { value }) }
    }

    /// The probability as a number in [0, 1].
    pub const fn get(self) -> f64 {
        self.0
    }

    /// Whether it happens, decided by 64 uniformly random bits. The comparison is exact: 53 bits of the draw
    /// fit an `f64`, and scaling by a power of two rounds nothing, so every machine decides alike.
    pub(crate) fn decide(self, draw: u64) -> bool {
        const SCALE: f64 = 1.0 / (1_u64 << 53) as f64;
        ((draw >> 11) as f64 * SCALE) < self.0
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_makes_no_sense_is_refused() {
        for bits_per_second in [0.0, -1.0, 0.5, f64::NAN, f64::INFINITY, 2.0_f64.powi(64)] {
            assert!(Rate::try_from_bits(bits_per_second).is_err(), "{bits_per_second}");
        }
        assert_eq!(Rate::try_from_bits(1e6), Ok(Rate::from_mbit(1)));
    }

    /// A speed of 1e308 had 309 digits.
    #[test]
    fn a_refusal_is_short_whatever_the_number() {
        let told = |bits_per_second| UnitError::Rate { bits_per_second }.to_string();
        assert!(told(-1e308).starts_with("-1e308 bit/s is no rate"));
        assert!(told(0.5).starts_with("0.5 bit/s") && told(0.0).starts_with("0 bit/s"));
        assert!(told(1e-300).starts_with("1e-300 bit/s") && told(f64::INFINITY).starts_with("inf bit/s"));
    }

    #[test]
    fn a_probability_outside_zero_to_one_is_refused() {
        for value in [-1e-9, 1.000_001, f64::NAN, f64::INFINITY] {
            assert!(Probability::new(value).is_err(), "{value}");
        }
        assert_eq!(Probability::new(0.0), Ok(Probability::ZERO));
        assert_eq!(Probability::new(1.0), Ok(Probability::ONE));
    }

    #[test]
    fn zero_never_happens_and_one_always() {
        for draw in [0, 1, u64::MAX / 2, u64::MAX] {
            assert!(!Probability::ZERO.decide(draw));
            assert!(Probability::ONE.decide(draw));
        }
    }

    #[test]
    fn sending_times_are_rounded_up_and_never_overflow() {
        assert_eq!(Rate::from_bits(3).time_for(1), Duration::from_nanos(2_666_666_667));
        assert_eq!(Rate::from_bits(u64::MAX).time_for(1), Duration::from_nanos(1));
        assert_eq!(Rate::from_bits(1).time_for(u64::MAX), Duration::from_nanos(u64::MAX));
        assert_eq!(Rate::from_bits(u64::MAX).bytes_in(Duration::MAX), u64::MAX);
    }
}
