//! The evaluation of P. Carns et al., *BMI: A Network Abstraction Layer for Parallel I/O*, 2005, for each module of
//! `fec_transport::message` on loopback, beside a bare stream of a session and a stream of quinn in the same run.
//!
//! ```text
//! cargo bench -p fec-testbed --bench messages -- --rounds 2000
//! cargo bench -p fec-testbed --bench messages -- --figure 4 --plot transfers.png
//! ```
//!
//! Both ends are threads of one process, each with a thread of its own for the network; with `--processes 5` they are
//! processes.

mod bare;
mod pairs;
mod picture;
mod plain_quinn;
mod processes;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use fec_testbed::processes::child::run_if_child;
use fec_testbed::processes::row::{Column, Table, column, object, progress};
use fec_transport::io::message::Messenger;
use fec_transport::message::{AddressId, Posted, Room, Tag};
use serde_json::json;

use pairs::Pair;
use picture::Picture;

/// Round trips of small messages (figure 3), 120 MB in messages of several sizes (figure 4), and N servers that send 10
/// MB each to M clients in messages of 256 KB (figure 5).
#[derive(Debug, Parser)]
#[command(
    name = "messages",
    after_help = "Example: messages --figure 3 --rounds 5000\n\nCompare rows of one run only."
)]
struct Arguments {
    /// Only this figure of the paper.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(3..=5))]
    figure: Option<u8>,
    /// Round trips of each size.
    #[arg(long, default_value_t = 2_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Megabytes of each transfer.
    #[arg(long, default_value_t = 120, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..))]
    megabytes: u32,
    /// Of the transfers, only those in messages of so many bytes.
    #[arg(long, value_name = "N")]
    bytes: Option<usize>,
    /// All transfers into memory that was used before, so that the kernel need not find its pages.
    #[arg(long)]
    preallocated: bool,
    /// Instead of the figures, what taking a completion costs while so many operations are pending.
    #[arg(long, value_name = "N")]
    pending: Option<u32>,
    /// Instead of the figures, what N clients send to N servers, each of them a process, in messages of 256 KB and as
    /// streams of the same sessions: so often in turns.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    processes: Option<u16>,
    /// Of the processes, so many messages are posted with each peer at any time; 40 are the 10 MB of figure 5.
    #[arg(long, default_value_t = 40, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    ahead: u16,
    /// Only the rows over this.
    #[arg(long, value_name = "NAME")]
    over: Option<String>,
    /// Figure 3 or 4 as a picture, SVG or PNG.
    #[arg(long, value_name = "FILE", requires = "figure")]
    plot: Option<PathBuf>,
    /// One JSON object for each row.
    #[arg(long)]
    json: bool,
    /// `cargo bench` hands it to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// The same as that of `sfio`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUND_TRIPS: &[Column] = &[
    column("over", "over", 20, 0),
    column("bytes", "bytes", 7, 0),
    column("median µs", "median_us", 10, 1),
    column("99 % µs", "p99_us", 10, 1),
];
const COMPLETIONS: &[Column] = &[
    column("over", "over", 20, 0),
    column("at once", "most", 7, 0),
    column("µs each", "us_per_completion", 10, 2),
];
const TRANSFERS: &[Column] = &[
    column("over", "over", 20, 0),
    column("message bytes", "message_bytes", 13, 0),
    column("MB/s", "megabytes_per_second", 10, 1),
];
const AGGREGATES: &[Column] = &[
    column("over", "over", 20, 0),
    column("servers", "servers", 7, 0),
    column("clients", "clients", 7, 0),
    column("MB/s", "megabytes_per_second", 10, 1),
];

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(120);
const MODULES: [&str; 3] = ["memory", "fec", "quic"];
/// What they are compared with: a stream of a session, and one of quinn.
const BARE: &str = "bare stream";
const QUINN: &str = "quinn stream";

impl Arguments {
    fn modules(&self) -> impl Iterator<Item = &'static str> {
        MODULES.into_iter().filter(|module| self.wants(module))
    }

    fn wants(&self, over: &str) -> bool {
        self.over.as_deref().is_none_or(|only| only == over)
    }
}

