use super::*;
use proptest::prelude::*;

fn path() -> SubfilePath {
    at("a")
}

fn at(text: &str) -> SubfilePath {
    SubfilePath::new(text).expect("a right path")
}

fn write(offset: u64, data: Vec<u8>) -> DiskAction {
    let extents = vec![Extent::between(offset, offset + data.len() as u64)];
    let half = data.len() / 2;
    let data = Bytes::from(data);
    DiskAction::Write { extents, data: vec![data.slice(..half), data.slice(half..)] }
}

fn create(durable: bool) -> DiskAction {
    DiskAction::Create { truncate: false, exclusive: false, durable, owner: None }
}

fn rename(target: &str, durable: bool) -> DiskAction {
    DiskAction::Rename { target: at(target), replace: false, durable }
}

fn created() -> MemoryStore {
    let mut store = MemoryStore::default();
    store.perform(&path(), &create(false)).expect("possible");
    store
}

/// A file with a name and bytes that would survive.
fn synced(text: &str) -> MemoryStore {
    let mut store = MemoryStore::default();
    for action in [create(false), write(0, text.into()), DiskAction::Sync] {
        store.perform(&at(text), &action).expect("possible");
    }
    store
}

fn names(store: &MemoryStore) -> Vec<&str> {
    store.paths().map(SubfilePath::as_str).collect()
}

#[test]
fn a_far_offset_costs_little_and_reads_back() {
    let (mut store, far) = (created(), i64::MAX as u64 - 10);
    store.perform(&path(), &write(far, b"far".to_vec())).expect("possible");
    let extents = vec![Extent::between(5, 7), Extent::between(far, far + 10)];
    let reply = store.perform(&path(), &DiskAction::Read { extents }).expect("possible");
    assert_eq!((reply.size_before, &reply.data[..]), (far + 3, &b"\0\0far"[..]));
    assert_eq!(store.pages(), 1);
    let error = store.perform(&path(), &DiskAction::ReadWhole { limit: far }).expect_err("too much");
    assert_eq!(error.error.kind, ErrorKind::FileTooLarge);
}

#[test]
fn what_does_not_fit_is_refused_whole() {
    let mut store = created();
    store.capacity_pages = 1;
    let error = store.perform(&path(), &write(0, vec![1; 5_000])).expect_err("two pages");
    assert_eq!((error.call, error.error.kind), (SystemCall::Write, ErrorKind::NoSpace));
    assert_eq!(store.content("a"), Some(Vec::new()));
}

#[test]
fn a_crash_leaves_what_was_synced_and_of_the_rest_what_chance_wants() {
    let mut store = synced("a");
    store.perform(&path(), &write(0, b"newer".to_vec())).expect("possible");
    let after = |answers: &[bool]| {
        let (mut store, mut answers) = (store.clone(), answers.iter().copied());
        store.crash(|| answers.next().expect("few questions"));
        store.content("a").expect("its name is safe")
    };
    assert_eq!(after(&[false, false]), b"a");
    assert_eq!(after(&[true, false]), b"n");
    assert_eq!(after(&[false, true]), b"a\0\0\0\0", "a size without its bytes, as XFS leaves it");
    assert_eq!(after(&[true, true]), b"newer");
}

#[test]
fn a_name_survives_once_its_folder_was_synced() {
    let mut store = synced("d/a");
    store.perform(&at("d/b"), &create(false)).expect("possible");
    store.perform(&at("e/c"), &create(true)).expect("possible");
    store.perform(&at("d/a"), &DiskAction::Remove { durable: false }).expect("possible");
    let mut lucky = store.clone();
    store.crash(|| false);
    assert_eq!(names(&store), ["d/a", "e/c"]);
    assert_eq!(store.content("d/a"), Some(b"d/a".to_vec()));
    lucky.crash(|| true);
    assert_eq!(names(&lucky), ["d/b", "e/c"]);
}

#[test]
fn a_rename_happens_or_does_not_and_one_by_links_may_leave_both_names() {
    let outcomes = |by_links: bool, durable: bool| {
        let mut store = synced("d/a");
        if by_links {
            store.rename_by_links();
        }
        store.perform(&at("d/a"), &rename("e/b", durable)).expect("free");
        assert_eq!(names(&store), ["e/b"]);
        let after = |answers: [bool; 2]| {
            let (mut store, mut answers) = (store.clone(), answers.into_iter());
            store.crash(|| answers.next().expect("few questions"));
            names(&store).join(" ")
        };
        [[false, false], [false, true], [true, false], [true, true]].map(after)
    };
    assert_eq!(outcomes(false, false), ["d/a", "d/a", "e/b", "e/b"]);
    assert_eq!(outcomes(true, false), ["d/a", "d/a", "d/a e/b", "e/b"]);
    assert_eq!([outcomes(false, true), outcomes(true, true)], [["e/b"; 4]; 2]);
}

#[test]
fn syncing_the_new_folder_of_a_renamed_file_keeps_what_the_rename_builds_upon() {
    let mut store = MemoryStore::default();
    store.perform(&at("d/a"), &create(false)).expect("possible");
    store.perform(&at("d/other"), &create(false)).expect("possible");
    store.perform(&at("d/a"), &rename("e/b", false)).expect("free");
    store.perform(&at("e/b"), &DiskAction::Sync).expect("possible");
    store.crash(|| false);
    assert_eq!(names(&store), ["e/b"]);
}

