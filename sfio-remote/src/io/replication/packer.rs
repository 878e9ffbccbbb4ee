//! Chunks on their way into an object: how each is compressed.
//!
//! The rule is that of what travels in frames ([`crate::compression::rule`]); what the network carries is told by the
//! writes to the object. Chunks are packed on the thread that cuts, one after the other, while others travel.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::compression::{
    Circumstances, Codec, Compression, MAX_FRAME_BYTES, Packing, Processor as _, Rule, Trial,
};
use crate::io::codecs::Worker;
use crate::replication::{Packed, SolidPacker};

/// Chunks of one run are one kind of data to the rule: files follow one another, and it notices when they change.
const STREAM: &str = "chunks";

/// What a network is believed to carry before it has shown: what a session begins with.
const FIRST_BPS: f64 = 4e6;
/// What waits for longer than that makes us wait: a write by itself, and a round trip, are shorter.
const QUEUE: Duration = Duration::from_millis(300);
/// For so long after the network has last made us wait it is believed to carry what it did then; after that twice as
/// much with every second such time. Before it has made us wait at all there is nothing to believe.
const MEMORY: Duration = Duration::from_secs(1);
const DOUBLING: Duration = Duration::from_millis(500);
const FIRST_DOUBLING: Duration = Duration::from_millis(250);
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
    /// Whether it has, and what it carried then was measured.
    is_known: bool,
}

impl Default for Carrying {
    fn default() -> Carrying {
        let writes = Writes { arrivals: VecDeque::new(), waited: Instant::now(), is_known: false };
        Carrying(Arc::new(Mutex::new(writes)))
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

    /// There is another write to send, and so many bytes of those before it are under way.
    pub(super) fn sends_behind(&self, under_way: u64) {
        let mut writes = self.lock();
        if under_way as f64 * 8.0 > writes.rate_bps() * QUEUE.as_secs_f64() {
            writes.waited = Instant::now();
            writes.is_known |= writes.arrivals.len() > 1;
        }
    }

    fn circumstances(&self, idle_processors: f64) -> Circumstances {
        let (writes, now) = (self.lock(), Instant::now());
        let idle = now.duration_since(writes.waited);
        let (memory, doubling) =
            if writes.is_known { (MEMORY, DOUBLING) } else { (Duration::ZERO, FIRST_DOUBLING) };
        let doublings = idle.saturating_sub(memory).as_secs_f64() / doubling.as_secs_f64();
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
    /// What packs chunks by Zstandard that follow one another in the object.
    solid: SolidPacker,
    /// What became of the chunks of its frame.
    frame: Option<Trial>,
}

impl ChunkPacker {
    pub(super) fn new(compression: Compression, carrying: Carrying) -> ChunkPacker {
        let (rule, worker, solid) = (Rule::default(), Worker::new(), SolidPacker::default());
        ChunkPacker { compression, rule, carrying, worker, solid, frame: None }
    }

    /// A chunk as the user wants it compressed, to go behind the one before.
    pub(super) fn pack(&mut self, bytes: Bytes) -> Packed {
        let codec = match self.compression {
            Compression::Never => Codec::Plain,
            Compression::Always(codec) => codec,
            // A frame that is begun goes on: with another level the chunk would not find what is before it.
            Compression::Auto => match self.solid.goes_on_with(&bytes) {
                Some(level) => Codec::Zstd(level),
                None => self.choose(&bytes),
            },
        };
        let Codec::Zstd(level) = codec else { return self.pack_alone(codec, bytes) };
        let solid = &mut self.solid;
        let (packed, packing) = self.worker.timed(|| solid.pack(level, &bytes));
        if self.compression == Compression::Auto {
            let frame = self.frame.get_or_insert(Trial::none(codec));
            frame.add(bytes.len(), packed.bytes.len(), packing);
        }
        packed
    }

    /// A chunk that is packed by itself.
    pub(super) fn pack_alone(&mut self, codec: Codec, bytes: Bytes) -> Packed {
        self.solid.end();
        if codec == Codec::Plain {
            return Packed::plain(bytes);
        }
        let (packed, trial) = Trial::packing(&mut self.worker.processor(), codec, &bytes);
        if self.compression == Compression::Auto {
            self.rule.learned(STREAM, &trial);
        }
        Packed::or_plain(codec, packed, bytes)
    }

    /// The codec of the next frame. Single chunks of the one before may have been nearly empty; what counts is all of it.
    fn choose(&mut self, bytes: &Bytes) -> Codec {
        if let Some(frame) = self.frame.take() {
            self.rule.learned(STREAM, &frame);
        }
        let circumstances = self.carrying.circumstances(self.worker.processor().idle());
        let sample = &bytes[..bytes.len().min(MAX_FRAME_BYTES)];
        self.rule.decide(STREAM, Packing::AUTO, &circumstances, &mut self.worker.processor(), sample)
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
            carrying.sends_behind(1_000_000);
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
