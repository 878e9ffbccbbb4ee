//! A client without an address and a server with one, and their keys.

use std::sync::Arc;

use fec_transport::keys::{Identity, encode_key};
use fec_transport::overlay::Overlay;

/// The keys of a member, the same in every run.
pub(crate) fn identity(name: &str) -> Identity {
    Identity::from_seed(*blake3::hash(name.as_bytes()).as_bytes())
}

/// The members `client` and `server`, and a link between them.
pub(crate) fn overlay() -> Arc<Overlay> {
    let member = |name: &str, rest: &str| {
        let keys = identity(name).public();
        let (ed25519, x25519) = (encode_key(&keys.ed25519), encode_key(&keys.x25519));
        format!("[[member]]\nname = \"{name}\"\ned25519 = \"{ed25519}\"\nx25519 = \"{x25519}\"\n{rest}")
    };
    let address = "control = \"192.0.2.1:1\"\ndata = \"192.0.2.1:2\"\n";
    let link = "[[link]]\na = \"client\"\nb = \"server\"\n";
    let text = member("client", "") + &member("server", address) + link;
    Arc::new(Overlay::parse(&text).expect("a right overlay"))
}
