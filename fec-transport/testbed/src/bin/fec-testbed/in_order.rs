//! Work for several threads whose results are wanted in order.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use program::progress::Progress;

/// Works on the items 0 to `count` − 1 with so many threads, and hands each result to `take` as soon as those before it
/// have been taken. After a break no further item is begun.
///
/// On a terminal a bar shows how many `what` are done; what `take` prints appears above it.
pub(crate) fn in_order<R: Send>(
    (count, what): (usize, &'static str),
    threads: usize,
    work: impl Fn(usize) -> R + Sync,
    take: impl FnMut(usize, R) -> ControlFlow<()> + Send,
) {
    let progress = Progress::of_things("running", what, count as u64, 0);
    let next = AtomicUsize::new(0);
    let queue = Mutex::new(Queue { waiting: BTreeMap::new(), taken: 0, take });
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let result = work(index);
                    let mut queue = queue.lock().expect("no thread panics with the lock");
                    if progress.suspend(|| queue.push(index, result)).is_break() {
                        next.store(count, Ordering::Relaxed);
                    }
                    progress.advance(1);
                }
            });
        }
    });
    progress.clear();
}

/// Results that wait for those before them.
struct Queue<R, F> {
    waiting: BTreeMap<usize, R>,
    taken: usize,
    take: F,
}

impl<R, F: FnMut(usize, R) -> ControlFlow<()>> Queue<R, F> {
    fn push(&mut self, index: usize, result: R) -> ControlFlow<()> {
        self.waiting.insert(index, result);
        while let Some(result) = self.waiting.remove(&self.taken) {
            self.taken += 1;
            (self.take)(self.taken - 1, result)?;
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_their_items_whatever_thread_is_first() {
        for threads in [1, 3] {
            let mut seen = Vec::new();
            let take = |index, square| {
                seen.push((index, square));
                ControlFlow::Continue(())
            };
            in_order((50, "squares"), threads, |index| index * index, take);
            assert_eq!(seen, (0..50).map(|index| (index, index * index)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn nothing_is_taken_after_a_break() {
        let mut taken = 0;
        let take = |index, ()| {
            taken += 1;
            if index == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        in_order((1_000, "items"), 1, |_| (), take);
        assert_eq!(taken, 5);
    }
}
