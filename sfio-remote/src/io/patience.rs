//! Living through outages: work that goes on when I/O nodes can be reached again.

use std::fmt;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::client::FileError;
use crate::client::OperationError;
use crate::remote_error::ErrorKind;

/// The pause before something is tried again. Each attempt opens a session, for which the transport has its own
/// timeouts, so that short pauses cost little.
const PAUSE: Duration = Duration::from_millis(250);

/// How long work waits for I/O nodes that were there and cannot be reached any more.
///
/// A session has a patience of its own ([`Liveness::patience`](fec_transport::config::Liveness::patience)); only when
/// that is at its end is anything tried anew, and the time until then counts, too.
///
/// All work that shares a patience shares its outages: the first that has to wait begins an outage, and it is over when
/// nobody waits any more. The limit holds for each piece of work, from its own first failure on. Before anything has
/// worked, nothing is waited for: a wrong name or an I/O node that does not run is told at once.
///
/// ```no_run
/// # async fn run(file: &sfio_remote::io::StripedFile) -> Result<(), Box<dyn std::error::Error>> {
/// use sfio_remote::io::Patience;
/// use std::time::Duration;
///
/// let patience = Patience::new(Duration::from_secs(600)).telling(|news| eprintln!("{news}"));
/// let first = patience.retry(|| file.read_exact_at(0, 1_000)).await?;
/// let second = patience.retry(|| file.read_exact_at(1_000, 1_000)).await?;
/// # Ok(())
/// # }
/// ```
pub struct Patience {
    limit: Duration,
    tell: Box<dyn Fn(&OutageNews) + Send + Sync>,
    state: Mutex<State>,
}

/// An error that may say that only the network is in the way, so that the same may work later.
pub trait MayPass: Sized + fmt::Display {
    /// Whether it says so.
    fn may_pass(&self) -> bool;

    /// How long what has failed was waited for already when this error came, as a session has its own patience.
    fn waited_before(&self) -> Duration;

    /// The error of somebody who has waited for too long.
    #[must_use]
    fn after_waiting(self, waited: Waited) -> Self;
}

/// For how long something was tried in vain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waited {
    /// Since the first failure.
    pub time: Duration,
    /// How often it was tried again.
    pub attempts: u64,
}

/// What is told while work waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutageNews {
    /// An outage has begun.
    Begun {
        /// What failed.
        error: String,
        /// For how long it is tried again.
        limit: Duration,
    },
    /// The work goes on.
    Over {
        /// How long it waited.
        after: Duration,
    },
}

#[derive(Debug, Default)]
struct State {
    has_worked: bool,
    outage: Option<Outage>,
    outages: u64,
}

#[derive(Debug)]
struct Outage {
    began: Instant,
    /// How many wait for its end.
    waiting: usize,
}

impl Patience {
    /// Patience of so much time; none: every failure is final.
    pub fn new(limit: Duration) -> Patience {
        Patience { limit, tell: Box::new(|_| {}), state: Mutex::default() }
    }

    /// This patience with `tell`, which is called when an outage begins and when it ends.
    pub fn telling(self, tell: impl Fn(&OutageNews) + Send + Sync + 'static) -> Patience {
        Patience { tell: Box::new(tell), ..self }
    }

    /// Does `attempt`, which must be something that may be done twice, until it succeeds.
    ///
    /// # Errors
    /// Failures that waiting does not mend, at once; the last failure when it has waited for too long.
    pub async fn retry<T, E, F>(&self, mut attempt: impl FnMut() -> F) -> Result<T, E>
    where
        E: MayPass,
        F: Future<Output = Result<T, E>>,
    {
        let mut waiting = self.waiting();
        loop {
            match attempt().await {
                Ok(value) => {
                    waiting.worked();
                    return Ok(value);
                }
                Err(error) => waiting.wait(error).await?,
            }
        }
    }

