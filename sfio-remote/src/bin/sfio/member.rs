//! `sfio member`: one member of an overlay as a process.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use fec_transport::io::{EndpointConfig, EndpointError};
use sd_notify::NotifyState;
use sfio_remote::io::{MemberConfig, SfioMember, StartError};
use sfio_remote::io_node::IoNodeConfig;
use tokio::io::AsyncReadExt as _;
use tracing_subscriber::EnvFilter;

use crate::block_on;
use crate::exit::{Exit, Failure, OrFail as _};
use crate::signals::{StopSignals, survive_file_size_limit};
use sfio_remote::io::membership::Membership;

/// What is logged unless RUST_LOG says otherwise: who comes and goes, who is refused, what fails.
const LOG: &str = "info";

/// Run a member of an overlay: it relays, and serves subfiles if its config names an export folder
///
/// It runs in the foreground until Ctrl-C or SIGTERM, says on standard output when it is ready, logs to standard error
/// (RUST_LOG=debug for more), and tells systemd if that started it (Type=notify).
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The member's config file
    #[arg(long, value_name = "FILE", env = "SFIO_CONFIG")]
    config: PathBuf,

    /// End when standard input does: `overlay up` holds the other end, and lets go of it when it ends in whatever way
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    log_to_stderr(LOG);
    let membership = Membership::load(&options.config)?;
    block_on(serve(membership, options.until_stdin_ends))
}

/// Logs what RUST_LOG asks for, or `usual` without it.
pub(crate) fn log_to_stderr(usual: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(usual));
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours).init();
}

async fn serve(membership: Membership, until_stdin_ends: bool) -> Result<(), Failure> {
    let mut signals = StopSignals::install()?;
    survive_file_size_limit()?;
    let name = membership.name().to_owned();
    let member = start(membership).await?;
    announce(&name, &member);
    notify(&[NotifyState::Ready]);
    tokio::select! {
        () = signals.received() => {}
        () = end_of_stdin(), if until_stdin_ends => {}
    }
    tracing::info!("shutting down");
    notify(&[NotifyState::Stopping]);
    member.shutdown().await.or_fail(Exit::Failed, format!("member {name}"))
}

/// Starts the process of a member, a client's too.
pub(crate) async fn start(membership: Membership) -> Result<SfioMember, Failure> {
    let Membership { overlay, identity, member, export, access } = membership;
    let place = format!("member {}", overlay.name(member));
    let io_node = IoNodeConfig { access, ..IoNodeConfig::default() };
    let config = MemberConfig { export, io_node, ..MemberConfig::default() };
    let member = SfioMember::start(EndpointConfig::new(overlay, identity), config).await;
    member.map_err(|error| {
        let exit = match error {
            StartError::Endpoint(EndpointError::NoRandomness | EndpointError::Socket(_)) => Exit::Failed,
            _ => Exit::Input,
        };
        Failure::new(exit, format!("{place}: {:#}", anyhow::Error::new(error)))
    })
}

fn announce(name: &str, member: &SfioMember) {
    let addresses = member.endpoint().addresses();
    // Whoever started it may not want to know.
    let _ = writeln!(
        std::io::stdout(),
        "{name} is ready: process {}, control {}, data {}",
        std::process::id(),
        addresses.control,
        addresses.data
    );
}

/// Tells the service manager, if one asked to be told.
fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot tell the service manager");
    }
}

async fn end_of_stdin() {
    let mut stdin = tokio::io::stdin();
    let mut ignored = [0; 64];
    // An error ends it as well as an end: there is nobody at the other side.
    while stdin.read(&mut ignored).await.is_ok_and(|bytes| bytes > 0) {}
}
