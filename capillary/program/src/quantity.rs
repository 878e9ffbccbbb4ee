//! Sizes, rates, durations and shares as people type them.
//!
//! Each function suits clap's `value_parser`. Each error names the text, and what would be right.

use std::num::{IntErrorKind, NonZeroU32, ParseIntError};
use std::time::Duration;

/// Units of sizes, in bytes.
const SIZES: [(&str, f64); 10] = [
    ("TiB", (1_u64 << 40) as f64),
    ("GiB", (1_u64 << 30) as f64),
    ("MiB", (1_u64 << 20) as f64),
    ("KiB", 1024.0),
    ("TB", 1e12),
    ("GB", 1e9),
    ("MB", 1e6),
    ("kB", 1e3),
    ("B", 1.0),
    ("", 1.0),
];

/// Units of rates, in bytes per second; bits have decimal prefixes.
const RATES: [(&str, f64); 11] = [
    ("Gbit/s", 1e9 / 8.0),
    ("Mbit/s", 1e6 / 8.0),
    ("kbit/s", 1e3 / 8.0),
    ("bit/s", 1.0 / 8.0),
    ("GiB/s", (1_u64 << 30) as f64),
    ("MiB/s", (1_u64 << 20) as f64),
    ("KiB/s", 1024.0),
    ("GB/s", 1e9),
    ("MB/s", 1e6),
    ("kB/s", 1e3),
    ("B/s", 1.0),
];

/// Units of durations, in seconds.
const DURATIONS: [(&str, f64); 7] =
    [("ms", 1e-3), ("min", 60.0), ("m", 60.0), ("h", 3_600.0), ("d", 86_400.0), ("s", 1.0), ("", 1.0)];

/// How many of something, at least one: layers, links, threads.
///
/// # Errors
/// If `text` is no whole number from 1 to 4294967295.
pub fn count(text: &str) -> Result<NonZeroU32, String> {
    text.parse().map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => {
            format!("\"{text}\" is too large; expected a number from 1 to {}", u32::MAX)
        }
        _ => format!("\"{text}\" is no number of at least 1; expected 1, 2, 3, …"),
    })
}

/// A number of bytes: `64MiB`, `1.5GB`, `4096`.
///
/// # Errors
/// If `text` is none, or not a whole number of bytes that fits 63 bits.
pub fn size(text: &str) -> Result<u64, String> {
    let expected =
        || format!("\"{text}\" is no size; expected a number and B, KiB, MiB, GiB, kB, MB or GB, as 64MiB");
    let bytes = measured(text, &SIZES).ok_or_else(expected)?;
    // Up to 2^63 the whole numbers that come out are exact enough to be meant.
    if bytes.fract() == 0.0 && bytes < 9.2e18 { Ok(bytes as u64) } else { Err(expected()) }
}

/// A rate in bytes per second, at least 1: `100Mbit/s`, `12MiB/s`.
///
/// # Errors
/// If `text` is none.
pub fn rate(text: &str) -> Result<u64, String> {
    let expected =
        || format!("\"{text}\" is no rate; expected a number and Mbit/s, MiB/s, kbit/s, … as 100Mbit/s");
    let rate = measured(text, &RATES).ok_or_else(expected)?;
    if (1.0..9.2e18).contains(&rate) { Ok(rate as u64) } else { Err(expected()) }
}

/// A duration: `10min`, `90s`, `250ms`, `1h 30m`; a bare number is seconds.
///
/// # Errors
/// If `text` is none, or longer than a century.
pub fn duration(text: &str) -> Result<Duration, String> {
    const CENTURY_S: f64 = 100.0 * 365.25 * 86_400.0;
    let expected =
        || format!("\"{text}\" is no duration; expected a number and ms, s, min, h or d, as 10min");
    let seconds = measured(text, &DURATIONS).or_else(|| sum_of_durations(text)).ok_or_else(expected)?;
    if seconds <= CENTURY_S { Ok(Duration::from_secs_f64(seconds)) } else { Err(expected()) }
}

