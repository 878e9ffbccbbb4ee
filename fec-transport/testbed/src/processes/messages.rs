//! A member of an overlay as a process that sends or takes messages without end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use fec_transport::io::EndpointConfig;
use fec_transport::io::message::{Messenger, MessengerConfig};
use fec_transport::message::{AddressId, Completion, ContextId, Posted, Room, Tag};
use fec_transport::overlay::Overlay;

use super::bulk::byte_at;
use super::child::{read_line, say, say_ready};
use super::job::MessagesJob;
use super::overlay::identity;
use super::snapshot::Snapshot;

/// Does the job until the parent has heard enough.
pub(crate) fn run(job: &MessagesJob) -> Result<()> {
    let endpoint = EndpointConfig::new(Arc::new(Overlay::parse(&job.overlay)?), identity(&job.name));
    let messenger = Messenger::start(MessengerConfig::new().sessions(endpoint))?;
    let mut traffic = Traffic::new(messenger, job);
    let received = Arc::clone(&traffic.received);
    traffic.begin(job)?;
    let carrying = std::thread::spawn(move || traffic.carry());
    say_ready();
    while read_line()?.is_some() {
        if carrying.is_finished() {
            return carrying.join().expect("no panic");
        }
        say(&Snapshot::of_process(received.load(Ordering::Relaxed)))?;
    }
    Ok(())
}

struct Traffic {
    messenger: Messenger,
    context: ContextId,
    /// What every message consists of.
    message: Bytes,
    received: Arc<AtomicU64>,
}

impl Traffic {
    fn new(messenger: Messenger, job: &MessagesJob) -> Traffic {
        let context = messenger.open_context();
        let message = (0..job.bytes as u64).map(byte_at).collect::<Vec<u8>>().into();
        Traffic { messenger, context, message, received: Arc::default() }
    }

    fn begin(&mut self, job: &MessagesJob) -> Result<()> {
        for _ in 0..job.ahead {
            for name in &job.takes_from {
                self.receive(self.messenger.look_up(&format!("fec://{name}"))?, vec![0; job.bytes])?;
            }
            for name in &job.sends_to {
                self.send(self.messenger.look_up(&format!("fec://{name}"))?)?;
            }
        }
        Ok(())
    }

    /// Posts another message in the place of each that is complete.
    fn carry(&mut self) -> Result<()> {
        loop {
            for completion in self.messenger.test_context(self.context, usize::MAX, Duration::MAX) {
                let Completion { user, result, room, .. } = completion;
                let (peer, length) = (AddressId(user), result?);
                match room {
                    None => self.send(peer)?,
                    Some(room) => {
                        let piece = room.into_pieces().pop().context("a receive has one piece")?;
                        self.check(&piece)?;
                        self.received.fetch_add(length, Ordering::Relaxed);
                        self.receive(peer, piece)?;
                    }
                }
            }
        }
    }

    fn send(&self, to: AddressId) -> Result<()> {
        let caller = self.messenger.caller(self.context).user(to.0);
        is_pending(&self.messenger.post_send(to, Tag(1), vec![self.message.clone()], caller)?)
    }

    fn receive(&self, from: AddressId, piece: Vec<u8>) -> Result<()> {
        let (room, caller) = (Room::from_iter([piece]), self.messenger.caller(self.context).user(from.0));
        is_pending(&self.messenger.post_receive(from, Tag(1), room, caller)?)
    }

    /// As [`Bulk`](super::bulk::Bulk) does, looks at both ends and at the middle.
    fn check(&self, piece: &[u8]) -> Result<()> {
        let last = piece.len() - 1;
        let is_right = |index: usize| piece[index] == self.message[index];
        ensure!(is_right(0) && is_right(last / 2) && is_right(last), "a message is not what was sent");
        Ok(())
    }
}

/// Only messages that travel with their envelopes are complete at once.
fn is_pending(posted: &Posted) -> Result<()> {
    match posted {
        Posted::Pending(_) => Ok(()),
        Posted::Done(completion) => bail!("a message of {:?} bytes was complete at once", completion.result),
    }
}
