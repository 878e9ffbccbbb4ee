//! A file while it is stored: all that is written goes to PATH.sfio-part, which gets the name PATH when it is whole
//! and safe.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use sfio_remote::client::Durability;
use sfio_remote::distribution::Structure;
use sfio_remote::io::{FileError, OpenOptions, Patience, SfioClient};
use sfio_remote::name::{FileName, SubfileName, SubfilePath};
use sfio_remote::sums::{PutId, subfile_of};

use crate::client::{failure, is_missing};
use crate::exit::{Exit, Failure, OrFail as _};
use crate::sums;

/// What the path of a subfile ends with while it is written.
const SUFFIX: &str = ".sfio-part";

/// The name under which a file is written until all of it is there.
///
/// # Errors
/// If it has none, or nothing may be put there.
pub(crate) fn part_name(name: &FileName) -> Result<FileName, Failure> {
    let part =
        |subfile: &SubfileName| SubfileName::new(subfile.member(), &format!("{}{SUFFIX}", subfile.path()));
    let parts: Vec<SubfileName> =
        name.subfiles().iter().map(part).collect::<Result<_, _>>().or_fail(Exit::Usage, name)?;
    refuse_working_files(name)?;
    refuse_clashes(name)?;
    FileName::new(parts).or_fail(Exit::Usage, name)
}

/// Refuses a name of which a subfile is where a put to another name keeps a part, or checksums: it would overwrite
/// them.
fn refuse_working_files(name: &FileName) -> Result<(), Failure> {
    let is_part = |path: &SubfilePath| path.as_str().split('/').any(|name| name.ends_with(SUFFIX));
    let is_needed = |path: &SubfilePath| is_part(path) || subfile_of(path).is_some();
    match name.subfiles().iter().find(|subfile| is_needed(subfile.path())) {
        Some(subfile) => refuse(name, format_args!("{subfile} is where put keeps something of another file")),
        None => Ok(()),
    }
}

/// Refuses a name of which one subfile is a folder of another one.
fn refuse_clashes(name: &FileName) -> Result<(), Failure> {
    let files: BTreeSet<(&str, &SubfilePath)> =
        name.subfiles().iter().map(|subfile| (subfile.member(), subfile.path())).collect();
    for subfile in name.subfiles() {
        let (member, mut folder) = (subfile.member(), subfile.path().folder());
        while !folder.is_root() {
            if files.contains(&(member, &folder)) {
                return refuse(
                    name,
                    format_args!("{member},{folder} would be a file, and the folder of {subfile}"),
                );
            }
            folder = folder.folder();
        }
    }
    Ok(())
}

