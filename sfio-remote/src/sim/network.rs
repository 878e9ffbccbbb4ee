//! Sessions and streams between processes, in memory.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use fec_transport::keys::Identity;
use fec_transport::overlay::{InstanceId, MemberId, Peer};
use fec_transport::{CloseReason, ConnectError, Event, Read, SessionId, StreamError, StreamId, Time};

use super::Dice;
use crate::transport::{Flow, Transport};

/// Which end of a session: 0 opened it.
pub type Side = usize;

/// Processes of members, sessions between them, and streams in the sessions.
///
/// Whatever one end does reaches the other one as a [`Signal`]: at once, or, in a [delayed](Network::delayed) network,
/// when its owner delivers it.
#[derive(Debug)]
pub struct Network {
    names: Vec<String>,
    /// The process that answers for a member.
    answering: BTreeMap<MemberId, InstanceId>,
    sessions: BTreeMap<SessionId, Session>,
    streams: BTreeMap<StreamId, [End; 2]>,
    events: BTreeMap<Peer, VecDeque<Event>>,
    is_delayed: bool,
    signals: VecDeque<Signal>,
    next_number: u32,
    /// The most bytes on their way in one direction of a stream.
    pub stream_capacity: usize,
    /// The most bytes that one read gives.
    pub read_bytes: usize,
    /// What every session carries.
    pub flow: Flow,
    /// The most streams of a session.
    pub max_streams: usize,
    dice: Dice,
}

/// What one end of a session is to hear of the other, in order.
#[derive(Debug)]
pub struct Signal {
    /// The session.
    pub session: SessionId,
    /// The end that is to hear it.
    pub to: Side,
    news: News,
}

#[derive(Debug)]
enum News {
    Opened,
    Closed(CloseReason),
    StreamOpened(StreamId),
    Data {
        stream: StreamId,
        offset: u64,
        bytes: Bytes,
    },
    Finished(StreamId),
    /// The peer has read so many bytes more.
    Read {
        stream: StreamId,
        count: u64,
    },
    EndRead(StreamId),
    Reset {
        stream: StreamId,
        code: u32,
    },
}

#[derive(Debug)]
struct Session {
    ends: [Peer; 2],
    states: [State; 2],
    /// Bytes that have arrived at either end.
    carried: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Opening,
    Open,
    Closed,
}

/// One end of a stream.
#[derive(Debug)]
struct End {
    is_there: bool,
    /// What has arrived and was not read, as blocks with their offsets.
    blocks: VecDeque<(u64, Bytes)>,
    written: u64,
    /// How much of that the peer is known to have read.
    read_by_peer: u64,
    has_finished: bool,
    peer_has_finished: bool,
    end_was_read: bool,
    peer_has_read_the_end: bool,
    waits_for_room: bool,
    is_told: bool,
}

impl End {
    fn new(is_there: bool) -> End {
        End {
            is_there,
            blocks: VecDeque::new(),
            written: 0,
            read_by_peer: 0,
            has_finished: false,
            peer_has_finished: false,
            end_was_read: false,
            peer_has_read_the_end: false,
            waits_for_room: false,
            is_told: false,
        }
    }
}

impl Network {
    /// One in which everything arrives at once, between one process for each of the members `names`.
    pub fn new(names: &[&str], seed: u64) -> Network {
        Network {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            answering: (0..names.len()).map(|member| (MemberId(member as u16), InstanceId(1))).collect(),
            sessions: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            is_delayed: false,
            signals: VecDeque::new(),
            next_number: 1,
            stream_capacity: 5_000,
            read_bytes: 2_000,
            flow: Flow::default(),
            max_streams: 64,
            dice: Dice::new(seed),
        }
    }

    /// One in which nothing arrives before its owner [delivers](Network::deliver) it, and nobody answers at first.
    pub fn delayed(names: &[&str], seed: u64) -> Network {
        Network { is_delayed: true, answering: BTreeMap::new(), ..Network::new(names, seed) }
    }

    /// From now on this process answers for its member; none: nobody does.
    pub fn set_answering(&mut self, member: MemberId, instance: Option<InstanceId>) {
        match instance {
            Some(instance) => drop(self.answering.insert(member, instance)),
            None => drop(self.answering.remove(&member)),
        }
    }

