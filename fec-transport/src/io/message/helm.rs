//! Whose thread runs the tasks of a messenger's networks: one of its own, or one that waits for them.
//!
//! A thread that waits for a completion runs the tasks itself, if it is the only one that waits. A datagram then wakes
//! the thread that it is for; otherwise it wakes the helm's own thread, which wakes the other one in turn, and what is
//! posted has to wake it first.

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, EnterGuard, Handle, Runtime};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::bell::Bell;

/// The helm's own thread leaves the tasks alone for so long after a waiting thread has left them: a program that has
/// got an answer often asks again at once. A message that is posted without waiting may leave so much later, or twice
/// that.
const PAUSE: Duration = Duration::from_micros(200);

/// Runs the tasks of a messenger's networks. Dropping it tells them to end, and does not wait.
pub(super) struct Helm {
    shared: Arc<Shared>,
    tasks: Handle,
    thread: Mutex<Option<(watch::Sender<()>, JoinHandle<()>)>>,
    stopped: watch::Receiver<()>,
}

#[derive(Debug)]
struct Shared {
    /// The thread owns it: whoever uses it last must not be a task of another runtime.
    runtime: Weak<Runtime>,
    networks: Mutex<JoinSet<()>>,
    turn: Mutex<Turn>,
    /// Tells the thread that it may be its turn.
    changed: Condvar,
    /// Tells the thread that somebody takes the helm from it.
    taken: Notify,
}

/// Who runs the tasks, and who else waits.
#[derive(Debug, Default)]
struct Turn {
    at_helm: AtHelm,
    /// Threads and tasks that wait, the one at the helm included.
    waiting: usize,
    /// How often a waiting thread has taken the helm and left it again.
    done: u64,
    /// Whether the thread is to be told when the helm is free.
    thread_sleeps: bool,
    is_ending: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum AtHelm {
    Nobody,
    #[default]
    Thread,
    /// A thread that waits for a completion.
    Waiter,
}

/// Counts one thread or task that waits, for as long as this lives.
#[derive(Debug)]
pub(super) struct Waiting<'a> {
    shared: &'a Shared,
    is_at_helm: bool,
}

impl Helm {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the operating system gives no thread.
    pub(super) fn start() -> io::Result<Helm> {
        let runtime = Arc::new(Builder::new_current_thread().enable_all().build()?);
        let (stop, stopped) = watch::channel(());
        let tasks = runtime.handle().clone();
        let shared = Arc::new(Shared {
            runtime: Arc::downgrade(&runtime),
            networks: Mutex::default(),
            turn: Mutex::default(),
            changed: Condvar::new(),
            taken: Notify::new(),
        });
        let (its, mut end) = (Arc::clone(&shared), stopped.clone());
        let run = move || its.run(&runtime, &mut end);
        let thread = std::thread::Builder::new().name("messages".to_owned()).spawn(run)?;
        Ok(Helm { shared, tasks, thread: Mutex::new(Some((stop, thread))), stopped })
    }

    /// Runs a network until what `run` is given tells that it is to end: by an error, as its sender is gone.
    pub(super) fn add<F>(&self, run: impl FnOnce(watch::Receiver<()>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.shared.networks().spawn_on(run(self.stopped.clone()), &self.tasks);
    }

    /// Sockets and timers that are made while the guard lives belong here.
    pub(super) fn enter(&self) -> EnterGuard<'_> {
        self.tasks.enter()
    }

    /// Keeps the thread until the bell has rung more often than that, at most for `wait`.
    pub(super) fn wait(&self, bell: &Bell, rung: u64, wait: Duration) {
        match self.shared.take() {
            Some((runtime, _waiting)) => {
                // Whoever waits looks again, whether it has rung or the time is over.
                let _ = runtime.block_on(async { timeout(wait, bell.after(rung)).await });
            }
            None => {
                let _waiting = self.waiting();
                bell.wait(rung, wait);
            }
        }
    }

    /// Somebody waits while that lives, and others do not take the helm.
    pub(super) fn waiting(&self) -> Waiting<'_> {
        self.shared.turn().waiting += 1;
        Waiting { shared: &self.shared, is_at_helm: false }
    }

    /// Tells the networks to end, and waits until they have.
    pub(super) fn end(&self) {
        if let Some(thread) = self.tell_to_end() {
            // A panic of the thread was shown when it happened.
            let _ = thread.join();
        }
    }

    fn tell_to_end(&self) -> Option<JoinHandle<()>> {
        let (stop, thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        drop(stop);
        self.shared.turn().is_ending = true;
        self.shared.changed.notify_one();
        Some(thread)
    }
}

impl Drop for Helm {
    fn drop(&mut self) {
        self.tell_to_end();
    }
}

impl Shared {
    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn networks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.networks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the calling thread at the helm, if it is the only one that waits and no task of another runtime, which must
    /// not run these.
    fn take(&self) -> Option<(Arc<Runtime>, Waiting<'_>)> {
        if Handle::try_current().is_ok() {
            return None;
        }
        let runtime = self.runtime.upgrade()?;
        let mut turn = self.turn();
        if turn.waiting > 0 || turn.is_ending {
            return None;
        }
        turn.waiting += 1;
        if std::mem::replace(&mut turn.at_helm, AtHelm::Waiter) == AtHelm::Thread {
            self.taken.notify_one();
        }
        drop(turn);
        Some((runtime, Waiting { shared: self, is_at_helm: true }))
    }

