//! The numbers of the packets that leave on a path.

use crate::crypto::random::Random;

/// One packet number in so many is skipped in the mean.
const SKIP_ONE_IN: u32 = 1_024;

/// The numbers of the packets that leave on a path.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    next: u64,
    /// The next number that is skipped, once one was drawn.
    skip_at: Option<u64>,
}

impl Numbering {
    /// The number of the next packet.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Gives a packet its number.
    pub(super) fn take(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Whether the next number is one that is skipped; if so, the next such number is drawn.
    pub(super) fn is_to_skip(&mut self, random: &mut Random) -> bool {
        let mut draw = |from: u64| from + 1 + u64::from(random.below(2 * SKIP_ONE_IN));
        let skip_at = *self.skip_at.get_or_insert_with(|| draw(self.next));
        let skips = self.next >= skip_at;
        if skips {
            self.skip_at = Some(draw(self.next));
        }
        skips
    }
}
