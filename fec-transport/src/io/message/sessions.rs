//! What carries messages over a member's sessions: the module `fec`.

use std::fmt;
use std::sync::{Arc, mpsc};

use super::StartError;
use super::bell::Bell;
use super::helm::Helm;
use crate::io::endpoint::{Endpoint, EndpointConfig, Handle};
use crate::message::Shared;
use crate::message::fec::{Carry, MessageApplication};

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
        helm.add(|mut stopped| async move {
            match Endpoint::start(endpoint, application, move |_| bell.ring()).await {
                Ok(endpoint) => {
                    let _ = tell.send(Ok(endpoint.handle().clone()));
                    let _ = stopped.changed().await;
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
            self.handle.try_command(Carry);
        }
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("module", &self.module).finish_non_exhaustive()
    }
}
