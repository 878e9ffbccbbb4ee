//! `sfio keygen`: a member's key.

use std::path::PathBuf;

use fec_transport::keys::encode_key;
use fec_transport::overlay::OperatorKey;

use fec_transport::io::files::key_file;

use program::output;
use serde_json::json;

use crate::exit::{Exit, Failure, OrFail as _};

/// Make a member's key and print its public half
///
/// The secret goes to FILE (mode 0600, never overwritten) and stays on the member's machine. What is printed belongs
/// to the member's entry in the overlay file, which every member has.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  sfio keygen io1/key\n  \
                  sfio keygen --operator operator.key")]
pub(crate) struct Options {
    /// The key file
    file: PathBuf,

    /// Print the public half of the key that FILE holds already
    #[arg(long)]
    show: bool,

    /// Make the key of an operator, who signs overlay files; what is printed belongs into the members' config files
    #[arg(long)]
    operator: bool,

    /// Print one JSON object instead of lines for a TOML file
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let identity = if options.show { key_file::read(&options.file) } else { key_file::create(&options.file) };
    let identity = identity.or_exit(Exit::Input)?;
    if options.operator {
        let operator = OperatorKey::of(&identity).to_text();
        return match options.json {
            true => output::json(&json!({ "operator": operator })),
            false => program::line!("operator = \"{operator}\""),
        };
    }
    let keys = identity.public();
    let (ed25519, x25519) = (encode_key(&keys.ed25519), encode_key(&keys.x25519));
    match options.json {
        true => output::json(&json!({ "ed25519": ed25519, "x25519": x25519 })),
        false => program::line!("ed25519 = \"{ed25519}\"\nx25519 = \"{x25519}\""),
    }
}
