//! What a terminal shows while something takes its time. In a pipe there is nothing of it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{BinaryBytes, HumanCount, HumanDuration, ProgressBar, ProgressState, ProgressStyle};

/// How often the remaining time is looked at, also while nothing moves.
const TICK: Duration = Duration::from_millis(200);

/// The rate is that of the last so many seconds: long enough to be calm, short enough to follow the network.
const WINDOW: Duration = Duration::from_secs(10);

/// Before this, a rate and a remaining time would be guesses.
const LEAST_OBSERVED: Duration = Duration::from_secs(1);

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Bytes.
    Bytes,
    /// Things of this name, in the plural: "pairs", "frames".
    Things(&'static str),
}

/// A bar with how much is done, the rate of the last seconds, and the time that the rest takes at that rate.
///
/// It fits into 80 columns.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    unit: Unit,
    started: Instant,
}

impl Progress {
    /// Begins to show `verb` and bytes; without a total there is neither a bar nor a remaining time.
    pub fn new(verb: &'static str, total: Option<u64>) -> Progress {
        Progress::begin(verb, Unit::Bytes, total, 0)
    }

    /// Begins to show `verb` and things, named in the plural, of which an earlier run has `done` some. Rate and
    /// remaining time are those of this run.
    pub fn of_things(verb: &'static str, things: &'static str, total: u64, done: u64) -> Progress {
        Progress::begin(verb, Unit::Things(things), Some(total), done)
    }

    fn begin(verb: &'static str, unit: Unit, total: Option<u64>, done: u64) -> Progress {
        let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new).with_position(done);
        let template = match total {
            Some(_) => "{msg} [{bar:20}] {done}{rate}",
            None => "{msg} {spinner} {done}{rate}",
        };
        let started = now();
        let recent = Arc::new(Mutex::new(Recent::default()));
        // A line that cannot be written is not missed.
        let done = move |state: &ProgressState, line: &mut dyn fmt::Write| {
            let _ = match state.len() {
                Some(total) => write!(line, "{}/{}", unit.amount(state.pos()), unit.amount(total)),
                None => write!(line, "{}", unit.amount(state.pos())),
            };
        };
        let rate = move |state: &ProgressState, line: &mut dyn fmt::Write| {
            let mut recent = recent.lock().unwrap_or_else(PoisonError::into_inner);
            recent.note(started.elapsed(), state.pos());
            let left = state.len().map(|total| total.saturating_sub(state.pos()));
            let _ = recent.describe_as(unit, left, line);
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.with_key("done", done).with_key("rate", rate).progress_chars("== "));
        bar.set_message(verb);
        bar.enable_steady_tick(TICK);
        Progress { bar, unit, started }
    }

    /// So much more is done.
    pub fn advance(&self, amount: u64) {
        self.bar.inc(amount);
    }

    /// So much is done in all; what was shown before is never taken back.
    pub fn reached(&self, amount: u64) {
        let within = self.bar.length().map_or(amount, |total| amount.min(total));
        self.bar.set_position(within.max(self.bar.position()));
    }

    /// Whether half of the total is done.
    pub fn is_half_way(&self) -> bool {
        self.bar.length().is_some_and(|total| self.bar.position() * 2 >= total)
    }

    /// What was done so far is of no use: the same work begins anew, as `verb` says.
    pub fn begin_anew(&self, verb: &'static str) {
        self.bar.set_position(0);
        self.bar.set_message(verb);
    }

    /// Prints lines above the bar on a terminal, also while others use the bar.
    pub fn announcer(&self) -> impl Fn(&str) + Send + Sync + use<> {
        let bar = self.bar.clone();
        move |line| bar.println(line)
    }

    /// The counted work is done; something else takes its time.
    pub fn phase(&self, words: impl Into<String>) {
        let style = ProgressStyle::with_template("{msg} {spinner}");
        self.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        self.bar.set_message(words.into());
    }

    /// Takes the bar away, as dropping it does.
    pub fn clear(self) {}

    /// Takes the bar away and, on a terminal, leaves a line about what was done.
    pub fn finish(self, done: &str) {
        let (is_hidden, amount) = (self.bar.is_hidden(), self.bar.position());
        self.bar.finish_and_clear();
        if !is_hidden {
            let elapsed = self.started.elapsed();
            let rate = (amount as f64 / elapsed.as_secs_f64().max(1e-3)) as u64;
            let (amount, time, rate) = (self.unit.amount(amount), words(elapsed), self.unit.amount(rate));
            eprintln!("{done}: {amount} in {time}, {rate}/s");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Unit {
    /// So many of them, in words.
    fn amount(self, amount: u64) -> String {
        match self {
            Unit::Bytes => BinaryBytes(amount).to_string(),
            Unit::Things(name) => format!("{} {name}", HumanCount(amount)),
        }
    }
}

/// How far things were at each look in the last ten seconds: times since the start, and amounts.
#[derive(Debug, Default)]
pub struct Recent(VecDeque<(Duration, u64)>);

impl Recent {
    /// At the time `now` since the start, `amount` was done.
    pub fn note(&mut self, now: Duration, amount: u64) {
        self.0.push_back((now, amount));
        while self.0.len() > 2 && self.0.front().is_some_and(|(then, _)| now.saturating_sub(*then) > WINDOW) {
            self.0.pop_front();
        }
    }

    /// The amount per second, if that can be told yet.
    fn rate(&self) -> Option<f64> {
        let ((then, before), (now, after)) = (self.0.front()?, self.0.back()?);
        let observed = now.saturating_sub(*then);
        (observed >= LEAST_OBSERVED).then(|| after.saturating_sub(*before) as f64 / observed.as_secs_f64())
    }

    /// Writes the rate in bytes per second, and how long the bytes that are `left` take at that rate.
    ///
    /// # Errors
    /// If `line` takes no text.
    pub fn describe(&self, left: Option<u64>, line: &mut dyn fmt::Write) -> fmt::Result {
        self.describe_as(Unit::Bytes, left, line)
    }

    fn describe_as(&self, unit: Unit, left: Option<u64>, line: &mut dyn fmt::Write) -> fmt::Result {
        let Some(rate) = self.rate() else { return Ok(()) };
        match unit {
            Unit::Bytes => write!(line, ", {}/s", BinaryBytes(rate as u64))?,
            Unit::Things(_) => write!(line, ", {rate:.0}/s")?,
        }
        match left {
            // Less than a byte in a second is nothing; things may be slow and move all the same.
            Some(_) if rate == 0.0 || (rate < 1.0 && unit == Unit::Bytes) => write!(line, ", stalled"),
            Some(left) => {
                let seconds = Duration::from_secs((left as f64 / rate).ceil() as u64);
                write!(line, ", {} left", words(seconds))
            }
            None => Ok(()),
        }
    }
}

/// A time as people say it.
pub fn words(time: Duration) -> String {
    match time.as_secs() {
        0..60 if time.subsec_nanos() == 0 => format!("{} s", time.as_secs()),
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        _ => HumanDuration(time).to_string(),
    }
}

#[allow(clippy::disallowed_methods, reason = "a person who waits looks at the real clock")]
fn now() -> Instant {
    Instant::now()
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
