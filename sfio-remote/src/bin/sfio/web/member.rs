//! `sfio status --web`: the page of a running member, which is asked once in a second whoever watches.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use indicatif::BinaryBytes;
use program::output;

use super::picture::{State, Subject, Work};
use super::{Page, Seen, Source, WebAddress, show};
use crate::exit::Failure;
use crate::operations::{AdminRequest, Observation, OverlayMap, ask};
use crate::signals::StopSignals;

/// Between two questions.
const INTERVAL: Duration = Duration::from_secs(1);

/// Serves the page of the member with that admin socket until Ctrl-C.
pub(crate) async fn watch_member(socket: &Path, address: WebAddress) -> Result<(), Failure> {
    let mut signals = StopSignals::install()?;
    let mut member = Member::find(socket).await?;
    let page = Page::open(address).await?;
    output::line(format_args!("{} is shown at {} until Ctrl-C", member.last.member, page.url()))?;
    tokio::select! {
        () = show(&mut member, page.hub(), INTERVAL) => {}
        () = signals.received() => {}
    }
    page.close("sfio status --web was ended").await;
    Ok(())
}

/// A running member, and what it said last.
struct Member {
    socket: PathBuf,
    last: Observation,
    overlay: Arc<OverlayMap>,
}

impl Member {
    async fn find(socket: &Path) -> Result<Member, Failure> {
        let last = ask(socket, AdminRequest::Status).await?;
        let overlay = Arc::new(ask(socket, AdminRequest::Overlay).await?);
        Ok(Member { socket: socket.to_owned(), last, overlay })
    }

    /// Asks how it is and, if its overlay file has changed, for the new one.
    async fn ask(&mut self) -> Result<(), Failure> {
        self.last = ask(&self.socket, AdminRequest::Status).await?;
        if self.last.overlay_serial != self.overlay.serial {
            self.overlay = Arc::new(ask(&self.socket, AdminRequest::Overlay).await?);
        }
        Ok(())
    }
}

impl Source for Member {
    async fn look(&mut self) -> Seen {
        let state = match self.ask().await {
            Ok(()) => State::Live,
            // It may be started again.
            Err(failure) => State::Silent(failure.to_string()),
        };
        let observation = (state == State::Live).then(|| self.last.clone());
        Seen {
            subject: subject(&self.last),
            state,
            overlay: Arc::clone(&self.overlay),
            work: observation.as_ref().map(work).unwrap_or_default(),
            observation,
            process: self.last.process.to_string(),
            links: Vec::new(),
            notes: Vec::new(),
        }
    }
}

fn subject(observation: &Observation) -> Subject {
    let Observation { member, process, overlay_serial, shutting_down, .. } = observation;
    let up = indicatif::HumanDuration(Duration::from_secs(observation.up_s as u64));
    let end = if *shutting_down { ", shutting down" } else { "" };
    Subject {
        member: member.clone(),
        title: member.clone(),
        words: format!("up {up}{end}, process {process}, overlay file of serial {overlay_serial}"),
    }
}

/// What runs at the member, and how much of it: nobody there knows how much is still to come.
fn work(observation: &Observation) -> Vec<Work> {
    let entry = |words| Work { words, done_bytes: None, total_bytes: None, is_done: false };
    let io_node = observation.io_node.as_ref().filter(|io_node| io_node.transfers > 0).map(|io_node| {
        let memory = BinaryBytes(io_node.memory_bytes);
        entry(format!("{} transfers under way, {memory} between network and disk", io_node.transfers))
    });
    let relayed = observation.circuits.iter().filter(|circuit| circuit.part == "relay").count();
    let forwarded = observation.datagrams.get("forwarded").copied().unwrap_or_default();
    let relaying =
        (relayed > 0).then(|| entry(format!("{relayed} circuits relayed, {forwarded} datagrams so far")));
    let streams: usize = observation.sessions.iter().map(|session| session.streams).sum();
    let queued: usize = observation.sessions.iter().map(|session| session.queued_bytes).sum();
    let queued = BinaryBytes(queued as u64);
    let sending = (streams > 0).then(|| entry(format!("{streams} streams open, {queued} on their way")));
    [io_node, relaying, sending].into_iter().flatten().collect()
}
