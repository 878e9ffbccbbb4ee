//! What a scenario file says of a link, as a link model.

use std::time::Duration;

use netsim::{GilbertElliott, LinkModel, LossModel, Probability, Rate};

use super::file::Shape;

/// What a link is like where the file says nothing.
const DEFAULT_RATE_MBIT: f64 = 50.0;
const DEFAULT_DELAY_MS: f64 = 10.0;
/// How long a packet is held back where the file gives only the share.
const DEFAULT_HOLD_BACK_MS: f64 = 5.0;
/// What a policer's bucket holds where the file does not say.
const DEFAULT_POLICER_BURST_MS: f64 = 10.0;

impl Shape {
    /// What `self` says, and for the rest what `base` says.
    pub(super) fn over(&self, base: &Shape) -> Shape {
        Shape {
            rate_mbit: self.rate_mbit.or(base.rate_mbit),
            delay_ms: self.delay_ms.or(base.delay_ms),
            jitter_ms: self.jitter_ms.or(base.jitter_ms),
            loss: self.loss.or(base.loss),
            mean_burst: self.mean_burst.or(base.mean_burst),
            queue_ms: self.queue_ms.or(base.queue_ms),
            reordering: self.reordering.or(base.reordering),
            reordering_ms: self.reordering_ms.or(base.reordering_ms),
            duplication: self.duplication.or(base.duplication),
            corruption: self.corruption.or(base.corruption),
            mtu: self.mtu.or(base.mtu),
            policer_mbit: self.policer_mbit.or(base.policer_mbit),
            policer_burst_ms: self.policer_burst_ms.or(base.policer_burst_ms),
        }
    }

    /// # Errors
    /// What is out of its range, in words.
    pub(super) fn model(&self) -> Result<LinkModel, String> {
        let rate = rate(self.rate_mbit.unwrap_or(DEFAULT_RATE_MBIT))?;
        let mut model = LinkModel::new(rate, time(self.delay_ms.unwrap_or(DEFAULT_DELAY_MS), "delay_ms")?)
            .with_jitter(time(self.jitter_ms.unwrap_or(0.0), "jitter_ms")?)
            .with_loss_model(self.loss_model()?)
            .with_duplication(probability(self.duplication)?)
            .with_corruption(probability(self.corruption)?);
        if let Some(queue_ms) = self.queue_ms {
            model = model.with_queue_bytes(rate.bytes_in(time(queue_ms, "queue_ms")?));
        }
        if self.reordering.is_some() {
            let by = time(self.reordering_ms.unwrap_or(DEFAULT_HOLD_BACK_MS), "reordering_ms")?;
            model = model.with_hold_back(probability(self.reordering)?, by);
        }
        if let Some(policer_mbit) = self.policer_mbit.filter(|rate| *rate != 0.0) {
            let policed = self::rate(policer_mbit)?;
            let burst = time(self.policer_burst_ms.unwrap_or(DEFAULT_POLICER_BURST_MS), "policer_burst_ms")?;
            model = model.with_policer(policed, policed.bytes_in(burst));
        }
        if let Some(mtu) = self.mtu {
            model = model.with_largest_packet(mtu);
        }
        Ok(model)
    }

    fn loss_model(&self) -> Result<LossModel, String> {
        let loss = probability(self.loss)?;
        match self.mean_burst.filter(|length| *length != 0.0 && loss.get() > 0.0) {
            None => Ok(LossModel::Bernoulli(loss)),
            Some(mean_burst) => GilbertElliott::bursts(loss, mean_burst)
                .map(LossModel::GilbertElliott)
                .map_err(|error| error.to_string()),
        }
    }
}

fn rate(mbit: f64) -> Result<Rate, String> {
    Rate::try_from_bits(mbit * 1e6).map_err(|error| error.to_string())
}

fn probability(value: Option<f64>) -> Result<Probability, String> {
    Probability::new(value.unwrap_or(0.0)).map_err(|error| error.to_string())
}

fn time(ms: f64, what: &str) -> Result<Duration, String> {
    Duration::try_from_secs_f64(ms / 1e3)
        .map_err(|_| format!("{what} is {ms}: expected a time of at least 0 ms"))
}

/// Seconds of a scenario file as a time.
pub(super) fn seconds(value: f64, what: &str) -> Result<Duration, String> {
    Duration::try_from_secs_f64(value).map_err(|_| format!("{what} is {value}: expected at least 0 s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_event_leaves_out_stays_as_it_was() {
        let base = Shape { rate_mbit: Some(8.0), loss: Some(0.1), queue_ms: Some(10.0), ..Shape::default() };
        let event = Shape { loss: Some(0.0), ..Shape::default() };
        let model = event.over(&base).model().expect("a right link");
        assert_eq!(model.rate, Rate::from_mbit(8));
        assert_eq!(model.queue_bytes, 10_000);
        assert_eq!(model.loss, LossModel::NONE);
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        let bad = Shape { loss: Some(1.5), ..Shape::default() };
        assert_eq!(bad.model().unwrap_err(), "1.5 is no probability: it must lie in [0, 1]");
        let bad = Shape { delay_ms: Some(-1.0), ..Shape::default() };
        assert!(bad.model().unwrap_err().contains("delay_ms is -1"));
    }
}
