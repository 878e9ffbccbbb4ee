//! Chunks on their way into an object: how each is compressed, and on which thread.
//!
//! ```text
//!  add ─▶ a batch ─▶ its bench, on a thread of its own ─▶ next: in the order in which chunks were added
//! ```
//! Chunks that follow one another become a batch, and a batch a solid frame, or several. Batches are packed side by
//! side while the thread that cuts goes on, by threads that give way to what carries the data. What a batch may have
//! is bounded, and there are no more batches than benches, and the one that is being filled.
//!
//! The rule is that of what travels in frames ([`crate::compression::rule`]), asked once for each batch; what the
//! network carries is told by the writes to the object.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;

use super::carrying::Carrying;
use crate::compression::{Codec, Compression, MAX_FRAME_BYTES, Packing, Rule, Trial};
use crate::io::codecs::{Worker, processors};
use crate::io::threads;
use crate::replication::{Hash, MAX_SOLID_BYTES, MAX_SOLID_STORED_BYTES, Packed, SolidPacker};

/// Chunks of one run are one kind of data to the rule: files follow one another, and it notices when they change.
const STREAM: &str = "chunks";
/// More benches would be faster than what cuts. Each takes some 50 MiB at most: its batch, the window and the tables
/// of Zstandard.
const MOST_BENCHES: usize = 4;
/// A batch has no more chunks. Small files find little in what is further back, and a run of a million of them needs
/// its memory for their names.
const MOST_CHUNKS: usize = 4_096;

/// What the first batch has; each of the next ones may have twice as much as the one before.
const FIRST_BATCH_BYTES: usize = 1 << 20;

/// A chunk and what is stored of it.
#[derive(Debug)]
pub(super) struct PackedChunk {
    pub(super) hash: Hash,
    pub(super) length: u32,
    pub(super) packed: Packed,
}

/// Packs chunks.
#[derive(Debug)]
pub(super) struct ChunkPacker {
    compression: Compression,
    rule: Rule,
    carrying: Carrying,
    /// What tries codecs, on the thread that cuts.
    worker: Worker,
    /// The benches that have nothing to do, and how many there are in all.
    idle: Vec<Bench>,
    benches: usize,
    /// In a simulation everything is packed on the thread that cuts, so that it stays a function of the seed.
    is_in_turn: bool,
    /// The batch that the next chunk goes to, if it has room.
    open: Option<Batch>,
    /// The others, the oldest first.
    under_way: VecDeque<UnderWay>,
    /// What was packed, and nobody has taken yet.
    packed: VecDeque<PackedChunk>,
    /// How many bytes the batch had that was sent off last.
    last_bytes: usize,
    /// What was left of a byte of the batch that was packed last.
    ratio: f64,
}

/// Chunks that are packed alike.
#[derive(Debug)]
struct Batch {
    codec: Codec,
    /// Whether its only chunk is packed by itself, by a codec that somebody asked for: nothing is learned from it.
    is_alone: bool,
    chunks: Vec<(Hash, Bytes)>,
    bytes: usize,
}

#[derive(Debug)]
enum UnderWay {
    OnThread(JoinHandle<(Bench, Done)>),
    Done(Done),
}

/// What has become of a batch.
#[derive(Debug)]
struct Done {
    codec: Codec,
    is_alone: bool,
    chunks: Vec<PackedChunk>,
    /// How long one processor packed.
    packing: Duration,
}

/// What packs one batch at a time, and keeps between them what Zstandard needs.
#[derive(Debug)]
struct Bench {
    worker: Worker,
    solid: SolidPacker,
}

impl ChunkPacker {
    pub(super) fn new(compression: Compression, carrying: Carrying) -> ChunkPacker {
        let benches = if threads::are_in_turn() { 1 } else { processors().min(MOST_BENCHES) };
        ChunkPacker::with_benches(benches, compression, carrying)
    }

    fn with_benches(benches: usize, compression: Compression, carrying: Carrying) -> ChunkPacker {
        let worker = Worker::new();
        let bench = || Bench { worker: worker.another(), solid: SolidPacker::default() };
        ChunkPacker {
            compression,
            rule: Rule::default(),
            carrying,
            idle: std::iter::repeat_with(bench).take(benches).collect(),
            benches,
            is_in_turn: threads::are_in_turn(),
            worker,
            open: None,
            under_way: VecDeque::new(),
            packed: VecDeque::new(),
            last_bytes: 0,
            ratio: 1.0,
        }
    }

    /// A chunk, to be compressed as the user wants it.
    pub(super) fn add(&mut self, hash: Hash, bytes: Bytes) {
        let room = self.room();
        let mut batch = match self.open.take() {
            Some(open) if open.bytes + bytes.len() <= room && open.chunks.len() < MOST_CHUNKS => open,
            full => {
                self.send_off(full);
                Batch::new(self.choose(&bytes), false)
            }
        };
        batch.push(hash, bytes);
        match batch.codec {
            Codec::Plain => self.send_off(Some(batch)),
            _ => self.open = Some(batch),
        }
    }

