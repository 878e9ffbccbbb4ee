//! The control pipe of a link: reliable, ordered, with the link's delay; it outlives a short failure of the link.
//!
//! ```text
//!              link down                 3 s later
//!   ┌────────┐ or an end crashes ┌─────────┐  ControlDown   ┌────────┐
//!   │ Clear  │──────────────────▶│ Stalled │───────────────▶│ Broken │
//!   └────────┘                   └─────────┘                └────────┘
//!     ▲    ▲   back: waiting messages │                          │
//!     │    └──────────────────────────┘ (or, if an end crashed, a new pipe as below)
//!     └──────────────────────────────────────────────────────────┘
//!        link and both ends back: a new pipe, ControlUp at each end one delay later
//! ```
//!
//! A crash is noticed like a dead link, after 3 s of silence, but the pipe cannot be resumed: when the crashed end is
//! back earlier, the survivor learns of the old pipe's end (ControlDown) together with the new one's beginning. What
//! the crashed end had sent before still arrives; what was on the way to it does not.
//!
//! Messages take part neither in the queue nor in the rate nor in the loss of the link: the control plane carries
//! nothing in bulk, and what makes it reliable is not modelled.

use std::collections::VecDeque;
use std::time::Duration;

use super::event::{End, LinkId};
use super::item::{Item, Schedule};

/// A control pipe that has been interrupted for this long breaks [design §6].
pub const CONTROL_BREAKS_AFTER: Duration = Duration::from_secs(3);

/// What one end believes of the pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Belief {
    /// There is none: it has not been told of one, or has been told that it broke.
    Closed,
    /// It is up, and so it is, or may be again.
    Open,
    /// It is up, but the other end has forgotten it.
    Stale,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Clear,
    Stalled,
    Broken,
}

/// The direction of the pipe that leads to one end, and that end's belief.
#[derive(Debug)]
struct Lane {
    belief: Belief,
    /// Sent and not delivered, in order.
    messages: VecDeque<Vec<u8>>,
    last_arrival: Duration,
    /// Grows when what is on the agenda for this lane becomes void.
    life: u32,
}

/// What an end has to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    Up,
    Down,
}

/// The control pipe of one link. Times are the simulator's; `delays` are indexed by the end they lead to.
#[derive(Debug)]
pub(super) struct Pipe {
    link: LinkId,
    phase: Phase,
    lanes: [Lane; 2],
    /// Counts the interruptions, so that the alarm of an earlier one is recognised.
    interruption: u32,
}

impl Pipe {
    pub(super) fn new(link: LinkId) -> Self {
        let lane = || Lane {
            belief: Belief::Closed,
            messages: VecDeque::new(),
            last_arrival: Duration::ZERO,
            life: 0,
        };
        Self { link, phase: Phase::Broken, lanes: [lane(), lane()], interruption: 0 }
    }

    /// An end sends a message. If there is no pipe, or the other end has forgotten it, the message is gone.
    pub(super) fn send(
        &mut self,
        from: End,
        message: Vec<u8>,
        now: Duration,
        delay: Duration,
        agenda: &mut Schedule,
    ) {
        if self.lanes[from as usize].belief != Belief::Open {
            return;
        }
        let (link, toward) = (self.link, from.other());
        let lane = &mut self.lanes[toward as usize];
        lane.messages.push_back(message);
        if self.phase == Phase::Clear {
            lane.expect_message(link, toward, now.saturating_add(delay), agenda);
        }
    }

    /// The first message toward `end` is due: takes it, unless the lane has been voided since.
    pub(super) fn message_arrives(&mut self, end: End, life: u32) -> Option<Vec<u8>> {
        let lane = &mut self.lanes[end as usize];
        if lane.life == life { lane.messages.pop_front() } else { None }
    }