/// Seconds in several words, each with its unit: `1h 30m`.
fn sum_of_durations(text: &str) -> Option<f64> {
    let with_unit = &DURATIONS[..DURATIONS.len() - 1];
    let mut words = text.split_whitespace().peekable();
    words.peek()?;
    words.map(|word| measured(word, with_unit)).sum()
}

/// A share of something, from 0 to below 1: `0.02`, `2%`.
///
/// # Errors
/// If `text` is none.
pub fn share(text: &str) -> Result<f64, String> {
    let expected = || format!("\"{text}\" is no share; expected 0 to below 1, as 0.02 or 2%");
    portion(text).filter(|value| *value < 1.0).ok_or_else(expected)
}

/// A share that is not nothing, and may be all: above 0 and at most 1, as `0.5` or `50%`.
///
/// # Errors
/// If `text` is none.
pub fn part(text: &str) -> Result<f64, String> {
    let expected = || format!("\"{text}\" is no share; expected above 0 and at most 1, as 0.5 or 50%");
    portion(text).filter(|value| *value > 0.0 && *value <= 1.0).ok_or_else(expected)
}

/// A number of one or of a hundred that is not negative. Rates of errors are small, so that powers of ten are read.
fn portion(text: &str) -> Option<f64> {
    let power = || text.parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0);
    measured(text, &[("%", 0.01), ("", 1.0)]).or_else(power)
}

/// A number that is not negative, with one of these units; of units that fit the first one counts.
fn measured(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    units.iter().find_map(|(name, unit)| {
        let number = text.strip_suffix(name)?.trim_end();
        // Rust would also read "inf", "nan" and "1e9".
        let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let number: f64 = number.parse().ok().filter(|_| is_plain)?;
        Some(number * unit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(
            (size("64MiB"), size("4096"), size("1.5 GB")),
            (Ok(64 << 20), Ok(4096), Ok(1_500_000_000))
        );
        assert_eq!((size("0"), size("7B")), (Ok(0), Ok(7)));
        for wrong in ["", "MiB", "-1", "1.5", "1e3", "inf", "99999999TiB", "64mib", "1 2"] {
            assert!(size(wrong).is_err_and(|error| error.contains("as 64MiB")), "{wrong}");
        }
    }

    #[test]
    fn the_unit_is_part_of_a_rate() {
        assert_eq!((rate("100Mbit/s"), rate("12MiB/s")), (Ok(12_500_000), Ok(12 << 20)));
        assert_eq!(rate("1.5 MB/s"), Ok(1_500_000));
        for wrong in ["100", "100M", "Mbit/s", "-1MB/s", "0MB/s", "infMB/s"] {
            assert!(rate(wrong).is_err_and(|error| error.contains("as 100Mbit/s")), "{wrong}");
        }
    }

    #[test]
    fn durations_and_shares() {
        assert_eq!((duration("10min"), duration("10m")), (Ok(Duration::from_secs(600)), duration("600")));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!((duration("1h 30m"), duration("1.5 h")), (duration("90min"), duration("90min")));
        assert!(duration("").is_err() && duration("1h soon").is_err() && duration("1 2").is_err());
        assert!(duration("200000d").is_err() && duration("soon").is_err());
        assert_eq!((share("0.02"), share("2%")), (Ok(0.02), Ok(0.02)));
        assert_eq!(
            (share("1e-3"), part("50%"), part("1"), part("100%")),
            (Ok(0.001), Ok(0.5), Ok(1.0), Ok(1.0))
        );
        assert!(
            share("nan").is_err() && share("inf").is_err() && part("0").is_err() && part("101%").is_err()
        );
        assert!(share("1").is_err() && share("100%").is_err() && share("-0.1").is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_them_panic(text in "\\PC{0,12}") {
            let _ = (size(&text), rate(&text), duration(&text), share(&text));
        }

        #[test]
        fn every_number_of_bytes_below_2_to_53_is_its_own_size(bytes in 0_u64..1 << 53) {
            prop_assert_eq!(size(&bytes.to_string()), Ok(bytes));
        }
    }
}
