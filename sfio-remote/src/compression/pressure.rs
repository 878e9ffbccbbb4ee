//! Back-pressure: whether the network makes us wait, and what it carries.

use std::time::Duration;

use fec_transport::{SessionId, Time};

use crate::transport::Flow;

/// How often the session is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// What is told of is told of such times; longer where a round trip is.
const WINDOW: Duration = Duration::from_millis(50);
/// Shorter ones do as long as it is not known what the network carries: it has not made us wait, or it has carried more
/// than was known without making us wait.
const FIRST_WINDOW: Duration = Duration::from_millis(10);
/// A window that took so long is none: there was nothing to send meanwhile.
const PAUSE: Duration = Duration::from_millis(1_000);
/// For so long after the network has last made us wait it is believed to carry what it carried then.
const MEMORY: Duration = Duration::from_millis(1_000);
/// After that it is believed to carry twice as much with every such time, until it makes us wait again.
const DOUBLING: Duration = Duration::from_millis(500);
/// While it is not known what it carries there is nothing to believe for a while, and it is found out faster.
const FIRST_DOUBLING: Duration = Duration::from_millis(100);
/// What may wait in front of the network, in time: the codec of what waits cannot be changed any more.
const QUEUE: Duration = Duration::from_millis(100);
/// As long as it is not known what the network carries: what waits then is packed by a guess.
const FIRST_QUEUE: Duration = Duration::from_millis(30);
/// And at least, in bytes: half of a plain frame.
const LEAST_QUEUE: f64 = 128.0 * 1_024.0;
/// So much more than the network holds on its way, and so many bytes, are no queue.
const UNEVENNESS: f64 = 1.25;
const UNEVEN_BYTES: f64 = 32.0 * 1_024.0;
/// A session whose rate still doubles, and that sends at least this share of it, is held back by its own care: what it
/// carries tells nothing of the network.
const CAREFUL: f64 = 0.5;
/// Such a session is believed to carry so many times its rate soon. A codec that is only fast enough for its present
/// rate would keep it from doubling.
const SOON: f64 = 8.0;

/// What is known of one session's way through the network.
#[derive(Debug, Clone, Default)]
pub struct Pressure {
    session: Option<SessionId>,
    looked: Time,
    flow: Flow,
    window: Window,
    /// What the session carries when it is never idle, in bit/s.
    capacity_bps: f64,
    /// Whether its own care is what limits that.
    is_careful: bool,
    /// Whether that was measured, and nothing has shown that it is more.
    is_known: bool,
    /// For how long the network has not made us wait.
    idle: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
struct Window {
    began: Time,
    acknowledged: u64,
    /// The least that waited, in bytes.
    least_held: u64,
    /// What the session might send at first, in bit/s.
    send_bps: f64,
}

impl Pressure {
    /// Looks at the session, if that was not done just now.
    pub fn look(&mut self, now: Time, session: SessionId, flow: impl FnOnce() -> Flow) {
        let is_new = self.session != Some(session);
        if !is_new && now.since(self.looked) < LOOK {
            return;
        }
        self.looked = now;
        self.flow = flow();
        if is_new {
            *self = Pressure {
                session: Some(session),
                looked: now,
                capacity_bps: self.flow.send_bps,
                is_careful: self.flow.is_starting,
                window: self.new_window(now),
                flow: self.flow,
                is_known: false,
                idle: Duration::ZERO,
            };
            return;
        }
        self.window.least_held = self.window.least_held.min(self.flow.held_bytes);
        let took = now.since(self.window.began);
        let least = if self.is_known { WINDOW } else { FIRST_WINDOW };
        if took >= least.max(self.flow.round_trip) {
            if took < PAUSE.max(4 * self.flow.round_trip) {
                self.learn(took);
            }
            self.window = self.new_window(now);
        }
    }

    /// A window has ended.
    fn learn(&mut self, took: Duration) {
        let carried = self.flow.acknowledged_bytes.saturating_sub(self.window.acknowledged);
        let rate = carried as f64 * 8.0 / took.as_secs_f64();
        let on_its_way = UNEVENNESS * rate / 8.0 * self.flow.round_trip.as_secs_f64() + UNEVEN_BYTES;
        let waited = self.window.least_held as f64 > on_its_way && carried > 0;
        self.idle = if waited { Duration::ZERO } else { self.idle + took };
        self.is_careful = self.flow.is_starting && rate > CAREFUL * self.window.send_bps;
        if self.is_careful {
            (self.capacity_bps, self.is_known) = (self.flow.send_bps, false);
        } else if waited {
            // A change of the network counts at once, a little of noise does not.
            self.capacity_bps = match rate / self.capacity_bps {
                ratio if (0.5..2.0).contains(&ratio) => 0.7 * self.capacity_bps + 0.3 * rate,
                _ => rate,
            };
            self.is_known = true;
        } else if rate > 1.2 * self.capacity_bps {
            // It carries more than was believed, and is idle at that.
            (self.capacity_bps, self.idle, self.is_known) = (1.5 * rate, took, false);
        }
    }

    fn new_window(&self, now: Time) -> Window {
        Window {
            began: now,
            acknowledged: self.flow.acknowledged_bytes,
            least_held: self.flow.held_bytes,
            send_bps: self.flow.send_bps,
        }
    }

