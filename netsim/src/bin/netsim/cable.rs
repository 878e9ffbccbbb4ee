//! `netsim cable`: a link between two devices that give and take whole packets.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use netsim::{Link, LinkCounters, LinkModel, Probability, Rate, Transit, random_stream};
use program::quantity;

use crate::failure::Failure;

/// The largest packet of IP.
const LARGEST_PACKET: usize = 65_535;

/// `netsim cable`, whose text for users is at the command.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  netsim cable --rate 100Mbit/s --delay 25ms --loss 0.02 <>DEVICE 1<>OTHER"
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
}

impl Cable {
    /// Carries packets in both directions until one of the devices gives no more.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let model = self.model()?;
        let [input, output] = [device(io::stdin().as_fd())?, device(io::stdout().as_fd())?];
        let back = [device(io::stdout().as_fd())?, device(io::stdin().as_fd())?];
        let (backward, seed) = (model.clone(), self.seed);
        // The process ends with the direction that ends first.
        thread::spawn(move || {
            let [from, to] = back;
            carry(from, to, backward, seed, "back")
        });
        carry(input, output, model, seed, "forth").map(drop).map_err(|error| failed(&error))
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

/// Carries packets from one device to the other as the model lets it, until the first one gives no more. The caller's
/// thread receives, and another one lets out what is due.
fn carry(
    mut from: impl Read,
    to: impl Write + Send,
    model: LinkModel,
    seed: u64,
    name: &str,
) -> io::Result<LinkCounters> {
    let link = Link::new(model);
    let way = Way {
        started: present(),
        state: Mutex::new(State { link, on_the_way: VecDeque::new(), is_over: false }),
        news: Condvar::new(),
    };
    let (mut packet, mut random) = (vec![0; LARGEST_PACKET], random_stream(seed, &[name]));
    let result = thread::scope(|scope| {
        scope.spawn(|| way.release(to));
        let result = loop {
            match from.read(&mut packet) {
                Ok(0) => break Ok(()),
                Ok(length) => {
                    let now = way.now();
                    let mut state = way.lock();
                    if let Ok(passage) = state.link.offer(now, length, &mut random) {
                        state.on_the_way.push_back((passage.transit, packet[..length].to_vec()));
                        way.news.notify_one();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        way.end();
        result
    });
    result.map(|()| *way.lock().link.counters())
}

/// One direction.
struct Way {
    started: Instant,
    state: Mutex<State>,
    /// A packet is on the way, or nothing more will come.
    news: Condvar,
}

struct State {
    link: Link,
    /// In the order of their arrival, which without jitter is that in which they came.
    on_the_way: VecDeque<(Transit, Vec<u8>)>,
    is_over: bool,
}

impl Way {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        present().saturating_duration_since(self.started)
    }

    fn end(&self) {
        self.lock().is_over = true;
        self.news.notify_one();
    }

    /// Lets out what is due, until all has left that will.
    fn release(&self, mut to: impl Write) {
        let mut state = self.lock();
        loop {
            let now = self.now();
            match state.on_the_way.front().map(|(transit, _)| transit.arrives_at.saturating_sub(now)) {
                None if state.is_over => return,
                None => state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    let arrived = state.on_the_way.pop_front();
                    let arrived = arrived.filter(|(transit, _)| state.link.deliver(*transit));
                    drop(state);
                    // A device that is down, or full, loses it.
                    let _ = arrived.map(|(_, packet)| to.write(&packet));
                    state = self.lock();
                }
                Some(wait) => {
                    drop(state);
                    thread::sleep(wait);
                    state = self.lock();
                }
            }
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "it emulates a link in real time")]
fn present() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    /// A device at whose other end a test is.
    struct Device(UnixDatagram);

    impl Read for Device {
        fn read(&mut self, packet: &mut [u8]) -> io::Result<usize> {
            self.0.recv(packet)
        }
    }

    impl Write for Device {
        fn write(&mut self, packet: &[u8]) -> io::Result<usize> {
            self.0.send(packet)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn packets_come_out_whole_and_in_order_and_the_model_loses_its_share() {
        let [(here, from), (there, to)] = [(); 2].map(|()| UnixDatagram::pair().expect("two sockets"));
        let (seed, end) = (1, to.try_clone().expect("a second handle"));
        let queue = Duration::from_millis(50);
        let cable = Cable { bytes_per_second: 125_000_000, delay: Duration::ZERO, loss: 0.5, queue, seed };
        let model = cable.model().expect("a right model");
        let carrying = thread::spawn(move || carry(Device(from), Device(to), model, seed, "a cable"));
        let reading = thread::spawn(move || {
            let (mut packet, mut came) = (vec![0; LARGEST_PACKET], Vec::new());
            while let Ok(length @ 1..) = there.recv(&mut packet) {
                assert!(packet[..length].iter().all(|byte| usize::from(*byte) + 100 == length));
                came.push(packet[0]);
            }
            came
        });
        for number in 0..100 {
            here.send(&vec![number; 100 + usize::from(number)]).expect("it is taken");
        }
        // An empty packet is the end.
        here.send(&[]).expect("it is taken");
        let counters = carrying.join().expect("no panic").expect("no error");
        end.send(&[]).expect("it is taken");
        let came = reading.join().expect("no panic");
        assert_eq!((counters.offered, counters.delivered + counters.lost), (100, 100), "{counters:?}");
        assert!(came.is_sorted() && came.len() as u64 == counters.delivered, "{came:?}");
        assert!((25..75).contains(&came.len()), "{came:?}");
    }
}