    /// What the thread does.
    fn run(&self, runtime: &Runtime, stopped: &mut watch::Receiver<()>) {
        while self.await_turn() {
            runtime.block_on(async {
                tokio::select! {
                    () = self.taken.notified() => {}
                    _ = stopped.changed() => {}
                }
            });
        }
        let mut networks = std::mem::take(&mut *self.networks());
        runtime.block_on(async { while networks.join_next().await.is_some() {} });
    }

    /// Keeps the thread until it is its turn, or it is to end; says whether it is its turn.
    fn await_turn(&self) -> bool {
        let mut turn = self.turn();
        let mut seen = None;
        while !turn.is_ending && turn.at_helm != AtHelm::Thread {
            let nothing_new = seen.replace(turn.done) == Some(turn.done);
            match turn.at_helm {
                AtHelm::Nobody if nothing_new || turn.waiting > 0 => turn.at_helm = AtHelm::Thread,
                AtHelm::Waiter if nothing_new => {
                    turn.thread_sleeps = true;
                    turn = self.changed.wait(turn).unwrap_or_else(PoisonError::into_inner);
                    turn.thread_sleeps = false;
                }
                _ => {
                    let woken = self.changed.wait_timeout(turn, PAUSE);
                    turn = woken.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
        !turn.is_ending
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut turn = self.shared.turn();
        turn.waiting -= 1;
        if self.is_at_helm {
            turn.at_helm = AtHelm::Nobody;
            turn.done += 1;
            if turn.thread_sleeps || turn.waiting > 0 {
                self.shared.changed.notify_one();
            }
        }
    }
}

impl fmt::Debug for Helm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Helm").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};
    use std::thread::{self, Builder as Threads, ScopedJoinHandle};

    use super::*;

    /// What the helm's own thread is called.
    const OWN: &str = "messages";

    /// A helm with a network that, whenever it is asked, says which thread runs it.
    struct Scene {
        helm: Helm,
        asked: Arc<Notify>,
        ran: Receiver<String>,
        bell: Bell,
    }

    impl Scene {
        fn new() -> Scene {
            let helm = Helm::start().expect("a thread");
            let (tell, ran) = channel();
            let asked = Arc::new(Notify::new());
            let its = Arc::clone(&asked);
            let say = move || tell.send(thread::current().name().unwrap_or_default().to_owned());
            helm.add(|mut stopped| async move {
                loop {
                    tokio::select! {
                        () = its.notified() => drop(say()),
                        _ = stopped.changed() => break drop(say()),
                    }
                }
            });
            Scene { helm, asked, ran, bell: Bell::default() }
        }

        /// Which thread runs the network now.
        fn ask(&self) -> String {
            self.asked.notify_one();
            self.ran.recv().expect("it answers")
        }

        /// A thread that waits until the bell is rung.
        fn wait<'a>(&'a self, scope: &'a thread::Scope<'a, '_>) -> ScopedJoinHandle<'a, ()> {
            let Scene { helm, bell, .. } = self;
            let wait = move || helm.wait(bell, 0, Duration::MAX);
            Threads::new().name("waiter".to_owned()).spawn_scoped(scope, wait).expect("a thread")
        }

        /// Returns once so many threads and tasks wait.
        fn await_waiting(&self, count: usize) {
            while self.helm.shared.turn().waiting < count {
                thread::yield_now();
            }
        }
    }

    #[test]
    fn a_thread_that_waits_alone_runs_the_tasks_until_its_wait_is_over() {
        let scene = Scene::new();
        assert_eq!(scene.ask(), OWN);
        thread::scope(|scope| {
            scene.wait(scope);
            scene.await_waiting(1);
            // The own thread may run them once more before it leaves them.
            assert!((0..10_000).any(|_| scene.ask() == "waiter"));
            assert!((0..100).all(|_| scene.ask() == "waiter"));
            scene.bell.ring();
        });
        assert_eq!(scene.ask(), OWN);
    }

    #[test]
    fn where_somebody_waits_already_the_tasks_stay_with_their_own_thread() {
        let scene = Scene::new();
        let first = scene.helm.waiting();
        thread::scope(|scope| {
            scene.wait(scope);
            scene.await_waiting(2);
            assert!((0..100).all(|_| scene.ask() == OWN));
            scene.bell.ring();
        });
        drop(first);
        assert_eq!(scene.helm.shared.turn().waiting, 0);
    }

    /// Its tasks must not run within a task of another runtime, which would stand still meanwhile.
    #[test]
    fn a_task_does_not_take_the_helm() {
        let scene = Scene::new();
        let within = scene.helm.enter();
        assert!(scene.helm.shared.take().is_none());
        drop(within);
        assert!(scene.helm.shared.take().is_some());
    }

    #[test]
    fn the_end_waits_for_the_networks_whoever_runs_them() {
        for is_awaited in [false, true] {
            let scene = Scene::new();
            thread::scope(|scope| {
                if is_awaited {
                    scene.wait(scope);
                    scene.await_waiting(1);
                }
                scene.helm.end();
                assert!(scene.ran.try_recv().is_ok(), "the network has said that it ends");
                assert!(scene.helm.shared.take().is_none(), "there is nothing to run any more");
                scene.bell.ring();
            });
        }
    }
}