fn main() -> Result<()> {
    if let Some(result) = run_if_child() {
        return result;
    }
    let arguments = Arguments::parse();
    if let Some(turns) = arguments.processes {
        return processes::crowds(turns, arguments.ahead, arguments.json);
    }
    if let Some(pending) = arguments.pending {
        return completions(&arguments, pending);
    }
    let is_wanted = |figure| arguments.figure.is_none_or(|only| only == figure);
    if is_wanted(3) {
        round_trips(&arguments)?;
    }
    if is_wanted(4) {
        transfers(&arguments)?;
    }
    if is_wanted(5) {
        aggregates(&arguments)?;
    }
    Ok(())
}

// --- figure 3 ----------------------------------------------------------------------------------------------------

fn round_trips(arguments: &Arguments) -> Result<()> {
    let table = Table::new("round trips (figure 3)", ROUND_TRIPS, arguments.json)?;
    let sizes = [24, 100, 400, 700, 1_200];
    let mut picture = Picture::new("Round trips", "median µs");
    let mut print = |over: &str, bytes: usize, mut times: Vec<Duration>| {
        times.sort_unstable();
        let us = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e6;
        picture.add(over, Some(bytes), us(50));
        table.row(object(json!({"over": over, "bytes": bytes, "median_us": us(50), "p99_us": us(99)})))
    };
    for module in arguments.modules() {
        progress(module);
        let pair = Pair::new(module)?;
        for bytes in sizes {
            print(module, bytes, message_round_trips(&pair, bytes, arguments.rounds)?)?;
        }
        pair.end();
    }
    for (over, answers) in [(BARE, bare::Answers::AtOnce), ("stream, threads", bare::Answers::ByThread)] {
        if !arguments.wants(over) {
            continue;
        }
        let mut stream = bare::Stream::open(answers)?;
        for bytes in sizes {
            print(over, bytes, stream.round_trips(bytes, arguments.rounds)?)?;
        }
    }
    if arguments.wants(QUINN) {
        let quinn = plain_quinn::Quinn::open()?;
        for bytes in sizes {
            print(QUINN, bytes, quinn.round_trips(bytes, arguments.rounds)?)?;
        }
    }
    arguments.plot.as_deref().map_or(Ok(()), |file| picture.write(file))
}

/// The server answers each message with one of the same size; both have posted their receives before.
fn message_round_trips(pair: &Pair, bytes: usize, rounds: u32) -> Result<Vec<Duration>> {
    let client_address = pair.greet()?;
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| -> Result<()> {
            let context = pair.server.open_context();
            for _ in 0..=rounds {
                receive(&pair.server, client_address, bytes, context)?;
                send(&pair.server, client_address, bytes, context)?;
            }
            Ok(())
        });
        let context = pair.client.open_context();
        let mut times = Vec::new();
        for round in 0..=rounds {
            let began = now();
            send(&pair.client, pair.to, bytes, context)?;
            receive(&pair.client, pair.to, bytes, context)?;
            if round > 0 {
                times.push(began.elapsed());
            }
        }
        serving.join().expect("no panic")?;
        Ok(times)
    })
}

type Context = fec_transport::message::ContextId;

fn send(messenger: &Messenger, to: AddressId, bytes: usize, context: Context) -> Result<()> {
    let posted = messenger.post_send(to, Tag(1), vec![vec![7; bytes].into()], messenger.caller(context))?;
    messenger.wait(posted)?.result?;
    Ok(())
}

fn receive(messenger: &Messenger, from: AddressId, bytes: usize, context: Context) -> Result<()> {
    let posted = messenger.post_receive(from, Tag(1), Room::of([bytes]), messenger.caller(context))?;
    messenger.wait(posted)?.result?;
    Ok(())
}

// --- many pending operations -------------------------------------------------------------------------------------

/// Over each module, and how long it takes `test_context` to give a completion: one for each call, or all by one.
fn completions(arguments: &Arguments, pending: u32) -> Result<()> {
    let table =
        Table::new(&format!("completions beside {pending} pending receives"), COMPLETIONS, arguments.json)?;
    for module in arguments.modules() {
        for most in [1, 1_000] {
            let pair = Pair::new(module)?;
            let us = us_per_completion(&pair, pending, most)?;
            table.row(object(json!({"over": module, "most": most, "us_per_completion": us})))?;
            pair.end();
        }
    }
    Ok(())
}

