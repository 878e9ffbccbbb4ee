//! A member of an overlay as a process.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use fec_transport::io::{Endpoint, EndpointConfig, Sockets};
use fec_transport::overlay::Overlay;
use fec_transport::{Node, PathStatus, SessionStatus};

use super::bulk::Bulk;
use super::child::{is_asked, say, say_ready};
use super::job::MemberJob;
use super::overlay::identity;
use super::snapshot::Snapshot;

/// Does the job until the parent has heard enough.
pub(crate) async fn run(job: MemberJob) -> Result<()> {
    let endpoint = start(&job).await?;
    say_ready();
    for name in &job.sends_to {
        let overlay = Overlay::parse(&job.overlay)?;
        let member = overlay.find(name).with_context(|| format!("no member \"{name}\""))?;
        endpoint.handle().command(member).await?;
    }
    while is_asked().await? {
        say(&snapshot(&endpoint).await?)?;
    }
    Ok(())
}

async fn start(job: &MemberJob) -> Result<Endpoint<Bulk>> {
    let overlay = Arc::new(Overlay::parse(&job.overlay)?);
    let member = overlay.find(&job.name).with_context(|| format!("no member \"{}\"", job.name))?;
    let sockets = Sockets::for_member(&overlay, member)?;
    let data = sockets.data.try_clone()?;
    let config = EndpointConfig {
        config: toml::from_str(&job.config)?,
        sockets: Some(sockets),
        arrival_loss: job.arrival_loss,
        ..EndpointConfig::new(overlay, identity(&job.name))
    };
    let name = job.name.clone();
    let host = move |reason| eprintln!("{name}: a session ended: {reason}");
    let endpoint = Endpoint::start(config, Bulk::new(job.bytes), host).await?;
    if !job.gro {
        nix::sys::socket::setsockopt(&data, nix::sys::socket::sockopt::UdpGroSegment, &false)?;
    }
    Ok(endpoint)
}

fn sessions(node: &Node) -> Vec<SessionStatus> {
    node.sessions().filter_map(|session| node.session_status(session)).collect()
}

async fn snapshot(endpoint: &Endpoint<Bulk>) -> Result<Snapshot> {
    let handle = endpoint.handle();
    let look = |node: &Node, app: &Bulk| (app.received, app.wrong, sessions(node));
    let (bytes, wrong, sessions) = handle.inspect(look).await?;
    ensure!(wrong == 0, "{wrong} blocks were not what was sent");
    let counts = handle.data_counts().await?;
    let paths: Vec<_> = sessions.iter().flat_map(|session| &session.paths).collect();
    let mean = |value: fn(&PathStatus) -> f64| {
        paths.iter().map(|path| value(path)).sum::<f64>() / paths.len().max(1) as f64
    };
    Ok(Snapshot {
        source_symbols: sessions.iter().map(|session| session.sent.source_symbols).sum(),
        repair_symbols: sessions
            .iter()
            .map(|session| session.sent.redundancy_symbols + session.sent.repair_symbols)
            .sum(),
        decoded_blocks: sessions.iter().map(|session| session.received.decoded_blocks).sum(),
        held_mib: sessions.iter().map(|session| session.memory as f64).sum::<f64>() / 1048576.0,
        rate_gbps: paths.iter().map(|path| path.rate_bps).sum::<f64>() / 1e9,
        loss: mean(|path| path.loss),
        round_trip_ms: mean(|path| path.round_trip.as_secs_f64() * 1e3),
        datagrams_sent: counts.sent,
        send_calls: counts.send_calls,
        datagrams_received: counts.received,
        receive_calls: counts.receive_calls,
        ..Snapshot::of_process(bytes)
    })
}
