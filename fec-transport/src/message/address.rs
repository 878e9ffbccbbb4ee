//! Addresses: what peers are called, and which ways there are to each.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::budget::Holder;
use super::link::LinkId;
use super::operation::AddressId;

/// Why a text is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It has no scheme.
    #[error("\"{0}\" is no address; expected SCHEME://PLACE, or several of them separated by commas")]
    NoScheme(String),
    /// None of its schemes belongs to a module of this process.
    #[error("\"{text}\" names no network that this process uses; it uses {schemes}")]
    NoModule {
        /// The address.
        text: String,
        /// The schemes that there are.
        schemes: String,
    },
    /// A module does not understand its part.
    #[error("\"{part}\": {reason}")]
    BadPlace {
        /// The part.
        part: String,
        /// In the module's words.
        reason: String,
    },
}

/// One way to a peer: over which module, and what that one calls the place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Route {
    pub(super) module: usize,
    pub(super) place: String,
}

/// All peers that this process has looked up or heard of.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    addresses: BTreeMap<AddressId, Address>,
    by_text: BTreeMap<String, AddressId>,
    /// Where somebody comes from who was looked up.
    by_route: BTreeMap<Route, AddressId>,
    /// The address of somebody who came along a route while that one was connected along another.
    apart: BTreeMap<Route, AddressId>,
    last: u64,
}

#[derive(Debug)]
struct Address {
    text: String,
    holder: Holder,
    routes: Vec<Route>,
    /// Which of the routes is tried, or in use.
    current: usize,
    link: Option<LinkId>,
    /// How many messages may have been lost with the last link without anybody having been told.
    lost: u64,
}

impl Addresses {
    /// The address of that text, which leads along `routes`, the first one preferred.
    pub(super) fn add(&mut self, text: String, routes: Vec<Route>) -> AddressId {
        if let Some(known) = self.by_text.get(&text) {
            return *known;
        }
        // Texts that share a route name the same peer: whoever came by himself, or was looked up by a shorter list.
        let known = routes.iter().find_map(|route| self.by_route.get(route).copied());
        let id = match known.and_then(|known| Some((known, self.addresses.get_mut(&known)?))) {
            Some((known, address)) => {
                address
                    .routes
                    .extend(routes.iter().filter(|route| !self.by_route.contains_key(*route)).cloned());
                self.by_text.insert(text, known);
                known
            }
            None => self.insert(text, routes.clone()),
        };
        for route in routes {
            self.by_route.entry(route).or_insert(id);
        }
        id
    }

    /// The address of somebody who comes along a route that leads to another address.
    pub(super) fn add_apart(&mut self, text: String, route: Route) -> AddressId {
        match self.by_text.get(&text) {
            Some(known) => *known,
            None => {
                let id = self.insert(text, vec![route.clone()]);
                self.apart.insert(route, id);
                id
            }
        }
    }

    fn insert(&mut self, text: String, routes: Vec<Route>) -> AddressId {
        self.last += 1;
        let id = AddressId(self.last);
        self.by_text.insert(text.clone(), id);
        let holder = Arc::from(text.split('#').next().unwrap_or(&text));
        self.addresses.insert(id, Address { text, holder, routes, current: 0, link: None, lost: 0 });
        id
    }

    /// Who comes along that route.
    pub(super) fn find(&self, route: &Route) -> Option<AddressId> {
        self.by_route.get(route).copied()
    }

    /// All addresses that lead along that route.
    pub(super) fn along(&self, route: &Route) -> impl Iterator<Item = AddressId> + use<> {
        [&self.by_route, &self.apart].map(|by| by.get(route).copied()).into_iter().flatten()
    }

    pub(super) fn contains(&self, id: AddressId) -> bool {
        self.addresses.contains_key(&id)
    }

    pub(super) fn text(&self, id: AddressId) -> Option<&str> {
        self.addresses.get(&id).map(|address| &address.text[..])
    }

    pub(super) fn holder(&self, id: AddressId) -> Option<Holder> {
        self.addresses.get(&id).map(|address| Arc::clone(&address.holder))
    }

    /// The route that is in use, or tried next.
    pub(super) fn route(&self, id: AddressId) -> Option<&Route> {
        let address = self.addresses.get(&id)?;
        address.routes.get(address.current)
    }

    /// Goes on to the next route, if there is one; else back to the first.
    pub(super) fn try_next(&mut self, id: AddressId) -> bool {
        let Some(address) = self.addresses.get_mut(&id) else { return false };
        address.current = (address.current + 1) % address.routes.len().max(1);
        address.current != 0
    }

    /// The first route is preferred again.
    pub(super) fn start_over(&mut self, id: AddressId) {
        if let Some(address) = self.addresses.get_mut(&id) {
            address.current = 0;
        }
    }

    pub(super) fn link(&self, id: AddressId) -> Option<LinkId> {
        self.addresses.get(&id)?.link
    }

    pub(super) fn set_link(&mut self, id: AddressId, link: Option<LinkId>) {
        if let Some(address) = self.addresses.get_mut(&id) {
            address.link = link;
        }
    }

    /// So many messages may have been lost, and nobody was told.
    pub(super) fn note_lost(&mut self, id: AddressId, messages: u64) {
        if let Some(address) = self.addresses.get_mut(&id) {
            address.lost = messages;
        }
    }

    /// How many messages may have been lost, to be told now.
    pub(super) fn take_lost(&mut self, id: AddressId) -> Option<u64> {
        let lost = std::mem::take(&mut self.addresses.get_mut(&id)?.lost);
        (lost > 0).then_some(lost)
    }

    pub(super) fn remove(&mut self, id: AddressId) {
        if let Some(address) = self.addresses.remove(&id) {
            self.by_text.retain(|_, other| *other != id);
            for route in &address.routes {
                for by in [&mut self.by_route, &mut self.apart] {
                    if by.get(route) == Some(&id) {
                        by.remove(route);
                    }
                }
            }
        }
    }
}
