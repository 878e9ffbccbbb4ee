//! Which paths cross which links.

use std::collections::BTreeMap;

use super::LinkId;

/// Which of a list of paths cross which links. A path is meant by its place in that list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Crossings {
    /// The paths over each link, in the order of the list.
    over: BTreeMap<LinkId, Vec<usize>>,
}

impl Crossings {
    /// The crossings of `paths`, of which each is given by the links that it crosses.
    pub(crate) fn new<P: IntoIterator<Item = LinkId>>(paths: impl IntoIterator<Item = P>) -> Crossings {
        let mut over: BTreeMap<LinkId, Vec<usize>> = BTreeMap::new();
        for (path, links) in paths.into_iter().enumerate() {
            for link in links {
                let crossing = over.entry(link).or_default();
                if crossing.last() != Some(&path) {
                    crossing.push(path);
                }
            }
        }
        Crossings { over }
    }

    /// The links that any of the paths crosses.
    pub(crate) fn links(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.over.keys().copied()
    }

    /// The paths that cross a link.
    pub(crate) fn over(&self, link: LinkId) -> &[usize] {
        self.over.get(&link).map_or(&[], Vec::as_slice)
    }

    /// How many links two paths have in common.
    pub(crate) fn shared(&self, one: usize, other: usize) -> usize {
        self.over.values().filter(|paths| paths.contains(&one) && paths.contains(&other)).count()
    }

    /// The sum of something that each path over a link has.
    pub(crate) fn sum<N: std::iter::Sum>(&self, link: LinkId, of: impl Fn(usize) -> N) -> N {
        self.over(link).iter().map(|path| of(*path)).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_says_what_the_lists_of_links_say(paths in vec(btree_set(0u32..12, 0..6), 0..8)) {
            let crosses = |path: usize, link: LinkId| paths[path].contains(&link.0);
            let crossings = Crossings::new(paths.iter().map(|links| links.iter().map(|link| LinkId(*link))));
            for link in (0..12).map(LinkId) {
                let over: Vec<usize> = (0..paths.len()).filter(|path| crosses(*path, link)).collect();
                prop_assert_eq!(crossings.over(link), &over[..]);
                let sum: usize = over.iter().map(|path| path + 1).sum();
                prop_assert_eq!(crossings.sum(link, |path| path + 1), sum);
                prop_assert_eq!(crossings.links().any(|any| any == link), !over.is_empty());
            }
            for (one, other) in (0..paths.len()).flat_map(|one| (0..paths.len()).map(move |other| (one, other))) {
                prop_assert_eq!(crossings.shared(one, other), paths[one].intersection(&paths[other]).count());
            }
        }
    }
}
