//! Set-ups that were seen, so that none is taken twice.

use std::collections::{BTreeMap, BTreeSet};

use super::admission::Rejection;
use crate::overlay::{MemberId, Overlay};
use crate::wire::circuit::CircuitId;

/// Set-ups that are remembered of one originator: sixteen times the circuits that it may have here at once, within the
/// four minutes at most in which a set-up counts.
const MAX_REMEMBERED: usize = 16_384;

/// The set-ups that were seen and, if they came again, would still be taken for new. Their circuits may be gone: whoever
/// was on their route could otherwise set them up again in the originator's name.
#[derive(Debug, Default)]
pub(super) struct Replays {
    /// By the second at which they were made.
    seen: BTreeSet<(u64, MemberId, CircuitId)>,
    by_originator: BTreeMap<MemberId, usize>,
}

impl Replays {
    /// Notes a set-up that its originator made at `made_s`.
    ///
    /// # Errors
    /// [`Rejection`] if it was seen before, or could not be told from such because there are too many.
    pub(super) fn note(
        &mut self,
        overlay: &Overlay,
        originator: MemberId,
        made_s: u64,
        circuit: CircuitId,
    ) -> Result<(), Rejection> {
        if self.seen.contains(&(made_s, originator, circuit)) {
            return Err(Rejection::Replayed);
        }
        let count = self.by_originator.entry(originator).or_default();
        if *count >= MAX_REMEMBERED {
            return Err(Rejection::TooMany(overlay.name(originator), *count));
        }
        *count += 1;
        self.seen.insert((made_s, originator, circuit));
        Ok(())
    }

    /// Forgets those that were made before the second `oldest_s`: their time refuses them.
    pub(super) fn forget_before(&mut self, oldest_s: u64) {
        while let Some((_, originator, _)) = self.seen.first().copied().filter(|(made, ..)| *made < oldest_s)
        {
            self.seen.pop_first();
            if let Some(count) = self.by_originator.get_mut(&originator) {
                *count -= 1;
                if *count == 0 {
                    self.by_originator.remove(&originator);
                }
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.seen.len()
    }
}
