//! A member whose program is broken, or whose key is stolen: it signs records that must never follow, and has them
//! published.

use std::time::Duration;

use sfio_remote::client::{Durability, OpenMode};
use sfio_remote::dataset::DatasetPath;
use sfio_remote::io::{FileError, OpenOptions};
use sfio_remote::name::{FileName, SubfileName, SubfilePath};
use sfio_remote::replication::{Deed, ObjectEntry, Record, RunId, SignedRecord, Signer};
use sfio_remote::sim::{Dice, identity_of};
use tokio::time::sleep;

use crate::commands::User;

/// What is wrong with a forged record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forgery {
    /// It has the next number and follows a record that is no longer the newest one.
    Stale,
    /// It has the number of a record that is there.
    Replaces,
    /// It gives the number of a generation to the next one again.
    ReusesNumber,
    /// It names what a run sent that was condemned.
    NamesCondemned,
    /// It names an object that nobody has sent.
    NamesNothing,
}

impl User {
    /// Tries to have a forged record published on the I/O node that decides. Says whether that takes it; none if there
    /// is nothing to forge.
    pub(crate) async fn forge(&self, forgery: Forgery, dice: &mut Dice) -> Option<bool> {
        let seen = self.newest().await.ok()?;
        if forgery == Forgery::Stale {
            sleep(Duration::from_secs(dice.below(30) as u64)).await;
        }
        let newest = self.newest().await.ok()?;
        let run = RunId(std::array::from_fn(|_| dice.below(256) as u8));
        let record = Record {
            number: newest.number + 1,
            predecessor: newest.hash(),
            run,
            signer: Signer { member: self.member.clone(), key: identity_of(&self.member).public().ed25519 },
            deed: if newest.is_removed() { Deed::Remove } else { Deed::Publish },
            ..newest.record().clone()
        };
        let forged = forged(forgery, record, &seen, &newest)?;
        let signed =
            SignedRecord::sign(forged, &identity_of(&self.member)).expect("it does not contradict itself");
        Some(self.have_published(&self.place.io_nodes[0], run, &signed).await.is_ok())
    }

    async fn have_published(
        &self,
        io_node: &str,
        run: RunId,
        record: &SignedRecord,
    ) -> Result<(), FileError> {
        let dataset = DatasetPath::new(SubfilePath::new("set").expect("a name")).expect("a free name");
        let staged = SubfileName::new(io_node, dataset.staged(run).as_str()).expect("a name");
        let staged = FileName::new(vec![staged]).expect("one");
        let options = OpenOptions::new().mode(OpenMode::Exclusive).stripe_unit(self.place.stripe_unit);
        let file = options.durability(Durability::OnEveryCall).open(&self.client, &staged).await?;
        file.write_at(0, record.bytes().clone()).await?;
        self.client.publish(io_node, &dataset, run, record.record().number).await
    }
}

/// The record with what is wrong with it; none if this data set gives no occasion for that.
fn forged(
    forgery: Forgery,
    mut record: Record,
    seen: &SignedRecord,
    newest: &SignedRecord,
) -> Option<Record> {
    let next = ObjectEntry { number: record.next_object, run: record.run, length: 5_000 };
    match forgery {
        Forgery::Stale if seen.hash() == newest.hash() => return None,
        Forgery::Stale => {
            let (number, predecessor) = (record.number, seen.hash());
            return Some(Record {
                number,
                predecessor,
                run: record.run,
                signer: record.signer,
                ..seen.record().clone()
            });
        }
        Forgery::Replaces => {
            record.number = newest.number;
            record.predecessor = newest.predecessor;
        }
        Forgery::ReusesNumber => {
            let last = record.generations.pop()?;
            record.origins.pop();
            record.current = record.generations.last()?.number;
            record.next_generation = last.number;
            record.deed = Deed::Forget;
        }
        Forgery::NamesCondemned => {
            let run = record.condemned.pop()?;
            record.objects.push(ObjectEntry { run, ..next });
            record.next_object += 1;
        }
        Forgery::NamesNothing => {
            record.objects.push(next);
            record.next_object += 1;
        }
    }
    Some(record)
}
