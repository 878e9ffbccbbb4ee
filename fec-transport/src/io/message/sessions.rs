//! What carries messages over a member's sessions: the module `fec`.

use std::fmt;
use std::sync::{Arc, mpsc};

use tokio::sync::Notify;
use tokio::time::timeout;

use super::bell::Bell;
use super::helm::Helm;
use super::{FINISH_LIMIT, StartError};
use crate::io::endpoint::{Endpoint, EndpointConfig, Handle};
use crate::message::Shared;
use crate::message::fec::{Command, MessageApplication, Outcome};

/// A member's process.
pub(super) struct Sessions {
    handle: Handle<MessageApplication>,
    module: usize,
}

impl Sessions {
    /// Starts the process; `bell` rings when there may be something to take.
    ///
    /// # Errors
    /// If it does not start.
    pub(super) fn start(
        endpoint: EndpointConfig,
        messenger: &Shared,
        bell: &Arc<Bell>,
        helm: &Helm,
    ) -> Result<Sessions, StartError> {
        let application = MessageApplication::new(messenger);
        let (module, bell) = (application.module(), Arc::clone(bell));
        let (tell, started) = mpsc::channel();
        let finished = Arc::new(Notify::new());
        let has_finished = Arc::clone(&finished);
        let host = move |outcome| match outcome {
            Outcome::News => bell.ring(),
            Outcome::Finished => has_finished.notify_one(),
        };
        helm.add(|mut stopped| async move {
            match Endpoint::start(endpoint, application, host).await {
                Ok(endpoint) => {
                    let _ = tell.send(Ok(endpoint.handle().clone()));
                    let _ = stopped.changed().await;
                    if endpoint.handle().command(Command::Finish).await.is_ok() {
                        let _ = timeout(FINISH_LIMIT, finished.notified()).await;
                    }
                    let _ = endpoint.shutdown().await;
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        });
        let ended = || StartError::Thread(std::io::Error::other("it has ended"));
        let handle = started.recv().map_err(|_| ended())??;
        Ok(Sessions { handle, module })
    }

    /// Has carried what was posted.
    pub(super) fn carry(&self, messenger: &Shared) {
        // Where the driver is busy, a request that waits for it already does.
        if messenger.lock().has_output(self.module) {
            self.handle.try_command(Command::Carry);
        }
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("module", &self.module).finish_non_exhaustive()
    }
}
