//! The program's demo on real sockets through emulated links, and the scenes in which it cannot play.
#![cfg(feature = "demo")]

use std::path::Path;
use std::process::{Command, Output};

fn demo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sfio")).arg("demo").args(arguments).output().expect("the program runs")
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// The program failed with that exit code and one line that has all the parts.
fn fails(output: &Output, code: i32, parts: &[&str]) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    for part in parts {
        assert!(message.contains(part), "\"{part}\" in: {message}");
    }
}

/// Checks the exit code as well, and that the message is one line of ours, not a usage text.
fn fails_in_one_line(output: &Output, code: i32, parts: &[&str]) {
    fails(output, code, parts);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(message.trim_end().lines().count(), 1, "{message}");
}

#[test]
fn everything_comes_back_although_the_busiest_link_dies() {
    let report = json(&demo(&["--size", "6MiB", "--json"]));
    assert_eq!(report["ok"], true);
    assert_eq!(report["bytes"], 6 << 20);
    let kill = &report["kill"];
    assert!(kill["share"].as_f64().expect("a share") >= 0.1, "{report}");
    assert!(kill["link"].as_str().expect("a name").contains('–'));
    let paths = report["paths"].as_array().expect("a list");
    for io_node in ["io1", "io2", "io3"] {
        let shares = paths.iter().filter(|path| path["io_node"] == io_node);
        let sum: f64 = shares.map(|path| path["actual_share"].as_f64().expect("a share")).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{report}");
    }
}

#[test]
fn a_folder_of_real_files_comes_back_under_loss() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let folder = sources.to_str().expect("a path in UTF-8");
    let report = json(&demo(&[folder, "--loss", "0.1", "--kill", "none", "--json"]));
    assert_eq!(report["ok"], true);
    assert!(report["files"].as_u64().expect("a number") > 30);
    assert!(report["kill"].is_null());
}

#[test]
fn a_scene_that_cannot_be_played_is_refused_with_its_exit_code() {
    fails_in_one_line(&demo(&["/no/such/folder"]), 3, &["/no/such/folder", "No such file"]);
    fails(&demo(&["--loss", "1"]), 2, &["--loss", "0 to below 1"]);
    fails(&demo(&["--size", "8 Mb"]), 2, &["--size", "64MiB"]);

    let folder = tempfile::tempdir().expect("a temporary folder");
    fails_in_one_line(&demo(&[folder.path().to_str().expect("UTF-8")]), 3, &["holds no files"]);

    let scene = folder.path().join("scene.toml");
    let built_in = String::from_utf8(demo(&["--print-scene"]).stdout).expect("UTF-8");
    let play = |text: &str| {
        std::fs::write(&scene, text).expect("it can be written");
        demo(&["--scene", scene.to_str().expect("UTF-8"), "--size", "1KiB"])
    };
    let unreachable = built_in
        .replace("b = \"io2\"", "b = \"io1\"")
        .replace("a = \"r3\"\nb = \"io1\"", "a = \"r3\"\nb = \"r2\"");
    fails_in_one_line(&play(&without_links_to(&built_in, "io2")), 4, &["io2", "no path"]);
    fails_in_one_line(&play(&unreachable), 3, &["listed twice"]);
    fails_in_one_line(&play(&built_in.replacen("\"r1\"\nrate", "\"r9\"\nrate", 1)), 3, &["r9"]);
    fails_in_one_line(&play("client = "), 3, &["line 1"]);
}

fn without_links_to(scene: &str, member: &str) -> String {
    let (head, links) = scene.split_once("[[link]]").expect("a scene has links");
    let kept = links.split("[[link]]").filter(|link| !link.contains(&format!("\"{member}\"")));
    kept.fold(head.to_owned(), |text, link| format!("{text}[[link]]{link}"))
}

/// Runs the demo in a shell that first sets a limit.
fn limited(limit: &str, arguments: &str) -> Output {
    let command = format!("{limit}; exec '{}' demo {arguments}", env!("CARGO_BIN_EXE_sfio"));
    Command::new("sh").args(["-c", &command]).output().expect("a shell runs")
}

#[test]
fn a_full_disk_ends_it_with_the_place() {
    // ulimit -f counts blocks of 512 or of 1,024 bytes.
    let output = limited("ulimit -f 200", "--size 4MiB --kill none");
    fails_in_one_line(&output, 6, &["io", "demo/", "too large"]);
}

#[test]
fn without_sockets_it_ends_with_the_address() {
    let output = limited("ulimit -n 16", "--size 1KiB");
    fails_in_one_line(&output, 4, &["127.0.0.1", "Too many open files"]);
}

#[test]
fn a_file_that_cannot_be_read_is_named_before_anything_is_sent() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("secret");
    std::fs::write(&file, b"x").expect("it can be written");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).expect("it is ours");
    if std::fs::File::open(&file).is_ok() {
        eprintln!("skipped: this user reads files without permission (root does)");
        return;
    }
    fails_in_one_line(&demo(&[folder.path().to_str().expect("UTF-8")]), 3, &["secret", "denied"]);
}
