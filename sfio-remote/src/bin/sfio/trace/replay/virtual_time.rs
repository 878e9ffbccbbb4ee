//! A work played in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use fec_transport::sim::{LinkSpec, Scene};
use sfio_remote::client::operations::{Open, Read, SetLength, Write};
use sfio_remote::client::{Durability, FileId, OpenMode, OperationError, Receipt};
use sfio_remote::compression::Compression;
use sfio_remote::request::RegionsRead;
use sfio_remote::sim::{Cluster, ClusterConfig};
use sfio_trace::record::{Micros, Operation};
use sfio_trace::replay::{Call, CallIndex, Pace, Player, Work};

use super::{Played, Storage, data, read_list, write_list};
use crate::exit::{Exit, Failure, OrFail as _};
use crate::overlay::EmulatedLinks;

/// Who reads and writes.
const CLIENT: &str = "client";

/// Virtual time in which something must end, if something is under way.
const LIMIT: Duration = Duration::from_secs(3_600);

/// A call that is under way.
enum UnderWay {
    Read(Receipt<RegionsRead>),
    Write(Receipt<()>),
}

impl UnderWay {
    /// What has come of it, if anything has.
    fn take(&self) -> Option<Result<(), OperationError>> {
        match self {
            UnderWay::Read(receipt) => receipt.take().map(|result| result.map(drop)),
            UnderWay::Write(receipt) => receipt.take(),
        }
    }
}

pub(super) fn play(work: &Work, pace: Pace, storage: &Storage, seed: u64) -> Result<Played, Failure> {
    let mut cluster = Cluster::new(&scene(storage)?, ClusterConfig::default(), seed);
    // A job writes more than there is memory, and nobody asks what.
    let io_nodes = (1..=storage.io_nodes).map(|node| format!("io{node}"));
    io_nodes.for_each(|name| cluster.disk(&name).borrow_mut().forget_bytes());
    let files = lay_out(&mut cluster, work, storage)?;
    let (data, began) = (data(work), cluster.world().now());
    let (mut player, mut under_way) = (Player::new(work, pace), BTreeMap::new());
    let mut times = vec![(0, 0); work.calls().len()];
    while !player.is_done() {
        let now = cluster.world().now().since(began).as_micros() as Micros;
        while let Some(index) = player.poll(now) {
            let call = &work.calls()[index.0];
            times[index.0].0 = now;
            under_way.insert(index, start(&mut cluster, call, files[&call.file], &data)?);
        }
        let pause = player.next_due().map(|due| Duration::from_micros(due.saturating_sub(now).max(1)));
        if !cluster.run_to_next(pause.unwrap_or(LIMIT)) && pause.is_none() {
            return Err(Failure::new(Exit::Failed, "the replay stands still"));
        }
        let now = cluster.world().now().since(began).as_micros() as Micros;
        let results = under_way.iter().filter_map(|(index, call)| Some((*index, call.take()?)));
        let ended: Vec<(CallIndex, Result<(), OperationError>)> = results.collect();
        for (index, result) in ended {
            result.or_fail(Exit::Failed, "a call of the trace")?;
            under_way.remove(&index);
            times[index.0].1 = now;
            player.ended(index, now);
        }
    }
    Ok(Played { times })
}

fn start(cluster: &mut Cluster, call: &Call, file: FileId, data: &Bytes) -> Result<UnderWay, Failure> {
    Ok(match call.operation {
        Operation::Read => UnderWay::Read(cluster.start(CLIENT, Read { file, list: read_list(call)? })),
        Operation::Write => {
            let list = write_list(call, data)?;
            UnderWay::Write(cluster.start(CLIENT, Write { file, list, durable: false }))
        }
    })
}

/// A client, and I/O nodes that each have a link to it.
fn scene(storage: &Storage) -> Result<Scene, Failure> {
    let EmulatedLinks { rate_mbit, delay_ms, loss } = storage.links;
    let link = LinkSpec::from_bits(rate_mbit * 1e6, Duration::from_secs_f64(delay_ms / 1e3));
    let link = link.or_fail(Exit::Usage, "--rate-mbit")?.with_loss(loss);
    let names: Vec<String> = (1..=storage.io_nodes).map(|node| format!("io{node}")).collect();
    let join = |scene: Scene, name: &String| scene.server(name).link(CLIENT, name, &link);
    Ok(names.iter().fold(Scene::new().client(CLIENT), join))
}

/// Opens the files, with as many zeros as are read of them.
fn lay_out(
    cluster: &mut Cluster,
    work: &Work,
    storage: &Storage,
) -> Result<BTreeMap<sfio_trace::record::FileId, FileId>, Failure> {
    let mut files = BTreeMap::new();
    let ranks = cluster.ranks(&[CLIENT]);
    for (file, length) in work.files() {
        let opened = ranks.all(cluster, LIMIT, |_| Open {
            name: storage.name(file),
            stripe_unit: storage.stripe_unit,
            mode: OpenMode::Create,
            durability: Durability::None,
            compression: Compression::Never,
        });
        let opened = opened.or_fail(Exit::Failed, "a file of the trace")?[0].file;
        if length > 0 {
            let extended = ranks.all(cluster, LIMIT, |_| SetLength { file: opened, length });
            extended.or_fail(Exit::Failed, "a file of the trace")?;
        }
        files.insert(file, opened);
    }
    Ok(files)
}
