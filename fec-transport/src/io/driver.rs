//! The task that owns a node and its application, and carries everything between them and the world.
//!
//! ```text
//!  control events ─┐                          ┌─> control messages
//!  datagrams ──────┤   ┌──────┐   ┌─────┐     ├─> datagrams
//!  requests ───────┼──>│ node │<─>│ app │─────┼─> outcomes, to the host
//!  time ───────────┘   └──────┘   └─────┘     └─> the next wake-up
//! ```
//!
//! A round is: wait for one of the inputs, feed it, then pass on what comes out until nothing more does.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep_until};

use super::arrivals::{ArrivalLoss, Received};
use super::clock::Clock;
use super::codec_pool::CodecPool;
use super::control::{ControlConfig, ControlEvent, ControlPlane};
use super::data::DataCounts;
use super::data_plane::DataPlane;
use super::drop_log::DropLog;
use super::endpoint::{EndpointConfig, EndpointError, OperatingSystem, ReloadError, random};
use super::sockets::{Local, Sockets, find, locals};
use super::uplinks::{Incarnation, Step, Uplinks};
use crate::addresses::{AddressBook, Slot};
use crate::application::Application;
use crate::crypto::random::Randomness;
use crate::event::SessionId;
use crate::node::Node;
use crate::overlay::{Adjacency, LinkId, Overlay, OverlayChange, Peer, Reach, Uplink};
use crate::routes::job::Plan;
use crate::session::JobResult;
use crate::time::Time;
use crate::transmit::Transmit;

/// Inputs of one kind, and outputs of one kind, that are handled before the others get their turn: enough for a run of
/// datagrams to each of a few neighbours, and about 0.1 ms of work.
const MAX_BATCH: usize = 128;

/// Bytes that the node may put out before its inputs get their turn: some four full runs, 0.1 ms of sealing and
/// sending. With four times as much, and more passes, the reports of 100 busy sessions waited until a tenth of what
/// was sent were repairs that nobody needed.
const MAX_QUEUED: usize = 256 << 10;

/// Passes over all outputs before the inputs get their turn again: what comes of the first one leaves with the second.
const MAX_PASSES: usize = 2;

/// While the data socket is blocked, the node's timer only asks for what cannot be sent: look again this much later,
/// or when the socket is writable.
const BLOCKED_PAUSE: Duration = Duration::from_millis(1);

/// A driver that has not taken what came to its data sockets so long ago was held up: by other work, or because others
/// had the processor. By default a peer suspects a path of which a report does not tell what has been due for 12.5 ms.
const LONG_UNTAKEN: Duration = Duration::from_millis(5);

/// A driver that was held up looks so often at each data socket before it puts anything out, at most: a flood must not
/// keep it from sending. A look takes 32 runs, which are 2 MiB if they are full; a socket holds some 4 MiB.
const MAX_CATCH_UP_LOOKS: usize = 16;

/// How often it is looked which uplinks there are: a few system calls for each. What comes is to carry data within 2 s,
/// and the control connection, a plan and a probe need some round trips of that.
const LOOK: Duration = Duration::from_millis(500);

/// How long the sessions may take to end: a round trip on a slow path, and a repetition.
const CLOSING_LIMIT: Duration = Duration::from_millis(500);

/// Looks at the node and the application, and sends away what it sees.
pub(super) type Look<A> = Box<dyn FnOnce(&Node, &A) + Send>;

/// What a [`Handle`](super::Handle) asks of the driver.
pub(super) enum Request<A: Application> {
    /// For the application.
    Command(A::Command),
    /// Look at the node and the application.
    Inspect(Look<A>),
    /// Tell what has passed the data socket.
    Count(oneshot::Sender<DataCounts>),
    /// Go on with a newer overlay file.
    Reload(Arc<Overlay>, oneshot::Sender<Result<OverlayChange, ReloadError>>),
    /// Take nothing new; the process is to end soon.
    Drain,
}

