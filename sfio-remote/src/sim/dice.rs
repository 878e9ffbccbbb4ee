//! Numbers that a seed decides.

/// A small generator of numbers (xorshift64*), enough for choosing what happens.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The numbers of this seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(2).wrapping_add(1))
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % limit
    }

    /// Whether one chance in `chances` came true.
    pub fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    /// One of these, of which there is at least one.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}
