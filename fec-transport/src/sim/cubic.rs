//! The window of a CUBIC sender [RFC 9438], in segments.

use crate::time::Time;

/// The factor by which the window is multiplied after a loss [RFC 9438 §4.6].
const BETA: f64 = 0.7;
/// How fast the cubic function grows, segments/s³ [RFC 9438 §5].
const C: f64 = 0.4;
/// The window at the start [RFC 6928].
const INITIAL_WINDOW: f64 = 10.0;
/// The smallest window after a loss.
const LEAST_WINDOW: f64 = 2.0;

/// The congestion window.
#[derive(Debug, Clone)]
pub(crate) struct Cubic {
    window: f64,
    slow_start_threshold: f64,
    /// The window before the latest reduction, W_max.
    greatest: f64,
    /// The window just before that reduction; below it the Reno estimate grows slowly.
    before_loss: f64,
    /// What Reno's window would be, W_est.
    reno: f64,
    /// Since when the window grows by the cubic function, and after how many seconds it reaches W_max.
    epoch: Option<(Time, f64)>,
}

impl Cubic {
    pub(crate) fn new() -> Cubic {
        Cubic {
            window: INITIAL_WINDOW,
            slow_start_threshold: f64::INFINITY,
            greatest: 0.0,
            before_loss: 0.0,
            reno: 0.0,
            epoch: None,
        }
    }

    /// Segments that may be in flight.
    pub(crate) fn segments(&self) -> f64 {
        self.window
    }

    /// A segment was acknowledged.
    pub(crate) fn on_ack(&mut self, now: Time, round_trip_s: f64) {
        if self.window < self.slow_start_threshold {
            self.window += 1.0;
            return;
        }
        let (start, k) = *self.epoch.get_or_insert_with(|| {
            // Slow start ended without a loss: the plateau is where we are.
            self.greatest = self.greatest.max(self.window);
            self.reno = self.window;
            (now, libm::cbrt((self.greatest - self.window) / C))
        });
        let elapsed = now.since(start).as_secs_f64();
        let cubic = |t: f64| C * (t - k) * (t - k) * (t - k) + self.greatest;
        let alpha = if self.reno < self.before_loss { 3.0 * (1.0 - BETA) / (1.0 + BETA) } else { 1.0 };
        self.reno += alpha / self.window;
        if cubic(elapsed) < self.reno {
            self.window = self.window.max(self.reno);
        } else {
            let target = cubic(elapsed + round_trip_s).clamp(self.window, 1.5 * self.window);
            self.window += (target - self.window) / self.window;
        }
    }

    /// Something sent since the latest reduction was lost.
    pub(crate) fn on_loss(&mut self, now: Time) {
        // Fast convergence [RFC 9438 §4.7]: a flow that did not get back to its plateau leaves room to others.
        let was_below = self.window < self.greatest;
        self.greatest = if was_below { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.before_loss = self.window;
        self.window = (self.window * BETA).max(LEAST_WINDOW);
        self.slow_start_threshold = self.window;
        self.reno = self.window;
        self.epoch = Some((now, libm::cbrt((self.greatest - self.window).max(0.0) / C)));
    }

    /// Nothing was acknowledged for long.
    pub(crate) fn on_timeout(&mut self, now: Time) {
        self.on_loss(now);
        self.window = 1.0;
        self.epoch = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_window_is_back_at_its_plateau_after_k_seconds() {
        let round_trip = 0.1;
        let mut cubic = Cubic { window: 1_000.0, slow_start_threshold: 0.0, ..Cubic::new() };
        cubic.on_loss(Time::ZERO);
        assert_eq!(cubic.segments(), 700.0);
        // K = cbrt(1000 · 0.3 / 0.4) = 9.09 s.
        let mut now = Time::ZERO;
        while now.since_epoch().as_secs_f64() < 9.1 {
            let acks = cubic.segments() as usize;
            (0..acks).for_each(|_| cubic.on_ack(now, round_trip));
            now += Duration::from_millis(100);
        }
        assert!((990.0..1010.0).contains(&cubic.segments()), "{}", cubic.segments());
    }

    #[test]
    fn slow_start_doubles_in_a_round() {
        let mut cubic = Cubic::new();
        (0..10).for_each(|_| cubic.on_ack(Time::ZERO, 0.1));
        assert_eq!(cubic.segments(), 20.0);
    }
}
