//! `sfio member`: one member of an overlay as a process.

mod config_check;

use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fec_transport::io::EndpointError;
use program::quantity;
use sd_notify::NotifyState;
use sfio_remote::io::{self, MemberConfig, SfioMember, StartError};
use tokio::io::AsyncReadExt as _;
use tracing_subscriber::EnvFilter;

use crate::block_on;
use crate::exit::{Exit, Failure, OrFail as _};
use crate::operations::{Observer, Operations, Reloader};
use crate::signals::{ReloadSignal, StopSignals, survive_file_size_limit};
use crate::trace::{self, Recorder};
use sfio_remote::io::membership::Membership;

/// What is logged unless RUST_LOG says otherwise: who comes and goes, who is refused, what fails.
const LOG: &str = "info";

/// While the member ends: how often it looks for transfers under way, and how many looks must find none.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
const CALM_LOOKS: u32 = 3;

/// Run a member of an overlay: it relays, and serves subfiles if its config names an export folder
///
/// It runs in the foreground until Ctrl-C or SIGTERM, says on standard output when it is ready, logs to standard error
/// (RUST_LOG=debug for more), and tells systemd if that started it (Type=notify). SIGHUP, or `sfio reload`, has it read
/// the overlay file again; `sfio status` shows how it is.
///
/// Asked to end, it takes nothing new, lets the circuits that it relays go around it, and waits for transfers under way
/// for as long as --grace says; a second signal ends it at once. Exit code 0: nothing was cut off; 8: transfers were.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sfio member --config io1/config.toml --metrics 127.0.0.1:9100
  sfio member --config io1/config.toml --check-config")]
pub(crate) struct Options {
    /// The member's config file
    #[arg(long, value_name = "FILE", env = "SFIO_CONFIG")]
    config: PathBuf,

    /// Say whether the config file, and all that it names, could be used on this machine, and end; a member that runs
    /// with it is not disturbed
    #[arg(long, conflicts_with_all = ["metrics", "grace"])]
    check_config: bool,

    /// With --check-config: print a JSON object instead of a table
    #[arg(long, requires = "check_config")]
    json: bool,

    /// How lines of the log are written: for people, or as a JSON object each
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t, env = "SFIO_LOG_FORMAT")]
    log_format: LogFormat,

    /// Serve a page of metrics for Prometheus at http://ADDR/metrics, to whoever can reach that address
    #[arg(long, value_name = "ADDR")]
    metrics: Option<SocketAddr>,

    /// How long transfers under way may take to end when the member is asked to
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::duration)]
    grace: Duration,

    /// End when standard input does: `overlay up` holds the other end, and lets go of it when it ends in whatever way
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
}

/// How lines of the log are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    #[default]
    Text,
    /// A JSON object a line: timestamp, level, target, fields, spans
    Json,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let membership = Membership::load(&options.config).or_exit(Exit::Input);
    if options.check_config {
        return config_check::run(&options.config, &membership?, options.json);
    }
    log_to_stderr(LOG, options.log_format);
    block_on(serve(membership?, options))
}

/// Logs what RUST_LOG asks for, or `usual` without it.
pub(crate) fn log_to_stderr(usual: &str, format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(usual));
    let colours =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A command that is one member after another begins its log with the first.
    let _ = match format {
        LogFormat::Text => log.with_ansi(colours).try_init(),
        LogFormat::Json => log.json().try_init(),
    };
}

async fn serve(membership: Membership, options: &Options) -> Result<(), Failure> {
    let mut signals = StopSignals::of_a_service()?;
    let mut reload = ReloadSignal::install()?;
    survive_file_size_limit()?;
    let name = membership.name().to_owned();
    Operations::refuse_second(&membership)?;
    let member = start(&membership).await?;
    let reloader = Reloader::new(&membership, member.endpoint().handle().clone());
    let observer = Observer::of(&name, &member);
    let operations = Operations::start(&membership, &observer, &reloader, options.metrics).await?;
    announce(&name, &member, &operations);
    notify(&[NotifyState::Ready]);
    let grace = loop {
        tokio::select! {
            () = signals.received() => break options.grace,
            () = end_of_stdin(), if options.until_stdin_ends => break Duration::ZERO,
            () = reload.received() => {
                if let Err(failure) = reloader.reload().await {
                    tracing::error!("the overlay file in use stays: {failure}");
                }
            }
        }
    };
    tracing::info!("shutting down");
    notify(&[NotifyState::Stopping]);
    let cut_off = drain(&member, grace, &mut signals).await?;
    drop(operations);
    member.shutdown().await.or_fail(Exit::Failed, format!("member {name}"))?;
    match cut_off {
        0 => Ok(()),
        sessions => {
            let message = format!("member {name}: {sessions} sessions with transfers under way were cut off");
            Err(Failure::new(Exit::Interrupted, message))
        }
    }
}

