//! `sfio demo`: a whole overlay with emulated links in one process. It replicates files, kills a link half-way, reads
//! everything back with another client, and compares.

mod audience;
mod failure;
mod limit;
mod network;
mod replicate;
mod report;
mod scene;
mod source;
mod stage;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use fec_transport::SessionStatus;
use fec_transport::io::{EndpointConfig, Handle};
use fec_transport::overlay::Overlay;
use program::{output, quantity};
use sfio_remote::application::SfioApplication;
use sfio_remote::io::{MemberConfig, SfioMember};
use sfio_remote::io_node::{AccessRules, IoNodeConfig, Right, Rights};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::exit::{Exit, Failure, OrFail as _};
use crate::operations::Observer;
use crate::progress::Progress;
use crate::signals::survive_file_size_limit;
use crate::web::{self, WebAddress};
use audience::Audience;
use failure::{Killed, kill_busiest_half_way};
use network::Network;
use replicate::{Fingerprint, Replica};
use report::{KillReport, PathReport, Report, bits_per_second, path_reports};
use scene::{DEFAULT_SCENE, Scene};
use source::{Source, SourceFile};
use stage::{Spectator, Stage};

/// How often progress is looked at.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

/// How long the killed link stays dead, unless replication ends before.
const DEAD_FOR: Duration = Duration::from_secs(2);

/// Replicate files over an emulated overlay, kill a link, read back, compare
///
/// Starts an overlay in this process, on loopback: a client, relays and I/O nodes, joined by emulated links with
/// different rates, delays and losses. Stripes every file of FOLDER over the I/O nodes, kills the busiest link half-way
/// (control and data alike) and restores it, reads everything back with a fresh client that knows only the overlay file
/// and its key, and compares BLAKE3. Nothing leaves this machine and nothing stays on its disk.
///
/// With --web a page shows it at work: a map with what each link carries, loses and keeps waiting, the paths, the
/// progress, and the last minutes as curves. On a terminal the demo then begins when the page is opened, after 30
/// seconds at the latest, and the page stays after the report until Ctrl-C. Elsewhere, as in a pipe, it begins at once
/// and the page ends with it, unless --stay asks for the same as on a terminal. Report and exit codes are those without
/// it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sfio demo                        64 MiB of generated files
  sfio demo ~/src --loss 0.1       your own files, with 10 % loss on every link
  sfio demo --kill none --json     no failure, for machines
  sfio demo --scene uplinks        a laptop with two uplinks, of which one dies
  sfio demo ~/src --web            watch it in a browser: open the address that it prints
  sfio demo --print-scene > s.toml && sfio demo --scene s.toml
                                   your own network")]
pub(crate) struct Options {
    /// Folder whose files are replicated; without one, files are generated
    folder: Option<PathBuf>,
    /// Bytes to generate, such as 8MiB
    #[arg(long, default_value = "64MiB", value_parser = quantity::size, conflicts_with = "folder")]
    size: u64,
    /// Decides all random choices: losses, generated files, keys
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Share of packets that every link loses, from 0 to below 1, instead of the scene's
    #[arg(long, value_parser = quantity::share)]
    loss: Option<f64>,
    /// Rate of every link, such as 20Mbit/s, instead of the scene's
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<f64>,
    /// The link to kill half-way
    #[arg(long, value_enum, default_value_t = Kill::Busiest)]
    kill: Kill,
    /// TOML file with members and links, instead of the built-in scene; `uplinks` is a built-in one, too
    ///
    /// In the scene "uplinks" a laptop has two uplinks and a site has two, there is no relay, and one link dies.
    #[arg(long, value_name = "FILE")]
    scene: Option<PathBuf>,
    /// Print the built-in scene and end
    #[arg(long)]
    print_scene: bool,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
    /// Show it in a browser: serve a page at ADDR, such as 127.0.0.1:8080 or 8080; without ADDR at a free port
    ///
    /// An address that other machines reach is taken as it is typed, with a warning: nothing there is encrypted.
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = web::LOOPBACK,
          value_parser = WebAddress::parse)]
    web: Option<WebAddress>,
    /// With --web, and without a terminal: wait for somebody to open the page, and keep it after the report
    #[arg(long, requires = "web")]
    stay: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kill {
    /// The link that carried the most symbols in the last second
    Busiest,
    /// No link
    None,
}