/// Owns the node and the application.
pub(super) struct Driver<A: Application, H> {
    clock: Clock,
    node: Node,
    app: A,
    /// Is told the application's outcomes.
    host: H,
    control: ControlPlane,
    data: DataPlane,
    /// Everything that had come by then to the data sockets that it looked at last has been taken.
    taken_until: Time,
    /// The uplinks that links name, and when to look at them again.
    uplinks: Uplinks,
    look: Interval,
    addresses: AddressBook,
    /// Encodes and decodes beside this task.
    codecs: CodecPool,
    /// Plans that are computed beside this task.
    planning: JoinSet<Plan>,
    /// The buffer that the node fills; empty between two runs.
    buffer: Vec<u8>,
    requests: mpsc::Receiver<Request<A>>,
    /// Fires when the endpoint is to shut down; an error says that it was dropped.
    stop: oneshot::Receiver<()>,
    /// Tells the log now and then what is dropped.
    drops: DropLog,
    /// Until when the sessions may end, if the endpoint is shutting down.
    closing_until: Option<Time>,
}

enum Wake<A: Application> {
    Control(ControlEvent),
    Readable(Slot),
    Writable,
    Look,
    Request(Request<A>),
    Coded(JobResult),
    Planned(Plan),
    Due,
    Stop,
    Dropped,
}

impl<A: Application, H> Driver<A, H> {
    /// A driver of the process `own` that takes `requests` until `stop` fires.
    ///
    /// # Errors
    /// [`EndpointError`] if a socket cannot be opened, or the config is not right.
    pub(super) fn new(
        config: EndpointConfig,
        own: Peer,
        app: A,
        host: H,
        requests: mpsc::Receiver<Request<A>>,
        stop: oneshot::Receiver<()>,
    ) -> Result<Driver<A, H>, EndpointError> {
        let EndpointConfig { overlay, identity, config, sockets, uplinks, arrival_loss } = config;
        let arrival_loss = ArrivalLoss::new(arrival_loss, u64::from_be_bytes(random()?));
        let mut bound: BTreeMap<Local, Sockets> =
            uplinks.into_iter().map(|(uplink, it)| (Some(uplink), it)).collect();
        bound.extend(sockets.map(|sockets| (None, sockets)));
        let control =
            ControlConfig { overlay: Arc::clone(&overlay), own, identity: identity.clone(), seed: random()? };
        let (clock, randomness) = (Clock::start(), Randomness::Source(Arc::new(OperatingSystem::new()?)));
        let taken_until = clock.now();
        let mut data = DataPlane::new(arrival_loss);
        let by_link = locals(&overlay, own.member);
        let addresses = AddressBook::of(&overlay, own.member, |link| data.slot(&by_link[&link]));
        let mut driver = Driver {
            app,
            host,
            control: ControlPlane::new(control)?,
            data,
            taken_until,
            uplinks: Uplinks::default(),
            look: every(LOOK),
            addresses,
            codecs: CodecPool::new()?,
            planning: JoinSet::new(),
            buffer: Vec::new(),
            node: Node::new(overlay, identity, own.member, own.instance, config, randomness, clock.now())?,
            clock,
            requests,
            stop,
            drops: DropLog::default(),
            closing_until: None,
        };
        driver.open_sockets(bound)?;
        Ok(driver)
    }

    /// Opens the sockets that this member's links need and that are not open yet; takes those that are `bound`. Uplinks
    /// that the machine does not have now are opened when they come, as long as there is another one.
    fn open_sockets(&mut self, mut bound: BTreeMap<Local, Sockets>) -> Result<(), EndpointError> {
        let mut needed: BTreeSet<Local> =
            locals(self.node.overlay(), self.node.member()).into_values().collect();
        if needed.is_empty() {
            needed.insert(None);
        }
        self.uplinks.watch(&needed.iter().flatten().cloned().collect());
        let mut absent = None;
        for local in &needed {
            if self.data.local_addr(local).is_some() {
                continue;
            }
            let found = local.as_ref().and_then(find);
            match self.open(local, bound.remove(local), found) {
                Err(EndpointError::Bind(error)) if local.is_some() && error.is_absence() => {
                    tracing::warn!("{error}; it is used when it comes");
                    absent = absent.or(Some(error));
                }
                result => result?,
            }
        }
        match absent {
            Some(error) if needed.iter().all(|local| self.data.local_addr(local).is_none()) => {
                Err(error.into())
            }
            _ => self.control.dial_neighbours().map_err(EndpointError::from),
        }
    }