    /// Whether the network makes us wait: lately there was something in front of it at any time.
    pub fn waits(&self) -> bool {
        self.idle < MEMORY
    }

    /// What the session is believed to carry, in bit/s.
    pub fn rate_bps(&self) -> f64 {
        let (memory, doubling) =
            if self.is_known { (MEMORY, DOUBLING) } else { (Duration::ZERO, FIRST_DOUBLING) };
        let doublings = self.idle.saturating_sub(memory).as_secs_f64() / doubling.as_secs_f64();
        let soon = if self.is_careful { SOON } else { 1.0 };
        soon * self.capacity_bps * doublings.min(40.0).exp2()
    }

    /// Whether so much waits in front of the network that more would only wait longer.
    pub fn is_full(&self) -> bool {
        let rate = self.capacity_bps.max(self.flow.send_bps) / 8.0;
        let queue = if self.is_known { QUEUE } else { FIRST_QUEUE };
        let most = rate * (self.flow.round_trip + queue).as_secs_f64() + LEAST_QUEUE;
        self.flow.held_bytes as f64 > most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A link that carries so many bytes a second, and somebody who keeps so many in front of it.
    struct Link {
        pressure: Pressure,
        now: Time,
        carried: f64,
        held: f64,
        send_bps: f64,
        is_starting: bool,
    }

    impl Link {
        fn new() -> Link {
            Link {
                pressure: Pressure::default(),
                now: Time::ZERO,
                carried: 0.0,
                held: 0.0,
                send_bps: 4e6,
                is_starting: false,
            }
        }

        /// Offers as much as it may, or `offered` bytes a second, for so long.
        fn run(&mut self, bytes_per_second: f64, offered: Option<f64>, time: Duration) {
            for _ in 0..time.as_millis() {
                self.now += MS;
                match offered {
                    Some(rate) => self.held += rate / 1e3,
                    None if !self.pressure.is_full() => self.held += 256e3,
                    None => {}
                }
                let sent = self.held.min(bytes_per_second / 1e3);
                (self.held, self.carried) = (self.held - sent, self.carried + sent);
                let flow = Flow {
                    send_bps: self.send_bps,
                    is_starting: self.is_starting,
                    round_trip: 10 * MS,
                    acknowledged_bytes: self.carried as u64,
                    held_bytes: self.held as u64,
                    ..Flow::default()
                };
                self.pressure.look(self.now, SessionId(1), || flow);
            }
        }

        fn believes(&self) -> f64 {
            self.pressure.rate_bps() / 8.0
        }
    }

    #[test]
    fn a_link_that_makes_us_wait_is_measured_and_a_change_is_noticed_within_a_second() {
        let mut link = Link::new();
        for rate in [1.25e6, 125e6, 12.5e6] {
            link.run(rate, None, 1_000 * MS);
            assert!(link.pressure.waits());
            assert!((0.9..1.1).contains(&(link.believes() / rate)), "{rate}: {}", link.believes());
        }
    }

    #[test]
    fn a_source_slower_than_the_network_finds_that_it_never_waits_and_what_is_believed_grows() {
        let mut link = Link::new();
        link.run(125e6, Some(5e6), 1_500 * MS);
        assert!(!link.pressure.waits());
        let before = link.believes();
        link.run(125e6, Some(5e6), 2_000 * MS);
        assert!(link.believes() > 10.0 * before, "{before} {}", link.believes());
    }

    /// The session has something to send all the time, but its own care is what makes that wait.
    #[test]
    fn a_session_that_still_doubles_its_rate_is_believed_to_carry_more_soon() {
        let mut link = Link::new();
        link.is_starting = true;
        for rate in [0.5e6, 1e6, 2e6] {
            link.send_bps = 8.0 * rate;
            link.run(rate, None, 100 * MS);
            assert!(link.pressure.waits());
            assert_eq!(link.believes(), SOON * rate);
        }
        // It carries no more than before, although it may send more.
        link.send_bps = 8.0 * 8e6;
        link.run(2e6, None, 500 * MS);
        assert!((0.9..1.1).contains(&(link.believes() / 2e6)), "{}", link.believes());
    }

    #[test]
    fn what_waits_in_front_of_a_slow_link_is_bounded_in_time() {
        let mut link = Link::new();
        link.run(1.25e6, None, 3_000 * MS);
        assert!(link.held < 1.25e6 * 0.4, "{} bytes wait", link.held);
    }

    #[test]
    fn less_waits_as_long_as_it_is_not_known_what_the_network_carries() {
        let most_seconds = |is_starting| {
            let mut link = Link::new();
            (link.send_bps, link.is_starting) = (80e6, is_starting);
            link.run(10e6, None, 500 * MS);
            let is_full = |held: &u64| {
                link.pressure.flow.held_bytes = *held;
                link.pressure.is_full()
            };
            let full = (0..).step_by(10_000).find(is_full).expect("at some time it is full");
            (full as f64 - LEAST_QUEUE) / 10e6 - 0.01
        };
        assert!((0.03..0.032).contains(&most_seconds(true)), "{}", most_seconds(true));
        assert!((0.09..0.11).contains(&most_seconds(false)), "{}", most_seconds(false));
    }
}
