use super::*;
use crate::replication::Codec;
use crate::replication::manifest::tests::metadata;
use proptest::prelude::*;

/// What a test calls a change, and the change.
type Change = (&'static str, fn(&mut Record));

fn identity(number: u8) -> Identity {
    Identity::from_seed([number; 32])
}

fn chunk(object: u32, offset: u64, stored: u32) -> ChunkRef {
    ChunkRef {
        hash: Hash::of(&offset.to_le_bytes()),
        length: 100,
        object,
        offset,
        stored,
        codec: Codec::Zstd,
    }
}

fn generation(number: u64, objects: &[u32]) -> Generation {
    let index = objects.iter().map(|object| chunk(*object, 0, 50)).collect();
    Generation {
        number,
        published_ms: 5,
        entries: 2,
        bytes: 3,
        top: metadata(),
        index,
        objects: objects.to_vec(),
    }
}

fn run(number: u8) -> RunId {
    RunId([number; 16])
}

fn first() -> Record {
    Record {
        token: Token([9; 16]),
        site: "local".to_owned(),
        name: "photos".to_owned(),
        number: 1,
        predecessor: Hash::ZERO,
        run: run(1),
        signer: Signer { member: "client".to_owned(), key: identity(1).public().ed25519 },
        published_ms: 7,
        deed: Deed::Publish,
        current: 1,
        generations: vec![generation(1, &[0])],
        next_generation: 2,
        objects: vec![ObjectEntry { number: 0, run: run(1), length: 0 }],
        next_object: 1,
        damaged: Vec::new(),
        healed: Vec::new(),
        condemned: Vec::new(),
        origins: Vec::new(),
    }
}

fn signed(record: &Record) -> SignedRecord {
    SignedRecord::sign(record.clone(), &identity(1)).expect("it is sound")
}

/// What the run of that number publishes next.
fn next(before: &SignedRecord, number: u8) -> Record {
    let mut record = before.record().clone();
    record.number += 1;
    record.predecessor = before.hash();
    record.run = run(number);
    let oldest = record.objects[0].number;
    record.objects.push(ObjectEntry { number: record.next_object, run: run(number), length: 0 });
    record.generations.push(generation(record.next_generation, &[oldest, record.next_object]));
    record.current = record.next_generation;
    record.next_generation += 1;
    record.next_object += 1;
    record
}

#[test]
fn a_record_comes_back_and_no_damage_goes_unseen() {
    let record = signed(&first());
    assert_eq!(SignedRecord::parse(record.bytes().clone()), Ok(record.clone()));
    for cut in 0..record.bytes().len() {
        assert!(SignedRecord::parse(record.bytes().slice(..cut)).is_err());
    }
    for position in 0..record.bytes().len() {
        let mut damaged = record.bytes().to_vec();
        damaged[position] ^= 4;
        assert!(SignedRecord::parse(damaged.into()).is_err(), "byte {position}");
    }
    let longer = [record.bytes(), &b"\0"[..]].concat();
    assert_eq!(SignedRecord::parse(longer.into()), Err(BadRecord::Signature));
}

#[test]
fn a_removed_data_set_has_nothing_and_may_come_back() {
    let before = signed(&first());
    let mut removed = next(&before, 9);
    (removed.deed, removed.current) = (Deed::Remove, 0);
    removed.generations.clear();
    removed.condemn_unneeded();
    assert!(removed.objects.is_empty() && removed.condemned.len() == 2, "{removed:?}");
    let removed = signed(&removed);
    assert_eq!(removed.check_successor(Some(&before), Right::ReadWrite), Ok(()));
    let refused = removed.check_successor(Some(&before), Right::Append);
    assert_eq!(refused, Err(BadSuccessor::Right("rolling back, forgetting or removing")));

    let mut again = removed.record().clone();
    (again.number, again.predecessor, again.run) = (removed.number + 1, removed.hash(), run(10));
    again.deed = Deed::Publish;
    again.objects.push(ObjectEntry { number: again.next_object, run: run(10), length: 0 });
    again.generations.push(generation(again.next_generation, &[again.next_object]));
    again.current = again.next_generation;
    (again.next_generation, again.next_object) = (again.next_generation + 1, again.next_object + 1);
    assert_eq!(signed(&again).check_successor(Some(&removed), Right::Append), Ok(()));
}

fn of(generation: u64, member: &str) -> Origin {
    Origin { generation, member: member.to_owned(), host: "laptop".to_owned(), tag: "before it".to_owned() }
}

#[test]
fn a_record_says_where_generations_come_from_or_nothing() {
    let mut record = first();
    let silent = signed(&record);
    record.origins.push(of(1, "client"));
    let before = signed(&record);
    assert!(before.bytes().starts_with(&silent.bytes()[..silent.bytes().len() - 64]));
    let parsed = SignedRecord::parse(before.bytes().clone()).expect("sound");
    assert_eq!((parsed.origin(1), parsed.origin(2)), (Some(&of(1, "client")), None));
    for cut in 0..before.bytes().len() {
        assert!(SignedRecord::parse(before.bytes().slice(..cut)).is_err());
    }

    let wrong: [Change; 4] = [
        ("of an earlier generation", |record| record.origins[0].tag.clear()),
        ("lost", |record| drop(record.origins.remove(0))),
        ("made up later", |record| record.origins[0] = of(1, "other")),
        ("of another sender", |record| record.origins[1].member = "other".to_owned()),
    ];
    let mut after = next(&before, 2);
    after.origins.push(of(2, "client"));
    assert_eq!(signed(&after).check_successor(Some(&before), Right::Append), Ok(()));
    for (what, change) in wrong {
        let mut after = after.clone();
        change(&mut after);
        let refused = signed(&after).check_successor(Some(&before), Right::ReadWrite);
        assert_eq!(refused, Err(BadSuccessor::Origin), "{what}");
    }
    after.generations.remove(0);
    after.condemn_unneeded();
    assert_eq!(after.origins, [of(2, "client")]);
}

#[test]
fn a_record_of_version_1_is_refused_with_what_to_do() {
    let error = SignedRecord::parse(Bytes::from_static(b"SFIOSET1 and so on")).expect_err("format 1");
    assert!(error.to_string().contains("fetch it with the version that made it"), "{error}");
}

#[test]
fn another_members_signature_is_none() {
    let forged = SignedRecord::sign(first(), &identity(2)).expect("it can be written down");
    assert_eq!(SignedRecord::parse(forged.bytes().clone()), Err(BadRecord::Signature));
}

#[test]
fn what_contradicts_itself_is_neither_signed_nor_read() {
    let contradictions: [Change; 13] = [
        ("an origin", |record| record.origins.push(of(7, "client"))),
        ("an origin", |record| record.origins.push(Origin { tag: "a\nb".to_owned(), ..of(1, "client") })),
        ("current generation", |record| record.current = 5),
        ("current generation", |record| record.deed = Deed::Remove),
        ("removed data set with", |record| (record.deed, record.current) = (Deed::Remove, 0)),
        ("predecessor", |record| record.predecessor = Hash::of(b"x")),
        ("name", |record| record.name.clear()),
        ("an object's number", |record| record.next_object = 0),
        ("generation's number", |record| record.next_generation = 1),
        ("index or objects", |record| record.generations[0].index[0].length = 3 << 30),
        ("index or objects", |record| record.generations[0].objects = vec![7]),
        ("condemned run that is needed", |record| record.condemned.push(run(1))),
        ("damaged place in no object", |record| {
            record.damaged.push(Extent { object: 3, offset: 0, length: 1 });
        }),
    ];
    for (words, spoil) in contradictions {
        let mut record = first();
        spoil(&mut record);
        let error = SignedRecord::sign(record.clone(), &identity(1)).expect_err(words);
        assert!(error.to_string().contains(words), "{error}, not {words}");
        let body = postcard::to_extend(&record, MAGIC.to_vec()).expect("memory");
        let mut bytes = origin::write(&record.origins, body);
        let signature = identity(1).sign(&bytes);
        bytes.extend_from_slice(&signature);
        assert_eq!(SignedRecord::parse(bytes.into()), Err(error));
    }
}

#[test]
fn a_record_follows_its_predecessor_only() {
    let one = signed(&first());
    let two = signed(&next(&one, 2));
    let three = signed(&next(&two, 3));
    for right in [Right::Append, Right::ReadWrite] {
        assert_eq!(one.check_successor(None, right), Ok(()));
        assert_eq!(two.check_successor(Some(&one), right), Ok(()));
        assert!(matches!(two.check_successor(None, right), Err(BadSuccessor::Stale { newest: 0, .. })));
        assert!(matches!(
            three.check_successor(Some(&one), right),
            Err(BadSuccessor::Stale { newest: 1, .. })
        ));
        let rival = signed(&next(&one, 4));
        assert!(matches!(
            three.check_successor(Some(&rival), right),
            Err(BadSuccessor::Stale { newest: 2, .. })
        ));
    }
}

#[test]
fn a_record_of_another_data_set_does_not_follow() {
    let one = signed(&first());
    let strangers: [fn(&mut Record); 3] = [
        |record| record.token = Token([1; 16]),
        |record| record.name = "music".to_owned(),
        |record| record.site = "remote".to_owned(),
    ];
    for spoil in strangers {
        let mut record = next(&one, 2);
        spoil(&mut record);
        let refused = signed(&record).check_successor(Some(&one), Right::ReadWrite);
        assert!(matches!(refused, Err(BadSuccessor::OtherDataSet { .. })), "{refused:?}");
    }
}

#[test]
fn what_was_condemned_is_never_named_again() {
    let one = signed(&first());
    let mut condemning = next(&one, 2);
    condemning.condemned.push(run(3));
    let two = signed(&condemning);
    assert_eq!(two.check_successor(Some(&one), Right::ReadWrite), Ok(()));
    let mut late = next(&two, 3);
    late.condemned.clear();
    let refused = signed(&late).check_successor(Some(&two), Right::ReadWrite);
    assert_eq!(refused, Err(BadSuccessor::Condemned(run(3))));
}

#[test]
fn no_number_gets_a_second_meaning() {
    let one = signed(&first());
    let two = signed(&next(&one, 2));
    let mut renumbered = next(&two, 3);
    renumbered.objects[1].run = run(7);
    let refused = signed(&renumbered).check_successor(Some(&two), Right::ReadWrite);
    assert_eq!(refused, Err(BadSuccessor::Number("an object")));
    // A number that was dropped is not given away either.
    let mut forgetful = next(&two, 3);
    forgetful.generations = vec![generation(3, &[2])];
    forgetful.condemn_unneeded();
    assert_eq!(forgetful.condemned, [run(1), run(2)]);
    let three = signed(&forgetful);
    assert_eq!(three.check_successor(Some(&two), Right::ReadWrite), Ok(()));
    let mut again = next(&three, 4);
    again.objects.insert(0, ObjectEntry { number: 1, run: run(8), length: 0 });
    let refused = signed(&again).check_successor(Some(&three), Right::ReadWrite);
    assert_eq!(refused, Err(BadSuccessor::Number("an object")));
    let mut again = next(&three, 4);
    again.generations[0].number = 2;
    again.current = 4;
    let refused = signed(&again).check_successor(Some(&three), Right::ReadWrite);
    assert_eq!(refused, Err(BadSuccessor::Number("a generation")));
}

/// A member with *append* could once take the last number, and nobody could send anything to the data set any more.
#[test]
fn no_record_uses_up_the_numbers() {
    let one = signed(&first());
    let leaps: [Change; 4] = [
        ("next object", |record| record.next_object = u32::MAX),
        ("next generation", |record| record.next_generation = u64::MAX),
        ("next object", |record| record.next_object += 1 << 17),
        ("next generation", |record| record.next_generation += 1 << 21),
    ];
    for (words, leap) in leaps {
        let (mut later, mut foremost) = (next(&one, 2), first());
        leap(&mut later);
        leap(&mut foremost);
        for right in [Right::Append, Right::ReadWrite] {
            for (record, before) in [(&later, Some(&one)), (&foremost, None)] {
                let refused = signed(record).check_successor(before, right).expect_err(words);
                assert!(refused.to_string().contains(words), "{refused}, not {words}");
            }
        }
    }
    let mut roomy = next(&one, 2);
    (roomy.next_object, roomy.next_generation) = (10_000, 10_000);
    assert_eq!(signed(&roomy).check_successor(Some(&one), Right::Append), Ok(()));
}

#[test]
fn who_may_only_append_takes_nothing_away() {
    let one = signed(&first());
    let mut two = next(&one, 2);
    two.damaged.push(Extent { object: 0, offset: 10, length: 20 });
    two.healed.push(Healed {
        from: Extent { object: 0, offset: 10, length: 20 },
        object: 1,
        offset: 0,
        form: Form::Same,
    });
    two.condemned.push(run(9));
    let two = signed(&two);
    let deeds: [Change; 8] = [
        ("rolling back", |record| record.current = 1),
        ("rolling back, forgetting or removing", |record| record.deed = Deed::RollBack),
        ("dropping generations", |record| drop(record.generations.remove(0))),
        ("changing or dropping generations", |record| record.generations[0].bytes = 9),
        ("healed", |record| record.healed.clear()),
        ("healed", |record| record.healed[0].offset = 5),
        ("denying damage", |record| record.damaged[0].length = 5),
        ("condemning", |record| record.condemned.push(run(8))),
    ];
    for (words, spoil) in deeds {
        let mut record = next(&two, 3);
        spoil(&mut record);
        let record = signed(&record);
        let refused = record.check_successor(Some(&two), Right::Append).expect_err(words);
        assert!(refused.to_string().contains(words), "{refused}, not {words}");
        assert_eq!(record.check_successor(Some(&two), Right::ReadWrite), Ok(()));
    }
    let mut adding = next(&two, 3);
    adding.damaged = vec![Extent { object: 0, offset: 0, length: 90 }];
    adding.healed[0].from.length = 40;
    assert_eq!(signed(&adding).check_successor(Some(&two), Right::Append), Ok(()));
}

#[test]
fn healed_objects_are_needed_as_long_as_the_damaged_ones() {
    let one = signed(&first());
    let mut record = next(&one, 2);
    record.generations[1] = generation(2, &[0]);
    record.healed.push(Healed {
        from: Extent { object: 0, offset: 0, length: 50 },
        object: 1,
        offset: 0,
        form: Form::Same,
    });
    record.condemn_unneeded();
    assert_eq!((record.condemned.len(), record.objects.len()), (0, 2));
    record.objects.push(ObjectEntry { number: 2, run: run(3), length: 0 });
    record.next_object = 3;
    record.generations = vec![generation(3, &[2])];
    record.condemn_unneeded();
    assert_eq!((record.condemned.as_slice(), record.healed.len()), (&[run(1), run(2)][..], 0));
}

#[test]
fn a_run_id_is_its_name() {
    let id = RunId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
    assert_eq!(id.to_string(), "000102030405060708090a0b0c0d0eff");
    assert_eq!(id.to_string().parse(), Ok(id));
    for wrong in ["", "00", "000102030405060708090A0B0C0D0EFF", "+00102030405060708090a0b0c0d0eff"] {
        assert_eq!(wrong.parse::<RunId>(), Err(BadRunId), "{wrong:?}");
    }
}

#[test]
fn a_circle_of_healings_has_an_end() {
    let mut record = first();
    let healed = |from, to| Healed {
        from: Extent { object: 0, offset: from, length: 50 },
        object: 0,
        offset: to,
        form: Form::Same,
    };
    record.healed = vec![healed(0, 50), healed(50, 0)];
    record.place_of(&chunk(0, 0, 50));
}

proptest! {
    #[test]
    fn garbage_is_no_record(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let framed = [&MAGIC[..], &bytes].concat();
        prop_assert!(SignedRecord::parse(framed.into()).is_err());
        prop_assert!(SignedRecord::parse(bytes.into()).is_err());
    }

    /// Against a naive list of what moved where.
    #[test]
    fn chunks_are_found_where_they_were_sent_again(
        moves in proptest::collection::vec((0_u64..8, 10_u64..18, any::<bool>()), 0..12),
        damaged in proptest::collection::vec(0_u64..18, 0..6),
    ) {
        let at = |slot: u64| chunk(0, slot * 50, 50);
        let mut oracle: Vec<(u64, u64, bool)> = Vec::new();
        for (from, to, same) in moves {
            if oracle.iter().all(|(known, ..)| *known != from) {
                oracle.push((from, to, same));
            }
        }
        let healed = oracle.iter().map(|(from, to, same)| {
            Healed::of(&at(*from), &ChunkRef { stored: if *same { 50 } else { 40 }, ..at(*to) })
        });
        let mut record = first();
        record.healed = Healed::merged(healed.collect());
        record.damaged = Extent::merged(damaged.iter().map(|slot| Extent::of(&at(*slot))).collect());
        let record = signed(&record);
        for slot in 0..18 {
            let expected = oracle.iter().find(|(from, ..)| *from == slot);
            let expected = expected.map_or(at(slot), |(_, to, same)| ChunkRef {
                stored: if *same { 50 } else { 40 },
                offset: to * 50,
                ..at(slot)
            });
            prop_assert_eq!(record.place_of(&at(slot)), expected);
            prop_assert_eq!(record.is_damaged(&at(slot)), damaged.contains(&(expected.offset / 50)));
        }
    }
}

/// What is behind it in the frame is unpacked from the old place, which stays as it is.
#[test]
fn a_chunk_behind_damage_in_its_frame_is_damaged_also_when_the_one_there_was_healed() {
    let at = |offset: u64, behind: u32| ChunkRef {
        codec: Codec::Solid { behind, skip: 2 * behind },
        ..chunk(0, 100 + offset, 50)
    };
    let chunks = [at(0, 0), at(50, 50), at(100, 100)];
    let mut record = first();
    record.damaged = vec![Extent::of(&chunks[1])];
    let damaged = |record: &Record| chunks.map(|chunk| record.is_damaged(&chunk));
    assert_eq!(damaged(&record), [false, true, true]);
    record.healed = vec![Healed::of(&chunks[1], &chunk(0, 500, 60))];
    assert_eq!(damaged(&record), [false, false, true]);
    record.healed.push(Healed::of(&chunks[2], &chunk(0, 560, 60)));
    assert_eq!(damaged(&record), [false, false, false]);
}
