//! A transport in memory, which cuts and delays as a seed says, for the tests of the two state machines.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use fec_transport::keys::Identity;
use fec_transport::overlay::{InstanceId, MemberId, Peer};
use fec_transport::{CloseReason, ConnectError, Event, Read, SessionId, StreamError, StreamId, Time};

use crate::transport::{Flow, Transport};

/// A small generator of numbers (xorshift64*), enough for choosing where to cut.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(2).wrapping_add(1))
    }

    /// A number below `limit`, which is not 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % limit
    }
}

/// Members, sessions between them, and streams in the sessions.
#[derive(Debug)]
pub(crate) struct Network {
    names: Vec<String>,
    sessions: BTreeMap<SessionId, Session>,
    streams: BTreeMap<StreamId, [Direction; 2]>,
    events: BTreeMap<MemberId, VecDeque<Event>>,
    next_number: u32,
    /// The most bytes on their way in one direction of a stream.
    pub(crate) stream_capacity: usize,
    pub(crate) flow: Flow,
    /// The most streams of a session.
    pub(crate) max_streams: usize,
    dice: Dice,
}

#[derive(Debug)]
struct Session {
    ends: [MemberId; 2],
    is_open: bool,
}

/// One direction of a stream: 0 from the opener of the session to the other, 1 back.
#[derive(Debug, Default)]
struct Direction {
    /// What was written and not read, as blocks with their offsets.
    blocks: VecDeque<(u64, Bytes)>,
    written: u64,
    read: u64,
    finished: bool,
    end_was_read: bool,
    writer_waits: bool,
    reader_is_told: bool,
}

impl Network {
    pub(crate) fn new(names: &[&str], seed: u64) -> Network {
        Network {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            sessions: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            next_number: 1,
            stream_capacity: 5_000,
            flow: Flow::default(),
            max_streams: 64,
            dice: Dice::new(seed),
        }
    }

    /// What `member` sees of the network.
    pub(crate) fn port(&mut self, member: MemberId) -> Port<'_> {
        Port { network: self, me: member }
    }

    pub(crate) fn poll_event(&mut self, member: MemberId) -> Option<Event> {
        let event = self.events.get_mut(&member)?.pop_front()?;
        if let Event::SessionOpened { session, .. } = &event {
            self.sessions.get_mut(session)?.is_open = true;
        }
        Some(event)
    }

    /// Ends all sessions of `member`, as if its process had died.
    pub(crate) fn kill(&mut self, member: MemberId) {
        let dead: Vec<SessionId> =
            self.sessions.iter().filter(|(_, s)| s.ends.contains(&member)).map(|(id, _)| *id).collect();
        for session in dead {
            let Some(Session { ends, .. }) = self.sessions.remove(&session) else { continue };
            self.streams.retain(|stream, _| stream.session != session);
            for (end, other) in [(ends[0], ends[1]), (ends[1], ends[0])] {
                let reason = CloseReason::Silent(Duration::from_secs(5));
                self.tell(end, Event::SessionClosed { session, member: other, reason });
            }
        }
        self.events.remove(&member);
    }

    /// The number of streams that have not ended.
    pub(crate) fn stream_count(&self) -> usize {
        self.streams.len()
    }

    fn tell(&mut self, member: MemberId, event: Event) {
        self.events.entry(member).or_default().push_back(event);
    }

    fn other_end(&self, stream: StreamId, me: MemberId) -> Result<MemberId, StreamError> {
        let session = self.sessions.get(&stream.session).ok_or(StreamError::NoSession)?;
        Ok(session.ends[1 - usize::from(session.ends[1] == me)])
    }

    fn direction(&mut self, stream: StreamId, from: MemberId) -> Result<&mut Direction, StreamError> {
        let session = self.sessions.get(&stream.session).ok_or(StreamError::NoSession)?;
        let index = usize::from(session.ends[1] == from);
        Ok(&mut self.streams.get_mut(&stream).ok_or(StreamError::NoStream)?[index])
    }

    fn forget_if_ended(&mut self, stream: StreamId) {
        let ended = |directions: &[Direction; 2]| directions.iter().all(|d| d.end_was_read);
        if self.streams.get(&stream).is_some_and(ended) {
            self.streams.remove(&stream);
        }
    }
}

/// The keys of the member of that name.
pub(crate) fn identity_of(member: &str) -> Identity {
    Identity::from_seed(*blake3::hash(member.as_bytes()).as_bytes())
}

/// The network as one member sees it.
pub(crate) struct Port<'a> {
    network: &'a mut Network,
    me: MemberId,
}