    /// Somebody who may have to wait, and says so itself.
    pub fn waiting(&self) -> Waiting<'_> {
        Waiting { patience: self, since: None, attempts: 0 }
    }

    /// Something has worked: from now on outages are waited for.
    pub fn worked(&self) {
        self.state().has_worked = true;
    }

    /// How many outages there were so far.
    pub fn outages(&self) -> u64 {
        self.state().outages
    }

    fn somebody_waits(&self, error: &impl fmt::Display, now: Instant) {
        let is_new = {
            let mut state = self.state();
            let is_new = state.outage.is_none();
            state.outages += u64::from(is_new);
            state.outage.get_or_insert(Outage { began: now, waiting: 0 }).waiting += 1;
            is_new
        };
        if is_new {
            self.announce(&OutageNews::Begun { error: error.to_string(), limit: self.limit });
        }
    }

    fn somebody_waits_no_more(&self, works: bool) {
        let over = {
            let mut state = self.state();
            if let Some(outage) = &mut state.outage {
                outage.waiting -= 1;
            }
            state.outage.take_if(|outage| outage.waiting == 0)
        };
        if let Some(outage) = over.filter(|_| works) {
            self.announce(&OutageNews::Over { after: outage.began.elapsed() });
        }
    }

    fn announce(&self, news: &OutageNews) {
        tracing::info!("{news}");
        (self.tell)(news);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No panic can leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who waits for an outage to end, once or several times.
#[derive(Debug)]
pub struct Waiting<'a> {
    patience: &'a Patience,
    /// The first failure since it last got on; none: it does not wait.
    since: Option<Instant>,
    attempts: u64,
}

impl Waiting<'_> {
    /// It has got on: if it waited, its outage is over.
    pub fn worked(&mut self) {
        self.patience.worked();
        self.end(true);
    }

    /// It has failed: waits until it is time for the next attempt.
    ///
    /// # Errors
    /// `error` if waiting does not mend it, if nothing has worked before, or if it has waited for too long.
    pub async fn wait<E: MayPass>(&mut self, error: E) -> Result<(), E> {
        let Patience { limit, .. } = *self.patience;
        if limit.is_zero() || !error.may_pass() || !self.patience.state().has_worked {
            return Err(error);
        }
        let now = Instant::now();
        let waited = now
            - *self.since.get_or_insert_with(|| {
                let since = now.checked_sub(error.waited_before()).unwrap_or(now);
                self.patience.somebody_waits(&error, since);
                since
            });
        if waited >= limit {
            return Err(error.after_waiting(Waited { time: waited, attempts: self.attempts }));
        }
        self.attempts += 1;
        sleep(PAUSE.min(limit - waited)).await;
        Ok(())
    }

    fn end(&mut self, works: bool) {
        self.attempts = 0;
        if self.since.take().is_some() {
            self.patience.somebody_waits_no_more(works);
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.end(false);
    }
}

impl MayPass for FileError {
    fn may_pass(&self) -> bool {
        match self {
            error if error.is_for_the_key() => false,
            FileError::Operation(operation) => match operation {
                OperationError::Connect { .. }
                | OperationError::SessionClosed { .. }
                | OperationError::TimedOut { .. } => true,
                OperationError::IoNode { error, .. } => {
                    matches!(error.kind, ErrorKind::Idle | ErrorKind::Overloaded | ErrorKind::Cancelled)
                }
                _ => false,
            },
            FileError::Ended(_) | FileError::EndOfFile { .. } | FileError::OutOfPatience { .. } => false,
        }
    }

    fn waited_before(&self) -> Duration {
        self.silence()
    }

    fn after_waiting(self, Waited { time, attempts }: Waited) -> FileError {
        FileError::OutOfPatience { error: Box::new(self), waited: time, attempts }
    }
}

