//! Uplinks come and go while a process runs: which of those that its links name have sockets.
//!
//! ```text
//!                 it is there, and its sockets could be bound
//!     ┌──────┐ ───────────────────────────────────────────────▶ ┌──────┐
//!     │ away │                                                  │ open │
//!     └──────┘ ◀─────────────────────────────────────────────── └──────┘
//!                 it is gone, or another one has its name
//! ```
//!
//! This decides, and does nothing itself: the driver asks the operating system and opens and closes sockets.

use std::collections::{BTreeMap, BTreeSet};

use crate::overlay::Uplink;

/// Tells an interface from a later one of the same name: a socket that was bound to the earlier one is of no use when
/// the later one comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Incarnation(pub(super) u32);

/// What is to be done about an uplink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Close its sockets: it is gone.
    Close,
    /// Open its sockets: it is there.
    Open(Incarnation),
}

/// The uplinks that links name.
#[derive(Debug, Default)]
pub(super) struct Uplinks {
    states: BTreeMap<Uplink, State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Away,
    /// It is there, and its sockets could not be bound.
    Refused,
    Open(Incarnation),
}

impl Uplinks {
    /// From now on these are looked at, and no others.
    pub(super) fn watch(&mut self, named: &BTreeSet<Uplink>) {
        self.states.retain(|uplink, _| named.contains(uplink));
        for uplink in named {
            self.states.entry(uplink.clone()).or_insert(State::Away);
        }
    }

    /// Whether there is nothing to look at.
    pub(super) fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Looks for changes; `is_there` finds out about one uplink. An uplink that could not be opened is tried again at
    /// each look.
    pub(super) fn look(&mut self, is_there: impl Fn(&Uplink) -> Option<Incarnation>) -> Vec<(Uplink, Step)> {
        let mut steps = Vec::new();
        for (uplink, state) in &mut self.states {
            let there = is_there(uplink);
            match *state {
                State::Open(incarnation) if there == Some(incarnation) => continue,
                State::Open(_) => {
                    steps.push((uplink.clone(), Step::Close));
                    *state = State::Away;
                }
                State::Refused if there.is_none() => *state = State::Away,
                State::Away | State::Refused => {}
            }
            steps.extend(there.map(|incarnation| (uplink.clone(), Step::Open(incarnation))));
        }
        steps
    }

    /// Its sockets are open.
    pub(super) fn opened(&mut self, uplink: &Uplink, incarnation: Incarnation) {
        if let Some(state) = self.states.get_mut(uplink) {
            *state = State::Open(incarnation);
        }
    }

    /// Its sockets could not be bound. Says whether that is news.
    pub(super) fn refused(&mut self, uplink: &Uplink) -> bool {
        let state = self.states.get_mut(uplink);
        state.is_some_and(|state| std::mem::replace(state, State::Refused) != State::Refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uplink(name: &str) -> Uplink {
        Uplink::parse(name).expect("a right name")
    }

    fn watching(names: &[&str]) -> Uplinks {
        let mut uplinks = Uplinks::default();
        uplinks.watch(&names.iter().map(|name| uplink(name)).collect());
        uplinks
    }

    /// A machine that has these interfaces, each with its index.
    fn machine<'a>(has: &'a [(&'a str, u32)]) -> impl Fn(&Uplink) -> Option<Incarnation> + 'a {
        move |uplink| {
            let is_it = |(name, _): &&(&str, u32)| *name == uplink.to_string();
            has.iter().find(is_it).map(|(_, index)| Incarnation(*index))
        }
    }

    #[test]
    fn one_that_appears_is_opened_and_one_that_disappears_is_closed() {
        let mut uplinks = watching(&["eth0", "wwan0"]);
        assert_eq!(uplinks.look(machine(&[("eth0", 2)])), [(uplink("eth0"), Step::Open(Incarnation(2)))]);
        uplinks.opened(&uplink("eth0"), Incarnation(2));
        assert_eq!(uplinks.look(machine(&[("eth0", 2)])), []);
        let both = [("eth0", 2), ("wwan0", 3)];
        assert_eq!(uplinks.look(machine(&both)), [(uplink("wwan0"), Step::Open(Incarnation(3)))]);
        uplinks.opened(&uplink("wwan0"), Incarnation(3));
        assert_eq!(uplinks.look(machine(&[("wwan0", 3)])), [(uplink("eth0"), Step::Close)]);
        assert_eq!(uplinks.look(machine(&[("wwan0", 3)])), [], "it was closed");
    }

    /// A socket that is bound to an interface sends nothing any more when that has been removed and made again.
    #[test]
    fn one_that_came_back_between_two_looks_is_opened_anew() {
        let mut uplinks = watching(&["wwan0"]);
        uplinks.opened(&uplink("wwan0"), Incarnation(3));
        let steps = [(uplink("wwan0"), Step::Close), (uplink("wwan0"), Step::Open(Incarnation(9)))];
        assert_eq!(uplinks.look(machine(&[("wwan0", 9)])), steps);
    }

    #[test]
    fn one_that_cannot_be_opened_is_tried_again_and_told_of_once() {
        let mut uplinks = watching(&["::1"]);
        let open = [(uplink("::1"), Step::Open(Incarnation(0)))];
        let tries: Vec<bool> = (0..3)
            .map(|_| {
                assert_eq!(uplinks.look(machine(&[("::1", 0)])), open);
                uplinks.refused(&uplink("::1"))
            })
            .collect();
        assert_eq!(tries, [true, false, false]);
        assert_eq!(uplinks.look(machine(&[])), []);
        assert_eq!(uplinks.look(machine(&[("::1", 0)])), open);
        assert!(uplinks.refused(&uplink("::1")), "it had been away");
    }

    #[test]
    fn a_newer_overlay_file_may_name_others() {
        let mut uplinks = watching(&["eth0", "wwan0"]);
        uplinks.opened(&uplink("eth0"), Incarnation(2));
        uplinks.watch(&BTreeSet::from([uplink("eth0"), uplink("wlan0")]));
        let has = [("eth0", 2), ("wlan0", 4), ("wwan0", 3)];
        assert_eq!(uplinks.look(machine(&has)), [(uplink("wlan0"), Step::Open(Incarnation(4)))]);
        uplinks.watch(&BTreeSet::new());
        assert!(uplinks.is_empty());
    }
}
