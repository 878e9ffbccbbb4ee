//! The wall (design §2): protocol logic does no I/O, and no arrow between the crates points the other way.
//!
//! What the compiler holds (no tokio, quinn or quinn-udp without the feature `io`) is checked here where it is decided,
//! in the manifests; what it cannot hold (a socket of the standard library, a clock, unseeded randomness) by searching
//! the sources. The manifests of all our crates are looked at here, so that one table has all arrows.
//!
//! Within fec-transport a second table has the arrows between its folders, and a rule says what a type is: a room with
//! one door.

#[path = "wall/arrows.rs"]
mod arrows;
#[path = "wall/rooms.rs"]
mod rooms;
#[path = "wall/scan.rs"]
mod scan;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rooms::Fault;
use toml::{Table, Value};

const CRATES: [&str; 7] =
    ["program", "capillary", "ror", "netsim", "fec-transport", "sfio-remote", "sfio-trace"];

/// Which of our crates each may name among its dependencies: always, or only as an optional one (design §2).
///
/// `program` is for programs only, hence optional in every library.
const ARROWS: [(&str, &[&str], &[&str]); 8] = [
    ("capillary/program", &[], &[]),
    ("capillary", &[], &["program"]),
    ("ror", &["capillary"], &["netsim", "program"]),
    ("netsim", &["capillary"], &["program"]),
    ("fec-transport", &["capillary", "ror"], &["netsim"]),
    ("fec-transport/testbed", &["capillary", "fec-transport", "netsim", "program", "ror"], &[]),
    ("sfio-remote/trace", &[], &[]),
    ("sfio-remote", &["fec-transport"], &["netsim", "program", "sfio-trace"]),
];

/// Dependencies that must be optional, and the feature that pulls them; one that contains it may add to them.
const GUARDED: [(&str, &[&str], &str); 5] = [
    ("netsim", &["quinn-udp", "socket2", "tokio"], "emulator"),
    ("fec-transport", &["quinn", "quinn-udp", "rustls", "socket2", "tokio"], "io"),
    ("fec-transport", &["netsim"], "sim"),
    ("sfio-remote", &["rustix", "tokio"], "io"),
    ("sfio-remote", &["netsim"], "demo"),
];

/// The folders of fec-transport/src, the lowest first, and which of those above it in this list each may name: so there
/// is no circle.
const FOLDERS: [(&str, &[&str]); 21] = [
    ("limits", &[]),
    ("shares", &[]),
    ("time", &[]),
    ("keys", &[]),
    ("overlay", &["limits", "keys"]),
    ("event", &["overlay"]),
    ("config", &["limits"]),
    ("wire", &["limits"]),
    ("fuzzing", &["overlay", "wire"]),
    ("crypto", &["keys", "wire"]),
    ("transmit", &["overlay"]),
    ("circuit", &["shares", "time", "keys", "overlay", "config", "wire", "crypto"]),
    ("neighbour", &["time", "overlay", "wire", "crypto"]),
    (
        "session",
        &[
            "limits", "shares", "time", "keys", "overlay", "event", "config", "wire", "crypto", "transmit",
            "circuit",
        ],
    ),
    ("routes", &["time", "overlay", "event", "config", "wire", "crypto", "session"]),
    (
        "node",
        &[
            "shares",
            "time",
            "keys",
            "overlay",
            "event",
            "config",
            "wire",
            "crypto",
            "transmit",
            "circuit",
            "neighbour",
            "session",
            "routes",
        ],
    ),
    ("addresses", &["time", "overlay", "node"]),
    ("application", &["time", "event", "node"]),
    ("message", &["time", "keys", "overlay", "event", "wire", "session", "node", "application"]),
    (
        "io",
        &[
            "shares",
            "time",
            "keys",
            "overlay",
            "event",
            "config",
            "crypto",
            "transmit",
            "circuit",
            "neighbour",
            "session",
            "routes",
            "node",
            "addresses",
            "application",
            "message",
        ],
    ),
    ("sim", &["time", "keys", "overlay", "config", "crypto", "node", "addresses", "application"]),
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace").to_owned()
}

/// Where a crate of ours lies.
fn folder(name: &str) -> &str {
    match name {
        "program" => "capillary/program",
        "sfio-trace" => "sfio-remote/trace",
        name => name,
    }
}

fn manifest(folder: &str) -> Table {
    let file = workspace().join(folder).join("Cargo.toml");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn table<'a>(manifest: &'a Table, name: &str) -> Option<&'a Table> {
    manifest.get(name).and_then(Value::as_table)
}

fn is_optional(dependency: &Value) -> bool {
    dependency.get("optional").and_then(Value::as_bool).unwrap_or(false)
}

