//! How much may be under way to and from one I/O node: a multiple of what its paths hold.

use std::time::Duration;

use fec_transport::{SessionId, Time};

use super::ClientConfig;
use super::context::Context;
use crate::transport::Transport;

/// The window over what the paths hold. Twice that would do if all of a transfer were on the way for as long as it is
/// counted; but its stream begins with little credit, which doubles with every round trip, and its reply takes another
/// round trip (design §8, docs/decisions/windows.md).
const WINDOW_OVER_HELD: f64 = 6.0;

/// How often the paths are looked at.
const INTERVAL: Duration = Duration::from_millis(100);

/// The window of one I/O node.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Window {
    /// What was found last, and when; none before the first look.
    looked: Option<Look>,
    bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Look {
    at: Time,
    session: SessionId,
    received_bytes: u64,
}

impl Window {
    /// Its size in bytes: a multiple of the product of bandwidth and delay, in the direction that has more of it,
    /// within the config's limits.
    pub(super) fn bytes(
        &mut self,
        context: &Context<'_, impl Transport>,
        session: SessionId,
        config: &ClientConfig,
    ) -> u64 {
        let before = self.looked.filter(|look| look.session == session);
        if before.is_none_or(|look| context.since(look.at) >= INTERVAL) {
            let flow = context.flow(session);
            let since = before.map_or(Duration::ZERO, |look| context.since(look.at)).as_secs_f64();
            let received = before.map_or(0, |look| flow.received_bytes.saturating_sub(look.received_bytes));
            let received_rate = if since > 0.0 { received as f64 / since } else { 0.0 };
            let held = (flow.send_bps / 8.0).max(received_rate) * flow.round_trip.as_secs_f64();
            // A product that no number can tell is beyond every limit.
            self.bytes =
                ((WINDOW_OVER_HELD * held) as u64).clamp(config.least_window_bytes(), config.window_bytes);
            self.looked = Some(Look { at: context.now(), session, received_bytes: flow.received_bytes });
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Network;
    use fec_transport::overlay::MemberId;

    #[test]
    fn the_window_is_a_multiple_of_what_the_paths_hold_within_its_limits() {
        let mut network = Network::new(&["client", "io1"], 1);
        let (config, session) = (ClientConfig::default(), SessionId(1));
        let (mut window, mut now) = (Window::default(), Time::ZERO);
        // 1 Gbit/s at 200 ms holds 25 MB.
        for (bps, expected) in
            [(0.0, config.least_window_bytes()), (1e9, 150_000_000), (1e15, config.window_bytes)]
        {
            network.flow.send_bps = bps;
            network.flow.round_trip = Duration::from_millis(200);
            now += INTERVAL;
            let mut port = network.port(MemberId(0));
            assert_eq!(window.bytes(&Context::new(now, &mut port), session, &config), expected);
        }
        // What comes counts as well: 10 MB within 100 ms.
        network.flow = crate::transport::Flow { received_bytes: 10_000_000, send_bps: 0.0, ..network.flow };
        let mut port = network.port(MemberId(0));
        let bytes = window.bytes(&Context::new(now + INTERVAL, &mut port), session, &config);
        assert_eq!(bytes, 120_000_000);
    }
}
