//! Chunks on their way into an object: how each is compressed.
//!
//! The rule is that of what travels in frames ([`crate::compression::rule`]); what the network carries is told by the
//! writes to the object. Chunks are packed on the thread that cuts, one after the other, while others travel.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::compression::rule::Choice;
use crate::compression::{
    Circumstances, Codec, Compression, Packing, Processor as _, Rule, SAMPLE_BYTES, Trial, attempt,
};
use crate::io::codecs::Worker;
use crate::replication::Packed;

/// Chunks of one run are one kind of data to the rule: files follow one another, and it notices when they change.
const STREAM: &str = "chunks";

/// What a network is believed to carry before it has shown: what a session begins with.
const FIRST_BPS: f64 = 4e6;
/// For so long after the network has last made us wait it is believed to carry what it did then; after that twice as
/// much with every second such time.
const MEMORY: Duration = Duration::from_secs(1);
const DOUBLING: Duration = Duration::from_millis(500);
/// How far back writes tell of the rate, and how many of them.
const LATEST: Duration = Duration::from_secs(3);
const MOST: usize = 16;

/// What the network does with the writes of a run. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Carrying(Arc<Mutex<Writes>>);

#[derive(Debug)]
struct Writes {
    /// When writes arrived, and how many bytes each had.
    arrivals: VecDeque<(Instant, u64)>,
    /// When the network has last made us wait, or the run began.
    waited: Instant,
}

impl Default for Carrying {
    fn default() -> Carrying {
        Carrying(Arc::new(Mutex::new(Writes { arrivals: VecDeque::new(), waited: Instant::now() })))
    }
}

impl Carrying {
    /// A write of so many bytes has arrived.
    pub(super) fn arrived(&self, bytes: u64) {
        let (mut writes, now) = (self.lock(), Instant::now());
        writes.arrivals.push_back((now, bytes));
        let is_old = |(at, _): &(Instant, u64)| now.duration_since(*at) > LATEST;
        while writes.arrivals.len() > MOST || (writes.arrivals.len() > 2 && is_old(&writes.arrivals[0])) {
            writes.arrivals.pop_front();
        }
    }

    /// There is more to send than the network takes.
    pub(super) fn waits(&self) {
        self.lock().waited = Instant::now();
    }

    fn circumstances(&self, idle_processors: f64) -> Circumstances {
        let (writes, now) = (self.lock(), Instant::now());
        let idle = now.duration_since(writes.waited);
        let doublings = idle.saturating_sub(MEMORY).as_secs_f64() / DOUBLING.as_secs_f64();
        Circumstances {
            rate_bps: writes.rate_bps() * doublings.min(40.0).exp2(),
            network_waits: idle < MEMORY,
            // One thread packs.
            idle_processors: idle_processors.min(1.0),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Writes> {
        // Each change is a few statements without a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writes {
    /// What has arrived between the first and the last of the latest arrivals, over that time.
    fn rate_bps(&self) -> f64 {
        let (Some((first, _)), Some((last, _))) = (self.arrivals.front(), self.arrivals.back()) else {
            return FIRST_BPS;
        };
        let bytes: u64 = self.arrivals.iter().skip(1).map(|(_, bytes)| bytes).sum();
        match last.duration_since(*first) {
            time if time.is_zero() => FIRST_BPS,
            time => bytes as f64 * 8.0 / time.as_secs_f64(),
        }
    }
}

/// Packs chunks.
#[derive(Debug)]
pub(super) struct ChunkPacker {
    compression: Compression,
    rule: Rule,
    carrying: Carrying,
    worker: Worker,
}

impl ChunkPacker {
    pub(super) fn new(compression: Compression, carrying: Carrying) -> ChunkPacker {
        ChunkPacker { compression, rule: Rule::default(), carrying, worker: Worker::new() }
    }

    /// A chunk as the user wants it compressed.
    pub(super) fn pack(&mut self, bytes: Bytes) -> Packed {
        self.pack_by(self.compression, bytes)
    }

    /// A chunk that is compressed in a way of its own.
    pub(super) fn pack_by(&mut self, compression: Compression, bytes: Bytes) -> Packed {
        let codec = match compression {
            Compression::Never => Codec::Plain,
            Compression::Always(codec) => codec,
            Compression::Auto => self.choose(&bytes),
        };
        if codec == Codec::Plain {
            return Packed::plain(bytes);
        }
        let (packed, trial) = Trial::packing(&mut self.worker.processor(), codec, &bytes);
        if compression == Compression::Auto {
            self.rule.learned(STREAM, &trial);
        }
        Packed::or_plain(codec, packed, bytes)
    }

    fn choose(&mut self, bytes: &Bytes) -> Codec {
        loop {
            let circumstances = self.carrying.circumstances(self.worker.processor().idle());
            let (codec, trial) = match self.rule.choose(STREAM, Packing::AUTO, &circumstances) {
                Choice::Frame { codec, trial, .. } => (Some(codec), trial),
                Choice::Try(codecs) => (None, codecs),
                // Trials end before anything else is asked.
                Choice::Later => (Some(Codec::Plain), Vec::new()),
            };
            if !trial.is_empty() {
                let sample = &bytes[..bytes.len().min(SAMPLE_BYTES as usize)];
                let mut processor = self.worker.processor();
                let attempts = trial.into_iter().map(|codec| attempt(&mut processor, codec, sample));
                self.rule.tried(STREAM, &attempts.collect::<Vec<_>>());
            }
            if let Some(codec) = codec {
                return codec;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn text() -> Bytes {
        b"all work and no play makes Jack a dull boy; ".repeat(5_000).into()
    }

    #[tokio::test(start_paused = true)]
    async fn on_a_slow_network_chunks_shrink_and_when_it_never_makes_us_wait_they_stay_as_they_are() {
        let carrying = Carrying::default();
        let mut packer = ChunkPacker::new(Compression::Auto, carrying.clone());
        for _ in 0..20 {
            tokio::time::advance(100 * MS).await;
            carrying.arrived(100_000);
            carrying.waits();
            assert!(packer.pack(text()).bytes.len() < text().len() / 10);
        }
        let circumstances = carrying.circumstances(1.0);
        assert!((circumstances.rate_bps / 8e6 - 1.0).abs() < 0.01, "{circumstances:?}");
        // The source is slower than the network now, for half a minute.
        let mut last = packer.pack(text());
        for _ in 0..300 {
            tokio::time::advance(100 * MS).await;
            carrying.arrived(100_000);
            last = packer.pack(text());
        }
        assert_eq!(last.bytes.len(), text().len());
    }
}
