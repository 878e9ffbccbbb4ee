//! The commands of docs/planning.md, as they stand there, in a folder of their own.
//!
//! SNDlib's files may not be handed on with this project, so the page takes a network of the same shape with
//! demands of its own. Where `CAPILLARY_SHARED` names a folder with `topologies/` it is SNDlib's `abilene.xml`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: &str = include_str!("../../docs/planning.md");
const NETWORK: &str = include_str!("fixtures/abilene.xml");

/// What the commands before "What is computed" leave in the folder.
const REPORT: [&str; 6] = ["links.csv", "plan.json", "curves.png", "map.png", "failures.png", "ratings.json"];

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
        None => std::fs::write(file, NETWORK).unwrap(),
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
