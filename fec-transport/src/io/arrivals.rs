//! What the kernel has given in one call, and what a network that is played loses of it.

use std::array;
use std::cell::Cell;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::time::Duration;

use quinn_udp::{BATCH_SIZE, RecvMeta};

use crate::transmit::Ecn;

/// The largest datagram that can be received, alone or with its GRO companions.
const RECEIVE_BUFFER: usize = 65_536;

thread_local! {
    /// The buffers of a call that receives, [`BATCH_SIZE`] of them one behind the other; empty while they are in use.
    /// What came is looked at before anything else is received, so that all nodes of a thread take turns with them, and
    /// hundreds of nodes in one process find them in the processor's cache.
    static BUFFERS: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Datagrams that have arrived together, as the kernel has joined them (GRO), or one alone.
pub(super) struct Received<'a> {
    /// Where they came from.
    pub(super) from: SocketAddr,
    /// The mark that they bear.
    pub(super) ecn: Ecn,
    /// When they arrived, since the UNIX epoch by the system's clock, if the kernel has noted that (Linux does).
    pub(super) noted: Option<Duration>,
    /// Bytes of each datagram but the last, which may be shorter; at least 1.
    pub(super) stride: usize,
    /// Their bytes, which may be changed in place.
    pub(super) datagrams: &'a mut [u8],
}

/// A batch of them.
#[derive(Default)]
pub(super) struct Arrivals {
    /// The thread's buffers, from when they are filled until what is in them was given away.
    buffers: Vec<u8>,
    metas: Vec<RecvMeta>,
    /// Buffers with something in them.
    filled: usize,
    loss: ArrivalLoss,
    thrown_away: u64,
}

impl Arrivals {
    /// None yet; what arrives meets `loss`.
    pub(super) fn new(loss: ArrivalLoss) -> Arrivals {
        Arrivals {
            buffers: Vec::new(),
            metas: vec![RecvMeta::default(); BATCH_SIZE],
            filled: 0,
            loss,
            thrown_away: 0,
        }
    }

    /// Takes a batch by `receive`, a call of the kernel that says how many buffers it has filled. Gives the number of
    /// datagrams that came.
    ///
    /// # Errors
    /// Those of `receive`; then there is nothing.
    pub(super) fn fill(
        &mut self,
        receive: impl FnOnce(&mut [IoSliceMut<'_>; BATCH_SIZE], &mut [RecvMeta]) -> io::Result<usize>,
    ) -> io::Result<u64> {
        self.filled = 0;
        if self.buffers.is_empty() {
            self.buffers = BUFFERS.take();
            self.buffers.resize(BATCH_SIZE * RECEIVE_BUFFER, 0);
        }
        let mut buffers = self.buffers.chunks_exact_mut(RECEIVE_BUFFER);
        let mut slices = array::from_fn(|_| IoSliceMut::new(buffers.next().unwrap_or_default()));
        self.filled = receive(&mut slices, &mut self.metas)?;
        let counts = self.metas[..self.filled].iter().map(|meta| meta.len.div_ceil(meta.stride.max(1)));
        Ok(counts.sum::<usize>() as u64)
    }

    /// Whether the latest call has left nothing, as it had room for more.
    pub(super) fn took_all(&self) -> bool {
        self.filled < BATCH_SIZE
    }

    /// Gives what came to `take`, in its order, less what is lost.
    pub(super) fn each(&mut self, mut take: impl FnMut(Received<'_>)) {
        for (buffer, meta) in self.buffers.chunks_exact_mut(RECEIVE_BUFFER).zip(&self.metas[..self.filled]) {
            let (from, noted) = (meta.addr, meta.timestamp);
            let ecn = Ecn::from_bits(meta.ecn.map_or(0, |ecn| ecn as u8));
            // An empty datagram has a stride of 0.
            let stride = meta.stride.max(1);
            let datagrams = &mut buffer[..meta.len.min(RECEIVE_BUFFER)];
            let mut give = |datagrams: &mut [u8]| {
                if !datagrams.is_empty() {
                    take(Received { from, ecn, noted, stride, datagrams });
                }
            };
            if self.loss.is_none() {
                give(datagrams);
                continue;
            }
            // Those between two that are lost still came together.
            let (mut kept, length) = (0, datagrams.len());
            for place in (0..length).step_by(stride) {
                if self.loss.takes_next() {
                    self.thrown_away += 1;
                    give(&mut datagrams[kept..place]);
                    kept = length.min(place + stride);
                }
            }
            give(&mut datagrams[kept..]);
        }
        BUFFERS.set(std::mem::take(&mut self.buffers));
    }

    /// Datagrams that were thrown away so far.
    pub(super) fn thrown_away(&self) -> u64 {
        self.thrown_away
    }
}

/// Throws away datagrams that have arrived, each with the same probability: a lossy network where there is none.
#[derive(Debug, Default)]
pub(super) struct ArrivalLoss {
    /// So many of 2³² datagrams are thrown away.
    threshold: u32,
    /// The state of a xorshift generator, which is cheap; never zero.
    state: u64,
}

impl ArrivalLoss {
    /// Throws away the share `loss`, in [0, 1]; `seed` decides which.
    pub(super) fn new(loss: f64, seed: u64) -> ArrivalLoss {
        ArrivalLoss { threshold: (loss * f64::from(u32::MAX)) as u32, state: seed | 1 }
    }

    fn is_none(&self) -> bool {
        self.threshold == 0
    }

    fn takes_next(&mut self) -> bool {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        ((self.state >> 32) as u32) < self.threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Datagrams of a batch in which a buffer holds `count` numbered ones of ten bytes.
    fn numbered(arrivals: &mut Arrivals, count: u8) -> Vec<u8> {
        let fill = arrivals.fill(|buffers, metas| {
            let bytes: Vec<u8> = (0..count).flat_map(|number| [number; 10]).collect();
            buffers[0][..bytes.len()].copy_from_slice(&bytes);
            (metas[0].len, metas[0].stride) = (bytes.len(), 10);
            Ok(1)
        });
        assert_eq!(fill.expect("it is played"), u64::from(count));
        let mut came = Vec::new();
        arrivals.each(|Received { stride, datagrams, .. }| {
            came.extend(datagrams.chunks(stride).map(|datagram| datagram[0]));
        });
        came
    }

    #[test]
    fn arrival_loss_takes_its_share_and_leaves_the_others_in_their_order() {
        let mut without = Arrivals::new(ArrivalLoss::new(0.0, 7));
        assert_eq!(numbered(&mut without, 100), (0..100).collect::<Vec<_>>());
        let mut arrivals = Arrivals::new(ArrivalLoss::new(0.05, 7));
        for _ in 0..1_000 {
            assert!(numbered(&mut arrivals, 100).is_sorted_by(|a, b| a < b));
        }
        // The deviation of 100,000 draws at 5 % is 69.
        assert!(arrivals.thrown_away().abs_diff(5_000) < 350, "{}", arrivals.thrown_away());
        assert_eq!(without.thrown_away(), 0);
    }

    #[test]
    fn after_a_call_that_failed_there_is_nothing() {
        let mut arrivals = Arrivals::new(ArrivalLoss::default());
        numbered(&mut arrivals, 3);
        assert!(arrivals.fill(|_, _| Err(io::ErrorKind::WouldBlock.into())).is_err());
        arrivals.each(|_| panic!("nothing came"));
    }
}
