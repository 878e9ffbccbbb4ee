//! Random values for the models, alike on every machine.

use rand_core::RngCore;

/// Uniform in [0, 1).
pub(super) fn unit(rng: &mut impl RngCore) -> f64 {
    const SCALE: f64 = 1.0 / (1_u64 << 53) as f64;
    (rng.next_u64() >> 11) as f64 * SCALE
}

/// Uniform from `low` to `high`.
pub(super) fn between(low: f64, high: f64, rng: &mut impl RngCore) -> f64 {
    low + (high - low) * unit(rng)
}

/// A vector of length 1 in a uniform direction.
pub(super) fn direction(rng: &mut impl RngCore) -> [f64; 2] {
    let (sine, cosine) = libm::sincos(std::f64::consts::TAU * unit(rng));
    [cosine, sine]
}

/// Two independent normal values of mean 0 and variance 1 (Box and Muller 1958). No value exceeds 8.6.
pub(super) fn normal(rng: &mut impl RngCore) -> [f64; 2] {
    let radius = (-2.0 * libm::log(1.0 - unit(rng))).sqrt();
    direction(rng).map(|coordinate| coordinate * radius)
}

/// Uniform in the disc of this radius around the origin.
pub(super) fn in_disc(radius: f64, rng: &mut impl RngCore) -> [f64; 2] {
    let distance = radius * unit(rng).sqrt();
    direction(rng).map(|coordinate| coordinate * distance)
}
