use super::*;
use crate::io_node::record_fixtures::{first, forgetting, next, run, signed};
use crate::replication::Record;
use crate::sim::identity_of;
use proptest::prelude::*;

fn claim(number: u64) -> Claim {
    let folder = SubfilePath::new("d").expect("a right path");
    Claim { dataset: DatasetPath::new(folder).expect("free"), staged: run(7), number }
}

fn member(name: &str, right: Right) -> Standing {
    Standing { name: name.to_owned(), key: identity_of(name).public().ed25519, right }
}

/// Three members: "all" with every right, "some" that may add, "reader" that may not.
fn members(name: &str) -> Option<Standing> {
    let rights = [("all", Right::ReadWrite), ("some", Right::Append), ("reader", Right::Read)];
    rights.into_iter().find(|(known, _)| *known == name).map(|(name, right)| member(name, right))
}

fn judge(publisher: &str, number: u64, found: &Found) -> Result<Verdict, ErrorKind> {
    let publisher = members(publisher).expect("a member");
    claim(number).judge(&publisher, members, found).map_err(|error| error.kind)
}

fn staged(record: &SignedRecord) -> Found {
    Found { staged: Some(record.bytes().clone()), ..Found::default() }
}

fn behind(predecessor: &SignedRecord, record: &Record) -> Found {
    Found { predecessor: Some(predecessor.bytes().clone()), ..staged(&signed(record)) }
}

fn proposed(verdict: Result<Verdict, ErrorKind>) -> Proposal {
    match verdict {
        Ok(Verdict::Proposed(proposal)) => proposal,
        other => panic!("it may be published: {other:?}"),
    }
}

#[test]
fn a_record_that_follows_is_published_if_its_new_runs_are_there() {
    let one = signed(&first("d", "some"));
    let proposal = proposed(judge("some", 1, &staged(&one)));
    assert_eq!((proposal.new_runs, proposal.replaces), (vec![run(1)], false));
    let two = next(&one, 2, "all");
    let proposal = proposed(judge("all", 2, &behind(&one, &two)));
    assert_eq!((proposal.new_runs, proposal.newly_condemned), (vec![run(2)], vec![]));
    let mut three = forgetting(&signed(&two), "all");
    three.condemned.push(run(9));
    let proposal = proposed(judge("all", 3, &behind(&signed(&two), &three)));
    assert_eq!((proposal.new_runs, proposal.newly_condemned), (vec![], vec![run(1), run(9)]));
    assert_eq!(proposal.unpublished, [run(9)].into(), "the other one was published");
}

#[test]
fn a_number_is_given_once_and_repeating_it_is_no_failure() {
    let one = signed(&first("d", "some"));
    let (two, rival) = (signed(&next(&one, 2, "some")), signed(&next(&one, 3, "some")));
    let found = |record: &SignedRecord| Found { occupant: Some(two.bytes().clone()), ..behind(&one, record) };
    assert_eq!(judge("some", 2, &found(&two)), Ok(Verdict::Published(two.clone())));
    assert_eq!(judge("some", 2, &found(&rival)), Err(ErrorKind::Taken));
    // The reply was lost, and the staged record is gone since.
    let gone = Found { staged: None, ..found(&two) };
    assert_eq!(
        judge("some", 2, &gone),
        Err(ErrorKind::Taken),
        "staged as 7, it was published as that of run 2"
    );
    let by_its_run = Claim { staged: run(2), ..claim(2) };
    let publisher = members("some").expect("a member");
    assert_eq!(by_its_run.judge(&publisher, members, &gone), Ok(Verdict::Published(two)));
    assert_eq!(judge("some", 2, &Found::default()), Err(ErrorKind::NotFound));
}

#[test]
fn a_record_behind_another_one_is_stale() {
    let one = signed(&first("d", "some"));
    let two = signed(&next(&one, 2, "some"));
    let rival = signed(&next(&one, 3, "some"));
    let three = next(&two, 4, "some");
    assert_eq!(
        judge("some", 3, &staged(&signed(&three))),
        Err(ErrorKind::Stale),
        "nothing is here before it"
    );
    assert_eq!(judge("some", 3, &behind(&rival, &three)), Err(ErrorKind::Stale));
    assert_eq!(judge("some", 2, &behind(&one, &three)), Err(ErrorKind::BadRecord), "it is record 3");
    let damaged = Found { predecessor: Some(two.bytes().slice(1..)), ..staged(&signed(&three)) };
    assert_eq!(judge("some", 3, &damaged), Err(ErrorKind::BadRecord));
}

