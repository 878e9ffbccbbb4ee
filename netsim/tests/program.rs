//! The program as its users see it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use capillary::format::{ReadOptions, read};
use serde_json::Value;

const THREE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/three.movements");

const WALK: [&str; 14] = [
    "manet",
    "walk",
    "--nodes",
    "40",
    "--degree",
    "6",
    "--range",
    "100",
    "--speed",
    "5..15",
    "--frames",
    "12",
    "--interval",
    "2",
];

fn netsim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_netsim")).args(arguments).output().unwrap()
}

/// What the program prints when it succeeds.
fn printed(arguments: &[&str]) -> String {
    let output = netsim(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "quiet in a pipe");
    String::from_utf8(output.stdout).unwrap()
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A path of this test run's own.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[track_caller]
fn fails(arguments: &[&str], code: i32, message: &str) {
    let output = netsim(arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert!(errors.contains(message), "{errors}");
}

#[test]
fn machines_see_a_row_per_frame_and_a_summary() {
    let rows = json_lines(&printed(&[&WALK[..], &["--pair", "0,5", "--json"]].concat()));
    assert_eq!(rows.len(), 13);
    assert_eq!((&rows[0]["formed"], &rows[3]["time_s"]), (&Value::Null, &Value::from(6.0)));
    let links: f64 = rows[..12].iter().map(|row| row["links"].as_f64().unwrap()).sum();
    let summary = &rows[12]["summary"];
    assert_eq!((&summary["frames"], &summary["nodes"]), (&Value::from(12), &Value::from(40)));
    let mean_degree = summary["mean_degree"].as_f64().unwrap();
    assert!((mean_degree - 2.0 * links / 12.0 / 40.0).abs() < 1e-9);
    assert!(rows[..12].iter().all(|row| row["minimum_cut"].is_u64()));
    assert!(summary["mean_link_duration_s"].as_f64().unwrap() > 2.0);
}

#[test]
fn people_see_the_same() {
    let text = printed(&["manet", "trace", THREE, "--range", "55", "--interval", "10", "--pair", "0,2"]);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    // At 0 s (0,0), (30,0), (-5,10); at 10 s (33,40), (30,0), (-5,30); at 20 s (53,40), (30,0), (3,30).
    assert_eq!(rows[1], ["0", "0s", "3", "2.000", "0", "1", "3", "100.00%", "-", "-", "2"]);
    assert_eq!(rows[2], ["1", "10s", "3", "2.000", "0", "1", "3", "100.00%", "0", "0", "2"]);
    assert_eq!(rows[3], ["2", "20s", "3", "2.000", "0", "1", "3", "100.00%", "0", "0", "2"]);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("link duration     none has broken"), "{text}");
    let summary = printed(&[
        "manet",
        "trace",
        THREE,
        "--range",
        "55",
        "--interval",
        "10",
        "--pair",
        "0,2",
        "--summary",
    ]);
    assert!(text.ends_with(&format!("\n\n{summary}")), "{summary}");
}

#[test]
fn equal_seeds_print_equal_rows() {
    let with_seed = |seed| printed(&[&WALK[..], &["--seed", seed]].concat());
    assert_eq!(with_seed("4"), with_seed("4"));
    assert_ne!(with_seed("4"), with_seed("5"));
}

#[test]
fn every_model_writes_traces_that_give_the_same_rows() {
    let models: [&[&str]; 4] = [
        &["walk", "--speed", "5..15", "--leg", "3"],
        &["waypoint", "--speed", "5..15", "--pause", "0..4"],
        &["gauss-markov", "--mean-speed", "4", "--deviation", "3"],
        &["groups", "--size", "5", "--radius", "30", "--speed", "5..15"],
    ];
    for model in models {
        for ending in ["movements", "movements.gz", "ns2", "ns_movements.gz"] {
            let file = path(&format!("{}.{ending}", model[0]));
            let file = file.to_str().unwrap();
            let common = ["--range", "60", "--frames", "21", "--interval", "1", "--json"];
            let place = ["--nodes", "30", "--area", "300x200", "--write-trace", file];
            let direct = printed(&[&["manet"], model, &common, &place].concat());
            let shift: &[&str] = if ending.starts_with("ns") { &["--shift", "10"] } else { &[] };
            let again = printed(&[&["manet", "trace", file], &common[..], shift].concat());
            let rows = |text: &str| json_lines(text)[..21].to_vec();
            assert_eq!(rows(&direct), rows(&again), "{file}");
        }
    }
}

#[test]
fn frames_become_topology_files_json_lines_and_a_picture() {
    let (folder, lines, picture) = (path("frames"), path("frames.jsonl"), path("frame.svg"));
    let [folder, lines, picture] = [&folder, &lines, &picture].map(|path| path.to_str().unwrap());
    let files = ["--write-frames", folder, "--write-json", lines, "--draw", picture, "--draw-frame", "3"];
    let rows = json_lines(&printed(&[&WALK[..], &files, &["--json"]].concat()));
    let lines = json_lines(&std::fs::read_to_string(lines).unwrap());
    for number in 0..12 {
        let file = std::fs::read(Path::new(folder).join(format!("frame-{number:02}.json"))).unwrap();
        let topology = read(&file, &ReadOptions::default()).unwrap().topology;
        assert_eq!(
            (topology.node_count() as u64, topology.link_count() as u64),
            (40, rows[number]["links"].as_u64().unwrap())
        );
        let (_, from, to, _) = topology.links().next().unwrap();
        assert_eq!(lines[number]["links"][0], serde_json::json!([from.0, to.0]));
        let place = topology.nodes().nth(7).unwrap().1.position.unwrap();
        assert_eq!(lines[number]["positions"][7], serde_json::json!([place.x, place.y]));
    }
    assert!(std::fs::read_to_string(picture).unwrap().starts_with("<svg"));
}

#[test]
fn what_makes_no_sense_is_one_line_and_the_right_exit_code() {
    fn walk<'a>(more: &[&'a str]) -> Vec<&'a str> {
        [&["manet", "walk", "--range", "100", "--speed", "5"], more].concat()
    }
    fails(&walk(&["--nodes", "40"]), 2, "--area");
    fails(&walk(&["--nodes", "0", "--area", "9x9"]), 2, "\"0\" is no number of at least 1");
    fails(&walk(&["--nodes", "9", "--degree", "99"]), 2, "mean degree 99");
    fails(&walk(&["--nodes", "9", "--area", "9"]), 2, "expected WIDTHxHEIGHT");
    fails(
        &walk(&["--nodes", "9", "--area", "9x9", "--pair", "0,9"]),
        2,
        "--pair 0,9: the motion has 9 nodes",
    );
    fails(&walk(&["--nodes", "9", "--area", "9x9", "--interval", "0"]), 2, "above 0");
    fails(
        &walk(&["--nodes", "9", "--area", "9x9", "--draw", "x.svg", "--draw-frame", "100"]),
        2,
        "100 frames",
    );
    fails(
        &walk(&["--nodes", "9", "--area", "9x9", "--draw", "x.jpg"]),
        2,
        "--draw x.jpg: the picture is SVG or PNG",
    );
    fails(&walk(&["--nodes", "9", "--area", "9x9", "--write-trace", "x.txt"]), 2, "does not tell the format");
    fails(&["manet", "trace", "missing.movements", "--range", "9"], 3, "missing.movements: No such file");
    let bad = path("bad.movements");
    std::fs::write(&bad, "0 1 2\n0 1 x\n").unwrap();
    fails(
        &["manet", "trace", bad.to_str().unwrap(), "--range", "9"],
        3,
        "bad.movements: line 2: \"x\" where a coordinate in metres should stand",
    );
    let negative = ["manet", "trace", THREE, "--range", "9", "--margin", "5", "--write-trace", "x.ns2"];
    fails(&negative, 2, "--margin 5: the least coordinate would be 0");
}

