//! What a terminal shows while something takes its time. In a pipe there is nothing of it but what is announced.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{BinaryBytes, HumanCount, HumanDuration, ProgressBar, ProgressState, ProgressStyle};

use crate::output;

/// How often the remaining time is looked at, also while nothing moves.
const TICK: Duration = Duration::from_millis(200);

/// The rate is that of the last so many seconds: long enough to be calm, short enough to follow the network.
const WINDOW: Duration = Duration::from_secs(10);

/// Before this, a rate and a remaining time would be guesses.
const LEAST_OBSERVED: Duration = Duration::from_secs(1);

/// The columns of a narrow terminal.
const COLUMNS: usize = 80;

/// The columns of a bar, where there is room for it.
const BAR: usize = 20;

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
    verb: Arc<Mutex<&'static str>>,
    started: Instant,
}

impl Progress {
    /// Begins to show `verb` and bytes; without a total there is neither a bar nor a remaining time.
    pub fn new(verb: &'static str, total: Option<u64>) -> Progress {
        Progress::begin(verb, Unit::Bytes, total, 0, Recent::default())
    }

    /// Begins to show `verb` and the bytes of work that is done in large pieces, each of which may take seconds: rate
    /// and remaining time are those since the start.
    pub fn in_pieces(verb: &'static str, total: u64) -> Progress {
        Progress::begin(verb, Unit::Bytes, Some(total), 0, Recent::of_pieces())
    }

    /// Begins to show `verb` and things, named in the plural, of which an earlier run has `done` some. Rate and
    /// remaining time are those since this run began.
    pub fn of_things(verb: &'static str, things: &'static str, total: u64, done: u64) -> Progress {
        Progress::begin(verb, Unit::Things(things), Some(total), done, Recent::of_pieces())
    }

    /// Shows nothing.
    pub fn hidden() -> Progress {
        let (bar, verb) = (ProgressBar::hidden(), Arc::new(Mutex::new("")));
        Progress { bar, unit: Unit::Bytes, verb, started: now() }
    }

    fn begin(verb: &'static str, unit: Unit, total: Option<u64>, done: u64, recent: Recent) -> Progress {
        let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new).with_position(done);
        let template = if total.is_some() { "{line}" } else { "{line} {spinner}" };
        let (started, verb) = (now(), Arc::new(Mutex::new(verb)));
        let recent = Arc::new(Mutex::new(recent));
        let shown = Arc::clone(&verb);
        let line = move |state: &ProgressState, line: &mut dyn fmt::Write| {
            let mut recent = recent.lock().unwrap_or_else(PoisonError::into_inner);
            recent.note(started.elapsed(), state.pos());
            let verb = *shown.lock().unwrap_or_else(PoisonError::into_inner);
            // A line that cannot be written is not missed.
            let _ = line.write_str(&unit.line(verb, state.pos(), state.len(), &recent));
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.with_key("line", line));
        bar.enable_steady_tick(TICK);
        Progress { bar, unit, verb, started }
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
        *self.verb.lock().unwrap_or_else(PoisonError::into_inner) = verb;
    }

    /// Takes the bar away while `work` prints.
    pub fn suspend<T>(&self, work: impl FnOnce() -> T) -> T {
        self.bar.suspend(work)
    }

    /// Prints lines to standard error, also while others use the bar; on a terminal they stand above it.
    pub fn announcer(&self) -> impl Fn(&str) + Send + Sync + use<> {
        let bar = self.bar.clone();
        move |line| if bar.is_hidden() { output::note(line) } else { bar.println(line) }
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
            output::note(format_args!("{done}: {amount} in {time}, {rate}/s"));
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

    /// How far it is, at which rate, and for how long it will go on, if there is a total.
    fn line(self, verb: &str, done: u64, total: Option<u64>, recent: &Recent) -> String {
        let mut amounts = match (self, total) {
            (_, None) => self.amount(done),
            (Unit::Bytes, Some(total)) => format!("{}/{}", BinaryBytes(done), BinaryBytes(total)),
            (Unit::Things(_), Some(total)) => format!("{}/{}", HumanCount(done), self.amount(total)),
        };
        // A text takes everything.
        let _ = recent.describe_as(self, total.map(|total| total.saturating_sub(done)), &mut amounts);
        match total {
            Some(total) => line(verb, done, total, &amounts),
            None => format!("{verb} {amounts}"),
        }
    }
}

/// A line with a bar, no wider than a narrow terminal: the bar has what the words leave.
pub fn line(verb: &str, done: u64, total: u64, amounts: &str) -> String {
    let words = verb.chars().count() + amounts.chars().count() + " [] ".len();
    let bar = (COLUMNS - 1).saturating_sub(words).min(BAR);
    let share = if total == 0 { 1.0 } else { (done as f64 / total as f64).min(1.0) };
    let filled = "=".repeat((share * bar as f64) as usize);
    if bar == 0 { format!("{verb} {amounts}") } else { format!("{verb} [{filled:<bar$}] {amounts}") }
}