/// A tenth as many messages come, each under a tag of its own; only taking their completions is measured.
fn us_per_completion(pair: &Pair, pending: u32, most: usize) -> Result<f64> {
    let from = pair.greet()?;
    let [context, last, sending] =
        [&pair.server, &pair.server, &pair.client].map(|messenger| messenger.open_context());
    let receive =
        |tag, context| pair.server.post_receive(from, Tag(tag), Room::of([8]), pair.server.caller(context));
    for tag in 0..pending {
        let _ = receive(tag, context)?;
    }
    let _ = receive(pending, last)?;
    let tags = (0..pending).step_by(10);
    // When the last message has come all others have.
    for tag in tags.clone().chain([pending]) {
        let caller = pair.client.caller(sending);
        let _ = pair.client.post_send(pair.to, Tag(tag), vec![vec![7; 8].into()], caller)?;
    }
    if pair.server.test_context(last, 1, PATIENCE).is_empty() {
        bail!("the last message did not come");
    }
    let (began, mut taken) = (now(), 0);
    while taken < tags.len() {
        taken += pair.server.test_context(context, most, PATIENCE).len();
    }
    Ok(began.elapsed().as_secs_f64() * 1e6 / taken as f64)
}

// --- figure 4 ----------------------------------------------------------------------------------------------------

/// Bytes of a message. 16 KiB are the longest that travels with its envelope over fec, 32 KiB over quic, and 256 KiB
/// over memory; a byte more is offered first.
const SIZES: [usize; 11] = [
    1 << 10,
    4 << 10,
    15 << 10,
    16 << 10,
    (16 << 10) + 1,
    17 << 10,
    32 << 10,
    (32 << 10) + 1,
    64 << 10,
    256 << 10,
    1 << 20,
];

fn transfers(arguments: &Arguments) -> Result<()> {
    let total = arguments.megabytes as usize * 1_000_000;
    let title = format!("{} MB in messages (figure 4)", arguments.megabytes);
    let table = Table::new(&title, TRANSFERS, arguments.json)?;
    let mut picture = Picture::new(&title, "MB/s");
    let mut print = |over: &str, bytes: Option<usize>, took: Duration| {
        let speed = total as f64 / 1e6 / took.as_secs_f64();
        picture.add(over, bytes, speed);
        table.row(object(json!({"over": over, "message_bytes": bytes, "megabytes_per_second": speed})))
    };
    for module in arguments.modules() {
        let sizes = arguments.bytes.map_or(SIZES.to_vec(), |bytes| vec![bytes]);
        let fresh = sizes.iter().filter(|_| !arguments.preallocated).map(|bytes| (*bytes, false));
        let preallocated = sizes.iter().filter(|bytes| arguments.preallocated || **bytes == MESSAGE);
        for (bytes, is_preallocated) in fresh.chain(preallocated.map(|bytes| (*bytes, true))) {
            progress(&format!("{module}, {bytes} bytes"));
            let pair = Pair::new(module)?;
            let (over, room): (_, fn(usize) -> Room) = match is_preallocated {
                true => (&format!("{module}, preallocated")[..], preallocated_room),
                false => (module, fresh_room),
            };
            print(over, Some(bytes), transfer(&pair, bytes, total, room)?)?;
            pair.end();
        }
    }
    if arguments.wants(BARE) {
        print(BARE, None, bare::Stream::open(bare::Answers::AtOnce)?.transfer(total)?)?;
    }
    if arguments.wants(QUINN) {
        print(QUINN, None, plain_quinn::Quinn::open()?.transfer(total)?)?;
    }
    arguments.plot.as_deref().map_or(Ok(()), |file| picture.write(file))
}

/// Memory for a message to which nothing was written yet: the kernel finds its pages when the message comes.
fn fresh_room(bytes: usize) -> Room {
    Room::of([bytes])
}

/// Memory for a message that the caller has used before.
fn preallocated_room(bytes: usize) -> Room {
    std::iter::once(vec![1; bytes]).collect()
}

/// All sends and receives are posted at the beginning, as in the paper.
fn transfer(pair: &Pair, bytes: usize, total: usize, room: fn(usize) -> Room) -> Result<Duration> {
    let client_address = pair.greet()?;
    let count = total.div_ceil(bytes);
    let contexts = [pair.server.open_context(), pair.client.open_context()];
    let message = bytes::Bytes::from(vec![7; bytes]);
    let mut done = 0;
    for _ in 0..count {
        let caller = pair.server.caller(contexts[0]);
        let posted = pair.server.post_receive(client_address, Tag(2), room(bytes), caller)?;
        done += usize::from(matches!(posted, Posted::Done(_)));
    }
    let began = now();
    for _ in 0..count {
        let caller = pair.client.caller(contexts[1]);
        let _ = pair.client.post_send(pair.to, Tag(2), vec![message.clone()], caller)?;
    }
    while done < count {
        let some = pair.server.test_context(contexts[0], 1_000, PATIENCE);
        if some.is_empty() {
            bail!("{done} of {count} messages came");
        }
        for completion in some {
            completion.result?;
            done += 1;
        }
    }
    Ok(began.elapsed())
}