    /// The new pipe is due to open at `end`: says what to tell it.
    pub(super) fn opens(&mut self, end: End, life: u32) -> &'static [Notice] {
        let lane = &mut self.lanes[end as usize];
        if lane.life != life {
            return &[];
        }
        match std::mem::replace(&mut lane.belief, Belief::Open) {
            Belief::Stale => &[Notice::Down, Notice::Up],
            Belief::Closed | Belief::Open => &[Notice::Up],
        }
    }

    /// The alarm of an interruption is due: breaks the pipe if that lasts, and says which ends to tell.
    pub(super) fn breaks(&mut self, interruption: u32) -> impl Iterator<Item = End> + use<> {
        let has_broken = self.phase == Phase::Stalled && self.interruption == interruption;
        let mut told = [false; 2];
        if has_broken {
            self.phase = Phase::Broken;
            for (lane, told) in self.lanes.iter_mut().zip(&mut told) {
                lane.forget();
                *told = std::mem::replace(&mut lane.belief, Belief::Closed) != Belief::Closed;
            }
        }
        End::BOTH.into_iter().filter(move |end| told[*end as usize])
    }

    /// The link has died: what is on the way waits for its return.
    pub(super) fn link_down(&mut self, now: Duration, agenda: &mut Schedule) {
        let can_resume = self.can_resume();
        for lane in &mut self.lanes {
            lane.void();
            if !can_resume {
                lane.lose_partner();
                lane.messages.clear();
            }
        }
        self.interrupt(now, agenda);
    }

    /// The node at `end` has crashed.
    pub(super) fn node_down(&mut self, end: End, now: Duration, agenda: &mut Schedule) {
        let crashed = &mut self.lanes[end as usize];
        crashed.belief = Belief::Closed;
        crashed.forget();
        let survivor = &mut self.lanes[end.other() as usize];
        if self.phase != Phase::Clear || survivor.belief != Belief::Open {
            survivor.forget();
        }
        survivor.lose_partner();
        self.interrupt(now, agenda);
    }

    /// Link and both ends are up again, or for the first time.
    pub(super) fn path_clear(&mut self, now: Duration, delays: [Duration; 2], agenda: &mut Schedule) {
        let can_resume = self.phase == Phase::Stalled && self.can_resume();
        self.phase = Phase::Clear;
        for (end, delay) in End::BOTH.into_iter().zip(delays) {
            let lane = &mut self.lanes[end as usize];
            if can_resume {
                lane.resume(self.link, end, now.saturating_add(delay), agenda);
            } else {
                lane.forget();
                lane.expect_opening(self.link, end, now.saturating_add(delay), agenda);
            }
        }
    }

    /// Both ends know of one and the same pipe.
    fn can_resume(&self) -> bool {
        self.lanes.iter().all(|lane| lane.belief == Belief::Open)
    }

    fn interrupt(&mut self, now: Duration, agenda: &mut Schedule) {
        if self.phase == Phase::Clear {
            self.phase = Phase::Stalled;
            self.interruption = self.interruption.wrapping_add(1);
            let alarm = Item::PipeBreaks { link: self.link, interruption: self.interruption };
            agenda.add(now + CONTROL_BREAKS_AFTER, alarm);
        }
    }
}

impl Lane {
    fn expect_message(&mut self, link: LinkId, toward: End, at: Duration, agenda: &mut Schedule) {
        self.last_arrival = self.last_arrival.max(at);
        agenda.add(self.last_arrival, Item::MessageArrives { link, toward, life: self.life });
    }

    fn expect_opening(&mut self, link: LinkId, toward: End, at: Duration, agenda: &mut Schedule) {
        self.last_arrival = self.last_arrival.max(at);
        agenda.add(self.last_arrival, Item::PipeOpens { link, toward, life: self.life });
    }

    fn resume(&mut self, link: LinkId, toward: End, at: Duration, agenda: &mut Schedule) {
        for _ in 0..self.messages.len() {
            self.expect_message(link, toward, at, agenda);
        }
    }

    /// Nothing that the agenda has for this lane counts any more; the messages stay.
    fn void(&mut self) {
        self.life = self.life.wrapping_add(1);
        self.last_arrival = Duration::ZERO;
    }

    fn forget(&mut self) {
        self.void();
        self.messages.clear();
    }

    fn lose_partner(&mut self) {
        if self.belief == Belief::Open {
            self.belief = Belief::Stale;
        }
    }
}