/// All dependency tables of a manifest of that kind, those for a target included.
fn dependencies<'a>(manifest: &'a Table, kind: &str) -> Vec<(&'a str, &'a Value)> {
    let targets = table(manifest, "target").into_iter().flat_map(|targets| targets.values());
    let tables = targets.filter_map(Value::as_table).chain([manifest]);
    tables.filter_map(|at| table(at, kind)).flatten().map(|(name, value)| (name.as_str(), value)).collect()
}

fn show(findings: &[scan::Finding]) -> String {
    findings.iter().map(|finding| format!("\n  {finding}")).collect()
}

#[test]
fn protocol_logic_does_no_io() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let simulator = ("netsim", "the simulator is for sim/ and for tests");
    let findings = scan::scan(&src, &["io", "sim"], &[simulator]);
    assert!(findings.is_empty(), "behind the wall:{}", show(&findings));
}

#[test]
fn the_glue_to_virtual_time_does_no_io_either() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sim");
    let findings = scan::scan(&src, &[], &[]);
    assert!(findings.is_empty(), "behind the wall:{}", show(&findings));
}

#[test]
fn imports_between_the_folders_point_one_way() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let arrows = arrows::arrows(&scan::sources(&src, &[]), &[]);
    println!("\n{}", arrows::show(&arrows));
    for (folder, targets) in &arrows {
        let place = FOLDERS.iter().position(|(name, _)| name == folder);
        let place = place.unwrap_or_else(|| panic!("{folder} is a new folder; give it a place in FOLDERS"));
        let allowed: BTreeSet<String> = FOLDERS[place].1.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(targets, &allowed, "what {folder} imports, and what FOLDERS says that it does");
        let below = |name: &String| FOLDERS[..place].iter().any(|(lower, _)| lower == name);
        let upwards: Vec<&String> = targets.iter().filter(|target| !below(target)).collect();
        assert!(upwards.is_empty(), "{folder} imports {upwards:?}, which FOLDERS has above it");
    }
    assert_eq!(arrows.len(), FOLDERS.len(), "FOLDERS has a folder that is not there");
}

/// Open fields beside methods that change them are looked for in fec-transport alone.
#[test]
fn a_type_is_a_room() {
    let mut faults = String::new();
    for name in CRATES {
        let sources = scan::sources(&workspace().join(folder(name)).join("src"), &["sim"]);
        let rooms = rooms::rooms(&sources);
        for room in &rooms {
            let found = rooms::faults(room, &rooms, &sources);
            let held =
                found.iter().filter(|fault| name == "fec-transport" || !matches!(fault, Fault::Open(_)));
            for fault in held {
                faults += &format!("\n  {name}: {} ({}): {fault}", room.name, room.file.display());
            }
        }
        if name == "fec-transport" {
            print_largest(rooms);
        }
    }
    assert!(faults.is_empty(), "types that others reach into:{faults}");
}

/// The ten largest types by the number of their methods, then of their fields.
fn print_largest(mut rooms: Vec<rooms::Room>) {
    rooms.sort_by_key(|room| std::cmp::Reverse((room.methods, room.fields.len())));
    println!("\n  {:<20} {:>7} {:>6} {:>5}", "type", "methods", "fields", "files");
    for room in rooms.iter().take(10) {
        let (methods, fields, files) = (room.methods, room.fields.len(), room.impls.len());
        println!("  {:<20} {methods:>7} {fields:>6} {files:>5}", room.name);
    }
}

#[test]
fn imports_between_the_crates_point_one_way() {
    for (name, always, optional) in ARROWS {
        let manifest = manifest(name);
        for kind in ["dependencies", "build-dependencies"] {
            for (dependency, value) in dependencies(&manifest, kind) {
                let allowed =
                    always.contains(&dependency) || optional.contains(&dependency) && is_optional(value);
                assert!(!CRATES.contains(&dependency) || allowed, "{name} imports {dependency} as {value}");
            }
        }
        for (dependency, value) in dependencies(&manifest, "dev-dependencies") {
            let allowed = dependency == name || [always, optional].concat().contains(&dependency);
            assert!(
                !CRATES.contains(&dependency) || allowed,
                "the tests of {name} import {dependency} as {value}"
            );
        }
    }
}

#[test]
fn sockets_tasks_and_the_simulator_are_optional_and_belong_to_one_feature() {
    for (name, guarded, feature) in GUARDED {
        let manifest = manifest(name);
        let all = dependencies(&manifest, "dependencies");
        for dependency in guarded {
            let found = all.iter().find(|(other, _)| other == dependency);
            let (_, value) = found.unwrap_or_else(|| panic!("{name} has no {dependency}; mend this test"));
            assert!(is_optional(value), "{name} imports {dependency} in any case");
            let pulling = features_that_name(&manifest, dependency);
            assert!(!pulling.is_empty(), "no feature of {name} pulls {dependency}");
            let stray = pulling.iter().find(|pulling| !contains(&manifest, pulling, feature));
            assert_eq!(stray, None, "it pulls {dependency} of {name} without being part of {feature}");
        }
    }
}

