//! What a command tells while nothing is heard of an I/O node and the session with it waits.

use std::fmt;
use std::time::Duration;

use fec_transport::Node;
use sfio_remote::io::SfioClient;
use tokio::time::{Instant, sleep};

/// How often the member's process is asked.
const LOOK: Duration = Duration::from_millis(250);

/// Nothing is heard of an I/O node to which streams are open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Silence {
    /// The I/O node.
    pub(crate) member: String,
    /// For how long.
    pub(crate) time: Duration,
}

impl Silence {
    /// Since when.
    pub(crate) fn since(&self) -> Instant {
        Instant::now().checked_sub(self.time).unwrap_or_else(Instant::now)
    }
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nothing is heard from {}", self.member)
    }
}

/// Tells how long the longest silence is, or that there is none, again and again until the member's process ends or
/// `tell` says that nobody listens.
pub(crate) fn watch(client: &SfioClient, mut tell: impl FnMut(Option<Silence>) -> bool + Send + 'static) {
    let handle = client.handle().clone();
    tokio::spawn(async move {
        while let Ok(longest) = handle.inspect(|node, _| longest(node)).await {
            if !tell(longest) {
                return;
            }
            sleep(LOOK).await;
        }
    });
}

fn longest(node: &Node) -> Option<Silence> {
    let sessions = node.sessions().filter_map(|session| node.session_status(session));
    let waiting = sessions.filter(|session| !session.incoming && session.streams > 0);
    let silent = waiting.map(|session| (node.now().since(session.last_heard), session.peer.member));
    let (time, member) = silent.max().filter(|(time, _)| *time >= node.config().liveness.session_silence)?;
    Some(Silence { member: node.overlay().name(member), time })
}
