//! N clients that each send to N servers, all of them processes: in messages, and as streams of the same sessions.
//!
//! A stream can be read where its blocks are, a message is received into memory of its reader's. So streams are
//! measured twice: with a reader that drops what comes, and with one that copies it into as much memory as the
//! messages have.

use std::time::Duration;

use anyhow::{Result, ensure};
use fec_testbed::processes::child::{Child, measure};
use fec_testbed::processes::job::{Job, MemberJob, MessagesJob};
use fec_testbed::processes::overlay::OverlayText;
use fec_testbed::processes::row::{Column, Table, column, object, progress};
use fec_testbed::processes::snapshot::Snapshot;
use serde_json::json;

use super::MESSAGE;

const COLUMNS: &[Column] = &[
    column("servers", "servers", 7, 0),
    column("clients", "clients", 7, 0),
    column("MB/s in streams", "stream_megabytes_per_second", 15, 0),
    column("copied", "copied_megabytes_per_second", 7, 0),
    column("in messages", "message_megabytes_per_second", 11, 0),
    column("of streams", "of_streams", 10, 3),
    column("of copied", "of_copied", 9, 3),
    column("least", "least_of_copied", 7, 3),
    column("most", "most_of_copied", 7, 3),
    column("CPU ns/B streams", "stream_cpu_ns_per_byte", 16, 3),
    column("copied", "copied_cpu_ns_per_byte", 8, 3),
    column("messages", "message_cpu_ns_per_byte", 8, 3),
];
/// How long everything runs before it is measured, and how long it is then.
const WARM_UP: Duration = Duration::from_secs(2);
const SPAN: Duration = Duration::from_secs(3);

/// What all processes of a crowd did together.
struct Run {
    megabytes_per_second: f64,
    /// Processor time of all of them for each byte that arrived.
    ns_per_byte: f64,
}

/// Messages and streams take turns; a row has the medians, the median share of streams that the messages after them
/// had, and how far apart those shares were.
pub(super) fn crowds(turns: u16, ahead: u16, json: bool) -> Result<()> {
    let table = Table::new("N clients send to N servers, processes", COLUMNS, json)?;
    for count in [1, 2, 4] {
        let (mut streams, mut copied, mut messages) = (Vec::new(), Vec::new(), Vec::new());
        let memory = usize::from(ahead) * count * MESSAGE;
        for turn in 1..=turns {
            progress(&format!("{count} × {count}, {turn} of {turns}"));
            streams.push(run(count, |text, servers, clients| stream_jobs(text, servers, clients, 0))?);
            copied.push(run(count, |text, servers, clients| stream_jobs(text, servers, clients, memory))?);
            messages.push(run(count, |text, servers, clients| message_jobs(text, servers, clients, ahead))?);
        }
        let (of_streams, of_copied) = (shares(&messages, &streams), shares(&messages, &copied));
        let median = |runs: &[Run], value: fn(&Run) -> f64| middle(runs.iter().map(value).collect());
        table.row(object(json!({
            "servers": count, "clients": count,
            "stream_megabytes_per_second": median(&streams, |run| run.megabytes_per_second),
            "copied_megabytes_per_second": median(&copied, |run| run.megabytes_per_second),
            "message_megabytes_per_second": median(&messages, |run| run.megabytes_per_second),
            "of_streams": middle(of_streams),
            "least_of_copied": of_copied.first(),
            "most_of_copied": of_copied.last(),
            "of_copied": middle(of_copied),
            "stream_cpu_ns_per_byte": median(&streams, |run| run.ns_per_byte),
            "copied_cpu_ns_per_byte": median(&copied, |run| run.ns_per_byte),
            "message_cpu_ns_per_byte": median(&messages, |run| run.ns_per_byte),
        })))?;
    }
    Ok(())
}

/// What each run has of the other one in its turn, the least first.
fn shares(runs: &[Run], others: &[Run]) -> Vec<f64> {
    let pairs = runs.iter().zip(others);
    let mut shares: Vec<f64> =
        pairs.map(|(run, other)| run.megabytes_per_second / other.megabytes_per_second).collect();
    shares.sort_by(f64::total_cmp);
    shares
}

/// Of an even number the lower one in the middle.
fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}

fn run(count: usize, jobs: impl Fn(&str, &[String], &[String]) -> Vec<Job>) -> Result<Run> {
    let names = |kind| (1..=count).map(|number| format!("{kind}{number}")).collect::<Vec<_>>();
    let (servers, clients) = (names("server"), names("client"));
    let mut text = OverlayText::default();
    for server in &servers {
        text.listener(server)?;
    }
    clients.iter().for_each(|client| text.client(client));
    for client in &clients {
        servers.iter().for_each(|server| text.link(client, server, ""));
    }
    let mut children =
        jobs(&text.0, &servers, &clients).iter().map(Child::start).collect::<Result<Vec<_>>>()?;
    let done = measure(&mut children, WARM_UP, SPAN)?;
    let bytes: u64 = done.iter().map(|done| done.bytes).sum();
    ensure!(done[..count].iter().all(|server| server.bytes > 0), "a server got nothing");
    Ok(Run {
        megabytes_per_second: done.iter().map(Snapshot::goodput_bps).sum::<f64>() / 8e6,
        ns_per_byte: done.iter().map(|done| done.cpu_s).sum::<f64>() * 1e9 / bytes as f64,
    })
}

/// The servers first, since the clients dial them. Each process copies what comes into `memory` bytes.
fn stream_jobs(overlay: &str, servers: &[String], clients: &[String], memory: usize) -> Vec<Job> {
    let job = |name: &String, sends_to: &[String]| {
        Job::Member(MemberJob {
            overlay: overlay.to_owned(),
            name: name.clone(),
            sends_to: sends_to.to_vec(),
            gro: true,
            memory,
            ..MemberJob::default()
        })
    };
    let serving = servers.iter().map(|name| job(name, &[]));
    serving.chain(clients.iter().map(|name| job(name, servers))).collect()
}

fn message_jobs(overlay: &str, servers: &[String], clients: &[String], ahead: u16) -> Vec<Job> {
    let job = |name: &String, sends_to: &[String], takes_from: &[String]| {
        Job::Messages(MessagesJob {
            overlay: overlay.to_owned(),
            name: name.clone(),
            sends_to: sends_to.to_vec(),
            takes_from: takes_from.to_vec(),
            bytes: MESSAGE,
            ahead: usize::from(ahead),
        })
    };
    let serving = servers.iter().map(|name| job(name, &[], clients));
    serving.chain(clients.iter().map(|name| job(name, servers, &[]))).collect()
}
