//! What an operator sees of a running member, and tells it: the admin socket and the metrics page.

mod admin;
mod metrics;
mod observation;
mod overlay_map;
mod reload;
mod watch;

use std::net::SocketAddr;
use std::time::Instant;

use fec_transport::io::Handle;
use sfio_remote::application::SfioApplication;
use sfio_remote::io::SfioMember;
use sfio_remote::io::membership::Membership;
use tokio::task::JoinSet;

use crate::exit::Failure;
use crate::http;

pub(crate) use admin::{AdminRequest, ask};
pub(crate) use observation::{
    Circuit, Compressed, IoNode, Member, NamedLink, Observation, Path, Session, Use,
};
pub(crate) use overlay_map::{MappedLink, MappedMember, OverlayMap};
pub(crate) use reload::{Reloaded, Reloader};
pub(crate) use watch::WatchPage;

/// Looks at a running member.
#[derive(Debug, Clone)]
pub(crate) struct Observer {
    handle: Handle<SfioApplication>,
    name: String,
    addresses: [String; 2],
    started: Instant,
}

/// The tasks that serve operators; they end when it is dropped.
pub(crate) struct Operations {
    /// Where the metrics page is, if there is one.
    pub(crate) metrics: Option<SocketAddr>,
    _tasks: JoinSet<()>,
    _socket: admin::SocketFile,
}

impl Observer {
    pub(crate) fn of(name: &str, member: &SfioMember) -> Observer {
        let addresses = member.endpoint().addresses();
        Observer {
            handle: member.endpoint().handle().clone(),
            name: name.to_owned(),
            addresses: [addresses.control.to_string(), addresses.data.to_string()],
            started: Instant::now(),
        }
    }
}

impl Operations {
    /// Checks that no member runs with the same config: it would be told of by an address that is in use.
    ///
    /// # Errors
    /// With the code for what runs already.
    pub(crate) fn refuse_second(membership: &Membership) -> Result<(), Failure> {
        admin::refuse_second(&membership.admin)
    }

    /// Listens on the admin socket and, if asked to, for requests of the metrics page.
    pub(crate) async fn start(
        membership: &Membership,
        observer: &Observer,
        reloader: &Reloader,
        metrics: Option<SocketAddr>,
    ) -> Result<Operations, Failure> {
        let mut tasks = JoinSet::new();
        let (listener, socket) = admin::bind(&membership.admin)?;
        tasks.spawn(admin::serve(listener, observer.clone(), reloader.clone()));
        let mut bound = None;
        if let Some(address) = metrics {
            let listener = http::bind("--metrics", address).await?;
            bound = listener.local_addr().ok();
            tasks.spawn(metrics::serve(listener, observer.clone()));
        }
        Ok(Operations { metrics: bound, _tasks: tasks, _socket: socket })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// Words that begin with `sfio_`.
    fn names(text: &str) -> BTreeSet<&str> {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        words.filter(|word| word.starts_with("sfio_")).collect()
    }

    #[test]
    fn alerts_and_the_dashboard_name_metrics_that_there_are() {
        let pages = concat!(include_str!("metrics.rs"), include_str!("watch.rs"));
        let monitoring = [
            include_str!("../../../../packaging/monitoring/alerts.yml"),
            include_str!("../../../../packaging/monitoring/dashboard.json"),
        ];
        for name in monitoring.into_iter().flat_map(names) {
            let bare = name.trim_start_matches("sfio_").trim_end_matches("_total");
            assert!(pages.contains(&format!("\"{bare}\"")), "no page has {name}");
        }
        assert!(
            names(monitoring[0]).len() >= 8 && names(monitoring[1]).len() >= 15,
            "they look at too little"
        );
    }
}
