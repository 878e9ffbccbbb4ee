//! What a transfer needs of the I/O node while it takes a step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fec_transport::overlay::{MemberId, Peer};
use fec_transport::shares::Shares;
use fec_transport::{Read, SessionId, StreamError, StreamId, Time};

use super::IoNodeConfig;
use super::admission::{Admission, Client};
use super::budget::Budget;
use super::disk_queue::{Asker, DiskQueue};
use super::grace::Grace;
use super::past::Seen;
use super::turns::Turns;
use crate::compression::{Choice, Codec, Compression, Compressor, Held, JobQueue, Packing};
use crate::name::SubfilePath;
use crate::remote_error::{ErrorKind, RemoteError};
use crate::store::{DiskAction, DiskReply, Listing, Ticket};
use crate::transport::Transport;
use crate::wire::{RequestId, RequestKind};

/// What all transfers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: IoNodeConfig,
    pub(super) budget: Budget,
    pub(super) disk: DiskQueue,
    pub(super) admission: Admission,
    pub(super) turns: Turns,
    pub(super) grace: Grace,
    /// The bytes of requests, and of replies other than those of reads.
    pub(super) requests: Shares<MemberId>,
    pub(super) codec_jobs: JobQueue<JobOwner>,
    pub(super) held: Held,
    /// How what goes to each member is compressed.
    pub(super) compressors: BTreeMap<MemberId, Compressor>,
}

/// To whom the result of a codec job belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum JobOwner {
    /// A transfer, which may be given up meanwhile.
    Transfer(StreamId),
    /// What is known of a subfile that is sent to that member.
    Trial(MemberId, String),
}

/// What all transfers share, the transport, the time, and which transfer takes the step.
pub(super) struct Context<'a, T> {
    pub(super) now: Time,
    pub(super) asker: Asker,
    pub(super) shared: &'a mut Shared,
    pub(super) transport: &'a mut T,
}

impl<T: Transport> Context<'_, T> {
    /// The stream of the transfer.
    pub(super) fn stream(&self) -> StreamId {
        self.asker.stream
    }

    /// The member that asks.
    pub(super) fn member(&self) -> MemberId {
        self.asker.member
    }

    pub(super) fn read(&mut self, max: u64) -> Result<Read, StreamError> {
        self.transport.read(self.now, self.stream(), usize::try_from(max).unwrap_or(usize::MAX))
    }

    pub(super) fn submit(&mut self, path: &SubfilePath, action: DiskAction, reserved: u64) -> Ticket {
        self.shared.disk.submit(self.asker, path, action, reserved)
    }

    /// The name of the member that asks.
    ///
    /// # Errors
    /// If its session has just ended: then it gets no answer whatever that is.
    pub(super) fn client_name(&self) -> Result<Arc<str>, RemoteError> {
        Ok(self.transport.member_name(self.peer()?.member).into())
    }

    /// The process that asks.
    fn peer(&self) -> Result<Peer, RemoteError> {
        self.transport.peer(self.stream().session).ok_or_else(|| RemoteError::new(ErrorKind::Cancelled, ""))
    }

    /// Refuses what the client may not do, or not now.
    pub(super) fn admit(&mut self, request: &RequestKind) -> Result<(), RemoteError> {
        let (session, peer, name) = (self.stream().session, self.peer()?, self.client_name()?);
        let in_the_way = self.shared.admission.in_the_way(session, request);
        self.displace(in_the_way);
        self.shared.admission.admit(&Client { session, peer, name: &name, now: self.now }, request)
    }

    /// Carries out a request once, however often it comes. Gives the outcome if it was carried out before.
    pub(super) fn submit_once(
        &mut self,
        request: (RequestId, &RequestKind),
        path: &SubfilePath,
        action: DiskAction,
    ) -> Option<Result<DiskReply, RemoteError>> {
        let (id, kind) = request;
        let id = (self.transport.peer(self.stream().session)?, id);
        match self.shared.disk.past.look_up(id, kind, self.stream()) {
            Seen::New => self.shared.disk.submit_once(self.asker, path, action, id),
            Seen::Running => {}
            Seen::Done(outcome) => return Some(outcome.map_err(|error| error.error)),
        }
        None
    }

    /// Ends the sessions of members that are out of reach and hold what somebody asks for.
    fn displace(&mut self, sessions: BTreeSet<(MemberId, SessionId)>) {
        for (member, session) in sessions {
            self.transport.close(
                self.now,
                session,
                "somebody else asked for what it held while it was out of reach",
            );
            self.shared.admission.session_ended(member, session);
        }
    }

    /// Ends the sessions that are out of reach and write subfiles that are listed to somebody else.
    pub(super) fn displace_writers(&mut self, folder: &SubfilePath, listing: &Listing) {
        let paths: Vec<SubfilePath> =
            listing.entries.iter().filter_map(|entry| folder.join(&entry.name).ok()).collect();
        let writers = self.shared.admission.out_of_reach(self.stream().session, paths.iter());
        self.displace(writers);
    }

    /// Creates a subfile that was claimed.
    pub(super) fn submit_claimed(&mut self, path: &SubfilePath, action: DiskAction) {
        self.shared.disk.submit_claimed(self.asker, path, action);
    }

    /// The request takes so many bytes more.
    ///
    /// # Errors
    /// If the member's requests take all that they may.
    pub(super) fn take_for_request(&mut self, bytes: u64) -> Result<u64, RemoteError> {
        let (member, requests) = (self.member(), &mut self.shared.requests);
        if requests.available(member) < bytes {
            let text = format!("this member's requests have {} bytes of memory", requests.held(member));
            return Err(RemoteError::new(ErrorKind::Overloaded, text));
        }
        requests.take(member, bytes);
        Ok(bytes)
    }

    pub(super) fn sync(&mut self, path: &SubfilePath) -> Result<(), RemoteError> {
        self.shared.disk.sync(self.asker, path).map_err(|error| error.error)
    }

    /// How much payload memory this transfer may take now.
    pub(super) fn available_memory(&self) -> u64 {
        self.shared.budget.available(self.member())
    }

    /// Whether the member has any payload memory.
    pub(super) fn holds_memory(&self) -> bool {
        self.shared.budget.holds(self.member())
    }

    /// What is done with the next bytes of a reply.
    pub(super) fn next_frame(&mut self, packing: Packing, path: &SubfilePath) -> Choice {
        if self.shared.config.compression == Compression::Never {
            return Choice::asked_for(Codec::Plain);
        }
        let (now, session, member) = (self.now, self.stream().session, self.member());
        let Shared { compressors, codec_jobs, .. } = &mut *self.shared;
        // Members that have been sent something in frames share the processors.
        let idle = codec_jobs.idle_processors() / compressors.len().max(1) as f64;
        let flow = || self.transport.flow(session);
        compressors.entry(member).or_default().next(now, (packing, path.as_str()), session, flow, idle)
    }

    pub(super) fn compressor(&mut self) -> &mut Compressor {
        let member = self.member();
        self.shared.compressors.entry(member).or_default()
    }

    /// The transfer takes its next step a little later.
    pub(super) fn hold(&mut self) {
        self.shared.held.hold(self.now, self.asker.stream);
    }

    pub(super) fn take_memory(&mut self, bytes: u64) {
        self.shared.budget.take(self.asker.member, bytes);
    }

    pub(super) fn release_memory(&mut self, bytes: u64) {
        self.shared.budget.release(self.asker.member, bytes);
    }

    /// The transfer takes its next step when there may be more memory.
    pub(super) fn wait_for_memory(&mut self) {
        self.shared.budget.wait(self.asker.member, self.asker.stream);
    }
}
