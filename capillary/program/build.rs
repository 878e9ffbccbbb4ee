//! Tells the programs which commit they are built from.

use std::path::Path;
use std::process::Command;

/// Hexadecimal digits of a commit that are shown.
const SHOWN: usize = 12;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Debug builds are made after every commit: if they told it, each would compile everything that imports this crate.
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = if is_release { packaged().or_else(checked_out) } else { None };
    let (commit, told) = match commit.as_deref().map(|commit| &commit[..SHOWN]) {
        Some(commit) => (commit.to_owned(), format!("commit {commit}")),
        None if is_release => ("unknown".to_owned(), "commit unknown".to_owned()),
        None => ("unknown".to_owned(), "debug build".to_owned()),
    };
    println!("cargo:rustc-env=PROGRAM_COMMIT={commit}");
    println!("cargo:rustc-env=PROGRAM_COMMIT_TOLD={told}");
}

/// What `cargo package` has noted in a package from a registry, which has no git around it.
fn packaged() -> Option<String> {
    let noted = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let after = noted.split_once("\"sha1\"")?.1;
    is_commit(after.split('"').nth(1)?)
}

/// What git says, if this very file is one of its own: the folder may lie in somebody else's repository.
fn checked_out() -> Option<String> {
    // These first: what git does not know today it may know after the next commit.
    for place in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", place])?;
        if Path::new(&path).exists() {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    is_commit(&git(&["rev-parse", "HEAD"])?)
}

/// What a git command prints, if there is git and it succeeds.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn is_commit(text: &str) -> Option<String> {
    let is_hash = text.len() >= SHOWN && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| text.to_owned())
}
