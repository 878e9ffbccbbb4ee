//! The signals by which a process is asked to end.

use std::future::poll_fn;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Exit, Failure, OrFail as _};

/// SIGHUP for a member: read the overlay file again. From its making on it no longer ends the process.
pub(crate) struct ReloadSignal(Signal);

impl ReloadSignal {
    /// Takes the signal over.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn install() -> Result<ReloadSignal, Failure> {
        signal(SignalKind::hangup()).map(ReloadSignal).or_fail(Exit::Failed, "cannot handle SIGHUP")
    }

    /// Waits for it.
    pub(crate) async fn received(&mut self) {
        self.0.recv().await;
    }
}

/// Ctrl-C, `kill`, and the terminal that goes away. From its making on they no longer end the process by themselves.
pub(crate) struct StopSignals(Vec<Signal>);

impl StopSignals {
    /// Takes the signals over.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn install() -> Result<StopSignals, Failure> {
        StopSignals::take(&[SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()])
    }

    /// Takes the signals over, but for that of the terminal that goes away, which a service has another use for.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn of_a_service() -> Result<StopSignals, Failure> {
        StopSignals::take(&[SignalKind::interrupt(), SignalKind::terminate()])
    }

    fn take(kinds: &[SignalKind]) -> Result<StopSignals, Failure> {
        let signals = kinds.iter().map(|kind| signal(*kind)).collect::<Result<_, _>>();
        signals.map(StopSignals).or_fail(Exit::Failed, "cannot handle signals")
    }

    /// Waits for one of them.
    pub(crate) async fn received(&mut self) {
        let StopSignals(signals) = self;
        poll_fn(|context| {
            let is_ready = signals.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
            if is_ready { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// A write beyond the limit on file sizes (`ulimit -f`) shall be an error of that write and not the end of the
/// process, which is what SIGXFSZ does unless somebody takes it.
///
/// # Panics
/// Outside of a tokio runtime.
pub(crate) fn survive_file_size_limit() -> Result<(), Failure> {
    let kind = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    // The handler stays when its receiver goes.
    signal(kind).map(drop).or_fail(Exit::Failed, "cannot handle SIGXFSZ")
}
