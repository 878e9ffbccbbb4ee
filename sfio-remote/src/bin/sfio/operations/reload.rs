//! The overlay file is read again while the member runs.

use std::sync::Arc;

use fec_transport::io::Handle;
use fec_transport::io::files::OverlaySource;
use serde::{Deserialize, Serialize};
use sfio_remote::application::SfioApplication;
use sfio_remote::io::membership::Membership;

use crate::exit::{Exit, Failure, OrFail as _};

/// Reads the overlay file again and gives it to the member.
#[derive(Debug, Clone)]
pub(crate) struct Reloader {
    source: OverlaySource,
    handle: Handle<SfioApplication>,
}

/// What a reload has changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Reloaded {
    pub(crate) serial: u64,
    pub(crate) members_added: Vec<String>,
    pub(crate) members_removed: Vec<String>,
    pub(crate) links_added: usize,
    pub(crate) links_removed: usize,
}

impl Reloader {
    pub(crate) fn new(membership: &Membership, handle: Handle<SfioApplication>) -> Reloader {
        Reloader { source: membership.source.clone(), handle }
    }

    /// Reads the file, checks signature and serial, and goes on with it; otherwise the one in use stays.
    pub(crate) async fn reload(&self) -> Result<Reloaded, Failure> {
        let newer = self.source.read().or_exit(Exit::Input)?;
        let change = self.handle.reload(Arc::new(newer)).await.map_err(|error| {
            let place = self.source.path.display();
            Failure::new(Exit::Input, format!("overlay file {place}: {error}"))
        })?;
        let reloaded = Reloaded {
            serial: change.serial,
            members_added: change.added,
            members_removed: change.removed,
            links_added: change.links_added,
            links_removed: change.links_removed,
        };
        tracing::info!(%reloaded, "a newer overlay file is in use");
        Ok(reloaded)
    }
}

impl std::fmt::Display for Reloaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        write!(
            f,
            "serial {}; members added: {}; removed: {}; links added: {}, removed: {}",
            self.serial,
            names(&self.members_added),
            names(&self.members_removed),
            self.links_added,
            self.links_removed
        )
    }
}