    /// What the first process of `member` sees of the network.
    pub fn port(&mut self, member: MemberId) -> Port<'_> {
        self.port_of(Peer { member, instance: InstanceId(1) })
    }

    /// What a process sees of the network.
    pub fn port_of(&mut self, me: Peer) -> Port<'_> {
        Port { network: self, me }
    }

    /// The next event of the first process of `member`.
    pub fn poll_event(&mut self, member: MemberId) -> Option<Event> {
        self.poll_event_of(Peer { member, instance: InstanceId(1) })
    }

    /// The next event of a process.
    pub fn poll_event_of(&mut self, me: Peer) -> Option<Event> {
        let event = self.events.get_mut(&me)?.pop_front()?;
        if let Event::SessionOpened { session, .. } = &event
            && let Some(session) = self.sessions.get_mut(session)
            && let Some(side) = session.ends.iter().position(|end| *end == me)
            && session.states[side] == State::Opening
        {
            session.states[side] = State::Open;
        }
        Some(event)
    }

    /// Ends all sessions of the first process of `member`, as if it had died.
    pub fn kill(&mut self, member: MemberId) {
        let me = Peer { member, instance: InstanceId(1) };
        let dead: Vec<SessionId> = self.sessions_of(me).map(|(session, _)| session).collect();
        for session in dead {
            for side in [0, 1] {
                self.close(
                    session,
                    side,
                    CloseReason::Silent { time: Duration::from_secs(5), probes: 0, paths: 1 },
                );
            }
        }
        self.events.remove(&me);
    }

    /// The sessions of a process, and which end it is.
    pub fn sessions_of(&self, me: Peer) -> impl Iterator<Item = (SessionId, Side)> + '_ {
        self.sessions.iter().filter_map(move |(id, session)| {
            let side = session.ends.iter().position(|end| *end == me)?;
            (session.states[side] != State::Closed).then_some((*id, side))
        })
    }

    /// All sessions, with the processes at both ends.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, [Peer; 2])> + '_ {
        self.sessions.iter().map(|(id, session)| (*id, session.ends))
    }

    /// The processes at both ends of a session.
    pub fn ends(&self, session: SessionId) -> Option<[Peer; 2]> {
        self.sessions.get(&session).map(|session| session.ends)
    }

    /// Whether an end of a session has not closed it.
    pub fn is_open_at(&self, session: SessionId, side: Side) -> bool {
        self.sessions.get(&session).is_some_and(|session| session.states[side] != State::Closed)
    }

    /// Whether one of its ends has closed it.
    pub fn is_half_closed(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|session| session.states.contains(&State::Closed))
    }

    /// Ends a session at one of its ends; the other one does not hear of it.
    pub fn close(&mut self, session: SessionId, side: Side, reason: CloseReason) {
        self.hear(Signal { session, to: side, news: News::Closed(reason) });
    }

    /// The number of streams that have not ended.
    pub fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// What was signalled since the last call, in a delayed network.
    pub fn take_signals(&mut self) -> impl Iterator<Item = Signal> + '_ {
        self.signals.drain(..)
    }

    /// A signal arrives; gives the process that has news by it, which [`poll_event_of`](Network::poll_event_of) tells.
    pub fn deliver(&mut self, signal: Signal) -> Option<Peer> {
        let peer = self.sessions.get(&signal.session)?.ends[signal.to];
        self.hear(signal);
        Some(peer)
    }

    fn signal(&mut self, session: SessionId, to: Side, news: News) {
        let signal = Signal { session, to, news };
        match self.is_delayed {
            true => self.signals.push_back(signal),
            false => self.hear(signal),
        }
    }

    fn hear(&mut self, Signal { session: id, to, news }: Signal) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.states[to] == State::Closed {
            return;
        }
        let (me, peer) = (session.ends[to], session.ends[1 - to]);
        let event = match news {
            News::Opened => {
                if to == 1 {
                    self.signal(id, 0, News::Opened);
                }
                Some(Event::SessionOpened { session: id, peer, incoming: to == 1 })
            }
            News::Closed(reason) => {
                session.states[to] = State::Closed;
                if session.states == [State::Closed; 2] {
                    self.sessions.remove(&id);
                }
                self.leave_streams(id, to);
                Some(Event::SessionClosed { session: id, member: peer.member, reason })
            }
            News::StreamOpened(stream) => self.streams.get_mut(&stream).map(|ends| {
                ends[to].is_there = true;
                Event::StreamOpened { stream }
            }),
            News::Data { stream, .. }
            | News::Finished(stream)
            | News::Read { stream, .. }
            | News::EndRead(stream)
            | News::Reset { stream, .. } => self.hear_of_stream(stream, to, news),
        };
        if let Some(event) = event {
            self.tell(me, event);
        }
    }

    fn hear_of_stream(&mut self, stream: StreamId, to: Side, news: News) -> Option<Event> {
        let end = self.streams.get_mut(&stream).map(|ends| &mut ends[to]).filter(|end| end.is_there)?;
        match news {
            News::Data { offset, bytes, .. } => {
                self.sessions.get_mut(&stream.session)?.carried += bytes.len() as u64;
                end.blocks.push_back((offset, bytes));
                let is_told = std::mem::replace(&mut end.is_told, true);
                (!is_told).then_some(Event::Readable { stream })
            }
            News::Finished(_) => {
                end.peer_has_finished = true;
                Some(Event::Readable { stream })
            }
            News::Read { count, .. } => {
                end.read_by_peer += count;
                std::mem::take(&mut end.waits_for_room).then_some(Event::Writable { stream })
            }
            News::EndRead(_) => {
                end.peer_has_read_the_end = true;
                self.forget_if_ended(stream, to);
                Some(Event::Delivered { stream })
            }
            News::Reset { code, .. } => {
                end.is_there = false;
                self.forget_if_gone(stream);
                Some(Event::StreamReset { stream, code })
            }
            News::Opened | News::Closed(_) | News::StreamOpened(_) => None,
        }
    }

    fn leave_streams(&mut self, session: SessionId, side: Side) {
        self.streams.retain(|stream, ends| {
            if stream.session == session {
                ends[side].is_there = false;
            }
            stream.session != session || ends.iter().any(|end| end.is_there)
        });
    }

    fn tell(&mut self, peer: Peer, event: Event) {
        self.events.entry(peer).or_default().push_back(event);
    }

    /// An end that has read and written everything, of which the peer has read everything, is over.
    fn forget_if_ended(&mut self, stream: StreamId, side: Side) {
        if let Some(ends) = self.streams.get_mut(&stream)
            && ends[side].end_was_read
            && ends[side].peer_has_read_the_end
        {
            ends[side].is_there = false;
        }
        self.forget_if_gone(stream);
    }

    fn forget_if_gone(&mut self, stream: StreamId) {
        // An end that is still to hear of the stream has its signal on the way.
        let is_gone = |ends: &[End; 2]| ends.iter().all(|end| !end.is_there);
        if self.streams.get(&stream).is_some_and(is_gone) {
            self.streams.remove(&stream);
        }
    }
}

