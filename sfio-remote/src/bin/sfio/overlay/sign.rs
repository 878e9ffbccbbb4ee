//! `sfio overlay sign`: the operator's signature over an overlay file.

use std::io::Write as _;
use std::path::PathBuf;

use fec_transport::io::files::{key_file, signature_file};
use fec_transport::overlay::{OperatorKey, Overlay, sign};

use crate::exit::{Exit, Failure, OrFail as _};

/// Sign an overlay file with the operator's key: writes FILE.sig
///
/// Members whose config names the operator (operator = "…", as `sfio keygen --operator` prints it) take no overlay file
/// without this signature. Copy both files to every member, then have each read them: SIGHUP or `sfio reload`. A member
/// that runs takes a file only if its serial is larger than that of the file in use.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  sfio overlay sign overlay.toml --key operator.key")]
pub(crate) struct Options {
    /// The overlay file
    file: PathBuf,

    /// The operator's key file
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let place = format!("overlay file {}", options.file.display());
    let text = std::fs::read_to_string(&options.file).or_fail(Exit::Input, &place)?;
    let overlay = Overlay::parse(&text).or_fail(Exit::Input, place)?;
    let operator = key_file::read(&options.key).or_exit(Exit::Input)?;
    if let Some(member) = overlay.find_by_ed25519(&operator.public().ed25519) {
        let problem = format!(
            "this is the key of member {}; a signature counts if it is the operator's, who has a key of his own (sfio \
             keygen --operator)",
            overlay.member(member).name
        );
        return Err(Failure::input(&options.key, problem));
    }
    let target = signature_file(&options.file);
    let place = target.display().to_string();
    // A member that reads it meanwhile finds the old one or the new one.
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(std::path::Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).or_fail(Exit::Failed, &place)?;
    writeln!(file, "{}", sign(&operator, text.as_bytes())).or_fail(Exit::Failed, &place)?;
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.as_file().set_permissions(readable).or_fail(Exit::Failed, &place)?;
    file.as_file().sync_all().or_fail(Exit::Failed, &place)?;
    file.persist(&target).or_fail(Exit::Failed, &place)?;
    let key = OperatorKey::of(&operator).to_text();
    program::line!("{place}: serial {}, signed by operator {key}", overlay.serial)
}
