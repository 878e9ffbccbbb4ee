//! `sfio rm`: removes a striped file.

use program::output;
use sfio_remote::client::Durability;
use sfio_remote::io::SfioClient;
use sfio_remote::name::FileName;
use tokio::task::JoinSet;

use crate::client::{Identification, failure, is_missing};
use crate::exit::{Exit, Failure, OrFail as _, exit_of};
use crate::striped::{StripedName, Striping};

/// Remove a striped file: those of its subfiles that there are
///
/// When it returns they are gone for good, also after a power loss. Subfiles that did not exist are named on standard
/// error; if none did, that is exit code 3.
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
        remove(session.client(), &name).await
    })
}

/// Removes each subfile by itself: if an I/O node cannot be reached, those of the others are gone all the same, and
/// users are told which.
async fn remove(client: &SfioClient, name: &FileName) -> Result<(), Failure> {
    let mut removals = JoinSet::new();
    for subfile in name.subfiles() {
        let (client, subfile) = (client.clone(), subfile.clone());
        let alone = FileName::new(vec![subfile.clone()]).or_fail(Exit::Failed, name)?;
        removals.spawn(async move { (subfile, client.remove(&alone, Durability::OnEveryCall).await) });
    }
    let (mut gone, mut missing, mut failed) = (Vec::new(), Vec::new(), None);
    while let Some(removal) = removals.join_next().await {
        match removal.or_fail(Exit::Failed, "a removal")? {
            (subfile, Ok(())) => gone.push(subfile.to_string()),
            (subfile, Err(error)) if is_missing(&error) => missing.push(subfile.to_string()),
            (subfile, Err(error)) => failed = failed.or(Some((subfile, error))),
        }
    }
    gone.sort_unstable();
    missing.sort_unstable();
    if !missing.is_empty() && missing.len() < name.subfiles().len() {
        output::note(format_args!("not removed, because there is no such subfile: {}", missing.join("; ")));
    }
    match failed {
        None if gone.is_empty() => Err(Failure::new(Exit::Input, format!("{name}: no such file"))),
        None => Ok(()),
        Some((_, error)) if gone.is_empty() => Err(failure(&error)),
        Some((subfile, error)) => Err(Failure::new(
            exit_of(&error),
            format!("{subfile}: {error}; removed: {}; give the command again", gone.join("; ")),
        )),
    }
}
