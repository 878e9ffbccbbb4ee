//! The commands of docs/planning.md, as they stand there, in a folder of their own.
//!
//! The page takes a file of SNDlib, which may not be handed on with this project. Where `CAPILLARY_SHARED` names a
//! folder with `topologies/` it is SNDlib's `abilene.xml`; else it is a network of the same shape with demands of its
//! own.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: &str = include_str!("../../docs/planning.md");

/// What the commands before "What is computed" leave in the folder.
const REPORT: [&str; 6] = ["links.csv", "plan.json", "curves.png", "map.png", "failures.png", "ratings.json"];

/// Nodes as SNDlib calls those of Abilene, with longitudes and latitudes.
const NODES: [(&str, f64, f64); 11] = [
    ("ATLAng", -84.4, 33.8),
    ("CHINng", -87.6, 41.8),
    ("DNVRng", -105.0, 40.8),
    ("HSTNng", -95.5, 29.8),
    ("IPLSng", -86.2, 39.8),
    ("KSCYng", -96.6, 39.0),
    ("LOSAng", -118.3, 34.1),
    ("NYCMng", -74.0, 40.8),
    ("SNVAng", -122.0, 37.4),
    ("STTLng", -122.3, 47.6),
    ("WASHng", -77.0, 38.9),
];

const LINKS: [(usize, usize); 14] = [
    (0, 3),
    (0, 4),
    (0, 10),
    (1, 4),
    (1, 7),
    (2, 5),
    (2, 8),
    (2, 9),
    (3, 5),
    (3, 6),
    (4, 5),
    (6, 8),
    (7, 10),
    (8, 9),
];

/// A network in SNDlib's XML, with a demand between each two nodes.
fn network() -> String {
    let mut text =
        String::from("<?xml version=\"1.0\"?>\n<network xmlns=\"http://sndlib.zib.de/network\">\n");
    text.push_str("<networkStructure><nodes coordinatesType=\"geographical\">\n");
    for (name, x, y) in NODES {
        let place = format!("<coordinates><x>{x}</x><y>{y}</y></coordinates>");
        let _ = writeln!(text, "<node id=\"{name}\">{place}</node>");
    }
    text.push_str("</nodes><links>\n");
    for (index, (from, to)) in LINKS.into_iter().enumerate() {
        let (from, to) = (NODES[from].0, NODES[to].0);
        let modules = "<additionalModules><addModule><capacity>9920</capacity><cost>1</cost></addModule></additionalModules>";
        let _ = writeln!(
            text,
            "<link id=\"L{index}\"><source>{from}</source><target>{to}</target>{modules}</link>"
        );
    }
    text.push_str("</links></networkStructure><demands>\n");
    for (from, (source, ..)) in NODES.iter().enumerate() {
        for (to, (target, ..)) in NODES.iter().enumerate().filter(|(to, _)| *to != from) {
            let ends = format!("<source>{source}</source><target>{target}</target>");
            let value = 10 * (1 + (from * 7 + to * 3) % 11);
            let limit = "<maxPathLength>UNLIMITED</maxPathLength>";
            let _ = writeln!(
                text,
                "<demand id=\"{source}_{target}\">{ends}<demandValue>{value}</demandValue>{limit}</demand>"
            );
        }
    }
    text + "</demands></network>\n"
}

/// The commands of the page's first block.
fn commands() -> Vec<&'static str> {
    let block =
        PAGE.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block of commands");
    block.lines().filter(|line| !line.trim().is_empty()).collect()
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("planning");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("abilene.xml");
    match std::env::var_os("CAPILLARY_SHARED") {
        Some(root) => {
            let original = Path::new(&root).join("topologies/sndlib-xml/abilene.xml");
            // Not `copy`, which copies that it may not be written, too.
            std::fs::write(file, std::fs::read(original).unwrap()).unwrap();
        }
        None => std::fs::write(file, network()).unwrap(),
    }
    folder
}

#[test]
fn the_ten_commands_of_the_page_run_as_written() {
    let programs = Path::new(env!("CARGO_BIN_EXE_capillary")).parent().unwrap();
    let path = std::env::join_paths(
        std::iter::once(programs.to_path_buf())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    )
    .unwrap();
    let (folder, commands) = (folder(), commands());
    assert_eq!(commands.len(), 10);
    let mut report = REPORT.to_vec();
    for command in commands {
        // The program of another crate is there after `cargo build` or `cargo test` of the workspace.
        if command.starts_with("ror ") && !programs.join("ror").exists() {
            let _ = writeln!(std::io::stderr(), "skipped: there is no program ror for: {command}");
            report.retain(|file| *file != "ratings.json");
            continue;
        }
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(&folder)
            .env("PATH", &path)
            .output()
            .unwrap();
        let wrong = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {wrong}");
        assert!(
            !output.stdout.is_empty() || command.contains(" -o ") || command.contains(" > "),
            "{command}"
        );
    }
    for file in report {
        let size = std::fs::metadata(folder.join(file)).map_or(0, |file| file.len());
        assert!(size > 0, "{file} is missing or empty");
    }
}
