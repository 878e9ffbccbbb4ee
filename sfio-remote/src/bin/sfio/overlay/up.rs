//! `sfio overlay up`: the members of a local overlay, each as a process of its own.

use std::path::PathBuf;
use std::pin::pin;

use fec_transport::overlay::Overlay;

#[cfg(feature = "demo")]
use super::emulation::Emulation;
use super::folder::Folder;
use super::links::Links;
use super::supervisor::{News, Supervisor};
use crate::block_on;
use crate::exit::{Exit, Failure, OrFail as _};
use crate::member::end_of_stdin;
use crate::signals::StopSignals;
use fec_transport::io::files::read_overlay;
use program::output;

/// Run the members of a local overlay until Ctrl-C
///
/// Each member that has a folder in DIR and an address runs as a process of its own; its log is DIR/NAME/log. The links
/// in DIR/links.toml are emulated. A member that dies is reported, and the others go on; it may be started again by
/// hand with `sfio member --config DIR/NAME/config.toml`.
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
    let links = Links::read(&folder.links())?;
    let _emulation = emulate(&overlay, &links)?;
    block_on(supervise(folder, &names, options.until_stdin_ends))
}

/// The members that listen and whose config files are here.
fn local_members(overlay: &Overlay, folder: &Folder) -> Vec<String> {
    let listening = overlay.members().iter().filter(|member| member.control.is_some());
    listening.map(|member| member.name.clone()).filter(|name| folder.config(name).exists()).collect()
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
    let (mut ready, mut end) = (0, pin!(end_of_stdin()));
    let result = loop {
        tokio::select! {
            news = supervisor.next() => {
                let died = matches!(news, News::Died { .. });
                if let Err(failure) = tell(&folder, names.len(), &mut ready, news) {
                    break Err(failure);
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

fn tell(folder: &Folder, members: usize, ready: &mut usize, news: News) -> Result<(), Failure> {
    match news {
        News::Ready { words } => {
            *ready += 1;
            output::line(words)?;
            if *ready == members {
                program::line!("ready: {members} of {members} members; stop them with Ctrl-C")?;
            }
            Ok(())
        }
        News::Died { name, status, last_words } => {
            let last_words = last_words.map(|words| format!("; it said: {words}")).unwrap_or_default();
            let config = folder.config(&name);
            let end = if status.success() { "ended" } else { "died" };
            program::output::note(format_args!("{name} has {end} ({status}){last_words}"));
            program::output::note(format_args!(
                "  start it again with: sfio member --config {}",
                config.display()
            ));
            Ok(())
        }
    }
}
