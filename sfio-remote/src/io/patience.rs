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

/// How long work waits for I/O nodes that were there and cannot be reached any more, and what it has met with.
///
/// All work that shares a patience shares its outages: the first failure begins an outage, the first success ends it.
/// Before anything has worked, nothing is waited for: a wrong name or an I/O node that does not run is told at once.
///
/// ```no_run
/// # async fn run(file: &sfio_remote::io::StripedFile) -> Result<(), Box<dyn std::error::Error>> {
/// use sfio_remote::io::Patience;
/// use std::time::Duration;
///
/// let patience = Patience::new(Duration::from_secs(600)).telling(|news| eprintln!("{news}"));
/// let first = patience.retry(|_| file.read_exact_at(0, 1_000)).await?;
/// let second = patience.retry(|_| file.read_exact_at(1_000, 1_000)).await?;
/// # Ok(())
/// # }
/// ```
pub struct Patience {
    limit: Duration,
    tell: Box<dyn Fn(&OutageNews) + Send + Sync>,
    state: Mutex<State>,
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
    /// How often all has been tried again.
    attempts: u64,
    last_attempt: Instant,
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

impl Patience {
    /// Patience of so much time for each outage; none: every failure is final.
    pub fn new(limit: Duration) -> Patience {
        Patience { limit, tell: Box::new(|_| {}), state: Mutex::default() }
    }

    /// This patience with `tell`, which is called when an outage begins and when it ends.
    pub fn telling(self, tell: impl Fn(&OutageNews) + Send + Sync + 'static) -> Patience {
        Patience { tell: Box::new(tell), ..self }
    }

    /// Does `attempt` until it succeeds. It gets its number, from 0 on, and must be something that may be done twice.
    ///
    /// # Errors
    /// Failures that waiting does not mend, at once; [`FileError::OutOfPatience`] when an outage lasts too long.
    pub async fn retry<T, F>(&self, mut attempt: impl FnMut(u64) -> F) -> Result<T, FileError>
    where
        F: Future<Output = Result<T, FileError>>,
    {
        let mut number = 0;
        loop {
            match attempt(number).await {
                Ok(value) => {
                    self.worked();
                    return Ok(value);
                }
                Err(error) => self.wait(error).await?,
            }
            number += 1;
        }
    }

    /// Something has worked: an outage, if there was one, is over.
    pub fn worked(&self) {
        let over = {
            let mut state = self.state();
            state.has_worked = true;
            state.outage.take()
        };
        if let Some(outage) = over {
            self.announce(&OutageNews::Over { after: outage.began.elapsed() });
        }
    }

    /// Something has failed: waits until it is time for the next attempt.
    ///
    /// # Errors
    /// `error` itself if waiting does not mend it, or nothing has worked before; [`FileError::OutOfPatience`] when the
    /// outage lasts too long.
    pub async fn wait(&self, error: FileError) -> Result<(), FileError> {
        if self.limit.is_zero() || !is_outage(&error) {
            return Err(error);
        }
        let (news, waited, attempts) = {
            let mut state = self.state();
            if !state.has_worked {
                return Err(error);
            }
            let (is_new, now) = (state.outage.is_none(), Instant::now());
            state.outages += u64::from(is_new);
            let outage = state.outage.get_or_insert(Outage { began: now, attempts: 0, last_attempt: now });
            // What failed at the same moment was one attempt.
            if now - outage.last_attempt >= PAUSE / 2 {
                (outage.attempts, outage.last_attempt) = (outage.attempts + 1, now);
            }
            let news = is_new.then(|| OutageNews::Begun { error: error.to_string(), limit: self.limit });
            (news, now - outage.began, outage.attempts)
        };
        if waited >= self.limit {
            return Err(FileError::OutOfPatience { error: Box::new(error), waited, attempts });
        }
        if let Some(news) = news {
            self.announce(&news);
        }
        sleep(PAUSE.min(self.limit - waited)).await;
        Ok(())
    }

    /// How many outages there were so far.
    pub fn outages(&self) -> u64 {
        self.state().outages
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

/// Whether an error says that an I/O node cannot be reached now, so that the same may work later.
fn is_outage(error: &FileError) -> bool {
    match error {
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
        let reason = CloseReason::Silent(Duration::from_secs(3));
        OperationError::SessionClosed { member: "io1".into(), reason }.into()
    }

    /// Something that does not work from one second to another.
    async fn work(began: Instant, outage: std::ops::Range<u64>) -> Result<u64, FileError> {
        match outage.contains(&began.elapsed().as_secs()) {
            true => Err(lost()),
            false => Ok(began.elapsed().as_secs()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn work_goes_on_when_an_outage_is_over() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&told);
        let patience = Patience::new(Duration::from_secs(60))
            .telling(move |news| log.lock().expect("no panic").push(news.to_string()));
        let began = Instant::now();
        let try_it = || patience.retry(|_| work(began, 5..12));
        assert_eq!(try_it().await, Ok(0));
        sleep(Duration::from_secs(5)).await;
        let (one, other) = tokio::join!(try_it(), try_it());
        assert_eq!((one, other, patience.outages()), (Ok(12), Ok(12), 1));
        let told = told.lock().expect("no panic");
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("waiting, because the session with io1 ended"), "{told:?}");
        assert_eq!(told[1], "going on after 7.0 s");
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_that_lasts_too_long_is_told_with_what_was_tried_and_for_how_long() {
        let patience = Patience::new(Duration::from_secs(60));
        let began = Instant::now();
        assert_eq!(patience.retry(|_| work(began, 1..1_000)).await, Ok(0));
        sleep(Duration::from_secs(1)).await;
        let error = patience.retry(|_| work(began, 1..1_000)).await.expect_err("it lasts");
        let text = error.to_string();
        assert!(text.starts_with("the session with io1 ended: nothing was heard from it for 3s"), "{text}");
        assert!(text.contains("tried again 240 times in 60.0 s"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_never_worked_and_what_waiting_does_not_mend_fails_at_once() {
        let patience = Patience::new(Duration::from_secs(60));
        let began = Instant::now();
        assert_eq!(patience.retry(|_| work(began, 0..9)).await, Err(lost()));
        patience.worked();
        let unknown = || FileError::from(OperationError::UnknownMember { member: "io9".into() });
        assert_eq!(patience.retry(|_| async { Err::<(), _>(unknown()) }).await, Err(unknown()));
        assert_eq!(Patience::new(Duration::ZERO).wait(lost()).await, Err(lost()));
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
