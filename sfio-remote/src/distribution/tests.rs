//! The distribution against a naive one that deals out byte by byte.

use super::*;
use proptest::prelude::*;

fn distribution(unit: u64, subfiles: usize) -> Distribution {
    Distribution::new(StripeUnit::new(unit).expect("in range"), subfiles).expect("in range")
}

/// Deals `content` out byte by byte, without any formula.
fn deal(content: &[u8], unit: u64, subfiles: usize) -> Vec<Vec<u8>> {
    let mut dealt = vec![Vec::new(); subfiles];
    for (stripe, bytes) in content.chunks(unit as usize).enumerate() {
        dealt[stripe % subfiles].extend_from_slice(bytes);
    }
    dealt
}

/// What `deal` does, by the extents and fragments of `region`.
fn write(distribution: &Distribution, files: &mut [Vec<u8>], region: Region, data: &[u8]) {
    for (subfile, extent) in distribution.extents(region) {
        let file = &mut files[subfile.index()];
        file.resize(file.len().max(extent.end() as usize), 0);
        let mut at = extent.offset() as usize;
        for fragment in distribution.fragments(subfile, extent) {
            let from = (fragment.logical_offset - region.offset()) as usize;
            let bytes = &data[from..from + fragment.length as usize];
            file[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        }
        assert_eq!(at as u64, extent.end());
    }
}

fn striped(writes: &[(u64, &str)]) -> Vec<String> {
    let distribution = distribution(5, 2);
    let mut files = vec![Vec::new(); 2];
    for (offset, text) in writes {
        let region = Region::new(*offset, text.len() as u64).expect("small");
        write(&distribution, &mut files, region, text.as_bytes());
    }
    files.into_iter().map(|file| String::from_utf8(file).expect("text")).collect()
}

#[test]
fn hello_world_is_dealt_out_as_in_the_paper() {
    assert_eq!(striped(&[(0, "Hello World")]), ["Hellod", " Worl"]);
}

/// The paper prints `Hellod!*Heorld!*o*Wor` for the first subfile, with one `*` too many: three times 13 bytes are
/// 20 and 19, and 39 bytes dealt out five by five have no `*` behind `orld!`.
#[test]
fn three_writers_are_dealt_out_as_in_the_paper_but_for_its_misprint() {
    let text = "Hello*World!*";
    for order in [[0, 13, 26], [26, 0, 13], [13, 26, 0]] {
        let files = striped(&order.map(|offset| (offset, text)));
        assert_eq!(files, ["Hellod!*Heorld!o*Wor", "*Worlllo*W*Hellld!*"]);
    }
}

#[test]
fn impossible_distributions_are_refused() {
    let unit = StripeUnit::DEFAULT;
    assert!(Distribution::new(unit, 0).is_err());
    assert!(Distribution::new(unit, MAX_SUBFILES).is_ok());
    let error = Distribution::new(unit, MAX_SUBFILES + 1).expect_err("too many");
    assert_eq!(error.to_string(), "4097 subfiles; a striped file has 1 to 4096");
}

#[test]
fn ranges_beyond_the_largest_file_are_refused() {
    assert!(Region::new(MAX_LENGTH, 0).is_ok());
    assert!(Region::new(MAX_LENGTH - 1, 1).is_ok());
    assert_eq!(Region::new(MAX_LENGTH, 1), Err(RangeError { offset: MAX_LENGTH, length: 1 }));
    assert_eq!(Extent::new(2, u64::MAX), Err(RangeError { offset: 2, length: u64::MAX }));
}

#[test]
fn a_torn_file_names_what_is_short_and_what_is_long() {
    let distribution = distribution(5, 3);
    assert_eq!(distribution.structure(&[0, 0, 0]), Structure::Intact { length: 0 });
    let Structure::Torn(torn) = distribution.structure(&[10, 7, 10]) else { panic!("torn") };
    assert_eq!((torn.first_missing, torn.short, torn.total), (22, SubfileIndex(1), 27));
    assert_eq!(torn.long, [SubfileIndex(2)]);
    assert_eq!(
        torn.to_string(),
        "subfile 2 ends before logical byte 22, but subfile(s) 3 go on (27 bytes in all)"
    );
}

#[test]
fn sizes_that_no_file_can_have_are_torn_and_nothing_overflows() {
    let Structure::Torn(torn) = distribution(MAX_LENGTH, 4_096).structure(&[u64::MAX; 4_096]) else {
        panic!("torn")
    };
    assert_eq!(torn.total, u128::from(u64::MAX) * 4_096);
    assert_eq!(distribution(1, 2).structure(&[u64::MAX, u64::MAX]).whole_length(), u64::MAX);
}

/// Stripe units from 1 up, with the sizes where errors hide more likely than others.
fn units() -> impl Strategy<Value = u64> {
    prop_oneof![1_u64..20, 1_u64..2_000, Just(65_536), Just(1_000_000)]
}

/// Offsets near 0, 2^32, and 2^63.
fn offsets() -> impl Strategy<Value = u64> {
    let near = |center: u64| center - 5_000..center + 5_000;
    prop_oneof![0_u64..10_000, near(1 << 32), near(1 << 40), MAX_LENGTH - 10_000..MAX_LENGTH - 4_000]
}

proptest! {
    #[test]
    fn subfiles_are_those_of_dealing_byte_by_byte(unit in 1_u64..40, subfiles in 1_usize..=40, length in 0_usize..2_000) {
        let content: Vec<u8> = (0..length).map(|i| (i * 7 % 251) as u8).collect();
        let distribution = distribution(unit, subfiles);
        let mut files = vec![Vec::new(); subfiles];
        write(&distribution, &mut files, Region::new(0, length as u64)?, &content);
        let dealt = deal(&content, unit, subfiles);
        prop_assert_eq!(&files, &dealt);
        let sizes: Vec<u64> = dealt.iter().map(|file| file.len() as u64).collect();
        let computed: Vec<u64> = distribution.subfiles().map(|s| distribution.subfile_size(s, length as u64)).collect();
        prop_assert_eq!(&computed, &sizes);
        prop_assert_eq!(distribution.structure(&sizes), Structure::Intact { length: length as u64 });
    }

    #[test]
    fn regions_put_together_give_the_whole(unit in 1_u64..40, subfiles in 1_usize..=40,
                                           cuts in prop::collection::btree_set(1_usize..1_500, 0..6)) {
        let content: Vec<u8> = (0..1_500).map(|i: usize| (i * 11 % 253) as u8).collect();
        let distribution = distribution(unit, subfiles);
        let mut files = vec![Vec::new(); subfiles];
        let mut bounds = vec![0];
        bounds.extend(cuts);
        bounds.push(content.len());
        // From the last to the first, so that order plays no role either.
        for pair in bounds.windows(2).rev() {
            let region = Region::new(pair[0] as u64, (pair[1] - pair[0]) as u64)?;
            write(&distribution, &mut files, region, &content[pair[0]..pair[1]]);
        }
        prop_assert_eq!(files, deal(&content, unit, subfiles));
    }

    #[test]
    fn both_directions_agree(unit in units(), subfiles in 1_usize..=40, offset in offsets()) {
        let distribution = distribution(unit, subfiles);
        let location = distribution.locate(offset);
        prop_assert!(location.subfile.index() < subfiles && location.offset <= offset);
        prop_assert_eq!(distribution.logical_offset(location.subfile, location.offset), Some(offset));
        // The next byte lies behind all bytes before it in its own subfile, and nothing moves in the others.
        for subfile in distribution.subfiles() {
            let grown = distribution.subfile_size(subfile, offset + 1) - distribution.subfile_size(subfile, offset);
            prop_assert_eq!(grown, u64::from(subfile == location.subfile));
        }
        prop_assert_eq!(distribution.subfile_size(location.subfile, offset), location.offset);
    }

    #[test]
    fn extents_and_fragments_cover_a_region_exactly(unit in units(), subfiles in 1_usize..=40, offset in offsets(), length in 0_u64..4_000) {
        let distribution = distribution(unit, subfiles);
        let region = Region::new(offset, length)?;
        let mut covered = Vec::new();
        for (subfile, extent) in distribution.extents(region) {
            prop_assert!(extent.length() > 0);
            let mut at = extent.offset();
            for fragment in distribution.fragments(subfile, extent) {
                let location = distribution.locate(fragment.logical_offset);
                prop_assert_eq!((location.subfile, location.offset), (subfile, at));
                at += fragment.length;
                covered.push((fragment.logical_offset, fragment.length));
            }
            prop_assert_eq!(at, extent.end());
        }
        covered.sort_unstable();
        let mut next = offset;
        for (start, length) in covered {
            prop_assert_eq!(start, next);
            next += length;
        }
        prop_assert_eq!(next, region.end());
    }

    #[test]
    fn what_short_subfiles_lack_is_missing_and_nothing_else(unit in 1_u64..40, length in 0_u64..2_000,
                                                            sizes in prop::collection::vec(0_u64..500, 1..12)) {
        let distribution = distribution(unit, sizes.len());
        let is_missing = |offset: &u64| {
            let Location { subfile, offset } = distribution.locate(*offset);
            offset >= sizes[subfile.index()]
        };
        let expected: Vec<u64> = (0..length).filter(is_missing).collect();
        let pieces = distribution.missing(&sizes, length);
        let mut missing: Vec<u64> =
            pieces.flat_map(|it| it.logical_offset..it.logical_offset + it.length).collect();
        missing.sort_unstable();
        prop_assert_eq!(missing, expected);
    }

    #[test]
    fn one_wrong_size_is_never_called_intact(unit in 1_u64..100, subfiles in 2_usize..=40, length in 0_u64..20_000,
                                             which in any::<prop::sample::Index>(), change in 1_u64..300, grow: bool) {
        let distribution = distribution(unit, subfiles);
        let mut sizes: Vec<u64> = distribution.subfiles().map(|s| distribution.subfile_size(s, length)).collect();
        let index = which.index(subfiles);
        let before = sizes[index];
        sizes[index] = if grow { before + change } else { before.saturating_sub(change) };
        match distribution.structure(&sizes) {
            // Cutting the last stripe shorter, or letting it grow, is a file of another length.
            Structure::Intact { length: other } => {
                let expected: Vec<u64> = distribution.subfiles().map(|s| distribution.subfile_size(s, other)).collect();
                prop_assert_eq!(sizes, expected);
            }
            Structure::Torn(torn) => {
                let last_held = |s: SubfileIndex| sizes[s.index()].checked_sub(1).and_then(|o| distribution.logical_offset(s, o));
                let beyond: Vec<SubfileIndex> = distribution.subfiles().filter(|s| last_held(*s) > Some(torn.first_missing)).collect();
                prop_assert_eq!(&torn.long, &beyond);
                prop_assert!(!beyond.is_empty());
                prop_assert_eq!(distribution.locate(torn.first_missing).subfile, torn.short);
            }
        }
    }
}
