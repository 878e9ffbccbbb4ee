//! `sfio keygen`: a member's key.

use std::path::PathBuf;

use fec_transport::keys::encode_key;
use fec_transport::overlay::OperatorKey;

use sfio_remote::io::membership::key_file;

use crate::exit::Failure;

/// Make a member's key and print its public half
///
/// The secret goes to FILE (mode 0600, never overwritten) and stays on the member's machine. What is printed belongs
/// to the member's entry in the overlay file, which every member has.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The key file
    file: PathBuf,

    /// Print the public half of the key that FILE holds already
    #[arg(long)]
    show: bool,

    /// Make the key of an operator, who signs overlay files; what is printed belongs into the members' config files
    #[arg(long)]
    operator: bool,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let identity =
        if options.show { key_file::read(&options.file)? } else { key_file::create(&options.file)? };
    if options.operator {
        println!("operator = \"{}\"", OperatorKey::of(&identity).to_text());
        return Ok(());
    }
    let keys = identity.public();
    println!("ed25519 = \"{}\"", encode_key(&keys.ed25519));
    println!("x25519 = \"{}\"", encode_key(&keys.x25519));
    Ok(())
}