/// A data set of which records were lost on all I/O nodes could not even be removed.
#[test]
fn a_removal_needs_no_predecessor_from_whoever_may_do_everything() {
    let one = signed(&first("d", "some"));
    let two = signed(&next(&one, 2, "all"));
    let removal = |signer: &str| {
        let mut record = forgetting(&two, signer);
        (record.deed, record.current) = (crate::replication::Deed::Remove, 0);
        record.generations.clear();
        record.condemn_unneeded();
        signed(&record)
    };
    let damaged = Found { predecessor: Some(two.bytes().slice(1..)), ..staged(&removal("all")) };
    for found in [staged(&removal("all")), damaged] {
        let proposal = proposed(judge("all", 3, &found));
        assert_eq!(proposal.newly_condemned, [run(1), run(2)]);
        assert_eq!(proposal.unpublished, [].into(), "the record that is lost may have named them");
        assert_eq!(judge("all", 4, &found), Err(ErrorKind::BadRecord), "it has another number");
        assert!(judge("some", 3, &found).is_err(), "it was signed, and perhaps never published");
    }
    assert_eq!(judge("some", 3, &staged(&removal("some"))), Err(ErrorKind::Stale));
    let behind_another = Found { predecessor: Some(one.bytes().clone()), ..staged(&removal("all")) };
    assert_eq!(judge("all", 3, &behind_another), Err(ErrorKind::Stale), "it is for another chain");
}

#[test]
fn a_record_of_another_folder_or_without_a_signature_is_refused() {
    let stranger = signed(&first("e", "some"));
    assert_eq!(judge("some", 1, &staged(&stranger)), Err(ErrorKind::BadRecord));
    let mut forged = signed(&first("d", "some")).bytes().to_vec();
    forged[30] ^= 1;
    let found = Found { staged: Some(forged.into()), ..Found::default() };
    assert_eq!(judge("all", 1, &found), Err(ErrorKind::BadRecord));
}

#[test]
fn a_damaged_record_is_replaced_by_whoever_may_do_everything() {
    let one = signed(&first("d", "some"));
    let mut damaged = one.bytes().to_vec();
    damaged[30] ^= 1;
    let found = Found { occupant: Some(damaged.into()), ..staged(&one) };
    assert_eq!(judge("some", 1, &found), Err(ErrorKind::BadRecord));
    assert!(proposed(judge("all", 1, &found)).replaces);
}

#[test]
fn rights_are_those_of_the_signer_and_everything_is_for_whoever_may_do_everything() {
    let one = signed(&first("d", "all"));
    let two = signed(&next(&one, 2, "all"));
    let by = |signer: &str| behind(&two, &forgetting(&two, signer));
    proposed(judge("all", 3, &by("all")));
    assert_eq!(judge("some", 3, &by("some")), Err(ErrorKind::AppendOnly));
    // A copy of what "all" has published elsewhere is brought by "some"; what "some" must not do stays forbidden.
    proposed(judge("some", 3, &by("all")));
    proposed(judge("all", 3, &by("some")));
    proposed(judge("all", 3, &by("nobody that is a member now")));
    assert_eq!(judge("some", 3, &by("nobody that is a member now")), Err(ErrorKind::PermissionDenied));
    assert_eq!(judge("some", 3, &by("reader")), Err(ErrorKind::PermissionDenied));
    let mut another_key = forgetting(&two, "all");
    another_key.signer.key = identity_of("some").public().ed25519;
    let record = SignedRecord::sign(another_key, &identity_of("some")).expect("it is sound");
    let found = Found { predecessor: Some(two.bytes().clone()), ..staged(&record) };
    assert_eq!(judge("some", 3, &found), Err(ErrorKind::PermissionDenied), "a name is not enough");
}

proptest! {
    #[test]
    fn no_bytes_on_the_disk_panic_and_what_is_no_record_is_not_published(
        staged in prop::option::of(prop::collection::vec(any::<u8>(), 0..200)),
        occupant in prop::option::of(prop::collection::vec(any::<u8>(), 0..200)),
        magic: bool,
    ) {
        let bytes = |bytes: Option<Vec<u8>>| bytes.map(|bytes| {
            Bytes::from(if magic { [b"SFIOREC2", &bytes[..]].concat() } else { bytes })
        });
        let found = Found { staged: bytes(staged), occupant: bytes(occupant), predecessor: None };
        prop_assert!(judge("all", 1, &found).is_err());
    }
}