/// Plays the demo.
pub(crate) fn run(options: Options) -> Result<(), Failure> {
    if options.print_scene {
        return output::print(DEFAULT_SCENE);
    }
    let scene = Scene::read(options.scene.as_deref(), options.loss, options.rate)?;
    let source = match &options.folder {
        Some(folder) => Source::folder(folder)?,
        None => Source::generated(options.size, options.seed),
    };
    let folder = tempfile::Builder::new().prefix("sfio-demo-").tempdir();
    let folder = folder.or_fail(Exit::Failed, "temporary folder")?;
    // The emulator has a thread of its own: its links must not be late because an endpoint computes.
    let emulation = runtime(1)?;
    let network = {
        let _within = emulation.enter();
        Network::start(&scene, folder.path(), options.seed)?
    };
    let limit =
        limit::limit_bps(&scene).ok_or_else(|| Failure::new(Exit::Network, "the links reach no I/O node"))?;
    let runtime = runtime(2)?;
    let stage = Stage::default();
    let audience = options
        .web
        .map(|address| Audience::invite(address, options.stay, Spectator::of(&stage, &network, &scene)));
    let audience = audience.transpose()?;
    audience.as_ref().map_or(Ok(()), Audience::await_viewer)?;
    let play = Play { options, scene, network, limit, exports: folder.path().to_owned(), stage };
    let played = runtime.block_on(async {
        tokio::select! {
            report = play.run(source) => report,
            _ = tokio::signal::ctrl_c() => Err(Failure::new(Exit::Interrupted, "interrupted")),
        }
    });
    let outcome = outcome(&played);
    let has_played = played.is_ok();
    let said = played.and_then(|(report, json)| print_report(&report, json));
    audience.map_or(Ok(()), |audience| audience.dismiss(&outcome, has_played))?;
    said
}

/// How the demo went, in a line for the page.
fn outcome(played: &Result<(Report, bool), Failure>) -> String {
    match played {
        Ok((report, _)) => format!("the demo is over: {}", report.verdict()),
        Err(failure) => format!("the demo has failed: {failure}"),
    }
}

fn print_report(report: &Report, json: bool) -> Result<(), Failure> {
    let said = match json {
        true => output::json(report),
        false => output::print(report.to_text(output::columns(None))),
    };
    if report.ok { said } else { Err(Failure::new(Exit::Integrity, "files came back different")) }
}

/// Everything that a demo needs.
struct Play {
    options: Options,
    scene: Scene,
    network: Network,
    limit: f64,
    exports: PathBuf,
    stage: Stage,
}

/// What replication gave.
struct Replicated {
    fingerprints: Vec<Fingerprint>,
    took: Duration,
    paths: Vec<PathReport>,
    kill: Option<KillReport>,
}

impl Play {
    async fn run(mut self, source: Source) -> Result<(Report, bool), Failure> {
        survive_file_size_limit()?;
        let relays = self.start_members(&self.scene.relays.clone(), false).await?;
        let io_nodes = self.start_members(&self.scene.io_nodes.clone(), true).await?;
        let (bytes, skipped) = (source.bytes(), source.skipped);
        let files: Arc<[SourceFile]> = source.files.into();
        let replicated = self.replicate(&files, bytes).await?;
        let (read, read_took) = self.read_back(&files, bytes).await?;
        // All at once: each waits a moment for the others to take its farewell.
        let mut endings: JoinSet<_> = io_nodes.into_iter().chain(relays).map(SfioMember::shutdown).collect();
        while let Some(ended) = endings.join_next().await {
            ended.or_fail(Exit::Failed, "shutdown")?.or_fail(Exit::Failed, "shutdown")?;
        }
        let goodput = bits_per_second(bytes, replicated.took);
        let report = Report {
            ok: read == replicated.fingerprints,
            files: files.len(),
            bytes,
            seconds: replicated.took.as_secs_f64(),
            goodput,
            limit: self.limit,
            goodput_ratio: goodput / self.limit,
            read_seconds: read_took.as_secs_f64(),
            read_goodput: bits_per_second(bytes, read_took),
            skipped,
            paths: replicated.paths,
            kill: replicated.kill,
        };
        Ok((report, self.options.json))
    }

    /// Starts relays, or I/O nodes with an export root each.
    async fn start_members(&mut self, names: &[String], serves: bool) -> Result<Vec<SfioMember>, Failure> {
        let mut members = Vec::new();
        for name in names {
            let export = self.exports.join(name);
            if serves {
                std::fs::create_dir(&export).or_fail(Exit::Failed, export.display())?;
            }
            let mut config =
                EndpointConfig::new(Arc::clone(&self.network.overlay), self.network.identity(name));
            config.sockets = self.network.take_sockets(name);
            let access =
                AccessRules::default().with(&self.scene.client, Rights::everywhere(Right::ReadWrite));
            let io_node = IoNodeConfig { access, ..IoNodeConfig::default() };
            let member =
                MemberConfig { export: serves.then_some(export), io_node, ..MemberConfig::default() };
            let started = SfioMember::start(config, member).await;
            members.push(started.or_fail(Exit::Network, format!("member {name}"))?);
        }
        Ok(members)
    }

