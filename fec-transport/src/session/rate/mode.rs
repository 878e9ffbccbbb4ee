//! What a controller is doing, and what may follow.
//!
//! ```text
//!                 a queue stands; or too few packets arrive, twice;
//!                 or the sessions of the node share a limit that one of them has found
//!  Start ───────────────────────────────────────────────────────────────────▶ Cruise
//!  doubling                                                                   the rate follows the queue;
//!                                                                             without one it climbs
//!                                                                             │ ▲   │ ▲
//!                 the loss has risen                                          │ │   │ │
//!  Check ◀────────────────────────────────────────────────────────────────────┘ │   │ │
//!  the rate at which a policer would drop nothing; ↺ deeper, if more is lost    │   │ │
//!    │            the loss falls: the rate stays low; it stays: the rate is as before │
//!    └──────────────────────────────────────────────────────────────────────────┘   │ │
//!                 others fill the queue again after six drains in a row             │ │
//!  Contend ◀────────────────────────────────────────────────────────────────────────┘ │
//!  a window as theirs                                                                 │
//!    │            a drain empties the queue; or the way has become longer             │
//!    └────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A [`Drain`](super::drain::Drain) is no mode: it lies beside any of them. Every 4 s, and at once where the queue is
//! too long, the rate is halved for as long as the queue takes to empty.
//!
//! `Cruise` has no fields here. What it knows, [`Climb`](super::climb::Climb), outlives checks and contentions.

use super::check::Check;
use super::start::Start;
use super::window::Window;

/// What a controller is doing.
#[derive(Debug, Clone)]
pub(super) enum Mode {
    Start(Start),
    Cruise,
    Check(Check),
    Contend(Window),
}

impl Mode {
    /// Whether `next` may follow: the arrows of the diagram.
    pub(super) fn may_become(&self, next: &Mode) -> bool {
        use Mode::{Check, Contend, Cruise, Start};
        matches!(
            (self, next),
            (Start(_), Cruise)
                | (Cruise, Check(_) | Contend(_))
                | (Check(_), Check(_) | Cruise)
                | (Contend(_), Cruise)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::rate::watch::LossWatch;
    use crate::time::Time;

    #[test]
    fn only_the_arrows_of_the_diagram_are_allowed() {
        let watch = LossWatch::default();
        let modes = [
            Mode::Start(Start::default()),
            Mode::Cruise,
            Mode::Check(Check::of_rise(Time::ZERO, 0.9, &watch)),
            Mode::Contend(Window::new(Time::ZERO, 1e6, 0.1, 0.5, 0.0)),
        ];
        let row = |from: &Mode| modes.iter().map(|to| u8::from(from.may_become(to))).collect::<Vec<_>>();
        let table: Vec<Vec<u8>> = modes.iter().map(row).collect();
        assert_eq!(table, [[0, 1, 0, 0], [0, 0, 1, 1], [0, 1, 1, 0], [0, 1, 0, 0]]);
    }
}
