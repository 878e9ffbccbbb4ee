//! `sfio demo --web`: those who watch the demo in a browser.

use std::io::IsTerminal as _;
use std::time::Duration;

use console::Term;
use program::output;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::stage::Spectator;
use crate::exit::{Exit, Failure};
use crate::signals::StopSignals;
use crate::web::{Page, WebAddress, show};

/// Between two looks: a link that dies shall be seen within a second.
const INTERVAL: Duration = Duration::from_millis(250);

/// How long somebody may take to open the page before the demo begins without.
const FIRST_VIEWER: Duration = Duration::from_secs(30);

/// The page of the demo.
pub(super) struct Audience {
    /// One thread of its own: what is shown must not delay what is played.
    runtime: Runtime,
    page: Page,
    showing: JoinHandle<()>,
    /// Whether the page is there before the demo begins, and after its end.
    stays: bool,
}

impl Audience {
    /// Opens the page and says where it is.
    pub(super) fn invite(
        address: WebAddress,
        must_stay: bool,
        mut spectator: Spectator,
    ) -> Result<Audience, Failure> {
        let runtime = super::runtime(1)?;
        let page = runtime.block_on(Page::open(address))?;
        let hub = page.hub().clone();
        let showing = runtime.spawn(async move { show(&mut spectator, &hub, INTERVAL).await });
        output::note(format_args!("the demo is shown at {}", page.url()));
        let has_terminal = Term::stderr().is_term() && std::io::stdin().is_terminal();
        Ok(Audience { runtime, page, showing, stays: must_stay || has_terminal })
    }

    /// Waits for somebody to come, where somebody is expected, but not for long.
    pub(super) fn await_viewer(&self) -> Result<(), Failure> {
        if !self.stays {
            return Ok(());
        }
        let seconds = FIRST_VIEWER.as_secs();
        output::note(format_args!("it begins when that page is opened, or after {seconds} seconds"));
        self.runtime.block_on(async {
            let mut signals = StopSignals::install()?;
            tokio::select! {
                () = self.page.hub().joined() => Ok(()),
                () = tokio::time::sleep(FIRST_VIEWER) => Ok(()),
                () = signals.received() => Err(Failure::new(Exit::Interrupted, "interrupted")),
            }
        })
    }

    /// The demo is over: whoever watches sees its last picture and the `outcome`, until Ctrl-C where the page stays.
    pub(super) fn dismiss(self, outcome: &str, has_played: bool) -> Result<(), Failure> {
        let Audience { runtime, page, showing, stays } = self;
        runtime.block_on(async {
            // The last change must have been looked at.
            tokio::time::sleep(2 * INTERVAL).await;
            showing.abort();
            page.hub().end(outcome);
            if stays && has_played {
                let mut signals = StopSignals::install()?;
                output::note(format_args!("the page stays at {} until Ctrl-C", page.url()));
                signals.received().await;
            }
            page.close(outcome).await;
            Ok(())
        })
    }
}
