//! What a command says of outages: one line when it begins to wait, and one when it goes on.

use std::io::IsTerminal as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sfio_remote::io::OutageNews;
use tokio::time::Instant;

/// Who notices an outage. Several may notice the same one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Witness {
    /// A session, to which nothing is heard from its I/O node.
    Session,
    /// A call that has failed and is tried again.
    Call,
    /// A run on a data set.
    Run,
}

/// The outages of a command. One has begun when the first witness waits, and is over when none does any more.
pub(crate) struct Outages(Mutex<State>);

struct State {
    tell: Box<dyn Fn(&str) + Send>,
    /// Whether each witness waits.
    waits: [bool; 3],
    /// Since when any of them does.
    since: Option<Instant>,
    /// Whether the command has failed: what ends with it is no outage.
    has_failed: bool,
}

impl Outages {
    /// Outages that a log, a pipe and a mail of cron are told; a terminal shows more than that by other means.
    pub(crate) fn new() -> Outages {
        let tell = |line: &str| {
            if !std::io::stderr().is_terminal() {
                program::output::note(line);
            }
        };
        Outages(Mutex::new(State { tell: Box::new(tell), waits: [false; 3], since: None, has_failed: false }))
    }

    /// From now on `tell` tells them, also on a terminal.
    pub(crate) fn tell_by(&self, tell: impl Fn(&str) + Send + 'static) {
        self.state().tell = Box::new(tell);
    }

    /// This witness waits since then, because of `why`, and gives up after `limit`.
    pub(crate) fn begin(&self, witness: Witness, why: &str, since: Instant, limit: Duration) {
        let mut state = self.state();
        if limit.is_zero() || state.has_failed {
            return;
        }
        state.waits[witness as usize] = true;
        if state.since.is_none() {
            state.since = Some(since);
            (state.tell)(&OutageNews::Begun { error: why.to_owned(), limit }.to_string());
        }
    }

    /// This witness does not wait any more.
    pub(crate) fn end(&self, witness: Witness) {
        let mut state = self.state();
        state.waits[witness as usize] = false;
        if !state.waits.contains(&true) {
            state.over();
        }
    }

    /// What was to be done is done: nobody waits any more.
    pub(crate) fn end_all(&self) {
        self.state().over();
    }

    /// The command has failed. It closes its sessions now, and what still runs over them would take that for an outage.
    pub(crate) fn fail(&self) {
        self.state().has_failed = true;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No panic can leave it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn over(&mut self) {
        self.waits = [false; 3];
        if let Some(since) = self.since.take() {
            (self.tell)(&OutageNews::Over { after: since.elapsed() }.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn told_outages() -> (Outages, Arc<Mutex<Vec<String>>>) {
        let (outages, told) = (Outages::new(), Arc::<Mutex<Vec<String>>>::default());
        let log = Arc::clone(&told);
        outages.tell_by(move |line| log.lock().expect("no panic").push(line.to_owned()));
        (outages, told)
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_that_several_notice_is_told_once() {
        let ((outages, told), limit) = (told_outages(), Duration::from_secs(600));
        let since = Instant::now();
        tokio::time::sleep(Duration::from_secs(5)).await;
        outages.begin(Witness::Session, "nothing is heard from io1", since, limit);
        outages.begin(Witness::Call, "the session with io1 ended", Instant::now(), limit);
        outages.end(Witness::Session);
        outages.end(Witness::Run);
        let begun = "waiting, because nothing is heard from io1; giving up after 600s";
        assert_eq!(*told.lock().expect("no panic"), [begun]);
        outages.end(Witness::Call);
        outages.end_all();
        assert_eq!(*told.lock().expect("no panic"), [begun, "going on after 5.0 s"]);
    }

    /// "waiting, because the session with io1 ended: closed by this side" came before the error of the command.
    #[tokio::test(start_paused = true)]
    async fn what_a_failed_command_closes_is_no_outage() {
        let (outages, told) = told_outages();
        outages.fail();
        let limit = Duration::from_secs(600);
        outages.begin(Witness::Run, "the session with io1 ended: closed by this side", Instant::now(), limit);
        outages.end(Witness::Run);
        assert!(told.lock().expect("no panic").is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_waited_for_is_not_told() {
        let (outages, told) = told_outages();
        outages.begin(Witness::Session, "nothing is heard from io1", Instant::now(), Duration::ZERO);
        outages.end_all();
        assert!(told.lock().expect("no panic").is_empty());
    }
}
