//! Work that blocks: beside the runtime, on threads of their own; in a simulation in turn with it, so that everything
//! is a function of the seed.

use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};

/// Carries out `work` on a thread that may block.
pub(super) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    #[cfg(feature = "sim-io")]
    if simulated::is_in_turn() {
        simulated::work().await;
        return work();
    }
    spawn_blocking(work).await.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()))
}

/// From now on this thread gives way to those that do not. Where only whole processes can, it goes on as it was.
pub(super) fn give_way() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(10) {
        tracing::debug!(%error, "a thread does not give way");
    }
}

/// Whether work runs in turn with the runtime, in a simulation.
pub(super) fn are_in_turn() -> bool {
    #[cfg(feature = "sim-io")]
    return simulated::is_in_turn();
    #[cfg(not(feature = "sim-io"))]
    false
}

/// What a thread produces, item by item, and what comes of it in the end.
#[derive(Debug)]
pub(super) struct Production<T, R> {
    items: Items<T>,
    thread: Thread<R>,
}

/// Where a thread puts what it produces.
#[derive(Debug)]
pub(super) enum Output<T> {
    Task(mpsc::Sender<T>),
    #[cfg(feature = "sim-io")]
    InTurn(std::sync::mpsc::SyncSender<T>),
}

#[derive(Debug)]
enum Items<T> {
    Task(mpsc::Receiver<T>),
    #[cfg(feature = "sim-io")]
    InTurn(std::sync::mpsc::Receiver<T>),
}

#[derive(Debug)]
enum Thread<R> {
    Task(JoinHandle<R>),
    #[cfg(feature = "sim-io")]
    InTurn(std::thread::JoinHandle<R>),
}

impl<T: Send + 'static, R: Send + 'static> Production<T, R> {
    /// Begins to produce; at most `ahead` items wait.
    pub(super) fn begin(
        ahead: usize,
        work: impl FnOnce(Output<T>) -> R + Send + 'static,
    ) -> Production<T, R> {
        #[cfg(feature = "sim-io")]
        if simulated::is_in_turn() {
            let (to, items) = std::sync::mpsc::sync_channel(ahead);
            let thread = std::thread::spawn(move || work(Output::InTurn(to)));
            return Production { items: Items::InTurn(items), thread: Thread::InTurn(thread) };
        }
        let (to, items) = mpsc::channel(ahead);
        let thread = spawn_blocking(move || work(Output::Task(to)));
        Production { items: Items::Task(items), thread: Thread::Task(thread) }
    }

    /// The next item; none once the thread puts out nothing more.
    pub(super) async fn next(&mut self) -> Option<T> {
        match &mut self.items {
            Items::Task(items) => items.recv().await,
            // The runtime stands still until there is one: what has come is no matter of how fast the thread is.
            #[cfg(feature = "sim-io")]
            Items::InTurn(items) => {
                simulated::work().await;
                items.recv().ok()
            }
        }
    }

    /// What came of it.
    pub(super) async fn end(self) -> R {
        drop(self.items);
        match self.thread {
            Thread::Task(thread) => {
                thread.await.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()))
            }
            #[cfg(feature = "sim-io")]
            Thread::InTurn(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        }
    }
}

impl<T> Output<T> {
    /// Puts out an item, once there is room; none if nobody wants any more.
    pub(super) fn put(&self, item: T) -> Option<()> {
        match self {
            Output::Task(to) => to.blocking_send(item).ok(),
            #[cfg(feature = "sim-io")]
            Output::InTurn(to) => to.send(item).ok(),
        }
    }
}

#[cfg(feature = "sim-io")]
pub(super) use simulated::{in_turn, take_time};

#[cfg(feature = "sim-io")]
mod simulated {
    use std::cell::RefCell;
    use std::ops::Range;
    use std::time::Duration;

    use crate::sim::Dice;

    thread_local! {
        /// How long work takes; none where it does not run in turn.
        static PACE: RefCell<Option<Pace>> = const { RefCell::new(None) };
    }

    struct Pace {
        dice: Dice,
        work_ms: Range<usize>,
    }

    /// As long as this lives, what would block runs in turn with the runtime of this thread.
    pub(in crate::io) struct InTurn(());

    pub(in crate::io) fn in_turn() -> InTurn {
        take_time(Dice::new(0), 0..0);
        InTurn(())
    }

    /// From now on one piece of work in four takes so long, in ms of virtual time; the others take none.
    pub(in crate::io) fn take_time(dice: Dice, work_ms: Range<usize>) {
        PACE.set(Some(Pace { dice, work_ms }));
    }

    pub(super) fn is_in_turn() -> bool {
        PACE.with_borrow(Option::is_some)
    }

    /// What a piece of work takes.
    pub(super) async fn work() {
        let takes = PACE.with_borrow_mut(|pace| {
            let Pace { dice, work_ms } = pace.as_mut()?;
            let takes_time = work_ms.start < work_ms.end && dice.one_in(4);
            takes_time.then(|| Duration::from_millis((work_ms.start + dice.below(work_ms.len())) as u64))
        });
        if let Some(takes) = takes {
            tokio::time::sleep(takes).await;
        }
    }

    impl Drop for InTurn {
        fn drop(&mut self) {
            PACE.set(None);
        }
    }
}
