//! Numbers of twice the precision of `f64`: the unevaluated sum of two (Dekker 1971), some 32 decimal digits.
//!
//! Loads of networks whose capacities span many decades are reckoned in them: what is left of a demand of 1 after
//! a thousand subtractions is then right to 1e-29, far below the smallest share that a link can carry.

use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};

/// A share of a demand of 1 that is no more than this counts as nothing.
const NOTHING: f64 = 1e-24;

/// The sum `high + low`, with |low| at most half a unit in the last place of `high`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub(crate) struct Double {
    high: f64,
    low: f64,
}

impl Double {
    pub(crate) const ZERO: Self = Self { high: 0.0, low: 0.0 };
    pub(crate) const ONE: Self = Self { high: 1.0, low: 0.0 };

    /// The number that the shortest decimal notation of a finite `f64` stands for: 0.1 is one tenth, as in
    /// [`exact`](crate::exact).
    pub(crate) fn decimal(number: f64) -> Self {
        // Whole numbers stand for themselves; beyond 2^53 the digits behind the shortest ones are zeros.
        if number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0 {
            return Self { high: number, low: 0.0 };
        }
        let text = format!("{number:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        // There are at most 17 digits, so the number is below 2^63.
        let digits: i64 = format!("{whole}{fraction}").parse().unwrap_or(0);
        let exponent = exponent.parse::<i32>().unwrap_or(0) - fraction.len() as i32;
        let power = power_of_ten(exponent.unsigned_abs());
        if exponent < 0 { Self::from(digits) / power } else { Self::from(digits) * power }
    }

    /// The nearest `f64`.
    pub(crate) fn rounded(self) -> f64 {
        self.high
    }

    pub(crate) fn abs(self) -> Self {
        if self.high < 0.0 { -self } else { self }
    }

    /// Whether a share of a demand of 1 is above round-off, which is of some 1e-29; no link carries less.
    pub(crate) fn is_something(self) -> bool {
        self.high > NOTHING
    }

    /// a + b for |a| ≥ |b|.
    fn quick_sum(a: f64, b: f64) -> Self {
        let high = a + b;
        Self { high, low: b - (high - a) }
    }

    /// a + b without round-off.
    fn sum(a: f64, b: f64) -> Self {
        let high = a + b;
        let part = high - a;
        Self { high, low: (a - (high - part)) + (b - part) }
    }
}

fn power_of_ten(exponent: u32) -> Double {
    (0..exponent).fold(Double::ONE, |power, _| power * Double { high: 10.0, low: 0.0 })
}

impl From<i64> for Double {
    fn from(number: i64) -> Self {
        let high = number as f64;
        // The difference fits: it is below the last place of `high`.
        let low = (i128::from(number) - high as i128) as f64;
        Self::quick_sum(high, low)
    }
}

impl Neg for Double {
    type Output = Self;
    fn neg(self) -> Self {
        Self { high: -self.high, low: -self.low }
    }
}

impl Add for Double {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let (high, low) = (Self::sum(self.high, other.high), Self::sum(self.low, other.low));
        let first = Self::quick_sum(high.high, high.low + low.high);
        Self::quick_sum(first.high, first.low + low.low)
    }
}

impl Sub for Double {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Double {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let high = self.high * other.high;
        let low = self.high.mul_add(other.high, -high);
        Self::quick_sum(high, low + (self.high * other.low + self.low * other.high))
    }
}

impl Div for Double {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        let mut rest = self;
        let mut quotient = Self::ZERO;
        // Long division, some 53 bits a time.
        for _ in 0..3 {
            let digit = Self { high: rest.high / other.high, low: 0.0 };
            rest -= other * digit;
            quotient += digit;
        }
        quotient
    }
}

impl AddAssign for Double {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Double {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_floating_point_loses_is_kept() {
        let third = Double::ONE / Double::from(3);
        let one = third + third + third;
        assert!((one - Double::ONE).abs().rounded() < 1e-31);
        let tiny = Double::decimal(1e-20);
        assert!(((Double::ONE + tiny - Double::ONE) / tiny - Double::ONE).abs().rounded() < 1e-11);
    }

    #[test]
    fn a_decimal_number_is_the_one_that_was_written() {
        let tenth = Double::decimal(0.1);
        let ten = Double::from(10);
        assert_eq!((tenth * ten - Double::ONE).rounded(), 0.0);
        assert_eq!(Double::decimal(2.5e3).rounded(), 2500.0);
        assert!((Double::decimal(1e22) / Double::decimal(1e22) - Double::ONE).rounded().abs() < 1e-31);
        assert_eq!(Double::decimal(-3.0).rounded(), -3.0);
    }
}
