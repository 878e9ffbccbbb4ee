//! `netsim cable`: a link between two devices that give and take whole packets.

mod watch;
mod way;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Args;
use netsim::{LinkModel, Probability, Rate};
use program::quantity;

use self::watch::Outage;
use self::way::Way;
use crate::failure::Failure;

/// `netsim cable`, whose text for users is at the command.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  netsim cable --rate 100Mbit/s --delay 25ms --loss 0.02 --outage 20s..40s <>DEVICE 1<>OTHER"
)]
pub(crate) struct Cable {
    /// How fast packets leave the queue
    #[arg(long = "rate", value_name = "RATE", value_parser = quantity::rate)]
    bytes_per_second: u64,
    /// From one end to the other: half the round trip
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = quantity::duration)]
    delay: Duration,
    /// Share of the packets that is lost
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = quantity::share)]
    loss: f64,
    /// How long a packet waits in a full queue
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = quantity::duration)]
    queue: Duration,
    /// Decides which packets are lost
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// When the link is dead, in time since the start; may be given several times
    #[arg(long = "outage", value_name = "FROM..TO", value_parser = watch::outage)]
    outages: Vec<Outage>,
    /// Writes what each direction carried and how long its queue was, a JSON object for each tenth of a second
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

impl Cable {
    /// Carries packets in both directions until one of the devices gives no more.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let model = self.model()?;
        let [forth, back] = ["forth", "back"].map(|name| Arc::new(Way::new(model.clone(), self.seed, name)));
        let [input, output] = [device(io::stdin().as_fd())?, device(io::stdout().as_fd())?];
        let [from, to] = [device(io::stdout().as_fd())?, device(io::stdin().as_fd())?];
        self.watch([&forth, &back].map(Arc::clone))?;
        // The process ends with the direction that ends first.
        thread::spawn(move || back.carry(from, to));
        forth.carry(input, output).map_err(|error| failed(&error))
    }

    /// Starts what happens to the link while it carries: its outages, and the record of it.
    fn watch(&self, ways: [Arc<Way>; 2]) -> Result<(), Failure> {
        if let Some(path) = self.record.clone() {
            let file = File::create(&path).map_err(|error| Failure::File(path.clone(), error))?;
            let ways = ways.clone();
            thread::spawn(move || {
                if let Err(error) = watch::record(&ways, file) {
                    eprintln!("netsim: {}: {error}; the link goes on without a record", path.display());
                }
            });
        }
        let outages = self.outages.clone();
        thread::spawn(move || watch::interrupt(&ways, outages));
        Ok(())
    }

    fn model(&self) -> Result<LinkModel, Failure> {
        let rate = Rate::from_bits(8 * self.bytes_per_second);
        let loss = Probability::new(self.loss).map_err(|error| Failure::Usage(error.to_string()))?;
        // Packets of IP have their headers with them.
        let model = LinkModel { header_bytes: 0, ..LinkModel::new(rate, self.delay) };
        Ok(model.with_queue_bytes(rate.bytes_in(self.queue)).with_loss(loss))
    }
}

fn device(descriptor: BorrowedFd<'_>) -> Result<File, Failure> {
    descriptor.try_clone_to_owned().map(File::from).map_err(|error| failed(&error))
}

fn failed(error: &io::Error) -> Failure {
    let words = io::Error::new(error.kind(), format!("standard input and output are to be devices: {error}"));
    Failure::File(PathBuf::from("netsim cable"), words)
}
