//! For how long the bytes of condemned runs are kept, for readers that may still need them.
//!
//! Only readers depend on this time: a run never names what was condemned, however long ago that was. Time is that of
//! the process's monotonic clock, so whatever this process cannot have seen counts as having happened when it started.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fec_transport::Time;

use crate::dataset::DatasetPath;
use crate::replication::RunId;

/// The most marks, and the most condemned runs, that are told apart.
const MAX_MOMENTS: usize = 4_096;

/// Since when which runs are condemned, and when readers were last heard of.
#[derive(Debug)]
pub(super) struct Grace {
    period: Duration,
    /// When this process first saw the time.
    started: Option<Time>,
    /// When a reader of a data set last said that it reads.
    marks: Moments<DatasetPath>,
    /// When this process learnt that a run is condemned, unless it was before it started.
    condemned: Moments<(DatasetPath, RunId)>,
    /// Condemned runs that were never published.
    unread: BTreeSet<(DatasetPath, RunId)>,
}

impl Grace {
    pub(super) fn new(period: Duration) -> Grace {
        Grace {
            period,
            started: None,
            marks: Moments::default(),
            condemned: Moments::default(),
            unread: BTreeSet::new(),
        }
    }

    /// The time is `now`.
    pub(super) fn saw(&mut self, now: Time) {
        self.started.get_or_insert(now);
    }

    /// Somebody reads the data set.
    pub(super) fn mark(&mut self, now: Time, dataset: DatasetPath) {
        self.marks.note(dataset, now);
    }

    /// A record is about to be published that condemns the run, and the one before did not. Whatever was known of the
    /// run does not count any more.
    pub(super) fn condemned(&mut self, now: Time, dataset: DatasetPath, run: RunId) {
        let condemned = (dataset, run);
        self.unread.remove(&condemned);
        self.condemned.note(condemned, now);
    }

    /// The newest record condemns the run, and none has ever named it: no reader needs it.
    pub(super) fn unread(&mut self, dataset: DatasetPath, run: RunId) {
        // Of those for which there is no room it is not known any more, and they are kept as long as others.
        if self.unread.len() < MAX_MOMENTS {
            self.unread.insert((dataset, run));
        }
    }

    /// For how much longer the run's bytes are kept.
    pub(super) fn remaining(&self, now: Time, dataset: &DatasetPath, run: RunId) -> Duration {
        if self.unread.contains(&(dataset.clone(), run)) {
            return Duration::ZERO;
        }
        let condemned = self.condemned.latest(&(dataset.clone(), run));
        let moments = [self.started, self.marks.latest(dataset), condemned];
        // Before the first moment nothing has passed.
        let since = moments.into_iter().flatten().max().unwrap_or(now);
        self.period.saturating_sub(now.since(since))
    }

    /// The run's bytes are gone.
    pub(super) fn removed(&mut self, dataset: &DatasetPath, run: RunId) {
        self.condemned.at.remove(&(dataset.clone(), run));
        self.unread.remove(&(dataset.clone(), run));
    }
}

/// When things last happened, of a bounded number of them.
#[derive(Debug)]
struct Moments<K> {
    at: BTreeMap<K, Time>,
    /// The latest moment that was forgotten, which then counts for everything that is not known.
    forgotten: Option<Time>,
}

impl<K> Default for Moments<K> {
    fn default() -> Moments<K> {
        Moments { at: BTreeMap::new(), forgotten: None }
    }
}

impl<K: Ord + Clone> Moments<K> {
    fn note(&mut self, key: K, now: Time) {
        self.at.insert(key, now);
        if self.at.len() > MAX_MOMENTS
            && let Some(oldest) = self.at.iter().min_by_key(|(_, at)| **at).map(|(key, _)| key.clone())
        {
            self.forgotten = self.forgotten.max(self.at.remove(&oldest));
        }
    }

    fn latest(&self, key: &K) -> Option<Time> {
        self.at.get(key).copied().or(self.forgotten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::SubfilePath;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn dataset(text: &str) -> DatasetPath {
        DatasetPath::new(SubfilePath::new(text).expect("a right path")).expect("free")
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn the_grace_counts_from_the_last_of_start_condemnation_and_mark() {
        let (mut grace, d, run) = (Grace::new(HOUR), dataset("d"), RunId([1; 16]));
        assert_eq!(grace.remaining(at(9_000), &d, run), HOUR);
        grace.saw(at(100));
        grace.saw(at(200));
        let left = |grace: &Grace, seconds| grace.remaining(at(seconds), &d, run).as_secs();
        assert_eq!((left(&grace, 100), left(&grace, 3_000), left(&grace, 3_700)), (3_600, 700, 0));
        grace.condemned(at(2_000), d.clone(), run);
        assert_eq!((left(&grace, 3_700), left(&grace, 5_600)), (1_900, 0));
        grace.mark(at(5_000), d.clone());
        grace.mark(at(5_100), dataset("other"));
        assert_eq!((left(&grace, 5_600), left(&grace, 8_600)), (3_000, 0));
        assert_eq!(grace.remaining(at(5_600), &dataset("other"), run).as_secs(), 3_100);
        grace.removed(&d, run);
        assert!(grace.condemned.at.is_empty());
        grace.unread(d.clone(), run);
        assert_eq!(left(&grace, 5_600), 0, "what was never published has no readers");
        grace.removed(&d, run);
        assert_eq!(left(&grace, 5_600), 3_000);
        grace.unread(d.clone(), run);
        grace.condemned(at(5_600), d.clone(), run);
        assert_eq!(
            left(&grace, 5_600),
            3_600,
            "a later record condemns it, which somebody may have named since"
        );
    }

    #[test]
    fn what_is_forgotten_for_want_of_room_is_taken_for_as_late_as_it_can_have_been() {
        let (mut grace, run) = (Grace::new(HOUR), RunId([1; 16]));
        grace.saw(at(0));
        for number in 0..=MAX_MOMENTS as u64 {
            grace.mark(at(number), dataset(&number.to_string()));
        }
        assert_eq!(grace.marks.at.len(), MAX_MOMENTS);
        let left =
            |grace: &Grace, seconds, name: &str| grace.remaining(at(seconds), &dataset(name), run).as_secs();
        assert_eq!((left(&grace, 4_100, "4096"), left(&grace, 4_100, "0")), (3_596, 0));
        for number in 0..3_000 {
            grace.mark(at(6_000 + number), dataset(&format!("e{number}")));
        }
        // Marks up to that of 3,000 made room, and nobody can tell any more which data sets they were of.
        assert_eq!(grace.marks.forgotten, Some(at(3_000)));
        assert_eq!((left(&grace, 6_000, "3"), left(&grace, 6_000, "never marked")), (600, 600));
    }
}
