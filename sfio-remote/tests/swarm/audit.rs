//! After faults: what was acknowledged is there.

use sfio_remote::io::replication::ManifestCache;
use sfio_remote::io::sim::{Cluster, Process};

use crate::commands::{Failure, Site, generations, restore, verify};
use crate::faults::Shared;
use crate::trees::{Trees, folder, picture};

/// Codes with which a command may say that something is gone: an I/O node is away, an export root without its identity, lost
/// or damaged.
const SAYS_SO: [u8; 3] = [3, 4, 5];

/// Restores every generation that must be there, and compares it with the tree that was sent.
pub(crate) async fn audit(
    cluster: &Cluster,
    shared: &Shared,
    site: &Site,
    cache: &ManifestCache,
    remembers: bool,
) -> Result<u64, String> {
    let is_empty = shared.scene().book.all().is_empty();
    if is_empty {
        return Ok(0);
    }
    let process = cluster.process("auditor");
    let audit = Audit { process, shared, site, cache, remembers };
    let result = audit.run().await;
    cluster.world().kill(audit.process.peer());
    result
}

struct Audit<'a> {
    process: Process,
    shared: &'a Shared,
    site: &'a Site,
    cache: &'a ManifestCache,
    /// Whether the cache has seen the data set before.
    remembers: bool,
}

impl Audit<'_> {
    async fn run(&self) -> Result<u64, String> {
        let (client, is_damaged) = (self.process.client(), self.shared.scene().book.is_damaged());
        let listed = match generations(client, self.site).await {
            Ok(listed) => listed,
            Err(failure) if is_damaged && SAYS_SO.contains(&failure.code) => return Ok(0),
            Err(failure) => return Err(format!("the list of generations: {failure:?}")),
        };
        let retained = self.shared.scene().book.retained(&listed);
        let is_excused = is_damaged && self.site.io_nodes.len() == 1 && !self.remembers;
        let (mut restored, mut lost) = (0, Vec::new());
        for (generation, tree) in retained {
            match self.restore(generation, tree).await? {
                Ok(()) => restored += 1,
                Err(failure) => {
                    let strict = self.shared.scene().book.must_be_whole(generation);
                    if !is_damaged || strict {
                        return Err(format!(
                            "generation {generation} of {listed:?}, tree {tree}, is not restored: {failure:?}"
                        ));
                    }
                    let is_listed = listed.contains(&generation);
                    if (!is_listed && !is_excused) || !SAYS_SO.contains(&failure.code) && failure.code != 6 {
                        return Err(format!(
                            "generation {generation} of {listed:?} is gone, and nobody says so: {failure:?}"
                        ));
                    }
                    lost.push(generation);
                }
            }
        }
        let verified = verify(client, self.site, self.cache).await;
        match verified {
            Ok(()) if lost.iter().any(|generation| listed.contains(generation)) => {
                Err(format!("verify finds all well, but generations {lost:?} cannot be restored"))
            }
            Err(failure) if !is_damaged => Err(format!("verify: {failure:?}")),
            Err(failure) if !SAYS_SO.contains(&failure.code) => {
                Err(format!("verify of a damaged disk: {failure:?}"))
            }
            Err(_) => {
                self.shared.scene().book.damage_is_known();
                Ok(restored)
            }
            Ok(()) => Ok(restored),
        }
    }

    /// What the command says; an error if it says that all is well and it is not.
    async fn restore(&self, generation: u64, tree: usize) -> Result<Result<(), Failure>, String> {
        let target = folder();
        let restored = restore(self.process.client(), self.site, self.cache, generation, target.path()).await;
        if restored.is_ok() && picture(target.path()) != *Trees::all().picture(tree) {
            return Err(format!("generation {generation} is restored with code 0, but is not tree {tree}"));
        }
        Ok(restored)
    }
}
