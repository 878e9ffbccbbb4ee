//! `sfio ping`: whether a member answers, and over which paths.

use std::time::{Duration, Instant};

use clap::value_parser;
use fec_transport::overlay::{MemberId, route_title};
use fec_transport::{PathState, PathStatus};
use sfio_remote::client::OperationError;
use sfio_remote::io::FileError;
use sfio_remote::remote_error::ErrorKind;

use program::output::{self, Results};
use serde_json::{Value, json};

use crate::client::{Identification, Session, failure, milliseconds};
use crate::exit::{Exit, Failure, OrFail as _};

/// Between requests, so that each tells of another moment.
const PAUSE: Duration = Duration::from_millis(100);

/// Ask a member for an answer, and show the paths to it
///
/// For each path: its members, its round trip, the share of the packets that it lost meanwhile (few packets make a
/// rough figure; --count sends more), and the share of the flow that the plan gives it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  sfio ping io1 --overlay try --count 100")]
pub(crate) struct Options {
    /// The member
    member: String,

    /// How many requests to send
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    count: u32,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    identification: Identification,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    options.identification.work(async |session| ping(session, options).await)
}

async fn ping(session: &Session, options: &Options) -> Result<(), Failure> {
    let member = &options.member;
    // The first request sets up the session and its paths.
    ask(session, member).await?;
    let mut round_trips = Vec::new();
    for _ in 0..options.count {
        tokio::time::sleep(PAUSE).await;
        let asked = Instant::now();
        ask(session, member).await?;
        round_trips.push(asked.elapsed());
    }
    let paths = paths(session, member).await?;
    if options.json {
        let milliseconds: Vec<f64> = round_trips.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        let paths: Vec<Value> = paths.iter().map(PathReport::json).collect();
        return output::json(&json!({ "member": member, "paths": paths, "round_trips_ms": milliseconds }));
    }
    let mut results = Results::open(None)?;
    results.line(format_args!(
        "{member} answers over {}:",
        if paths.len() == 1 { "one path" } else { "these paths" }
    ))?;
    paths.iter().try_for_each(|path| results.line(format_args!("  {}", path.text())))?;
    results.line(summary(&round_trips))?;
    results.close()
}

/// A request that every member answers: one that serves nothing says so.
async fn ask(session: &Session, member: &str) -> Result<(), Failure> {
    match session.client().error_counters(member, false).await {
        Ok(_) => Ok(()),
        Err(FileError::Operation(OperationError::IoNode { error, .. }))
            if error.kind == ErrorKind::NotServing =>
        {
            Ok(())
        }
        Err(error) => Err(failure(&error)),
    }
}

/// A path to the member, with the names of those that it runs through.
struct PathReport {
    route: Vec<String>,
    links: Vec<String>,
    status: PathStatus,
}

/// The paths of the session with a member.
async fn paths(session: &Session, member: &str) -> Result<Vec<PathReport>, Failure> {
    let member = member.to_owned();
    let look = session.client().handle().inspect(move |node, _| {
        let statuses = node.sessions().filter_map(|session| node.session_status(session));
        let with_member = statuses.filter(|status| node.overlay().name(status.peer.member) == member);
        let name = |member: &MemberId| node.overlay().name(*member);
        let report = |status: PathStatus| PathReport {
            route: status.route.iter().map(name).collect(),
            links: node.overlay().link_names(&status.links),
            status,
        };
        with_member.flat_map(|status| status.paths).map(report).collect()
    });
    look.await.or_fail(Exit::Failed, "looking at the session")
}

impl PathReport {
    /// The share of the packets that it lost.
    fn loss(&self) -> f64 {
        let counters = &self.status.counters;
        counters.packets_lost as f64 / counters.packets_sent.max(1) as f64
    }

    fn text(&self) -> String {
        let route = route_title(&self.route, &self.links);
        let share = self.status.planned_share * 100.0;
        match self.status.state {
            PathState::Unconfirmed => format!("{route}: no answer yet, share {share:.0} %"),
            PathState::Dead { .. } => format!("{route}: dead, share {share:.0} %"),
            PathState::Live => {
                let (round_trip, loss) = (milliseconds(self.status.round_trip), self.loss() * 100.0);
                let sent = self.status.counters.packets_sent;
                format!(
                    "{route}: round trip {round_trip}, loss {loss:.1} % of {sent} packets, share {share:.0} %"
                )
            }
        }
    }

    fn json(&self) -> Value {
        let state = match self.status.state {
            PathState::Unconfirmed => "unconfirmed",
            PathState::Dead { .. } => "dead",
            PathState::Live => "live",
        };
        json!({
            "route": self.route,
            "links": self.links,
            "state": state,
            "round_trip_ms": self.status.round_trip.as_secs_f64() * 1e3,
            "loss": self.loss(),
            "packets_sent": self.status.counters.packets_sent,
            "planned_share": self.status.planned_share,
        })
    }
}

fn summary(round_trips: &[Duration]) -> String {
    let least = round_trips.iter().min().copied().unwrap_or_default();
    let most = round_trips.iter().max().copied().unwrap_or_default();
    let mean = round_trips.iter().sum::<Duration>() / round_trips.len().max(1) as u32;
    let [least, mean, most] = [least, mean, most].map(milliseconds);
    format!("{} requests answered in {least} to {most}, {mean} on average", round_trips.len())
}