    /// A chunk that is packed by itself, by this codec.
    pub(super) fn add_alone(&mut self, codec: Codec, hash: Hash, bytes: Bytes) {
        let open = self.open.take();
        self.send_off(open);
        let mut batch = Batch::new(codec, true);
        batch.push(hash, bytes);
        self.send_off(Some(batch));
    }

    /// The next chunk, if it is packed by now.
    pub(super) fn next_ready(&mut self) -> Option<PackedChunk> {
        while self.packed.is_empty() && self.under_way.front().is_some_and(UnderWay::is_done) {
            self.collect();
        }
        self.packed.pop_front()
    }

    /// The next chunk, once it is packed; none if that were all.
    pub(super) fn next(&mut self) -> Option<PackedChunk> {
        let open = self.open.take();
        self.send_off(open);
        while self.packed.is_empty() && !self.under_way.is_empty() {
            self.collect();
        }
        self.packed.pop_front()
    }

    /// How many bytes a batch may have, so that it becomes a frame that is as long as one may be. The first ones are
    /// shorter: the network has nothing to do until they are packed.
    fn room(&self) -> usize {
        let (stored, plain) = (f64::from(MAX_SOLID_STORED_BYTES), f64::from(MAX_SOLID_BYTES));
        let whole = (stored / self.ratio).clamp(stored, plain) as usize;
        whole.min((2 * self.last_bytes).max(FIRST_BATCH_BYTES))
    }

    /// How the next batch is packed, which begins with these bytes.
    fn choose(&mut self, bytes: &Bytes) -> Codec {
        match self.compression {
            Compression::Never => Codec::Plain,
            Compression::Always(codec) => codec,
            Compression::Auto => {
                let idle = self.worker.unclaimed().min(self.benches as f64);
                let sample = &bytes[..bytes.len().min(MAX_FRAME_BYTES)];
                let circumstances = self.carrying.circumstances(idle);
                let mut processor = self.worker.processor();
                self.rule.decide(STREAM, Packing::AUTO, &circumstances, &mut processor, sample)
            }
        }
    }

    /// Has a batch packed, once a bench has nothing else to do.
    fn send_off(&mut self, batch: Option<Batch>) {
        let Some(batch) = batch else { return };
        self.last_bytes = batch.bytes;
        if batch.codec == Codec::Plain {
            return self.under_way.push_back(UnderWay::Done(Done::plain(batch)));
        }
        let mut bench = loop {
            match self.idle.pop() {
                Some(bench) => break bench,
                None => self.collect(),
            }
        };
        if self.is_in_turn {
            self.under_way.push_back(UnderWay::Done(bench.pack(batch)));
            return self.idle.push(bench);
        }
        self.under_way.push_back(UnderWay::OnThread(std::thread::spawn(move || {
            threads::give_way();
            let done = bench.pack(batch);
            (bench, done)
        })));
    }

    /// Takes what has become of the oldest batch, once it is done.
    fn collect(&mut self) {
        let done = match self.under_way.pop_front() {
            Some(UnderWay::Done(done)) => done,
            Some(UnderWay::OnThread(thread)) => {
                let (bench, done) = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
                self.idle.push(bench);
                done
            }
            None => return,
        };
        if !done.is_alone {
            let trial = done.trial();
            self.ratio = trial.packed as f64 / trial.plain.max(1) as f64;
            if self.compression == Compression::Auto && trial.codec != Codec::Plain {
                self.rule.learned(STREAM, &trial);
            }
        }
        self.packed.extend(done.chunks);
    }
}

impl Batch {
    fn new(codec: Codec, is_alone: bool) -> Batch {
        Batch { codec, is_alone, chunks: Vec::new(), bytes: 0 }
    }

    fn push(&mut self, hash: Hash, bytes: Bytes) {
        self.bytes += bytes.len();
        self.chunks.push((hash, bytes));
    }
}

impl UnderWay {
    fn is_done(&self) -> bool {
        match self {
            UnderWay::OnThread(thread) => thread.is_finished(),
            UnderWay::Done(_) => true,
        }
    }
}

impl Done {
    fn plain(batch: Batch) -> Done {
        let mut done = Done::nothing_of(&batch);
        for (hash, bytes) in batch.chunks {
            done.push(hash, bytes.len(), Packed::plain(bytes), Duration::ZERO);
        }
        done
    }

    fn nothing_of(batch: &Batch) -> Done {
        let Batch { codec, is_alone, .. } = *batch;
        Done { codec, is_alone, chunks: Vec::new(), packing: Duration::ZERO }
    }

    fn push(&mut self, hash: Hash, length: usize, packed: Packed, packing: Duration) {
        self.packing += packing;
        self.chunks.push(PackedChunk { hash, length: length as u32, packed });
    }

    /// What the codec did with all of it.
    fn trial(&self) -> Trial {
        let plain = self.chunks.iter().map(|chunk| chunk.length as usize).sum();
        let packed = self.chunks.iter().map(|chunk| chunk.packed.bytes.len()).sum();
        Trial { codec: self.codec, plain, packed, packing: self.packing, unpacking: None }
    }
}

