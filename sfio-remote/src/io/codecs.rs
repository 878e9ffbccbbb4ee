//! Codec jobs on threads: a clock for each, and how many processors have nothing else to do.

use std::cell::RefCell;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

use super::threads;
use crate::compression::{Codec, CodecJob, CodecResult, Coder, Format, Processor, UnpackError};

/// How often it is looked at what the processors do.
const INTERVAL: Duration = Duration::from_millis(200);

/// So many idle processors are hardly any: threads that wait for one another leave as much idle.
const HARDLY_ANY: f64 = 0.5;
/// This share of all processors is a good part of them.
const GOOD_PART: f64 = 0.4;

thread_local! {
    /// What Zstandard needs between two jobs of one thread.
    static CODER: RefCell<Coder> = RefCell::default();
}

/// How many processors have nothing else to do than codec jobs. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Idleness(Arc<Mutex<Looks>>);

#[derive(Debug)]
struct Looks {
    at: Instant,
    /// What `/proc/stat` said: time that all processors were idle, and all of their time, in ticks.
    ticks: Option<(u64, u64)>,
    /// What jobs have taken since.
    worked: Duration,
    /// Processors that nobody but jobs has used, and how many of them jobs may use.
    unclaimed: f64,
    idle: f64,
}

impl Idleness {
    pub(super) fn new() -> Idleness {
        let idle = processors().saturating_sub(1).max(1) as f64;
        let (at, worked) = (Instant::now(), Duration::ZERO);
        let looks = Looks { at, ticks: ticks(), worked, unclaimed: idle, idle };
        Idleness(Arc::new(Mutex::new(looks)))
    }

    /// Carries a job out on this thread.
    pub(super) fn perform(&self, job: CodecJob) -> CodecResult {
        CODER.with_borrow_mut(|coder| job.perform(&mut Clocked { coder, idleness: Some(self) }))
    }

    /// A job has taken so long.
    fn worked(&self, time: Duration) {
        self.lock().worked += time;
    }

    fn idle(&self) -> f64 {
        self.look().idle
    }

    fn unclaimed(&self) -> f64 {
        self.look().unclaimed
    }

    fn look(&self) -> std::sync::MutexGuard<'_, Looks> {
        let mut looks = self.lock();
        let since = looks.at.elapsed();
        if since < INTERVAL {
            return looks;
        }
        let now = ticks();
        if let (Some(before), Some(now)) = (looks.ticks, now)
            && now.1 > before.1
        {
            let share = now.0.saturating_sub(before.0) as f64 / (now.1 - before.1) as f64;
            let own = looks.worked.as_secs_f64() / since.as_secs_f64();
            looks.unclaimed = processors() as f64 * share + own;
            looks.idle = free_processors(processors() as f64, share, own);
        }
        (looks.at, looks.ticks, looks.worked) = (Instant::now(), now, Duration::ZERO);
        looks
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Looks> {
        // Each change is a few statements without a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many of all processors have nothing else to do than jobs, of which `own` are busy with jobs. These are theirs,
/// unless hardly any is idle and others want a good part of all: then jobs have taken theirs from whoever carries the
/// data, who would be faster without.
fn free_processors(all: f64, idle_share: f64, own: f64) -> f64 {
    let idle = all * idle_share;
    let others = all - idle - own;
    if idle < HARDLY_ANY && others > GOOD_PART * all { 0.0 } else { idle + own }
}

/// How many processors there are.
pub(in crate::io) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Idle and all time of the processors, in ticks; none where there is no such file.
fn ticks() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    parse_ticks(&text)
}

/// The first line of `/proc/stat`: user, nice, system, idle, waiting for disks, interrupts and so on. Guests are
/// counted as users already.
fn parse_ticks(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> =
        line.split_ascii_whitespace().take(8).map_while(|field| field.parse().ok()).collect();
    let idle = fields.get(3)? + fields.get(4)?;
    Some((idle, fields.iter().sum()))
}

/// A coder for a thread of its own, with the thread's clock. In a simulation nothing takes any time, so that everything
/// stays a function of the seed.
#[derive(Debug)]
pub(in crate::io) struct Worker {
    coder: Coder,
    /// None in a simulation.
    idleness: Option<Idleness>,
}

impl Worker {
    pub(in crate::io) fn new() -> Worker {
        Worker { coder: Coder::default(), idleness: (!threads::are_in_turn()).then(Idleness::new) }
    }

