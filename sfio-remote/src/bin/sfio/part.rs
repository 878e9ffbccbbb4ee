//! A file while it is stored: all that is written goes to PATH.part, which gets the name PATH when it is whole and
//! safe.

use std::sync::Arc;

use sfio_remote::client::Durability;
use sfio_remote::distribution::Structure;
use sfio_remote::io::{FileError, OpenOptions, Patience, SfioClient};
use sfio_remote::name::{FileName, SubfileName};
use sfio_remote::sums::PutId;

use crate::client::{failure, is_missing};
use crate::exit::{Exit, Failure, OrFail as _};
use crate::sums;

/// The name under which a file is written until all of it is there.
///
/// # Errors
/// If it has none, or one of its subfiles has that name.
pub(crate) fn part_name(name: &FileName) -> Result<FileName, Failure> {
    let part =
        |subfile: &SubfileName| SubfileName::new(subfile.member(), &format!("{}.part", subfile.path()));
    let parts: Vec<SubfileName> =
        name.subfiles().iter().map(part).collect::<Result<_, _>>().or_fail(Exit::Usage, name)?;
    if let Some(taken) = parts.iter().find(|part| name.subfiles().contains(part)) {
        let message =
            format!("{name}: {taken} is needed for a subfile while it is written; choose other paths");
        return Err(Failure::new(Exit::Usage, message));
    }
    FileName::new(parts).or_fail(Exit::Usage, name)
}

/// What users are told of a file that is not there. If a put has ended before it could give its part the name, that is
/// where the bytes are.
pub(crate) async fn not_there(client: &SfioClient, name: &FileName, options: &OpenOptions) -> Failure {
    let message = match whole_part(client, name, options).await {
        Some(part) => format!(
            "{name}: no such file; a put has ended before it could give it the name: all of it is \"{part}\", which \
             get fetches, and the next put to this name overwrites"
        ),
        None => format!("{name}: no such file"),
    };
    Failure::new(Exit::Input, message)
}

async fn whole_part(client: &SfioClient, name: &FileName, options: &OpenOptions) -> Option<FileName> {
    let part = part_name(name).ok()?;
    let file = options.open(client, &part).await.ok()?;
    matches!(file.stat_when_opened().structure(), Structure::Intact { .. }).then_some(part)
}

/// The last step of a put: a part that is whole and safe gets its name.
pub(crate) struct Naming {
    pub(crate) client: SfioClient,
    pub(crate) part: FileName,
    pub(crate) name: FileName,
    /// Which put it is, as the checksums of the part say.
    pub(crate) put: PutId,
    pub(crate) options: OpenOptions,
    pub(crate) patience: Arc<Patience>,
    /// Whether there is a file of that name, which goes.
    pub(crate) replaces: bool,
}

impl Naming {
    /// # Errors
    /// What is in the way. If the old file is gone by then, the part is all there is.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let Naming { client, part, name, patience, .. } = &self;
        let client = client.patiently(patience);
        if self.replaces {
            match client.remove(name, Durability::OnEveryCall).await {
                // Removed, and then the I/O nodes were restarted: they do not know who asked.
                Err(error) if is_missing(&error) && patience.outages() > 0 => self.sync_names().await?,
                removed => removed.map_err(told)?,
            }
        }
        let renamed = match client.rename(part, name, false, Durability::OnEveryCall).await {
            Err(error) if is_missing(&error) && patience.outages() > 0 => self.confirm(error).await,
            renamed => renamed.map_err(told),
        };
        let has_part =
            |error: Failure| format!("{error}; all of it is stored as \"{part}\": give the command again");
        renamed.map_err(|error| Failure::new(error.exit, has_part(error)))
    }

    /// An I/O node knows no part: it was restarted after it had renamed it, and does not know who asked. Then the
    /// subfiles that have the name are those of this put, and are as safe as after a rename once their names are
    /// synced.
    async fn confirm(&self, error: FileError) -> Result<(), Failure> {
        let Naming { client, name, patience, .. } = self;
        let file = patience.retry(|| self.options.open(client, name)).await.map_err(told)?;
        patience.retry(|| file.sync_all()).await.map_err(told)?;
        if sums::are_of(self.put, client, name, patience).await.map_err(told)? {
            Ok(())
        } else {
            Err(told(error))
        }
    }

    /// Makes sure that what has no such name any more has none after a power loss either.
    async fn sync_names(&self) -> Result<(), Failure> {
        for subfile in self.name.subfiles() {
            let (member, folder) = (subfile.member(), subfile.path().folder());
            let list = || self.client.list(member, &folder, None, Durability::OnEveryCall);
            self.patience.retry(list).await.map_err(told)?;
        }
        Ok(())
    }
}

fn told(error: FileError) -> Failure {
    failure(&error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_stands_beside_its_subfile() {
        let part = part_name(&"io1,/a/x; io2, y".parse().expect("a right name")).expect("it can be");
        assert_eq!(part.to_string(), "io1,a/x.part;io2,y.part;");
    }

    #[test]
    fn a_subfile_in_the_place_of_anothers_part_is_refused() {
        let name = "io1,x;io1,x.part".parse().expect("a right name");
        let refusal = part_name(&name).expect_err("one would overwrite the other");
        assert!(refusal.to_string().contains("io1,x.part is needed"), "{refusal}");
    }
}
