//! After faults: what was acknowledged is there.

use std::collections::BTreeSet;

use crate::book::Damage;
use crate::commands::{Failure, Listed, User};
use crate::faults::Shared;
use crate::trees::{Picture, Trees, folder, picture};

/// What an audit has found.
pub(crate) struct Findings {
    /// How many generations were restored and equal.
    pub(crate) restored: u64,
    /// The first generation that the machine has not seen.
    pub(crate) unseen_from: u64,
}

/// Somebody who may only read restores every generation that must be there, and compares it with the tree that was
/// sent.
pub(crate) struct Audit<'a> {
    pub(crate) user: User,
    pub(crate) shared: &'a Shared,
    /// The first generation that its machine has not seen: it cannot miss later ones on an only disk that was set back.
    pub(crate) unseen_from: u64,
}

impl Audit<'_> {
    /// Gives what it has found.
    pub(crate) async fn run(&self) -> Result<Findings, String> {
        let damage = self.shared.scene().book.damage();
        let nothing = Findings { restored: 0, unseen_from: self.unseen_from };
        if self.shared.scene().book.all().is_empty() {
            return Ok(nothing);
        }
        let listed = match self.user.generations().await {
            Ok(listed) => listed,
            Err(failure) if damage.is_some() && failure.says_so() => return Ok(nothing),
            Err(failure) => return Err(format!("the list of generations: {failure:?}")),
        };
        self.shared.scene().book.learn(listed.next);
        let (restored, lost) = self.restore_all(&listed, damage).await?;
        self.verify(&listed, damage, &lost).await?;
        // What came in the place of something that an only disk has lost is not what was acknowledged, however often it
        // is seen.
        let unseen_from = match damage {
            Some(Damage::OnlyDisk) => self.unseen_from,
            _ => self.unseen_from.max(listed.next),
        };
        Ok(Findings { restored, unseen_from })
    }

    /// Whether nobody on this machine could know what the generation was.
    fn is_excused(&self, generation: u64, damage: Option<Damage>) -> bool {
        damage == Some(Damage::OnlyDisk) && generation >= self.unseen_from
    }

    async fn restore_all(
        &self,
        listed: &Listed,
        damage: Option<Damage>,
    ) -> Result<(u64, BTreeSet<u64>), String> {
        let retained = self.shared.scene().book.retained(&listed.numbers);
        let (mut restored, mut lost) = (0, BTreeSet::new());
        let numbers = listed.numbers.iter().chain(retained.keys()).copied().collect::<BTreeSet<u64>>();
        for generation in numbers {
            let is_excused = self.is_excused(generation, damage);
            let tree = retained.get(&generation).copied();
            let Err(failure) = self.restore(generation, tree, is_excused).await? else {
                restored += 1;
                continue;
            };
            let is_listed = listed.numbers.contains(&generation);
            let (strict, all) = {
                let book = &self.shared.scene().book;
                (book.must_be_whole(generation), listed.numbers.clone())
            };
            if damage.is_none() || strict {
                return Err(format!(
                    "generation {generation} of {all:?}, tree {tree:?}, is not restored: {failure:?}"
                ));
            }
            if (!is_listed && !is_excused) || !failure.says_so() {
                return Err(format!(
                    "generation {generation} of {all:?} is gone, and nobody says so: {failure:?}"
                ));
            }
            lost.insert(generation);
        }
        Ok((restored, lost))
    }

    /// What the command says; an error if it says that all is well and it is not. A generation that nobody has
    /// acknowledged, or somebody on a disk that was set back since, is one of a run that does not know what it did.
    async fn restore(
        &self,
        generation: u64,
        tree: Option<usize>,
        is_excused: bool,
    ) -> Result<Result<(), Failure>, String> {
        let target = folder();
        if let Err(failure) = self.user.restore(generation, target.path()).await {
            return Ok(Err(failure));
        }
        let restored = picture(target.path());
        let is = |tree: usize| restored == *Trees::all().picture(tree);
        let may_be_another = tree.is_none() || is_excused;
        match tree.is_some_and(is) || (may_be_another && self.is_some_tree(&restored)) {
            true => Ok(Ok(())),
            false => {
                Err(format!("generation {generation} is restored with code 0, but is not tree {tree:?}"))
            }
        }
    }

    fn is_some_tree(&self, restored: &Picture) -> bool {
        let unknown = self.shared.scene().book.unknown_trees();
        unknown.into_iter().any(|tree| *restored == *Trees::all().picture(tree))
    }

    async fn verify(
        &self,
        listed: &Listed,
        damage: Option<Damage>,
        lost: &BTreeSet<u64>,
    ) -> Result<(), String> {
        let is_lost = lost.iter().any(|generation| listed.numbers.contains(generation));
        match self.user.verify().await {
            Ok(()) if is_lost => {
                Err(format!("verify finds all well, but generations {lost:?} cannot be restored"))
            }
            // The data set was removed: there is nothing to verify.
            Err(failure) if listed.numbers.is_empty() && failure.code == 3 => Ok(()),
            Err(failure) if damage.is_none() => Err(format!("verify: {failure:?}")),
            Err(failure) if !failure.says_so() => Err(format!("verify of a damaged disk: {failure:?}")),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}