#[test]
fn every_help_has_an_example() {
    for command in [&["manet"][..], &["manet", "walk"], &["manet", "waypoint"], &["manet", "gauss-markov"]] {
        assert!(printed(&[command, &["--help"]].concat()).contains("netsim manet"), "{command:?}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure_and_a_full_disk_is_one() {
    let walk_in_json = [&WALK[..], &["--json"]].concat();
    let motions: [&[&str]; 7] = [
        &WALK,
        &walk_in_json,
        &["manet", "waypoint", "--nodes", "9", "--area", "50x50", "--range", "20", "--speed", "0.5..1.5"],
        &[
            "manet",
            "gauss-markov",
            "--nodes",
            "9",
            "--area",
            "50x50",
            "--range",
            "20",
            "--mean-speed",
            "3",
            "--deviation",
            "1",
        ],
        &[
            "manet", "groups", "--nodes", "9", "--size", "3", "--radius", "4", "--area", "80x80", "--range",
            "20", "--speed", "2..5",
        ],
        &["manet", "trace", THREE, "--range", "150"],
        &["manet", "walk", "--help"],
    ];
    for motion in motions {
        let mut command = Command::new(env!("CARGO_BIN_EXE_netsim"));
        assert_eq!(program::reader::leaves_early(command.args(motion)), Ok(()));
        if !motion.contains(&"--help") {
            assert_eq!(program::reader::misses_room(&mut command), Ok(()));
        }
    }
}

#[test]
fn rows_go_to_the_file_that_output_names() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rows.txt");
    let to_file = [&WALK[..], &["-o", target.to_str().unwrap()]].concat();
    assert_eq!(printed(&to_file), "");
    assert_eq!(std::fs::read_to_string(&target).unwrap(), printed(&WALK));
}

#[test]
fn times_have_units_and_no_nodes_are_refused() {
    let with = |interval: &str| {
        let walk = [&WALK[..12], &["--interval", interval, "--json"]].concat();
        printed(&walk)
    };
    assert_eq!((with("2s"), with("2000ms")), (with("2"), with("2")));
    let walk = |nodes| ["manet", "walk", "--nodes", nodes, "--degree", "6", "--range", "100", "--speed", "5"];
    fails(&walk("0"), 2, "'--nodes <N>': \"0\" is no number of at least 1; expected 1, 2, 3, …");
    fails(&walk("-1"), 2, "'--nodes <N>': \"-1\" is no number of at least 1");
}
