//! What a config may say: every value that would make a node panic, spin or never work is refused with what would do.

use std::fmt::{Debug, Display};
use std::time::Duration;

use super::{Coding, Config, Limits, Liveness, Pace, Policing, Protection, Routing, Sealing};
use crate::limits::{
    MAX_BLOCK_SPAN, MAX_RAPTORQ, MAX_REED_SOLOMON, MAX_REPORTED_PATHS, MAX_ROUTE, MIN_RAPTORQ, MIN_RATE,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Bytes per second that one path keeps whatever the limit is.
const LEAST_LIMIT: u64 = (MIN_RATE / 8.0) as u64;

/// A value of a [`Config`] that is out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {value}; expected {expected}")]
pub struct ConfigError {
    /// The key, as `limits.max_route`.
    pub key: &'static str,
    /// What it is.
    pub value: String,
    /// What would be right.
    pub expected: String,
}

impl Config {
    /// Checks every value.
    ///
    /// # Errors
    /// The first one that is out of its range.
    ///
    /// ```
    /// let mut config = fec_transport::Config::default();
    /// config.limits.max_route = 300;
    /// assert_eq!(config.validate().unwrap_err().to_string(), "limits.max_route is 300; expected 2 to 64");
    /// ```
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.coding.validate()?;
        self.pace.validate()?;
        self.liveness.validate()?;
        self.limits.validate()?;
        self.routing.validate(&self.limits)?;
        self.sealing.validate()?;
        self.policing.validate()
    }
}

impl Coding {
    fn validate(&self) -> Result<(), ConfigError> {
        let fits = (64..=65_408).contains(&self.symbol_size) && self.symbol_size.is_multiple_of(8);
        expect("coding.symbol_size", self.symbol_size, fits, "a multiple of 8 from 64 to 65408")?;
        time("coding.block_time", self.block_time, MS, 10 * SECOND)?;
        let (least, most) = (*self.bulk_symbols.start(), *self.bulk_symbols.end());
        let fits = MIN_RAPTORQ <= least && least <= most && most <= MAX_RAPTORQ;
        expect("coding.bulk_symbols", format!("{least} to {most}"), fits, "a range within 64 to 1024")?;
        within("coding.interactive_symbols", self.interactive_symbols, 1, MAX_REED_SOLOMON)?;
        within("coding.mask_limit", self.mask_limit, 0.0, 1.0)?;
        self.bulk.validate([
            "coding.bulk.tolerance",
            "coding.bulk.residual",
            "coding.bulk.prior_loss",
            "coding.bulk.mask",
            "coding.bulk.block_timer",
        ])?;
        self.interactive.validate([
            "coding.interactive.tolerance",
            "coding.interactive.residual",
            "coding.interactive.prior_loss",
            "coding.interactive.mask",
            "coding.interactive.block_timer",
        ])
    }
}

