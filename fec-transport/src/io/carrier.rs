//! Where the driver of an endpoint runs.
//!
//! While one thread of a runtime works, another one waits for the sockets, if the runtime has several. Each datagram
//! that comes then wakes that thread, although the driver is awake already and looks at its sockets soon. With a
//! hundred busy sessions, whose reports come one by one, that took a fourth of two processors. So the driver has a
//! thread and a runtime of its own, where nobody waits while it works, unless the caller's runtime has a single thread
//! anyway.

use std::collections::BTreeMap;

use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::driver::Driver;
use super::endpoint::EndpointError;
use crate::application::Application;
use crate::overlay::{Reach, Uplink};

/// What runs a driver, which ends soon after this is dropped.
pub(super) enum Carrier<A> {
    /// A task of the caller's runtime, alone in a set, which aborts it when it is dropped.
    Task(JoinSet<A>),
    /// A thread that gives the application back at the end. The driver sees for itself that its endpoint was dropped.
    Thread(oneshot::Receiver<A>),
}

/// Where the sockets of a driver are bound, and those of its uplinks.
pub(super) type Addresses = (Reach, BTreeMap<Uplink, Reach>);

impl<A: Application + Send + 'static> Carrier<A> {
    /// Makes a driver, says where its sockets are bound, and runs it.
    ///
    /// # Errors
    /// Those of `make`, and those of the operating system if it gives no thread.
    pub(super) async fn start<H: FnMut(A::Outcome) + Send + 'static>(
        make: impl FnOnce() -> Result<(Driver<A, H>, Addresses), EndpointError> + Send + 'static,
    ) -> Result<(Carrier<A>, Addresses), EndpointError> {
        if Handle::try_current().is_ok_and(|it| it.runtime_flavor() == RuntimeFlavor::CurrentThread) {
            let ((driver, addresses), mut task) = (make()?, JoinSet::new());
            task.spawn(driver.run());
            return Ok((Carrier::Task(task), addresses));
        }
        let (tell, started) = oneshot::channel();
        let (give_back, app) = oneshot::channel();
        let thread = move || match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(drive(make, tell, give_back)),
            Err(error) => drop(tell.send(Err(error.into()))),
        };
        // It has no name of its own, so that Linux shows it under that of the thread that starts it.
        std::thread::Builder::new().spawn(thread)?;
        let ended = |_| std::io::Error::other("the thread of the driver has ended");
        Ok((Carrier::Thread(app), started.await.map_err(ended)??))
    }

    /// Waits until the driver has ended, and gives the application back if it did not panic.
    pub(super) async fn join(self) -> Option<A> {
        match self {
            Carrier::Task(mut task) => task.join_next().await?.ok(),
            Carrier::Thread(app) => app.await.ok(),
        }
    }
}

/// Makes a driver, tells where its sockets are bound, runs it, and gives the application back.
async fn drive<A: Application, H: FnMut(A::Outcome)>(
    make: impl FnOnce() -> Result<(Driver<A, H>, Addresses), EndpointError>,
    tell: oneshot::Sender<Result<Addresses, EndpointError>>,
    give_back: oneshot::Sender<A>,
) {
    let driver = match make() {
        Ok((driver, addresses)) => tell.send(Ok(addresses)).map(|()| driver),
        Err(error) => return drop(tell.send(Err(error))),
    };
    // Whoever has dropped the endpoint wants neither to hear of it nor to have the application back.
    if let Ok(driver) = driver {
        let _ = give_back.send(driver.run().await);
    }
}
