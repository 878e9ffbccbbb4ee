//! `--web`: a page that shows an overlay at work, in a browser.
//!
//! ```text
//!   a member's admin socket ──┐                         ┌─▶ viewer ─▶ a browser
//!                             ├─▶ Source ─▶ Watcher ─▶ Hub ─▶ viewer ─▶ a browser
//!   the demo's own members ───┘    Seen     Picture     └─▶ …
//! ```
//!
//! One [`Source`] looks every so often, however many viewers there are. The [`Watcher`] makes a
//! [`Picture`] of what was seen: rates from counters, places on the map, what has died or come back.
//! The [`Hub`] turns it into bytes once, and hands them to all viewers as server-sent events; who reads
//! slowly misses pictures, and each picture is whole.
//!
//! Whoever does not know the token in the page's address is told nothing ([`door`]). The page itself (`assets/`) is
//! plain HTML, CSS and JavaScript, built into the program; its Content-Security-Policy lets it load and connect to
//! nothing but itself.

mod address;
mod assets;
mod body;
mod door;
mod event;
mod happenings;
mod history;
mod hub;
pub(crate) mod layout;
mod links;
mod member;
mod meter;
pub(crate) mod picture;
mod sessions;
mod token;
mod watcher;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::exit::{Exit, Failure, OrFail as _};
use crate::http::{self, Limits};
use door::Door;
use hub::Hub;
use picture::{Picture, State};
use token::Token;
use watcher::Watcher;

pub(crate) use address::{LOOPBACK, WebAddress};
pub(crate) use member::watch_member;
#[cfg(feature = "demo")]
pub(crate) use watcher::LinkCounts;
pub(crate) use watcher::Seen;

/// How many may be connected at once: each viewer once, and while a page loads for its parts.
const MAX_CONNECTIONS: usize = hub::MAX_VIEWERS + 32;
/// A viewer may stay for as long as it likes.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);

/// Somebody who looks at an overlay again and again.
pub(crate) trait Source {
    /// What there is to see now.
    async fn look(&mut self) -> Seen;

    /// Waits until there is a reason to look before it is time to.
    async fn woken(&mut self) {
        std::future::pending::<()>().await;
    }
}

/// A page that is served.
pub(crate) struct Page {
    hub: Arc<Hub>,
    url: String,
    end: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Page {
    /// Serves a page on which nothing is shown yet.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) async fn open(address: WebAddress) -> Result<Page, Failure> {
        let listener = http::bind("--web", address.socket()).await?;
        let bound = listener.local_addr().or_fail(Exit::Failed, "--web")?;
        let (token, hub) = (Token::random()?, Arc::new(Hub::default()));
        let url = format!("http://{bound}/{}/", token.text());
        let door = Arc::new(Door::new(token, Arc::clone(&hub)));
        let limits = Limits { connections: MAX_CONNECTIONS, lasting: FOR_EVER, keep_alive: false };
        let (end, ended) = oneshot::channel::<()>();
        let serving = tokio::spawn(async move {
            let ended = async {
                // A page that was dropped ends as one that was closed.
                let _ = ended.await;
            };
            let respond = move |request| {
                let door = Arc::clone(&door);
                async move { door.answer(&request) }
            };
            http::serve(listener, limits, ended, respond).await;
        });
        address.warn_if_open();
        Ok(Page { hub, url, end, serving })
    }

    /// Where it is, with the token.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// What viewers look at.
    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Tells the viewers that nothing new will come, lets them read what is under way, and ends the server.
    pub(crate) async fn close(self, why: &str) {
        self.hub.end(why);
        // The server may have ended by itself.
        let _ = self.end.send(());
        let _ = self.serving.await;
    }
}

/// Looks and shows what was seen, again and again, until it is dropped.
pub(crate) async fn show(source: &mut impl Source, hub: &Hub, every: Duration) {
    let (mut watcher, started) = (Watcher::default(), Instant::now());
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = source.woken() => {}
        }
        let seen = source.look().await;
        let picture = watcher.picture(seen, started.elapsed().as_secs_f64(), clock_ms());
        hub.publish(picture);
    }
}

/// The time of day, for people.
fn clock_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}