fn refuse(name: &FileName, why: fmt::Arguments<'_>) -> Result<(), Failure> {
    Err(Failure::new(Exit::Usage, format!("{name}: {why}; choose other paths")))
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
    use std::time::Duration;

    use sfio_remote::client::OperationError;
    use sfio_remote::distribution::StripeUnit;
    use sfio_remote::io::StripedFile;
    use sfio_remote::io::sim::{Cluster, ClusterConfig, Process, World, run};
    use sfio_remote::sums::beside;

    use super::*;
    use crate::sums::FileSums;

    const CONTENT: &str = "what is stored";

    /// A client and two I/O nodes; on each there is a file of a put of its own, with its sums.
    async fn stored(puts: [PutId; 2], seed: u64) -> (Cluster, Process, FileName) {
        let cluster = Cluster::start(ClusterConfig::new(&["client", "io1", "io2"], seed));
        for io_node in ["io1", "io2"] {
            cluster.world().serve(io_node).expect("a new export root");
        }
        let process = cluster.process("client");
        let name: FileName = "io1,x;io2,x;".parse().expect("a right name");
        for (put, subfile) in puts.into_iter().zip(name.subfiles()) {
            let alone = FileName::new(vec![subfile.clone()]).expect("a right name");
            store(process.client(), put, &alone).await;
        }
        (cluster, process, name)
    }

    async fn store(client: &SfioClient, put: PutId, name: &FileName) {
        let file = StripedFile::create(client, name, StripeUnit::DEFAULT).await.expect("created");
        file.write_at(0, CONTENT).await.expect("written");
        file.sync_all().await.expect("synced");
        let mut sums = FileSums::new(put, file.layout().distribution());
        sums.push(CONTENT.as_bytes());
        sums.store(client, name, &patience()).await.expect("stored");
    }

    /// Of somebody who has got on before.
    fn patience() -> Arc<Patience> {
        let patience = Patience::new(Duration::from_secs(60));
        patience.worked();
        Arc::new(patience)
    }

    /// The last step of a put to `name`.
    fn naming(process: &Process, put: PutId, name: &FileName) -> Naming {
        Naming {
            client: process.client().clone(),
            part: part_name(name).expect("it can be"),
            name: name.clone(),
            put,
            options: OpenOptions::new(),
            patience: patience(),
            replaces: false,
        }
    }

    /// An I/O node knows no part.
    fn no_part() -> FileError {
        OperationError::NotFound { name: "io1,x.sfio-part".to_owned() }.into()
    }

    const OURS: PutId = PutId([1; 16]);
    const OTHER: PutId = PutId([2; 16]);

    /// Whoever finds a file under the name takes it for his own only if all of it is: another put may have come first.
    #[test]
    fn a_file_of_another_put_is_not_taken_for_the_renamed_part() {
        for (puts, is_ours) in [([OURS, OURS], true), ([OTHER, OTHER], false), ([OURS, OTHER], false)] {
            run(async {
                let (_cluster, process, name) = stored(puts, 7).await;
                let confirmed = naming(&process, OURS, &name).confirm(no_part()).await;
                assert_eq!(confirmed.is_ok(), is_ours, "{puts:?}: {confirmed:?}");
            });
        }
    }

    /// Without an outage nobody can have renamed the part but this process, which was told that it did not.
    #[test]
    fn a_part_that_is_missing_though_nothing_was_restarted_is_told() {
        run(async {
            let (_cluster, process, name) = stored([OURS, OURS], 7).await;
            assert!(naming(&process, OURS, &name).run().await.is_err());
        });
    }

    /// The I/O nodes had renamed the part, and were killed before they synced its name.
    #[test]
    fn a_confirmed_name_outlives_a_power_loss() {
        for seed in 0..8 {
            run(async {
                let (cluster, process, part) = stored([OURS, OURS], seed).await;
                let name: FileName = "io1,y;io2,y;".parse().expect("a right name");
                rename(&process, &part, &name).await;
                restart(&cluster, World::stop_serving);
                let naming = naming(&process, OURS, &name);
                naming.confirm(no_part()).await.expect("it is of this put");
                restart(&cluster, World::lose_power);
                let client = process.client();
                let patience = patience();
                let is_there = patience.retry(|| naming.options.open(client, &name)).await;
                assert!(is_there.is_ok(), "seed {seed}: {is_there:?}");
                assert!(sums::are_of(OURS, client, &name, &patience).await.is_ok_and(|are| are));
            });
        }
    }

    /// Gives subfiles and their sums other names, which a power loss may undo.
    async fn rename(process: &Process, from: &FileName, to: &FileName) {
        for (old, new) in from.subfiles().iter().zip(to.subfiles()) {
            for path in [SubfilePath::clone, |path: &SubfilePath| beside(path).expect("it can be")] {
                let [old, new] = [old, new].map(|subfile| {
                    let subfile = SubfileName::new(subfile.member(), path(subfile.path()).as_str());
                    FileName::new(vec![subfile.expect("a right name")]).expect("a right name")
                });
                let renamed = process.client().rename(&old, &new, false, Durability::None).await;
                renamed.expect("renamed");
            }
        }
    }

    fn restart(cluster: &Cluster, end: impl Fn(&mut World, &str)) {
        for io_node in ["io1", "io2"] {
            end(&mut cluster.world(), io_node);
            cluster.world().serve(io_node).expect("its own root");
        }
    }

    #[test]
    fn a_part_stands_beside_its_subfile() {
        let part = part_name(&"io1,/a/x; io2, y".parse().expect("a right name")).expect("it can be");
        assert_eq!(part.to_string(), "io1,a/x.sfio-part;io2,y.sfio-part;");
    }

    /// All of it was sent before anything was said; and a put to `x` destroyed what another one had stored where its
    /// part or its checksums were to be.
    #[test]
    fn nothing_is_put_where_something_of_another_file_must_be() {
        let kept = "is where put keeps something of another file";
        for (name, what) in [
            ("io1,x.sfio-part", kept),
            ("io1,y;io2,a/.x.sfio-sums", "io2,a/.x.sfio-sums is where put keeps"),
            ("io1,a/w.sfio-part/x/y", kept),
            ("io1,w;io2,w;io1,w/x", "io1,w would be a file, and the folder of io1,w/x"),
        ] {
            let refusal = part_name(&name.parse().expect("a right name")).expect_err("it is in the way");
            assert!(refusal.to_string().contains(what), "{refusal}");
        }
        let apart = "io1,w;io2,w/x;io1,w.part;io1,ww/x;io2,w.sfio-sums;io2,.w.part";
        assert!(part_name(&apart.parse().expect("a right name")).is_ok());
    }
}
