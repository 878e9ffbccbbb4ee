//! All that a list does to each subfile, worked out before the list is handed over.
//!
//! A million regions take a tenth of a second to sort. A caller that plans a list in its own task spares the member's
//! one task, which does everything else, that time.

use std::sync::Arc;

use fec_transport::overlay::MemberId;

use super::list::Scope;
use super::{Granularity, ReadList, RequestCache, SubfileAccess, WriteList};
use crate::distribution::{Distribution, Region};

/// The accesses that a list becomes, and for which file.
#[derive(Debug, Clone)]
pub struct Plan {
    distribution: Distribution,
    holders: Arc<[MemberId]>,
    accesses: Vec<SubfileAccess>,
}

impl Plan {
    fn new(distribution: Distribution, holders: Arc<[MemberId]>, regions: &[Region]) -> Plan {
        let mut cache = RequestCache::new(distribution, &holders);
        cache.insert_all(regions);
        let accesses = cache.flush();
        Plan { distribution, holders, accesses }
    }

    fn is_for(&self, distribution: Distribution, holders: &[MemberId]) -> bool {
        self.distribution == distribution && *self.holders == *holders
    }
}

impl Scope {
    fn plan(&mut self, distribution: Distribution, holders: &Arc<[MemberId]>) {
        if !self.plan.as_ref().is_some_and(|plan| plan.is_for(distribution, holders)) {
            self.plan = Some(Plan::new(distribution, Arc::clone(holders), &self.regions));
        }
    }

    fn take_accesses(&mut self, distribution: Distribution, holders: &Arc<[MemberId]>) -> Vec<SubfileAccess> {
        self.plan(distribution, holders);
        self.plan.take().map(|plan| plan.accesses).unwrap_or_default()
    }
}

/// The methods that plan, which are the same for both kinds of lists.
macro_rules! planned_list {
    ($list:ident) => {
        impl $list {
            /// Plans the list for a file dealt out like that, of which `holders` hold the subfiles.
            ///
            /// Costs O(n log n) for n regions at random places, O(n) for ascending ones.
            pub fn plan(&mut self, distribution: Distribution, holders: &Arc<[MemberId]>) {
                self.scope.plan(distribution, holders);
            }

            /// The accesses of the plan, which is made if there is none for this file.
            pub(crate) fn take_accesses(
                &mut self,
                distribution: Distribution,
                holders: &Arc<[MemberId]>,
            ) -> Vec<SubfileAccess> {
                self.scope.take_accesses(distribution, holders)
            }

            pub(crate) fn is_stripe_by_stripe(&self) -> bool {
                self.scope.granularity == Granularity::Stripe
            }
        }
    };
}

planned_list!(ReadList);
planned_list!(WriteList);