#[test]
fn only_one_creates_what_must_not_be_there() {
    let mut store = created();
    let exclusive = DiskAction::Create { truncate: false, exclusive: true, durable: true, owner: None };
    let kind = |result: Result<DiskReply, DiskError>| result.expect_err("occupied").error.kind;
    assert_eq!(kind(store.perform(&path(), &exclusive)), ErrorKind::AlreadyExists);
    store.perform(&at("d/b"), &exclusive).expect("free");
    assert_eq!(kind(store.perform(&at("d/b"), &exclusive)), ErrorKind::AlreadyExists);
    assert_eq!(kind(store.perform(&at("d"), &exclusive)), ErrorKind::AlreadyExists);
}

#[test]
fn a_folder_is_listed_by_names() {
    let mut store = MemoryStore::default();
    for name in ["d/b", "d/c/e", "d/a", "dd"] {
        store.perform(&at(name), &create(false)).expect("possible");
    }
    store.perform(&at("d/b"), &write(0, b"xyz".to_vec())).expect("possible");
    let list = |store: &mut MemoryStore, folder: &str, after: Option<&str>| {
        let after = after.map(|after| EntryName::new(after).expect("a right name"));
        let listing = store.perform(&at(folder), &DiskAction::List { after, durable: false })?.listing;
        assert!(!listing.more);
        let text = |entry: &Entry| format!("{} {:?} {}", entry.name, entry.kind, entry.size);
        Ok(listing.entries.iter().map(text).collect::<Vec<_>>())
    };
    let all = list(&mut store, "d", None);
    assert_eq!(all, Ok(vec!["a File 0".to_owned(), "b File 3".to_owned(), "c Folder 0".to_owned()]));
    assert_eq!(list(&mut store, "d", Some("b")), Ok(vec!["c Folder 0".to_owned()]));
    let kind = |result: Result<_, DiskError>| result.expect_err("no folder").error.kind;
    assert_eq!(kind(list(&mut store, "x", None)), ErrorKind::NotFound);
    assert_eq!(kind(list(&mut store, "dd", None)), ErrorKind::NotADirectory);
}

proptest! {
    #[test]
    fn it_is_a_sparse_vector_of_bytes(steps in prop::collection::vec((0_u64..20_000, 0_u64..9_000, 0_u8..4), 1..12)) {
        let (mut store, mut expected) = (created(), Vec::new());
        for (index, (offset, length, step)) in steps.into_iter().enumerate() {
            let action = match step {
                0 => {
                    expected.resize(offset as usize, 0);
                    DiskAction::SetLength { length: offset }
                }
                1 => {
                    expected.resize(expected.len().max(offset as usize), 0);
                    DiskAction::Grow { length: offset }
                }
                _ if length == 0 => continue,
                _ => {
                    let end = (offset + length) as usize;
                    expected.resize(expected.len().max(end), 0);
                    expected[offset as usize..end].fill(index as u8);
                    write(offset, vec![index as u8; length as usize])
                }
            };
            store.perform(&path(), &action).expect("possible");
            let content = store.content("a");
            prop_assert_eq!(content.as_ref(), Some(&expected));
        }
    }

    /// Whatever chance wants, a crash leaves names that there were at some moment, each with the file that it was of.
    #[test]
    fn a_crash_invents_nothing(steps in prop::collection::vec((0_usize..4, 0_usize..4, 0_u8..4, any::<bool>()), 1..25), chance: u64, by_links: bool) {
        const PATHS: [&str; 4] = ["a", "d/b", "d/c", "e/d"];
        let mut store = MemoryStore::default();
        if by_links {
            store.rename_by_links();
        }
        let mut history: BTreeMap<SubfilePath, Vec<Option<Node>>> = PATHS.iter().map(|path| (at(path), vec![None])).collect();
        let mut certain: BTreeMap<SubfilePath, Option<Node>> = BTreeMap::new();
        for (one, other, step, durable) in steps {
            let (path, target) = (at(PATHS[one]), at(PATHS[other]));
            let action = match step {
                0 => create(durable),
                1 => DiskAction::Remove { durable },
                2 => DiskAction::Rename { target: target.clone(), replace: durable, durable },
                _ => DiskAction::Sync,
            };
            let done = store.perform(&path, &action).is_ok();
            for (path, nodes) in &mut history {
                nodes.push(store.names.get(path));
            }
            if done && (durable || step == 3) {
                let folder = |path: &SubfilePath| path.as_str().rsplit_once('/').map(|(folder, _)| folder.to_owned());
                let synced = [folder(&path), folder(if step == 2 { &target } else { &path })];
                let names = history.keys().filter(|path| synced.contains(&folder(path)));
                certain.extend(names.map(|path| (path.clone(), store.names.get(path))));
            } else if done {
                certain.remove(&path);
                certain.remove(&target);
            }
        }
        let mut chance = chance | 1;
        store.crash(|| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            chance >> 63 == 1
        });
        for (path, nodes) in &history {
            prop_assert!(nodes.contains(&store.names.get(path)), "{path}");
        }
        for (path, node) in &certain {
            prop_assert_eq!(store.names.get(path), *node, "{}", path);
        }
    }
}
