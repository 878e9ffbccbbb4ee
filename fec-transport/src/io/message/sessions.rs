//! The thread on which a member's process carries messages over its sessions.

use std::fmt;
use std::sync::{Arc, mpsc};

use tokio::sync::oneshot;

use super::StartError;
use super::bell::Bell;
use super::task_thread::TaskThread;
use crate::io::endpoint::{Endpoint, EndpointConfig, Handle};
use crate::message::Shared;
use crate::message::fec::{Carry, MessageApplication};

/// A member's process, on a thread of its own. Dropping it ends the process.
pub(super) struct Sessions {
    handle: Handle<MessageApplication>,
    module: usize,
    thread: TaskThread,
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
    ) -> Result<Sessions, StartError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(StartError::Thread)?;
        let application = MessageApplication::new(messenger);
        let (module, bell) = (application.module(), Arc::clone(bell));
        let (tell, started) = mpsc::channel();
        let run = move |stopped: oneshot::Receiver<()>| {
            runtime.block_on(async {
                match Endpoint::start(endpoint, application, move |_| bell.ring()).await {
                    Ok(endpoint) => {
                        let _ = tell.send(Ok(endpoint.handle().clone()));
                        // It ends, too, when the other end is dropped.
                        let _ = stopped.await;
                        let _ = endpoint.shutdown().await;
                    }
                    Err(error) => drop(tell.send(Err(error))),
                }
            });
        };
        let thread = TaskThread::start("messages", run).map_err(StartError::Thread)?;
        let ended = || StartError::Thread(std::io::Error::other("it has ended"));
        let handle = started.recv().map_err(|_| ended())??;
        Ok(Sessions { handle, module, thread })
    }

    /// Has carried what was posted.
    pub(super) fn carry(&self, messenger: &Shared) {
        // Where the driver is busy, a request that waits for it already does.
        if messenger.lock().has_output(self.module) {
            self.handle.try_command(Carry);
        }
    }

    /// Ends the process, and waits for it.
    pub(super) fn shutdown(&self) {
        self.thread.end();
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("module", &self.module).finish_non_exhaustive()
    }
}