impl Bench {
    fn pack(&mut self, batch: Batch) -> Done {
        self.solid.end();
        let mut done = Done::nothing_of(&batch);
        for (hash, bytes) in batch.chunks {
            let length = bytes.len();
            let (packed, packing) = match batch.codec {
                Codec::Zstd(level) if !batch.is_alone => self.worker.timed(|| self.solid.pack(level, &bytes)),
                codec => {
                    let (packed, trial) = Trial::packing(&mut self.worker.processor(), codec, &bytes);
                    (Packed::or_plain(codec, packed, bytes), trial.packing)
                }
            };
            done.push(hash, length, packed, packing);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::Level;
    use crate::replication::{ChunkRef, Opener};

    const MS: Duration = Duration::from_millis(1);

    fn text() -> Bytes {
        b"all work and no play makes Jack a dull boy; ".repeat(5_000).into()
    }

    /// How many bytes a chunk takes.
    fn pack(packer: &mut ChunkPacker, bytes: Bytes) -> usize {
        packer.add(Hash::of(&bytes), bytes);
        let packed = packer.next().expect("a chunk").packed.bytes.len();
        assert!(packer.next().is_none());
        packed
    }

    #[tokio::test(start_paused = true)]
    async fn on_a_slow_network_chunks_shrink_and_when_it_never_makes_us_wait_they_stay_as_they_are() {
        let carrying = Carrying::default();
        let mut packer = ChunkPacker::new(Compression::Auto, carrying.clone());
        for _ in 0..20 {
            tokio::time::advance(100 * MS).await;
            carrying.arrived(100_000);
            carrying.sends_behind(1_000_000);
            assert!(pack(&mut packer, text()) < text().len() / 10);
        }
        let circumstances = carrying.circumstances(1.0);
        assert!((circumstances.rate_bps / 8e6 - 1.0).abs() < 0.01, "{circumstances:?}");
        // The source is slower than the network now, for half a minute.
        let mut last = 0;
        for _ in 0..300 {
            tokio::time::advance(100 * MS).await;
            carrying.arrived(100_000);
            last = pack(&mut packer, text());
        }
        assert_eq!(last, text().len());
    }

    /// Chunks of text, of noise and of zeros, of up to 300 kB.
    fn chunk(number: usize) -> Bytes {
        let length = 1 + number * 7_919 % 300_000;
        let mut bytes = vec![0; length];
        match number % 3 {
            0 => blake3::Hasher::new().update(&number.to_le_bytes()).finalize_xof().fill(&mut bytes),
            1 => bytes = format!("{number} and so on; ").into_bytes().repeat(length / 14 + 1),
            _ => {}
        }
        bytes.into()
    }

    #[test]
    fn chunks_come_out_of_several_batches_in_the_order_in_which_they_were_added() {
        for compression in [Compression::Never, "lz4".parse().expect("one"), "zstd:1".parse().expect("one")] {
            let mut packer = ChunkPacker::with_benches(3, compression, Carrying::default());
            let (mut object, mut chunks) = (Vec::new(), Vec::new());
            let mut put = |PackedChunk { hash, length, packed }: PackedChunk| {
                let (offset, stored) = (object.len() as u64, packed.bytes.len() as u32);
                chunks.push(ChunkRef { hash, length, object: 0, offset, stored, codec: packed.codec });
                object.extend_from_slice(&packed.bytes);
            };
            for number in 0..400 {
                let (bytes, codec) = (chunk(number), Codec::Zstd(Level::DEFAULT));
                match number % 50 {
                    0 => packer.add_alone(codec, Hash::of(&bytes), bytes),
                    _ => packer.add(Hash::of(&bytes), bytes),
                }
                while let Some(packed) = packer.next_ready() {
                    put(packed);
                }
            }
            while let Some(packed) = packer.next() {
                put(packed);
            }
            assert_eq!(chunks.len(), 400);
            let mut opener = Opener::default();
            for (number, chunk_ref) in chunks.iter().enumerate() {
                assert!(chunk_ref.is_sound(), "{chunk_ref:?}");
                let stored = opener.start(chunk_ref) as usize..chunk_ref.end() as usize;
                let opened = opener.open(chunk_ref, Bytes::copy_from_slice(&object[stored]));
                assert_eq!(opened, Ok(chunk(number)));
            }
        }
    }

    /// However fast chunks come: what was not packed yet is that of each bench, and what will be the next batch.
    #[test]
    fn no_more_bytes_wait_than_the_batches_may_have() {
        let always = "zstd:9".parse().expect("a codec");
        let mut packer = ChunkPacker::with_benches(2, always, Carrying::default());
        let (mut waiting, mut most) = (0_usize, 0);
        for number in 0..600_usize {
            let bytes = Bytes::from(format!("{number} and so on; ").into_bytes().repeat(20_000));
            waiting += bytes.len();
            packer.add(Hash::of(&bytes), bytes);
            while let Some(packed) = packer.next_ready() {
                waiting -= packed.length as usize;
            }
            most = most.max(waiting);
        }
        assert!(most <= 3 * MAX_SOLID_BYTES as usize, "{most}");
        assert!(most > MAX_SOLID_BYTES as usize, "{most}: the batches are as long as a frame may be");
    }
}
