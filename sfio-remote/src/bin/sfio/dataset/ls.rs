//! `sfio ls`: what is in a generation.

use program::output::Results;
use sfio_remote::replication::{Entry, EntryKind, TreePath};

use super::{Choice, Opened, temporary_file};
use crate::exit::{Exit, Failure, OrFail as _};

/// List what is in a data set
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  sfio ls --overlay try local:photos 2026/summer")]
pub(crate) struct Options {
    #[command(flatten)]
    choice: Choice,

    /// Only this directory, and what is below it
    path: Option<String>,

    /// Print JSON: an object for each entry
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let within = options.path.as_deref().map(parse).transpose()?;
    options.choice.work(async |Opened { manifest, generation, .. }| {
        let mut entries = manifest.entries().or_fail(Exit::Failed, temporary_file())?;
        let mut found = within.is_none();
        let mut results = Results::open(None)?;
        while let Some(entry) =
            entries.read().or_fail(Exit::Integrity, format!("generation {}", generation.number))?
        {
            if within.as_ref().is_some_and(|within| !entry.path.is_within(within)) {
                continue;
            }
            found = true;
            results.line(if options.json { json(&entry) } else { text(&entry) })?;
        }
        match (found, &within) {
            (false, Some(path)) => Err(no_entry(path, generation.number)),
            _ => results.close(),
        }
    })
}

/// A path as users type it.
pub(super) fn parse(text: &str) -> Result<TreePath, Failure> {
    let trimmed = text.trim_start_matches("./").trim_matches('/');
    TreePath::new(trimmed.as_bytes().to_vec())
        .ok_or_else(|| Failure::new(Exit::Usage, format!("\"{text}\" is no path within a data set")))
}

pub(super) fn no_entry(path: &TreePath, generation: u64) -> Failure {
    Failure::new(Exit::Input, format!("generation {generation} has no {path}"))
}

fn text(entry: &Entry) -> String {
    let (kind, more) = match &entry.kind {
        EntryKind::Directory => ('d', String::new()),
        EntryKind::File { .. } => ('-', String::new()),
        EntryKind::Symlink { target } => {
            ('l', format!(" -> {}", String::from_utf8_lossy(target).escape_debug()))
        }
        EntryKind::HardLink { to } => ('h', format!(" = {to}")),
    };
    format!("{kind}{} {:>14} {}{more}", permissions(entry.metadata.mode), entry.size(), entry.path)
}

fn permissions(mode: u16) -> String {
    (0..9).rev().map(|bit| if mode >> bit & 1 == 1 { ['x', 'w', 'r'][bit % 3] } else { '-' }).collect()
}

fn json(entry: &Entry) -> String {
    let kind = match &entry.kind {
        EntryKind::Directory => "directory",
        EntryKind::File { .. } => "file",
        EntryKind::Symlink { .. } => "symlink",
        EntryKind::HardLink { .. } => "hard link",
    };
    let metadata = &entry.metadata;
    let target = match &entry.kind {
        EntryKind::Symlink { target } => Some(String::from_utf8_lossy(target).into_owned()),
        EntryKind::HardLink { to } => Some(String::from_utf8_lossy(to.as_bytes()).into_owned()),
        _ => None,
    };
    serde_json::json!({
        "path": String::from_utf8_lossy(entry.path.as_bytes()), "kind": kind, "target": target, "bytes": entry.size(),
        "mode": format!("{:04o}", metadata.mode), "modified_s": metadata.modified.seconds,
        "modified_ns": metadata.modified.nanoseconds, "user": metadata.owner.user, "group": metadata.owner.group,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_read_as_in_ls() {
        assert_eq!((permissions(0o754).as_str(), permissions(0o001).as_str()), ("rwxr-xr--", "--------x"));
    }
}
