//! Lengths, speeds and pauses as types: a value that exists is a value that makes sense.

use std::time::Duration;

use super::error::ScenarioError;

/// Beyond this, products of a few values would leave what can be computed with.
const GREATEST: f64 = 1e9;

fn is_positive(value: f64) -> bool {
    value > 0.0 && value <= GREATEST
}

/// A length: above 0 and at most 10⁹ m.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Length(f64);

impl Length {
    /// The length of so many metres.
    ///
    /// # Errors
    /// [`ScenarioError::Length`].
    pub fn from_metres(metres: f64) -> Result<Self, ScenarioError> {
        if is_positive(metres) { Ok(Self(metres)) } else { Err(ScenarioError::Length { metres }) }
    }

    /// The length in metres.
    pub const fn metres(self) -> f64 {
        self.0
    }
}

/// The speeds from which nodes choose uniformly: above 0 and at most 10⁹ m/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speeds {
    least: f64,
    greatest: f64,
}

impl Speeds {
    /// Speeds between `least` and `greatest`, in m/s. A least speed near 0 makes random waypoint nodes creep for very
    /// long times.
    ///
    /// # Errors
    /// [`ScenarioError::Speed`], [`ScenarioError::Speeds`].
    pub fn between(least: f64, greatest: f64) -> Result<Self, ScenarioError> {
        for metres_per_second in [least, greatest] {
            if !is_positive(metres_per_second) {
                return Err(ScenarioError::Speed { metres_per_second });
            }
        }
        if least > greatest {
            return Err(ScenarioError::Speeds { least, greatest });
        }
        Ok(Self { least, greatest })
    }

    /// One speed, in m/s.
    ///
    /// # Errors
    /// [`ScenarioError::Speed`].
    pub fn constant(metres_per_second: f64) -> Result<Self, ScenarioError> {
        Self::between(metres_per_second, metres_per_second)
    }

    /// The least speed, in m/s.
    pub const fn least_mps(self) -> f64 {
        self.least
    }

    /// The greatest speed, in m/s.
    pub const fn greatest_mps(self) -> f64 {
        self.greatest
    }

    /// The mean of 1/speed, in s/m: how long a metre takes on average.
    pub(super) fn mean_slowness(self) -> f64 {
        let width = self.greatest - self.least;
        if width > self.least * 1e-9 {
            libm::log(self.greatest / self.least) / width
        } else {
            1.0 / self.least
        }
    }
}

/// The pauses from which nodes choose uniformly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pauses {
    least: Duration,
    greatest: Duration,
}

impl Pauses {
    /// No pauses.
    pub const NONE: Self = Self { least: Duration::ZERO, greatest: Duration::ZERO };

    /// Pauses between `least` and `greatest`.
    ///
    /// # Errors
    /// [`ScenarioError::Pauses`].
    pub fn between(least: Duration, greatest: Duration) -> Result<Self, ScenarioError> {
        if least > greatest {
            return Err(ScenarioError::Pauses { least, greatest });
        }
        Ok(Self { least, greatest })
    }

    pub(super) fn least_s(self) -> f64 {
        self.least.as_secs_f64()
    }

    pub(super) fn greatest_s(self) -> f64 {
        self.greatest.as_secs_f64()
    }

    pub(super) fn mean_s(self) -> f64 {
        self.least_s().midpoint(self.greatest_s())
    }
}

/// A time in seconds, which must not be zero.
pub(super) fn positive_time(time: Duration, what: &'static str) -> Result<Duration, ScenarioError> {
    if time.is_zero() { Err(ScenarioError::NoTime { what }) } else { Ok(time) }
}
