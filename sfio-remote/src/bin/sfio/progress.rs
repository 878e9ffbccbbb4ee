//! What a terminal shows while bytes move. In a pipe there is nothing of it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{BinaryBytes, HumanDuration, ProgressBar, ProgressState, ProgressStyle};

/// How often the remaining time is looked at, also while nothing moves.
const TICK: Duration = Duration::from_millis(200);

/// The rate is that of the last so many seconds: long enough to be calm, short enough to follow the network.
const WINDOW: Duration = Duration::from_secs(10);

/// Before this, a rate and a remaining time would be guesses.
const LEAST_OBSERVED: Duration = Duration::from_secs(1);

/// A bar with what has moved, the rate of the last seconds and the time that the rest takes at that rate.
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
}

impl Progress {
    /// Begins to show `verb`; without a total there is neither a bar nor a remaining time.
    pub(crate) fn new(verb: &'static str, total: Option<u64>) -> Progress {
        let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        let template = match total {
            Some(_) => "{msg} {bar:30} {binary_bytes}/{binary_total_bytes}{rate}",
            None => "{msg} {spinner} {binary_bytes}{rate}",
        };
        let started = Instant::now();
        let recent = Arc::new(Mutex::new(Recent::default()));
        let rate = move |state: &ProgressState, line: &mut dyn fmt::Write| {
            let mut recent = recent.lock().unwrap_or_else(PoisonError::into_inner);
            recent.note(started.elapsed(), state.pos());
            // A line that cannot be written is not missed.
            let _ = recent.describe(state.len().map(|total| total.saturating_sub(state.pos())), line);
        };
        let style = ProgressStyle::with_template(template).expect("the templates are right");
        bar.set_style(style.with_key("rate", rate).progress_chars("=> "));
        bar.set_message(verb);
        bar.enable_steady_tick(TICK);
        Progress { bar, started }
    }

    /// So many bytes more have arrived where they belong.
    pub(crate) fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// What was there so far is of no use: everything begins anew.
    pub(crate) fn begin_anew(&self) {
        self.bar.set_position(0);
        self.phase("storing again");
    }

    /// Prints lines above the bar, also while others use it.
    pub(crate) fn announcer(&self) -> impl Fn(&str) + Send + Sync + use<> {
        let bar = self.bar.clone();
        move |line| bar.println(line)
    }

    /// So many bytes have arrived in all.
    #[cfg(feature = "demo")]
    pub(crate) fn reached(&self, bytes: u64) {
        let within = self.bar.length().map_or(bytes, |total| bytes.min(total));
        self.bar.set_position(within.max(self.bar.position()));
    }

    /// Whether half of the total has moved.
    #[cfg(feature = "demo")]
    pub(crate) fn is_half_way(&self) -> bool {
        self.bar.length().is_some_and(|total| self.bar.position() * 2 >= total)
    }

    /// The bytes are there; something else takes its time.
    pub(crate) fn phase(&self, words: &'static str) {
        self.bar.set_style(ProgressStyle::with_template("{msg} {spinner}").expect("the template is right"));
        self.bar.set_message(words);
    }

    /// Takes the bar away and leaves a line about what was done.
    pub(crate) fn finish(self, done: &str) {
        let hidden = self.bar.is_hidden();
        let bytes = self.bar.position();
        self.bar.finish_and_clear();
        if !hidden {
            let elapsed = self.started.elapsed();
            let rate = (bytes as f64 / elapsed.as_secs_f64().max(1e-3)) as u64;
            let (size, time, rate) = (BinaryBytes(bytes), words(elapsed), BinaryBytes(rate));
            eprintln!("{done}: {size} in {time}, {rate}/s");
        }
    }
}

/// How far things were at each look in the last [`WINDOW`]: times since the start, and bytes.
#[derive(Debug, Default)]
pub(crate) struct Recent(VecDeque<(Duration, u64)>);

impl Recent {
    pub(crate) fn note(&mut self, now: Duration, bytes: u64) {
        self.0.push_back((now, bytes));
        while self.0.len() > 2 && self.0.front().is_some_and(|(then, _)| now - *then > WINDOW) {
            self.0.pop_front();
        }
    }

    /// Bytes per second, if that can be told.
    fn rate(&self) -> Option<f64> {
        let ((then, before), (now, after)) = (self.0.front()?, self.0.back()?);
        let observed = now.saturating_sub(*then);
        (observed >= LEAST_OBSERVED).then(|| after.saturating_sub(*before) as f64 / observed.as_secs_f64())
    }

    /// The rate, and how long the rest takes at that rate.
    pub(crate) fn describe(&self, left: Option<u64>, line: &mut dyn fmt::Write) -> fmt::Result {
        let Some(rate) = self.rate() else { return Ok(()) };
        write!(line, ", {}/s", BinaryBytes(rate as u64))?;
        match left {
            Some(_) if rate < 1.0 => write!(line, ", stalled"),
            Some(left) => {
                let seconds = Duration::from_secs((left as f64 / rate).ceil() as u64);
                write!(line, ", {} left", words(seconds))
            }
            None => Ok(()),
        }
    }
}

fn words(time: Duration) -> String {
    match time.as_secs() {
        0..60 if time.subsec_nanos() == 0 => format!("{} s", time.as_secs()),
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        _ => HumanDuration(time).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(looks: &[(u64, u64)], left: Option<u64>) -> String {
        let mut recent = Recent::default();
        looks.iter().for_each(|(second, bytes)| recent.note(Duration::from_secs(*second), *bytes));
        let mut line = String::new();
        recent.describe(left, &mut line).expect("a text takes everything");
        line
    }

    #[test]
    fn nothing_is_claimed_before_something_was_seen() {
        assert_eq!(line(&[(0, 0)], Some(100)), "");
        assert_eq!(line(&[(0, 0), (0, 50)], Some(100)), "");
    }

    #[test]
    fn the_rest_takes_its_time_at_the_rate_of_the_last_seconds() {
        let fast_then_slow = [(0, 0), (1, 9_000), (11, 10_000), (21, 11_024)];
        assert_eq!(line(&fast_then_slow, Some(1_024)), ", 102 B/s, 10 s left");
        assert_eq!(line(&fast_then_slow, None), ", 102 B/s");
    }

    #[test]
    fn what_does_not_move_is_stalled_and_not_almost_done() {
        assert_eq!(line(&[(0, 500), (11, 500), (12, 500)], Some(1)), ", 0 B/s, stalled");
    }
}
