//! The thread on which a member's process carries messages over its sessions.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use super::StartError;
use super::bell::Bell;
use crate::io::endpoint::{Endpoint, EndpointConfig, Handle};
use crate::message::Shared;
use crate::message::fec::{Carry, MessageApplication};

/// A member's process, on a thread of its own. Dropping it ends the process.
pub(super) struct Sessions {
    handle: Handle<MessageApplication>,
    module: usize,
    thread: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
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
        let (stop, stopped) = oneshot::channel();
        let (tell, started) = mpsc::channel();
        let run = move || {
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
        let thread = std::thread::Builder::new().name("messages".to_owned()).spawn(run);
        let thread = thread.map_err(StartError::Thread)?;
        let ended = || StartError::Thread(std::io::Error::other("it has ended"));
        let handle = started.recv().map_err(|_| ended())??;
        Ok(Sessions { handle, module, thread: Mutex::new(Some((stop, thread))) })
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
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((stop, thread)) = thread {
            drop(stop);
            // A panic of the thread was shown when it happened.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("module", &self.module).finish_non_exhaustive()
    }
}
