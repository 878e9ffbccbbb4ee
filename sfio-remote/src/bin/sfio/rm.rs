//! `sfio rm`: removes a striped file.

use sfio_remote::client::Durability;

use crate::client::{Identification, failure};
use crate::exit::Failure;
use crate::striped::{StripedName, Striping};

/// Remove a striped file: those of its subfiles that there are
///
/// When it returns they are gone for good, also after a power loss.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  sfio rm --overlay try \"io1,notes.txt;io2,notes.txt\"")]
pub(crate) struct Options {
    /// The striped file: "member,path;member,path;…", or SITE:PATH
    name: StripedName,

    #[command(flatten)]
    identification: Identification,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    options.identification.work(async |session| {
        let name = options.name.resolve(session, &Striping::default())?.name;
        let removed = session.client().remove(&name, Durability::OnEveryCall).await;
        removed.map_err(|error| failure(&error))
    })
}
