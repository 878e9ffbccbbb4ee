//! What the data plane drops, in the log: a line of counts now and then, however many datagrams there are.

use std::time::Duration;

use crate::circuit::DatagramCounters;
use crate::time::Time;

/// Between two lines at least.
const INTERVAL: Duration = Duration::from_secs(10);

/// Compares the counters with those of the last line.
#[derive(Debug, Default)]
pub(super) struct DropLog {
    next: Option<Time>,
    told: DatagramCounters,
}

impl DropLog {
    /// Writes a line if one is due and anything was dropped since the last.
    pub(super) fn look(&mut self, now: Time, counters: impl FnOnce() -> DatagramCounters) {
        if self.next.is_some_and(|next| now < next) {
            return;
        }
        self.next = Some(now + INTERVAL);
        let (new, told) = (counters(), self.told);
        self.told = new;
        let malformed = new.malformed - told.malformed;
        let unknown_label = new.unknown_label - told.unknown_label;
        let bad_tag = new.bad_tag - told.bad_tag;
        let replayed = new.replayed - told.replayed;
        let policed = new.policed - told.policed;
        let queue_full = new.queue_full - told.queue_full;
        if malformed + unknown_label + bad_tag + replayed + policed + queue_full > 0 {
            tracing::warn!(
                malformed,
                unknown_label,
                bad_tag,
                replayed,
                policed,
                queue_full,
                "datagrams were dropped"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    /// Counts lines.
    struct Lines(Arc<AtomicUsize>);

    impl Subscriber for Lines {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn a_flood_is_one_line_every_ten_seconds_and_quiet_is_none() {
        let lines = Arc::new(AtomicUsize::new(0));
        tracing::subscriber::with_default(Lines(Arc::clone(&lines)), || {
            let mut log = DropLog::default();
            let mut counters = DatagramCounters::default();
            for millisecond in 0..60_000 {
                counters.unknown_label += 100;
                log.look(Time::from_epoch(Duration::from_millis(millisecond)), || counters);
            }
            assert_eq!(lines.load(Ordering::Relaxed), 6);
            for second in 60..600 {
                log.look(Time::from_epoch(Duration::from_secs(second)), || counters);
            }
            assert_eq!(lines.load(Ordering::Relaxed), 7, "the rest of the flood, and then nothing");
        });
    }
}
