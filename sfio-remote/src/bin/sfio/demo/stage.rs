//! What the demo shows to those who watch it in a browser: the client that is at work, how far it is, and the links as
//! the emulator has them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fec_transport::overlay::link_title;
use netsim::emulator::{Direction, LinkHandle};
use tokio::sync::Notify;

use super::network::Network;
use super::scene::Scene;
use crate::operations::{Observation, Observer, OverlayMap};
use crate::web::picture::{State, Subject, Work};
use crate::web::{LinkCounts, Seen, Source};

/// Where the demo says what it does. Clones are the same stage.
#[derive(Debug, Clone, Default)]
pub(super) struct Stage(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    scene: Mutex<Acts>,
    /// Something has happened that should be seen at once.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Acts {
    client: Option<Observer>,
    /// How many clients there were.
    clients: usize,
    work: Vec<Work>,
    notes: Vec<String>,
}

impl Stage {
    fn acts(&self) -> MutexGuard<'_, Acts> {
        self.0.scene.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client begins to do something with so many bytes.
    pub(super) fn enter(&self, client: Observer, words: &str, total_bytes: u64) {
        let mut acts = self.acts();
        acts.client = Some(client);
        acts.clients += 1;
        acts.work.push(Work {
            words: words.to_owned(),
            done_bytes: Some(0),
            total_bytes: Some(total_bytes),
            is_done: false,
        });
    }

    /// The client has done so much in all.
    pub(super) fn reached(&self, bytes: u64) {
        if let Some(work) = self.acts().work.last_mut() {
            work.done_bytes = work.done_bytes.max(Some(bytes)).min(work.total_bytes);
        }
    }

    /// The client has done everything.
    pub(super) fn done(&self, words: &str) {
        if let Some(work) = self.acts().work.last_mut() {
            *work = Work {
                words: words.to_owned(),
                done_bytes: work.total_bytes,
                total_bytes: work.total_bytes,
                is_done: true,
            };
        }
        self.0.changed.notify_one();
    }

    /// Something has happened, which is to be seen at once.
    pub(super) fn note(&self, words: String) {
        self.acts().notes.push(words);
        self.0.changed.notify_one();
    }
}

/// Looks at the stage.
pub(super) struct Spectator {
    stage: Stage,
    overlay: Arc<OverlayMap>,
    /// By link of the overlay.
    links: Vec<LinkHandle>,
    client: String,
    /// What the client said last: between two clients there is none, and the last one leaves with the demo.
    last: Option<Observation>,
}

impl Spectator {
    pub(super) fn of(stage: &Stage, network: &Network, scene: &Scene) -> Spectator {
        let mut overlay = OverlayMap::of(&network.overlay);
        for member in &mut overlay.members {
            member.serves = scene.io_nodes.contains(&member.name);
        }
        let links =
            overlay.links.iter().filter_map(|link| network.link(&link_title(&link.a, &link.b, &link.name)));
        let links = links.collect();
        let overlay = Arc::new(overlay);
        Spectator { stage: stage.clone(), overlay, links, client: scene.client.clone(), last: None }
    }

    fn subject(&self) -> Subject {
        Subject {
            member: self.client.clone(),
            title: "demo".to_owned(),
            words: format!(
                "{} members and {} emulated links in one process, as {} sees them",
                self.overlay.members.len(),
                self.overlay.links.len(),
                self.client
            ),
        }
    }
}

impl Source for Spectator {
    async fn look(&mut self) -> Seen {
        let (client, process, work, notes) = {
            let mut acts = self.stage.acts();
            let notes = std::mem::take(&mut acts.notes);
            (acts.client.clone(), acts.clients.to_string(), acts.work.clone(), notes)
        };
        if let Some(client) = client
            && let Ok(observation) = client.observe().await
        {
            self.last = Some(observation);
        }
        Seen {
            subject: self.subject(),
            state: State::Live,
            overlay: Arc::clone(&self.overlay),
            observation: self.last.clone(),
            process,
            links: self.links.iter().map(counts).collect(),
            work,
            notes,
        }
    }

    async fn woken(&mut self) {
        self.stage.0.changed.notified().await;
    }
}

fn counts(link: &LinkHandle) -> LinkCounts {
    let [forward, backward] = [Direction::AToB, Direction::BToA].map(|direction| link.counters(direction));
    LinkCounts {
        is_up: link.is_up(),
        forward_bytes: forward.delivered_bytes,
        backward_bytes: backward.delivered_bytes,
        offered: forward.offered + backward.offered,
        lost: forward.dropped() + backward.dropped(),
    }
}
