//! From one picture to many viewers.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use hyper::body::Bytes;
use tokio::sync::{Notify, mpsc};

use super::event::event;
use super::history::History;
use super::{Picture, State};

/// How many may watch at once.
pub(super) const MAX_VIEWERS: usize = 32;
/// Events that wait for a viewer. One who is further behind misses pictures.
const WAITING_EVENTS: usize = 4;

/// Where pictures are published, and viewers join.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    stage: Mutex<Stage>,
    joined: Notify,
}

#[derive(Debug, Default)]
struct Stage {
    viewers: Vec<mpsc::Sender<Bytes>>,
    history: History,
    latest: Option<Picture>,
    has_ended: bool,
}

/// Somebody who watches.
#[derive(Debug)]
pub(super) struct Viewer(mpsc::Receiver<Bytes>);

impl Viewer {
    /// The next event; none when nothing will follow.
    pub(super) fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.0.poll_recv(context)
    }
}

impl Hub {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows a picture to everybody. It becomes bytes once.
    pub(super) fn publish(&self, picture: Picture) {
        let mut stage = self.stage();
        if stage.has_ended {
            return;
        }
        stage.history.note(&picture);
        stage.tell(&event("look", &picture));
        stage.latest = Some(picture);
    }

    /// One more viewer, who gets the last minutes and the latest picture at once; none if too many watch.
    pub(super) fn join(&self) -> Option<Viewer> {
        let mut stage = self.stage();
        stage.viewers.retain(|viewer| !viewer.is_closed());
        if stage.viewers.len() >= MAX_VIEWERS {
            return None;
        }
        let (sender, receiver) = mpsc::channel(WAITING_EVENTS);
        let mut first = vec![event("history", &stage.history)];
        first.extend(stage.latest.as_ref().map(|picture| event("look", picture)));
        for event in first {
            // The channel is new and has room for them.
            let _ = sender.try_send(event);
        }
        if !stage.has_ended {
            stage.viewers.push(sender);
        }
        self.joined.notify_one();
        Some(Viewer(receiver))
    }

    /// Waits until somebody has come to watch since this was last awaited.
    #[cfg(feature = "demo")]
    pub(crate) async fn joined(&self) {
        self.joined.notified().await;
    }

    /// The last picture, with a reason why no other follows. Who comes later sees it, too.
    pub(crate) fn end(&self, why: &str) {
        let mut stage = self.stage();
        if stage.has_ended {
            return;
        }
        if let Some(mut last) = stage.latest.take() {
            last.state = State::Ended(why.to_owned());
            stage.tell(&event("look", &last));
            stage.latest = Some(last);
        }
        stage.has_ended = true;
        stage.viewers.clear();
    }
}

impl Stage {
    /// Hands an event to every viewer that has room for it, and forgets those who have gone.
    fn tell(&mut self, event: &Bytes) {
        self.viewers.retain(|viewer| {
            !matches!(viewer.try_send(event.clone()), Err(mpsc::error::TrySendError::Closed(_)))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::picture::tests::picture;
    use super::*;

    async fn next(viewer: &mut Viewer) -> Option<String> {
        let event = std::future::poll_fn(|context| viewer.poll_event(context)).await?;
        Some(String::from_utf8(event.to_vec()).expect("text"))
    }

    #[tokio::test]
    async fn a_viewer_gets_what_was_and_what_comes_until_the_end() {
        let hub = Hub::default();
        hub.publish(picture(1.0));
        let mut viewer = hub.join().expect("there is room");
        assert!(next(&mut viewer).await.expect("an event").starts_with("event: history\n"));
        assert!(next(&mut viewer).await.expect("an event").contains("\"at_s\":1.0"));
        hub.publish(picture(2.0));
        assert!(next(&mut viewer).await.expect("an event").contains("\"at_s\":2.0"));
        hub.end("it is over");
        let last = next(&mut viewer).await.expect("an event");
        assert!(last.contains("it is over") && last.contains("\"at_s\":2.0"), "{last}");
        assert_eq!(next(&mut viewer).await, None);
        let mut late = hub.join().expect("there is room");
        next(&mut late).await.expect("history");
        assert!(next(&mut late).await.expect("the last picture").contains("it is over"));
        assert_eq!(next(&mut late).await, None);
    }

    #[tokio::test]
    async fn who_reads_slowly_misses_pictures_and_costs_no_more_memory() {
        let hub = Hub::default();
        let mut viewer = hub.join().expect("there is room");
        (0..100).for_each(|second| hub.publish(picture(f64::from(second))));
        assert_eq!(viewer.0.len(), WAITING_EVENTS);
        while !viewer.0.is_empty() {
            next(&mut viewer).await;
        }
        hub.publish(picture(200.0));
        assert!(next(&mut viewer).await.expect("an event").contains("\"at_s\":200.0"));
    }

    #[test]
    fn there_is_room_for_so_many_and_for_another_when_one_goes() {
        let hub = Hub::default();
        let mut viewers: Vec<_> = (0..MAX_VIEWERS).map(|_| hub.join().expect("there is room")).collect();
        assert!(hub.join().is_none());
        viewers.pop();
        assert!(hub.join().is_some());
        hub.publish(picture(1.0));
    }
}
