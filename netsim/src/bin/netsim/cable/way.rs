//! One direction of a cable, in real time.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use netsim::{Link, LinkCounters, LinkModel, Transit, random_stream};

/// The largest packet of IP.
const LARGEST_PACKET: usize = 65_535;

/// One direction: the link by the model, and the packets that are on it.
pub(super) struct Way {
    name: &'static str,
    seed: u64,
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
    /// One that starts now; which packets it loses is decided by seed and name.
    pub(super) fn new(model: LinkModel, seed: u64, name: &'static str) -> Self {
        let state = State { link: Link::new(model), on_the_way: VecDeque::new(), is_over: false };
        Self { name, seed, started: present(), state: Mutex::new(state), news: Condvar::new() }
    }

    /// Carries packets from one device to the other as the model lets it, until the first one gives no more. The
    /// caller's thread receives, and another one lets out what is due.
    pub(super) fn carry(&self, mut from: impl Read, to: impl Write + Send) -> io::Result<()> {
        let (mut packet, mut random) = (vec![0; LARGEST_PACKET], random_stream(self.seed, &[self.name]));
        thread::scope(|scope| {
            scope.spawn(|| self.release(to));
            let result = loop {
                match from.read(&mut packet) {
                    Ok(0) => break Ok(()),
                    Ok(length) => {
                        let mut state = self.lock();
                        let now = self.now();
                        if let Ok(passage) = state.link.offer(now, length, &mut random) {
                            state.on_the_way.push_back((passage.transit, packet[..length].to_vec()));
                            self.news.notify_one();
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => break Err(error),
                }
            };
            self.lock().is_over = true;
            self.news.notify_one();
            result
        })
    }

    /// The direction's name.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Time since the start.
    pub(super) fn now(&self) -> Duration {
        present().saturating_duration_since(self.started)
    }

    /// Sleeps until that time since the start.
    pub(super) fn wait_until(&self, time: Duration) {
        thread::sleep(time.saturating_sub(self.now()));
    }

    /// The link dies, with all that is on it, or is there again.
    pub(super) fn set_dead(&self, is_dead: bool) {
        let mut state = self.lock();
        if is_dead {
            state.link.set_down();
        } else {
            state.link.set_up();
        }
    }

    /// How long a packet that came now would wait.
    pub(super) fn queued(&self) -> Duration {
        let mut state = self.lock();
        let queued = state.link.queued_bytes(self.now());
        state.link.model().rate.time_for(queued)
    }

    /// What became of the packets so far.
    pub(super) fn counters(&self) -> LinkCounters {
        *self.lock().link.counters()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

    use netsim::{Probability, Rate};

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

    fn half_lost() -> LinkModel {
        let model = LinkModel::new(Rate::from_bits(1_000_000_000), Duration::ZERO);
        model.with_loss(Probability::new(0.5).expect("a share"))
    }

    #[test]
    fn packets_come_out_whole_and_in_order_and_the_model_loses_its_share() {
        let [(here, from), (there, to)] = [(); 2].map(|()| UnixDatagram::pair().expect("two sockets"));
        let end = to.try_clone().expect("a second handle");
        let way = Way::new(half_lost(), 1, "a cable");
        let carrying = thread::spawn(move || way.carry(Device(from), Device(to)).map(|()| way.counters()));
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
    #[test]
    fn a_dead_link_takes_what_is_on_it() {
        let way = Way::new(LinkModel::new(Rate::from_bits(8_000), Duration::from_secs(3600)), 1, "a cable");
        let mut random = random_stream(1, &[]);
        let taken = way.lock().link.offer(way.now(), 1, &mut random).expect("it is up").transit;
        way.set_dead(true);
        assert!(way.lock().link.offer(way.now(), 1, &mut random).is_err());
        way.set_dead(false);
        assert!(!way.lock().link.deliver(taken), "it was on the link that died");
        assert!(way.lock().link.offer(way.now(), 1, &mut random).is_ok());
        assert_eq!(way.counters().dropped_down, 2);
    }
}
