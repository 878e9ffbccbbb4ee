//! A member whose program is broken, or whose key is stolen: it lays hands on what is published, past all that
//! publishes.

use sfio_remote::client::Durability;
use sfio_remote::dataset::DatasetPath;
use sfio_remote::io::{FileError, OpenOptions, StripedFile};
use sfio_remote::name::{FileName, SubfileName, SubfilePath};
use sfio_remote::replication::RunId;
use sfio_remote::sim::Dice;

use crate::commands::User;

/// What is done to an object that the newest record needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trespass {
    Overwrites,
    Truncates,
    Removes,
    Renames,
    /// Has it called durable, although whoever wrote it may have lost what was not.
    Syncs,
    Reclaims,
}

impl User {
    /// Tries to change some object of the newest record on some I/O node. Says whether that lets it; none if there is
    /// nothing to change.
    pub(crate) async fn trespass(&self, trespass: Trespass, dice: &mut Dice) -> Option<bool> {
        let newest = self.newest().await.ok()?;
        let io_node = &self.place.io_nodes[dice.below(self.place.io_nodes.len())];
        let run = newest.objects.get(dice.below(newest.objects.len().max(1)))?.run;
        let dataset = DatasetPath::new(SubfilePath::new("set").expect("a name")).expect("a free name");
        let done = match trespass {
            Trespass::Reclaims => self.client.reclaim(io_node, &dataset, run, newest.number).await,
            other => self.lay_hands_on(io_node, &dataset, run, other).await?,
        };
        Some(done.is_ok())
    }

    /// None if there is nothing of the object here: the session that made it may still write to such a part.
    async fn lay_hands_on(
        &self,
        io_node: &str,
        dataset: &DatasetPath,
        run: RunId,
        trespass: Trespass,
    ) -> Option<Result<(), FileError>> {
        let name = on(io_node, dataset.object(run).as_str());
        let part = StripedFile::open(&self.client, &name, self.place.stripe_unit).await.ok()?;
        let length = part.len().await.ok().filter(|length| *length > 0)?;
        Some(match trespass {
            Trespass::Overwrites => {
                let options = OpenOptions::new().stripe_unit(self.place.stripe_unit);
                match options.durability(Durability::OnEveryCall).open(&self.client, &name).await {
                    Ok(part) => part.write_at(0, &b"mine"[..]).await,
                    Err(error) => Err(error),
                }
            }
            Trespass::Truncates => part.set_len(length / 2).await,
            Trespass::Removes => self.client.remove(&name, Durability::OnEveryCall).await,
            Trespass::Renames => {
                let target = on(io_node, "loot");
                self.client.rename(&name, &target, true, Durability::OnEveryCall).await
            }
            Trespass::Syncs if self.is_being_written(io_node, run).await? => return None,
            Trespass::Syncs => part.sync_all().await,
            Trespass::Reclaims => return None,
        })
    }

    /// Whether the session still lives that writes the object: perhaps this one, which may sync it.
    async fn is_being_written(&self, io_node: &str, run: RunId) -> Option<bool> {
        let objects = SubfilePath::new("set/objects").expect("a path");
        let mut after = None;
        loop {
            let page = self.client.list(io_node, &objects, after.as_ref(), Durability::None).await.ok()?;
            if let Some(entry) = page.entries.iter().find(|entry| entry.name.to_string() == run.to_string()) {
                return Some(entry.is_being_written);
            }
            after = Some(page.entries.last().filter(|_| page.more)?.name.clone());
        }
    }
}

fn on(io_node: &str, path: &str) -> FileName {
    FileName::new(vec![SubfileName::new(io_node, path).expect("a name")]).expect("one")
}
