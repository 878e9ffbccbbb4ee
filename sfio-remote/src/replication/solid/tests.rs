use proptest::prelude::*;

use super::*;
use crate::replication::{Extent, MAX_CHUNK_BYTES};

fn level(number: i32) -> Level {
    Level::new(number).expect("a level")
}

/// An object that chunks are packed into, one behind the other.
#[derive(Default)]
struct Store {
    packer: SolidPacker,
    object: Vec<u8>,
    chunks: Vec<(ChunkRef, Bytes)>,
}

impl Store {
    fn add(&mut self, level: Level, bytes: Bytes) -> ChunkRef {
        let packed = self.packer.pack(level, &bytes);
        let chunk = ChunkRef {
            hash: Hash::of(&bytes),
            length: bytes.len() as u32,
            object: 3,
            offset: self.object.len() as u64,
            stored: packed.bytes.len() as u32,
            codec: packed.codec,
        };
        assert!(chunk.is_sound(), "{chunk:?}");
        self.object.extend_from_slice(&packed.bytes);
        self.chunks.push((chunk, bytes));
        chunk
    }

    /// What is stored from an offset to the end of a chunk.
    fn stored(&self, from: u64, chunk: &ChunkRef) -> Bytes {
        Bytes::copy_from_slice(&self.object[from as usize..chunk.end() as usize])
    }

    fn open(&self, opener: &mut Opener, chunk: &ChunkRef) -> Result<Bytes, ChunkError> {
        opener.open(chunk, self.stored(opener.start(chunk), chunk))
    }
}

fn text(number: usize, length: usize) -> Bytes {
    let words = ["a chunk", "finds", "matches", "in those", "before it", "and", "is flushed"];
    let line =
        |line: usize| format!("{} {} {}\n", words[line % 7], words[(line * line + number) % 7], line % 1_009);
    (0..).flat_map(|index| line(index + number).into_bytes()).take(length).collect()
}

#[test]
fn what_a_chunk_has_in_common_with_those_before_it_is_stored_once() {
    let mut store = Store::default();
    let bytes = text(1, 100_000);
    let first = store.add(level(3), bytes.clone());
    let second = store.add(level(3), bytes.clone());
    assert_eq!(first.codec, Codec::Solid { behind: 0, skip: 0 });
    assert_eq!(second.codec, Codec::Solid { behind: first.stored, skip: 100_000 });
    assert!(second.stored < first.stored / 10, "{second:?}");
    assert_eq!(second.reach(), Extent { object: 3, offset: 0, length: second.end() });
    assert_eq!(store.open(&mut Opener::default(), &second), Ok(bytes));
}

/// How many MiB of its frame each chunk has before it, if all have as many bytes as they may.
fn mib_before(chunks: impl Iterator<Item = Bytes>) -> Vec<u32> {
    let mut store = Store::default();
    let before = chunks.map(|bytes| match store.add(level(1), bytes).codec {
        Codec::Solid { skip, .. } => skip / MAX_CHUNK_BYTES,
        other => panic!("{other:?}"),
    });
    before.collect()
}

/// Whoever wants one chunk of a frame unpacks no more than that.
#[test]
fn a_frame_ends_before_it_has_more_than_may_be_unpacked_for_one_chunk() {
    let before = mib_before((0..18).map(|number| text(number, MAX_CHUNK_BYTES as usize)));
    assert_eq!(before, [(0..16).collect(), vec![0, 1]].concat());
}

/// And reads no more than that: here a chunk takes two thirds of a MiB, and two are not all that may be read.
#[test]
fn a_frame_ends_before_it_has_more_than_may_be_read_for_one_chunk() {
    let two_thirds = |number: u8| {
        let mut bytes = vec![number; MAX_CHUNK_BYTES as usize];
        let noise = &mut bytes[..MAX_CHUNK_BYTES as usize * 2 / 3];
        blake3::Hasher::new().update(&[number]).finalize_xof().fill(noise);
        Bytes::from(bytes)
    };
    assert_eq!(mib_before((0..5).map(two_thirds)), [0, 1, 0, 1, 0]);
}

#[test]
fn what_does_not_shrink_is_stored_as_it_is_and_ends_the_frame() {
    let mut store = Store::default();
    let mut noise = vec![0; 5_000];
    blake3::Hasher::new().finalize_xof().fill(&mut noise);
    store.add(level(3), text(1, 10_000));
    let plain = store.add(level(3), noise.into());
    let next = store.add(level(3), text(1, 10_000));
    assert_eq!((plain.codec, next.codec), (Codec::Plain, Codec::Solid { behind: 0, skip: 0 }));
    store.packer.end();
    let last = store.add(level(3), text(1, 10_000));
    assert_eq!(last.codec, Codec::Solid { behind: 0, skip: 0 });
    for (chunk, bytes) in &store.chunks {
        assert_eq!(store.open(&mut Opener::default(), chunk).as_ref(), Ok(bytes));
    }
}