impl fmt::Debug for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience")
            .field("limit", &self.limit)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for OutageNews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutageNews::Begun { error, limit } => {
                write!(f, "waiting, because {error}; giving up after {limit:?}")
            }
            OutageNews::Over { after } => write!(f, "going on after {:.1} s", after.as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fec_transport::CloseReason;

    use super::*;

    fn lost() -> FileError {
        let reason = CloseReason::Silent { time: Duration::from_secs(3), probes: 0, paths: 1 };
        OperationError::SessionClosed { member: "io1".into(), reason }.into()
    }

    /// Something that does not work from one second to another.
    async fn work(began: Instant, outage: std::ops::Range<u64>) -> Result<u64, FileError> {
        match outage.contains(&began.elapsed().as_secs()) {
            true => Err(lost()),
            false => Ok(began.elapsed().as_secs()),
        }
    }

    /// Patience of a minute, and what it tells.
    fn told_patience() -> (Patience, Arc<Mutex<Vec<String>>>) {
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&told);
        let patience = Patience::new(Duration::from_secs(60))
            .telling(move |news| log.lock().expect("no panic").push(news.to_string()));
        (patience, told)
    }

    #[tokio::test(start_paused = true)]
    async fn work_goes_on_when_an_outage_is_over() {
        let (patience, told) = told_patience();
        let began = Instant::now();
        let try_it = || patience.retry(|| work(began, 5..12));
        assert_eq!(try_it().await, Ok(0));
        sleep(Duration::from_secs(5)).await;
        let (one, other) = tokio::join!(try_it(), try_it());
        assert_eq!((one, other, patience.outages()), (Ok(12), Ok(12), 1));
        let told = told.lock().expect("no panic");
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("waiting, because the session with io1 ended"), "{told:?}");
        assert_eq!(told[1], "going on after 10.0 s");
    }

    /// One I/O node that answers once made the outage of another one end over and over, and the patience never.
    #[tokio::test(start_paused = true)]
    async fn what_works_meanwhile_ends_nobody_elses_waiting() {
        let (patience, told) = told_patience();
        let began = Instant::now();
        patience.worked();
        let works = async {
            for _ in 0..1_000 {
                assert!(patience.retry(|| work(began, 0..0)).await.is_ok());
                sleep(Duration::from_millis(100)).await;
            }
        };
        let (failed, ()) = tokio::join!(patience.retry(|| work(began, 0..1_000)), works);
        let text = failed.expect_err("it lasts").to_string();
        // The session had been silent for three seconds before.
        assert!(text.contains("tried again 228 times in 60.0 s"), "{text}");
        assert_eq!((told.lock().expect("no panic").len(), patience.outages()), (1, 1), "and nothing goes on");
    }

    #[tokio::test(start_paused = true)]
    async fn who_gets_on_between_its_failures_waits_anew() {
        let (patience, _) = told_patience();
        patience.worked();
        let mut waiting = patience.waiting();
        for _ in 0..1_000 {
            waiting.wait(lost()).await.expect("it got on");
            waiting.worked();
        }
        assert_eq!(patience.outages(), 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_that_lasts_too_long_is_told_with_what_was_tried_and_for_how_long() {
        let patience = Patience::new(Duration::from_secs(60));
        let began = Instant::now();
        assert_eq!(patience.retry(|| work(began, 1..1_000)).await, Ok(0));
        sleep(Duration::from_secs(1)).await;
        let error = patience.retry(|| work(began, 1..1_000)).await.expect_err("it lasts");
        let text = error.to_string();
        assert!(text.starts_with("the session with io1 ended: nothing was heard from it for 3s"), "{text}");
        assert!(text.contains("tried again 228 times in 60.0 s"), "{text}");
    }

    /// Patience of two seconds lasted sixteen: attempts to connect did not count.
    #[tokio::test(start_paused = true)]
    async fn the_time_counts_in_which_no_path_answered() {
        let patience = Patience::new(Duration::from_secs(2));
        patience.worked();
        let connect = async || {
            let time = Duration::from_secs(2);
            sleep(time).await;
            let reason = CloseReason::NoPath { time, unreached: Vec::new() };
            Err::<(), _>(FileError::from(OperationError::SessionClosed { member: "io1".into(), reason }))
        };
        let began = Instant::now();
        assert!(patience.retry(connect).await.is_err());
        assert_eq!(began.elapsed(), Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn what_never_worked_and_what_waiting_does_not_mend_fails_at_once() {
        let patience = Patience::new(Duration::from_secs(60));
        let began = Instant::now();
        assert_eq!(patience.retry(|| work(began, 0..9)).await, Err(lost()));
        patience.worked();
        let unwelcome = OperationError::SessionClosed {
            member: "io1".into(),
            reason: CloseReason::Unwelcome(vec!["io1 at [::1]:7: it does not know this member's key".into()]),
        };
        let refused = patience.retry(|| async { Err::<(), _>(FileError::from(unwelcome.clone())) }).await;
        assert_eq!(refused, Err(unwelcome.into()));
        let unknown = || FileError::from(OperationError::UnknownMember { member: "io9".into() });
        assert_eq!(patience.retry(|| async { Err::<(), _>(unknown()) }).await, Err(unknown()));
        assert_eq!(Patience::new(Duration::ZERO).waiting().wait(lost()).await, Err(lost()));
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