    /// Opens a pair of sockets, those that are `bound` if there are any, on the uplink that was `found`.
    fn open(
        &mut self,
        local: &Local,
        bound: Option<Sockets>,
        found: Option<Incarnation>,
    ) -> Result<(), EndpointError> {
        let sockets = match bound {
            Some(sockets) => sockets,
            None => Sockets::for_local(self.node.overlay(), self.node.member(), local)?,
        };
        self.data.open(local, sockets.data)?;
        if let Some(bytes) = self.data.holds() {
            self.node.set_intake(bytes as u64);
        }
        self.control.open(local.clone(), sockets.control)?;
        if let Some((uplink, incarnation)) = local.as_ref().zip(found) {
            self.uplinks.opened(uplink, incarnation);
        }
        Ok(())
    }

    /// Closes the sockets of uplinks that are gone, and opens those of uplinks that have come.
    fn look_at_uplinks(&mut self) {
        let steps = self.uplinks.look(find);
        let has_changed = !steps.is_empty();
        for (uplink, step) in steps {
            let local = Some(uplink.clone());
            match step {
                Step::Close => {
                    self.data.close(&local);
                    self.control.close(&local);
                    tracing::info!(%uplink, "an uplink is gone");
                }
                Step::Open(incarnation) => match self.open(&local, None, Some(incarnation)) {
                    Ok(()) => tracing::info!(%uplink, "an uplink has come"),
                    Err(error) if self.uplinks.refused(&uplink) => {
                        tracing::warn!(%uplink, %error, "an uplink has come and cannot be used; trying again");
                    }
                    Err(_) => {}
                },
            }
        }
        if has_changed && let Err(error) = self.control.dial_neighbours() {
            tracing::error!(error = &error as &dyn std::error::Error, "cannot dial over an uplink");
        }
    }

    /// Where its sockets are bound.
    ///
    /// # Errors
    /// What the operating system says.
    pub(super) fn local_addresses(&self) -> io::Result<(Reach, BTreeMap<Uplink, Reach>)> {
        let mut own = None;
        let mut uplinks = BTreeMap::new();
        for (local, control) in self.control.local_addresses()? {
            let Some(data) = self.data.local_addr(&local) else { continue };
            let reach = Reach { control, data };
            // The pair for links without an uplink comes first.
            own = own.or(Some(reach));
            uplinks.extend(local.map(|uplink| (uplink, reach)));
        }
        let none = || io::Error::new(io::ErrorKind::NotFound, "no socket is open");
        Ok((own.ok_or_else(none)?, uplinks))
    }
}

impl<A: Application, H: FnMut(A::Outcome)> Driver<A, H> {
    /// Runs until it is told to stop; gives the application back.
    pub(super) async fn run(mut self) -> A {
        loop {
            let busy = self.pass_on();
            if self.is_done(busy) {
                break;
            }
            let wake = self.wait(busy).await;
            self.feed(wake);
        }
        let Driver { control, data, app, .. } = self;
        // Another process may want its addresses while the control connections say farewell.
        drop(data);
        control.shutdown().await;
        app
    }

    async fn wait(&mut self, busy: bool) -> Wake<A> {
        let deadline = self.deadline();
        let Driver { control, data, codecs, planning, requests, stop, closing_until, uplinks, look, .. } =
            self;
        let due = async {
            match deadline {
                Some(instant) => sleep_until(instant).await,
                None => pending().await,
            }
        };
        tokio::select! {
            event = control.next_event() => Wake::Control(event),
            Some(result) = codecs.next() => Wake::Coded(result),
            Some(Ok(plan)) = planning.join_next() => Wake::Planned(plan),
            slot = data.readable() => Wake::Readable(slot),
            () = data.writable(), if data.is_waiting() => Wake::Writable,
            Some(request) = requests.recv() => Wake::Request(request),
            _ = look.tick(), if !uplinks.is_empty() => Wake::Look,
            stopped = stop, if closing_until.is_none() => stopped.map_or(Wake::Dropped, |()| Wake::Stop),
            () = due => Wake::Due,
            () = yield_now(), if busy => Wake::Due,
        }
    }

    fn deadline(&mut self) -> Option<tokio::time::Instant> {
        let times = [self.node.next_timeout(), self.app.next_timeout(), self.closing_until];
        let mut earliest = times.into_iter().flatten().min()?;
        let now = self.clock.now();
        if self.data.holds_back(now) {
            earliest = earliest.max(now + BLOCKED_PAUSE);
        }
        Some(self.clock.instant(earliest))
    }