/// One flipped bit spoils its chunk and perhaps those behind it in the frame, and never gives other bytes. What was
/// lost is not asked for again with every chunk behind it.
#[test]
fn damage_spoils_what_is_behind_it_in_its_frame_at_most() {
    let mut store = Store::default();
    for number in 0..6 {
        store.add(level(3), text(number * 50, 20_000));
    }
    let (second, third) = (store.chunks[1].0, store.chunks[2].0);
    for position in second.offset..second.end() {
        let mut damaged = Store { object: store.object.clone(), ..Store::default() };
        damaged.object[position as usize] ^= 0x10;
        let mut opener = Opener::default();
        for (index, (chunk, bytes)) in store.chunks.iter().enumerate() {
            match damaged.open(&mut opener, chunk) {
                Ok(opened) => assert_eq!(opened, bytes),
                Err(_) => assert!(index >= 1, "the first one is before the damage"),
            }
        }
    }
    let mut opener = Opener::default();
    store.open(&mut opener, &store.chunks[0].0).expect("whole");
    opener.lose(&second);
    assert_eq!(opener.start(&third), third.offset, "nothing of the frame is read again");
    store.open(&mut opener, &third).expect_err("what is before it is lost");
    let first = store.chunks[0].0;
    assert_eq!(opener.start(&first), 0);
    store.open(&mut opener, &first).expect("it is before what is lost");
}

/// Each decoder has up to 16 MiB. Whoever goes through an object in order needs one.
#[test]
fn a_frame_that_was_read_to_its_end_is_not_kept() {
    let mut store = Store::default();
    for number in 0..60 {
        store.add(level(1), text(number, 50_000));
        if number % 3 == 2 {
            store.packer.end();
        }
    }
    let (mut opener, mut plan) = (Opener::default(), OpeningPlan::default());
    for (chunk, bytes) in &store.chunks {
        assert_eq!(opener.start(chunk), plan.next(chunk));
        assert_eq!(store.open(&mut opener, chunk).as_ref(), Ok(bytes));
        assert_eq!((opener.frames.0.len(), plan.0.0.len()), (1, 1));
    }
}

#[derive(Debug, Clone)]
enum Step {
    Pack { level: i32, number: usize, length: usize },
    End,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        9 => (prop_oneof![Just(1), Just(3), Just(-5)], 0..40_usize, 1..60_000_usize)
            .prop_map(|(level, number, length)| Step::Pack { level, number, length }),
        1 => Just(Step::End),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is wanted in whatever order: the plan says what will be read, and the bytes come back.
    #[test]
    fn chunks_come_back_in_any_order_from_where_the_plan_said(
        steps in prop::collection::vec(any_step(), 1..60), wanted in prop::collection::vec(any::<prop::sample::Index>(), 1..80), ordered: bool,
    ) {
        let mut store = Store::default();
        for step in steps {
            match step {
                Step::Pack { level: of, number, length } => { store.add(level(of), text(number, length)); }
                Step::End => store.packer.end(),
            }
        }
        prop_assume!(!store.chunks.is_empty());
        let mut wanted: Vec<usize> = wanted.iter().map(|index| index.index(store.chunks.len())).collect();
        if ordered {
            wanted.sort_unstable();
            wanted.dedup();
        }
        let (mut plan, mut opener) = (OpeningPlan::default(), Opener::default());
        let mut read = 0;
        for index in wanted {
            let (chunk, bytes) = &store.chunks[index];
            let start = opener.start(chunk);
            prop_assert_eq!(start, plan.next(chunk));
            prop_assert!(start <= chunk.offset && start >= chunk.reach().offset);
            let opened = opener.open(chunk, store.stored(start, chunk));
            prop_assert_eq!(opened.as_ref(), Ok(bytes));
            read += chunk.end() - start;
        }
        prop_assert!(!ordered || read <= store.object.len() as u64, "no byte is read twice");
    }

    /// Whatever is stored, and whatever a manifest says about it.
    #[test]
    fn hostile_bytes_are_an_error_and_never_take_more_memory_than_a_frame_may(
        length in 1_u32..3_000_000, behind in 0_u32..3_000_000, skip in 0_u32..20_000_000, flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20), garbage: bool,
    ) {
        let mut store = Store::default();
        for number in 0..3 {
            store.add(level(3), text(number, 30_000));
        }
        for (index, value) in flips {
            let at = if garbage { index.index(store.object.len()) } else { index.index(12) };
            store.object[at] = value;
        }
        let stored = Bytes::from(store.object);
        let chunk = ChunkRef { hash: Hash::ZERO, length, object: 0, offset: behind.into(), stored: 1, codec: Codec::Solid { behind, skip } };
        let mut opener = Opener::default();
        prop_assert!(opener.open(&chunk, stored.clone()).is_err());
        let behind_it = ChunkRef { offset: u64::from(behind) + 1, ..chunk };
        prop_assert!(opener.open(&behind_it, stored).is_err());
        let is_in_bounds = skip + length <= MAX_SOLID_BYTES && behind < MAX_SOLID_STORED_BYTES;
        prop_assert!(!chunk.is_sound() || is_in_bounds);
    }
}
