//! A member of an overlay as a process.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result, ensure};
use fec_transport::io::{Endpoint, EndpointConfig, Sockets};
use fec_transport::overlay::Overlay;
use fec_transport::{Node, PathStatus, SessionStatus};

use super::bulk::{Bulk, Call, Tally};
use super::child::{is_asked, say, say_ready};
use super::job::MemberJob;
use super::overlay::identity;
use super::snapshot::Snapshot;

/// Does the job until the parent has heard enough.
pub(crate) async fn run(job: MemberJob) -> Result<()> {
    let overlay = Arc::new(Overlay::parse(&job.overlay)?);
    let tally = Arc::new(Tally::default());
    let endpoint = start(&job, &job.name, &overlay, &tally).await?;
    // They are asked for nothing, and run until they are dropped.
    let mut beside = Vec::new();
    for name in &job.beside {
        beside.push(start(&job, name, &overlay, &tally).await?);
    }
    say_ready();
    call(&job, &overlay, &endpoint).await?;
    while is_asked().await? {
        let snapshot = snapshot(&endpoint, &tally).await?;
        if (snapshot.sessions as usize) < job.sends_to.len() + job.idles_with.len() {
            // Some were not there yet.
            call(&job, &overlay, &endpoint).await?;
        }
        say(&snapshot)?;
    }
    Ok(())
}

/// Opens the sessions that the job asks for, unless they are open.
async fn call(job: &MemberJob, overlay: &Overlay, endpoint: &Endpoint<Bulk>) -> Result<()> {
    let calls = job.sends_to.iter().map(|name| (name, true));
    for (name, sends) in calls.chain(job.idles_with.iter().map(|name| (name, false))) {
        let whom = overlay.find(name).with_context(|| format!("no member \"{name}\""))?;
        endpoint.handle().command(Call { whom, sends }).await?;
    }
    Ok(())
}

async fn start(
    job: &MemberJob,
    name: &str,
    overlay: &Arc<Overlay>,
    tally: &Arc<Tally>,
) -> Result<Endpoint<Bulk>> {
    let overlay = Arc::clone(overlay);
    let member = overlay.find(name).with_context(|| format!("no member \"{name}\""))?;
    let sockets = Sockets::for_member(&overlay, member)?;
    let data = sockets.data.try_clone()?;
    let config = EndpointConfig {
        config: toml::from_str(&job.config)?,
        sockets: Some(sockets),
        arrival_loss: job.arrival_loss,
        ..EndpointConfig::new(overlay, identity(name))
    };
    let name = name.to_owned();
    let host = move |reason| eprintln!("{name}: a session ended: {reason}");
    let bulk = Bulk::new(job.bytes, job.memory, Arc::clone(tally));
    let endpoint = Endpoint::start(config, bulk, host).await?;
    if !job.gro {
        nix::sys::socket::setsockopt(&data, nix::sys::socket::sockopt::UdpGroSegment, &false)?;
    }
    Ok(endpoint)
}

fn sessions(node: &Node) -> Vec<SessionStatus> {
    node.sessions().filter_map(|session| node.session_status(session)).collect()
}

/// What the node has done, and what all nodes of the process have received. That is read together with the clock: a
/// busy process needs long until each of its nodes has answered.
async fn snapshot(endpoint: &Endpoint<Bulk>, tally: &Tally) -> Result<Snapshot> {
    let handle = endpoint.handle();
    let sessions = handle.inspect(|node: &Node, _: &Bulk| sessions(node)).await?;
    let wrong = tally.wrong_blocks.load(Ordering::Relaxed);
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
        sessions: sessions.len() as u64,
        decoded_blocks: sessions.iter().map(|session| session.received.decoded_blocks).sum(),
        held_mib: sessions.iter().map(|session| session.memory as f64).sum::<f64>() / 1048576.0,
        rate_gbps: paths.iter().map(|path| path.rate_bps).sum::<f64>() / 1e9,
        loss: mean(|path| path.loss),
        round_trip_ms: mean(|path| path.round_trip.as_secs_f64() * 1e3),
        datagrams_sent: counts.sent,
        send_calls: counts.send_calls,
        datagrams_received: counts.received,
        receive_calls: counts.receive_calls,
        ..Snapshot::of_process(tally.bytes.load(Ordering::Relaxed))
    })
}