    fn feed(&mut self, wake: Wake<A>) {
        let now = self.clock.now();
        self.node.set_calendar(now, Clock::calendar());
        match wake {
            Wake::Control(event) => self.feed_control(now, event),
            Wake::Readable(slot) => self.taken_until = self.feed_datagrams(slot),
            Wake::Writable => self.data.flush(),
            Wake::Look => self.look_at_uplinks(),
            Wake::Request(request) => self.feed_requests(now, request),
            Wake::Coded(result) => self.node.handle_job(now, result),
            Wake::Planned(plan) => self.node.handle_plan(now, plan),
            Wake::Due => {}
            Wake::Stop => self.begin_closing(now),
            Wake::Dropped => self.closing_until = Some(now),
        }
    }

    fn feed_control(&mut self, now: Time, first: ControlEvent) {
        self.feed_control_event(now, first);
        for _ in 1..MAX_BATCH {
            match self.control.try_next_event() {
                Some(event) => self.feed_control_event(now, event),
                None => return,
            }
        }
    }

    fn feed_control_event(&mut self, now: Time, event: ControlEvent) {
        match event {
            ControlEvent::Up(neighbour) => {
                self.log(neighbour, "a neighbour is connected");
                self.node.neighbour_up(now, neighbour);
            }
            ControlEvent::Message(neighbour, message) => {
                self.node.handle_control(now, neighbour, &message);
                self.addresses.take_answers(&mut self.node);
            }
            ControlEvent::Down(neighbour) => {
                self.log(neighbour, "a neighbour is no longer connected");
                self.node.neighbour_down(now, neighbour);
            }
            ControlEvent::Unreached(link, why) => self.node.neighbour_unreached(link, why),
        }
    }

    fn log(&self, Adjacency { peer, link }: Adjacency, news: &str) {
        let overlay = self.node.overlay();
        let neighbour = overlay.name(peer.member);
        let link = Some(overlay.link_label(link)).filter(|name| !name.is_empty());
        tracing::info!(neighbour, link, instance = format_args!("{:016x}", peer.instance.0), "{news}");
    }

    /// The node hears when each datagram came, not when this task came to it: what arrives while the process is kept
    /// from running would otherwise look like a queue on the way. But its time never goes back. Gives the time by which
    /// everything that had come to this socket has been taken.
    fn feed_datagrams(&mut self, slot: Slot) -> Time {
        let now = self.clock.now();
        let Driver { clock, data, node, addresses, .. } = self;
        let (mut batch, mut latest, mut challenges) = (None, now, Vec::new());
        let took_all = data.receive(slot, |data, from, Received { ecn, noted, stride, datagrams, .. }| {
            latest = batch.get_or_insert_with(|| clock.batch()).arrival(noted);
            let arrival = latest.max(node.now());
            let pass = |transmit: Transmit, datagrams: &[u8]| {
                addresses.find(transmit.to).is_some_and(|to| data.pass(to, transmit, datagrams))
            };
            for ingress in node.handle_run(arrival, ecn, stride, datagrams, pass) {
                if let Some((whom, challenge)) = addresses.on_ingress(arrival, node, ingress, from) {
                    challenges.push((Transmit::unmarked(whom, challenge.len()), from, challenge));
                }
            }
        });
        for (transmit, from, mut challenge) in challenges {
            self.data.queue(Some(from), transmit, &mut challenge);
        }
        if took_all { now } else { latest.min(now) }
    }

    fn feed_requests(&mut self, now: Time, first: Request<A>) {
        self.feed_request(now, first);
        for _ in 1..MAX_BATCH {
            match self.requests.try_recv() {
                Ok(request) => self.feed_request(now, request),
                Err(_) => return,
            }
        }
    }

    fn feed_request(&mut self, now: Time, request: Request<A>) {
        match request {
            Request::Command(command) => self.app.handle_command(now, &mut self.node, command),
            Request::Inspect(look) => look(&self.node, &self.app),
            // The caller may have given up waiting.
            Request::Count(answer) => drop(answer.send(self.data.counts())),
            Request::Reload(newer, answer) => drop(answer.send(self.reload(now, &newer))),
            Request::Drain => self.node.drain(now),
        }
    }

