//! `sfio overlay up`: the members of a local overlay, each as a process of its own.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitStatus;

use fec_transport::overlay::Overlay;

#[cfg(feature = "demo")]
use super::emulation::Emulation;
use super::folder::Folder;
use super::links::Links;
use super::supervisor::{News, Supervisor};
use crate::block_on;
use crate::exit::{Exit, Failure, OrFail as _};
use crate::member::end_of_stdin;
use crate::operations::Operations;
use crate::signals::StopSignals;
use fec_transport::io::files::read_overlay;
use program::output;
use sfio_remote::io::membership::Membership;

/// Run the members of a local overlay until Ctrl-C
///
/// Each member that has a folder in DIR and an address runs as a process of its own; its log is DIR/NAME/log. The links
/// in DIR/links.toml are emulated. If a member dies before it is ready, the command ends with that member's exit code.
/// One that dies later is reported, and the others go on; it may be started again by hand with `sfio member --config
/// DIR/NAME/config.toml`. The command ends when no member runs any more.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  sfio overlay up try")]
pub(crate) struct Options {
    /// The folder that `sfio overlay new` made
    dir: PathBuf,

    /// End when standard input does, or a member dies: for the time of another command
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let folder = Folder::new(&options.dir);
    let overlay = read_overlay(&folder.overlay()).or_exit(Exit::Input)?;
    let names = local_members(&overlay, &folder);
    if names.is_empty() {
        let message = format!("{}: no member has an address and a config file here", options.dir.display());
        return Err(Failure::new(Exit::Input, message));
    }
    names.iter().try_for_each(|name| refuse_second(&folder, name))?;
    let links = Links::read(&folder.links())?;
    let _emulation = emulate(&overlay, &links)?;
    block_on(supervise(folder, &names, options.until_stdin_ends))
}

/// The members that listen and whose config files are here.
fn local_members(overlay: &Overlay, folder: &Folder) -> Vec<String> {
    let listening = overlay.members().iter().filter(|member| member.control.is_some());
    listening.map(|member| member.name.clone()).filter(|name| folder.config(name).exists()).collect()
}

/// Refuses to start a member that runs already: its log and its pid file are those of the one that runs.
fn refuse_second(folder: &Folder, name: &str) -> Result<(), Failure> {
    // A config that cannot be used is told by the member itself.
    let Ok(membership) = Membership::load(&folder.config(name)) else { return Ok(()) };
    Operations::refuse_second(&membership)
        .map_err(|failure| Failure::new(failure.exit, format!("{name} runs already: {failure}")))
}

#[cfg(feature = "demo")]
fn emulate(overlay: &Overlay, links: &Links) -> Result<Option<Emulation>, Failure> {
    if links.link.is_empty() {
        return Ok(None);
    }
    let emulation = Emulation::start(overlay, links)?;
    program::line!("{} links are emulated", emulation.links())?;
    Ok(Some(emulation))
}

#[cfg(not(feature = "demo"))]
fn emulate(_: &Overlay, links: &Links) -> Result<Option<std::convert::Infallible>, Failure> {
    match links.link.len() {
        0 => Ok(None),
        links => Err(Failure::new(
            Exit::Usage,
            format!("this sfio was built without its emulator (feature demo), which {links} links need"),
        )),
    }
}

async fn supervise(folder: Folder, names: &[String], until_stdin_ends: bool) -> Result<(), Failure> {
    let mut signals = StopSignals::install()?;
    let mut supervisor = Supervisor::new(folder.clone());
    for name in names {
        supervisor.start(name)?;
    }
    let mut roll = Roll {
        folder,
        members: names.len(),
        starting: names.iter().cloned().collect(),
        running: names.len(),
    };
    let mut end = pin!(end_of_stdin());
    let result = loop {
        tokio::select! {
            news = supervisor.next() => {
                let died = matches!(news, News::Died { .. });
                if let ControlFlow::Break(result) = roll.hear(news) {
                    break result;
                }
                if until_stdin_ends && died {
                    break Err(Failure::new(Exit::Failed, "a member has died"));
                }
            }
            () = signals.received() => break Ok(()),
            () = &mut end, if until_stdin_ends => break Ok(()),
        }
    };
    let said = output::line("stopping");
    supervisor.stop().await;
    result.and(said)
}

/// Which members there are.
struct Roll {
    folder: Folder,
    /// How many there are in all.
    members: usize,
    /// Those that are not ready yet.
    starting: BTreeSet<String>,
    /// How many have not died.
    running: usize,
}

impl Roll {
    /// Says what has happened; breaks off with how it all ends, if it does.
    fn hear(&mut self, news: News) -> ControlFlow<Result<(), Failure>> {
        match news {
            News::Ready { name, words } => match self.is_ready(&name, &words) {
                Ok(()) => ControlFlow::Continue(()),
                failed => ControlFlow::Break(failed),
            },
            News::Died { name, status, last_words } => {
                self.running -= 1;
                let said = last_words.map(|words| format!("; it said: {words}")).unwrap_or_default();
                if self.starting.contains(&name) {
                    let exit = status.code().and_then(Exit::of_code).filter(|exit| *exit != Exit::Ok);
                    let message = format!("{name} has died before it was ready ({status}){said}");
                    return ControlFlow::Break(Err(Failure::new(exit.unwrap_or(Exit::Failed), message)));
                }
                self.has_died(&name, status, &said)
            }
        }
    }

    fn is_ready(&mut self, name: &str, words: &str) -> Result<(), Failure> {
        self.starting.remove(name);
        output::line(words)?;
        if self.starting.is_empty() {
            program::line!("ready: {0} of {0} members; stop them with Ctrl-C", self.members)?;
        }
        Ok(())
    }

    fn has_died(&self, name: &str, status: ExitStatus, said: &str) -> ControlFlow<Result<(), Failure>> {
        let end = if status.success() { "ended" } else { "died" };
        output::note(format_args!("{name} has {end} ({status}){said}"));
        match self.running {
            0 if status.success() => ControlFlow::Break(Ok(())),
            0 => ControlFlow::Break(Err(Failure::new(Exit::Failed, "no member runs any more"))),
            _ => {
                let config = self.folder.config(name);
                output::note(format_args!(
                    "  start it again with: sfio member --config {}",
                    config.display()
                ));
                ControlFlow::Continue(())
            }
        }
    }
}
