//! The signals by which a process is asked to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Exit, Failure, OrFail as _};

/// Ctrl-C, `kill`, and the terminal that goes away. From its making on they no longer end the process by themselves.
pub(crate) struct StopSignals([Signal; 3]);

impl StopSignals {
    /// Takes the signals over.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn install() -> Result<StopSignals, Failure> {
        let take = |kind| signal(kind).or_fail(Exit::Failed, "cannot handle signals");
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [interrupt, terminate, hangup] = kinds.map(take);
        Ok(StopSignals([interrupt?, terminate?, hangup?]))
    }

    /// Waits for one of them.
    pub(crate) async fn received(&mut self) {
        let StopSignals([interrupt, terminate, hangup]) = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
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