/// Takes nothing new and waits until no session has anything under way, for `grace` at most or until a second signal.
/// Gives how many sessions were not done.
async fn drain(member: &SfioMember, grace: Duration, signals: &mut StopSignals) -> Result<usize, Failure> {
    let handle = member.endpoint().handle();
    handle.drain().await.or_fail(Exit::Failed, "shutting down")?;
    let busy = async || {
        let count = handle.inspect(|node, _| node.busy_sessions().count()).await;
        count.or_fail(Exit::Failed, "shutting down")
    };
    let done = async {
        let mut calm = 0;
        // A transfer is many streams, one after the other.
        while calm < CALM_LOOKS {
            tokio::time::sleep(LOOK_INTERVAL).await;
            calm = if busy().await? == 0 { calm + 1 } else { 0 };
        }
        Ok(())
    };
    tokio::select! {
        done = done => done.map(|()| 0),
        () = tokio::time::sleep(grace) => busy().await,
        () = signals.received() => busy().await,
    }
}

/// Starts the process of a member, a client's too.
pub(crate) async fn start(membership: &Membership) -> Result<SfioMember, Failure> {
    let Membership { overlay, member, export, quotas, .. } = membership;
    let export_identity = Some(membership.export_identity.clone());
    let place = format!("member {}", overlay.name(*member));
    let (export, quotas, io_node) = (export.clone(), quotas.clone(), membership.io_node());
    let observer = recorder(membership)?;
    let config =
        MemberConfig { export, export_identity, io_node, quotas, observer, ..MemberConfig::default() };
    let endpoint = membership.endpoint();
    let member = SfioMember::start(endpoint, config).await;
    member.map_err(|error| {
        let exit = match error {
            StartError::Endpoint(EndpointError::NoRandomness | EndpointError::Socket(_)) => Exit::Failed,
            _ => Exit::Input,
        };
        Failure::new(exit, format!("{place}: {:#}", anyhow::Error::new(error)))
    })
}

/// Who writes down what the member does with files, if its environment or its config says so.
fn recorder(membership: &Membership) -> Result<Option<Arc<dyn io::Observer>>, Failure> {
    let from_environment = std::env::var_os(trace::VARIABLE).filter(|path| !path.is_empty());
    let Some(path) = from_environment.map(PathBuf::from).or_else(|| membership.trace.clone()) else {
        return Ok(None);
    };
    let recorder =
        Recorder::create(&path, membership.name()).map_err(|error| Failure::file(&path, &error))?;
    Ok(Some(Arc::new(recorder)))
}

fn announce(name: &str, member: &SfioMember, operations: &Operations) {
    let addresses = member.endpoint().addresses();
    let metrics = operations.metrics.map(|address| format!(", metrics http://{address}/metrics"));
    // The program that started it may not want to know.
    let _ = writeln!(
        std::io::stdout(),
        "{name} is ready: process {}, control {}, data {}{}",
        std::process::id(),
        addresses.control,
        addresses.data,
        metrics.unwrap_or_default()
    );
}

/// Tells the service manager, if one asked to be told.
fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot tell the service manager");
    }
}

/// Waits until nobody holds the other end of standard input.
pub(crate) async fn end_of_stdin() {
    let mut stdin = tokio::io::stdin();
    let mut ignored = [0; 64];
    // An error ends it as well as an end: there is nobody at the other side.
    while stdin.read(&mut ignored).await.is_ok_and(|bytes| bytes > 0) {}
}
