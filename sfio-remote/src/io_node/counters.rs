//! SFIO's eight error counters. `[sfio §3]`

use crate::store::SystemCall;

/// How many calls of the operating system failed, by kind, since the last reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ErrorCounters([u64; SystemCall::ALL.len()]);

/// The size of the counters on the wire.
pub const ERROR_COUNTERS_BYTES: usize = 8 * SystemCall::ALL.len();

impl ErrorCounters {
    /// The failures of one kind of call.
    pub fn get(&self, call: SystemCall) -> u64 {
        self.0[call as usize]
    }

    /// Each kind of call with its failures, in the paper's order.
    pub fn iter(&self) -> impl Iterator<Item = (SystemCall, u64)> + '_ {
        SystemCall::ALL.into_iter().zip(self.0)
    }

    pub(super) fn count(&mut self, call: SystemCall) {
        self.0[call as usize] += 1;
    }

    /// As they cross the wire: 64 bits each, in the paper's order.
    pub fn to_bytes(&self) -> [u8; ERROR_COUNTERS_BYTES] {
        let mut bytes = [0; ERROR_COUNTERS_BYTES];
        for (place, count) in bytes.chunks_exact_mut(8).zip(self.0) {
            place.copy_from_slice(&count.to_be_bytes());
        }
        bytes
    }

    /// The counters that crossed the wire.
    pub fn from_bytes(bytes: &[u8; ERROR_COUNTERS_BYTES]) -> ErrorCounters {
        let mut counters = ErrorCounters::default();
        for (count, place) in counters.0.iter_mut().zip(bytes.chunks_exact(8)) {
            *count = place.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        }
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_survive_the_wire() {
        let mut counters = ErrorCounters::default();
        for (index, call) in SystemCall::ALL.into_iter().enumerate() {
            (0..=index * 300).for_each(|_| counters.count(call));
        }
        assert_eq!(counters.get(SystemCall::Read), 2_101);
        assert_eq!(ErrorCounters::from_bytes(&counters.to_bytes()), counters);
    }
}