impl Protection {
    fn validate(&self, keys: [&'static str; 5]) -> Result<(), ConfigError> {
        within(keys[0], self.tolerance, 0.0, 0.9)?;
        within(keys[1], self.residual, 1e-12, 1.0)?;
        within(keys[2], self.prior_loss, 0.0, 0.9)?;
        within(keys[3], self.mask, 0, 1)?;
        time(keys[4], self.block_timer, Duration::ZERO, 10 * SECOND)
    }
}

impl Pace {
    fn validate(&self) -> Result<(), ConfigError> {
        within("pace.limit", self.limit.unwrap_or(u64::MAX), LEAST_LIMIT, u64::MAX)
    }
}

impl Liveness {
    fn validate(&self) -> Result<(), ConfigError> {
        time("liveness.silence", self.silence, MS, 60 * SECOND)?;
        within("liveness.doubt", self.doubt, f64::MIN_POSITIVE, 1.0)?;
        time("liveness.probe_interval", self.probe_interval, MS, 10 * SECOND)?;
        time("liveness.keep_alive", self.keep_alive, MS, 60 * SECOND)?;
        time("liveness.session_silence", self.session_silence, self.keep_alive, DAY)?;
        time("liveness.patience", self.patience, self.session_silence, DAY)?;
        time("liveness.connect", self.connect, MS, DAY)
    }
}

impl Limits {
    fn validate(&self) -> Result<(), ConfigError> {
        within("limits.send_buffer", self.send_buffer, 1, usize::MAX)?;
        within("limits.open_blocks", self.open_blocks, 1, MAX_BLOCK_SPAN as usize)?;
        within("limits.send_memory", self.send_memory, 1, usize::MAX)?;
        within("limits.node_send_memory", self.node_send_memory, 1 << 20, usize::MAX)?;
        within("limits.initial_window", self.initial_window, 1, u32::MAX)?;
        within("limits.max_window", self.max_window, self.initial_window, u32::MAX)?;
        within("limits.streams", self.streams, 1, 1 << 20)?;
        let set_aside = 2 * self.streams as usize * self.initial_window as usize;
        let fits = self.receive_memory >= set_aside;
        let expected = format!("at least 2 × streams × initial_window, {set_aside}");
        expect("limits.receive_memory", self.receive_memory, fits, &expected)?;
        within("limits.paths", self.paths, 1, MAX_REPORTED_PATHS)?;
        within("limits.sessions", self.sessions, 1, usize::MAX)?;
        within("limits.max_route", self.max_route, 2, MAX_ROUTE)?;
        within("limits.relay_memory", self.relay_memory, 256 << 10, usize::MAX)?;
        within("limits.neighbours", self.neighbours, 1, usize::MAX)
    }
}

impl Routing {
    fn validate(&self, limits: &Limits) -> Result<(), ConfigError> {
        within("routing.max_paths", self.max_paths, 1, limits.paths)?;
        within("routing.cover", self.cover, f64::MIN_POSITIVE, 1.0)?;
        time("routing.circuit_lifetime", self.circuit_lifetime, SECOND, 365 * DAY)?;
        time("routing.set_up_timeout", self.set_up_timeout, MS, 60 * SECOND)?;
        time("routing.retry", self.retry, MS, 60 * SECOND)?;
        time("routing.clock_skew", self.clock_skew, SECOND, DAY)?;
        time("routing.neighbour_patience", self.neighbour_patience, MS, DAY)?;
        time("routing.replan_after", self.replan_after, Duration::ZERO, DAY)?;
        time("routing.restore_after", self.restore_after, Duration::ZERO, DAY)
    }
}

impl Sealing {
    fn validate(&self) -> Result<(), ConfigError> {
        time("sealing.epoch", self.epoch, 100 * MS, DAY)?;
        within("sealing.epoch_packets", self.epoch_packets, 1, 1 << 27)
    }
}

impl Policing {
    fn validate(&self) -> Result<(), ConfigError> {
        let rates = [
            ("policing.set_ups_per_originator", self.set_ups_per_originator),
            ("policing.set_ups_per_neighbour", self.set_ups_per_neighbour),
            ("policing.relayed_bps_per_originator", self.relayed_bps_per_originator),
            ("policing.relayed_bps_per_neighbour", self.relayed_bps_per_neighbour),
        ];
        for (key, rate) in rates {
            let rate = rate.unwrap_or(1.0);
            expect(key, rate, rate > 0.0 && rate.is_finite(), "a number above 0")?;
        }
        Ok(())
    }
}

fn within<T: PartialOrd + Display + Debug>(
    key: &'static str,
    value: T,
    least: T,
    most: T,
) -> Result<(), ConfigError> {
    let expected = format!("{least} to {most}");
    let fits = value >= least && value <= most;
    expect(key, value, fits, &expected)
}

fn time(key: &'static str, value: Duration, least: Duration, most: Duration) -> Result<(), ConfigError> {
    let expected = format!("{least:?} to {most:?}");
    expect(key, format!("{value:?}"), value >= least && value <= most, &expected)
}

fn expect(key: &'static str, value: impl Display, fits: bool, expected: &str) -> Result<(), ConfigError> {
    if fits {
        Ok(())
    } else {
        Err(ConfigError { key, value: value.to_string(), expected: expected.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut Config)) -> String {
        let mut config = Config::default();
        change(&mut config);
        config.validate().map_or_else(|error| error.to_string(), |()| "accepted".to_owned())
    }

    #[test]
    fn the_defaults_are_right_and_what_is_not_is_named() {
        assert_eq!(Config::default().validate(), Ok(()));
        let message = refusal(|config| config.coding.symbol_size = 1_410);
        assert_eq!(message, "coding.symbol_size is 1410; expected a multiple of 8 from 64 to 65408");
        let message = refusal(|config| config.routing.max_paths = 17);
        assert_eq!(message, "routing.max_paths is 17; expected 1 to 16");
        let message = refusal(|config| config.liveness.session_silence = MS);
        assert_eq!(message, "liveness.session_silence is 1ms; expected 1s to 86400s");
        let message = refusal(|config| config.liveness.patience = SECOND);
        assert_eq!(message, "liveness.patience is 1s; expected 4s to 86400s");
        let message = refusal(|config| config.routing.cover = f64::NAN);
        assert!(message.starts_with("routing.cover is NaN"), "{message}");
        let message = refusal(|config| config.pace.limit = Some(0));
        assert_eq!(message, format!("pace.limit is 0; expected 7500 to {}", u64::MAX));
        let message = refusal(|config| config.policing.set_ups_per_neighbour = Some(0.0));
        assert_eq!(message, "policing.set_ups_per_neighbour is 0; expected a number above 0");
    }
}
