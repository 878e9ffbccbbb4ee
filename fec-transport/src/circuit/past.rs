//! Which set-ups were seen, for as long as they are valid.

use std::collections::{BTreeMap, BTreeSet};

use crate::overlay::MemberId;
use crate::wire::circuit::CircuitId;

/// How many set-ups of one originator are remembered: for a member that makes 17 a second, all that are valid. Of one
/// that makes more those are forgotten first that were made first, and older ones are not taken any more.
const MOST: usize = 4_096;

/// The set-ups that were seen, by their originators. A neighbour that has passed a set-up on could otherwise pass it on
/// again when the circuit is gone, in the name and on the account of its originator.
#[derive(Debug, Default)]
pub(super) struct Past {
    seen: BTreeMap<MemberId, Seen>,
    /// When those that are not valid any more were forgotten, in seconds since the UNIX epoch.
    swept_s: u64,
}

/// The set-ups of one originator, by when it made them, in seconds since the UNIX epoch.
#[derive(Debug, Default)]
struct Seen {
    set_ups: BTreeSet<(u64, CircuitId)>,
    /// Of what was made before this, not all is known.
    known_from_s: u64,
}

impl Past {
    /// Notes a set-up that was made at `made_s`; false if it was seen before, or so long ago that nobody knows. `now_s`
    /// is the time, and a set-up is valid for `validity_s` after it was made.
    pub(super) fn note(
        &mut self,
        now_s: u64,
        validity_s: u64,
        originator: MemberId,
        made_s: u64,
        circuit: CircuitId,
    ) -> bool {
        if now_s != self.swept_s {
            self.swept_s = now_s;
            self.forget_before(now_s.saturating_sub(validity_s));
        }
        let seen = self.seen.entry(originator).or_default();
        if made_s < seen.known_from_s || !seen.set_ups.insert((made_s, circuit)) {
            return false;
        }
        if seen.set_ups.len() > MOST
            && let Some((made_s, _)) = seen.set_ups.pop_first()
        {
            seen.known_from_s = made_s;
        }
        true
    }

    fn forget_before(&mut self, oldest_s: u64) {
        self.seen.retain(|_, seen| {
            while seen.set_ups.first().is_some_and(|(made_s, _)| *made_s < oldest_s) {
                seen.set_ups.pop_first();
            }
            !seen.set_ups.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALIDITY_S: u64 = 120;
    const ONE: MemberId = MemberId(1);

    fn id(number: u32) -> CircuitId {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        CircuitId(bytes)
    }

    #[test]
    fn a_set_up_counts_once_while_it_is_valid_and_is_forgotten_then() {
        let mut past = Past::default();
        // The originator's clock is ahead by all that it may be: the set-up is valid for twice as long.
        let (now_s, made_s) = (1_000, 1_000 + VALIDITY_S);
        assert!(past.note(now_s, VALIDITY_S, ONE, made_s, id(1)));
        for later_s in [0, 1, 2 * VALIDITY_S] {
            assert!(!past.note(now_s + later_s, VALIDITY_S, ONE, made_s, id(1)), "{later_s} s later");
        }
        assert!(past.note(now_s + 2 * VALIDITY_S + 1, VALIDITY_S, MemberId(2), made_s + 1, id(2)));
        assert!(!past.seen.contains_key(&ONE), "nothing is kept that the clock refuses");
    }

    #[test]
    fn who_makes_too_many_takes_no_memory_and_no_memory_from_others() {
        let mut past = Past::default();
        assert!(past.note(1_000, VALIDITY_S, MemberId(2), 1_000, id(0)));
        for number in 0..3 * MOST as u32 {
            assert!(past.note(1_100, VALIDITY_S, ONE, 1_000 + u64::from(number) / 200, id(number)));
        }
        assert_eq!(past.seen[&ONE].set_ups.len(), MOST);
        assert!(!past.note(1_100, VALIDITY_S, ONE, 1_000, id(0)), "what was forgotten is too old");
        assert!(!past.note(1_100, VALIDITY_S, ONE, 1_000 + 3 * MOST as u64 / 200, id(3 * MOST as u32 - 1)));
        assert!(!past.note(1_100, VALIDITY_S, MemberId(2), 1_000, id(0)), "that of another member is known");
    }
}