#[test]
fn a_crate_of_ours_comes_without_its_default_features() {
    let root = manifest("");
    let workspace = table(&root, "workspace").expect("the table of the workspace");
    let shared = table(workspace, "dependencies").expect("the table of versions");
    for name in CRATES {
        let defaults = shared[name].get("default-features").and_then(Value::as_bool);
        assert_eq!(defaults, Some(false), "{name} in the table of versions");
        for (dependency, value) in dependencies(&manifest(folder(name)), "dependencies") {
            let asks = value.get("default-features").and_then(Value::as_bool) == Some(true);
            assert!(!(CRATES.contains(&dependency) && asks), "{name} asks for all of {dependency}");
        }
    }
    let default_members = workspace["default-members"].as_array().expect("a list");
    assert_eq!(
        default_members,
        &[Value::from("sfio-remote")],
        "`cargo run --bin sfio` builds only what it needs"
    );
}

#[test]
fn no_crate_is_a_drawer_for_everything() {
    let root = manifest("");
    let members =
        table(&root, "workspace").and_then(|workspace| workspace["members"].as_array()).expect("a list");
    let names: BTreeSet<&str> = members.iter().filter_map(Value::as_str).collect();
    assert!(CRATES.iter().all(|name| names.contains(folder(name))), "{names:?}");
    assert!(["common", "core", "util", "utils"].iter().all(|name| !names.contains(name)), "{names:?}");
}

fn entries<'a>(manifest: &'a Table, feature: &str) -> impl Iterator<Item = &'a str> {
    let list = table(manifest, "features").and_then(|features| features.get(feature)?.as_array());
    list.into_iter().flatten().filter_map(Value::as_str)
}

fn features_that_name(manifest: &Table, dependency: &str) -> Vec<String> {
    let (mark, prefix) = (format!("dep:{dependency}"), format!("{dependency}/"));
    let features = table(manifest, "features").expect("the crate has features").keys();
    let names = |feature: &&String| {
        entries(manifest, feature).any(|entry| entry == mark || entry.starts_with(&prefix))
    };
    features.filter(names).cloned().collect()
}

/// Whether `feature` is `other` or switches it on, at whatever remove.
fn contains(manifest: &Table, feature: &str, other: &str) -> bool {
    feature == other || entries(manifest, feature).any(|entry| contains(manifest, entry, other))
}

// --- the search itself ------------------------------------------------------------------------------------------

fn found(text: &str) -> Vec<(usize, String)> {
    let (code, _) = scan::without_tests(&scan::blanked(text));
    scan::search(Path::new("x.rs"), &code, &[])
        .into_iter()
        .map(|finding| (finding.line, finding.what))
        .collect()
}

#[test]
fn the_search_finds_what_it_is_for() {
    for line in [
        "use std::net::UdpAddr;",
        "let now = std::time::Instant::now();",
        "std::thread::sleep(pause);",
        "let mut map: HashMap<u8, u8> = x;",
        "rand::rng().fill(&mut bytes);",
        "pub async fn run() {}",
        "#[allow(clippy::disallowed_methods)]",
    ] {
        assert!(!found(&format!("\n{line}\n")).is_empty(), "{line}");
        assert!(found(&format!("\n{line}\n")).iter().all(|(at, _)| *at == 2), "{line}");
    }
    assert_eq!(found("use std::{collections::BTreeMap, fs};"), [(1, "use std::{fs}".to_owned())]);
}

#[test]
fn comments_literals_and_tests_are_no_code() {
    for text in [
        "// std::fs",
        "/* tokio /* quinn */ tokio */ fn f() {}",
        "//! `io::Endpoint` drives it on tokio",
        "const A: &str = \"std::net\"; const B: &str = r#\"a \" tokio\"#; const C: &[u8] = br\"tokio\";",
        "const QUOTE: char = '\"'; // tokio \"",
        "fn f<'a>(x: &'a str) -> char { '\\'' } // tokio '",
        "use core::net::SocketAddr;",
        "use rand_core::RngCore; let operand = tokiometer;",
        "#[cfg(test)]\nmod tests {\n    use std::fs;\n    fn f() { if x { tokio } }\n}\n",
        "#[cfg(test)]\nuse std::fs;\nfn f() {}",
    ] {
        assert_eq!(found(text), [], "{text}");
    }
    let field = "struct S {\n    #[cfg(test)]\n    a: Option<fs::File>,\n}\nuse std::fs;\n";
    assert_eq!(scan::without_tests(field).0.matches("fs").count(), 1, "a field of tests ends with its line");
    let behind = "#[cfg(test)]\nmod tests { fn f() {} }\nuse std::fs;\n";
    assert_eq!(found(behind), [(3, "std::fs".to_owned())]);
    let (_, modules) = scan::without_tests("#[cfg(test)]\nmod testing;\n#[cfg(test)] pub(crate) mod more;");
    assert_eq!(modules, ["testing", "more"]);
}
