//! The block-length law against exact integer arithmetic.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Zero};
use proptest::prelude::*;
use ror::{BlockError, BlockLaw};

/// A decimal number as written.
fn decimal(text: &str) -> BigRational {
    let (text, exponent) =
        text.split_once('e').map_or((text, 0), |(digits, exponent)| (digits, exponent.parse().unwrap()));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: BigInt = format!("{whole}{fraction}").parse().unwrap();
    let power = exponent - fraction.len() as i32;
    let ten = BigInt::from(10).pow(power.unsigned_abs());
    if power < 0 { BigRational::new(digits, ten) } else { BigRational::from_integer(digits * ten) }
}

/// P(more than N − M losses) exactly.
fn exact_tail(source_packets: u32, length: u32, loss: &BigRational) -> BigRational {
    let (p, q) = (loss.numer(), loss.denom() - loss.numer());
    let mut term = BigInt::one();
    // Terms n = N, N−1, …: C(N, n)·pⁿ·q^(N−n), numerators over the common denominator.
    for _ in 0..length {
        term *= p;
    }
    let mut sum = BigInt::zero();
    for received in 0..source_packets {
        sum += &term;
        term = term * (length - received) * &q / (BigInt::from(received + 1) * p);
    }
    BigRational::new(sum, loss.denom().pow(length))
}

fn exact_block_length(source_packets: u32, loss: &BigRational, rate: &BigRational) -> u32 {
    (source_packets..).find(|&length| exact_tail(source_packets, length, loss) <= *rate).unwrap()
}

#[test]
fn the_exact_table_is_reproduced() {
    let mut lines = 0;
    for line in include_str!("fixtures/block_length.csv").lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let law = BlockLaw::new(fields[0].parse().unwrap(), fields[2].parse().unwrap()).unwrap();
        assert_eq!(law.block_length(fields[1].parse().unwrap()).unwrap().to_string(), fields[3], "{line}");
        lines += 1;
    }
    assert_eq!(lines, 148);
}

#[test]
fn the_vectors_of_the_theory_are_reproduced() {
    let losses = [0.01, 0.036, 0.05, 0.078, 0.1, 0.2, 0.25, 1.0 / 3.0, 0.5];
    for (source_packets, lengths) in [
        (1, [3, 4, 4, 5, 5, 8, 9, 11, 17]),
        (10, [13, 15, 16, 18, 19, 24, 27, 32, 48]),
        (20, [24, 27, 28, 30, 32, 40, 44, 52, 76]),
    ] {
        let law = BlockLaw::new(source_packets, 1e-5).unwrap();
        assert_eq!(losses.map(|loss| law.block_length(loss).unwrap()), lengths);
    }
}

#[test]
fn ties_count_as_met() {
    // pⁿ = DER exactly, in decimal.
    for (loss, rate, length) in
        [(0.1, 1e-5, 5), (0.1, 1e-15, 15), (0.2, 3.2e-4, 5), (0.01, 1e-14, 7), (0.5, 0.0625, 4)]
    {
        assert_eq!(BlockLaw::new(1, rate).unwrap().block_length(loss), Ok(length), "{loss} {rate}");
    }
}

#[test]
fn tiny_rates_and_blocks_of_thousands_are_exact() {
    for (source_packets, loss, rate) in [
        (1000, "0.05", "1e-15"),
        (1024, "0.3", "1e-12"),
        (2000, "0.01", "1e-6"),
        (500, "0.8", "1e-15"),
        (200, "0.001", "0.1"),
    ] {
        let law = BlockLaw::new(source_packets, rate.parse().unwrap()).unwrap();
        let length = law.block_length(loss.parse().unwrap()).unwrap();
        let (loss, rate) = (decimal(loss), decimal(rate));
        assert!(exact_tail(source_packets, length, &loss) <= rate, "{source_packets}: {length} is too short");
        assert!(
            exact_tail(source_packets, length - 1, &loss) > rate,
            "{source_packets}: {length} is too long"
        );
    }
}

/// M, p, DER and N.
const LONG_BLOCKS: [(u32, f64, f64, u32); 7] = [
    (100_000, 0.001, 1e-5, 100_146),
    (100_000, 0.05, 1e-15, 105_866),
    (100_000, 0.333, 1e-9, 151_578),
    (100_000, 0.9, 1e-5, 1_012_849),
    (100_000, 0.99, 1e-15, 10_251_931),
    (20_000, 0.5, 1e-12, 41_431),
    (5_000, 0.99, 1e-15, 557_948),
];

/// Computed once with Python's `decimal` at 80 digits: the sum of eq. 10 term by term, up from the largest.
#[test]
fn blocks_of_a_hundred_thousand_are_as_long_as_in_eighty_digits() {
    for (source_packets, loss, rate, length) in LONG_BLOCKS {
        let law = BlockLaw::new(source_packets, rate).unwrap();
        assert_eq!(law.block_length(loss), Ok(length), "{source_packets} {loss} {rate}");
    }
}

#[test]
fn no_loss_needs_no_redundancy_and_total_loss_is_an_error() {
    let law = BlockLaw::new(20, 1e-5).unwrap();
    assert_eq!(law.block_length(0.0), Ok(20));
    for loss in [1.0, 1.5, -0.1, f64::NAN] {
        assert!(matches!(law.block_length(loss), Err(BlockError::BadLoss { .. })));
    }
    assert!(matches!(law.block_length(1.0 - 1e-9), Err(BlockError::TooLong { .. })));
    assert!(matches!(law.largest_loss(19), Err(BlockError::BadLength { .. })));
    assert!(matches!(BlockLaw::new(0, 1e-5), Err(BlockError::BadSourcePackets { .. })));
    assert!(matches!(BlockLaw::new(1, 1.0), Err(BlockError::BadRate { .. })));
}

proptest! {
    #[test]
    fn block_lengths_are_exact(source_packets in 1u32..=200, loss in 1u32..=990, rate in 1i32..=15) {
        let law = BlockLaw::new(source_packets, format!("1e-{rate}").parse().unwrap()).unwrap();
        let exact_loss = BigRational::new(loss.into(), 1000.into());
        let exact_rate = BigRational::new(1.into(), BigInt::from(10).pow(rate as u32));
        let length = law.block_length(f64::from(loss) / 1000.0).unwrap();
        prop_assert!(exact_tail(source_packets, length, &exact_loss) <= exact_rate);
        prop_assert!(length == source_packets || exact_tail(source_packets, length - 1, &exact_loss) > exact_rate);
        if length < 60 {
            prop_assert_eq!(length, exact_block_length(source_packets, &exact_loss, &exact_rate));
        }
    }

    #[test]
    fn the_inverse_is_the_last_loss_that_a_block_bears(source_packets in 1u32..200, spare in 1u32..200) {
        let law = BlockLaw::new(source_packets, 1e-5).unwrap();
        let length = source_packets + spare;
        let loss = law.largest_loss(length).unwrap();
        prop_assert!(law.block_length(loss).unwrap() <= length);
        prop_assert!(law.block_length(loss * (1.0 + 1e-9)).unwrap() > length);
    }

    #[test]
    fn lengths_rise_with_the_loss(source_packets in 1u32..100, a in 0.0..0.9f64, b in 0.0..0.9f64) {
        let law = BlockLaw::new(source_packets, 1e-5).unwrap();
        prop_assert!(law.block_length(a.min(b)).unwrap() <= law.block_length(a.max(b)).unwrap());
    }
}