    async fn replicate(&self, files: &Arc<[SourceFile]>, bytes: u64) -> Result<Replicated, Failure> {
        let client = self.start_client().await?;
        let replica = Replica::new(client.client(), &self.scene.io_nodes);
        replica.connect().await?;
        let handle = client.endpoint().handle();
        let progress = Progress::new("replicating", Some(bytes));
        self.stage.enter(Observer::of(&self.scene.client, &client), "replicating", bytes);
        let start = Instant::now();
        let moved = |session: &SessionStatus| session.acknowledged.bytes;
        let writing = self.showing(&progress, handle, moved, replica.write(files));
        let (fingerprints, killed) = match self.options.kill {
            Kill::None => (writing.await, None),
            Kill::Busiest => {
                let killing = kill_busiest_half_way(handle.clone(), &self.network, &progress);
                self.until_written(writing, killing).await
            }
        };
        let (fingerprints, took) = (fingerprints?, start.elapsed());
        progress.finish("replicated");
        self.stage.done("replicated");
        let paths = self.paths(client.endpoint().handle()).await;
        let kill = match killed {
            Some(killed) => Some(killed.report(client.endpoint().handle()).await),
            None => None,
        };
        client.shutdown().await.or_fail(Exit::Failed, "shutdown")?;
        Ok(Replicated { fingerprints, took, paths, kill })
    }

    /// Reads everything back with a client that has only the overlay file and its key.
    async fn read_back(
        &self,
        files: &Arc<[SourceFile]>,
        bytes: u64,
    ) -> Result<(Vec<Fingerprint>, Duration), Failure> {
        let client = self.start_client().await?;
        let replica = Replica::new(client.client(), &self.scene.io_nodes);
        replica.connect().await?;
        let handle = client.endpoint().handle();
        let progress = Progress::new("reading back", Some(bytes));
        self.stage.enter(Observer::of(&self.scene.client, &client), "reading back", bytes);
        let start = Instant::now();
        let moved = |session: &SessionStatus| session.delivery.bytes;
        let reading = self.showing(&progress, handle, moved, replica.read(files));
        let (fingerprints, took) = (reading.await?, start.elapsed());
        progress.finish("read back");
        self.stage.done("read back");
        client.shutdown().await.or_fail(Exit::Failed, "shutdown")?;
        Ok((fingerprints, took))
    }

    async fn start_client(&self) -> Result<SfioMember, Failure> {
        let file = &self.network.overlay_file;
        let text = std::fs::read_to_string(file).or_fail(Exit::Input, file.display())?;
        let overlay = Overlay::parse(&text).or_fail(Exit::Input, file.display())?;
        let identity = self.network.identity(&self.scene.client);
        let started =
            SfioMember::start(EndpointConfig::new(Arc::new(overlay), identity), MemberConfig::default());
        started.await.or_fail(Exit::Network, "client")
    }

    /// Waits for `work`, and shows what all sessions of the client have `moved` meanwhile.
    async fn showing<T>(
        &self,
        progress: &Progress,
        client: &Handle<SfioApplication>,
        moved: fn(&SessionStatus) -> u64,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            if let Ok(result) = tokio::time::timeout(PROGRESS_INTERVAL, &mut work).await {
                return result;
            }
            let all = client.inspect(move |node, _| {
                let statuses = node.sessions().filter_map(|session| node.session_status(session));
                statuses.map(|status| moved(&status)).sum()
            });
            let all = all.await.unwrap_or(0);
            progress.reached(all);
            self.stage.reached(all);
        }
    }

    /// Waits for `writing`; meanwhile, once a link was killed, restores it after [`DEAD_FOR`], at the latest at the
    /// end.
    async fn until_written<T>(
        &self,
        writing: impl Future<Output = T>,
        killing: impl Future<Output = Option<Killed>>,
    ) -> (T, Option<Killed>) {
        let (mut writing, mut killing) = (std::pin::pin!(writing), std::pin::pin!(killing));
        let killed = tokio::select! {
            written = &mut writing => return (written, None),
            killed = &mut killing => killed,
        };
        if let Some(killed) = &killed {
            let (link, percent) = (killed.link.name(), killed.share * 100.0);
            self.stage.note(format!("the demo kills {link}, which carried {percent:.0} % of the symbols"));
        }
        let written = tokio::time::timeout(DEAD_FOR, &mut writing).await;
        if let Some(killed) = &killed {
            killed.link.restore();
            self.stage.note(format!("the demo restores {}", killed.link.name()));
        }
        match written {
            Ok(written) => (written, killed),
            Err(_) => (writing.await, killed),
        }
    }

    async fn paths(&self, client: &Handle<SfioApplication>) -> Vec<PathReport> {
        let rows = client.inspect(|node, _| {
            let statuses = node.sessions().filter_map(|session| node.session_status(session));
            let rows = statuses.flat_map(|status| {
                path_reports(node.overlay(), &node.overlay().name(status.peer.member), &status.paths)
            });
            rows.collect::<Vec<_>>()
        });
        rows.await.unwrap_or_default()
    }
}

fn runtime(threads: usize) -> Result<Runtime, Failure> {
    Builder::new_multi_thread().worker_threads(threads).enable_all().build().or_fail(Exit::Failed, "threads")
}

/// A rate in Mbit/s that the emulator keeps.
fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = quantity::rate(text)? as f64 * 8e-6;
    if (0.1..=100_000.0).contains(&rate) { Ok(rate) } else { Err("expected 0.1 to 100000 Mbit/s".to_owned()) }
}