/// How far the work was at each look: times since the start, and amounts. Of steady work it keeps the looks of the last
/// ten seconds; of work in large pieces the first look and the last one, because ten seconds may pass without a piece.
#[derive(Debug, Default)]
pub struct Recent {
    looks: VecDeque<(Duration, u64)>,
    is_of_pieces: bool,
}

impl Recent {
    fn of_pieces() -> Recent {
        Recent { is_of_pieces: true, ..Recent::default() }
    }

    /// At the time `now` since the start, `amount` was done.
    pub fn note(&mut self, now: Duration, amount: u64) {
        if self.is_of_pieces {
            self.looks.truncate(1);
        }
        self.looks.push_back((now, amount));
        let is_old = |(then, _): &(Duration, u64)| now.saturating_sub(*then) > WINDOW;
        while self.looks.len() > 2 && self.looks.front().is_some_and(is_old) {
            self.looks.pop_front();
        }
    }

    /// The amount per second, if that can be told yet.
    fn rate(&self) -> Option<f64> {
        let ((then, before), (now, after)) = (self.looks.front()?, self.looks.back()?);
        let (observed, done) = (now.saturating_sub(*then), after.saturating_sub(*before));
        let can_be_told = observed >= LEAST_OBSERVED && (done > 0 || !self.is_of_pieces);
        can_be_told.then(|| done as f64 / observed.as_secs_f64())
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
            Unit::Things(_) if rate >= 1.0 => write!(line, ", {rate:.0}/s")?,
            Unit::Things(_) => write!(line, ", {:.0}/min", 60.0 * rate)?,
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

    fn words(looks: &[(u64, u64)], left: Option<u64>) -> String {
        let mut recent = Recent::default();
        looks.iter().for_each(|(second, bytes)| recent.note(Duration::from_secs(*second), *bytes));
        let mut line = String::new();
        recent.describe(left, &mut line).expect("a text takes everything");
        line
    }

    #[test]
    fn nothing_is_claimed_before_something_was_seen() {
        assert_eq!(words(&[(0, 0)], Some(100)), "");
        assert_eq!(words(&[(0, 0), (0, 50)], Some(100)), "");
    }

    #[test]
    fn the_rest_takes_its_time_at_the_rate_of_the_last_seconds() {
        let fast_then_slow = [(0, 0), (1, 9_000), (11, 10_000), (21, 11_024)];
        assert_eq!(words(&fast_then_slow, Some(1_024)), ", 102 B/s, 10 s left");
        assert_eq!(words(&fast_then_slow, None), ", 102 B/s");
    }

    #[test]
    fn no_line_is_wider_than_a_narrow_terminal() {
        let mut recent = Recent::default();
        recent.note(Duration::ZERO, 0);
        recent.note(Duration::from_secs(10), 10 * (1023 << 20));
        let (done, total) = ((999 << 30) + 999_999_999, (1023 << 30) + 999_999_999);
        for verb in ["storing", "replicating", "storing again"] {
            let shown = Unit::Bytes.line(verb, done, Some(total), &recent);
            assert!(shown.chars().count() < COLUMNS && shown.contains('['), "{shown}");
        }
        let shown = Unit::Things("items").line("measuring", 12_345_678, Some(98_765_432), &recent);
        assert!(shown.chars().count() < COLUMNS && shown.ends_with(" left"), "{shown}");
        let mut slow = Recent::default();
        [(0, 0), (10, 3)].into_iter().for_each(|(second, done)| slow.note(Duration::from_secs(second), done));
        assert!(
            Unit::Things("seeds")
                .line("running", 3, Some(6), &slow)
                .ends_with("3/6 seeds, 18/min, 10 s left")
        );
        assert_eq!(line("storing", 1, 2, "1 B/2 B"), format!("storing [{:<20}] 1 B/2 B", "=".repeat(10)));
    }

    #[test]
    fn a_piece_that_takes_its_time_is_not_stalled() {
        let mut recent = Recent::of_pieces();
        let mut left = |second: u64, done: u64| {
            recent.note(Duration::from_secs(second), done);
            let mut line = String::new();
            recent.describe(Some(100 - done), &mut line).expect("a text takes everything");
            line
        };
        assert_eq!(left(0, 0), "");
        assert_eq!(left(15, 0), "", "nothing can be told before the first piece is done");
        assert_eq!(left(20, 40), ", 2 B/s, 30 s left");
        assert_eq!(left(30, 40), ", 1 B/s, 45 s left");
    }

    #[test]
    fn what_does_not_move_is_stalled_and_not_almost_done() {
        assert_eq!(words(&[(0, 500), (11, 500), (12, 500)], Some(1)), ", 0 B/s, stalled");
    }
}
