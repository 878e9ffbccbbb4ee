//! `fec-testbed wan`: a session over emulated links of a wide-area network, beside QUIC over the best of them in the
//! same run.

use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use fec_transport::{Config, payload_share};
use netsim::emulator::{EmulatedLink, Emulator, Endpoint};
use netsim::{LinkModel, Probability, Rate};
use serde_json::{Map, Value, json};

use fec_testbed::processes::child::{Child, measure};
use fec_testbed::processes::emulated;
use fec_testbed::processes::job::{CompetitorJob, Congestion, End, Job, Payload, Quic};
use fec_testbed::processes::overlay::free_address;
use fec_testbed::processes::row::{Column, Table, column, object, progress};

/// Round trips of the paths: from 30 to 80 ms. The first one is the best.
const ROUND_TRIPS_MS: [u64; 3] = [30, 55, 80];
/// Of each path.
const RATE_MBIT: u64 = 100;

/// Goodput over one and three paths of 100 Mbit/s, 30 to 80 ms, against a QUIC stream of quinn over the best path, with
/// BBR and with CUBIC, all through netsim's emulator.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: fec-testbed wan --loss 0,0.02 --seconds 8\n\nThe limit is rate × (1 − loss) × 1384/1476 over the paths."
)]
pub(crate) struct Arguments {
    /// The loss of every path in the direction of the data, shares.
    #[arg(long, default_value = "0,0.01,0.02,0.05,0.1", value_delimiter = ',', value_name = "SHARE,…")]
    loss: Vec<f64>,
    /// How long each row is measured.
    #[arg(long, default_value_t = 8.0, value_name = "S")]
    seconds: f64,
    /// How long each row runs before.
    #[arg(long, default_value_t = 2.0, value_name = "S")]
    warm_up: f64,
    /// The emulator's seed.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// One JSON object for each row.
    #[arg(long)]
    json: bool,
}

const COLUMNS: &[Column] = &[
    column("loss", "loss", 5, 2),
    column("transport", "transport", 14, 0),
    column("paths", "paths", 5, 0),
    column("Mbit/s", "goodput_mbps", 7, 1),
    column("of limit", "share_of_limit", 8, 3),
    column("× this", "times_this", 7, 2),
    column("cores", "cores", 6, 2),
];

#[derive(Debug, Clone, Copy)]
enum Transport {
    Ours { paths: usize },
    Quinn(Congestion),
}

/// The transport with the most paths comes first: the others are compared with it.
const TRANSPORTS: [Transport; 4] = [
    Transport::Ours { paths: 3 },
    Transport::Ours { paths: 1 },
    Transport::Quinn(Congestion::Bbr),
    Transport::Quinn(Congestion::Cubic),
];

impl Transport {
    fn name(self) -> &'static str {
        match self {
            Transport::Ours { .. } => "fec-transport",
            Transport::Quinn(Congestion::Bbr) => "quinn, BBR",
            Transport::Quinn(Congestion::Cubic) => "quinn, CUBIC",
        }
    }

    fn paths(self) -> usize {
        match self {
            Transport::Ours { paths } => paths,
            Transport::Quinn(_) => 1,
        }
    }
}

/// Measures each transport at each loss, one after another.
pub(crate) fn run(arguments: &Arguments) -> Result<bool> {
    // The emulator's turns must come on time, whatever else this process does.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let _inside = runtime.enter();
    let table =
        Table::new("paths of 100 Mbit/s with round trips of 30, 55 and 80 ms", COLUMNS, arguments.json)?;
    for loss in &arguments.loss {
        let mut first = f64::NAN;
        for transport in TRANSPORTS {
            progress(&format!("{} at {loss}", transport.name()));
            let (goodput, cores) =
                measure_one(transport, *loss, arguments).with_context(|| transport.name())?;
            first = if first.is_nan() { goodput } else { first };
            table.row(cells(transport, *loss, goodput, first, cores))?;
        }
    }
    Ok(true)
}

fn cells(transport: Transport, loss: f64, goodput: f64, first: f64, cores: f64) -> Map<String, Value> {
    let limit = RATE_MBIT as f64
        * 1e6
        * transport.paths() as f64
        * (1.0 - loss)
        * payload_share(Config::default().coding.symbol_size);
    object(json!({
        "loss": loss,
        "transport": transport.name(),
        "paths": transport.paths(),
        "goodput_mbps": goodput / 1e6,
        "share_of_limit": goodput / limit,
        "times_this": first / goodput,
        "cores": cores,
    }))
}

/// Goodput in bit/s, and the cores of both ends.
fn measure_one(transport: Transport, loss: f64, arguments: &Arguments) -> Result<(f64, f64)> {
    let (emulator, mut children) = match transport {
        Transport::Ours { paths } => ours(paths, loss, arguments.seed)?,
        Transport::Quinn(congestion) => quinn(congestion, loss, arguments.seed)?,
    };
    let [warm_up, span] = [arguments.warm_up, arguments.seconds].map(Duration::from_secs_f64);
    let done = measure(&mut children, warm_up, span)?;
    drop(children);
    drop(emulator);
    Ok((done[0].goodput_bps(), done[0].cores() + done[1].cores()))
}

/// One direction of a path; only that of the data loses.
fn model(path: usize, loss: f64) -> Result<LinkModel> {
    let delay = Duration::from_micros(ROUND_TRIPS_MS[path] * 500);
    Ok(LinkModel::new(Rate::from_mbit(RATE_MBIT), delay).with_loss(Probability::new(loss)?))
}

/// One emulated link for each path, and a relay at its end next to the server.
fn ours(paths: usize, loss: f64, seed: u64) -> Result<(Emulator, Vec<Child>)> {
    let models =
        (0..paths).map(|path| Ok([model(path, loss)?, model(path, 0.0)?])).collect::<Result<Vec<_>>>()?;
    emulated::start(models, "", seed)
}

fn quinn(congestion: Congestion, loss: f64, seed: u64) -> Result<(Emulator, Vec<Child>)> {
    let address = free_address()?;
    let end = Endpoint { data: Some(address), ..Endpoint::default() };
    let link = EmulatedLink::new("path 1", Endpoint::default(), end, model(0, loss)?, model(0, 0.0)?);
    let emulator = Emulator::start(vec![link], seed)?;
    let port = emulator.links()[0].ports().a_to_b.data.context("an emulated link without a port")?;
    let job = |end| Job::Competitor(CompetitorJob { end, payload: Payload::Quic(Quic::Stream), congestion });
    let children =
        vec![Child::start(&job(End::ReceivesAt(address)))?, Child::start(&job(End::SendsTo(port)))?];
    Ok((emulator, children))
}
