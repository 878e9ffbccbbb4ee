//! Threads for many jobs that do not wait for one another.

use std::num::{NonZeroU32, NonZeroUsize};
use std::thread::available_parallelism;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::failure::Failure;

/// The threads of `--threads`, or without it as many as there are processors, for so many jobs.
///
/// More threads than jobs or processors do nothing but look for work at each other, which takes time that grows with
/// the square of their number; so there are no more than that, whatever was asked for.
///
/// # Errors
/// If the operating system gives no threads.
pub fn pool(wanted: Option<NonZeroU32>, jobs: u64) -> Result<ThreadPool, Failure> {
    let pool = ThreadPoolBuilder::new().num_threads(useful(wanted, jobs, processors())).build();
    pool.map_err(|error| Failure::usage(format!("--threads: {error}")))
}

fn processors() -> usize {
    available_parallelism().map_or(1, NonZeroUsize::get)
}

/// How many threads have something to do: one at least.
fn useful(wanted: Option<NonZeroU32>, jobs: u64, processors: usize) -> usize {
    let wanted = wanted.map_or(processors, |wanted| wanted.get() as usize);
    let jobs = usize::try_from(jobs).unwrap_or(usize::MAX);
    wanted.min(jobs).min(processors).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--threads 2000` made 2000 threads of which most looked for work: 132 pairs took 11 s instead of 20 ms.
    #[test]
    fn there_are_no_more_threads_than_jobs_or_processors() {
        let threads = |wanted, jobs| useful(NonZeroU32::new(wanted), jobs, 8);
        assert_eq!((threads(0, 100), threads(3, 100), threads(2000, 100)), (8, 3, 8));
        assert_eq!((threads(2000, 5), threads(0, 0), threads(u32::MAX, u64::MAX)), (5, 1, 8));
    }

    #[test]
    fn a_pool_of_very_many_threads_is_a_small_one() {
        let pool = pool(NonZeroU32::new(u32::MAX), u64::MAX).expect("threads");
        assert_eq!(pool.current_num_threads(), processors());
    }
}