    /// One for another thread, of which the same is known of the processors.
    pub(in crate::io) fn another(&self) -> Worker {
        Worker { coder: Coder::default(), idleness: self.idleness.clone() }
    }

    /// How many processors have nothing else to do than jobs that give way to whatever else there is.
    pub(in crate::io) fn unclaimed(&self) -> f64 {
        self.idleness.as_ref().map_or(1.0, Idleness::unclaimed)
    }

    /// Does something on this thread, and says for how long that had a processor.
    pub(in crate::io) fn timed<R>(&mut self, work: impl FnOnce() -> R) -> (R, Duration) {
        self.processor().timed(|_| work())
    }

    /// What carries jobs out on this thread.
    pub(in crate::io) fn processor(&mut self) -> Clocked<'_> {
        Clocked { coder: &mut self.coder, idleness: self.idleness.as_ref() }
    }
}

/// A coder with the clock of its thread: what others take of the processor meanwhile does not count.
pub(in crate::io) struct Clocked<'a> {
    coder: &'a mut Coder,
    /// None in a simulation.
    idleness: Option<&'a Idleness>,
}

impl Clocked<'_> {
    fn timed<R>(&mut self, work: impl FnOnce(&mut Coder) -> R) -> (R, Duration) {
        let Some(idleness) = self.idleness else { return (work(self.coder), Duration::ZERO) };
        let began = thread_time();
        let result = work(self.coder);
        let took = thread_time().saturating_sub(began);
        idleness.worked(took);
        (result, took)
    }
}

impl Processor for Clocked<'_> {
    fn pack(&mut self, codec: Codec, plain: &[u8]) -> (Option<Vec<u8>>, Duration) {
        self.timed(|coder| coder.pack(codec, plain))
    }

    fn unpack(
        &mut self,
        format: Format,
        packed: &[u8],
        plain: usize,
    ) -> (Result<Vec<u8>, UnpackError>, Duration) {
        self.timed(|coder| coder.unpack(format, packed, plain))
    }

    fn idle(&mut self) -> f64 {
        self.idleness.map_or(1.0, Idleness::idle)
    }
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // Neither is negative, and nanoseconds are below a second.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two processors: what is measured while 512 MiB are sent within a machine, as they are and packed.
    #[test]
    fn what_jobs_take_is_not_free_where_others_want_it() {
        assert_eq!(free_processors(2.0, 0.0, 1.0), 0.0, "carrying is slower, because jobs take a processor");
        assert_eq!(
            free_processors(2.0, 0.16, 0.01),
            0.0,
            "nothing is packed: what is idle are threads in turn"
        );
        assert_eq!(free_processors(2.0, 0.0, 1.85), 1.85, "over a slow network nobody else wants them");
        assert_eq!(free_processors(2.0, 0.9, 0.15), 1.95);
        assert_eq!(free_processors(64.0, 0.9, 1.0), 58.6);
    }

    #[test]
    fn idle_time_is_that_of_nothing_to_do_and_of_waiting_for_disks() {
        let text = "cpu  10 1 20 300 40 5 6 7 8 9\ncpu0 1 2 3 4\n";
        assert_eq!(parse_ticks(text), Some((340, 389)));
        assert_eq!(parse_ticks("cpu  10 1 20\n"), None);
        assert_eq!(parse_ticks("something else"), None);
    }
}