impl Transport for Port<'_> {
    fn connect(&mut self, _: Time, member: MemberId) -> Result<SessionId, ConnectError> {
        if member == self.me {
            return Err(ConnectError::Itself(self.member_name(member)));
        }
        let ours = |(_, session): &(&SessionId, &Session)| session.ends == [self.me, member];
        if let Some((id, _)) = self.network.sessions.iter().find(ours) {
            return Ok(*id);
        }
        let id = SessionId(u64::from(self.network.next_number));
        self.network.next_number += 1;
        self.network.sessions.insert(id, Session { ends: [self.me, member], is_open: false });
        let peer = Peer { member, instance: InstanceId(1) };
        self.network.tell(self.me, Event::SessionOpened { session: id, peer, incoming: false });
        Ok(id)
    }

    fn open_stream(&mut self, session: SessionId) -> Result<StreamId, StreamError> {
        let state = self.network.sessions.get(&session).ok_or(StreamError::NoSession)?;
        if !state.is_open {
            return Err(StreamError::NotOpen);
        }
        if self.network.streams.keys().filter(|stream| stream.session == session).count()
            >= self.network.max_streams
        {
            return Err(StreamError::TooMany);
        }
        let stream = StreamId { session, number: self.network.next_number };
        self.network.next_number += 1;
        let other = state.ends[1 - usize::from(state.ends[1] == self.me)];
        self.network.streams.insert(stream, Default::default());
        self.network.tell(other, Event::StreamOpened { stream });
        Ok(stream)
    }

    fn set_interactive(&mut self, _: Time, _: StreamId) {}

    fn write(&mut self, _: Time, stream: StreamId, data: &[u8]) -> Result<usize, StreamError> {
        let capacity = self.network.stream_capacity;
        let other = self.network.other_end(stream, self.me)?;
        let direction = self.network.direction(stream, self.me)?;
        if direction.finished {
            return Err(StreamError::Finished);
        }
        let room = capacity as u64 - (direction.written - direction.read);
        let taken = data.len().min(room as usize);
        direction.blocks.push_back((direction.written, Bytes::copy_from_slice(&data[..taken])));
        direction.blocks.retain(|(_, bytes)| !bytes.is_empty());
        direction.written += taken as u64;
        direction.writer_waits = taken < data.len();
        let tell = taken > 0 && !std::mem::replace(&mut direction.reader_is_told, true);
        if tell {
            self.network.tell(other, Event::Readable { stream });
        }
        Ok(taken)
    }

    fn finish(&mut self, _: Time, stream: StreamId) -> Result<(), StreamError> {
        let other = self.network.other_end(stream, self.me)?;
        self.network.direction(stream, self.me)?.finished = true;
        self.network.tell(other, Event::Readable { stream });
        Ok(())
    }

    fn reset(&mut self, _: Time, stream: StreamId, code: u32) {
        if self.network.streams.remove(&stream).is_some()
            && let Ok(other) = self.network.other_end(stream, self.me)
        {
            self.network.tell(other, Event::StreamReset { stream, code });
        }
    }

    fn read(&mut self, _: Time, stream: StreamId, max: usize) -> Result<Read, StreamError> {
        self.read_at(stream, max, |_| 0)
    }

    fn read_block(&mut self, _: Time, stream: StreamId) -> Result<Read, StreamError> {
        let dice = self.network.dice.below(1_000);
        self.read_at(stream, usize::MAX, |blocks| dice % blocks)
    }

    fn carried(&self, session: SessionId) -> u64 {
        let directions = self.network.streams.iter().filter(|(stream, _)| stream.session == session);
        directions.flat_map(|(_, directions)| directions).map(|direction| direction.read).sum()
    }

    fn flow(&self, _: SessionId) -> Flow {
        self.network.flow
    }

    fn peer(&self, session: SessionId) -> Option<Peer> {
        let ends = self.network.sessions.get(&session)?.ends;
        let member = ends[1 - usize::from(ends[1] == self.me)];
        Some(Peer { member, instance: InstanceId(1) })
    }

    fn find_member(&self, name: &str) -> Option<MemberId> {
        self.network.names.iter().position(|other| other == name).map(|index| MemberId(index as u16))
    }

    fn member_name(&self, member: MemberId) -> String {
        self.network.names[usize::from(member.0)].clone()
    }

    fn signing_key(&self, member: MemberId) -> [u8; 32] {
        identity_of(&self.member_name(member)).public().ed25519
    }
}

impl Port<'_> {
    /// Reads of the block that `which` chooses, some of its bytes from its beginning on.
    fn read_at(
        &mut self,
        stream: StreamId,
        max: usize,
        which: impl FnOnce(usize) -> usize,
    ) -> Result<Read, StreamError> {
        let some = self.network.dice.below(2_000) + 1;
        let other = self.network.other_end(stream, self.me)?;
        let direction = self.network.direction(stream, other)?;
        if direction.blocks.is_empty() {
            if !direction.finished {
                direction.reader_is_told = false;
                return Ok(Read::Blocked);
            }
            direction.end_was_read = true;
            self.network.tell(other, Event::Delivered { stream });
            self.network.forget_if_ended(stream);
            return Ok(Read::Finished);
        }
        let index = which(direction.blocks.len());
        let (next, block) = &mut direction.blocks[index];
        let (offset, bytes) = (*next, block.split_to(block.len().min(max).min(some)));
        *next += bytes.len() as u64;
        direction.read += bytes.len() as u64;
        direction.blocks.retain(|(_, bytes)| !bytes.is_empty());
        if std::mem::take(&mut direction.writer_waits) {
            self.network.tell(other, Event::Writable { stream });
        }
        Ok(Read::Data { offset, bytes })
    }
}
