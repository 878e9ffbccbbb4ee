//! The metrics page of `sfio sync --watch`: how fresh the data set is.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::task::JoinSet;

use super::metrics::{self, Labels, counter, gauge};
use crate::exit::Failure;
use crate::http;

/// Serves the page if that is wanted; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct WatchPage {
    watched: Arc<Mutex<Watched>>,
    _tasks: JoinSet<()>,
}

/// What the passes over the tree have come to.
#[derive(Debug, Clone, PartialEq)]
struct Watched {
    dataset: String,
    generation: Option<u64>,
    /// When the last pass began that left nothing out, since the Unix epoch.
    fresh: Option<Duration>,
    good: u64,
    bad: u64,
}

impl WatchPage {
    /// Serves the page of a data set at `address`, if there is one, and says on standard error where that is.
    ///
    /// # Errors
    /// If nobody can listen there.
    pub(crate) async fn serve(address: Option<SocketAddr>, dataset: String) -> Result<WatchPage, Failure> {
        let watched = Watched { dataset, generation: None, fresh: None, good: 0, bad: 0 };
        let watched = Arc::new(Mutex::new(watched));
        let mut tasks = JoinSet::new();
        if let Some(address) = address {
            let (listener, shown) = (http::bind("--metrics", address).await?, Arc::clone(&watched));
            let bound = listener.local_addr().unwrap_or(address);
            program::output::note(format_args!("sfio: metrics at http://{bound}/metrics"));
            tasks.spawn(metrics::serve_page(listener, move || {
                let shown = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
                async move { metrics::page(shown) }
            }));
        }
        Ok(WatchPage { watched, _tasks: tasks })
    }

    /// Notes a pass: when it began if it left nothing out, and the data set's generation if that is known.
    pub(crate) fn passed(&self, good_since: Option<Instant>, generation: Option<u64>) {
        let good_since = good_since.map(|began| SystemTime::now() - began.elapsed());
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).pass(good_since, generation);
    }
}

impl Watched {
    fn pass(&mut self, good_since: Option<SystemTime>, generation: Option<u64>) {
        match good_since {
            Some(began) => {
                self.good += 1;
                self.fresh = began.duration_since(UNIX_EPOCH).ok();
            }
            None => self.bad += 1,
        }
        self.generation = generation.or(self.generation);
    }

    fn labels(&self) -> Labels {
        vec![("dataset", self.dataset.clone())]
    }
}

impl Collector for Watched {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let to = &mut encoder;
        metrics::encode_build(to)?;
        let fresh = self.fresh.map(|time| (self.labels(), time.as_secs_f64()));
        let help = "When the last pass began that left nothing out, in seconds since the Unix epoch";
        gauge(to, "sync_last_success_timestamp_seconds", help, fresh.into_iter())?;
        let generation = self.generation.map(|number| (self.labels(), number as f64));
        gauge(to, "sync_generation", "The data set's generation", generation.into_iter())?;
        let results = [("good", self.good), ("bad", self.bad)].map(|(result, count)| {
            let mut labels = self.labels();
            labels.push(("result", result.to_owned()));
            (labels, count)
        });
        counter(to, "sync_passes", "Passes over the tree by how they ended", results.into_iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_pass_leaves_the_time_of_the_last_good_one() {
        let dataset = "local:photos".to_owned();
        let mut watched = Watched { dataset, generation: None, fresh: None, good: 0, bad: 0 };
        assert!(!metrics::page(watched.clone()).expect("a page").contains("last_success"));
        watched.pass(Some(UNIX_EPOCH + Duration::from_millis(1_500)), Some(3));
        watched.pass(None, None);
        let page = metrics::page(watched).expect("a page");
        for line in [
            "sfio_sync_last_success_timestamp_seconds{dataset=\"local:photos\"} 1.5\n",
            "sfio_sync_generation{dataset=\"local:photos\"} 3.0\n",
            "sfio_sync_passes_total{dataset=\"local:photos\",result=\"good\"} 1\n",
            "sfio_sync_passes_total{dataset=\"local:photos\",result=\"bad\"} 1\n",
        ] {
            assert!(page.contains(line), "{line} is not in {page}");
        }
        assert!(page.contains("sfio_build_info{version=\""), "{page}");
    }
}