    fn reload(&mut self, now: Time, newer: &Overlay) -> Result<OverlayChange, ReloadError> {
        let change = self.node.reload(now, newer)?;
        let overlay = self.node.shared_overlay();
        let by_link = locals(&overlay, self.node.member());
        let data = &mut self.data;
        self.addresses.reload(&overlay, self.node.member(), |link: LinkId| data.slot(&by_link[&link]));
        self.control.reload(overlay);
        self.open_sockets(BTreeMap::new())?;
        Ok(change)
    }

    fn begin_closing(&mut self, now: Time) {
        self.requests.close();
        self.closing_until = Some(now + CLOSING_LIMIT);
        let sessions: Vec<SessionId> = self.node.sessions().collect();
        for session in sessions {
            self.node.close(now, session, "shutting down");
        }
    }

    fn is_done(&self, busy: bool) -> bool {
        let ended = self.node.sessions().next().is_none() && !busy && self.data.is_idle();
        self.closing_until.is_some_and(|limit| ended || self.clock.now() >= limit)
    }

    /// Passes on what the node and the application put out, until there is nothing more. Says whether there may be.
    fn pass_on(&mut self) -> bool {
        (0..MAX_PASSES).all(|_| {
            let now = self.fire_timers();
            let events = self.pass_on_events(now);
            let outcomes = self.pass_on_outcomes();
            let messages = self.pass_on_messages();
            let datagrams = self.pass_on_datagrams(now);
            let jobs = self.codecs.start(|| self.node.poll_job());
            while let Some(job) = self.node.poll_plan() {
                self.planning.spawn_blocking(move || job.run());
            }
            events || outcomes || messages || datagrams || jobs
        })
    }

    /// Lets the node and the application do what is due; gives the time at which they did.
    fn fire_timers(&mut self) -> Time {
        let mut now = self.clock.now();
        let is_due = self.node.next_timeout().is_some_and(|due| due <= now);
        if is_due && self.was_held_up(now) {
            self.catch_up();
            now = self.clock.now();
        }
        self.drops.look(now, || self.node.datagram_counters());
        if is_due {
            self.node.handle_timeout(now);
        }
        if self.app.next_timeout().is_some_and(|time| time <= now) {
            self.app.handle_timeout(now, &mut self.node);
        }
        now
    }

    /// Whether something may wait at the data sockets that should have been taken before.
    fn was_held_up(&self, now: Time) -> bool {
        now.since(self.taken_until) >= LONG_UNTAKEN
    }

    /// Takes what waits at the data sockets before something is put out. A report that left now and did not know of it
    /// would tell the peer that its path has fallen silent.
    fn catch_up(&mut self) {
        for _ in 0..MAX_CATCH_UP_LOOKS {
            let taken_until = self.data.slots().map(|slot| self.feed_datagrams(slot)).min();
            self.taken_until = taken_until.unwrap_or_else(|| self.clock.now());
            if !self.was_held_up(self.clock.now()) {
                break;
            }
        }
    }

    fn pass_on_events(&mut self, now: Time) -> bool {
        up_to_a_batch(|| {
            let event = self.node.poll_event()?;
            self.app.handle_event(now, &mut self.node, event);
            Some(())
        })
    }

    fn pass_on_outcomes(&mut self) -> bool {
        up_to_a_batch(|| self.app.poll_outcome().map(&mut self.host))
    }

    fn pass_on_messages(&mut self) -> bool {
        up_to_a_batch(|| self.node.poll_control().map(|(to, message)| self.control.send(to, message)))
    }

    fn pass_on_datagrams(&mut self, now: Time) -> bool {
        let (mut runs, mut queued) = (0, 0);
        if self.data.holds_back(now) {
            return false;
        }
        while runs < MAX_BATCH && queued < MAX_QUEUED && self.data.has_room() {
            let Some(transmit) = self.node.poll_transmit(now, &mut self.buffer) else { break };
            queued += self.buffer.len();
            self.data.queue(self.addresses.find(transmit.to), transmit, &mut self.buffer);
            runs += 1;
        }
        self.data.flush();
        runs > 0
    }
}

/// Ticks from now on, and later after a pause rather than several times.
fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Takes steps until one finds nothing to do, or for one batch. Says whether there was anything to do.
fn up_to_a_batch(mut step: impl FnMut() -> Option<()>) -> bool {
    (0..MAX_BATCH).map_while(|_| step()).count() > 0
}
