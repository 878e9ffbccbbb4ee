//! `netsim manet`.

mod files;
mod motion;
mod report;

use std::io::IsTerminal as _;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use capillary::NodeId;
use clap::Args;
use netsim::mobility::{Frame, FrameStatistics, Length, LinkWatch};
use program::output::Results;
use program::progress::Progress;
use program::table::counted;

use crate::failure::Failure;
use files::Files;
use motion::{Motion, Source, metres, time};
use report::{Report, Row};

const EXAMPLES: &str = "\
Examples:
  The thesis's networks: 300 nodes with 8.52 neighbours each, every frame one step of a random walk
    netsim manet walk --nodes 300 --degree 8.52 --range 100 --speed 10 --frames 200 --interval 5

  Pedestrians who pause, as a BonnMotion trace
    netsim manet waypoint --nodes 50 --area 500x500 --range 100 --speed 0.5..1.5 --pause 0..60 \\
        --frames 600 --write-trace walkers.movements.gz

  Somebody's trace, one JSON object per frame, with the minimum cut between nodes 0 and 5
    netsim manet trace rwp.movements.gz --range 150 --interval 10 --pair 0,5 --json";

/// `netsim manet`, whose text for users is at the command.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Manet {
    #[command(subcommand)]
    motion: Motion,
}

/// What every kind of motion is looked at with.
#[derive(Debug, Args)]
struct View {
    /// How far nodes hear each other, in metres
    #[arg(long, value_name = "M", value_parser = metres)]
    range: Length,
    /// How many frames [default: 100; of a trace: all]
    #[arg(long, value_name = "N")]
    frames: Option<NonZeroU64>,
    /// From frame to frame, in seconds or with a unit (5s, 1min)
    #[arg(long, value_name = "S", default_value = "1", value_parser = time)]
    interval: Duration,
    /// Print the minimum cut between two nodes in each frame, too
    #[arg(long, value_name = "A,B", value_parser = pair)]
    pair: Option<(usize, usize)>,
    /// Print one JSON object per frame, and one with the summary
    #[arg(long)]
    json: bool,
    /// Print the summary only
    #[arg(long)]
    summary: bool,
    /// The file to write; standard output without it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    files: Files,
}

fn pair(text: &str) -> Result<(usize, usize), String> {
    let nodes =
        text.split_once(',').and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
    nodes.filter(|(a, b)| a != b).ok_or_else(|| "expected the numbers of two nodes, such as 0,5".into())
}

impl Manet {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let view = self.motion.view();
        let source = self.motion.source()?;
        view.check(&source)?;
        view.run(&source)
    }
}

impl View {
    fn check(&self, source: &Source) -> Result<(), Failure> {
        let nodes = source.nodes();
        if let Some((a, b)) = self.pair.filter(|(a, b)| *a.max(b) >= nodes) {
            return Err(Failure::Usage(format!(
                "--pair {a},{b}: the motion has {}, counted from 0",
                counted(nodes, "node")
            )));
        }
        self.files.check(source.frame_count(self))
    }

    fn run(&self, source: &Source) -> Result<(), Failure> {
        let count = source.frame_count(self);
        let mut files = self.files.open(source, self, count)?;
        let mut out = Results::open(self.output.as_deref()).map_err(Failure::Output)?;
        let mut report = Report::new(self, source);
        let mut watch = LinkWatch::default();
        let progress = self.progress(count);
        report.head(&mut out)?;
        for frame in source.frames(self.interval).take(usize::try_from(count).unwrap_or(usize::MAX)) {
            let row = self.look(&frame, &mut watch, &mut files)?;
            report.row(&row, &mut out)?;
            if let Some(progress) = &progress {
                progress.advance(1);
            }
        }
        drop(progress);
        files.close()?;
        report.summary(&watch, &mut out)?;
        out.close().map_err(Failure::Output)
    }

    /// Rows on a terminal show how far it is; where they go elsewhere, a bar does.
    fn progress(&self, frames: u64) -> Option<Progress> {
        let shows_rows = self.output.is_none() && !self.summary && std::io::stdout().is_terminal();
        (!shows_rows).then(|| Progress::of_things("watching", "frames", frames, 0))
    }

    fn look(
        &self,
        frame: &Frame,
        watch: &mut LinkWatch,
        files: &mut files::Open<'_>,
    ) -> Result<Row, Failure> {
        let links = frame.links(self.range);
        files.frame(frame, &links)?;
        let minimum_cut = self.pair.map(|(a, b)| {
            let topology = frame.topology_of(&links);
            let [a, b] = [a, b].map(|node| NodeId(node as u32));
            let cut = capillary::minimum_cut(&topology, a, b);
            // Links have capacity 1, so it counts links.
            cut.expect("--pair names two nodes of the frame").links.len()
        });
        let statistics = FrameStatistics::of(frame.positions.len(), &links);
        let changes = watch.observe(links);
        Ok(Row { number: frame.number, time: frame.time, statistics, changes, minimum_cut })
    }
}
