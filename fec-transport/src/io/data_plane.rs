//! The data plane's sockets: one for the links that name no uplink, and one for each uplink that a link names.
//!
//! They fail one by one. While a socket does not take datagrams for a moment, the node is asked for no more, as with a
//! single one; a socket that stands still for longer than [`STUCK`] keeps nobody back any more: what is for it is
//! dropped, and the paths over it find out that they are dead.

use std::collections::BTreeMap;
use std::future::{Future, pending, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use super::arrivals::{ArrivalLoss, Arrivals, Received};
use super::data::{DataCounts, DataSocket};
use super::sockets::Local;
use crate::addresses::{Place, Slot};
use crate::time::Time;
use crate::transmit::Transmit;

/// An interface without a carrier keeps what it was given, and the kernel then takes no more for its socket. One that
/// works empties the kernel's buffer of 8 MiB in less, above some 1 Gbit/s, and the pacers do not let it fill below.
const STUCK: Duration = Duration::from_millis(50);

/// The sockets, and which links use which.
pub(super) struct DataPlane {
    /// The slot of each pair of sockets that any link has named so far.
    slots: BTreeMap<Local, Slot>,
    /// By slot; none where there is no socket now.
    sockets: Vec<Port>,
    /// What has come and is looked at now.
    arrivals: Arrivals,
    /// What has passed sockets that are closed, and what was dropped for want of one.
    earlier: DataCounts,
    /// The socket that is asked first whether it has something.
    turn: usize,
}

/// A place for a socket.
#[derive(Default)]
struct Port {
    socket: Option<DataSocket>,
    /// Since when it takes nothing.
    blocked_since: Option<Time>,
}

impl DataPlane {
    /// None yet; arriving datagrams meet `arrival_loss`.
    pub(super) fn new(arrival_loss: ArrivalLoss) -> DataPlane {
        let earlier = DataCounts::default();
        let arrivals = Arrivals::new(arrival_loss);
        DataPlane { slots: BTreeMap::new(), sockets: Vec::new(), arrivals, earlier, turn: 0 }
    }

    /// The slot of a pair of sockets, which may be empty.
    pub(super) fn slot(&mut self, local: &Local) -> Slot {
        if let Some(slot) = self.slots.get(local) {
            return *slot;
        }
        let slot = Slot(self.sockets.len());
        self.sockets.push(Port::default());
        self.slots.insert(local.clone(), slot);
        slot
    }

    /// Takes over a bound socket.
    pub(super) fn open(&mut self, local: &Local, socket: std::net::UdpSocket) -> io::Result<()> {
        let socket = DataSocket::new(socket)?;
        let Slot(slot) = self.slot(local);
        self.close(local);
        self.sockets[slot].socket = Some(socket);
        Ok(())
    }

    /// Closes the socket of an uplink; what it had not sent is lost.
    pub(super) fn close(&mut self, local: &Local) {
        let Slot(slot) = self.slot(local);
        let Port { socket, .. } = std::mem::take(&mut self.sockets[slot]);
        if let Some(socket) = socket {
            self.earlier = self.earlier.plus(socket.counts());
        }
    }

    /// Where the socket of a pair is bound, if there is one.
    pub(super) fn local_addr(&self, local: &Local) -> Option<SocketAddr> {
        let Slot(slot) = *self.slots.get(local)?;
        self.sockets[slot].socket.as_ref()?.local_addr().ok()
    }

    /// Bytes of packets that the smallest socket holds until somebody reads, if that is known.
    pub(super) fn holds(&self) -> Option<usize> {
        self.open_sockets().filter_map(DataSocket::holds).min()
    }

    /// What has passed all sockets so far.
    pub(super) fn counts(&self) -> DataCounts {
        let here = DataCounts { thrown_away: self.arrivals.thrown_away(), ..self.earlier };
        self.open_sockets().fold(here, |counts, socket| counts.plus(socket.counts()))
    }

    /// The slots of all pairs, open or not.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        (0..self.sockets.len()).map(Slot)
    }

    /// Waits until one of the sockets has something to receive; gives its slot.
    pub(super) async fn readable(&self) -> Slot {
        let count = self.sockets.len();
        poll_fn(|context| {
            let ready = |slot: &usize| {
                let socket = self.sockets[*slot].socket.as_ref();
                socket.is_some_and(|socket| socket.poll_readable(context).is_ready())
            };
            let mut order = (0..count).map(|step| (self.turn + step) % count);
            order.find(ready).map_or(Poll::Pending, |slot| Poll::Ready(Slot(slot)))
        })
        .await
    }

    /// Takes one batch from the kernel at a socket and gives it to `take`, together with the place that it came from.
    /// Meanwhile all sockets may [pass](Self::pass) datagrams on. Says whether that was all that waited there.
    pub(super) fn receive(
        &mut self,
        slot: Slot,
        mut take: impl FnMut(&mut DataPlane, Place, Received<'_>),
    ) -> bool {
        self.turn = slot.0 + 1;
        let Some(socket) = &mut self.sockets[slot.0].socket else { return true };
        socket.receive(&mut self.arrivals);
        let mut arrivals = std::mem::take(&mut self.arrivals);
        arrivals.each(|received| take(self, Place { slot, address: received.from }, received));
        self.arrivals = arrivals;
        self.arrivals.took_all()
    }

    /// Sends datagrams from where they lie, if nothing waits that must go before them and the kernel takes them now.
    /// Says whether they are gone.
    pub(super) fn pass(&mut self, to: Place, transmit: Transmit, datagrams: &[u8]) -> bool {
        let port = self.sockets.get_mut(to.slot.0).filter(|port| port.blocked_since.is_none());
        let socket = port.and_then(|port| port.socket.as_mut());
        socket.is_some_and(|socket| socket.pass(to.address, transmit, datagrams))
    }

    /// Whether something waits in a socket until it is [`writable`](Self::writable).
    pub(super) fn is_waiting(&self) -> bool {
        self.open_sockets().any(DataSocket::is_blocked)
    }

    /// Waits until a blocked socket takes datagrams again.
    pub(super) async fn writable(&self) {
        let busy = self.open_sockets().filter(|socket| socket.is_blocked());
        let mut waiting: Vec<Pin<Box<dyn Future<Output = ()> + Send + '_>>> = Vec::new();
        for socket in busy {
            waiting.push(Box::pin(socket.writable()));
        }
        if waiting.is_empty() {
            return pending().await;
        }
        poll_fn(|context| {
            let is_ready = waiting.iter_mut().any(|one| one.as_mut().poll(context).is_ready());
            if is_ready { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Whether the node is to put out nothing now.
    pub(super) fn holds_back(&mut self, now: Time) -> bool {
        let (mut open, mut stuck, mut blocked) = (0, 0, 0);
        for port in &mut self.sockets {
            let Some(socket) = &port.socket else { continue };
            open += 1;
            if !socket.is_blocked() {
                port.blocked_since = None;
                continue;
            }
            match now.since(*port.blocked_since.get_or_insert(now)) < STUCK {
                true => blocked += 1,
                false => stuck += 1,
            }
        }
        blocked > 0 || stuck > 0 && stuck == open
    }

    /// Whether another run may be queued.
    pub(super) fn has_room(&self) -> bool {
        self.moving_sockets().all(DataSocket::has_room)
    }

    /// Whether everything was sent that will be.
    pub(super) fn is_idle(&self) -> bool {
        !self.moving_sockets().any(DataSocket::is_blocked)
    }

    /// Queues datagrams for a place; without one, or without its socket, they are dropped. Leaves an empty buffer.
    pub(super) fn queue(&mut self, to: Option<Place>, transmit: Transmit, datagrams: &mut Vec<u8>) {
        let port = to.and_then(|to| self.sockets.get_mut(to.slot.0));
        let stuck = port.as_ref().is_some_and(|port| port.blocked_since.is_some());
        match port.and_then(|port| port.socket.as_mut()) {
            Some(socket) if !stuck => socket.queue(to.map(|to| to.address), transmit, datagrams),
            _ => {
                let count = datagrams.len().div_ceil(transmit.segment_size.max(1)) as u64;
                match stuck {
                    true => self.earlier.refused += count,
                    false => self.earlier.without_address += count,
                }
                datagrams.clear();
            }
        }
    }

    /// Sends what is queued here, as far as the kernel takes it now.
    pub(super) fn flush(&mut self) {
        self.sockets.iter_mut().filter_map(|port| port.socket.as_mut()).for_each(DataSocket::flush);
    }

    /// The sockets that were not blocked when the node was to put something out last.
    fn moving_sockets(&self) -> impl Iterator<Item = &DataSocket> {
        let ports = self.sockets.iter().filter(|port| port.blocked_since.is_none());
        ports.filter_map(|port| port.socket.as_ref())
    }

    fn open_sockets(&self) -> impl Iterator<Item = &DataSocket> {
        self.sockets.iter().filter_map(|port| port.socket.as_ref())
    }
}
