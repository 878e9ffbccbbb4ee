//! The block of lines that a terminal shows while a data set is sent or fetched. In a pipe there is nothing of it.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{BinaryBytes, HumanCount, ProgressBar, ProgressStyle};
use sfio_remote::io::replication::{Awaited, Meter, Phase, Wait};
use tokio::task::JoinHandle;

use super::paths::PathLines;
use crate::progress::{self, Recent};

/// How often the block is drawn: calm, and never behind.
const TICK: Duration = Duration::from_millis(250);

/// A block of lines, drawn by a task of its own until it is dropped.
pub(super) struct Board {
    bar: ProgressBar,
    drawing: JoinHandle<()>,
}

impl Board {
    /// How far a run is; `verb` is what is done to the bytes: "sending", "fetching".
    pub(super) fn of_run(verb: &'static str, meter: Arc<Meter>, paths: Option<PathLines>) -> Board {
        let (started, mut recent) = (Instant::now(), Recent::default());
        Board::draw(TICK, move || {
            recent.note(started.elapsed(), Meter::get(&meter.bytes_done));
            let paths = paths.as_ref().map(PathLines::text).unwrap_or_default();
            block(verb, &meter, &recent) + &paths
        })
    }

    /// Nothing, unless the command waits.
    pub(super) fn of_waiting(meter: Arc<Meter>) -> Board {
        Board::draw(TICK, move || meter.waiting().map(|wait| waiting(&wait)).unwrap_or_default())
    }

    /// What is waited for where nothing is wrong; while the network is away, that it is.
    pub(super) fn of_waiting_for(meter: Arc<Meter>, what: &str) -> Board {
        let line = shortened(format!("waiting for {what}"));
        Board::draw(TICK, move || meter.waiting().map_or_else(|| line.clone(), |wait| waiting(&wait)))
    }

    /// Between two runs of `--watch`: how old the remote copy is. `fresh` is when the last run began that came to its
    /// end.
    pub(super) fn of_age(fresh: Option<Instant>) -> Board {
        Board::draw(Duration::from_secs(1), move || match fresh {
            Some(fresh) => format!("watching; the remote copy is {} s old", fresh.elapsed().as_secs()),
            None => "watching; nothing has been sent yet".to_owned(),
        })
    }

    fn draw(every: Duration, mut text: impl FnMut() -> String + Send + 'static) -> Board {
        let bar = ProgressBar::new_spinner();
        bar.set_style(ProgressStyle::with_template("{msg}").expect("the template is right"));
        let drawn = bar.clone();
        let drawing = tokio::spawn(async move {
            loop {
                drawn.set_message(text());
                drawn.tick();
                tokio::time::sleep(every).await;
            }
        });
        Board { bar, drawing }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        self.drawing.abort();
        self.bar.finish_and_clear();
    }
}

/// What is being waited for, and for how long, in a line shorter than 80 columns.
fn waiting(wait: &Wait) -> String {
    let (waited, limit) = (wait.since.elapsed().as_secs(), wait.limit.as_secs());
    let awaited = match wait.awaited {
        Awaited::Network => "the network",
        Awaited::AnotherRun => "another run",
    };
    shortened(format!("waiting for {awaited}, {waited} of {limit} s: {}", wait.what))
}

/// A line shorter than 80 columns.
fn shortened(line: String) -> String {
    match line.char_indices().nth(76) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// Two lines, each shorter than 80 columns.
fn block(verb: &str, meter: &Meter, recent: &Recent) -> String {
    let [walked, files, files_done, bytes, done, moved, known] = [
        &meter.walked,
        &meter.files,
        &meter.files_done,
        &meter.bytes,
        &meter.bytes_done,
        &meter.moved,
        &meter.known,
    ]
    .map(Meter::get);
    if let Some(wait) = meter.waiting() {
        return waiting(&wait);
    }
    match meter.phase() {
        Phase::Connect => "connecting".to_owned(),
        Phase::Compare => format!("comparing: {} entries", HumanCount(walked)),
        Phase::Drain => "waiting until everything is safe on the disks".to_owned(),
        Phase::Publish => "publishing".to_owned(),
        Phase::Transfer => {
            let mut amounts = format!("{}/{}", BinaryBytes(done), BinaryBytes(bytes));
            // A text takes everything.
            let _ = recent.describe(Some(bytes.saturating_sub(done)), &mut amounts);
            let mut text = progress::line(verb, done, bytes, &amounts);
            let _ = write!(text, "\n  {}/{} files", HumanCount(files_done), HumanCount(files));
            let _ = write!(text, "; moved {}, known {}", BinaryBytes(moved), BinaryBytes(known));
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn the_block_fits_a_narrow_terminal() {
        let meter = Meter::default();
        let large = [&meter.bytes, &meter.bytes_done, &meter.moved, &meter.known];
        large.iter().for_each(|counter| counter.store(1_099_511_627_775, Ordering::Relaxed));
        [&meter.files, &meter.files_done]
            .iter()
            .for_each(|counter| counter.store(12_345_678, Ordering::Relaxed));
        meter.enter(Phase::Transfer);
        let mut recent = Recent::default();
        recent.note(Duration::ZERO, 0);
        recent.note(Duration::from_secs(10), 1_099_511_627_775);
        let text = block("fetching", &meter, &recent);
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().all(|line| line.chars().count() < 80), "{text}");
        let what = "the session with io1 ended: ".repeat(9);
        let wait = Wait {
            awaited: Awaited::Network,
            what,
            since: tokio::time::Instant::now(),
            limit: Duration::from_secs(600),
        };
        let text = waiting(&wait);
        assert!(text.starts_with("waiting for the network, 0 of 600 s: the session with io1"), "{text}");
        assert!(text.chars().count() < 80, "{text}");
    }
}