/// The keys of the member of that name.
pub fn identity_of(member: &str) -> Identity {
    Identity::from_seed(*blake3::hash(member.as_bytes()).as_bytes())
}

/// The network as one process sees it.
#[derive(Debug)]
pub struct Port<'a> {
    network: &'a mut Network,
    me: Peer,
}

impl Transport for Port<'_> {
    fn connect(&mut self, _: Time, member: MemberId) -> Result<SessionId, ConnectError> {
        if member == self.me.member {
            return Err(ConnectError::Itself(self.member_name(member)));
        }
        let ours = |session: &Session| {
            session.ends[0] == self.me
                && session.ends[1].member == member
                && session.states[0] != State::Closed
        };
        if let Some((id, _)) = self.network.sessions.iter().find(|(_, session)| ours(session)) {
            return Ok(*id);
        }
        let id = SessionId(u64::from(self.network.next_number));
        self.network.next_number += 1;
        // Nothing is ever heard of a member without a process.
        let instance = self.network.answering.get(&member).copied().unwrap_or(InstanceId(0));
        let ends = [self.me, Peer { member, instance }];
        self.network.sessions.insert(id, Session { ends, states: [State::Opening; 2], carried: 0 });
        self.network.signal(id, 1, News::Opened);
        Ok(id)
    }

    fn close(&mut self, _: Time, session: SessionId, reason: &str) {
        let Ok(side) = self.side(session) else { return };
        self.network.close(session, side, CloseReason::Local);
        self.network.signal(session, 1 - side, News::Closed(CloseReason::ByPeer(reason.to_owned())));
    }

    fn open_stream(&mut self, session: SessionId) -> Result<StreamId, StreamError> {
        let side = self.side(session)?;
        if self.network.sessions[&session].states[side] == State::Opening {
            return Err(StreamError::NotOpen);
        }
        let streams = self.network.streams.iter().filter(|(stream, _)| stream.session == session);
        if streams.filter(|(_, ends)| ends[side].is_there).count() >= self.network.max_streams {
            return Err(StreamError::TooMany);
        }
        let stream = StreamId { session, number: self.network.next_number };
        self.network.next_number += 1;
        let mut ends = [End::new(false), End::new(false)];
        ends[side].is_there = true;
        self.network.streams.insert(stream, ends);
        self.network.signal(session, 1 - side, News::StreamOpened(stream));
        Ok(stream)
    }

    fn set_interactive(&mut self, _: Time, _: StreamId) {}

    fn write(&mut self, _: Time, stream: StreamId, data: &[u8]) -> Result<usize, StreamError> {
        let capacity = self.network.stream_capacity as u64;
        let side = self.side(stream.session)?;
        let end = self.end(stream, side)?;
        if end.has_finished {
            return Err(StreamError::Finished);
        }
        let room = capacity - (end.written - end.read_by_peer);
        let taken = data.len().min(room as usize);
        let offset = end.written;
        end.written += taken as u64;
        end.waits_for_room = taken < data.len();
        if taken > 0 {
            let bytes = Bytes::copy_from_slice(&data[..taken]);
            self.network.signal(stream.session, 1 - side, News::Data { stream, offset, bytes });
        }
        Ok(taken)
    }

    fn finish(&mut self, _: Time, stream: StreamId) -> Result<(), StreamError> {
        let side = self.side(stream.session)?;
        self.end(stream, side)?.has_finished = true;
        self.network.signal(stream.session, 1 - side, News::Finished(stream));
        Ok(())
    }

    fn reset(&mut self, _: Time, stream: StreamId, code: u32) {
        let Ok(side) = self.side(stream.session) else { return };
        let Ok(end) = self.end(stream, side) else { return };
        end.is_there = false;
        self.network.signal(stream.session, 1 - side, News::Reset { stream, code });
        self.network.forget_if_gone(stream);
    }

    fn read(&mut self, _: Time, stream: StreamId, max: usize) -> Result<Read, StreamError> {
        self.read_at(stream, max, |_| 0)
    }

    fn read_block(&mut self, _: Time, stream: StreamId) -> Result<Read, StreamError> {
        let dice = self.network.dice.below(1_000);
        self.read_at(stream, usize::MAX, |blocks| dice % blocks)
    }

    fn carried(&self, session: SessionId) -> u64 {
        self.network.sessions.get(&session).map_or(0, |session| session.carried)
    }

    fn flow(&self, _: SessionId) -> Flow {
        self.network.flow
    }

    fn peer(&self, session: SessionId) -> Option<Peer> {
        let side = self.side(session).ok()?;
        Some(self.network.sessions[&session].ends[1 - side])
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
    /// Which end of a session this process is, as long as it is not closed here.
    fn side(&self, session: SessionId) -> Result<Side, StreamError> {
        let session = self.network.sessions.get(&session).ok_or(StreamError::NoSession)?;
        let side = session.ends.iter().position(|end| *end == self.me).ok_or(StreamError::NoSession)?;
        if session.states[side] == State::Closed { Err(StreamError::NoSession) } else { Ok(side) }
    }

    fn end(&mut self, stream: StreamId, side: Side) -> Result<&mut End, StreamError> {
        let end = self.network.streams.get_mut(&stream).map(|ends| &mut ends[side]);
        end.filter(|end| end.is_there).ok_or(StreamError::NoStream)
    }

    /// Reads of the block that `which` chooses, some of its bytes from its beginning on.
    fn read_at(
        &mut self,
        stream: StreamId,
        max: usize,
        which: impl FnOnce(usize) -> usize,
    ) -> Result<Read, StreamError> {
        let some = self.network.dice.below(self.network.read_bytes) + 1;
        let side = self.side(stream.session)?;
        let end = self.end(stream, side)?;
        if end.blocks.is_empty() {
            if !end.peer_has_finished {
                end.is_told = false;
                return Ok(Read::Blocked);
            }
            if !std::mem::replace(&mut end.end_was_read, true) {
                self.network.signal(stream.session, 1 - side, News::EndRead(stream));
            }
            self.network.forget_if_ended(stream, side);
            return Ok(Read::Finished);
        }
        let index = which(end.blocks.len());
        let (next, block) = &mut end.blocks[index];
        let (offset, bytes) = (*next, block.split_to(block.len().min(max).min(some)));
        *next += bytes.len() as u64;
        end.blocks.retain(|(_, bytes)| !bytes.is_empty());
        self.network.signal(stream.session, 1 - side, News::Read { stream, count: bytes.len() as u64 });
        Ok(Read::Data { offset, bytes })
    }
}