// --- figure 5 ----------------------------------------------------------------------------------------------------

/// Bytes of a request, of an answer, of a pair's data, and of each message of it.
const REQUEST: usize = 25;
const ANSWER: usize = 400;
const OF_A_PAIR: usize = 10_000_000;
const MESSAGE: usize = 256 << 10;
/// A message is received into pieces of a stripe unit.
const STRIPE: usize = 64 << 10;

fn aggregates(arguments: &Arguments) -> Result<()> {
    let table = Table::new("10 MB for each server and client (figure 5)", AGGREGATES, arguments.json)?;
    for module in arguments.modules() {
        for count in [1, 2, 4] {
            progress(&format!("{module}, {count} × {count}"));
            let (servers, clients) = pairs::crowd(module, count)?;
            let took = aggregate(&servers, &clients, module)?;
            let megabytes = (count * count * OF_A_PAIR) as f64 / 1e6;
            table.row(object(json!({
                "over": module, "servers": count, "clients": count,
                "megabytes_per_second": megabytes / took.as_secs_f64(),
            })))?;
        }
    }
    Ok(())
}

/// Until the slowest client has everything.
fn aggregate(servers: &[pairs::Server], clients: &[Messenger], module: &str) -> Result<Duration> {
    let began = now();
    std::thread::scope(|scope| {
        let serving: Vec<_> =
            servers.iter().map(|server| scope.spawn(|| serve(&server.messenger, clients.len()))).collect();
        let reading: Vec<_> = clients.iter().map(|client| scope.spawn(|| read(client, servers))).collect();
        for thread in reading.into_iter().chain(serving) {
            thread.join().expect("no panic").with_context(|| module.to_owned())?;
        }
        Ok(began.elapsed())
    })
}

fn serve(server: &Messenger, clients: usize) -> Result<()> {
    let context = server.open_context();
    let (answer, data) = (bytes::Bytes::from(vec![1; ANSWER]), bytes::Bytes::from(vec![7; MESSAGE]));
    let mut pending = 0;
    let post = |to, message: &bytes::Bytes| -> Result<usize> {
        let posted = server.post_send(to, Tag(3), vec![message.clone()], server.caller(context))?;
        Ok(usize::from(matches!(posted, Posted::Pending(_))))
    };
    for _ in 0..clients {
        let request = server.test_unexpected(1, PATIENCE).pop().context("no request came")?;
        pending += post(request.from, &answer)?;
        for _ in 0..OF_A_PAIR.div_ceil(MESSAGE) {
            pending += post(request.from, &data)?;
        }
    }
    finish(server, context, pending)
}

fn read(client: &Messenger, servers: &[pairs::Server]) -> Result<()> {
    let context = client.open_context();
    let mut pending = 0;
    for server in servers {
        let from = client.look_up(&server.address)?;
        let rooms = (0..OF_A_PAIR.div_ceil(MESSAGE)).map(|_| Room::of([STRIPE; MESSAGE / STRIPE]));
        for room in std::iter::once(Room::of([ANSWER])).chain(rooms) {
            let posted = client.post_receive(from, Tag(3), room, client.caller(context))?;
            pending += usize::from(matches!(posted, Posted::Pending(_)));
        }
        let request = vec![vec![2; REQUEST].into()];
        let posted = client.post_send_unexpected(from, Tag(3), request, client.caller(context))?;
        pending += usize::from(matches!(posted, Posted::Pending(_)));
    }
    finish(client, context, pending)
}

/// Waits for so many completions.
fn finish(messenger: &Messenger, context: Context, mut pending: usize) -> Result<()> {
    while pending > 0 {
        let some = messenger.test_context(context, 1_000, PATIENCE);
        if some.is_empty() {
            bail!("{pending} operations are pending after {PATIENCE:?}");
        }
        for completion in some {
            completion.result?;
            pending -= 1;
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}
